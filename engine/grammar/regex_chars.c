#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/regex_node.h"

enum { CODE_POINT_MAX = 0x10ffff, SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff };

/* --- sorted ranges --- */

static int compare_ranges(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Copies the part of a range that is between two code points. */
static uint32_t add_part(struct regex_range *out, struct regex_range range, uint32_t first,
                         uint32_t last)
{
    out->first = range.first > first ? range.first : first;
    out->last = range.last < last ? range.last : last;
    return out->first <= out->last;
}

/* Sorts and joins ranges, without surrogates. `out` has room for 2 × count. Returns their number.
 * */
static uint32_t sort_ranges(const struct regex_range *ranges, size_t count, struct regex_range *out)
{
    uint32_t parts = 0;
    for (size_t i = 0; i < count; i++) {
        parts += add_part(out + parts, ranges[i], 0, SURROGATE_FIRST - 1);
        parts += add_part(out + parts, ranges[i], SURROGATE_LAST + 1, CODE_POINT_MAX);
    }
    if (parts == 0)
        return 0;
    qsort(out, parts, sizeof *out, compare_ranges);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < parts; i++) {
        if (out[i].first <= out[kept].last + 1)
            out[kept].last = out[i].last > out[kept].last ? out[i].last : out[kept].last;
        else
            out[++kept] = out[i];
    }
    return kept + 1;
}

/* --- UTF-8 --- */

enum { TAIL_BITS = 6, TAIL_MARK = 0x80, TAILS = 3 };

/* Alternatives "a byte of the set, then the node": one for each different node. A byte has at most
 * two partial blocks for a range, and there may be many ranges. */
struct heads {
    struct byte_set sets[256];
    regex_node_id nodes[256];
    uint32_t count;
};

static void add_head(struct heads *heads, uint8_t first, uint8_t last, regex_node_id behind)
{
    uint32_t at = 0;
    while (at < heads->count && heads->nodes[at] != behind)
        at++;
    if (at == heads->count) {
        heads->nodes[at] = behind;
        heads->sets[at] = (struct byte_set){{0}};
        heads->count++;
    }
    byte_set_add_range(&heads->sets[at], first, last);
}

static regex_node_id join_heads(struct regex_pool *pool, const struct heads *heads)
{
    uint32_t base = pool->top;
    for (uint32_t i = 0; i < heads->count; i++)
        regex_push(pool, regex_cat(pool, regex_bytes(pool, &heads->sets[i]), heads->nodes[i]));
    return regex_join(pool, REGEX_OP_OR, base);
}

/* All texts of `tails` continuation bytes. */
static regex_node_id any_tails(struct regex_pool *pool, uint32_t tails)
{
    struct byte_set set = {{0}};
    byte_set_add_range(&set, TAIL_MARK, TAIL_MARK + (1 << TAIL_BITS) - 1);
    regex_node_id one = regex_bytes(pool, &set), all = REGEX_EMPTY;
    for (uint32_t i = 0; i < tails; i++)
        all = regex_cat(pool, one, all);
    return all;
}

/* Code points from `low` to `high` of the ranges. They have all bytes in common that come before
 * the last `tails` + 1 ones. `mark` is added to the bits of the first byte. The recursion is
 * `tails` deep. */
static regex_node_id make_block(struct regex_pool *pool, const struct regex_range *ranges,
                                uint32_t count, uint32_t tails, uint8_t mark, uint32_t low,
                                uint32_t high)
{
    struct heads heads;
    heads.count = 0;
    uint32_t shift = tails * TAIL_BITS;
    uint32_t below = (1u << shift) - 1; /* bits of the tails */
    uint32_t bits = mark == TAIL_MARK ? TAIL_MARK / 2 - 1 : TAIL_MARK - 1;
    for (uint32_t i = 0; i < count && low <= high && regex_spend(pool, 1);) {
        if (ranges[i].last < low) {
            i++;
            continue;
        }
        uint32_t first = ranges[i].first > low ? ranges[i].first : low;
        uint32_t last = ranges[i].last < high ? ranges[i].last : high;
        if (first > high)
            break;
        regex_node_id behind;
        if ((first & below) == 0 && last >= (first | below)) { /* whole blocks */
            last = ((last + 1) & ~below) - 1;
            behind = any_tails(pool, tails);
        } else { /* a part of a block, perhaps of several ranges */
            last = first | below;
            behind = make_block(pool, ranges + i, count - i, tails - 1, TAIL_MARK, first, last);
        }
        add_head(&heads, (uint8_t)(mark | (first >> shift & bits)),
                 (uint8_t)(mark | (last >> shift & bits)), behind);
        low = last + 1;
    }
    return join_heads(pool, &heads);
}

/* The characters that have the same number of bytes. */
static const struct {
    uint8_t mark;
    uint8_t tails;
    struct regex_range range;
} lengths[] = {{0, 0, {0, 0x7f}},
               {0xc0, 1, {0x80, 0x7ff}},
               {0xe0, 2, {0x800, 0xffff}},
               {0xf0, 3, {0x10000, CODE_POINT_MAX}}};

/* --- classes of characters --- */

static uint32_t add_class(struct regex_pool *pool, const struct regex_range *ranges, uint32_t count)
{
    if (count == 0 || pool->class_count >= LIMIT_GRAMMAR_CHARS || pool->status != STATUS_OK)
        return REGEX_RUN_NONE;
    if (!regex_room((void **)&pool->ranges, &pool->range_capacity, pool->range_count + count,
                    sizeof *pool->ranges) ||
        !regex_room((void **)&pool->classes, &pool->class_capacity, pool->class_count + 1,
                    sizeof *pool->classes)) {
        regex_fail(pool, STATUS_NO_MEMORY, "no memory for a regex");
        return REGEX_RUN_NONE;
    }
    memcpy(pool->ranges + pool->range_count, ranges, count * sizeof *ranges);
    pool->classes[pool->class_count] = (struct regex_chars_class){pool->range_count, count};
    pool->range_count += count;
    return pool->class_count++;
}

regex_node_id regex_chars(struct regex_pool *pool, const struct regex_range *ranges, size_t count)
{
    if (!regex_spend(pool, count))
        return REGEX_NONE;
    struct regex_range *sorted = mem_zalloc(2 * count + 1, sizeof *sorted);
    if (sorted == NULL)
        return regex_fail(pool, STATUS_NO_MEMORY, "no memory for a regex");
    uint32_t sorted_count = sort_ranges(ranges, count, sorted);
    uint32_t base = pool->top;
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        regex_push(pool, make_block(pool, sorted, sorted_count, lengths[i].tails, lengths[i].mark,
                                    lengths[i].range.first, lengths[i].range.last));
    regex_node_id id = regex_join(pool, REGEX_OP_OR, base);
    if (id != REGEX_NONE && pool->nodes[id].chars == REGEX_RUN_NONE)
        pool->nodes[id].chars = add_class(pool, sorted, sorted_count);
    mem_free(sorted);
    return pool->status == STATUS_OK ? id : REGEX_NONE;
}

const struct regex_range *regex_chars_of(const struct regex_pool *pool, uint32_t chars,
                                         uint32_t *count)
{
    ASSERT(chars < pool->class_count);
    *count = pool->classes[chars].count;
    return pool->ranges + pool->classes[chars].first;
}

uint32_t regex_chars_count(const struct regex_pool *pool)
{
    return pool->class_count;
}

void regex_chars_written(struct regex_pool *pool, const struct byte_set *plain, regex_node_id from,
                         regex_node_id to)
{
    uint32_t chars = pool->nodes[from].chars;
    if (chars == REGEX_RUN_NONE || to == REGEX_NONE || pool->nodes[to].chars != REGEX_RUN_NONE)
        return;
    for (uint32_t byte = TAIL_MARK; byte < 256; byte++)
        if (!byte_set_has(plain, (uint8_t)byte))
            return;
    uint32_t count;
    const struct regex_range *ranges = regex_chars_of(pool, chars, &count);
    struct regex_range *kept = mem_zalloc((size_t)count + TAIL_MARK, sizeof *kept);
    if (kept == NULL) {
        regex_fail(pool, STATUS_NO_MEMORY, "no memory for a regex");
        return;
    }
    uint32_t kept_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = ranges[i].first;
        for (; at <= ranges[i].last && at < TAIL_MARK; at++) {
            if (!byte_set_has(plain, (uint8_t)at))
                continue;
            if (kept_count != 0 && kept[kept_count - 1].last + 1 == at)
                kept[kept_count - 1].last = at;
            else
                kept[kept_count++] = (struct regex_range){at, at};
        }
        if (at > ranges[i].last)
            continue;
        if (kept_count != 0 && kept[kept_count - 1].last + 1 == at)
            kept[kept_count - 1].last = ranges[i].last;
        else
            kept[kept_count++] = (struct regex_range){at, ranges[i].last};
    }
    pool->nodes[to].chars = add_class(pool, kept, kept_count);
    mem_free(kept);
}

/* --- runs --- */

/* Bytes with which a text of the node may begin, or more. The depth of nodes bounds the recursion.
 * */
static struct byte_set first_bytes(const struct regex_pool *pool, regex_node_id id)
{
    struct byte_set all = {{0}};
    while (true) {
        const struct regex_node *node = &pool->nodes[id];
        struct byte_set some = {{0}};
        switch ((enum regex_op)node->op) {
        case REGEX_OP_NONE:
        case REGEX_OP_EMPTY:
            return all;
        case REGEX_OP_SET:
            return byte_set_or(all, &pool->sets[node->a]);
        case REGEX_OP_MOD:
            byte_set_add_range(&all, '0', '9');
            return all;
        case REGEX_OP_NOT:
        case REGEX_OP_AND:
            memset(&all, 0xff, sizeof all);
            return all;
        case REGEX_OP_OR:
            for (uint32_t i = 0; i < node->b; i++) {
                some = first_bytes(pool, pool->children[node->a + i]);
                all = byte_set_or(all, &some);
            }
            return all;
        case REGEX_OP_REP:
            id = node->a;
            continue;
        case REGEX_OP_CAT:
            some = first_bytes(pool, node->a);
            all = byte_set_or(all, &some);
            if (!regex_node_is(pool, node->a, REGEX_NULLABLE))
                return all;
            id = node->b;
            continue;
        }
    }
}

/* First bytes of the characters of a class. */
static struct byte_set first_bytes_of_class(const struct regex_pool *pool, uint32_t chars)
{
    uint32_t count;
    const struct regex_range *ranges = regex_chars_of(pool, chars, &count);
    struct byte_set all = {{0}};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            struct regex_range part;
            if (!add_part(&part, ranges[i], lengths[j].range.first, lengths[j].range.last))
                continue;
            uint32_t shift = lengths[j].tails * (uint32_t)TAIL_BITS;
            byte_set_add_range(&all, (uint8_t)(lengths[j].mark | part.first >> shift),
                               (uint8_t)(lengths[j].mark | part.last >> shift));
        }
    return all;
}

static bool is_large(const struct regex_pool *pool, uint32_t chars)
{
    uint32_t count, characters = 0;
    const struct regex_range *ranges = regex_chars_of(pool, chars, &count);
    for (uint32_t i = 0; i < count; i++)
        characters += ranges[i].last - ranges[i].first + 1;
    return characters >= REGEX_CHARS_LARGE;
}

/* The class of one of the nodes on the stack, if all others begin with other bytes. */
static uint32_t class_of_or(const struct regex_pool *pool, uint32_t base)
{
    uint32_t at = base;
    while (at < pool->top && (pool->nodes[pool->stack[at]].chars == REGEX_RUN_NONE ||
                              !is_large(pool, pool->nodes[pool->stack[at]].chars)))
        at++;
    if (at == pool->top)
        return REGEX_RUN_NONE;
    uint32_t chars = pool->nodes[pool->stack[at]].chars;
    struct byte_set of_class = first_bytes_of_class(pool, chars);
    for (uint32_t i = base; i < pool->top; i++) {
        if (pool->stack[i] == pool->stack[at])
            continue;
        struct byte_set other = first_bytes(pool, pool->stack[i]);
        other = byte_set_and(other, &of_class);
        if (!byte_set_is_empty(&other) || regex_node_is(pool, pool->stack[i], REGEX_NULLABLE))
            return REGEX_RUN_NONE;
    }
    return chars;
}

regex_node_id regex_chars_or(struct regex_pool *pool, uint32_t base)
{
    uint32_t chars = pool->status == STATUS_OK ? class_of_or(pool, base) : REGEX_RUN_NONE;
    regex_node_id id = regex_join(pool, REGEX_OP_OR, base);
    /* A joined set may be a class of its own. */
    if (chars != REGEX_RUN_NONE && id != REGEX_NONE && pool->nodes[id].op != REGEX_OP_SET &&
        pool->nodes[id].chars == REGEX_RUN_NONE)
        pool->nodes[id].chars = chars;
    return id;
}

/* The run of a node that is no OR of runs. */
static struct regex_run run_of_one(const struct regex_pool *pool, regex_node_id id)
{
    struct regex_run run = {.chars = pool->nodes[id].chars, .max = 1};
    regex_node_id tail = REGEX_EMPTY;
    if (run.chars != REGEX_RUN_NONE)
        return run;
    if (pool->nodes[id].op == REGEX_OP_CAT) {
        tail = pool->nodes[id].b;
        id = pool->nodes[id].a;
    }
    if (pool->nodes[id].op == REGEX_OP_REP) {
        run.max = pool->nodes[id].max;
        id = pool->nodes[id].a;
    }
    run.chars = pool->nodes[id].chars;
    if (run.chars == REGEX_RUN_NONE)
        return (struct regex_run){.chars = REGEX_RUN_NONE};
    if (!regex_node_is(pool, tail, REGEX_NULLABLE)) {
        struct byte_set behind = first_bytes(pool, tail);
        struct byte_set of_class = first_bytes_of_class(pool, run.chars);
        struct byte_set both = byte_set_and(behind, &of_class);
        run.is_exact = byte_set_is_empty(&both);
    }
    return run;
}

struct regex_run regex_run_of(const struct regex_pool *pool, regex_node_id a)
{
    const struct regex_node *node = &pool->nodes[a];
    struct regex_run run = run_of_one(pool, a);
    if (node->op != REGEX_OP_OR || run.chars != REGEX_RUN_NONE)
        return run;
    for (uint32_t i = 0; i < node->b; i++) {
        struct regex_run other = run_of_one(pool, pool->children[node->a + i]);
        if (other.chars != REGEX_RUN_NONE && (run.chars == REGEX_RUN_NONE || other.max > run.max))
            run = other;
    }
    run.is_exact = false;
    return run;
}

/* Adds the class of a repetition, if it is new. Returns how many there are. */
static uint32_t add_repeated(const struct regex_pool *pool, const struct regex_node *node,
                             uint32_t *chars, uint32_t used, uint32_t capacity)
{
    uint32_t of = node->op == REGEX_OP_REP ? pool->nodes[node->a].chars : REGEX_RUN_NONE;
    if (of == REGEX_RUN_NONE || used == capacity || !is_large(pool, of))
        return used;
    for (uint32_t i = 0; i < used; i++)
        if (chars[i] == of)
            return used;
    chars[used] = of;
    return used + 1;
}

uint32_t regex_chars_repeated(struct regex_pool *pool, const regex_node_id *roots, size_t count,
                              uint32_t *chars, uint32_t capacity)
{
    uint32_t base = pool->top, used = 0, call = regex_call(pool);
    for (size_t i = count; i > 0; i--)
        regex_push(pool, roots[i - 1]);
    while (pool->top > base && regex_spend(pool, 1)) {
        regex_node_id id = pool->stack[--pool->top];
        struct regex_node node = pool->nodes[id];
        if (node.call == call)
            continue;
        pool->nodes[id].call = call;
        used = add_repeated(pool, &node, chars, used, capacity);
        bool is_many = node.op == REGEX_OP_OR || node.op == REGEX_OP_AND;
        if (node.op == REGEX_OP_CAT)
            regex_push(pool, node.b);
        if (node.op == REGEX_OP_CAT || node.op == REGEX_OP_NOT || node.op == REGEX_OP_REP)
            regex_push(pool, node.a);
        for (uint32_t i = 0; is_many && i < node.b; i++)
            regex_push(pool, pool->children[node.a + i]);
    }
    pool->top = base;
    (void)regex_call(pool);
    return used;
}
