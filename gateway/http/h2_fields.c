#include "gateway/http/h2_fields.h"

enum { NUMBER_BITS_MAX = 35 }; /* libh2o refuses longer numbers */

static void number_end(struct h2_fields *fields)
{
    if (fields->number_kind == H2_FIELDS_NAME)
        fields->strings_left = fields->number == 0 ? 2 : 1;
    if (fields->number_kind == H2_FIELDS_LENGTH)
        fields->skip = fields->number;
    fields->number_kind = H2_FIELDS_NO_NUMBER;
}

static void number_begin(struct h2_fields *fields, enum h2_fields_number kind, uint8_t byte,
                         uint8_t mask)
{
    fields->number_kind = (uint8_t)kind;
    fields->number = byte & mask;
    fields->number_bits = 0;
    if (fields->number < mask)
        number_end(fields);
}

static void number_go_on(struct h2_fields *fields, uint8_t byte)
{
    if (fields->number_bits < NUMBER_BITS_MAX) {
        fields->number += (uint64_t)(byte & 0x7f) << fields->number_bits;
        fields->number_bits = (uint8_t)(fields->number_bits + 7);
    }
    if ((byte & 0x80) == 0)
        number_end(fields);
}

/* The first byte of a field says its form (RFC 7541, section 6). */
static void field_begin(struct h2_fields *fields, uint8_t byte)
{
    fields->count++;
    if ((byte & 0x80) != 0)
        number_begin(fields, H2_FIELDS_WHOLE, byte, 0x7f);
    else if ((byte & 0x40) != 0)
        number_begin(fields, H2_FIELDS_NAME, byte, 0x3f);
    else if ((byte & 0x20) != 0)
        number_begin(fields, H2_FIELDS_WHOLE, byte, 0x1f);
    else
        number_begin(fields, H2_FIELDS_NAME, byte, 0x0f);
}

bool h2_fields_count(struct h2_fields *fields, const uint8_t *bytes, size_t length, uint32_t limit)
{
    size_t at = 0;
    while (at < length && fields->count <= limit) {
        if (fields->skip > 0) {
            uint64_t step = fields->skip < length - at ? fields->skip : length - at;
            fields->skip -= step;
            at += (size_t)step;
            continue;
        }
        uint8_t byte = bytes[at++];
        if (fields->number_kind != H2_FIELDS_NO_NUMBER) {
            number_go_on(fields, byte);
        } else if (fields->strings_left > 0) {
            fields->strings_left--;
            number_begin(fields, H2_FIELDS_LENGTH, byte, 0x7f);
        } else {
            field_begin(fields, byte);
        }
    }
    return fields->count <= limit;
}
