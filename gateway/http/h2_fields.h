/* h2_fields: counts the fields of an encoded HTTP/2 head without decoding it.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a few steps a field; strings are skipped. It stops at the limit.
 * Not here: the HPACK table and the fields themselves (libh2o), and what the count is for
 *           (h2_arrival).
 *
 * A field that is in the table takes one byte, so a frame of 16 KiB may have 16,000 fields, for
 * which libh2o needs more than a millisecond. Counting them first bounds the work for a head.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum h2_fields_number {
    H2_FIELDS_NO_NUMBER, /* a field or a string begins */
    H2_FIELDS_WHOLE,     /* the number is a whole field, or a change of the table's size */
    H2_FIELDS_NAME,      /* the number is the index of a name, or 0; a value follows */
    H2_FIELDS_LENGTH,    /* the number is the length of a string */
};

/* A block that comes in pieces. All zero = at its beginning. */
struct h2_fields {
    uint32_t count;       /* fields and changes of the table's size that have begun */
    uint8_t strings_left; /* of the field that has begun */
    uint8_t number_kind;  /* enum h2_fields_number: what goes on in the next byte */
    uint8_t number_bits;
    uint64_t number;
    uint64_t skip; /* bytes of the string that has begun */
};

/* Counts the fields of the block's next piece. False once there are more than `limit`. The count of
 * a block that HPACK does not allow means nothing: whoever decodes it refuses it. */
bool h2_fields_count(struct h2_fields *fields, const uint8_t *bytes, size_t length, uint32_t limit);
