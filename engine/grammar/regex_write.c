#include "engine/grammar/regex.h"
#include "engine/grammar/regex_node.h"

/* A byte of the set, written. */
static regex_node_id write_set(struct regex_pool *pool, const struct regex_writing *writing,
                               const struct byte_set *set)
{
    uint32_t base = pool->top;
    struct byte_set plain = byte_set_and(*set, &writing->plain);
    regex_push(pool, regex_bytes(pool, &plain));
    for (uint32_t byte = 0; byte < 256; byte++)
        if (byte_set_has(set, (uint8_t)byte) && !byte_set_has(&writing->plain, (uint8_t)byte))
            regex_push(pool, writing->other[byte]);
    return regex_join(pool, REGEX_OP_OR, base);
}

static bool is_done(const struct regex_pool *pool, regex_node_id id)
{
    return pool->nodes[id].call == pool->calls;
}

static regex_node_id result_of(const struct regex_pool *pool, regex_node_id id)
{
    return pool->nodes[id].result;
}

/* Pushes the parts of a node that are not written yet. Returns whether there were any. */
static bool push_parts(struct regex_pool *pool, regex_node_id id)
{
    struct regex_node node = pool->nodes[id];
    uint32_t before = pool->top;
    bool is_many = node.op == REGEX_OP_OR || node.op == REGEX_OP_AND;
    bool has_one = node.op == REGEX_OP_CAT || node.op == REGEX_OP_NOT || node.op == REGEX_OP_REP;
    for (uint32_t i = 0; is_many && i < node.b; i++)
        if (!is_done(pool, pool->children[node.a + i]))
            regex_push(pool, pool->children[node.a + i]);
    if (has_one && !is_done(pool, node.a))
        regex_push(pool, node.a);
    if (node.op == REGEX_OP_CAT && !is_done(pool, node.b))
        regex_push(pool, node.b);
    return pool->top > before;
}

/* The contrary within the texts that can be written at all. */
static regex_node_id write_not(struct regex_pool *pool, const struct regex_writing *writing,
                               regex_node_id written)
{
    struct byte_set any;
    for (uint32_t i = 0; i < BYTE_SET_WORDS; i++)
        any.words[i] = UINT64_MAX;
    regex_node_id all = regex_repeat(pool, write_set(pool, writing, &any), 0, REGEX_UNBOUNDED);
    return regex_and(pool, regex_not(pool, written), all);
}

/* Writes a node whose parts are written. */
static regex_node_id write_one(struct regex_pool *pool, const struct regex_writing *writing,
                               regex_node_id id)
{
    struct regex_node node = pool->nodes[id];
    struct byte_set digits = {{0}};
    uint32_t base = pool->top;
    switch ((enum regex_op)node.op) {
    case REGEX_OP_NONE:
    case REGEX_OP_EMPTY:
        return id;
    case REGEX_OP_SET: {
        struct byte_set set = pool->sets[node.a];
        return write_set(pool, writing, &set);
    }
    case REGEX_OP_CAT:
        return regex_cat(pool, result_of(pool, node.a), result_of(pool, node.b));
    case REGEX_OP_OR:
    case REGEX_OP_AND:
        for (uint32_t i = 0; i < node.b; i++)
            regex_push(pool, result_of(pool, pool->children[node.a + i]));
        return regex_join(pool, (enum regex_op)node.op, base);
    case REGEX_OP_NOT:
        return write_not(pool, writing, result_of(pool, node.a));
    case REGEX_OP_REP:
        return regex_repeat(pool, result_of(pool, node.a), node.min, node.max);
    case REGEX_OP_MOD:
        byte_set_add_range(&digits, '0', '9');
        digits = byte_set_without(digits, &writing->plain);
        return byte_set_is_empty(&digits)
                   ? id
                   : regex_fail(pool, STATUS_LIMIT, "a remainder cannot be written in other bytes");
    }
    return REGEX_NONE;
}

regex_node_id regex_write(struct regex_pool *pool, const struct regex_writing *writing,
                          regex_node_id a)
{
    uint32_t base = pool->top;
    (void)regex_call(pool);
    regex_push(pool, a);
    while (pool->top > base && regex_spend(pool, 1)) {
        regex_node_id id = pool->stack[pool->top - 1];
        if (!is_done(pool, id)) {
            if (push_parts(pool, id))
                continue;
            regex_node_id written = write_one(pool, writing, id);
            regex_chars_written(pool, &writing->plain, id, written);
            pool->nodes[id].call = pool->calls;
            pool->nodes[id].result = written;
        }
        pool->top--;
    }
    pool->top = base;
    return pool->status == STATUS_OK ? result_of(pool, a) : REGEX_NONE;
}
