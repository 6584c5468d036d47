#include "gateway/dialect/ask_block.h"

#include <stdlib.h>

#include "config/base/mem.h"

struct block {
    struct block *next;
    _Alignas(16) char bytes[];
};

void *ask_block_take(void **blocks, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct block), &bytes))
        return NULL;
    struct block *block = mem_alloc(bytes);
    if (block == NULL)
        return NULL;
    block->next = *blocks;
    *blocks = block;
    return block->bytes;
}

enum status ask_block_copy(struct slice text, void **blocks, struct slice *out)
{
    char *copy = ask_block_take(blocks, text.length + 1, 1);
    if (copy == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a text");
    memcpy(copy, text.bytes, text.length);
    *out = (struct slice){copy, text.length};
    return STATUS_OK;
}

/* A double is written with 15 digits, which give back each number of up to 15 digits as it was sent
 * (0.1, not 0.10000000000000001), or with 17 where some number has more. */
static size_t json_flags(const json_t *value)
{
    static const size_t few = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);
    char *text = json_dumps(value, few);
    json_t *again = text != NULL ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    const bool is_same = again != NULL && json_equal(value, again);
    json_decref(again);
    free(text);
    return is_same ? few : JSON_COMPACT | JSON_ENCODE_ANY;
}

enum status ask_block_json(const json_t *value, void **blocks, struct slice *out)
{
    const size_t flags = json_flags(value);
    size_t length = json_dumpb(value, NULL, 0, flags);
    char *text = ask_block_take(blocks, length + 1, 1);
    if (text == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    json_dumpb(value, text, length, flags);
    *out = (struct slice){text, length};
    return STATUS_OK;
}

void ask_block_free(void *blocks)
{
    for (struct block *block = blocks; block != NULL;) {
        struct block *next = block->next;
        mem_free(block);
        block = next;
    }
}
