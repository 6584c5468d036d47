#include "engine/grammar/grammar_kept.h"

#include <pthread.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits_grammar.h"
#include "config/base/mem.h"

enum { NONE = UINT32_MAX, BUCKETS = 256 };

struct entry {
    struct grammar_kept_mask mask; /* first: what callers hold */
    const void *trie;              /* NULL: the entry is unused */
    uint32_t state;
    uint32_t held;
    uint32_t next;  /* of its bucket */
    uint32_t newer; /* by last use */
    uint32_t older;
    size_t bytes;
    uint32_t *memory; /* of the mask and behind it the exits */
};

struct grammar_kept {
    pthread_mutex_t lock;
    uint32_t count;  /* entries that were ever used */
    uint32_t unused; /* of these, the ones that were cleared, as a list */
    uint32_t newest;
    uint32_t oldest;
    size_t bytes;
    uint32_t buckets[BUCKETS];
    struct entry entries[LIMIT_GRAMMAR_KEPT];
};

enum status grammar_kept_new(struct grammar_kept **out)
{
    *out = NULL;
    struct grammar_kept *kept = mem_zalloc(1, sizeof *kept);
    if (kept == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar's kept masks");
    ASSERT(pthread_mutex_init(&kept->lock, NULL) == 0);
    kept->newest = kept->oldest = kept->unused = NONE;
    memset(kept->buckets, 0xff, sizeof kept->buckets);
    kept->bytes = sizeof *kept;
    *out = kept;
    return STATUS_OK;
}

void grammar_kept_free(struct grammar_kept *kept)
{
    if (kept == NULL)
        return;
    for (uint32_t i = 0; i < kept->count; i++) {
        ASSERT(kept->entries[i].held == 0);
        mem_free(kept->entries[i].memory);
    }
    pthread_mutex_destroy(&kept->lock);
    mem_free(kept);
}

static uint32_t *bucket_of(struct grammar_kept *kept, const void *trie, uint32_t state)
{
    return &kept->buckets[hash_mix64((uint64_t)(uintptr_t)trie + state) % BUCKETS];
}

static uint32_t find(struct grammar_kept *kept, const void *trie, uint32_t state)
{
    uint32_t at = *bucket_of(kept, trie, state);
    while (at != NONE && (kept->entries[at].trie != trie || kept->entries[at].state != state))
        at = kept->entries[at].next;
    return at;
}

static void unlink_use(struct grammar_kept *kept, struct entry *entry)
{
    *(entry->newer != NONE ? &kept->entries[entry->newer].older : &kept->newest) = entry->older;
    *(entry->older != NONE ? &kept->entries[entry->older].newer : &kept->oldest) = entry->newer;
}

static void link_newest(struct grammar_kept *kept, uint32_t at)
{
    struct entry *entry = &kept->entries[at];
    entry->newer = NONE;
    entry->older = kept->newest;
    *(kept->newest != NONE ? &kept->entries[kept->newest].newer : &kept->oldest) = at;
    kept->newest = at;
}

const struct grammar_kept_mask *grammar_kept_find(struct grammar_kept *kept, const void *trie,
                                                  uint32_t state)
{
    pthread_mutex_lock(&kept->lock);
    uint32_t at = find(kept, trie, state);
    if (at != NONE) {
        unlink_use(kept, &kept->entries[at]);
        link_newest(kept, at);
        kept->entries[at].held++;
    }
    pthread_mutex_unlock(&kept->lock);
    return at != NONE ? &kept->entries[at].mask : NULL;
}

void grammar_kept_release(struct grammar_kept *kept, const struct grammar_kept_mask *entry)
{
    struct entry *held = (struct entry *)(uintptr_t)entry;
    pthread_mutex_lock(&kept->lock);
    ASSERT(held->held > 0);
    held->held--;
    pthread_mutex_unlock(&kept->lock);
}

/* Takes the entry out of its bucket and of the order, and frees its memory. */
static void clear(struct grammar_kept *kept, uint32_t at)
{
    struct entry *entry = &kept->entries[at];
    uint32_t *link = bucket_of(kept, entry->trie, entry->state);
    while (*link != at)
        link = &kept->entries[*link].next;
    *link = entry->next;
    unlink_use(kept, entry);
    kept->bytes -= entry->bytes;
    mem_free(entry->memory);
    *entry = (struct entry){.next = kept->unused};
    kept->unused = at;
}

static bool has_room(const struct grammar_kept *kept, size_t bytes, size_t bytes_max)
{
    return (kept->count < LIMIT_GRAMMAR_KEPT || kept->unused != NONE) &&
           kept->bytes <= bytes_max - bytes;
}

/* An unused entry, for which older ones may have to go; NONE if `bytes` more are too many. */
static uint32_t take_entry(struct grammar_kept *kept, size_t bytes, size_t bytes_max)
{
    if (bytes > bytes_max)
        return NONE;
    for (uint32_t at = kept->oldest; at != NONE && !has_room(kept, bytes, bytes_max);) {
        uint32_t newer = kept->entries[at].newer;
        if (kept->entries[at].held == 0)
            clear(kept, at);
        at = newer;
    }
    if (!has_room(kept, bytes, bytes_max))
        return NONE;
    if (kept->unused == NONE)
        return kept->count++;
    uint32_t at = kept->unused;
    kept->unused = kept->entries[at].next;
    return at;
}

void grammar_kept_put(struct grammar_kept *kept, const void *trie, uint32_t state,
                      const uint32_t *mask, uint32_t words, const struct grammar_exit *exits,
                      uint32_t exit_count, size_t bytes_max)
{
    size_t mask_bytes = words * sizeof *mask;
    size_t exit_bytes = exit_count * sizeof *exits;
    uint32_t *memory = mem_alloc(mask_bytes + exit_bytes);
    if (memory == NULL)
        return;
    memcpy(memory, mask, mask_bytes);
    if (exit_count != 0)
        memcpy(memory + words, exits, exit_bytes);
    pthread_mutex_lock(&kept->lock);
    uint32_t at = NONE;
    if (find(kept, trie, state) == NONE)
        at = take_entry(kept, mask_bytes + exit_bytes, bytes_max);
    if (at != NONE) {
        struct entry *entry = &kept->entries[at];
        uint32_t *bucket = bucket_of(kept, trie, state);
        *entry = (struct entry){.trie = trie, .state = state, .next = *bucket};
        entry->mask = (struct grammar_kept_mask){
            memory, (const struct grammar_exit *)(const void *)(memory + words), exit_count};
        entry->memory = memory;
        entry->bytes = mask_bytes + exit_bytes;
        kept->bytes += entry->bytes;
        *bucket = at;
        link_newest(kept, at);
    }
    pthread_mutex_unlock(&kept->lock);
    if (at == NONE)
        mem_free(memory);
}

size_t grammar_kept_bytes(struct grammar_kept *kept)
{
    pthread_mutex_lock(&kept->lock);
    size_t bytes = kept->bytes;
    pthread_mutex_unlock(&kept->lock);
    return bytes;
}
