#include "engine/grammar/regex_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "engine/grammar/regex_node.h"

enum { CODE_POINT_MAX = 0x10ffff };
#define NO_CHARACTER UINT32_MAX
/* A part on the stack with this bit is no text, but what the text from there on must match. */
#define LOOK_MARK ((uint32_t)1 << 31)

/* What a part of a regex matches, by the anchors at its edges: an OR of four. */
enum { AT_START = 1, AT_END = 2, ANCHORS = 4 };
struct value {
    regex_node_id at[ANCHORS];
};

enum group_kind { GROUP, LOOK_AHEAD, LOOK_AHEAD_NOT };

/* A group whose end is not read yet; the first one is the whole regex. Of the alternative that is
 * read, parts between `first` and `last` stand on the pool's stack. */
struct group {
    enum group_kind kind;
    size_t offset;      /* of its bracket */
    struct value done;  /* the anchored alternatives before; the others are on the stack */
    struct value first; /* what may be anchored to the start */
    struct value last;  /* what may be anchored to the end */
    regex_node_id look; /* what the text from here on must match */
    uint32_t start;     /* of the stack: alternatives without anchors */
    uint32_t base;      /* of the stack: parts of the alternative */
    uint32_t counts;    /* the largest product of counts inside each other */
    bool has_looks;     /* a part has LOOK_MARK */
    bool is_begun;      /* something stands before the place that is read */
    bool is_ended;      /* nothing may follow, because an anchor does */
};

struct parser {
    struct regex_pool *pool;
    struct slice source;
    size_t at;
    enum regex_match match;
    uint32_t flags;
    struct regex_error *error;
    enum status status;
    regex_node_id any;          /* any text */
    struct regex_range *ranges; /* of the class that is read */
    uint32_t range_count;
    uint32_t range_capacity;
    uint32_t depth;
    struct group groups[LIMIT_GRAMMAR_DEPTH + 1];
};

/* --- errors and characters --- */

static enum status refuse(struct parser *p, enum status status, size_t offset, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));

static enum status refuse(struct parser *p, enum status status, size_t offset, const char *format,
                          ...)
{
    if (p->status != STATUS_OK)
        return p->status;
    char what[120];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    p->error->offset = offset;
    snprintf(p->error->message, sizeof p->error->message, "%s, at offset %zu.", what, offset);
    return p->status = status_fail(status, __FILE__, __LINE__, NULL, "%s", p->error->message);
}

static enum status refuse_anchor(struct parser *p, size_t offset)
{
    return refuse(p, STATUS_UNSUPPORTED, offset,
                  "Anchors are supported only at the outer edges of a regex");
}

static bool is_at(const struct parser *p, const char *text)
{
    struct slice rest = {p->source.bytes + p->at, p->source.length - p->at};
    return slice_starts_with(rest, slice_of(text));
}

static bool take(struct parser *p, const char *text)
{
    bool is = is_at(p, text);
    p->at += is ? strlen(text) : 0;
    return is;
}

/* The next character; the source is UTF-8. NO_CHARACTER at its end. */
static uint32_t take_character(struct parser *p)
{
    const char *bytes = p->source.bytes + p->at;
    if (p->at == p->source.length)
        return NO_CHARACTER;
    size_t length = utf8_sequence_length(bytes, p->source.length - p->at);
    p->at += length;
    return utf8_decode(bytes, length);
}

static void add_range(struct parser *p, uint32_t first, uint32_t last)
{
    if (!regex_room((void **)&p->ranges, &p->range_capacity, p->range_count + 1,
                    sizeof *p->ranges)) {
        refuse(p, STATUS_NO_MEMORY, p->at, "No memory is left for a class");
        return;
    }
    p->ranges[p->range_count++] = (struct regex_range){first, last};
}

static int compare_ranges(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Replaces the ranges from `from` on by all other characters. */
static void complement(struct parser *p, uint32_t from)
{
    uint32_t count = p->range_count - from, next = 0;
    if (count != 0)
        qsort(p->ranges + from, count, sizeof *p->ranges, compare_ranges);
    for (uint32_t i = 0; i < count; i++) {
        struct regex_range range = p->ranges[from + i];
        if (range.first > next)
            add_range(p, next, range.first - 1);
        next = range.last + 1 > next ? range.last + 1 : next;
    }
    if (next <= CODE_POINT_MAX)
        add_range(p, next, CODE_POINT_MAX);
    if (p->status != STATUS_OK)
        return;
    uint32_t gaps = p->range_count - from - count;
    if (gaps != 0)
        memmove(p->ranges + from, p->ranges + from + count, gaps * sizeof *p->ranges);
    p->range_count = from + gaps;
}

/* Adds the letters A to Z of the ranges in the other case. */
static void add_other_case(struct parser *p)
{
    uint32_t count = p->range_count;
    for (uint32_t i = 0; i < count && p->status == STATUS_OK; i++)
        for (uint32_t letter = 'A'; letter <= 'Z'; letter++) {
            uint32_t other = letter + 'a' - 'A';
            if (letter >= p->ranges[i].first && letter <= p->ranges[i].last)
                add_range(p, other, other);
            if (other >= p->ranges[i].first && other <= p->ranges[i].last)
                add_range(p, letter, letter);
        }
}

static regex_node_id make_class(struct parser *p, bool is_negated)
{
    if ((p->flags & REGEX_IGNORE_CASE) != 0)
        add_other_case(p);
    if (is_negated)
        complement(p, 0);
    regex_node_id id = regex_chars(p->pool, p->ranges, p->range_count);
    p->range_count = 0;
    return id;
}

static regex_node_id make_character(struct parser *p, uint32_t character)
{
    if (character < 0x80 && (p->flags & REGEX_IGNORE_CASE) == 0) { /* short for the same */
        struct byte_set one = {{0}};
        byte_set_add(&one, (uint8_t)character);
        return regex_bytes(p->pool, &one);
    }
    p->range_count = 0;
    add_range(p, character, character);
    return make_class(p, false);
}

static regex_node_id make_dot(struct parser *p)
{
    p->range_count = 0;
    if ((p->flags & REGEX_DOT_ALL) == 0) {
        add_range(p, '\n', '\n');
        add_range(p, '\r', '\r');
        add_range(p, 0x2028, 0x2029);
    }
    complement(p, 0);
    regex_node_id id = regex_chars(p->pool, p->ranges, p->range_count);
    p->range_count = 0;
    return id;
}

/* --- escapes --- */

/* Ranges of \d, \w and \s, by their letter. */
static void add_named(struct parser *p, char letter)
{
    static const struct regex_range spaces[] = {
        {'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff},
    };
    if (letter == 'd' || letter == 'w')
        add_range(p, '0', '9');
    if (letter == 'w') {
        add_range(p, 'A', 'Z');
        add_range(p, '_', '_');
        add_range(p, 'a', 'z');
    }
    for (uint32_t i = 0; letter == 's' && i < sizeof spaces / sizeof *spaces; i++)
        add_range(p, spaces[i].first, spaces[i].last);
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes from `least` to `most` hexadecimal digits. */
static bool take_hex(struct parser *p, uint32_t least, uint32_t most, uint32_t *out)
{
    uint32_t count = 0;
    *out = 0;
    while (count < most && p->at < p->source.length && hex_of(p->source.bytes[p->at]) >= 0) {
        *out = *out * 16 + (uint32_t)hex_of(p->source.bytes[p->at++]);
        count++;
    }
    return count >= least;
}

/* Behind \u. */
static uint32_t take_unicode(struct parser *p, size_t offset)
{
    uint32_t high, low;
    bool is_braced = take(p, "{");
    bool is = take_hex(p, is_braced ? 1 : 4, is_braced ? 6 : 4, &high);
    is = is && (!is_braced || take(p, "}"));
    if (is && !is_braced && high >= 0xd800 && high <= 0xdbff && take(p, "\\u") &&
        take_hex(p, 4, 4, &low) && low >= 0xdc00 && low <= 0xdfff)
        return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    if (!is || high > CODE_POINT_MAX || (high >= 0xd800 && high <= 0xdfff)) {
        refuse(p, STATUS_INVALID, offset, "The escape \\u is no character");
        return NO_CHARACTER;
    }
    return high;
}

static uint32_t take_hex_escape(struct parser *p, size_t offset)
{
    uint32_t character;
    if (take_hex(p, 2, 2, &character))
        return character;
    refuse(p, STATUS_INVALID, offset, "The escape \\x needs two hexadecimal digits");
    return NO_CHARACTER;
}

static uint32_t take_control(struct parser *p, size_t offset)
{
    uint32_t letter = take_character(p);
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
        return letter % 32;
    refuse(p, STATUS_INVALID, offset, "The escape \\c needs a letter");
    return NO_CHARACTER;
}

/* Refuses what is not supported behind a backslash, by its name. */
static void refuse_escape(struct parser *p, uint32_t letter, size_t offset)
{
    if (letter == NO_CHARACTER)
        refuse(p, STATUS_INVALID, offset, "A backslash ends the regex");
    else if (letter == 'b' || letter == 'B')
        refuse(p, STATUS_UNSUPPORTED, offset, "The word boundary \\%c is not supported",
               (char)letter);
    else if ((letter >= '1' && letter <= '9') || letter == 'k')
        refuse(p, STATUS_UNSUPPORTED, offset, "The back reference \\%c is not supported",
               (char)letter);
    else if (letter == 'p' || letter == 'P')
        refuse(p, STATUS_UNSUPPORTED, offset, "The Unicode property \\%c is not supported",
               (char)letter);
    else if (letter == 'A' || letter == 'Z' || letter == 'z' || letter == 'G')
        refuse(p, STATUS_UNSUPPORTED, offset, "The anchor \\%c is not supported", (char)letter);
    else if (letter == '0')
        refuse(p, STATUS_INVALID, offset, "The escape \\0 with a digit behind it is no character");
    else
        refuse(p, STATUS_INVALID, offset, "The escape \\%c is unknown",
               letter < 0x80 ? (char)letter : '?');
}

static bool is_plain_escape(uint32_t letter)
{
    bool is_word = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                   (letter >= 'a' && letter <= 'z');
    return letter >= ' ' && letter < 0x7f && !is_word;
}

/* Reads behind a backslash. Returns the character, or NO_CHARACTER after adding ranges of a named
 * class, or after an error. */
static uint32_t take_escape(struct parser *p, bool is_in_class)
{
    static const char named[] = "fnrtv", characters[] = "\f\n\r\t\v";
    size_t offset = p->at - 1;
    uint32_t letter = take_character(p);
    const char *found = letter != 0 && letter < 0x80 ? strchr(named, (char)letter) : NULL;
    if (found != NULL)
        return (uint32_t)characters[found - named];
    bool has_digit =
        p->at < p->source.length && p->source.bytes[p->at] >= '0' && p->source.bytes[p->at] <= '9';
    switch (letter) {
    case 'd':
    case 'w':
    case 's':
        add_named(p, (char)letter);
        return NO_CHARACTER;
    case 'D':
    case 'W':
    case 'S': {
        uint32_t from = p->range_count;
        add_named(p, (char)(letter + 'a' - 'A'));
        complement(p, from);
        return NO_CHARACTER;
    }
    case 'u':
        return take_unicode(p, offset);
    case 'x':
        return take_hex_escape(p, offset);
    case 'c':
        return take_control(p, offset);
    default:
        break;
    }
    if (letter == '0' && !has_digit)
        return 0;
    if (is_in_class && letter == 'b')
        return '\b';
    if (is_plain_escape(letter))
        return letter;
    refuse_escape(p, letter, offset);
    return NO_CHARACTER;
}

/* --- classes --- */

/* One end of a range: a character, or NO_CHARACTER for a named class whose ranges were added. */
static uint32_t take_class_atom(struct parser *p)
{
    return take(p, "\\") ? take_escape(p, true) : take_character(p);
}

/* Behind an opening bracket. */
static regex_node_id parse_class(struct parser *p)
{
    size_t offset = p->at - 1;
    bool is_negated = take(p, "^");
    p->range_count = 0;
    while (p->status == STATUS_OK && !take(p, "]")) {
        if (p->at == p->source.length) {
            refuse(p, STATUS_INVALID, offset, "A class is not closed");
            break;
        }
        size_t at = p->at;
        uint32_t first = take_class_atom(p), last = first;
        bool is_range =
            is_at(p, "-") && p->at + 1 < p->source.length && p->source.bytes[p->at + 1] != ']';
        if (is_range) {
            uint32_t before = p->range_count;
            p->at++;
            last = take_class_atom(p);
            if (first == NO_CHARACTER || (last == NO_CHARACTER && p->range_count > before)) {
                refuse(p, STATUS_INVALID, at, "A range of a class has no character at its edge");
                break;
            }
        }
        if (first == NO_CHARACTER || last == NO_CHARACTER)
            continue;
        if (first > last)
            refuse(p, STATUS_INVALID, at, "A range of a class is out of order");
        else
            add_range(p, first, last);
    }
    return p->status == STATUS_OK ? make_class(p, is_negated) : REGEX_NONE;
}

/* --- alternatives --- */

static struct value value_of(regex_node_id id)
{
    return (struct value){{id, REGEX_NONE, REGEX_NONE, REGEX_NONE}};
}

static bool is_anchored(const struct value *value, uint32_t edge)
{
    for (uint32_t i = 0; i < ANCHORS; i++)
        if ((i & edge) != 0 && value->at[i] != REGEX_NONE)
            return true;
    return false;
}

static struct value cat_values(struct parser *p, const struct value *a, const struct value *b)
{
    struct value all = value_of(REGEX_NONE);
    for (uint32_t i = 0; i < ANCHORS; i++)
        for (uint32_t j = 0; j < ANCHORS; j++)
            if (a->at[i] != REGEX_NONE && b->at[j] != REGEX_NONE)
                all.at[i | j] =
                    regex_or(p->pool, all.at[i | j], regex_cat(p->pool, a->at[i], b->at[j]));
    return all;
}

static void begin_alternative(struct parser *p, struct group *group)
{
    group->first = group->last = value_of(REGEX_EMPTY);
    group->look = REGEX_ALL;
    group->base = p->pool->top;
    group->has_looks = group->is_begun = group->is_ended = false;
}

/* The text from some place on, when the regex begins there. */
static regex_node_id suffix_of(struct parser *p, const struct group *group, regex_node_id body,
                               bool is_open)
{
    if (is_open)
        body = regex_cat(p->pool, body, p->any);
    return group->look == REGEX_ALL ? body : regex_and(p->pool, group->look, body);
}

/* Adds an alternative of the whole regex, as what whole texts match. */
static void end_outer(struct parser *p, const struct group *group, const struct value *value)
{
    for (uint32_t i = 0; i < ANCHORS; i++) {
        if (value->at[i] == REGEX_NONE)
            continue;
        bool is_search = p->match == REGEX_SEARCH;
        regex_node_id text = suffix_of(p, group, value->at[i], is_search && (i & AT_END) == 0);
        if (is_search && (i & AT_START) == 0)
            text = regex_cat(p->pool, p->any, text);
        regex_push(p->pool, text);
    }
}

/* The parts of an alternative with lookahead between them, with all that may follow: from the
 * right, each lookahead is intersected with what stands behind it. */
static struct value join_looks(struct parser *p, const struct group *group)
{
    struct regex_pool *pool = p->pool;
    struct value value = value_of(REGEX_NONE);
    for (uint32_t edge = 0; edge <= AT_END; edge += AT_END) {
        regex_node_id text = group->last.at[edge];
        if (edge == 0 && p->match == REGEX_SEARCH)
            text = regex_cat(pool, text, p->any);
        for (uint32_t i = pool->top; i > group->base && pool->status == STATUS_OK; i--) {
            uint32_t part = pool->stack[i - 1];
            text = (part & LOOK_MARK) != 0 ? regex_and(pool, part & ~LOOK_MARK, text)
                                           : regex_cat(pool, part, text);
        }
        value.at[AT_END] = regex_or(pool, value.at[AT_END], text);
    }
    pool->top = group->base;
    return value;
}

static struct value join_parts(struct parser *p, const struct group *group)
{
    struct regex_pool *pool = p->pool;
    regex_node_id middle = REGEX_EMPTY;
    while (pool->top > group->base)
        middle = regex_cat(pool, pool->stack[--pool->top], middle);
    struct value value = value_of(middle);
    return cat_values(p, &value, &group->last);
}

static void end_alternative(struct parser *p)
{
    struct group *group = &p->groups[p->depth];
    struct regex_pool *pool = p->pool;
    struct value value = group->has_looks ? join_looks(p, group) : join_parts(p, group);
    value = cat_values(p, &group->first, &value);
    if (p->depth == 0)
        end_outer(p, group, &value);
    else
        regex_push(pool, value.at[0]);
    for (uint32_t i = 1; p->depth != 0 && i < ANCHORS; i++)
        group->done.at[i] = regex_or(pool, group->done.at[i], value.at[i]);
    begin_alternative(p, group);
}

/* Ends the last alternative of a group and joins all. */
static struct value end_group(struct parser *p)
{
    struct group *group = &p->groups[p->depth];
    end_alternative(p);
    group->done.at[0] = regex_chars_or(p->pool, group->start);
    return group->done;
}

/* Puts a part behind what was read of the alternative. */
static enum status add_part(struct parser *p, const struct value *part, size_t offset)
{
    struct group *group = &p->groups[p->depth];
    if (group->is_ended || (group->is_begun && is_anchored(part, AT_START)))
        return refuse_anchor(p, offset);
    if (is_anchored(part, AT_START))
        group->first = cat_values(p, &group->first, part);
    else if (is_anchored(part, AT_END))
        group->last = *part;
    else
        regex_push(p->pool, part->at[0]);
    group->is_begun = true;
    group->is_ended = is_anchored(part, AT_END);
    return p->status;
}

static enum status parse_start(struct parser *p)
{
    struct group *group = &p->groups[p->depth];
    if (group->is_begun)
        return refuse_anchor(p, p->at - 1);
    group->first = value_of(REGEX_NONE);
    group->first.at[AT_START] = REGEX_EMPTY;
    return STATUS_OK;
}

static enum status parse_end(struct parser *p)
{
    struct group *group = &p->groups[p->depth];
    struct value anchor = value_of(REGEX_NONE);
    anchor.at[AT_END] = REGEX_EMPTY;
    group->last = cat_values(p, &group->last, &anchor);
    group->is_begun = group->is_ended = true;
    return STATUS_OK;
}

/* --- counts --- */

static bool take_number(struct parser *p, uint32_t *out)
{
    size_t before = p->at;
    uint64_t value = 0;
    for (; p->at < p->source.length; p->at++) {
        char c = p->source.bytes[p->at];
        if (c < '0' || c > '9')
            break;
        value = value > UINT32_MAX ? value : value * 10 + (uint64_t)(c - '0');
    }
    *out = value < REGEX_UNBOUNDED ? (uint32_t)value : REGEX_UNBOUNDED - 1;
    return p->at > before;
}

/* {n}, {n,} or {n,m}. What looks otherwise is no count. */
static bool take_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
    size_t before = p->at;
    if (take(p, "{") && take_number(p, min)) {
        *max = *min;
        if (take(p, ",") && !take_number(p, max))
            *max = REGEX_UNBOUNDED;
        if (take(p, "}"))
            return true;
    }
    p->at = before;
    return false;
}

static bool take_count(struct parser *p, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = REGEX_UNBOUNDED;
    if (take(p, "*"))
        return true;
    *min = 1;
    if (take(p, "+"))
        return true;
    *min = 0;
    *max = 1;
    return take(p, "?") || take_braces(p, min, max);
}

/* Reads what stands behind a part, and adds the part. `counts` is the product of counts in it. */
static enum status count_part(struct parser *p, struct value *part, uint32_t counts, size_t offset)
{
    struct group *group = &p->groups[p->depth];
    uint32_t min, max;
    size_t at = p->at;
    if (take_count(p, &min, &max)) {
        (void)take(p, "?"); /* lazy: the same texts match */
        if (min > max)
            return refuse(p, STATUS_INVALID, at, "A count is out of order");
        uint64_t most = max == REGEX_UNBOUNDED ? min : max;
        most = most == 0 ? counts : most * counts;
        if (most > LIMIT_GRAMMAR_REPEAT)
            return refuse(p, STATUS_LIMIT, at, "Counts multiply to more than %d",
                          LIMIT_GRAMMAR_REPEAT);
        counts = (uint32_t)most;
        bool has_anchor = is_anchored(part, AT_START | AT_END);
        if (has_anchor && max != 1)
            return refuse_anchor(p, offset);
        if (has_anchor)
            part->at[0] = min == 0 ? regex_or(p->pool, part->at[0], REGEX_EMPTY) : part->at[0];
        else
            *part = value_of(regex_repeat(p->pool, part->at[0], min, max));
    }
    group->counts = counts > group->counts ? counts : group->counts;
    return add_part(p, part, offset);
}

/* --- groups --- */

static enum status open_group(struct parser *p, size_t offset, enum group_kind kind)
{
    if (kind != GROUP && p->depth != 0)
        return refuse(p, STATUS_UNSUPPORTED, offset,
                      "Lookahead is supported only outside of groups");
    if (kind != GROUP && p->groups[0].is_ended)
        return refuse_anchor(p, offset);
    if (p->depth == LIMIT_GRAMMAR_DEPTH)
        return refuse(p, STATUS_LIMIT, offset, "Groups are nested more than %d deep",
                      LIMIT_GRAMMAR_DEPTH);
    struct group *group = &p->groups[++p->depth];
    *group = (struct group){.kind = kind, .offset = offset, .start = p->pool->top, .counts = 1};
    begin_alternative(p, group);
    return STATUS_OK;
}

/* Behind an opening parenthesis. */
static enum status parse_open(struct parser *p)
{
    size_t offset = p->at - 1;
    if (!take(p, "?") || take(p, ":"))
        return open_group(p, offset, GROUP);
    if (take(p, "="))
        return open_group(p, offset, LOOK_AHEAD);
    if (take(p, "!"))
        return open_group(p, offset, LOOK_AHEAD_NOT);
    if (is_at(p, "<=") || is_at(p, "<!"))
        return refuse(p, STATUS_UNSUPPORTED, offset, "Lookbehind is not supported");
    if (!take(p, "<") && !take(p, "P<"))
        return refuse(p, STATUS_UNSUPPORTED, offset, "This kind of group is not supported");
    while (p->at < p->source.length && p->source.bytes[p->at] != '>')
        p->at++;
    if (!take(p, ">"))
        return refuse(p, STATUS_INVALID, offset, "The name of a group is not closed");
    return open_group(p, offset, GROUP);
}

/* Whether an anchor to the start in a lookahead has a meaning there. Where the regex is anchored
 * already, it has none of its own; a lookahead that is wholly anchored anchors the regex. */
static bool fits_start(struct parser *p, const struct group *look)
{
    struct group *outer = &p->groups[p->depth];
    const struct value *value = &look->done;
    if (!is_anchored(value, AT_START))
        return true;
    if (outer->is_begun)
        return false;
    bool is_start = outer->first.at[0] == REGEX_NONE;
    bool is_wholly = value->at[0] == REGEX_NONE && value->at[AT_END] == REGEX_NONE;
    if (!is_start && (!is_wholly || look->kind == LOOK_AHEAD_NOT))
        return false;
    outer->first = value_of(REGEX_NONE);
    outer->first.at[AT_START] = REGEX_EMPTY;
    return true;
}

/* What a lookahead says about the text from its place on. */
static enum status end_look(struct parser *p, const struct group *group)
{
    struct group *outer = &p->groups[p->depth];
    const struct value *value = &group->done;
    if (!fits_start(p, group))
        return refuse_anchor(p, group->offset);
    regex_node_id open = regex_or(p->pool, value->at[0], value->at[AT_START]);
    regex_node_id whole = regex_or(p->pool, value->at[AT_END], value->at[AT_START | AT_END]);
    regex_node_id text = regex_or(p->pool, regex_cat(p->pool, open, p->any), whole);
    if (group->kind == LOOK_AHEAD_NOT)
        text = regex_and(p->pool, regex_not(p->pool, text), p->any);
    outer->has_looks = outer->has_looks || outer->is_begun;
    if (outer->is_begun)
        regex_push(p->pool, text | LOOK_MARK);
    else
        outer->look = regex_and(p->pool, outer->look, text);
    return STATUS_OK;
}

/* Behind a closing parenthesis. */
static enum status parse_close(struct parser *p)
{
    if (p->depth == 0)
        return refuse(p, STATUS_INVALID, p->at - 1, "A group is closed that is not open");
    struct value value = end_group(p);
    const struct group *group = &p->groups[p->depth--];
    if (group->kind != GROUP)
        return end_look(p, group);
    return count_part(p, &value, group->counts, group->offset);
}

/* --- the whole --- */

/* A part that is neither group nor anchor. */
static enum status parse_atom(struct parser *p)
{
    size_t offset = p->at;
    regex_node_id id;
    if (take(p, "[")) {
        id = parse_class(p);
    } else if (take(p, ".")) {
        id = make_dot(p);
    } else if (take(p, "\\")) {
        p->range_count = 0;
        uint32_t character = take_escape(p, false);
        id = character != NO_CHARACTER ? make_character(p, character) : make_class(p, false);
    } else {
        id = make_character(p, take_character(p));
    }
    if (p->status != STATUS_OK)
        return p->status;
    struct value part = value_of(id);
    return count_part(p, &part, 1, offset);
}

static enum status parse_all(struct parser *p, regex_node_id *out)
{
    while (p->at < p->source.length) {
        uint32_t min, max;
        size_t offset = p->at;
        if (!regex_spend(p->pool, 1))
            return p->pool->status;
        if (take(p, "|"))
            end_alternative(p);
        else if (take(p, "^"))
            TRY(parse_start(p));
        else if (take(p, "$"))
            TRY(parse_end(p));
        else if (take(p, "("))
            TRY(parse_open(p));
        else if (take(p, ")"))
            TRY(parse_close(p));
        else if (take_count(p, &min, &max))
            return refuse(p, STATUS_INVALID, offset, "A count has nothing to repeat");
        else
            TRY(parse_atom(p));
    }
    if (p->depth != 0)
        return refuse(p, STATUS_INVALID, p->groups[p->depth].offset, "A group is not closed");
    *out = end_group(p).at[0];
    return p->status;
}

enum status regex_parse_flags(struct regex_pool *pool, struct slice source, enum regex_match match,
                              uint32_t flags, regex_node_id *out, struct regex_error *error)
{
    static const struct regex_range all = {0, CODE_POINT_MAX};
    *out = REGEX_NONE;
    *error = (struct regex_error){.offset = 0};
    struct parser *p = mem_zalloc(1, sizeof *p);
    if (p == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a regex");
    *p = (struct parser){
        .pool = pool, .source = source, .match = match, .flags = flags, .error = error};
    uint32_t base = pool->top;
    p->any = regex_repeat(pool, regex_chars(pool, &all, 1), 0, REGEX_UNBOUNDED);
    p->groups[0] = (struct group){.start = pool->top, .counts = 1};
    begin_alternative(p, &p->groups[0]);
    enum status status;
    if (source.length > LIMIT_GRAMMAR_SOURCE_BYTES)
        status = refuse(p, STATUS_LIMIT, 0, "The regex is longer than %d bytes",
                        LIMIT_GRAMMAR_SOURCE_BYTES);
    else if (source.length != 0 && !utf8_is_valid(source.bytes, source.length))
        status = refuse(p, STATUS_INVALID, 0, "The regex is no UTF-8");
    else
        status = parse_all(p, out);
    if (status == STATUS_OK && pool->status != STATUS_OK)
        status = pool->status;
    if (status != STATUS_OK && error->message[0] == '\0')
        snprintf(error->message, sizeof error->message, "The regex is too large to compile.");
    pool->top = base;
    if (status != STATUS_OK)
        *out = REGEX_NONE;
    mem_free(p->ranges);
    mem_free(p);
    return status;
}

enum status regex_parse(struct regex_pool *pool, struct slice source, enum regex_match match,
                        regex_node_id *out, struct regex_error *error)
{
    return regex_parse_flags(pool, source, match, 0, out, error);
}
