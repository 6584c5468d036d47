#include "auth/identity/auth_token_cache.h"

#include <pthread.h>

#include "config/base/mem.h"

enum { WAYS = 8 };

struct place {
    uint8_t print[AUTH_CRYPTO_BYTES];
    int64_t until_s; /* 0: free */
    struct auth_token_entry entry;
};

struct auth_token_cache {
    pthread_mutex_t lock;
    size_t sets;
    struct place (*places)[WAYS];
};

enum status auth_token_cache_create(struct auth_token_cache **out, size_t entries)
{
    ASSERT(entries >= WAYS && entries % WAYS == 0);
    *out = NULL;
    struct auth_token_cache *cache = mem_zalloc(1, sizeof *cache);
    if (cache != NULL)
        cache->places = mem_zalloc(entries / WAYS, sizeof *cache->places);
    if (cache == NULL || cache->places == NULL) {
        mem_free(cache);
        FAIL(STATUS_NO_MEMORY, "no memory for checked tokens");
    }
    cache->sets = entries / WAYS;
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return STATUS_OK;
}

void auth_token_cache_destroy(struct auth_token_cache *cache)
{
    if (cache == NULL)
        return;
    pthread_mutex_destroy(&cache->lock);
    mem_free(cache->places);
    mem_free(cache);
}

/* The set of a print. Prints are keyed HMACs, so a stranger cannot aim at a set. */
static struct place *set_of(const struct auth_token_cache *cache,
                            const uint8_t print[AUTH_CRYPTO_BYTES])
{
    uint64_t number;
    memcpy(&number, print, sizeof number);
    return cache->places[number % cache->sets];
}

static bool place_is(const struct place *place, const uint8_t print[AUTH_CRYPTO_BYTES])
{
    return place->until_s != 0 && memcmp(place->print, print, AUTH_CRYPTO_BYTES) == 0;
}

void auth_token_cache_put(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          const struct auth_token_entry *entry, int64_t until_s)
{
    struct place *set = set_of(cache, print);
    pthread_mutex_lock(&cache->lock);
    struct place *best = &set[0];
    for (size_t i = 0; i < WAYS && !place_is(best, print); i++) {
        if (place_is(&set[i], print) || set[i].until_s < best->until_s)
            best = &set[i];
    }
    memcpy(best->print, print, AUTH_CRYPTO_BYTES);
    best->until_s = until_s;
    best->entry = *entry;
    pthread_mutex_unlock(&cache->lock);
}

bool auth_token_cache_get(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          int64_t now_s, struct auth_token_entry *out)
{
    const struct place *set = set_of(cache, print);
    bool is_found = false;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < WAYS && !is_found; i++) {
        is_found = place_is(&set[i], print) && set[i].until_s > now_s;
        if (is_found)
            *out = set[i].entry;
    }
    pthread_mutex_unlock(&cache->lock);
    return is_found;
}
