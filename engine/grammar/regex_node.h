/* regex_node: what a pool of regexes is made of, for the files that work on it.
 *
 * Owns:     the layout. regex.c makes and frees it.
 * Thread:   that of the pool.
 * Not here: what the operations mean (regex.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/grammar/byte_set.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/regex_types.h"

enum regex_op {
    REGEX_OP_NONE,
    REGEX_OP_EMPTY,
    REGEX_OP_SET, /* a: of pool->sets */
    REGEX_OP_CAT, /* a is no CAT, so that a chain leans to the right */
    REGEX_OP_OR,  /* b children from pool->children[a] on, which rise */
    REGEX_OP_AND, /* the same */
    REGEX_OP_NOT,
    REGEX_OP_REP, /* a, from min to max times */
    REGEX_OP_MOD, /* a: divisor, min: remainder of the digits so far, max: what it must be */
};

enum {
    REGEX_NULLABLE = 1,  /* matches the empty text */
    REGEX_SURE = 2,      /* matches some text, as far as is known */
    REGEX_IMPOSSIBLE = 4 /* matches no text, as far as is known */
};

struct regex_node {
    uint8_t op;
    uint8_t flags;
    uint16_t depth; /* operations that a derivative goes through, one in the other */
    uint32_t a;
    uint32_t b;
    uint32_t min;
    uint32_t max;
    uint32_t chars; /* class of which it holds each character by itself, or REGEX_RUN_NONE */
    uint32_t seen;  /* the search that met it last */
    uint32_t call;  /* the call in which `result` was made */
    regex_node_id result;
};

struct regex_chars_class {
    uint32_t first; /* of pool->ranges */
    uint32_t count;
};

struct regex_pool {
    struct grammar_fuel *fuel; /* NULL: no bound */
    enum status status;
    struct byte_set missing;
    struct regex_node *nodes;
    uint32_t node_count;
    uint32_t node_capacity;
    uint32_t *buckets; /* node ids by hash, 0 is free; a power of two, twice the nodes and more */
    uint32_t bucket_count;
    struct byte_set *sets;
    uint32_t set_count;
    uint32_t set_capacity;
    uint32_t *set_buckets; /* indices + 1 */
    uint32_t set_bucket_count;
    uint32_t *children;
    uint32_t child_count;
    uint32_t child_capacity;
    uint32_t *stack; /* scratch of all functions */
    uint32_t top;
    uint32_t stack_capacity;
    struct regex_range *ranges;
    uint32_t range_count;
    uint32_t range_capacity;
    struct regex_chars_class *classes;
    uint32_t class_count;
    uint32_t class_capacity;
    uint32_t calls;    /* of derivation and writing, for `call` */
    uint32_t searches; /* for `seen` */
};

static inline bool regex_node_is(const struct regex_pool *pool, regex_node_id id, uint8_t flag)
{
    return (pool->nodes[id].flags & flag) != 0;
}

/* Makes room for `wanted` items in an array that doubles. False without memory. */
bool regex_room(void **items, uint32_t *capacity, uint32_t wanted, size_t size);
/* Latches the failure and returns REGEX_NONE. */
regex_node_id regex_fail(struct regex_pool *pool, enum status status, const char *message);
/* Spends steps; false when the pool has failed. */
bool regex_spend(struct regex_pool *pool, uint64_t steps);
void regex_push(struct regex_pool *pool, uint32_t value);
/* OR or AND of what stands on the stack from `base` on; takes it off. */
regex_node_id regex_join(struct regex_pool *pool, enum regex_op op, uint32_t base);
/* The OR of what stands on the stack. If one of it is a class of characters and the others begin
 * with other bytes, the OR still holds each character of that class by itself, which is noted. */
regex_node_id regex_chars_or(struct regex_pool *pool, uint32_t base);
/* A number for `call` that no node has. */
uint32_t regex_call(struct regex_pool *pool);
/* Notes for `to`, which is `from` written with only `plain` bytes as they are, the characters that
 * it still holds each by itself. */
void regex_chars_written(struct regex_pool *pool, const struct byte_set *plain, regex_node_id from,
                         regex_node_id to);
/* Writes the classes of repetitions below the roots, those of at least REGEX_CHARS_LARGE
 * characters, and returns their number, at most `capacity`. */
enum { REGEX_CHARS_LARGE = 24 };
uint32_t regex_chars_repeated(struct regex_pool *pool, const regex_node_id *roots, size_t count,
                              uint32_t *chars, uint32_t capacity);
