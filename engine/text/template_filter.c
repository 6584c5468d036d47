#include "engine/text/template_filter.h"

#include <math.h>
#include <stdlib.h>

#include "config/base/utf8.h"
#include "engine/text/template_input.h"
#include "engine/text/template_parts.h"
#include "engine/text/template_text.h"
#include "engine/text/unicode_text.h"

enum { FILTER_INDENT = 64 /* blanks for each level of JSON */ };

static const struct {
    const char *name;
    const char *params;
    enum status (*call)(struct template_run *run, const struct template_args *args,
                        struct template_value *out);
} filters[] = {
#define TEMPLATE_FILTER(name, params) {#name, params, template_filter_##name},
#include "engine/text/template_filters.def"
#undef TEMPLATE_FILTER
};

uint32_t template_filter_find(struct slice name)
{
    for (uint32_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (slice_is(name, filters[i].name))
            return i;
    }
    return TEMPLATE_FILTER_NONE;
}

enum status template_filter_call(struct template_run *run, uint32_t filter,
                                 struct template_value value, const struct template_call *call,
                                 struct template_value *out)
{
    struct template_args args;
    TRY(template_run_charge(run, 0));
    TRY(template_call_bind(run, call, value, filters[filter].params, &args));
    return filters[filter].call(run, &args, out);
}

/* --- case --- */

/* A character after these begins a word for the filter title. */
static bool change_divides(struct slice c)
{
    static const struct slice divides = {"-({[<", 5};
    return template_string_blank(c, divides, false) > 0 ||
           template_string_blank(c, (struct slice){NULL, 0}, false) > 0;
}

static enum status change_character(struct template_writer *writer, uint32_t c,
                                    enum unicode_text_case wanted, bool is_own)
{
    uint32_t made[3];
    char bytes[4];
    if (c == 0x3a3 && wanted == UNICODE_TEXT_LOWER)
        TEMPLATE_FAIL(writer->run, STATUS_INVALID,
                      "the lower case of a capital sigma is not supported");
    size_t count = unicode_text_change(c, wanted, made);
    for (size_t i = 0; i < count; i++)
        TRY(template_string_write(writer, (struct slice){bytes, utf8_encode(made[i], bytes)},
                                  is_own));
    return STATUS_OK;
}

static enum status change_write(struct template_writer *writer, struct template_value string,
                                enum template_filter_case wanted)
{
    struct template_run *run = writer->run;
    bool is_first = true; /* of the string, or of a word */
    for (uint32_t i = 0; i < string.count; i++) {
        struct template_piece piece = run->pieces[string.first + i];
        for (size_t at = 0; at < piece.text.length;) {
            const char *bytes = piece.text.bytes + at;
            size_t length = utf8_sequence_length(bytes, piece.text.length - at);
            if (length == 0) { /* not UTF-8: it has no case */
                TRY(template_string_write(writer, (struct slice){bytes, 1}, piece.is_own));
                at++;
                continue;
            }
            enum unicode_text_case to = UNICODE_TEXT_LOWER;
            if (wanted == TEMPLATE_FILTER_UPPER || (wanted == TEMPLATE_FILTER_TITLE && is_first))
                to = UNICODE_TEXT_UPPER;
            else if (wanted == TEMPLATE_FILTER_CAPITALIZE && is_first)
                to = UNICODE_TEXT_TITLE;
            is_first =
                wanted == TEMPLATE_FILTER_TITLE && change_divides((struct slice){bytes, length});
            TRY(change_character(writer, utf8_decode(bytes, length), to, piece.is_own));
            at += length;
        }
    }
    return STATUS_OK;
}

enum status template_filter_change(struct template_run *run, struct template_value value,
                                   enum template_filter_case wanted, struct template_value *out)
{
    struct template_value string;
    struct template_writer writer;
    TRY(template_text_of(run, value, &string));
    template_string_begin(&writer, run);
    enum status status = change_write(&writer, string, wanted);
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

enum status template_filter_upper(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    return template_filter_change(run, args->value, TEMPLATE_FILTER_UPPER, out);
}

enum status template_filter_lower(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    return template_filter_change(run, args->value, TEMPLATE_FILTER_LOWER, out);
}

enum status template_filter_title(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    return template_filter_change(run, args->value, TEMPLATE_FILTER_TITLE, out);
}

enum status template_filter_capitalize(struct template_run *run, const struct template_args *args,
                                       struct template_value *out)
{
    return template_filter_change(run, args->value, TEMPLATE_FILTER_CAPITALIZE, out);
}

/* --- other strings --- */

enum status template_filter_trim(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    struct template_value string;
    TRY(template_text_of(run, args->value, &string));
    return template_string_strip(run, string, args->at[0], true, true, out);
}

enum status template_filter_string(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    return template_text_of(run, args->value, out);
}

/* Escapes nothing, but what + adds to the string later is escaped for HTML, as in jinja2. */
enum status template_filter_safe(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    TRY(template_text_of(run, args->value, out));
    out->is_safe = true;
    return STATUS_OK;
}

struct put {
    struct template_writer *writer;
    struct template_value string;
    struct template_value new;
    struct slice text;
    uint32_t piece; /* the writer's cursor */
    size_t before;
};

static enum status put_range(struct put *put, size_t from, size_t to)
{
    return template_string_write_range(put->writer, put->string, from, to, &put->piece,
                                       &put->before);
}

static enum status put_write(struct put *put, struct slice old, int64_t most)
{
    size_t done = 0;
    size_t from = 0; /* where the next match may begin */
    for (int64_t made = 0; most < 0 || made < most; made++) {
        size_t found = template_string_find(put->text, from, old);
        if (found == SIZE_MAX)
            break;
        TRY(template_run_charge(put->writer->run, found - from));
        TRY(put_range(put, done, found));
        TRY(template_string_write_value(put->writer, put->new));
        done = found + old.length;
        from = done;
        if (old.length == 0) { /* "" stands before each character and at the end */
            if (found == put->text.length)
                break;
            size_t length = utf8_sequence_length(put->text.bytes + found, put->text.length - found);
            from = found + (length == 0 ? 1 : length);
        }
    }
    return put_range(put, done, put->text.length);
}

enum status template_filter_put(struct template_run *run, struct template_value string,
                                struct template_value old, struct template_value new, int64_t most,
                                struct template_value *out)
{
    struct template_writer writer;
    struct slice needle;
    struct put put = {.writer = &writer, .string = string, .new = new};
    if (old.kind != TEMPLATE_STRING || new.kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "replace needs two strings");
    TRY(template_string_flat(run, string, &put.text));
    TRY(template_string_flat(run, old, &needle));
    TRY(template_run_charge(run, put.text.length));
    template_string_begin(&writer, run);
    enum status status = put_write(&put, needle, most);
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

enum status template_filter_replace(struct template_run *run, const struct template_args *args,
                                    struct template_value *out)
{
    struct template_value texts[3] = {args->value, args->at[0], args->at[1]};
    int64_t most;
    for (int i = 0; i < 3; i++) {
        if (texts[i].kind == TEMPLATE_ABSENT)
            TEMPLATE_FAIL(run, STATUS_INVALID, "replace needs two strings");
        TRY(template_text_of(run, texts[i], &texts[i]));
    }
    TRY(template_call_integer(run, args->at[2], -1, &most));
    return template_filter_put(run, texts[0], texts[1], texts[2], most, out);
}

static enum status indent_write(struct put *put, struct template_value indent, bool is_first,
                                bool is_blank)
{
    struct template_writer *writer = put->writer;
    struct slice text = put->text;
    bool is_own = template_string_is_own(writer->run, put->string);
    size_t begin = 0;
    if (is_first)
        TRY(template_string_write_value(writer, indent));
    for (size_t at = 0; at < text.length;) {
        size_t end = template_string_line_end(text, at);
        if (end == 0) {
            at++;
            continue;
        }
        TRY(put_range(put, begin, at));
        TRY(template_string_write(writer, SLICE("\n"), is_own));
        at += end;
        begin = at;
        bool is_empty = at == text.length || template_string_line_end(text, at) > 0;
        if (!is_empty || is_blank)
            TRY(template_string_write_value(writer, indent));
    }
    return put_range(put, begin, text.length);
}

/* `width` spaces, or the string itself, which then keeps its origin. */
static enum status indent_of(struct template_run *run, struct template_value width, bool is_own,
                             struct template_value *out)
{
    int64_t count;
    void *memory = NULL;
    if (width.kind == TEMPLATE_STRING) {
        *out = width;
        return STATUS_OK;
    }
    TRY(template_call_integer(run, width, 4, &count));
    if (count > LIMIT_TEMPLATE_OUTPUT_BYTES)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "the output is too long");
    count = count < 0 ? 0 : count;
    TRY(template_run_charge(run, (size_t)count));
    TRY(template_run_alloc(run, (size_t)count + 1, &memory));
    memset(memory, ' ', (size_t)count);
    return template_string_make(run, (struct slice){memory, (size_t)count}, is_own, out);
}

enum status template_filter_indent(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    struct template_writer writer;
    struct template_value indent;
    struct put put = {.writer = &writer};
    TRY(template_text_of(run, args->value, &put.string));
    TRY(indent_of(run, args->at[0], template_string_is_own(run, put.string), &indent));
    TRY(template_string_flat(run, put.string, &put.text));
    TRY(template_run_charge(run, put.text.length));
    template_string_begin(&writer, run);
    enum status status = indent_write(&put, indent, template_value_is_true(args->at[1]),
                                      template_value_is_true(args->at[2]));
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

/* --- JSON --- */

static enum status tojson_separators(struct template_run *run, struct template_value value,
                                     struct template_text_json *form)
{
    struct slice *const places[2] = {&form->between, &form->colon};
    if (value.kind == TEMPLATE_ABSENT || value.kind == TEMPLATE_NONE)
        return STATUS_OK;
    if (!template_value_is_sequence(value) || value.count != 2)
        TEMPLATE_FAIL(run, STATUS_INVALID, "separators are two strings");
    for (int i = 0; i < 2; i++) {
        struct template_value one = value.items->values[i];
        if (one.kind != TEMPLATE_STRING)
            TEMPLATE_FAIL(run, STATUS_INVALID, "separators are two strings");
        TRY(template_string_flat(run, one, places[i]));
    }
    return STATUS_OK;
}

enum status template_filter_tojson(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    int64_t indent;
    TRY(template_call_integer(run, args->at[1], -1, &indent));
    if (indent > FILTER_INDENT)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "an indent is at most %d", FILTER_INDENT);
    struct template_text_json form = {.indent = indent < 0 ? -1 : (int32_t)indent,
                                      .is_ascii = template_value_is_true(args->at[0]),
                                      .is_sorted = template_value_is_true(args->at[3]),
                                      .between = indent < 0 ? SLICE(", ") : SLICE(","),
                                      .colon = SLICE(": ")};
    TRY(tojson_separators(run, args->at[2], &form));
    return template_text_json(run, args->value, &form, out);
}

enum status template_filter_from_json(struct template_run *run, const struct template_args *args,
                                      struct template_value *out)
{
    struct slice text;
    if (args->value.kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "from_json reads strings");
    TRY(template_string_flat(run, args->value, &text));
    return template_input_json(run, text, template_string_is_own(run, args->value), out);
}

/* --- numbers --- */

enum status template_filter_abs(struct template_run *run, const struct template_args *args,
                                struct template_value *out)
{
    *out = args->value;
    if (!template_value_is_small_number(*out) ||
        (out->kind != TEMPLATE_FLOAT && out->integer == INT64_MIN))
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no absolute value",
                      template_value_kind_name(*out));
    if (out->kind == TEMPLATE_FLOAT)
        out->number = fabs(out->number);
    else
        *out = (struct template_value){.kind = TEMPLATE_INTEGER,
                                       .is_own = out->is_own,
                                       .integer = out->integer < 0 ? -out->integer : out->integer};
    return STATUS_OK;
}

/* Reads a decimal number of Python, with blanks around it, and one `_` between two digits. */
static bool number_read(struct slice text, double *number, int64_t *integer, bool *is_integer)
{
    char copy[64];
    size_t length = 0;
    static const struct slice blanks = {NULL, 0};
    size_t front = template_string_blank(text, blanks, false);
    text.bytes += front;
    text.length -= front;
    text.length -= template_string_blank(text, blanks, true);
    for (size_t i = 0; i < text.length && length < sizeof copy - 1; i++) {
        bool is_between = i > 0 && i + 1 < text.length && text.bytes[i - 1] >= '0' &&
                          text.bytes[i - 1] <= '9' && text.bytes[i + 1] >= '0' &&
                          text.bytes[i + 1] <= '9';
        if (text.bytes[i] != '_' || !is_between)
            copy[length++] = text.bytes[i];
    }
    copy[length] = '\0';
    if (length == 0 || text.length >= sizeof copy || strspn(copy, "0123456789+-.eE") != length)
        return false;
    char *end = NULL;
    *number = strtod(copy, &end);
    if (*end != '\0')
        return false;
    size_t sign = copy[0] == '-' || copy[0] == '+';
    *is_integer = strspn(copy + sign, "0123456789") == length - sign && length - sign <= 18;
    if (*is_integer)
        *integer = strtoll(copy, NULL, 10);
    return true;
}

static bool number_of(struct template_run *run, struct template_value value, double *number,
                      int64_t *integer, bool *is_integer, enum status *status)
{
    struct slice text;
    *is_integer = value.kind == TEMPLATE_INTEGER || value.kind == TEMPLATE_BOOL;
    if (*is_integer) {
        *integer = value.integer;
        *number = (double)value.integer;
        return true;
    }
    if (value.kind == TEMPLATE_FLOAT) {
        *number = value.number;
        return true;
    }
    if (value.kind != TEMPLATE_STRING)
        return false;
    *status = template_string_flat(run, value, &text);
    return *status == STATUS_OK && number_read(text, number, integer, is_integer);
}

/* Whose a number is that is read from a value. */
static bool number_is_own(const struct template_run *run, struct template_value value)
{
    return value.kind == TEMPLATE_STRING ? template_string_is_own(run, value) : value.is_own;
}

enum status template_filter_int(struct template_run *run, const struct template_args *args,
                                struct template_value *out)
{
    double number = 0;
    int64_t integer = 0;
    bool is_integer = false;
    enum status status = STATUS_OK;
    int64_t base;
    TRY(template_call_integer(run, args->at[1], 10, &base));
    if (base != 10)
        TEMPLATE_FAIL(run, STATUS_INVALID, "numbers are read with the base 10 only");
    bool is_number = number_of(run, args->value, &number, &integer, &is_integer, &status);
    TRY(status);
    if (is_number && !is_integer && fabs(number) >= 9e18)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a number is too large");
    if (is_number && !is_integer && isfinite(number))
        integer = (int64_t)number;
    if (!is_number || (!is_integer && !isfinite(number))) {
        *out = args->at[0].kind == TEMPLATE_ABSENT ? template_value_integer(0) : args->at[0];
        return STATUS_OK;
    }
    *out = template_value_integer(integer);
    out->is_own = number_is_own(run, args->value);
    return STATUS_OK;
}

enum status template_filter_float(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    double number = 0;
    int64_t integer = 0;
    bool is_integer = false;
    enum status status = STATUS_OK;
    *out = args->at[0];
    bool is_number = number_of(run, args->value, &number, &integer, &is_integer, &status);
    TRY(status);
    if (is_number || args->at[0].kind == TEMPLATE_ABSENT)
        *out = (struct template_value){.kind = TEMPLATE_FLOAT,
                                       .is_own = number_is_own(run, args->value),
                                       .number = is_number ? number : 0};
    return STATUS_OK;
}
