#include "engine/schema/schema_string.h"

#include "engine/grammar/regex_parse.h"
#include "engine/schema/schema_number.h"
#include "engine/schema/schema_text.h"

/* --- lengths --- */

static enum status count_read(struct schema *schema, uint32_t index, uint32_t *out)
{
    schema_decimal value = -1;
    enum json_read_kind kind = schema_kind(schema, index);
    if (kind == JSON_READ_INTEGER || kind == JSON_READ_FLOAT)
        schema_decimal_read(json_read_text(schema_value(schema, index)), &value);
    if (value < 0 || !schema_decimal_is_integer(value))
        return schema_fail(schema, STATUS_INVALID, index, NULL, "An integer from 0 on is needed.");
    value /= SCHEMA_DECIMAL_ONE;
    *out = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX - 1;
    return STATUS_OK;
}

enum status schema_string_count_least(struct schema *schema, const struct schema_use *use,
                                      uint32_t *min)
{
    uint32_t count = 0;
    TRY(count_read(schema, use->value, &count));
    if (count > *min)
        *min = count;
    return STATUS_OK;
}

enum status schema_string_count_least_not(struct schema *schema, const struct schema_use *use,
                                          uint32_t *max, bool *is_dead)
{
    uint32_t count = 0;
    TRY(count_read(schema, use->value, &count));
    *is_dead = count == 0;
    if (count > 0 && count - 1 < *max)
        *max = count - 1;
    return STATUS_OK;
}

enum status schema_string_count_most(struct schema *schema, const struct schema_use *use,
                                     uint32_t *max)
{
    uint32_t count = 0;
    TRY(count_read(schema, use->value, &count));
    if (count < *max)
        *max = count;
    return STATUS_OK;
}

enum status schema_string_count_most_not(struct schema *schema, const struct schema_use *use,
                                         uint32_t *min)
{
    uint32_t count = 0;
    TRY(count_read(schema, use->value, &count));
    if (count + 1 > *min)
        *min = count + 1;
    return STATUS_OK;
}

enum status schema_string_min_length(struct schema_work *work, struct schema_branch *branch,
                                     const struct schema_use *use)
{
    return schema_string_count_least(work->schema, use, &branch->shape.length_min);
}

enum status schema_string_min_length_not(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    return schema_string_count_least_not(work->schema, use, &branch->shape.length_max,
                                         &branch->is_dead);
}

enum status schema_string_max_length(struct schema_work *work, struct schema_branch *branch,
                                     const struct schema_use *use)
{
    return schema_string_count_most(work->schema, use, &branch->shape.length_max);
}

enum status schema_string_max_length_not(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    return schema_string_count_most_not(work->schema, use, &branch->shape.length_min);
}

/* --- pattern --- */

enum status schema_string_parse(struct schema *schema, uint32_t index, regex_node_id *out)
{
    if (schema_kind(schema, index) != JSON_READ_STRING)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "A text is needed.");
    *out = schema->patterns[index];
    if (*out != SCHEMA_REGEX_UNKNOWN)
        return STATUS_OK;
    struct regex_error error;
    enum status status = regex_parse(schema->regexes, json_read_text(schema_value(schema, index)),
                                     REGEX_SEARCH, out, &error);
    if (status != STATUS_OK)
        return schema_fail(schema, status, index, NULL, "%s", error.message);
    *out = regex_and(schema->regexes, *out, schema->text->any_characters);
    schema->patterns[index] = *out;
    return STATUS_OK;
}

enum status schema_string_pattern(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use)
{
    regex_node_id regex;
    TRY(schema_string_parse(work->schema, use->value, &regex));
    branch->shape.characters = regex_and(work->schema->regexes, branch->shape.characters, regex);
    return STATUS_OK;
}

enum status schema_string_pattern_not(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    regex_node_id regex;
    TRY(schema_string_parse(work->schema, use->value, &regex));
    branch->shape.characters = regex_and(work->schema->regexes, branch->shape.characters,
                                         regex_not(work->schema->regexes, regex));
    return STATUS_OK;
}

/* --- format --- */

static const struct format {
    const char *name;
    const char *regex; /* NULL: a number, or a note */
    uint32_t bits;
} formats[] = {
#define SCHEMA_FORMAT(name, regex)     {name, regex, 0},
#define SCHEMA_FORMAT_BITS(name, bits) {name, NULL, bits},
#define SCHEMA_FORMAT_NOTE(name)       {name, NULL, 0},
#include "engine/schema/schema_formats.def"
#undef SCHEMA_FORMAT
#undef SCHEMA_FORMAT_BITS
#undef SCHEMA_FORMAT_NOTE
};

_Static_assert(sizeof formats / sizeof formats[0] <= SCHEMA_FORMATS_MOST, "schema->formats");

/* Returns the row, or NULL for a format that has no effect. */
static enum status find_format(struct schema *schema, uint32_t index, const struct format **out)
{
    *out = NULL;
    if (schema_kind(schema, index) != JSON_READ_STRING)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "A text is needed.");
    struct slice name = json_read_text(schema_value(schema, index));
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (slice_is(name, formats[i].name)) {
            *out = formats[i].regex != NULL || formats[i].bits != 0 ? &formats[i] : NULL;
            return STATUS_OK;
        }
    }
    if (schema->options->strict)
        return schema_fail(schema, STATUS_UNSUPPORTED, index, NULL,
                           "The format is not known, and strict is true.");
    return STATUS_OK;
}

static enum status format_regex(struct schema *schema, const struct format *format, uint32_t index,
                                regex_node_id *out)
{
    regex_node_id *kept = &schema->formats[format - formats];
    if (*kept == SCHEMA_REGEX_UNKNOWN) {
        struct regex_error error;
        enum status status =
            regex_parse(schema->regexes, slice_of(format->regex), REGEX_WHOLE, kept, &error);
        if (status != STATUS_OK)
            return schema_fail(schema, status, index, NULL, "%s", error.message);
    }
    *out = *kept;
    return STATUS_OK;
}

enum status schema_string_format(struct schema_work *work, struct schema_branch *branch,
                                 const struct schema_use *use)
{
    struct schema *schema = work->schema;
    const struct format *format;
    TRY(find_format(schema, use->value, &format));
    if (format == NULL)
        return STATUS_OK;
    if (format->bits != 0) {
        schema_number_bits(&branch->shape, format->bits);
        return STATUS_OK;
    }
    regex_node_id regex;
    TRY(format_regex(schema, format, use->value, &regex));
    branch->shape.characters = regex_and(schema->regexes, branch->shape.characters, regex);
    return STATUS_OK;
}

/* Only texts are said to break a format: for numbers it is a note. */
enum status schema_string_format_not(struct schema_work *work, struct schema_branch *branch,
                                     const struct schema_use *use)
{
    struct schema *schema = work->schema;
    const struct format *format;
    TRY(find_format(schema, use->value, &format));
    branch->shape.types &= SCHEMA_STRING;
    branch->is_dead = format == NULL || format->bits != 0 || branch->shape.types == 0;
    if (branch->is_dead)
        return STATUS_OK;
    regex_node_id regex;
    TRY(format_regex(schema, format, use->value, &regex));
    branch->shape.characters =
        regex_and(schema->regexes, branch->shape.characters, regex_not(schema->regexes, regex));
    return STATUS_OK;
}

/* --- shapes --- */

regex_node_id schema_string_characters(struct schema *schema, const struct schema_shape *shape)
{
    if (shape->length_min == 0 && shape->length_max == UINT32_MAX)
        return shape->characters;
    uint32_t max = shape->length_max == UINT32_MAX ? REGEX_UNBOUNDED : shape->length_max;
    regex_node_id lengths =
        regex_repeat(schema->regexes, schema->text->any_character, shape->length_min, max);
    return shape->characters == schema->text->any_characters
               ? lengths
               : regex_and(schema->regexes, shape->characters, lengths);
}

enum status schema_string_settle(struct schema *schema, struct schema_shape *shape)
{
    if ((shape->types & SCHEMA_STRING) == 0)
        return STATUS_OK;
    bool is_empty = shape->length_min > shape->length_max;
    if (!is_empty && shape->characters != schema->text->any_characters) {
        TRY(schema_spend(schema, 4));
        is_empty = schema_text_is_empty(schema, schema_string_characters(schema, shape));
    }
    if (is_empty)
        shape->types &= (uint8_t)~SCHEMA_STRING;
    return STATUS_OK;
}
