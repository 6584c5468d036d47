#include "engine/text/template_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/utf8.h"
#include "engine/text/template_sort.h"
#include "engine/text/unicode_text.h"

/* An open list or mapping. */
struct text_frame {
    const struct template_value *values;
    uint32_t count; /* elements or pairs */
    uint32_t index;
    uint8_t kind;
    bool is_own;
};

struct text {
    struct template_writer *writer;
    const struct template_text_json *json; /* NULL: as Python prints */
    struct text_frame frames[LIMIT_TEMPLATE_VALUE_DEPTH];
    uint32_t depth;
};

/* --- numbers --- */

/* Python's repr: exponents below -4 or from 16 on, and at least two digits in them. */
size_t template_text_float(double number, char out[40])
{
    char digits[40];
    int precision = 1;
    if (!isfinite(number))
        return (size_t)snprintf(out, 40, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
    do {
        snprintf(digits, sizeof digits, "%.*e", precision - 1, number);
        precision++;
    } while (precision <= 17 && strtod(digits, NULL) != number);
    char *mark = strchr(digits, 'e');
    long exponent = strtol(mark + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        *mark = '\0';
        return (size_t)snprintf(out, 40, "%se%c%02ld", digits, exponent < 0 ? '-' : '+',
                                labs(exponent));
    }
    int significant = (int)(mark - digits) - (digits[0] == '-');
    significant -= significant > 1; /* the point */
    int decimals = significant - 1 - (int)exponent;
    return (size_t)snprintf(out, 40, "%.*f", decimals < 1 ? 1 : decimals, number);
}

static enum status write_text(struct text *text, const char *bytes, bool is_own)
{
    return template_string_write(text->writer, slice_of(bytes), is_own);
}

static enum status write_number(struct text *text, struct template_value value)
{
    char digits[40];
    if (value.kind == TEMPLATE_INTEGER) {
        snprintf(digits, sizeof digits, "%lld", (long long)value.integer);
    } else if (text->json != NULL && !isfinite(value.number)) {
        const char *word = isnan(value.number) ? "NaN" : "Infinity";
        snprintf(digits, sizeof digits, "%s%s", value.number < 0 ? "-" : "", word);
    } else {
        template_text_float(value.number, digits);
    }
    return write_text(text, digits, value.is_own);
}

/* --- strings --- */

/* Writes the escape of a character, or nothing when it stands for itself. */
static size_t escape_json(const struct text *text, uint32_t c, char out[16])
{
    static const char pairs[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    for (size_t i = 0; pairs[i] != '\0'; i += 2) {
        if ((uint32_t)(unsigned char)pairs[i] == c)
            return (size_t)snprintf(out, 16, "\\%c", pairs[i + 1]);
    }
    if (c < 0x20 || (text->json->is_ascii && c > 0x7e && c < 0x10000))
        return (size_t)snprintf(out, 16, "\\u%04x", c);
    if (text->json->is_ascii && c >= 0x10000)
        return (size_t)snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                                0xdc00 + ((c - 0x10000) & 0x3ff));
    return 0;
}

static size_t escape_python(uint32_t c, char quote, char out[16])
{
    static const char pairs[] = "\\\\\nn\rr\tt";
    for (size_t i = 0; pairs[i] != '\0'; i += 2) {
        if ((uint32_t)(unsigned char)pairs[i] == c)
            return (size_t)snprintf(out, 16, "\\%c", pairs[i + 1]);
    }
    if (c == (uint32_t)(unsigned char)quote)
        return (size_t)snprintf(out, 16, "\\%c", quote);
    if (unicode_text_is_printable(c))
        return 0;
    if (c < 0x100)
        return (size_t)snprintf(out, 16, "\\x%02x", c);
    if (c < 0x10000)
        return (size_t)snprintf(out, 16, "\\u%04x", c);
    return (size_t)snprintf(out, 16, "\\U%08x", c);
}

/* Writes a piece with its escapes. Pieces may end inside a character: then its bytes stand for
 * themselves, which the escapes need not know. */
static enum status string_piece(struct text *text, struct template_piece piece, char quote)
{
    struct slice rest = piece.text;
    size_t plain = 0; /* bytes that are waiting to be written as they are */
    while (plain < rest.length) {
        char escape[16];
        size_t length = utf8_sequence_length(rest.bytes + plain, rest.length - plain);
        if (length == 0) {
            plain++;
            continue;
        }
        uint32_t c = utf8_decode(rest.bytes + plain, length);
        size_t escaped =
            text->json != NULL ? escape_json(text, c, escape) : escape_python(c, quote, escape);
        if (escaped == 0) {
            plain += length;
            continue;
        }
        TRY(template_string_write(text->writer, (struct slice){rest.bytes, plain}, piece.is_own));
        TRY(template_string_write(text->writer, (struct slice){escape, escaped}, piece.is_own));
        rest.bytes += plain + length;
        rest.length -= plain + length;
        plain = 0;
    }
    return template_string_write(text->writer, rest, piece.is_own);
}

static enum status write_string(struct text *text, struct template_value string)
{
    struct template_run *run = text->writer->run;
    bool is_own = template_string_is_own(run, string);
    bool has_single = false;
    bool has_double = false;
    for (uint32_t i = 0; i < string.count && text->json == NULL; i++) {
        struct slice piece = run->pieces[string.first + i].text;
        has_single = has_single || memchr(piece.bytes, '\'', piece.length) != NULL;
        has_double = has_double || memchr(piece.bytes, '"', piece.length) != NULL;
    }
    char quote = text->json != NULL || (has_single && !has_double) ? '"' : '\'';
    TRY(template_string_write(text->writer, (struct slice){&quote, 1}, is_own));
    for (uint32_t i = 0; i < string.count; i++)
        TRY(string_piece(text, run->pieces[string.first + i], quote));
    return template_string_write(text->writer, (struct slice){&quote, 1}, is_own);
}

/* --- lists and mappings --- */

static enum status open_frame(struct text *text, struct template_value value)
{
    static const char *const python[] = {
        [TEMPLATE_LIST] = "[", [TEMPLATE_TUPLE] = "(", [TEMPLATE_DICT] = "{"};
    const struct template_value *values = value.items->values;
    if (text->json != NULL && text->json->is_sorted && value.kind == TEMPLATE_DICT) {
        struct template_value sorted;
        TRY(template_sort_pairs(text->writer->run, value, &sorted));
        values = sorted.items->values;
    }
    ASSERT(text->depth < LIMIT_TEMPLATE_VALUE_DEPTH); /* no container is deeper */
    text->frames[text->depth++] =
        (struct text_frame){values, value.count, 0, value.kind, value.is_own};
    return write_text(text,
                      text->json == NULL            ? python[value.kind]
                      : value.kind == TEMPLATE_DICT ? "{"
                                                    : "[",
                      value.is_own);
}

/* A new line of JSON with its indent. */
static enum status write_line(struct text *text, uint32_t level, bool is_own)
{
    static const char blanks[] = "                                ";
    if (text->json == NULL || text->json->indent < 0)
        return STATUS_OK;
    TRY(template_string_write(text->writer, SLICE("\n"), is_own));
    for (size_t left = (size_t)level * (size_t)text->json->indent; left > 0;) {
        size_t part = left < sizeof blanks - 1 ? left : sizeof blanks - 1;
        TRY(template_string_write(text->writer, (struct slice){blanks, part}, is_own));
        left -= part;
    }
    return STATUS_OK;
}

static enum status close_frame(struct text *text)
{
    struct text_frame frame = text->frames[--text->depth];
    if (frame.count > 0)
        TRY(write_line(text, text->depth, frame.is_own));
    if (frame.kind == TEMPLATE_DICT)
        return write_text(text, "}", frame.is_own);
    if (frame.kind == TEMPLATE_LIST || text->json != NULL)
        return write_text(text, "]", frame.is_own);
    return write_text(text, frame.count == 1 ? ",)" : ")", frame.is_own);
}

static enum status write_word(struct text *text, struct template_value value)
{
    static const char *const words[2][3] = {{"None", "False", "True"}, {"null", "false", "true"}};
    int word = value.kind == TEMPLATE_NONE ? 0 : value.integer != 0 ? 2 : 1;
    return write_text(text, words[text->json != NULL][word], value.is_own);
}

/* Writes a value without elements, or opens one that has them. */
static enum status write_value(struct text *text, struct template_value value)
{
    struct template_run *run = text->writer->run;
    switch (value.kind) {
    case TEMPLATE_NONE:
    case TEMPLATE_BOOL:
        return write_word(text, value);
    case TEMPLATE_INTEGER:
    case TEMPLATE_FLOAT:
        return write_number(text, value);
    case TEMPLATE_BIG:
        return template_string_write_value(text->writer, value);
    case TEMPLATE_STRING:
        return write_string(text, value);
    case TEMPLATE_LIST:
    case TEMPLATE_TUPLE:
    case TEMPLATE_DICT:
        return open_frame(text, value);
    case TEMPLATE_UNDEFINED:
        if (text->json == NULL)
            return write_text(text, "Undefined", true);
        break;
    default:
        break;
    }
    TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no text%s", template_value_kind_name(value),
                  text->json != NULL ? " in JSON" : "");
}

/* JSON has only strings as names; Python writes others as text. */
static enum status write_key(struct text *text, struct template_value key)
{
    bool is_own = key.is_own;
    if (text->json == NULL || key.kind == TEMPLATE_STRING)
        return write_value(text, key);
    if (key.kind == TEMPLATE_TUPLE || key.kind == TEMPLATE_UNDEFINED)
        TEMPLATE_FAIL(text->writer->run, STATUS_INVALID, "a key has no text in JSON");
    TRY(write_text(text, "\"", is_own));
    TRY(write_value(text, key));
    return write_text(text, "\"", is_own);
}

static enum status write_next(struct text *text)
{
    struct text_frame *frame = &text->frames[text->depth - 1];
    uint32_t i = frame->index++;
    bool is_dict = frame->kind == TEMPLATE_DICT;
    bool is_own = frame->is_own;
    struct template_writer *writer = text->writer;
    const struct template_value *values = frame->values;
    TRY(template_run_charge(writer->run, 0));
    if (i > 0)
        TRY(template_string_write(writer, text->json != NULL ? text->json->between : SLICE(", "),
                                  is_own));
    TRY(write_line(text, text->depth, is_own));
    if (is_dict) {
        uint32_t depth = text->depth;
        TRY(write_key(text, values[2 * i]));
        if (text->depth != depth) /* a tuple as a key */
            TEMPLATE_FAIL(writer->run, STATUS_INVALID, "a key that is a tuple has no text");
        TRY(template_string_write(writer, text->json != NULL ? text->json->colon : SLICE(": "),
                                  is_own));
    }
    return write_value(text, values[is_dict ? 2 * i + 1 : i]);
}

static enum status text_write(struct text *text, struct template_value value,
                              struct template_value *out)
{
    TRY(write_value(text, value));
    while (text->depth > 0) {
        const struct text_frame *frame = &text->frames[text->depth - 1];
        if (frame->index == frame->count)
            TRY(close_frame(text));
        else
            TRY(write_next(text));
    }
    return template_string_finish(text->writer, out);
}

static enum status text_make(struct template_run *run, struct template_value value,
                             const struct template_text_json *json, struct template_value *out)
{
    struct template_writer writer;
    struct text text = {.writer = &writer, .json = json};
    template_string_begin(&writer, run);
    enum status status = text_write(&text, value, out);
    template_string_drop(&writer);
    return status;
}

enum status template_text_of(struct template_run *run, struct template_value value,
                             struct template_value *out)
{
    *out = value;
    if (value.kind == TEMPLATE_STRING)
        return STATUS_OK;
    out->kind = TEMPLATE_STRING;
    if (value.kind == TEMPLATE_BIG)
        return STATUS_OK;
    if (value.kind == TEMPLATE_UNDEFINED)
        return template_string_make(run, (struct slice){NULL, 0}, true, out);
    return text_make(run, value, NULL, out);
}

enum status template_text_json(struct template_run *run, struct template_value value,
                               const struct template_text_json *form, struct template_value *out)
{
    return text_make(run, value, form, out);
}

enum status template_text_join(struct template_run *run, const struct template_value *values,
                               uint32_t count, struct template_value between,
                               struct template_value *out)
{
    struct template_writer writer;
    enum status status = STATUS_OK;
    template_string_begin(&writer, run);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct template_value string;
        if (i > 0)
            status = template_string_write_value(&writer, between);
        if (status == STATUS_OK)
            status = template_text_of(run, values[i], &string);
        if (status == STATUS_OK)
            status = template_run_charge(run, 0);
        if (status == STATUS_OK)
            status = template_string_write_value(&writer, string);
    }
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}
