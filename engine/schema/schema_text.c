#include "engine/schema/schema_text.h"

#include "config/base/limits_schema.h"

enum {
    WHOLE = LIMIT_JSON_INTEGER_DIGITS,
    PARTS = LIMIT_JSON_FRACTION_DIGITS,
    EXPONENT = 2, /* digits */
};

regex_node_id schema_text_of(struct schema *schema, const char *text)
{
    return regex_text(schema->regexes, slice_of(text));
}

static regex_node_id one_of(struct schema *schema, const char *bytes)
{
    struct byte_set set = {0};
    for (; *bytes != '\0'; bytes++)
        byte_set_add(&set, (uint8_t)*bytes);
    return regex_bytes(schema->regexes, &set);
}

regex_node_id schema_text_digits(struct schema *schema, int low, int high)
{
    struct byte_set set = {0};
    for (int digit = low; digit <= high; digit++)
        byte_set_add(&set, (uint8_t)('0' + digit));
    return regex_bytes(schema->regexes, &set);
}

regex_node_id schema_text_cat3(struct schema *schema, regex_node_id a, regex_node_id b,
                               regex_node_id c)
{
    return regex_cat(schema->regexes, a, regex_cat(schema->regexes, b, c));
}

bool schema_text_is_empty(struct schema *schema, regex_node_id regex)
{
    return regex_is_seen_empty(schema->regexes, regex, LIMIT_SCHEMA_EMPTY_STEPS);
}

static regex_node_id optional(struct schema *schema, regex_node_id node)
{
    return regex_or(schema->regexes, REGEX_EMPTY, node);
}

/* --- strings --- */

/* What a byte of a string is written as. */
static void make_writing(struct schema *schema, struct schema_text *text)
{
    static const struct {
        char byte;
        const char *escape;
    } shorts[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                  {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
    for (uint32_t byte = 0; byte < 256; byte++) {
        text->writing.other[byte] = REGEX_NONE;
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            byte_set_add(&text->writing.plain, (uint8_t)byte);
    }
    for (uint32_t byte = 0; byte < 0x20; byte++) {
        static const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";
        const char last[] = {digits[byte & 15], capitals[byte & 15], '\0'};
        text->writing.other[byte] =
            regex_cat(schema->regexes, schema_text_of(schema, byte < 16 ? "\\u000" : "\\u001"),
                      one_of(schema, last));
    }
    for (size_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++)
        text->writing.other[(uint8_t)shorts[i].byte] = schema_text_of(schema, shorts[i].escape);
}

static void make_strings(struct schema *schema, struct schema_text *text)
{
    static const struct regex_range all = {0, 0x10ffff};
    static const struct regex_range plain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};
    struct regex_pool *pool = schema->regexes;
    text->any_character = regex_chars(pool, &all, 1);
    text->any_characters = regex_repeat(pool, text->any_character, 0, REGEX_UNBOUNDED);
    text->quote = schema_text_of(schema, "\"");
    text->quoted_character = regex_chars(pool, plain, sizeof plain / sizeof plain[0]);
    for (uint32_t byte = 0; byte < 0x80; byte++)
        text->quoted_character = regex_or(pool, text->quoted_character, text->writing.other[byte]);
}

regex_node_id schema_text_string(struct schema *schema, regex_node_id characters)
{
    if (characters == schema->text->any_characters)
        return schema_text_any_string(schema, 0, UINT32_MAX);
    regex_node_id text = regex_write(schema->regexes, &schema->text->writing, characters);
    return schema_text_cat3(schema, schema->text->quote, text, schema->text->quote);
}

regex_node_id schema_text_any_string(struct schema *schema, uint32_t length_min,
                                     uint32_t length_max)
{
    uint32_t max = length_max == UINT32_MAX ? REGEX_UNBOUNDED : length_max;
    regex_node_id text =
        regex_repeat(schema->regexes, schema->text->quoted_character, length_min, max);
    return schema_text_cat3(schema, schema->text->quote, text, schema->text->quote);
}

/* --- numbers --- */

static void make_numbers(struct schema *schema, struct schema_text *text)
{
    struct regex_pool *pool = schema->regexes;
    text->digit = schema_text_digits(schema, 0, 9);
    text->zero = schema_text_of(schema, "0");
    regex_node_id minus = schema_text_of(schema, "-");
    regex_node_id point = schema_text_of(schema, ".");
    regex_node_id counted = regex_cat(pool, schema_text_digits(schema, 1, 9),
                                      regex_repeat(pool, text->digit, 0, WHOLE - 1));
    regex_node_id whole = regex_or(pool, text->zero, counted);
    regex_node_id parts = regex_cat(pool, point, regex_repeat(pool, text->digit, 1, PARTS));
    text->plain_magnitude = regex_cat(pool, whole, optional(schema, parts));
    text->any_integer =
        regex_or(pool, text->zero, regex_cat(pool, optional(schema, minus), counted));
    text->plain_number = regex_cat(pool, optional(schema, minus), text->plain_magnitude);
    regex_node_id zeros = regex_cat(pool, point, regex_repeat(pool, text->zero, 0, PARTS));
    regex_node_id integers =
        schema_text_cat3(schema, optional(schema, minus), whole, optional(schema, zeros));
    text->plain_fraction = regex_and(pool, text->plain_number, regex_not(pool, integers));
    regex_node_id exponent =
        schema_text_cat3(schema, one_of(schema, "eE"), optional(schema, one_of(schema, "+-")),
                         regex_repeat(pool, text->digit, 1, EXPONENT));
    text->any_number = regex_cat(pool, text->plain_number, optional(schema, exponent));
}

/* --- punctuation --- */

static regex_node_id make_blank(struct schema *schema)
{
    struct regex_pool *pool = schema->regexes;
    if (schema->options->disable_any_whitespace)
        return REGEX_EMPTY;
    regex_node_id indent = regex_repeat(pool, one_of(schema, " \t"), 0, LIMIT_JSON_INDENT);
    regex_node_id line = schema_text_cat3(schema, optional(schema, schema_text_of(schema, "\r")),
                                          schema_text_of(schema, "\n"), indent);
    return optional(schema, regex_or(pool, schema_text_of(schema, " "), line));
}

enum status schema_text_begin(struct schema *schema)
{
    struct schema_text *text = schema_take(schema, sizeof *text);
    if (text == NULL)
        return schema_no_room(schema);
    make_writing(schema, text);
    make_strings(schema, text);
    make_numbers(schema, text);
    text->blank = make_blank(schema);
    schema->text = text;
    return grammar_builder_status(schema->builder);
}

regex_node_id schema_text_mark(struct schema *schema, char mark)
{
    regex_node_id blank = schema->text->blank;
    regex_node_id text = regex_text(schema->regexes, (struct slice){&mark, 1});
    bool is_open = mark == '{' || mark == '[';
    bool is_close = mark == '}' || mark == ']';
    return schema_text_cat3(schema, is_open ? REGEX_EMPTY : blank, text,
                            is_close ? REGEX_EMPTY : blank);
}

regex_node_id schema_text_name(struct schema *schema, regex_node_id characters, bool has_comma)
{
    regex_node_id blank = schema->text->blank;
    regex_node_id colon = schema_text_cat3(schema, blank, schema_text_of(schema, ":"), blank);
    regex_node_id name = regex_cat(schema->regexes, schema_text_string(schema, characters), colon);
    return has_comma ? regex_cat(schema->regexes, schema_text_mark(schema, ','), name) : name;
}

/* --- many --- */

enum status schema_text_many_begin(struct schema *schema, uint32_t capacity,
                                   struct schema_text_many *many)
{
    many->count = 0;
    many->nodes = schema_take(schema, (capacity + 1) * sizeof(*many->nodes));
    return many->nodes == NULL ? schema_no_room(schema) : STATUS_OK;
}

void schema_text_many_add(struct schema_text_many *many, regex_node_id node)
{
    many->nodes[many->count++] = node;
}

regex_node_id schema_text_many_or(struct schema *schema, struct schema_text_many *many)
{
    return regex_or_many(schema->regexes, many->nodes, many->count);
}
