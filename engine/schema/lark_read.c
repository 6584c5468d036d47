#include "engine/schema/lark_read.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/hex.h"
#include "config/base/limits_grammar.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"

struct reader {
    struct lark_read *lark;
    struct slice source;
    size_t at;
    uint32_t line;
    uint32_t depth;
    struct lark_error *error;
};

enum status lark_read_fail(struct lark_error *error, enum status status, uint32_t line,
                           const char *keyword, const char *format, ...)
{
    va_list arguments;
    error->line = line;
    (void)snprintf(error->keyword, sizeof error->keyword, "%s", keyword);
    va_start(arguments, format);
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

#define REFUSE(reader, status, keyword, ...)                                                       \
    return lark_read_fail((reader)->error, (status), (reader)->line, (keyword), __VA_ARGS__)

/* --- characters --- */

static int peek_at(const struct reader *reader, size_t ahead)
{
    size_t at = reader->at + ahead;
    return at < reader->source.length ? (unsigned char)reader->source.bytes[at] : -1;
}

static int peek(const struct reader *reader)
{
    return peek_at(reader, 0);
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_capital(int c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || is_capital(c) || c == '_';
}

static void skip_blanks(struct reader *reader)
{
    while (peek(reader) == ' ' || peek(reader) == '\t' || peek(reader) == '\r')
        reader->at++;
    if (peek(reader) == '/' && peek_at(reader, 1) == '/')
        while (peek(reader) != '\n' && peek(reader) != -1)
            reader->at++;
}

static void skip_lines(struct reader *reader)
{
    for (skip_blanks(reader); peek(reader) == '\n'; skip_blanks(reader)) {
        reader->at++;
        reader->line++;
    }
}

/* Blanks; inside brackets lines too, and everywhere lines before a bar. */
static void skip(struct reader *reader)
{
    skip_blanks(reader);
    if (peek(reader) != '\n')
        return;
    struct reader before = *reader;
    skip_lines(reader);
    if (reader->depth == 0 && peek(reader) != '|')
        *reader = before;
}

static bool take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if (reader->source.length - reader->at < length ||
        memcmp(reader->source.bytes + reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static struct slice take_name(struct reader *reader)
{
    size_t start = reader->at;
    while (is_letter(peek(reader)) || (reader->at > start && is_digit(peek(reader))))
        reader->at++;
    return (struct slice){reader->source.bytes + start, reader->at - start};
}

static bool is_terminal(struct slice name)
{
    size_t at = 0;
    while (at < name.length && name.bytes[at] == '_')
        at++;
    return at < name.length && is_capital((unsigned char)name.bytes[at]);
}

/* --- nodes --- */

static enum status add_node(struct reader *reader, enum lark_kind kind, uint32_t *out)
{
    struct lark_read *lark = reader->lark;
    if (lark->node_count == LIMIT_LARK_NODES)
        REFUSE(reader, STATUS_LIMIT, "", "The grammar has more than %d parts.", LIMIT_LARK_NODES);
    if (lark->node_count == lark->node_capacity) {
        uint32_t capacity = lark->node_capacity != 0 ? lark->node_capacity * 2 : 64;
        struct lark_node *nodes = mem_realloc(lark->nodes, capacity * sizeof *nodes);
        if (nodes == NULL)
            REFUSE(reader, STATUS_NO_MEMORY, "", "There is no memory for the grammar.");
        lark->nodes = nodes;
        lark->node_capacity = capacity;
    }
    *out = lark->node_count++;
    lark->nodes[*out] = (struct lark_node){
        .kind = kind, .line = reader->line, .first = LARK_NONE, .next = LARK_NONE};
    return STATUS_OK;
}

static enum status add_definition(struct reader *reader, struct lark_definition definition)
{
    struct lark_read *lark = reader->lark;
    if (lark->definition_count == LIMIT_LARK_NAMES)
        REFUSE(reader, STATUS_LIMIT, "", "The grammar has more than %d names.", LIMIT_LARK_NAMES);
    if (lark->definition_count == lark->definition_capacity) {
        uint32_t capacity = lark->definition_capacity != 0 ? lark->definition_capacity * 2 : 16;
        struct lark_definition *definitions =
            mem_realloc(lark->definitions, capacity * sizeof *definitions);
        if (definitions == NULL)
            REFUSE(reader, STATUS_NO_MEMORY, "", "There is no memory for the grammar.");
        lark->definitions = definitions;
        lark->definition_capacity = capacity;
    }
    definition.line = reader->line;
    definition.is_terminal = is_terminal(definition.name) || definition.imported.length != 0;
    lark->definitions[lark->definition_count++] = definition;
    return STATUS_OK;
}

/* --- strings --- */

/* The code point of an escape behind its backslash. -1: it is none. */
static int64_t take_escape(struct reader *reader)
{
    int c = peek(reader);
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    reader->at++;
    int64_t value = 0;
    for (int i = 0; i < digits; i++, reader->at++) {
        int digit = peek(reader) >= 0 ? hex_digit((char)peek(reader)) : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    if (digits != 0)
        return value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? -1 : value;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case '"':
    case '\\':
    case '/':
    case '\'':
        return c;
    default:
        return -1;
    }
}

/* Reads a string from its first quote on. */
static enum status take_string(struct reader *reader, struct slice *out)
{
    struct lark_read *lark = reader->lark;
    char *start = lark->strings + lark->strings_used;
    size_t length = 0;
    reader->at++;
    while (peek(reader) != '"') {
        int c = peek(reader);
        if (c == -1 || c == '\n')
            REFUSE(reader, STATUS_INVALID, "", "A string has no closing quote.");
        reader->at++;
        if (c != '\\') {
            start[length++] = (char)c;
            continue;
        }
        int64_t code_point = take_escape(reader);
        if (code_point < 0)
            REFUSE(reader, STATUS_INVALID, "", "A string has an escape that is not known.");
        length += utf8_encode((uint32_t)code_point, start + length);
    }
    reader->at++;
    lark->strings_used += length;
    *out = (struct slice){start, length};
    return STATUS_OK;
}

/* The code point of a text of one character. */
static bool one_character(struct slice text, uint32_t *out)
{
    size_t length = utf8_sequence_length(text.bytes, text.length);
    if (text.length == 0 || length != text.length)
        return false;
    *out = utf8_decode(text.bytes, length);
    return true;
}

static enum status read_string(struct reader *reader, uint32_t *out)
{
    struct slice text;
    TRY(take_string(reader, &text));
    struct lark_node node = {.kind = LARK_TEXT, .text = text};
    if (peek(reader) == 'i' && !is_letter(peek_at(reader, 1)) && !is_digit(peek_at(reader, 1))) {
        node.any_case = true;
        reader->at++;
    }
    if (take(reader, "..")) {
        struct slice last;
        if (peek(reader) != '"')
            REFUSE(reader, STATUS_INVALID, "..", "A range needs a string on both sides.");
        TRY(take_string(reader, &last));
        if (!one_character(text, &node.min) || !one_character(last, &node.max) ||
            node.min > node.max)
            REFUSE(reader, STATUS_INVALID, "..",
                   "A range goes from one character to one that is not smaller.");
        node.kind = LARK_RANGE;
    }
    TRY(add_node(reader, node.kind, out));
    struct lark_node *made = &reader->lark->nodes[*out];
    made->text = node.text;
    made->any_case = node.any_case;
    made->min = node.min;
    made->max = node.max;
    return STATUS_OK;
}

static enum status read_regex(struct reader *reader, uint32_t *out)
{
    bool in_class = false;
    size_t start = ++reader->at;
    for (; peek(reader) != '/' || in_class; reader->at++) {
        int c = peek(reader);
        if (c == -1 || c == '\n')
            REFUSE(reader, STATUS_INVALID, "", "A regex has no closing slash.");
        if (c == '[' || c == ']')
            in_class = c == '[';
        if (c == '\\')
            reader->at++;
    }
    TRY(add_node(reader, LARK_REGEX, out));
    reader->lark->nodes[*out].text =
        (struct slice){reader->source.bytes + start, reader->at - start};
    for (reader->at++; is_letter(peek(reader)); reader->at++) {
        struct lark_node *node = &reader->lark->nodes[*out];
        int flag = peek(reader);
        node->any_case |= flag == 'i';
        node->dot_all |= flag == 's';
        if (flag != 'i' && flag != 's' && flag != 'u')
            REFUSE(reader, STATUS_UNSUPPORTED, "/", "The flag \"%c\" of a regex is not supported.",
                   flag);
    }
    return STATUS_OK;
}

static enum status read_control(struct reader *reader, uint32_t *out)
{
    size_t start = reader->at;
    while (peek(reader) != '>') {
        if (peek(reader) == -1 || peek(reader) == '\n')
            REFUSE(reader, STATUS_INVALID, "<", "The name of a control token has no end.");
        reader->at++;
    }
    reader->at++;
    TRY(add_node(reader, LARK_CONTROL, out));
    reader->lark->nodes[*out].text =
        (struct slice){reader->source.bytes + start, reader->at - start};
    return STATUS_OK;
}

/* --- schemas --- */

/* Reads %json and the schema behind it, which may go over several lines. */
static enum status read_json(struct reader *reader, uint32_t *out)
{
    bool in_string = false;
    uint32_t open = 0;
    if (!take(reader, "%json"))
        REFUSE(reader, STATUS_INVALID, "", "\"%%\" is not expected here.");
    if (reader->lark->schema_count++ == LIMIT_LARK_SCHEMAS)
        REFUSE(reader, STATUS_LIMIT, "%json", "The grammar has more than %d schemas.",
               LIMIT_LARK_SCHEMAS);
    TRY(add_node(reader, LARK_JSON, out));
    skip_lines(reader);
    if (peek(reader) != '{')
        REFUSE(reader, STATUS_INVALID, "%json", "A schema in braces is needed.");
    size_t start = reader->at;
    do {
        int c = peek(reader);
        if (c == -1)
            REFUSE(reader, STATUS_INVALID, "%json", "A schema has no closing brace.");
        if (in_string && c == '\\')
            reader->at++;
        in_string ^= c == '"';
        open += !in_string && c == '{';
        open -= !in_string && c == '}';
        reader->line += c == '\n';
        reader->at++;
    } while (open != 0);
    reader->lark->nodes[*out].text =
        (struct slice){reader->source.bytes + start, reader->at - start};
    return STATUS_OK;
}

/* --- expressions --- */

static enum status read_either(struct reader *reader, uint32_t *out);

static enum status read_group(struct reader *reader, char closing, uint32_t *out)
{
    if (reader->depth == LIMIT_LARK_DEPTH)
        REFUSE(reader, STATUS_LIMIT, "", "Brackets are nested more than %d deep.",
               LIMIT_LARK_DEPTH);
    uint32_t line = reader->line;
    reader->at++;
    reader->depth++;
    TRY(read_either(reader, out));
    skip(reader);
    if (peek(reader) != closing) {
        reader->line = line;
        REFUSE(reader, STATUS_INVALID, "", "A bracket is not closed by \"%c\".", closing);
    }
    reader->at++;
    reader->depth--;
    return STATUS_OK;
}

static enum status read_atom(struct reader *reader, uint32_t *out)
{
    switch (peek(reader)) {
    case '"':
        return read_string(reader, out);
    case '/':
        return read_regex(reader, out);
    case '<':
        return read_control(reader, out);
    case '%':
        return read_json(reader, out);
    case '(':
        return read_group(reader, ')', out);
    case '[': {
        uint32_t part;
        TRY(read_group(reader, ']', &part));
        TRY(add_node(reader, LARK_REPEAT, out));
        reader->lark->nodes[*out].first = part;
        reader->lark->nodes[*out].max = 1;
        return STATUS_OK;
    }
    default:
        TRY(add_node(reader, LARK_NAME, out));
        reader->lark->nodes[*out].text = take_name(reader);
        if (peek(reader) == '{' && !is_digit(peek_at(reader, 1)) && peek_at(reader, 1) != ',')
            REFUSE(reader, STATUS_UNSUPPORTED, "{}", "Templates are not supported.");
        return STATUS_OK;
    }
}

static bool take_number(struct reader *reader, uint32_t *out)
{
    skip_blanks(reader);
    if (!is_digit(peek(reader)))
        return false;
    for (*out = 0; is_digit(peek(reader)); reader->at++)
        if (*out <= LIMIT_LARK_REPEAT)
            *out = *out * 10 + (uint32_t)(peek(reader) - '0');
    skip_blanks(reader);
    return true;
}

/* {n} {n,} {,m} {n,m}, from the brace on; or ~ n, ~ n..m, behind the tilde. */
static bool take_counts(struct reader *reader, bool is_brace, uint32_t *min, uint32_t *max)
{
    bool has_min = take_number(reader, min);
    if (!has_min)
        *min = 0;
    *max = *min;
    if (take(reader, is_brace ? "," : "..")) {
        bool has_max = take_number(reader, max);
        if (!has_max)
            *max = LARK_NONE;
        if (!has_max && (!is_brace || !has_min))
            return false;
    } else if (!has_min) {
        return false;
    }
    return !is_brace || take(reader, "}");
}

/* An operator behind a part, if there is one. */
static enum status read_sign(struct reader *reader, uint32_t part, uint32_t *out)
{
    uint32_t min = 0;
    uint32_t max = LARK_NONE;
    skip_blanks(reader);
    int sign = peek(reader);
    if (sign != '?' && sign != '*' && sign != '+' && sign != '~' && sign != '{') {
        *out = part;
        return STATUS_OK;
    }
    reader->at++;
    if (sign == '?')
        max = 1;
    if (sign == '+')
        min = 1;
    if (sign == '~' || sign == '{') {
        bool is_brace = sign == '{';
        if (!take_counts(reader, is_brace, &min, &max) || min > max)
            REFUSE(reader, STATUS_INVALID, is_brace ? "{" : "~", "A repetition is not valid.");
        if (min > LIMIT_LARK_REPEAT || (max != LARK_NONE && max > LIMIT_LARK_REPEAT))
            REFUSE(reader, STATUS_LIMIT, is_brace ? "{" : "~",
                   "A part is repeated more than %d times.", LIMIT_LARK_REPEAT);
    }
    TRY(add_node(reader, LARK_REPEAT, out));
    struct lark_node *node = &reader->lark->nodes[*out];
    node->first = part;
    node->min = min;
    node->max = max;
    return STATUS_OK;
}

static bool begins_part(int c)
{
    return c == '"' || c == '/' || c == '<' || c == '(' || c == '[' || c == '%' || is_letter(c);
}

static enum status read_sequence(struct reader *reader, uint32_t *out)
{
    uint32_t last = LARK_NONE;
    TRY(add_node(reader, LARK_SEQUENCE, out));
    for (skip(reader); begins_part(peek(reader)); skip(reader)) {
        uint32_t part;
        TRY(read_atom(reader, &part));
        TRY(read_sign(reader, part, &part));
        struct lark_node *nodes = reader->lark->nodes;
        *(last == LARK_NONE ? &nodes[*out].first : &nodes[last].next) = part;
        last = part;
    }
    if (take(reader, "->")) {
        skip_blanks(reader);
        if (take_name(reader).length == 0)
            REFUSE(reader, STATUS_INVALID, "->", "An alias has no name.");
    }
    return STATUS_OK;
}

static enum status read_either(struct reader *reader, uint32_t *out)
{
    uint32_t last;
    TRY(add_node(reader, LARK_EITHER, out));
    skip(reader);
    (void)take(reader, "|"); /* a bar before the first alternative has no effect */
    TRY(read_sequence(reader, &last));
    reader->lark->nodes[*out].first = last;
    for (skip(reader); take(reader, "|"); skip(reader)) {
        uint32_t part;
        TRY(read_sequence(reader, &part));
        reader->lark->nodes[last].next = part;
        last = part;
    }
    return STATUS_OK;
}

/* --- statements --- */

static enum status end_line(struct reader *reader)
{
    skip_blanks(reader);
    if (peek(reader) != '\n' && peek(reader) != -1)
        REFUSE(reader, STATUS_INVALID, "", "\"%c\" is not expected here.", peek(reader));
    return STATUS_OK;
}

static enum status add_import(struct reader *reader, struct slice imported, struct slice name)
{
    if (imported.length == 0 || name.length == 0)
        REFUSE(reader, STATUS_INVALID, "%import", "An import has no name.");
    return add_definition(
        reader, (struct lark_definition){.name = name, .node = LARK_NONE, .imported = imported});
}

/* common.NAME, common.NAME -> OTHER, common (NAME, NAME). */
static enum status read_import(struct reader *reader)
{
    skip_blanks(reader);
    if (!take(reader, "common"))
        REFUSE(reader, STATUS_UNSUPPORTED, "%import", "Only names of common can be imported.");
    skip_blanks(reader);
    if (take(reader, ".")) {
        struct slice imported = take_name(reader);
        struct slice name = imported;
        skip_blanks(reader);
        if (take(reader, "->")) {
            skip_blanks(reader);
            name = take_name(reader);
        }
        return add_import(reader, imported, name);
    }
    if (!take(reader, "("))
        REFUSE(reader, STATUS_INVALID, "%import", "An import has no name.");
    do {
        skip_blanks(reader);
        struct slice name = take_name(reader);
        TRY(add_import(reader, name, name));
        skip_blanks(reader);
    } while (take(reader, ","));
    if (!take(reader, ")"))
        REFUSE(reader, STATUS_INVALID, "%import", "A list of imports has no end.");
    return STATUS_OK;
}

static enum status read_ignore(struct reader *reader)
{
    struct lark_read *lark = reader->lark;
    uint32_t node;
    TRY(read_either(reader, &node));
    uint32_t *ignored =
        mem_realloc(lark->ignored, (lark->ignored_count + (size_t)1) * sizeof *ignored);
    if (ignored == NULL)
        REFUSE(reader, STATUS_NO_MEMORY, "", "There is no memory for the grammar.");
    lark->ignored = ignored;
    lark->ignored[lark->ignored_count++] = node;
    return STATUS_OK;
}

static enum status read_directive(struct reader *reader)
{
    static const char *const refused[] = {"%override", "%extend", "%declare", "%regex",
                                          "%llguidance"};
    if (take(reader, "%import"))
        return read_import(reader);
    if (take(reader, "%ignore"))
        return read_ignore(reader);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (take(reader, refused[i]))
            REFUSE(reader, STATUS_UNSUPPORTED, refused[i], "%s is not supported.", refused[i]);
    if (take(reader, "%json"))
        REFUSE(reader, STATUS_INVALID, "%json", "A schema is a part of a rule, not a statement.");
    REFUSE(reader, STATUS_INVALID, "%", "The directive is not known.");
}

static enum status read_definition(struct reader *reader)
{
    if (peek(reader) == '?' || peek(reader) == '!')
        reader->at++; /* how the tree is shaped, which nobody sees */
    struct lark_definition definition = {.name = take_name(reader)};
    if (definition.name.length == 0)
        REFUSE(reader, STATUS_INVALID, "", "A line begins with neither a name nor a directive.");
    if (peek(reader) == '{')
        REFUSE(reader, STATUS_UNSUPPORTED, "{}", "Templates are not supported.");
    if (peek(reader) == '.')
        REFUSE(reader, STATUS_UNSUPPORTED, ".", "Priorities are not supported.");
    skip_blanks(reader);
    if (!take(reader, ":"))
        REFUSE(reader, STATUS_INVALID, "", "\"%.*s\" has no colon behind it.",
               (int)(definition.name.length < 64 ? definition.name.length : 64),
               definition.name.bytes);
    uint32_t line = reader->line;
    TRY(read_either(reader, &definition.node));
    TRY(add_definition(reader, definition));
    reader->lark->definitions[reader->lark->definition_count - 1].line = line;
    return STATUS_OK;
}

enum status lark_read(struct lark_read *out, struct slice source, struct lark_error *error)
{
    struct reader reader = {.lark = out, .source = source, .line = 1, .error = error};
    enum status status = STATUS_OK;
    *out = (struct lark_read){0};
    /* A string is never longer than in the source. */
    out->strings = mem_alloc(source.length + 1);
    if (out->strings == NULL)
        status =
            lark_read_fail(error, STATUS_NO_MEMORY, 0, "", "There is no memory for the grammar.");
    else if (!utf8_is_valid(source.bytes, source.length))
        status = lark_read_fail(error, STATUS_INVALID, 0, "", "The grammar is not UTF-8.");
    skip_lines(&reader);
    while (status == STATUS_OK && peek(&reader) != -1) {
        status = peek(&reader) == '%' ? read_directive(&reader) : read_definition(&reader);
        if (status == STATUS_OK)
            status = end_line(&reader);
        skip_lines(&reader);
    }
    if (status != STATUS_OK)
        lark_read_free(out);
    return status;
}

void lark_read_free(struct lark_read *lark)
{
    mem_free(lark->nodes);
    mem_free(lark->definitions);
    mem_free(lark->ignored);
    mem_free(lark->strings);
    *lark = (struct lark_read){0};
}
