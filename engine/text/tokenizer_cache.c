#include "engine/text/tokenizer_cache.h"

#include "config/base/hash.h"
#include "config/base/mem.h"

void tokenizer_cache_init(struct tokenizer_cache *cache, size_t text_length)
{
    cache->slots = NULL;
    if (text_length >= TOKENIZER_CACHE_TEXT)
        cache->slots = mem_zalloc(TOKENIZER_CACHE_SLOTS, sizeof(*cache->slots));
}

void tokenizer_cache_deinit(struct tokenizer_cache *cache)
{
    mem_free(cache->slots);
    cache->slots = NULL;
}

/* A text that makes pieces share a slot only loses what the table saves. */
static struct tokenizer_cache_slot *find_slot(const struct tokenizer_cache *cache,
                                              struct slice piece)
{
    uint64_t words[4] = {0};
    memcpy(words, piece.bytes, piece.length);
    uint64_t mixed = words[0] ^ (words[1] * 0x9e3779b97f4a7c15u) ^ (words[2] << 7) ^
                     (words[3] * 0xff51afd7ed558ccdu) ^ piece.length;
    return &cache->slots[hash_mix64(mixed) % TOKENIZER_CACHE_SLOTS];
}

const struct tokenizer_cache_slot *tokenizer_cache_find(const struct tokenizer_cache *cache,
                                                        struct slice piece)
{
    if (cache->slots == NULL || piece.length > TOKENIZER_CACHE_BYTES || piece.length == 0)
        return NULL;
    const struct tokenizer_cache_slot *slot = find_slot(cache, piece);
    bool is_it =
        slot->length == piece.length && memcmp(slot->bytes, piece.bytes, piece.length) == 0;
    return is_it ? slot : NULL;
}

void tokenizer_cache_keep(struct tokenizer_cache *cache, struct slice piece, const uint32_t *ids,
                          size_t count)
{
    if (cache->slots == NULL || piece.length > TOKENIZER_CACHE_BYTES || piece.length == 0 ||
        count > TOKENIZER_CACHE_IDS)
        return;
    struct tokenizer_cache_slot *slot = find_slot(cache, piece);
    slot->length = (uint8_t)piece.length;
    slot->count = (uint8_t)count;
    memcpy(slot->bytes, piece.bytes, piece.length);
    if (count > 0)
        memcpy(slot->ids, ids, count * sizeof(*ids));
}
