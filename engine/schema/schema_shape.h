/* schema_shape: one alternative of a value, with a description for each type.
 *
 * Owns:     nothing; shapes and lists lie in the memory of the compilation.
 * Thread:   that of the compilation.
 * Not here: how claims become shapes (schema_merge), how shapes become rules (schema_write).
 *
 * While branches are merged, a shape collects cells for arrays and objects, newest first. When a
 * branch is whole, schema_array and schema_object work the cells out to `items` and `members`.
 */
#pragma once

#include "engine/grammar/regex.h"
#include "engine/schema/schema.h"
#include "engine/schema/schema_decimal.h"

struct schema_range {
    schema_decimal low;
    schema_decimal high;
    bool is_low_open; /* the bound itself is outside */
    bool is_high_open;
};
#define SCHEMA_RANGE_ALL                                                                           \
    ((struct schema_range){.low = -SCHEMA_DECIMAL_MOST, .high = SCHEMA_DECIMAL_MOST})

enum schema_array_cell {
    SCHEMA_ITEMS,       /* a: a schema with items, prefixItems, additionalItems */
    SCHEMA_ITEMS_EQUAL, /* a: an array that it equals */
    SCHEMA_ITEM_AT,     /* a: position; b: claim about the item there */
    SCHEMA_ITEM_SOME,   /* a: position from which on some item holds claim b */
};

enum schema_object_cell {
    SCHEMA_MEMBERS,       /* a: a schema with properties, patternProperties, … */
    SCHEMA_MEMBERS_EQUAL, /* a: an object that it equals */
    SCHEMA_MEMBER,        /* a: a name; b: claim about its value, if the name is there */
    SCHEMA_REQUIRED,      /* a: a name */
    SCHEMA_FORBIDDEN,     /* a: a name */
    SCHEMA_NAMES,         /* b: claim about each name */
    SCHEMA_SOME_LIKE,     /* a: a pattern; b: claim about the value of some name that matches it */
    SCHEMA_SOME_OTHER,    /* a: a schema; b: claim about some value that is neither in its
                             properties nor in its patternProperties */
    SCHEMA_SOME_NAME,     /* b: claim about some name */
};

struct schema_item_value {
    uint32_t index;
    schema_set_id set;
};

struct schema_items {
    schema_set_id *at; /* the first `count` items */
    uint32_t count;
    schema_set_id rest;
    uint32_t min;
    uint32_t max;
    schema_set_id some;               /* an item that must come, or SCHEMA_SET_ANY */
    bool is_free;                     /* any array */
    struct schema_item_value *values; /* that may come, once each, with uniqueItems */
    uint32_t value_count;
    uint8_t literals;    /* types of null and booleans that may come, once each */
    regex_node_id texts; /* strings that may come, once each, or REGEX_NONE; then no others may */
};

struct schema_member_of {
    uint32_t name; /* index of its text */
    schema_set_id set;
    bool is_required;
};

struct schema_key_class {
    regex_node_id names; /* the names' characters, without escapes and quotes */
    schema_set_id set;
};

struct schema_members {
    struct schema_member_of *named; /* in the order in which they are written */
    uint32_t count;
    struct schema_key_class *classes; /* names without a place of their own */
    uint32_t class_count;
    bool has_some; /* one member of the class `some` must come, and no other without a place */
    struct schema_key_class some;
    uint32_t min;
    uint32_t max;
    bool is_free; /* any object */
};

struct schema_shape {
    struct schema_shape *next;
    uint8_t types;
    uint32_t unique;          /* uniqueItems, or 0 */
    regex_node_id characters; /* of a string, without escapes and quotes */
    uint32_t length_min;
    uint32_t length_max;
    struct schema_range range;
    regex_node_id number; /* of the text of a number; SCHEMA_REGEX_UNKNOWN: any */
    uint32_t values;      /* an enum or a const that it was merged from, or 0 */
    uint32_t items_min;
    uint32_t items_max;
    uint32_t members_min;
    uint32_t members_max;
    const struct schema_cell *array;
    const struct schema_cell *object;
    struct schema_items *items;
    struct schema_members *members;
};
