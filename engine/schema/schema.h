/* schema: one compilation of a JSON Schema, and what all its parts share.
 *
 *     schema text ── json_read ──► claims ── schema_merge ──► shapes ── schema_write ──► rules
 *
 * Owns:     the JSON text's tree, the memory of a compilation, its sets of claims.
 * Thread:   that of the compilation.
 * Cost:     a step of fuel for each claim, cell, name and branch that is looked at.
 * Not here: what keywords mean (schema_keywords.def and the file of each group).
 *
 * A value of the answer is described by a *set* of claims: "it is valid under the schema at #/a",
 * "it is not valid under #/b", "it equals #/c/const". Sets are interned, so recursion ends in a set
 * that is known, and each set becomes one rule. Merging works a set out to *shapes*: alternatives
 * in which each type has its own description. The parts of a shape are sets again.
 *
 *     {"allOf": [{"$ref": "#/$defs/a"}], "properties": {"x": {"minimum": 3}}}
 *     the set {valid #} has one shape: an object whose x is described by the set
 *     {valid #/$defs/a/properties/x, valid #/properties/x}
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/json_read.h"
#include "config/base/slice.h"
#include "engine/grammar/grammar.h"
#include "engine/schema/constraint_types.h"

/* Types of a value, a bit each. */
enum {
    SCHEMA_NULL = 1,
    SCHEMA_FALSE = 2,
    SCHEMA_TRUE = 4,
    SCHEMA_INTEGER = 8,
    SCHEMA_FRACTION = 16, /* numbers that are no integers */
    SCHEMA_STRING = 32,
    SCHEMA_ARRAY = 64,
    SCHEMA_OBJECT = 128,
    SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_FRACTION,
    SCHEMA_BOOLEAN = SCHEMA_FALSE | SCHEMA_TRUE,
    SCHEMA_ALL = 255
};

/* What is said about a value. The index is that of a value of the schema's text. */
enum schema_claim_kind {
    SCHEMA_VALID,     /* it is valid under the schema at the index */
    SCHEMA_NOT_VALID, /* it is not */
    SCHEMA_EQUAL,     /* it equals the value at the index */
    SCHEMA_NOT_EQUAL,
    SCHEMA_REST, /* it is valid under a schema's keywords from the name at the index on */
    /* Choices: one of several things holds. */
    SCHEMA_SOME,         /* it is valid under a schema of the array at the index */
    SCHEMA_SOME_NOT,     /* it is not valid under a schema of the array at the index */
    SCHEMA_ONE,          /* it is valid under one schema of the array at the index alone */
    SCHEMA_NOT_ONE,      /* it is not */
    SCHEMA_IF,           /* it holds what `if`, `then` and `else` of the object at the index say */
    SCHEMA_NOT_IF,       /* it does not */
    SCHEMA_DENY,         /* it breaks a keyword of the object at the index */
    SCHEMA_DEPEND,       /* it holds the dependency whose name is at the index */
    SCHEMA_ENUM,         /* it equals a value of the array at the index */
    SCHEMA_NOT_EQUAL_IN, /* it differs from the array or object at the index */
    SCHEMA_CLAIM_KINDS
};

/* A claim is its index and its kind in one number. */
typedef uint32_t schema_claim;

static inline schema_claim schema_claim_of(enum schema_claim_kind kind, uint32_t index)
{
    return index << 4 | (uint32_t)kind;
}
static inline enum schema_claim_kind schema_claim_kind_of(schema_claim claim)
{
    return (enum schema_claim_kind)(claim & 15);
}
static inline uint32_t schema_claim_index(schema_claim claim)
{
    return claim >> 4;
}
/* VALID and NOT_VALID are each other's contrary, and so are EQUAL and NOT_EQUAL. */
static inline bool schema_claim_has_contrary(schema_claim claim)
{
    return (claim & 15) <= SCHEMA_NOT_EQUAL;
}
static inline bool schema_claim_is_choice(schema_claim claim)
{
    return (claim & 15) > SCHEMA_REST;
}
static inline schema_claim schema_claim_contrary(schema_claim claim)
{
    return claim ^ 1;
}

/* Lists that branches share: a longer list points into the shorter one. */
struct schema_cell {
    const struct schema_cell *next;
    uint32_t kind;
    uint32_t a;
    uint32_t b;
};

typedef uint32_t schema_set_id;

enum {
    SCHEMA_SET_ANY = 0,  /* any value */
    SCHEMA_SET_NONE = 1, /* no value */
};

struct schema_shape;

enum schema_set_state { SCHEMA_SET_NEW, SCHEMA_SET_MERGING, SCHEMA_SET_MERGED };

struct schema_set {
    const schema_claim *claims;
    uint32_t count;
    uint8_t state; /* enum schema_set_state */
    bool is_reached;
    bool is_productive; /* some finite value matches */
    grammar_symbol symbol;
    struct schema_shape *shapes; /* a list, in the order of the text */
    struct schema_shape *last;
    uint32_t shape_count;
};

struct schema_block;

struct schema {
    const struct constraint_options *options;
    struct constraint_error *error;
    struct grammar_builder *builder;
    struct regex_pool *regexes;
    struct grammar_fuel *fuel;
    struct json_read json;
    struct schema_block *blocks; /* memory that is freed at the end */
    size_t bytes;
    struct schema_set *sets;
    uint32_t set_count;
    uint32_t set_capacity;
    uint32_t *buckets; /* set ids by hash of their claims */
    uint32_t bucket_count;
    struct schema_ref *refs; /* schema_ref: names of resources and anchors */
    uint32_t ref_count;
    regex_node_id *patterns;  /* [json.count] regexes of patterns, REGEX_UNKNOWN before */
    regex_node_id *formats;   /* by row of schema_formats.def */
    struct schema_text *text; /* schema_text: regexes and lexemes that all values share */
    grammar_symbol any_value; /* schema_any, made when they are needed */
    grammar_symbol any_array;
    grammar_symbol any_object;
    uint32_t nesting;    /* merges that look at other sets, inside each other */
    uint32_t order_sets; /* sets of names that objects may still tell apart (schema_write_object) */
    /* schema_merge_look, for files that schema_merge uses */
    enum status (*look)(struct schema *schema, schema_set_id set, uint32_t depth, bool *is_empty);
    bool is_narrowed;  /* an alternative was left out because it cannot be written */
    uint32_t narrowed; /* where it stands */
};

#define SCHEMA_REGEX_UNKNOWN UINT32_MAX
enum { SCHEMA_FORMATS_MOST = 64 };

static inline const struct json_read_value *schema_value(const struct schema *schema,
                                                         uint32_t index)
{
    return &schema->json.values[index];
}
static inline enum json_read_kind schema_kind(const struct schema *schema, uint32_t index)
{
    return (enum json_read_kind)schema->json.values[index].kind;
}
/* Returns the index of the member `name` of the object at `object`, or 0. */
uint32_t schema_member(const struct schema *schema, uint32_t object, const char *name);
uint32_t schema_member_slice(const struct schema *schema, uint32_t object, struct slice name);

/* Notes that what stands at `index` is narrowed to less than it allows. */
static inline void schema_narrow(struct schema *schema, uint32_t index)
{
    schema->is_narrowed = true;
    schema->narrowed = index;
}

/* Zeroed memory of this compilation, or NULL: LIMIT or NO_MEMORY, which schema_no_room says. */
void *schema_take(struct schema *schema, size_t bytes);
enum status schema_no_room(struct schema *schema);
enum status schema_spend(struct schema *schema, uint32_t steps);
/* Puts a cell in front of a list. */
enum status schema_cell_push(struct schema *schema, const struct schema_cell **list, uint32_t kind,
                             uint32_t a, uint32_t b);

/* Returns the set of these claims, without those that stand twice. */
enum status schema_set_of(struct schema *schema, const schema_claim *claims, uint32_t count,
                          schema_set_id *out);

/* Fails with the path of the value at `index`. `keyword` NULL: the last name of the path. */
enum status schema_fail(struct schema *schema, enum status status, uint32_t index,
                        const char *keyword, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reads the source and takes what a compilation needs. schema_end frees it in any case. */
enum status schema_begin(struct schema *schema, struct grammar_builder *builder,
                         struct slice source, const struct constraint_options *options,
                         struct constraint_error *error);
void schema_end(struct schema *schema);
