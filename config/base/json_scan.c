#include "config/base/json_scan.h"

#include "config/base/hex.h"
#include "config/base/limits.h"
#include "config/base/utf8.h"

/* What the grammar allows next. */
enum expect { VALUE, VALUE_OR_END, NAME, NAME_OR_END, COMMA_OR_END };

/* A member of the top object: its name as written, without the quotes. */
struct member {
    struct slice name;
    uint32_t hash; /* of the unescaped name */
};

struct scan {
    const char *begin;
    const char *at;
    const char *end;
    struct json_scan_field *fields;
    size_t field_count;
    /* the field that wants the value being read; NULL: no field does */
    struct json_scan_field *field;
    const char *value;  /* the start of that value */
    uint64_t is_object; /* one bit for each open level, the innermost lowest; set for an object */
    uint32_t depth;
    uint32_t elements;
    uint32_t elements_most;
    uint32_t member_count;
    bool has_nul; /* a string with a NUL was read since this was cleared */
    enum expect expect;
    struct member members[LIMIT_JSON_MEMBERS];
};

_Static_assert(LIMIT_JSON_DEPTH <= 64, "is_object has one bit a level");

/* Refuses the body. The message gives the position and the kind of fault only, because the body is
 * a prompt. */
static enum status scan_refuse(const struct scan *scan, const char *what)
{
    size_t line = 1;
    size_t column = 1;
    for (const char *at = scan->begin; at < scan->at; at++) {
        column++;
        if (*at == '\n') {
            line++;
            column = 1;
        }
    }
    FAIL(STATUS_INVALID, "The body %s (line %zu, byte %zu).", what, line, column);
}

static enum status scan_broken(const struct scan *scan)
{
    return scan_refuse(scan, "is not valid JSON");
}

static enum status scan_not_utf8(const struct scan *scan)
{
    return scan_refuse(scan, "is not valid UTF-8");
}

/* --- strings --- */

/* Returned in place of a code point. */
enum { ESCAPE_BROKEN = -1, ESCAPE_LONE = -2 /* half of a surrogate pair */ };

/* Returns the code point of the \uXXXX escape, or of the surrogate pair of escapes, whose first
 * backslash is at `*at`. Moves `*at` behind it. */
static int32_t escape_code_point(const char **at, const char *end)
{
    int32_t unit = hex_unit(*at + 2, (size_t)(end - (*at + 2)));
    if (unit < 0)
        return ESCAPE_BROKEN;
    if (unit >= 0xdc00 && unit <= 0xdfff)
        return ESCAPE_LONE;
    if (unit < 0xd800 || unit > 0xdfff) {
        *at += 6;
        return unit;
    }
    const char *second = *at + 6;
    if (end - second < 6 || second[0] != '\\' || second[1] != 'u')
        return ESCAPE_LONE;
    int32_t low = hex_unit(second + 2, (size_t)(end - (second + 2)));
    if (low < 0xdc00 || low > 0xdfff)
        return low < 0 ? ESCAPE_BROKEN : ESCAPE_LONE;
    *at += 12;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

/* Returns the character that \" \\ \/ \b \f \n \r or \t stands for; 0 for any other letter. */
static char escape_letter(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

/* Returns how many of the next eight bytes are plain text: no control character, quote, backslash
 * or byte of 0x80 and more. The subtractions borrow, so a byte more significant than a true match
 * may be marked too. On little-endian machines the first mark in memory order is exact; with the
 * other byte order the run may be too short, never too long. */
static size_t plain_run(const char *at)
{
    static const uint64_t ones = UINT64_C(0x0101010101010101);
    static const uint64_t tops = UINT64_C(0x8080808080808080);
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t quote = word ^ (ones * '"');
    uint64_t backslash = word ^ (ones * '\\');
    uint64_t stop = (word | (word - ones * 0x20) | (quote - ones) | (backslash - ones)) & tops;
    if (stop == 0)
        return 8;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(stop) / 8;
#else
    return (size_t)__builtin_clzll(stop) / 8;
#endif
}

/* Moves over the characters beyond ASCII at `scan->at`. Most sequences of three bytes are checked
 * here, all others by utf8. */
static enum status string_utf8(struct scan *scan)
{
    const unsigned char *at = (const unsigned char *)scan->at;
    const unsigned char *end = (const unsigned char *)scan->end;
    while (at < end && *at >= 0x80) {
        size_t length = 3;
        bool is_common = end - at >= 3 && *at > 0xe0 && *at < 0xed && (at[1] & 0xc0) == 0x80 &&
                         (at[2] & 0xc0) == 0x80;
        if (!is_common)
            length = utf8_sequence_length((const char *)at, (size_t)(end - at));
        if (length == 0)
            break;
        at += length;
    }
    scan->at = (const char *)at;
    return at < end && *at >= 0x80 ? scan_not_utf8(scan) : STATUS_OK;
}

/* Moves over one escape, or over characters beyond ASCII, at `scan->at`. */
static enum status string_unit(struct scan *scan)
{
    unsigned char c = (unsigned char)*scan->at;
    if (c >= 0x80)
        return string_utf8(scan);
    if (c < 0x20 || scan->end - scan->at < 2)
        return scan_broken(scan);
    if (scan->at[1] == 'u') {
        int32_t code_point = escape_code_point(&scan->at, scan->end);
        if (code_point == ESCAPE_LONE)
            return scan_refuse(scan, "has half of a surrogate pair, which is no character");
        if (code_point < 0)
            return scan_broken(scan);
        scan->has_nul |= code_point == 0;
    } else {
        if (escape_letter(scan->at[1]) == 0)
            return scan_broken(scan);
        scan->at += 2;
    }
    return STATUS_OK;
}

/* Moves from behind the opening quote to behind the closing quote. */
static enum status scan_string(struct scan *scan)
{
    for (;;) {
        while (scan->end - scan->at >= 8) {
            size_t run = plain_run(scan->at);
            scan->at += run;
            if (run < 8)
                break;
        }
        if (scan->at == scan->end)
            return scan_broken(scan);
        unsigned char c = (unsigned char)*scan->at;
        if (c == '"') {
            scan->at++;
            return STATUS_OK;
        }
        if (c >= 0x20 && c < 0x80 && c != '\\')
            scan->at++;
        else
            TRY(string_unit(scan));
    }
}

/* Writes the next character of a valid string, unescaped, to `out`; returns its bytes and moves
 * `*at`. */
static size_t text_next(const char **at, const char *end, char out[4])
{
    if (**at != '\\') {
        out[0] = *(*at)++;
        return 1;
    }
    if ((*at)[1] == 'u')
        return utf8_encode((uint32_t)escape_code_point(at, end), out);
    out[0] = escape_letter((*at)[1]);
    *at += 2;
    return 1;
}

/* --- numbers --- */

static bool number_is_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

/* Returns whether an integer of these digits fits 64 bits with a sign. */
static bool number_fits(const char *digits, const char *end, bool is_negative)
{
    uint64_t number = 0;
    for (const char *at = digits; at < end; at++) {
        if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return false;
    }
    return number <= (uint64_t)INT64_MAX + (is_negative ? 1 : 0);
}

/* Finds the decimal position of the first digit that is not zero: 3 for 1234.5, -2 for 0.012. False
 * when all digits are zero. */
static bool number_place(const char *digits, const char *end, int64_t *place)
{
    const char *point = memchr(digits, '.', (size_t)(end - digits));
    const char *ones = (point != NULL ? point : end) - 1;
    for (const char *at = digits; at < end; at++) {
        if (*at == '.' || *at == '0')
            continue;
        *place = at <= ones ? ones - at : ones - at + 1;
        return true;
    }
    return false;
}

/* Reads an exponent, from behind e or E. The value saturates beyond 10^10: no body has enough
 * digits to bring such a number back into range. */
static enum status number_exponent(struct scan *scan, int64_t *out)
{
    bool is_negative = *scan->at == '-';
    if (*scan->at == '-' || *scan->at == '+')
        scan->at++;
    if (!number_is_digit(scan))
        return scan_broken(scan);
    int64_t exponent = 0;
    for (; number_is_digit(scan); scan->at++) {
        if (exponent < INT64_C(10000000000))
            exponent = exponent * 10 + (*scan->at - '0');
    }
    *out = is_negative ? -exponent : exponent;
    return STATUS_OK;
}

static enum status scan_number(struct scan *scan)
{
    bool is_negative = *scan->at == '-';
    bool is_integer = true;
    if (is_negative)
        scan->at++;
    const char *digits = scan->at;
    if (!number_is_digit(scan))
        return scan_broken(scan);
    if (*scan->at == '0')
        scan->at++;
    else
        while (number_is_digit(scan))
            scan->at++;
    if (scan->at < scan->end && *scan->at == '.') {
        is_integer = false;
        scan->at++;
        if (!number_is_digit(scan))
            return scan_broken(scan);
        while (number_is_digit(scan))
            scan->at++;
    }
    const char *end = scan->at;
    int64_t exponent = 0;
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        is_integer = false;
        scan->at++;
        if (scan->at == scan->end)
            return scan_broken(scan);
        TRY(number_exponent(scan, &exponent));
    }
    int64_t place = 0;
    bool fits = is_integer ? number_fits(digits, end, is_negative)
                           : !number_place(digits, end, &place) || place + exponent < 308;
    if (!fits)
        return scan_refuse(scan, "has a number that is too large");
    return STATUS_OK;
}

static enum status scan_word(struct scan *scan)
{
    static const struct slice words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    struct slice rest = {scan->at, (size_t)(scan->end - scan->at)};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (slice_starts_with(rest, words[i])) {
            scan->at += words[i].length;
            return STATUS_OK;
        }
    }
    return (unsigned char)*scan->at >= 0x80 && utf8_sequence_length(rest.bytes, rest.length) == 0
               ? scan_not_utf8(scan)
               : scan_broken(scan);
}

/* --- names of the top object --- */

static uint32_t name_hash(struct slice name)
{
    /* FNV-1a. The hash only saves comparisons; there are few names, so collisions do no harm. */
    uint32_t hash = 2166136261u;
    const char *at = name.bytes;
    const char *end = at + name.length;
    while (at < end) {
        char bytes[4];
        size_t count = text_next(&at, end, bytes);
        for (size_t i = 0; i < count; i++)
            hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    }
    return hash;
}

/* Returns whether two names are the same, each possibly escaped in a different way. */
static bool name_equals(struct slice a, struct slice b)
{
    const char *at[2] = {a.bytes, b.bytes};
    const char *end[2] = {a.bytes + a.length, b.bytes + b.length};
    char bytes[2][4];
    size_t count[2] = {0, 0};
    size_t next[2] = {0, 0};
    for (;;) {
        for (size_t i = 0; i < 2; i++) {
            if (next[i] == count[i]) {
                count[i] = at[i] < end[i] ? text_next(&at[i], end[i], bytes[i]) : 0;
                next[i] = 0;
            }
        }
        if (count[0] == 0 || count[1] == 0)
            return count[0] == count[1];
        if (bytes[0][next[0]++] != bytes[1][next[1]++])
            return false;
    }
}

/* Returns whether `name` is `plain`, a name from our own source. */
static bool name_is(struct slice name, bool is_escaped, const char *plain)
{
    if (!is_escaped) /* most names differ in their first byte */
        return name.length > 0 && plain[0] == name.bytes[0] &&
               strncmp(plain, name.bytes, name.length) == 0 && plain[name.length] == '\0';
    const char *at = name.bytes;
    const char *end = at + name.length;
    while (at < end) {
        char bytes[4];
        size_t count = text_next(&at, end, bytes);
        if (strncmp(plain, bytes, count) != 0)
            return false;
        plain += count;
    }
    return *plain == '\0';
}

static enum status name_take(struct scan *scan, struct slice name)
{
    if (name.length > LIMIT_NAME_BYTES)
        return scan_refuse(scan, "has a field whose name is too long");
    if (scan->member_count == LIMIT_JSON_MEMBERS)
        return scan_refuse(scan, "has too many fields");
    uint32_t hash = name_hash(name);
    for (uint32_t i = 0; i < scan->member_count; i++) {
        if (scan->members[i].hash == hash && name_equals(scan->members[i].name, name))
            return scan_refuse(scan, "has the same key twice in one object");
    }
    scan->members[scan->member_count++] = (struct member){name, hash};
    scan->field = NULL;
    bool is_escaped = memchr(name.bytes, '\\', name.length) != NULL;
    for (size_t i = 0; i < scan->field_count; i++) {
        if (name_is(name, is_escaped, scan->fields[i].name))
            scan->field = &scan->fields[i];
    }
    return STATUS_OK;
}

/* --- the walk --- */

static void scan_skip_space(struct scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
}

static enum status scan_count(struct scan *scan)
{
    if (++scan->elements > scan->elements_most)
        FAIL(STATUS_INVALID, "The body has more than %u values.", scan->elements_most);
    return STATUS_OK;
}

static enum status scan_open(struct scan *scan, bool is_object)
{
    if (scan->depth == LIMIT_JSON_DEPTH)
        FAIL(STATUS_INVALID, "The body is nested deeper than %d levels.", LIMIT_JSON_DEPTH);
    TRY(scan_count(scan));
    scan->at++;
    scan->depth++;
    scan->is_object = scan->is_object << 1 | (is_object ? 1 : 0);
    scan->expect = is_object ? NAME_OR_END : VALUE_OR_END;
    return STATUS_OK;
}

/* A value is complete; `scan->at` is behind it. */
static void scan_value_end(struct scan *scan)
{
    scan->expect = COMMA_OR_END;
    if (scan->depth != 1 || scan->field == NULL)
        return;
    scan->field->value = (struct json_value){scan->value, (size_t)(scan->at - scan->value)};
    scan->field = NULL;
}

static void scan_close(struct scan *scan)
{
    scan->at++;
    scan->depth--;
    scan->is_object >>= 1;
    scan_value_end(scan);
}

static enum status scan_value(struct scan *scan)
{
    if (scan->depth == 1)
        scan->value = scan->at;
    char c = *scan->at;
    if (c == '{' || c == '[')
        return scan_open(scan, c == '{');
    if (c == '"') {
        scan->at++;
        TRY(scan_string(scan));
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        TRY(scan_number(scan));
    } else {
        TRY(scan_word(scan));
    }
    scan_value_end(scan);
    return STATUS_OK;
}

static enum status scan_name(struct scan *scan)
{
    if (*scan->at != '"')
        return scan_broken(scan);
    const char *start = ++scan->at;
    scan->has_nul = false;
    TRY(scan_string(scan));
    if (scan->has_nul)
        return scan_refuse(scan, "has a field whose name has a NUL");
    if (scan->depth == 1)
        TRY(name_take(scan, (struct slice){start, (size_t)(scan->at - 1 - start)}));
    scan_skip_space(scan);
    if (scan->at == scan->end || *scan->at != ':')
        return scan_broken(scan);
    scan->at++;
    scan->expect = VALUE;
    return STATUS_OK;
}

static enum status scan_step(struct scan *scan)
{
    char c = *scan->at;
    bool is_object = (scan->is_object & 1) != 0;
    bool is_end = c == (is_object ? '}' : ']');
    switch (scan->expect) {
    case NAME_OR_END:
    case VALUE_OR_END:
        if (is_end) {
            scan_close(scan);
            return STATUS_OK;
        }
        return is_object ? scan_name(scan) : scan_value(scan);
    case NAME:
        return scan_name(scan);
    case VALUE:
        return scan_value(scan);
    case COMMA_OR_END:
        if (is_end) {
            scan_close(scan);
            return STATUS_OK;
        }
        if (c != ',')
            return scan_broken(scan);
        scan->at++;
        scan->expect = is_object ? NAME : VALUE;
        return scan_count(scan);
    }
    return scan_broken(scan);
}

enum status json_scan(struct slice text, struct json_scan_field *fields, size_t count)
{
    return json_scan_most(text, fields, count, LIMIT_JSON_ELEMENTS);
}

enum status json_scan_most(struct slice text, struct json_scan_field *fields, size_t count,
                           uint32_t elements_most)
{
    if (text.length == 0)
        FAIL(STATUS_INVALID, "The body is empty; a JSON object is expected.");
    /* `members`, most of the struct, needs no initial value. */
    struct scan scan;
    scan.begin = text.bytes;
    scan.at = text.bytes;
    scan.end = text.bytes + text.length;
    scan.fields = fields;
    scan.field_count = count;
    scan.field = NULL;
    scan.value = NULL;
    scan.is_object = 0;
    scan.depth = 0;
    scan.elements = 0;
    scan.elements_most = elements_most;
    scan.member_count = 0;
    scan.has_nul = false;
    for (size_t i = 0; i < count; i++)
        fields[i].value = (struct json_value){NULL, 0};
    scan_skip_space(&scan);
    if (scan.at == scan.end)
        return scan_broken(&scan);
    if (*scan.at != '{') {
        if (*scan.at != '[')
            TRY(scan_value(&scan));
        FAIL(STATUS_INVALID, "The body must be a JSON object.");
    }
    TRY(scan_open(&scan, true));
    while (scan.depth != 0) {
        scan_skip_space(&scan);
        if (scan.at == scan.end)
            return scan_broken(&scan);
        TRY(scan_step(&scan));
    }
    scan_skip_space(&scan);
    if (scan.at != scan.end)
        return scan_refuse(&scan, "has text after its end");
    return STATUS_OK;
}

/* --- values --- */

bool json_scan_is_null(struct json_value value)
{
    return slice_is(json_scan_text(value), "null");
}

bool json_scan_is_string(struct json_value value)
{
    return value.length != 0 && value.bytes[0] == '"';
}

bool json_scan_is_object(struct json_value value)
{
    return value.length != 0 && value.bytes[0] == '{';
}

bool json_scan_has_nul(struct json_value value)
{
    const char *at = value.bytes + 1;
    const char *end = value.bytes + value.length - 1;
    ASSERT(json_scan_is_string(value));
    while (at < end) {
        char bytes[4];
        (void)text_next(&at, end, bytes);
        if (bytes[0] == '\0')
            return true;
    }
    return false;
}

bool json_scan_bool(struct json_value value, bool *out)
{
    *out = slice_is(json_scan_text(value), "true");
    return *out || slice_is(json_scan_text(value), "false");
}

bool json_scan_is_decoded(struct json_value value, const char *text, size_t length)
{
    const char *at = value.bytes + 1;
    const char *end = value.bytes + value.length - 1;
    if (memchr(at, '\\', (size_t)(end - at)) == NULL)
        return false;
    size_t matched = 0;
    while (at < end) {
        char bytes[4];
        const char *escape = at;
        if (at[0] == '\\' && at[1] == 'u' && escape_code_point(&escape, end) < 0)
            /* text_next needs valid escapes; this string was not checked for lone halves. */
            return false;
        size_t count = text_next(&at, end, bytes);
        if (count > length - matched || memcmp(text + matched, bytes, count) != 0)
            return false;
        matched += count;
    }
    return matched == length;
}

size_t json_scan_unescape(struct json_value value, char *out, size_t capacity)
{
    ASSERT(json_scan_is_string(value));
    ASSERT(capacity >= 1);
    const char *at = value.bytes + 1;
    const char *end = value.bytes + value.length - 1;
    size_t length = 0;
    while (at < end) {
        char bytes[4];
        size_t count = text_next(&at, end, bytes);
        if (length + count > capacity - 1)
            break;
        memcpy(out + length, bytes, count);
        length += count;
    }
    length -= utf8_incomplete_tail(out, length);
    out[length] = '\0';
    return length;
}
