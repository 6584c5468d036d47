#include "engine/text/chat_template_lexer.h"

#include "config/base/utf8.h"

void chat_template_lexer_init(struct chat_template_lexer *lexer, struct slice source)
{
    if (source.length > 0 && source.bytes[source.length - 1] == '\n')
        source.length--;
    *lexer =
        (struct chat_template_lexer){.source = source, .line = 1, .mode = CHAT_TEMPLATE_LEXER_TEXT};
}

static bool next_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool next_is_name(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!is_first && c >= '0' && c <= '9');
}

/* Returns the byte `ahead` bytes after the current one, or NUL at the end. */
static char next_peek(const struct chat_template_lexer *lexer, size_t ahead)
{
    size_t at = lexer->at + ahead;
    return at < lexer->source.length ? lexer->source.bytes[at] : '\0';
}

static void next_advance(struct chat_template_lexer *lexer, size_t bytes)
{
    ASSERT(bytes <= lexer->source.length - lexer->at);
    for (size_t i = 0; i < bytes; i++)
        lexer->line += lexer->source.bytes[lexer->at + i] == '\n';
    lexer->at += bytes;
}

static void next_skip_space(struct chat_template_lexer *lexer)
{
    while (lexer->at < lexer->source.length && next_is_space(next_peek(lexer, 0)))
        next_advance(lexer, 1);
}

/* Leaves a block or comment. "-" drops the white space after it, "+" keeps it. Without a sign one
 * newline is dropped. */
static void next_leave(struct chat_template_lexer *lexer, char sign)
{
    if (sign == '-')
        next_skip_space(lexer);
    else if (sign != '+' && next_peek(lexer, 0) == '\n')
        next_advance(lexer, 1);
}

/* Returns how much of the text before a tag is kept. The text begins a line when the start of the
 * source or a dropped newline is right before it. */
static size_t next_text_kept(const struct chat_template_lexer *lexer, size_t length, char tag,
                             char sign)
{
    const char *text = lexer->source.bytes + lexer->at;
    size_t kept = length;
    if (sign == '-') {
        while (kept > 0 && next_is_space(text[kept - 1]))
            kept--;
        return kept;
    }
    if (sign == '+' || tag == '{')
        return length;
    while (kept > 0 && text[kept - 1] != '\n' && next_is_space(text[kept - 1]))
        kept--;
    bool begins_line = kept > 0 ? text[kept - 1] == '\n' : lexer->at == 0 || text[-1] == '\n';
    return begins_line ? kept : length;
}

static enum status next_comment(struct chat_template_lexer *lexer)
{
    uint32_t line = lexer->line;
    size_t inside = next_peek(lexer, 2) == '-' || next_peek(lexer, 2) == '+' ? 3 : 2;
    const char *begin = lexer->source.bytes + lexer->at + inside;
    size_t left = lexer->source.length - lexer->at - inside;
    const char *end = memmem(begin, left, "#}", 2);
    if (end == NULL)
        FAIL(STATUS_CORRUPT, "line %u: a comment is not closed", line);
    char sign = end > begin ? end[-1] : '\0';
    next_advance(lexer, inside + (size_t)(end - begin) + 2);
    next_leave(lexer, sign);
    return STATUS_OK;
}

/* Finds the next "{{", "{%" or "{#". Returns the source's length when there is none. */
static size_t next_tag(const struct chat_template_lexer *lexer)
{
    const char *bytes = lexer->source.bytes;
    size_t length = lexer->source.length;
    for (size_t at = lexer->at; at + 1 < length; at++) {
        char c = bytes[at + 1];
        if (bytes[at] == '{' && (c == '{' || c == '%' || c == '#'))
            return at;
    }
    return length;
}

static char next_sign(const struct chat_template_lexer *lexer, size_t tag)
{
    char c = tag + 2 < lexer->source.length ? lexer->source.bytes[tag + 2] : '\0';
    return c == '-' || c == '+' ? c : '\0';
}

/* Reads text, or the beginning of a tag, outside of tags. */
static enum status next_outside(struct chat_template_lexer *lexer,
                                struct chat_template_lexer_token *out)
{
    while (lexer->at < lexer->source.length) {
        size_t tag = next_tag(lexer);
        size_t length = tag - lexer->at;
        bool is_last = tag == lexer->source.length;
        char kind = is_last ? '\0' : lexer->source.bytes[tag + 1];
        char sign = is_last ? '\0' : next_sign(lexer, tag);
        size_t kept = is_last ? length : next_text_kept(lexer, length, kind, sign);
        *out = (struct chat_template_lexer_token){
            CHAT_TEMPLATE_LEXER_TEXT, lexer->line, {lexer->source.bytes + lexer->at, kept}};
        if (length > 0) {
            next_advance(lexer, length);
            if (kept > 0)
                return STATUS_OK;
            continue; /* the text was dropped; the source shows where a line begins */
        }
        if (kind == '#') {
            TRY(next_comment(lexer));
            continue;
        }
        out->kind = kind == '{' ? CHAT_TEMPLATE_LEXER_PRINT_BEGIN : CHAT_TEMPLATE_LEXER_BLOCK_BEGIN;
        lexer->mode = out->kind;
        next_advance(lexer, sign != '\0' ? 3 : 2);
        return STATUS_OK;
    }
    *out = (struct chat_template_lexer_token){.kind = CHAT_TEMPLATE_LEXER_END, .line = lexer->line};
    return STATUS_OK;
}

/* Whether the tag ends here; if so, leaves it. */
static bool next_end(struct chat_template_lexer *lexer, struct chat_template_lexer_token *out)
{
    bool is_block = lexer->mode == CHAT_TEMPLATE_LEXER_BLOCK_BEGIN;
    char first = next_peek(lexer, 0);
    size_t skip = first == '-' || (first == '+' && is_block) ? 1 : 0;
    if (lexer->nesting > 0 || next_peek(lexer, skip) != (is_block ? '%' : '}') ||
        next_peek(lexer, skip + 1) != '}')
        return false;
    out->kind = is_block ? CHAT_TEMPLATE_LEXER_BLOCK_END : CHAT_TEMPLATE_LEXER_PRINT_END;
    next_advance(lexer, skip + 2);
    lexer->mode = CHAT_TEMPLATE_LEXER_TEXT;
    if (is_block)
        next_leave(lexer, first);
    else if (skip > 0)
        next_skip_space(lexer);
    return true;
}

static enum status next_string(struct chat_template_lexer *lexer,
                               struct chat_template_lexer_token *out)
{
    char quote = next_peek(lexer, 0);
    size_t left = lexer->source.length - lexer->at;
    size_t length = 1;
    while (length < left && next_peek(lexer, length) != quote)
        length += next_peek(lexer, length) == '\\' ? 2 : 1;
    if (length >= left)
        FAIL(STATUS_CORRUPT, "line %u: a string is not closed", out->line);
    out->kind = CHAT_TEMPLATE_LEXER_STRING;
    out->text = (struct slice){lexer->source.bytes + lexer->at + 1, length - 1};
    next_advance(lexer, length + 1);
    return STATUS_OK;
}

static enum status next_operator(struct chat_template_lexer *lexer,
                                 struct chat_template_lexer_token *out)
{
    static const char *const doubles[] = {"==", "!=", "<=", ">=", "//", "**"};
    char c = next_peek(lexer, 0);
    size_t length = 1;
    for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
        if (c == doubles[i][0] && next_peek(lexer, 1) == doubles[i][1])
            length = 2;
    }
    if (c == '\0' || (length == 1 && strchr("+-*/%~<>()[]{}.,:|=", c) == NULL))
        FAIL(STATUS_CORRUPT, "line %u: the character 0x%02x cannot stand in a tag", out->line,
             (unsigned int)(unsigned char)c);
    if (c == '(' || c == '[' || c == '{')
        lexer->nesting++;
    if ((c == ')' || c == ']' || c == '}') && lexer->nesting > 0)
        lexer->nesting--;
    out->kind = CHAT_TEMPLATE_LEXER_OPERATOR;
    out->text = (struct slice){lexer->source.bytes + lexer->at, length};
    next_advance(lexer, length);
    return STATUS_OK;
}

static bool next_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the bytes of a number. Behind a point it is an index: x.0.1 has no float. */
static size_t next_number(const struct chat_template_lexer *lexer,
                          enum chat_template_lexer_kind *kind)
{
    size_t length = 0;
    bool is_index = lexer->at > 0 && lexer->source.bytes[lexer->at - 1] == '.';
    *kind = CHAT_TEMPLATE_LEXER_INTEGER;
    while (next_is_digit(next_peek(lexer, length)) || next_peek(lexer, length) == '_')
        length++;
    if (is_index)
        return length;
    if (next_peek(lexer, length) == '.' && next_is_digit(next_peek(lexer, length + 1))) {
        *kind = CHAT_TEMPLATE_LEXER_FLOAT;
        length++;
        while (next_is_digit(next_peek(lexer, length)) || next_peek(lexer, length) == '_')
            length++;
    }
    size_t sign = next_peek(lexer, length + 1) == '+' || next_peek(lexer, length + 1) == '-';
    if ((next_peek(lexer, length) | 0x20) == 'e' &&
        next_is_digit(next_peek(lexer, length + 1 + sign))) {
        *kind = CHAT_TEMPLATE_LEXER_FLOAT;
        length += 1 + sign;
        while (next_is_digit(next_peek(lexer, length)))
            length++;
    }
    while (next_is_name(next_peek(lexer, length), false)) /* such as 12ab: no number */
        length++;
    return length;
}

static enum status next_inside(struct chat_template_lexer *lexer,
                               struct chat_template_lexer_token *out)
{
    next_skip_space(lexer);
    *out = (struct chat_template_lexer_token){.line = lexer->line};
    if (lexer->at == lexer->source.length)
        FAIL(STATUS_CORRUPT, "line %u: a tag is not closed", lexer->line);
    if (next_end(lexer, out))
        return STATUS_OK;
    const char *begin = lexer->source.bytes + lexer->at;
    char first = *begin;
    size_t length = 0;
    if (first == '\'' || first == '"')
        return next_string(lexer, out);
    if (next_is_name(first, true)) {
        while (next_is_name(next_peek(lexer, length), length == 0))
            length++;
        out->kind = CHAT_TEMPLATE_LEXER_NAME;
    } else if (first >= '0' && first <= '9') {
        length = next_number(lexer, &out->kind);
    } else {
        return next_operator(lexer, out);
    }
    out->text = (struct slice){begin, length};
    next_advance(lexer, length);
    return STATUS_OK;
}

enum status chat_template_lexer_next(struct chat_template_lexer *lexer,
                                     struct chat_template_lexer_token *out)
{
    if (lexer->mode == CHAT_TEMPLATE_LEXER_TEXT) {
        lexer->nesting = 0;
        return next_outside(lexer, out);
    }
    return next_inside(lexer, out);
}

/* Reads `count` hexadecimal digits; false when there are fewer. */
static bool unescape_hex(struct slice text, size_t at, size_t count, uint32_t *out)
{
    *out = 0;
    if (count > text.length - at)
        return false;
    for (size_t i = at; i < at + count; i++) {
        char c = text.bytes[i];
        uint32_t digit = 16;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a' + 10);
        if (digit == 16)
            return false;
        *out = *out * 16 + digit;
    }
    return true;
}

static enum status unescape_code_point(const struct chat_template_lexer_token *token, size_t at,
                                       size_t digits, struct buffer *out)
{
    uint32_t code;
    char bytes[4];
    if (!unescape_hex(token->text, at, digits, &code) || (code >= 0xd800 && code <= 0xdfff))
        FAIL(STATUS_CORRUPT, "line %u: an escape in a string is not a character", token->line);
    buffer_append(out, bytes, utf8_encode(code, bytes));
    return STATUS_OK;
}

enum status chat_template_lexer_unescape(const struct chat_template_lexer_token *token,
                                         struct buffer *out)
{
    static const char named[] = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
    struct slice text = token->text;
    for (size_t at = 0; at < text.length; at++) {
        char c = text.bytes[at];
        if (c != '\\') {
            buffer_append_char(out, c);
            continue;
        }
        ASSERT(at + 1 < text.length); /* otherwise the backslash would have escaped the quote */
        char next = text.bytes[++at];
        size_t pair = 0;
        while (named[pair] != '\0' && named[pair] != next)
            pair += 2;
        if (named[pair] != '\0') {
            buffer_append_char(out, named[pair + 1]);
        } else if (next == 'x' || next == 'u') {
            size_t digits = next == 'x' ? 2 : 4;
            TRY(unescape_code_point(token, at + 1, digits, out));
            at += digits;
        } else if (next == 'N' || next == 'U' || (next >= '0' && next <= '9')) {
            FAIL(STATUS_UNSUPPORTED, "line %u: escape '\\%c' is not supported", token->line, next);
        } else if (next != '\n') {
            buffer_append_char(out, '\\');
            buffer_append_char(out, next);
        }
    }
    return out->status;
}
