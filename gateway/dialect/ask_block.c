#include "gateway/dialect/ask_block.h"

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

enum status ask_block_json(const json_t *value, void **blocks, struct slice *out)
{
    size_t length = json_dumpb(value, NULL, 0, JSON_COMPACT);
    char *text = ask_block_take(blocks, length + 1, 1);
    if (text == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    json_dumpb(value, text, length, JSON_COMPACT);
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
