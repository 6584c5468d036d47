/* template_value: the values of a template, as Python has them, and how they are made.
 *
 * Owns:     nothing; the run owns what values point to (template_run).
 * Thread:   that of the run.
 * Cost:     charged to the run; no recursion: containers know their depth, which is bounded.
 * Not here: strings (template_string), comparing and parts (template_parts), text (template_text).
 *
 * Lists, tuples and dicts do not change once they are made, as in jinja2's immutable sandbox. So
 * no container holds itself. Namespaces change; they count as one value wherever they are held.
 *
 * A string is a list of pieces (template_run.pieces[first … first + count)), none of them empty.
 * For all other kinds `is_own` says whose the value is, and so whose the bytes are that it prints.
 */
#pragma once

#include "engine/text/template_run.h"

enum template_kind {
    TEMPLATE_ABSENT, /* an argument that was not given; never on the stack */
    TEMPLATE_UNDEFINED,
    TEMPLATE_NONE,
    TEMPLATE_BOOL,
    TEMPLATE_INTEGER,
    TEMPLATE_BIG, /* an integer beyond 64 bits: its digits, as a string's pieces */
    TEMPLATE_FLOAT,
    TEMPLATE_STRING,
    TEMPLATE_LIST,
    TEMPLATE_TUPLE,
    TEMPLATE_DICT,
    TEMPLATE_RANGE,    /* items as of a list */
    TEMPLATE_VIEW,     /* of a dict: its keys, values or items */
    TEMPLATE_ITERATOR, /* what a filter such as map makes: can be gone through once */
    TEMPLATE_NAMESPACE,
    TEMPLATE_LOOP,     /* the variable `loop` */
    TEMPLATE_MACRO,    /* count: its number */
    TEMPLATE_FUNCTION, /* count: its number */
    TEMPLATE_METHOD,   /* count: its number; items: the one value that it belongs to */
};

struct template_items;
struct template_namespace;

struct template_value {
    uint8_t kind; /* enum template_kind */
    bool is_own;
    bool is_safe;   /* of a string: went through the filter safe, so that + escapes what it adds */
    uint32_t count; /* pieces of a string, elements of a container, number of a function */
    union {
        int64_t integer; /* also of a bool */
        double number;
        size_t first; /* of a string: its first piece */
        struct template_items *items;
        struct template_namespace *names;
        struct {
            uint32_t index; /* of a macro's or loop's frame */
            uint32_t serial;
        } frame;
    };
};

/* Of a dict: name, value, name, value … */
struct template_items {
    uint32_t count; /* values */
    uint32_t depth; /* of containers, this one included */
    bool is_spent;  /* of an iterator */
    struct template_value values[];
};

struct template_namespace {
    uint32_t count; /* pairs */
    uint32_t capacity;
    struct template_value *pairs;
};

static inline struct template_value template_value_bool(bool is_true)
{
    return (struct template_value){.kind = TEMPLATE_BOOL, .is_own = true, .integer = is_true};
}

static inline struct template_value template_value_integer(int64_t integer)
{
    return (struct template_value){.kind = TEMPLATE_INTEGER, .is_own = true, .integer = integer};
}

static inline bool template_value_is_small_number(struct template_value value)
{
    return value.kind == TEMPLATE_BOOL || value.kind == TEMPLATE_INTEGER ||
           value.kind == TEMPLATE_FLOAT;
}

/* Whether it has elements that an index finds: a list, a tuple, a range. */
bool template_value_is_sequence(struct template_value value);

/* Makes a container of `count` elements (of a dict: pairs), which the caller then sets in
 * (*out).items->values. template_value_close must follow. */
enum status template_value_open(struct template_run *run, enum template_kind kind, size_t count,
                                struct template_value *out);
/* Finds the depth of a container whose elements are set, and whose it is. TEMPLATE_LIMIT. */
enum status template_value_close(struct template_run *run, struct template_value *value);
/* Both, with copies of `values`. */
enum status template_value_make(struct template_run *run, enum template_kind kind,
                                const struct template_value *values, size_t count,
                                struct template_value *out);

bool template_value_is_true(struct template_value value);
/* "a list", "an undefined value" … for messages. */
const char *template_value_kind_name(struct template_value value);
