#include "engine/grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "engine/grammar/regex_node.h"

enum { FIRST_CAPACITY = 64, SET_NONE = UINT32_MAX };

/* --- memory and failure --- */

bool regex_room(void **items, uint32_t *capacity, uint32_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return true;
    uint32_t more = *capacity < FIRST_CAPACITY ? FIRST_CAPACITY : *capacity * 2;
    if (more < wanted)
        more = wanted;
    void *grown = mem_realloc(*items, (size_t)more * size);
    if (grown == NULL)
        return false;
    *items = grown;
    *capacity = more;
    return true;
}

regex_node_id regex_fail(struct regex_pool *pool, enum status status, const char *message)
{
    if (pool->status == STATUS_OK)
        pool->status = status_fail(status, __FILE__, __LINE__, NULL, "%s", message);
    return REGEX_NONE;
}

static regex_node_id fail_memory(struct regex_pool *pool)
{
    return regex_fail(pool, STATUS_NO_MEMORY, "no memory for a regex");
}

bool regex_spend(struct regex_pool *pool, uint64_t steps)
{
    if (pool->status == STATUS_OK && pool->fuel != NULL)
        pool->status = grammar_fuel_spend(pool->fuel, steps);
    return pool->status == STATUS_OK;
}

void regex_push(struct regex_pool *pool, uint32_t value)
{
    if (!regex_room((void **)&pool->stack, &pool->stack_capacity, pool->top + 1,
                    sizeof *pool->stack)) {
        fail_memory(pool);
        return;
    }
    pool->stack[pool->top++] = value;
}

uint32_t regex_call(struct regex_pool *pool)
{
    if (++pool->calls == 0) {
        for (uint32_t i = 0; i < pool->node_count; i++)
            pool->nodes[i].call = 0;
        pool->calls = 1;
    }
    return pool->calls;
}

static uint32_t begin_search(struct regex_pool *pool)
{
    if (++pool->searches == 0) {
        for (uint32_t i = 0; i < pool->node_count; i++)
            pool->nodes[i].seen = 0;
        pool->searches = 1;
    }
    return pool->searches;
}

/* --- nodes --- */

static uint64_t node_hash(const struct regex_pool *pool, const struct regex_node *node)
{
    uint64_t hash = hash_mix64((uint64_t)node->op << 32 | node->b);
    if (node->op == REGEX_OP_OR || node->op == REGEX_OP_AND) {
        for (uint32_t i = 0; i < node->b; i++)
            hash = hash_mix64(hash + pool->children[node->a + i]);
        return hash;
    }
    hash = hash_mix64(hash + node->a);
    return hash_mix64(hash + ((uint64_t)node->min << 32 | node->max));
}

static bool is_same(const struct regex_pool *pool, const struct regex_node *a,
                    const struct regex_node *b)
{
    if (a->op != b->op || a->b != b->b)
        return false;
    if (a->op == REGEX_OP_OR || a->op == REGEX_OP_AND)
        return memcmp(pool->children + a->a, pool->children + b->a,
                      a->b * sizeof *pool->children) == 0;
    return a->a == b->a && a->min == b->min && a->max == b->max;
}

static bool grow_buckets(struct regex_pool *pool)
{
    if ((pool->node_count + 1) * 2 <= pool->bucket_count)
        return true;
    uint32_t count = pool->bucket_count == 0 ? 4 * FIRST_CAPACITY : pool->bucket_count * 2;
    uint32_t *buckets = mem_zalloc(count, sizeof *buckets);
    if (buckets == NULL)
        return false;
    for (uint32_t id = 1; id < pool->node_count; id++) {
        uint64_t at = node_hash(pool, &pool->nodes[id]);
        while (buckets[at & (count - 1)] != 0)
            at++;
        buckets[at & (count - 1)] = id;
    }
    mem_free(pool->buckets);
    pool->buckets = buckets;
    pool->bucket_count = count;
    return true;
}

static uint16_t deeper(const struct regex_pool *pool, regex_node_id id)
{
    return (uint16_t)(pool->nodes[id].depth + 1);
}

static void find_flags_of_many(const struct regex_pool *pool, struct regex_node *node)
{
    bool is_or = node->op == REGEX_OP_OR;
    bool is_nullable = !is_or;
    for (uint32_t i = 0; i < node->b; i++) {
        regex_node_id child = pool->children[node->a + i];
        uint16_t depth = deeper(pool, child);
        node->depth = depth > node->depth ? depth : node->depth;
        bool is = regex_node_is(pool, child, REGEX_NULLABLE);
        is_nullable = is_or ? is_nullable || is : is_nullable && is;
        if (is_or && regex_node_is(pool, child, REGEX_SURE))
            node->flags |= REGEX_SURE;
    }
    node->flags |= is_nullable ? REGEX_NULLABLE : 0;
}

/* Finds depth, and what is known of the language without a search. */
static void find_flags(const struct regex_pool *pool, struct regex_node *node)
{
    bool is_nullable = false;
    bool is_sure = false;
    switch ((enum regex_op)node->op) {
    case REGEX_OP_NONE:
        node->flags = REGEX_IMPOSSIBLE;
        return;
    case REGEX_OP_EMPTY:
        is_nullable = true;
        break;
    case REGEX_OP_SET:
        is_sure = true;
        break;
    case REGEX_OP_CAT:
        is_nullable = regex_node_is(pool, node->a, REGEX_NULLABLE);
        node->depth = deeper(pool, node->a);
        if (is_nullable && pool->nodes[node->b].depth > node->depth)
            node->depth = pool->nodes[node->b].depth;
        is_nullable = is_nullable && regex_node_is(pool, node->b, REGEX_NULLABLE);
        is_sure =
            regex_node_is(pool, node->a, REGEX_SURE) && regex_node_is(pool, node->b, REGEX_SURE);
        break;
    case REGEX_OP_OR:
    case REGEX_OP_AND:
        find_flags_of_many(pool, node);
        break;
    case REGEX_OP_NOT:
        is_nullable = !regex_node_is(pool, node->a, REGEX_NULLABLE);
        node->depth = deeper(pool, node->a);
        break;
    case REGEX_OP_REP:
        is_nullable = node->min == 0 || regex_node_is(pool, node->a, REGEX_NULLABLE);
        is_sure = regex_node_is(pool, node->a, REGEX_SURE);
        node->depth = deeper(pool, node->a);
        break;
    case REGEX_OP_MOD:
        is_nullable = node->min == node->max;
        is_sure = true; /* enough digits can bring any remainder */
        break;
    }
    node->flags |= is_nullable ? REGEX_NULLABLE : 0;
    node->flags |= is_sure || (node->flags & REGEX_NULLABLE) != 0 ? REGEX_SURE : 0;
}

/* The id of this node. Children of OR and AND stand at the end of pool->children; they are taken
 * off again when the node is known. */
static regex_node_id intern(struct regex_pool *pool, struct regex_node node)
{
    if (!regex_spend(pool, 1))
        return REGEX_NONE;
    if (!grow_buckets(pool))
        return fail_memory(pool);
    uint64_t at = node_hash(pool, &node);
    for (;; at++) {
        uint32_t id = pool->buckets[at & (pool->bucket_count - 1)];
        if (id == 0)
            break;
        if (!is_same(pool, &pool->nodes[id], &node))
            continue;
        if (node.op == REGEX_OP_OR || node.op == REGEX_OP_AND)
            pool->child_count = node.a;
        return id;
    }
    if (pool->node_count >= LIMIT_GRAMMAR_NODES)
        return regex_fail(pool, STATUS_LIMIT, "the regexes of the grammar have too many parts");
    if (!regex_room((void **)&pool->nodes, &pool->node_capacity, pool->node_count + 1,
                    sizeof *pool->nodes))
        return fail_memory(pool);
    node.chars = REGEX_RUN_NONE;
    find_flags(pool, &node);
    if (node.depth > LIMIT_GRAMMAR_NESTING)
        return regex_fail(pool, STATUS_LIMIT, "the regexes of the grammar are nested too deep");
    uint32_t id = pool->node_count++;
    pool->nodes[id] = node;
    pool->buckets[at & (pool->bucket_count - 1)] = id;
    return id;
}

enum status regex_pool_new(struct grammar_fuel *fuel, struct regex_pool **out)
{
    *out = NULL;
    struct regex_pool *pool = mem_zalloc(1, sizeof *pool);
    if (pool == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a pool of regexes");
    pool->fuel = fuel;
    if (!regex_room((void **)&pool->nodes, &pool->node_capacity, 1, sizeof *pool->nodes)) {
        mem_free(pool);
        FAIL(STATUS_NO_MEMORY, "no memory for a pool of regexes");
    }
    pool->nodes[0] = (struct regex_node){.flags = REGEX_IMPOSSIBLE, .chars = REGEX_RUN_NONE};
    pool->node_count = 1;
    (void)intern(pool, (struct regex_node){.op = REGEX_OP_EMPTY});
    (void)intern(pool, (struct regex_node){.op = REGEX_OP_NOT, .a = REGEX_NONE});
    if (pool->status != STATUS_OK) {
        enum status status = pool->status;
        regex_pool_free(pool);
        return status;
    }
    *out = pool;
    return STATUS_OK;
}

void regex_pool_free(struct regex_pool *pool)
{
    if (pool == NULL)
        return;
    mem_free(pool->nodes);
    mem_free(pool->buckets);
    mem_free(pool->sets);
    mem_free(pool->set_buckets);
    mem_free(pool->children);
    mem_free(pool->stack);
    mem_free(pool->ranges);
    mem_free(pool->classes);
    mem_free(pool);
}

enum status regex_pool_status(const struct regex_pool *pool)
{
    return pool->status;
}

void regex_pool_set_fuel(struct regex_pool *pool, struct grammar_fuel *fuel)
{
    pool->fuel = fuel;
}

size_t regex_pool_bytes(const struct regex_pool *pool)
{
    return sizeof *pool + pool->node_capacity * sizeof *pool->nodes +
           pool->set_capacity * sizeof *pool->sets + pool->range_capacity * sizeof *pool->ranges +
           pool->class_capacity * sizeof *pool->classes +
           ((size_t)pool->bucket_count + pool->set_bucket_count + pool->child_capacity +
            pool->stack_capacity) *
               sizeof(uint32_t);
}

void regex_pool_cut(struct regex_pool *pool, const struct byte_set *missing)
{
    ASSERT(pool->set_count == 0);
    pool->missing = *missing;
}

bool regex_pool_is_cut(const struct regex_pool *pool, uint8_t byte)
{
    return byte_set_has(&pool->missing, byte);
}

/* --- sets --- */

static uint64_t set_hash(const struct byte_set *set)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < BYTE_SET_WORDS; i++)
        hash = hash_mix64(hash + set->words[i]);
    return hash;
}

static bool grow_set_buckets(struct regex_pool *pool)
{
    if ((pool->set_count + 1) * 2 <= pool->set_bucket_count)
        return true;
    uint32_t count = pool->set_bucket_count == 0 ? FIRST_CAPACITY : pool->set_bucket_count * 2;
    uint32_t *buckets = mem_zalloc(count, sizeof *buckets);
    if (buckets == NULL)
        return false;
    for (uint32_t i = 0; i < pool->set_count; i++) {
        uint64_t at = set_hash(&pool->sets[i]);
        while (buckets[at & (count - 1)] != 0)
            at++;
        buckets[at & (count - 1)] = i + 1;
    }
    mem_free(pool->set_buckets);
    pool->set_buckets = buckets;
    pool->set_bucket_count = count;
    return true;
}

static uint32_t intern_set(struct regex_pool *pool, const struct byte_set *set)
{
    if (!grow_set_buckets(pool)) {
        fail_memory(pool);
        return SET_NONE;
    }
    uint64_t at = set_hash(set);
    for (;; at++) {
        uint32_t index = pool->set_buckets[at & (pool->set_bucket_count - 1)];
        if (index == 0)
            break;
        if (byte_set_equals(&pool->sets[index - 1], set))
            return index - 1;
    }
    if (pool->set_count >= LIMIT_GRAMMAR_SETS) {
        regex_fail(pool, STATUS_LIMIT, "the regexes of the grammar have too many byte sets");
        return SET_NONE;
    }
    if (!regex_room((void **)&pool->sets, &pool->set_capacity, pool->set_count + 1,
                    sizeof *pool->sets)) {
        fail_memory(pool);
        return SET_NONE;
    }
    pool->sets[pool->set_count] = *set;
    pool->set_buckets[at & (pool->set_bucket_count - 1)] = pool->set_count + 1;
    return pool->set_count++;
}

static regex_node_id make_set(struct regex_pool *pool, const struct byte_set *set)
{
    if (byte_set_is_empty(set) || pool->status != STATUS_OK)
        return REGEX_NONE;
    uint32_t index = intern_set(pool, set);
    if (index == SET_NONE)
        return REGEX_NONE;
    return intern(pool, (struct regex_node){.op = REGEX_OP_SET, .a = index});
}

regex_node_id regex_bytes(struct regex_pool *pool, const struct byte_set *bytes)
{
    struct byte_set cut = byte_set_without(*bytes, &pool->missing);
    return make_set(pool, &cut);
}

regex_node_id regex_text(struct regex_pool *pool, struct slice text)
{
    regex_node_id result = REGEX_EMPTY;
    for (size_t i = text.length; i > 0 && result != REGEX_NONE; i--) {
        struct byte_set one = {{0}};
        byte_set_add(&one, (uint8_t)text.bytes[i - 1]);
        result = regex_cat(pool, regex_bytes(pool, &one), result);
    }
    return result;
}

/* --- concatenation and repetition --- */

static uint32_t add_counts(uint32_t a, uint32_t b)
{
    return a == REGEX_UNBOUNDED || b == REGEX_UNBOUNDED ? REGEX_UNBOUNDED : a + b;
}

/* Counts a node as a repetition of `part`; false when it is none. */
static bool counts_of(const struct regex_pool *pool, regex_node_id id, regex_node_id part,
                      uint32_t *min, uint32_t *max)
{
    const struct regex_node *node = &pool->nodes[id];
    if (node->op == REGEX_OP_REP && node->a == part) {
        *min = node->min;
        *max = node->max;
        return true;
    }
    *min = *max = 1;
    return id == part;
}

/* x{m,n} x{p,q} = x{m+p,n+q}, where a single x counts as x{1,1}, but x x stays as it is. */
static regex_node_id merge_counts(struct regex_pool *pool, regex_node_id a, regex_node_id b)
{
    bool is_rep = pool->nodes[a].op == REGEX_OP_REP;
    regex_node_id part = is_rep                              ? pool->nodes[a].a
                         : pool->nodes[b].op == REGEX_OP_REP ? pool->nodes[b].a
                                                             : REGEX_NONE;
    uint32_t min, max, more_min, more_max;
    if (part == REGEX_NONE || !counts_of(pool, a, part, &min, &max) ||
        !counts_of(pool, b, part, &more_min, &more_max))
        return REGEX_NONE;
    bool is_too_large = min > UINT32_MAX / 4 || more_min > UINT32_MAX / 4 ||
                        (max != REGEX_UNBOUNDED && max > UINT32_MAX / 4) ||
                        (more_max != REGEX_UNBOUNDED && more_max > UINT32_MAX / 4);
    if (is_too_large)
        return REGEX_NONE;
    return regex_repeat(pool, part, min + more_min, add_counts(max, more_max));
}

/* `a` is no CAT. */
static regex_node_id cat_one(struct regex_pool *pool, regex_node_id a, regex_node_id b)
{
    if (a == REGEX_NONE || b == REGEX_NONE)
        return REGEX_NONE;
    if (a == REGEX_EMPTY)
        return b;
    if (b == REGEX_EMPTY)
        return a;
    if (a == REGEX_ALL && b == REGEX_ALL)
        return a;
    const struct regex_node *behind = &pool->nodes[b];
    bool is_chain = behind->op == REGEX_OP_CAT;
    regex_node_id tail = is_chain ? behind->b : REGEX_EMPTY;
    regex_node_id merged = merge_counts(pool, a, is_chain ? behind->a : b);
    if (merged == REGEX_NONE)
        return intern(pool, (struct regex_node){.op = REGEX_OP_CAT, .a = a, .b = b});
    if (tail == REGEX_EMPTY)
        return merged;
    return intern(pool, (struct regex_node){.op = REGEX_OP_CAT, .a = merged, .b = tail});
}

regex_node_id regex_cat(struct regex_pool *pool, regex_node_id a, regex_node_id b)
{
    uint32_t base = pool->top;
    while (pool->nodes[a].op == REGEX_OP_CAT && pool->status == STATUS_OK) {
        regex_push(pool, pool->nodes[a].a);
        a = pool->nodes[a].b;
    }
    b = cat_one(pool, a, b);
    while (pool->top > base)
        b = cat_one(pool, pool->stack[--pool->top], b);
    return pool->status == STATUS_OK ? b : REGEX_NONE;
}

/* x{p,q}{m,n} as x{m*p,n*q}; false when the counts have gaps or are too large. */
static bool multiply_counts(const struct regex_node *part, uint32_t *min, uint32_t *max)
{
    bool is_open = part->max == REGEX_UNBOUNDED;
    if (*min != *max) {
        if (*min == 0 || !is_open)
            if (((uint64_t)*min + 1) * part->min > (is_open ? 0 : (uint64_t)*min * part->max) + 1)
                return false;
    }
    uint64_t low = (uint64_t)*min * part->min;
    uint64_t high = (uint64_t)*max * part->max;
    bool is_unbounded = is_open || *max == REGEX_UNBOUNDED;
    if (low >= UINT32_MAX / 4 || (!is_unbounded && high >= UINT32_MAX / 4))
        return false;
    *min = (uint32_t)low;
    *max = is_unbounded ? REGEX_UNBOUNDED : (uint32_t)high;
    return true;
}

/* `a` without its empty alternative. */
static regex_node_id without_empty(struct regex_pool *pool, regex_node_id a)
{
    struct regex_node node = pool->nodes[a];
    if (node.op != REGEX_OP_OR || pool->children[node.a] != REGEX_EMPTY)
        return a;
    uint32_t base = pool->top;
    for (uint32_t i = 1; i < node.b && pool->status == STATUS_OK; i++)
        regex_push(pool, pool->children[node.a + i]);
    return regex_join(pool, REGEX_OP_OR, base);
}

regex_node_id regex_repeat(struct regex_pool *pool, regex_node_id a, uint32_t min, uint32_t max)
{
    if (min > max || pool->status != STATUS_OK)
        return REGEX_NONE;
    if (max == 0 || a == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (a == REGEX_NONE)
        return min == 0 ? REGEX_EMPTY : REGEX_NONE;
    if (a == REGEX_ALL)
        return a;
    if (regex_node_is(pool, a, REGEX_NULLABLE)) {
        min = 0;
        a = without_empty(pool, a);
        if (pool->status != STATUS_OK)
            return REGEX_NONE;
    }
    if (min == 1 && max == 1)
        return a;
    struct regex_node part = pool->nodes[a];
    if (part.op == REGEX_OP_REP && multiply_counts(&part, &min, &max))
        return regex_repeat(pool, part.a, min, max);
    if (min == 0 && max == 1 && regex_node_is(pool, a, REGEX_NULLABLE))
        return a;
    return intern(pool, (struct regex_node){.op = REGEX_OP_REP, .a = a, .min = min, .max = max});
}

regex_node_id regex_mod(struct regex_pool *pool, uint32_t divisor, uint32_t remainder)
{
    ASSERT(divisor != 0);
    struct byte_set digits = {{0}};
    byte_set_add_range(&digits, '0', '9');
    if (divisor == 1)
        return regex_repeat(pool, regex_bytes(pool, &digits), 0, REGEX_UNBOUNDED);
    return intern(
        pool, (struct regex_node){.op = REGEX_OP_MOD, .a = divisor, .max = remainder % divisor});
}

/* --- OR, AND, NOT --- */

static int compare_ids(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts the ids from `base` on and removes repetitions. */
static void sort_ids(struct regex_pool *pool, uint32_t base)
{
    uint32_t *ids = pool->stack + base;
    uint32_t count = pool->top - base;
    bool is_sorted = true;
    for (uint32_t i = 1; i < count; i++)
        is_sorted = is_sorted && ids[i - 1] < ids[i];
    if (is_sorted)
        return;
    qsort(ids, count, sizeof *ids, compare_ids);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || ids[kept - 1] != ids[i])
            ids[kept++] = ids[i];
    pool->top = base + kept;
}

static bool is_among(const struct regex_pool *pool, uint32_t base, uint32_t id)
{
    return bsearch(&id, pool->stack + base, pool->top - base, sizeof id, compare_ids) != NULL;
}

/* Puts children of nodes with the same operation in their place, and joins sets. */
static void flatten(struct regex_pool *pool, enum regex_op op, uint32_t base)
{
    uint32_t end = pool->top;
    struct byte_set joined = {{0}};
    uint32_t sets = 0, first_set = REGEX_NONE, kept = base;
    for (uint32_t i = base; i < end && pool->status == STATUS_OK; i++) {
        struct regex_node node = pool->nodes[pool->stack[i]];
        uint32_t count = node.op == op ? node.b : 1;
        for (uint32_t j = 0; j < count && pool->status == STATUS_OK; j++) {
            uint32_t id = node.op == op ? pool->children[node.a + j] : pool->stack[i];
            const struct regex_node *child = &pool->nodes[id];
            if (child->op == REGEX_OP_SET) {
                const struct byte_set *set = &pool->sets[child->a];
                first_set = sets == 0 ? id : first_set;
                joined = sets++ == 0         ? *set
                         : op == REGEX_OP_OR ? byte_set_or(joined, set)
                                             : byte_set_and(joined, set);
            } else if (node.op == op) {
                regex_push(pool, id);
            } else {
                pool->stack[kept++] = id;
            }
        }
    }
    if (pool->status != STATUS_OK)
        return;
    memmove(pool->stack + kept, pool->stack + end, (pool->top - end) * sizeof *pool->stack);
    pool->top -= end - kept;
    if (sets != 0)
        regex_push(pool, sets == 1 ? first_set : make_set(pool, &joined));
}

/* An alternative `part{min,max} tail`. */
struct counted {
    regex_node_id part;
    regex_node_id tail;
    uint32_t min;
    uint32_t max;
};

static bool counted_of(const struct regex_pool *pool, regex_node_id id, struct counted *out)
{
    const struct regex_node *node = &pool->nodes[id];
    out->tail = REGEX_EMPTY;
    if (node->op == REGEX_OP_CAT) {
        out->tail = node->b;
        node = &pool->nodes[node->a];
    }
    if (node->op != REGEX_OP_REP)
        return false;
    out->part = node->a;
    out->min = node->min;
    out->max = node->max;
    return true;
}

static int compare_counted(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->tail != y->tail)
        return x->tail < y->tail ? -1 : 1;
    return (x->min > y->min) - (x->min < y->min);
}

/* x{m,n} t | x{p,q} t = x{min,max} t where the counts overlap or touch. Without this, the
 * derivatives of `(x{1,9}y?){1,9}` and the like are alternatives that differ in their counts alone.
 * */
static void merge_counted(struct regex_pool *pool, uint32_t base)
{
    uint32_t count = 0;
    struct counted one;
    for (uint32_t i = base; i < pool->top; i++)
        count += counted_of(pool, pool->stack[i], &one);
    if (count < 2)
        return;
    struct counted *all = mem_zalloc(count, sizeof *all);
    if (all == NULL) {
        fail_memory(pool);
        return;
    }
    uint32_t kept = base, next = 0;
    for (uint32_t i = base; i < pool->top; i++)
        if (counted_of(pool, pool->stack[i], &one))
            all[next++] = one;
        else
            pool->stack[kept++] = pool->stack[i];
    pool->top = kept;
    qsort(all, count, sizeof *all, compare_counted);
    for (uint32_t i = 0; i < count && pool->status == STATUS_OK; i = next) {
        struct counted merged = all[i];
        for (next = i + 1; next < count; next++) {
            const struct counted *other = &all[next];
            if (other->part != merged.part || other->tail != merged.tail ||
                (merged.max != REGEX_UNBOUNDED && other->min > merged.max + 1))
                break;
            merged.max = other->max > merged.max ? other->max : merged.max;
        }
        regex_push(pool, regex_cat(pool, regex_repeat(pool, merged.part, merged.min, merged.max),
                                   merged.tail));
    }
    mem_free(all);
    sort_ids(pool, base);
}

/* Removes one id, which may be absent. */
static void remove_id(struct regex_pool *pool, uint32_t base, uint32_t id)
{
    uint32_t kept = base;
    for (uint32_t i = base; i < pool->top; i++)
        if (pool->stack[i] != id)
            pool->stack[kept++] = pool->stack[i];
    pool->top = kept;
}

static bool has_contrary(const struct regex_pool *pool, uint32_t base)
{
    for (uint32_t i = base; i < pool->top; i++) {
        const struct regex_node *node = &pool->nodes[pool->stack[i]];
        if (node->op == REGEX_OP_NOT && is_among(pool, base, node->a))
            return true;
    }
    return false;
}

/* Whether the join is a node that absorbs all; else what changes nothing is removed. */
static bool is_absorbed(struct regex_pool *pool, enum regex_op op, uint32_t base,
                        regex_node_id *result)
{
    bool is_or = op == REGEX_OP_OR;
    *result = is_or ? REGEX_ALL : REGEX_NONE;
    if (is_among(pool, base, *result) || has_contrary(pool, base))
        return true;
    remove_id(pool, base, is_or ? REGEX_NONE : REGEX_ALL);
    if (!is_among(pool, base, REGEX_EMPTY))
        return false;
    bool is_all_nullable = true, is_other_nullable = false;
    for (uint32_t i = base; i < pool->top; i++) {
        bool is = regex_node_is(pool, pool->stack[i], REGEX_NULLABLE);
        is_all_nullable = is_all_nullable && is;
        is_other_nullable = is_other_nullable || (is && pool->stack[i] != REGEX_EMPTY);
    }
    if (is_or && is_other_nullable)
        remove_id(pool, base, REGEX_EMPTY);
    if (!is_or)
        *result = is_all_nullable ? REGEX_EMPTY : REGEX_NONE;
    return !is_or;
}

regex_node_id regex_join(struct regex_pool *pool, enum regex_op op, uint32_t base)
{
    regex_node_id result = op == REGEX_OP_OR ? REGEX_NONE : REGEX_ALL;
    if (!regex_spend(pool, pool->top - base) || pool->top == base)
        goto out;
    flatten(pool, op, base);
    sort_ids(pool, base);
    if (pool->status != STATUS_OK || is_absorbed(pool, op, base, &result))
        goto out;
    if (op == REGEX_OP_OR)
        merge_counted(pool, base);
    uint32_t count = pool->top - base;
    if (pool->status != STATUS_OK)
        goto out;
    if (count <= 1) {
        result = count == 1 ? pool->stack[base] : op == REGEX_OP_OR ? REGEX_NONE : REGEX_ALL;
        goto out;
    }
    if (!regex_spend(pool, count))
        goto out;
    if (!regex_room((void **)&pool->children, &pool->child_capacity, pool->child_count + count,
                    sizeof *pool->children)) {
        fail_memory(pool);
        goto out;
    }
    memcpy(pool->children + pool->child_count, pool->stack + base, count * sizeof *pool->stack);
    struct regex_node node = {.op = (uint8_t)op, .a = pool->child_count, .b = count};
    pool->child_count += count;
    result = intern(pool, node);
out:
    pool->top = base;
    return pool->status == STATUS_OK ? result : REGEX_NONE;
}

regex_node_id regex_or(struct regex_pool *pool, regex_node_id a, regex_node_id b)
{
    uint32_t base = pool->top;
    regex_push(pool, a);
    regex_push(pool, b);
    return regex_chars_or(pool, base);
}

regex_node_id regex_or_many(struct regex_pool *pool, const regex_node_id *nodes, size_t count)
{
    uint32_t base = pool->top;
    for (size_t i = 0; i < count && pool->status == STATUS_OK; i++)
        regex_push(pool, nodes[i]);
    return regex_chars_or(pool, base);
}

regex_node_id regex_and(struct regex_pool *pool, regex_node_id a, regex_node_id b)
{
    uint32_t base = pool->top;
    regex_push(pool, a);
    regex_push(pool, b);
    return regex_join(pool, REGEX_OP_AND, base);
}

regex_node_id regex_not(struct regex_pool *pool, regex_node_id a)
{
    if (pool->status != STATUS_OK)
        return REGEX_NONE;
    if (pool->nodes[a].op == REGEX_OP_NOT)
        return pool->nodes[a].a;
    return intern(pool, (struct regex_node){.op = REGEX_OP_NOT, .a = a});
}

/* --- derivatives --- */

/* The depth of nodes bounds the recursion: LIMIT_GRAMMAR_NESTING. */
static regex_node_id derive(struct regex_pool *pool, regex_node_id id, uint8_t byte);

static regex_node_id derive_cat(struct regex_pool *pool, regex_node_id id, uint8_t byte)
{
    struct regex_node node = pool->nodes[id];
    if (!regex_node_is(pool, node.a, REGEX_NULLABLE))
        return regex_cat(pool, derive(pool, node.a, byte), node.b);
    uint32_t base = pool->top;
    while (node.op == REGEX_OP_CAT && pool->status == STATUS_OK) {
        regex_push(pool, regex_cat(pool, derive(pool, node.a, byte), node.b));
        id = node.b;
        if (!regex_node_is(pool, node.a, REGEX_NULLABLE))
            break;
        node = pool->nodes[id];
    }
    if (node.op != REGEX_OP_CAT)
        regex_push(pool, derive(pool, id, byte));
    return regex_join(pool, REGEX_OP_OR, base);
}

static regex_node_id derive_many(struct regex_pool *pool, regex_node_id id, uint8_t byte)
{
    struct regex_node node = pool->nodes[id];
    uint32_t base = pool->top;
    for (uint32_t i = 0; i < node.b && pool->status == STATUS_OK; i++) {
        regex_node_id derived = derive(pool, pool->children[node.a + i], byte);
        if (derived == REGEX_NONE && node.op == REGEX_OP_AND) {
            pool->top = base;
            return REGEX_NONE;
        }
        if (derived != REGEX_NONE)
            regex_push(pool, derived);
    }
    return regex_join(pool, (enum regex_op)node.op, base);
}

static regex_node_id derive_rep(struct regex_pool *pool, regex_node_id id, uint8_t byte)
{
    struct regex_node node = pool->nodes[id];
    regex_node_id part = derive(pool, node.a, byte);
    if (part == REGEX_NONE)
        return REGEX_NONE;
    uint32_t min = node.min == 0 ? 0 : node.min - 1;
    uint32_t max = node.max == REGEX_UNBOUNDED ? node.max : node.max - 1;
    return regex_cat(pool, part, regex_repeat(pool, node.a, min, max));
}

static regex_node_id derive_mod(struct regex_pool *pool, const struct regex_node *node,
                                uint8_t byte)
{
    if (byte < '0' || byte > '9')
        return REGEX_NONE;
    uint64_t value = (uint64_t)node->min * 10 + (uint64_t)(byte - '0');
    struct regex_node next = {
        .op = REGEX_OP_MOD, .a = node->a, .min = (uint32_t)(value % node->a), .max = node->max};
    return intern(pool, next);
}

static regex_node_id derive(struct regex_pool *pool, regex_node_id id, uint8_t byte)
{
    if (!regex_spend(pool, 1))
        return REGEX_NONE;
    struct regex_node node = pool->nodes[id];
    if (node.call == pool->calls)
        return node.result;
    regex_node_id result = REGEX_NONE;
    switch ((enum regex_op)node.op) {
    case REGEX_OP_NONE:
    case REGEX_OP_EMPTY:
        return REGEX_NONE;
    case REGEX_OP_SET:
        return byte_set_has(&pool->sets[node.a], byte) ? REGEX_EMPTY : REGEX_NONE;
    case REGEX_OP_MOD:
        return derive_mod(pool, &node, byte);
    case REGEX_OP_CAT:
        result = derive_cat(pool, id, byte);
        break;
    case REGEX_OP_OR:
    case REGEX_OP_AND:
        result = derive_many(pool, id, byte);
        break;
    case REGEX_OP_NOT:
        result = regex_not(pool, derive(pool, node.a, byte));
        break;
    case REGEX_OP_REP:
        result = derive_rep(pool, id, byte);
        break;
    }
    if (pool->status != STATUS_OK)
        return REGEX_NONE;
    pool->nodes[id].call = pool->calls;
    pool->nodes[id].result = result;
    return result;
}

regex_node_id regex_derive(struct regex_pool *pool, regex_node_id a, uint8_t byte)
{
    (void)regex_call(pool);
    return derive(pool, a, byte);
}

bool regex_is_nullable(const struct regex_pool *pool, regex_node_id a)
{
    return regex_node_is(pool, a, REGEX_NULLABLE);
}

bool regex_matches(struct regex_pool *pool, regex_node_id a, struct slice text)
{
    for (size_t i = 0; i < text.length && a != REGEX_NONE; i++)
        a = regex_derive(pool, a, (uint8_t)text.bytes[i]);
    return regex_is_nullable(pool, a);
}

/* --- bytes that behave alike --- */

/* Blocks of bytes; no two blocks have a byte in common. */
struct blocks {
    struct byte_set at[256];
    uint32_t count;
};

static void split_blocks(struct blocks *blocks, const struct byte_set *set)
{
    uint32_t count = blocks->count;
    for (uint32_t i = 0; i < count; i++) {
        struct byte_set inside = byte_set_and(blocks->at[i], set);
        struct byte_set outside = byte_set_without(blocks->at[i], set);
        if (byte_set_is_empty(&inside) || byte_set_is_empty(&outside))
            continue;
        blocks->at[i] = inside;
        blocks->at[blocks->count++] = outside;
    }
}

static void split_digits(struct blocks *blocks)
{
    for (uint8_t digit = '0'; digit <= '9'; digit++) {
        struct byte_set one = {{0}};
        byte_set_add(&one, digit);
        split_blocks(blocks, &one);
    }
}

static void begin_blocks(const struct regex_pool *pool, struct blocks *blocks)
{
    struct byte_set all;
    memset(&all, 0xff, sizeof all);
    blocks->at[0] = byte_set_without(all, &pool->missing);
    blocks->count = byte_set_is_empty(&blocks->at[0]) ? 0 : 1;
}

static uint8_t first_byte(const struct byte_set *set)
{
    uint32_t word = 0;
    while (set->words[word] == 0)
        word++;
    return (uint8_t)(word * 64 + (uint32_t)__builtin_ctzll(set->words[word]));
}

/* Splits by the sets that a node looks at when it is derived. The depth of nodes bounds the
 * recursion. */
static void split_front(struct regex_pool *pool, struct blocks *blocks, regex_node_id id,
                        uint32_t search)
{
    while (regex_spend(pool, 1) && pool->nodes[id].seen != search) {
        struct regex_node node = pool->nodes[id];
        pool->nodes[id].seen = search;
        switch ((enum regex_op)node.op) {
        case REGEX_OP_NONE:
        case REGEX_OP_EMPTY:
            return;
        case REGEX_OP_SET:
            split_blocks(blocks, &pool->sets[node.a]);
            return;
        case REGEX_OP_MOD:
            split_digits(blocks);
            return;
        case REGEX_OP_OR:
        case REGEX_OP_AND:
            for (uint32_t i = 0; i < node.b; i++)
                split_front(pool, blocks, pool->children[node.a + i], search);
            return;
        case REGEX_OP_NOT:
        case REGEX_OP_REP:
            split_front(pool, blocks, node.a, search);
            return;
        case REGEX_OP_CAT:
            split_front(pool, blocks, node.a, search);
            if (!regex_node_is(pool, node.a, REGEX_NULLABLE))
                return;
            id = node.b;
            break;
        }
    }
}

/* --- emptiness --- */

/* Whether the node is known to match something, from flags that its parts have by now. */
static bool is_sure(struct regex_pool *pool, regex_node_id id)
{
    struct regex_node *node = &pool->nodes[id];
    bool is = (node->flags & REGEX_SURE) != 0;
    if (!is && node->op == REGEX_OP_CAT)
        is = regex_node_is(pool, node->a, REGEX_SURE) && regex_node_is(pool, node->b, REGEX_SURE);
    if (!is && node->op == REGEX_OP_REP)
        is = regex_node_is(pool, node->a, REGEX_SURE);
    for (uint32_t i = 0; !is && node->op == REGEX_OP_OR && i < node->b; i++)
        is = regex_node_is(pool, pool->children[node->a + i], REGEX_SURE);
    node->flags |= is ? REGEX_SURE : 0;
    return is;
}

/* A search over derivatives, breadth first. The queue is on the stack: pairs of a node and of the
 * place of the node that it comes from. */
struct search {
    struct regex_pool *pool;
    uint32_t base;
    uint32_t steps;     /* that are left */
    bool is_bounded;    /* what other searches found must not make it shorter */
    regex_node_id *met; /* a hash of the nodes in the queue, REGEX_NONE is free */
    uint32_t met_count;
    uint32_t met_size;
};

/* Whether the node is new. */
static bool meet(struct search *search, regex_node_id id)
{
    if ((search->met_count + 1) * 2 > search->met_size) {
        uint32_t size = search->met_size == 0 ? FIRST_CAPACITY : search->met_size * 2;
        regex_node_id *met = mem_zalloc(size, sizeof *met);
        if (met == NULL) {
            fail_memory(search->pool);
            return false;
        }
        for (uint32_t i = 0; i < search->met_size; i++) {
            uint64_t at = hash_mix64(search->met[i]);
            while (search->met[i] != REGEX_NONE && met[at & (size - 1)] != REGEX_NONE)
                at++;
            if (search->met[i] != REGEX_NONE)
                met[at & (size - 1)] = search->met[i];
        }
        mem_free(search->met);
        search->met = met;
        search->met_size = size;
    }
    uint64_t at = hash_mix64(id);
    for (; search->met[at & (search->met_size - 1)] != REGEX_NONE; at++)
        if (search->met[at & (search->met_size - 1)] == id)
            return false;
    search->met[at & (search->met_size - 1)] = id;
    search->met_count++;
    return true;
}

/* All nodes on the way to the one at `place` match something. */
static void mark_way(struct regex_pool *pool, uint32_t base, uint32_t place)
{
    while (true) {
        pool->nodes[pool->stack[place]].flags |= REGEX_SURE;
        if (place == base)
            return;
        place = pool->stack[place + 1];
    }
}

enum found { FOUND_NOTHING, FOUND_TEXT, FOUND_NO_END };

/* Adds the derivatives of the node at `place` to the queue. */
static enum found expand(struct search *search, uint32_t place)
{
    struct regex_pool *pool = search->pool;
    struct blocks blocks;
    begin_blocks(pool, &blocks);
    split_front(pool, &blocks, pool->stack[place], begin_search(pool));
    for (uint32_t i = 0; i < blocks.count && pool->status == STATUS_OK; i++) {
        if (search->steps == 0)
            return FOUND_NO_END;
        search->steps--;
        regex_node_id next = regex_derive(pool, pool->stack[place], first_byte(&blocks.at[i]));
        bool is_known =
            search->is_bounded ? next == REGEX_NONE : regex_node_is(pool, next, REGEX_IMPOSSIBLE);
        if (is_known || !meet(search, next))
            continue;
        regex_push(pool, next);
        regex_push(pool, place);
        if (pool->status == STATUS_OK && is_sure(pool, next)) {
            mark_way(pool, search->base, pool->top - 2);
            return FOUND_TEXT;
        }
    }
    return pool->status == STATUS_OK ? FOUND_NOTHING : FOUND_NO_END;
}

static enum found look_for_text(struct regex_pool *pool, regex_node_id a, uint32_t steps)
{
    if (pool->status != STATUS_OK)
        return FOUND_NO_END;
    if (regex_node_is(pool, a, REGEX_IMPOSSIBLE))
        return FOUND_NOTHING;
    if (is_sure(pool, a))
        return FOUND_TEXT;
    struct search search = {
        .pool = pool, .base = pool->top, .steps = steps, .is_bounded = steps != UINT32_MAX};
    enum found found = FOUND_NOTHING;
    (void)meet(&search, a);
    regex_push(pool, a);
    regex_push(pool, search.base);
    for (uint32_t place = search.base; found == FOUND_NOTHING && place < pool->top; place += 2)
        found = pool->status == STATUS_OK ? expand(&search, place) : FOUND_NO_END;
    for (uint32_t place = search.base; found == FOUND_NOTHING && place < pool->top; place += 2)
        pool->nodes[pool->stack[place]].flags |= REGEX_IMPOSSIBLE;
    pool->top = search.base;
    mem_free(search.met);
    return pool->status == STATUS_OK ? found : FOUND_NO_END;
}

bool regex_is_empty_language(struct regex_pool *pool, regex_node_id a)
{
    return look_for_text(pool, a, UINT32_MAX) == FOUND_NOTHING;
}

bool regex_is_seen_empty(struct regex_pool *pool, regex_node_id a, uint32_t steps)
{
    return look_for_text(pool, a, steps) == FOUND_NOTHING;
}

/* --- classes of bytes --- */

/* Splits by all sets below a node. */
static void split_all(struct regex_pool *pool, struct blocks *blocks, regex_node_id root,
                      uint32_t search)
{
    uint32_t base = pool->top;
    regex_push(pool, root);
    while (pool->top > base && regex_spend(pool, 1)) {
        regex_node_id id = pool->stack[--pool->top];
        struct regex_node node = pool->nodes[id];
        if (node.seen == search)
            continue;
        pool->nodes[id].seen = search;
        if (node.op == REGEX_OP_SET)
            split_blocks(blocks, &pool->sets[node.a]);
        if (node.op == REGEX_OP_MOD)
            split_digits(blocks);
        if (node.op == REGEX_OP_CAT || node.op == REGEX_OP_NOT || node.op == REGEX_OP_REP)
            regex_push(pool, node.a);
        if (node.op == REGEX_OP_CAT)
            regex_push(pool, node.b);
        for (uint32_t i = 0; (node.op == REGEX_OP_OR || node.op == REGEX_OP_AND) && i < node.b; i++)
            regex_push(pool, pool->children[node.a + i]);
    }
    pool->top = base;
}

uint32_t regex_pool_classes(struct regex_pool *pool, const regex_node_id *roots, size_t count,
                            uint8_t class_of[256], uint8_t first[256])
{
    struct blocks blocks;
    begin_blocks(pool, &blocks);
    uint32_t search = begin_search(pool);
    for (size_t i = 0; i < count; i++)
        split_all(pool, &blocks, roots[i], search);
    /* With 256 blocks no byte is cut, so class 0 is not needed for cut ones. */
    uint32_t shift = blocks.count < 256 ? 1 : 0;
    memset(class_of, 0, 256);
    first[0] = byte_set_is_empty(&pool->missing) ? 0 : first_byte(&pool->missing);
    for (uint32_t i = 0; i < blocks.count; i++) {
        for (uint32_t byte = 0; byte < 256; byte++)
            if (byte_set_has(&blocks.at[i], (uint8_t)byte))
                class_of[byte] = (uint8_t)(i + shift);
        first[i + shift] = first_byte(&blocks.at[i]);
    }
    return blocks.count + shift;
}
