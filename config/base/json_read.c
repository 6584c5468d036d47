#include "config/base/json_read.h"

#include <math.h>
#include <stdlib.h>

#include "config/base/hash.h"
#include "config/base/hex.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"

enum {
    READ_NONE = UINT32_MAX, /* no value is open */
    READ_NUMBER_BYTES = 4096,
};

/* What the grammar allows next. */
enum read_expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END,
    EXPECT_NAME,
    EXPECT_NAME_OR_END,
    EXPECT_MORE
};

struct read {
    struct json_read *json;
    const struct json_read_limits *limits;
    struct slice text;
    size_t at;
    uint32_t open; /* the innermost open array or object; its `next` is the one around it */
    uint32_t depth;
    enum read_expect expect;
    uint32_t *table; /* indices of names, by their hashes; READ_NONE in free places */
    uint32_t table_capacity;
};

static enum status read_refuse(const struct read *read, const char *what)
{
    FAIL(STATUS_INVALID, "the JSON text %s (byte %zu)", what, read->at + 1);
}

static enum status read_broken(const struct read *read)
{
    return read_refuse(read, "is not valid");
}

static char read_peek(const struct read *read)
{
    return read->at < read->text.length ? read->text.bytes[read->at] : '\0';
}

static struct json_read_value *read_add(struct read *read, enum json_read_kind kind)
{
    struct json_read *json = read->json;
    if (json->count == json->capacity) {
        uint32_t capacity = json->capacity == 0 ? 64 : json->capacity * 2;
        struct json_read_value *values = mem_realloc(json->values, capacity * sizeof(*values));
        if (values == NULL)
            return NULL;
        json->values = values;
        json->capacity = capacity;
    }
    struct json_read_value *value = &json->values[json->count++];
    *value = (struct json_read_value){.kind = kind, .next = json->count};
    return value;
}

/* Adds a value, within the limit. */
static enum status read_value(struct read *read, enum json_read_kind kind,
                              struct json_read_value **out)
{
    if (read->json->count == read->limits->values)
        FAIL(STATUS_LIMIT, "the JSON text has more than %u values", read->limits->values);
    *out = read_add(read, kind);
    if (*out == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for JSON");
    return STATUS_OK;
}

/* --- strings --- */

/* Reads the four digits of an escape at `at`. Returns -1 when they are not there. */
static int32_t string_unit(const struct read *read, size_t at)
{
    return at <= read->text.length ? hex_unit(read->text.bytes + at, read->text.length - at) : -1;
}

/* Reads an escape behind its backslash and writes its character to `out`. */
static enum status string_escape(struct read *read, char out[4], size_t *length)
{
    static const char pairs[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char c = read_peek(read);
    for (size_t i = 0; pairs[i] != '\0'; i += 2) {
        if (pairs[i] == c) {
            out[0] = pairs[i + 1];
            *length = 1;
            read->at++;
            return STATUS_OK;
        }
    }
    int32_t code = c == 'u' ? string_unit(read, read->at + 1) : -1;
    if (code < 0)
        return read_broken(read);
    if (code >= 0xdc00 && code <= 0xdfff)
        return read_refuse(read, "has half a surrogate pair");
    read->at += 5;
    if (code >= 0xd800 && code <= 0xdbff) {
        const char *second = read->text.bytes + read->at;
        bool is_escape = read->text.length - read->at >= 6 && second[0] == '\\' && second[1] == 'u';
        int32_t low = is_escape ? string_unit(read, read->at + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return read_refuse(read, "has half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        read->at += 6;
    }
    *length = utf8_encode((uint32_t)code, out);
    return STATUS_OK;
}

/* Moves behind characters that stand for themselves. */
static enum status string_plain(struct read *read)
{
    while (read->at < read->text.length) {
        unsigned char c = (unsigned char)read->text.bytes[read->at];
        if (c == '"' || c == '\\')
            return STATUS_OK;
        if (c < 0x20)
            return read_refuse(read, "has a control character in a string");
        size_t length = c < 0x80 ? 1
                                 : utf8_sequence_length(read->text.bytes + read->at,
                                                        read->text.length - read->at);
        if (length == 0)
            return read_refuse(read, "is not valid UTF-8");
        read->at += length;
    }
    return read_refuse(read, "ends inside a string");
}

/* Copies bytes of a string with escapes. All such strings together are shorter than the text. */
static enum status string_copy(struct read *read, const char *bytes, size_t length)
{
    struct json_read *json = read->json;
    if (json->strings == NULL)
        json->strings = mem_alloc(read->text.length);
    if (json->strings == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for JSON");
    memcpy(json->strings + json->strings_used, bytes, length);
    json->strings_used += length;
    return STATUS_OK;
}

/* Reads a string whose first quote was read. */
static enum status read_string(struct read *read)
{
    struct json_read_value *value = NULL;
    size_t begin = read->at;
    TRY(read_value(read, JSON_READ_STRING, &value));
    TRY(string_plain(read));
    value->bytes = read->text.bytes + begin;
    value->length = (uint32_t)(read->at - begin);
    if (read_peek(read) == '"') {
        read->at++;
        return STATUS_OK;
    }
    size_t first = read->json->strings_used;
    TRY(string_copy(read, value->bytes, value->length));
    while (read_peek(read) == '\\') {
        char bytes[4];
        size_t length = 0;
        read->at++;
        TRY(string_escape(read, bytes, &length));
        TRY(string_copy(read, bytes, length));
        begin = read->at;
        TRY(string_plain(read));
        TRY(string_copy(read, read->text.bytes + begin, read->at - begin));
    }
    read->at++;
    value->bytes = read->json->strings + first;
    value->length = (uint32_t)(read->json->strings_used - first);
    return STATUS_OK;
}

/* --- numbers and words --- */

static size_t number_digits(struct read *read)
{
    size_t begin = read->at;
    while (read_peek(read) >= '0' && read_peek(read) <= '9')
        read->at++;
    return read->at - begin;
}

static enum status read_number(struct read *read)
{
    struct json_read_value *value = NULL;
    size_t begin = read->at;
    enum json_read_kind kind = JSON_READ_INTEGER;
    read->at += read_peek(read) == '-';
    bool begins_with_zero = read_peek(read) == '0';
    size_t digits = number_digits(read);
    if (digits == 0 || (begins_with_zero && digits > 1))
        return read_broken(read);
    if (read_peek(read) == '.') {
        kind = JSON_READ_FLOAT;
        read->at++;
        if (number_digits(read) == 0)
            return read_broken(read);
    }
    if ((read_peek(read) | 0x20) == 'e') {
        kind = JSON_READ_FLOAT;
        read->at++;
        read->at += read_peek(read) == '-' || read_peek(read) == '+';
        if (number_digits(read) == 0)
            return read_broken(read);
    }
    if (read->at - begin > READ_NUMBER_BYTES)
        return read_refuse(read, "has a number that is too long");
    TRY(read_value(read, kind, &value));
    value->bytes = read->text.bytes + begin;
    value->length = (uint32_t)(read->at - begin);
    return STATUS_OK;
}

static enum status read_word(struct read *read)
{
    static const struct {
        struct slice word;
        enum json_read_kind kind;
    } words[] = {{{"null", 4}, JSON_READ_NULL},
                 {{"true", 4}, JSON_READ_TRUE},
                 {{"false", 5}, JSON_READ_FALSE}};
    struct slice rest = {read->text.bytes + read->at, read->text.length - read->at};
    struct json_read_value *value = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (slice_starts_with(rest, words[i].word)) {
            read->at += words[i].word.length;
            return read_value(read, words[i].kind, &value);
        }
    }
    return read_broken(read);
}

/* --- arrays and objects --- */

static enum status read_open(struct read *read, enum json_read_kind kind)
{
    struct json_read_value *value = NULL;
    if (read->depth == read->limits->depth)
        FAIL(STATUS_LIMIT, "the JSON text is nested deeper than %u levels", read->limits->depth);
    TRY(read_value(read, kind, &value));
    value->next = read->open;
    read->open = read->json->count - 1;
    read->depth++;
    read->expect = kind == JSON_READ_ARRAY ? EXPECT_VALUE_OR_END : EXPECT_NAME_OR_END;
    return STATUS_OK;
}

static enum status names_reserve(struct read *read, uint32_t count)
{
    uint32_t capacity = 64;
    while (capacity < 2 * count)
        capacity *= 2;
    if (capacity > read->table_capacity) {
        mem_free(read->table);
        read->table_capacity = 0;
        read->table = mem_alloc(capacity * sizeof(*read->table));
        if (read->table == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for JSON");
        read->table_capacity = capacity;
    }
    memset(read->table, 0xff, capacity * sizeof(*read->table)); /* READ_NONE */
    return STATUS_OK;
}

/* Refuses an object in which a name stands twice. */
static enum status close_check_names(struct read *read, uint32_t object)
{
    const struct json_read_value *values = read->json->values;
    uint32_t count = values[object].count;
    if (count < 2)
        return STATUS_OK;
    TRY(names_reserve(read, count));
    uint32_t mask = 63;
    while (mask + 1 < 2 * count)
        mask = mask * 2 + 1;
    for (uint32_t i = 0, name = object + 1; i < count; i++, name = values[name + 1].next) {
        struct slice text = json_read_text(&values[name]);
        uint32_t place = (uint32_t)hash_bytes(hash_process_key(), text.bytes, text.length) & mask;
        for (; read->table[place] != READ_NONE; place = (place + 1) & mask) {
            if (slice_equals(json_read_text(&values[read->table[place]]), text))
                return read_refuse(read, "has an object with the same name twice");
        }
        read->table[place] = name;
    }
    return STATUS_OK;
}

static enum status read_close(struct read *read)
{
    uint32_t closed = read->open;
    struct json_read_value *value = &read->json->values[closed];
    read->open = value->next;
    value->next = read->json->count;
    read->depth--;
    read->expect = EXPECT_MORE;
    return value->kind == JSON_READ_OBJECT ? close_check_names(read, closed) : STATUS_OK;
}

/* --- the grammar --- */

static void read_skip_space(struct read *read)
{
    while (read->at < read->text.length) {
        char c = read->text.bytes[read->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        read->at++;
    }
}

/* Reads a value that is not an end or a separator. */
static enum status step_value(struct read *read)
{
    char c = read_peek(read);
    if (read->open != READ_NONE && read->json->values[read->open].kind == JSON_READ_ARRAY)
        read->json->values[read->open].count++;
    if (c == '{' || c == '[') {
        read->at++;
        return read_open(read, c == '{' ? JSON_READ_OBJECT : JSON_READ_ARRAY);
    }
    read->expect = EXPECT_MORE;
    if (c == '"') {
        read->at++;
        return read_string(read);
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(read) : read_word(read);
}

static enum status step_name(struct read *read)
{
    if (read_peek(read) != '"')
        return read_broken(read);
    read->at++;
    read->json->values[read->open].count++;
    TRY(read_string(read));
    read_skip_space(read);
    if (read_peek(read) != ':')
        return read_broken(read);
    read->at++;
    read->expect = EXPECT_VALUE;
    return STATUS_OK;
}

static enum status read_step(struct read *read)
{
    char c = read_peek(read);
    bool is_end = c == ']' || c == '}';
    if (is_end && read->open != READ_NONE && read->expect != EXPECT_VALUE &&
        read->expect != EXPECT_NAME) {
        bool is_array = read->json->values[read->open].kind == JSON_READ_ARRAY;
        if ((c == ']') != is_array)
            return read_broken(read);
        read->at++;
        return read_close(read);
    }
    if (read->expect == EXPECT_MORE) {
        if (c != ',')
            return read_broken(read);
        read->at++;
        bool is_array = read->json->values[read->open].kind == JSON_READ_ARRAY;
        read->expect = is_array ? EXPECT_VALUE : EXPECT_NAME;
        return STATUS_OK;
    }
    if (read->expect == EXPECT_NAME || read->expect == EXPECT_NAME_OR_END)
        return step_name(read);
    return step_value(read);
}

enum status json_read(struct json_read *out, struct slice text,
                      const struct json_read_limits *limits)
{
    *out = (struct json_read){0};
    struct read read = {.json = out, .limits = limits, .text = text, .open = READ_NONE};
    enum status status = STATUS_OK;
    ASSERT(limits->values < READ_NONE / 2); /* a count doubled stays a number */
    if (text.length >= UINT32_MAX)
        FAIL(STATUS_LIMIT, "the JSON text is longer than 4 GiB");
    do {
        read_skip_space(&read);
        status = read_step(&read);
    } while (status == STATUS_OK && (read.open != READ_NONE || read.expect != EXPECT_MORE));
    read_skip_space(&read);
    if (status == STATUS_OK && read.at != text.length)
        status = read_broken(&read);
    mem_free(read.table);
    if (status != STATUS_OK)
        json_read_free(out);
    return status;
}

void json_read_free(struct json_read *json)
{
    mem_free(json->values);
    mem_free(json->strings);
    *json = (struct json_read){0};
}

/* --- what was read --- */

const struct json_read_value *json_read_member(const struct json_read *json, uint32_t object,
                                               const char *name)
{
    const struct json_read_value *values = json->values;
    if (values[object].kind != JSON_READ_OBJECT)
        return NULL;
    for (uint32_t i = 0, at = object + 1; i < values[object].count; i++, at = values[at + 1].next) {
        if (slice_is(json_read_text(&values[at]), name))
            return &values[at + 1];
    }
    return NULL;
}

bool json_read_integer(const struct json_read_value *value, int64_t *out)
{
    if (value == NULL || value->kind != JSON_READ_INTEGER)
        return false;
    bool is_negative = value->bytes[0] == '-';
    int64_t number = 0;
    for (uint32_t i = is_negative; i < value->length; i++) {
        int64_t digit = value->bytes[i] - '0';
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit,
                                   &number)) /* negative: INT64_MIN has no positive */
            return false;
    }
    if (!is_negative && number == INT64_MIN)
        return false;
    *out = is_negative ? number : -number;
    return true;
}

bool json_read_number(const struct json_read_value *value, double *out)
{
    char text[READ_NUMBER_BYTES + 1];
    if (value == NULL || (value->kind != JSON_READ_INTEGER && value->kind != JSON_READ_FLOAT))
        return false;
    ASSERT(value->length <= READ_NUMBER_BYTES);
    memcpy(text, value->bytes, value->length);
    text[value->length] = '\0';
    double number = strtod(text, NULL);
    if (!isfinite(number))
        return false;
    *out = number;
    return true;
}
