#include "engine/text/tokenizer_index.h"

#include "config/base/hash.h"
#include "config/base/mem.h"

static uint32_t *find_slot(const struct tokenizer_index *index, struct slice bytes)
{
    size_t at = hash_bytes(hash_process_key(), bytes.bytes, bytes.length) & index->mask;
    while (index->slots[at] != 0 &&
           !slice_equals(vocab_bytes(index->vocab, index->slots[at] - 1), bytes))
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

enum status tokenizer_index_init(struct tokenizer_index *index, const struct vocab *vocab,
                                 bool takes_unused)
{
    index->vocab = vocab;
    index->mask = 1;
    while (index->mask + 1 < 2 * (size_t)vocab_size(vocab))
        index->mask = index->mask * 2 + 1;
    index->slots = mem_zalloc(index->mask + 1, sizeof(*index->slots));
    if (index->slots == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        enum vocab_kind kind = vocab_kind(vocab, id);
        if (kind != VOCAB_NORMAL && !(takes_unused && kind == VOCAB_UNUSED))
            continue;
        uint32_t *slot = find_slot(index, vocab_bytes(vocab, id));
        if (*slot == 0)
            *slot = id + 1;
    }
    return STATUS_OK;
}

void tokenizer_index_deinit(struct tokenizer_index *index)
{
    mem_free(index->slots);
    index->slots = NULL;
}

uint32_t tokenizer_index_find(const struct tokenizer_index *index, struct slice bytes)
{
    uint32_t slot = *find_slot(index, bytes);
    return slot != 0 ? slot - 1 : VOCAB_NONE;
}
