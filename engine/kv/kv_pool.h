/* kv_pool: a fixed number of KV pages with reference counts and domains.
 *
 * Owns:     the page memory and the free list; nothing else frees a page.
 * Thread:   engine thread only, therefore no locks; kv_pool_init before it starts.
 * Cost:     acquire, retain and release are O(1); no allocation after kv_pool_init.
 * Not here: which page to give up (prefix_cache, scheduler), what lies inside a page (kernels).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/request/engine_request.h"
#include "kernels/kernels.h"

typedef uint32_t page_id;

enum { KV_POOL_NONE = UINT32_MAX };

/* A page is free exactly when its count is 0; then, and only then, it is in `free_pages`:
 *
 *     references  [2][0][1][0]        pages 1 and 3 are free
 *     free_pages  [1, 3 | …]          the first free_count entries are valid
 *
 * Holders are sequences, swap lists, the cache (at most once a page) and a pin. A page that the
 * cache alone holds is idle: it may be evicted, so free and idle pages together are available.
 *
 * A page is in flight from the beginning of a batch of copies that reads or writes it (kv_host)
 * until the batch is over, or until work waits for it. No row computes on it meanwhile, and free
 * pages in flight are acquired last:
 *
 *     batches    [7][0][4][7]         batches up to 5 are over: pages 0 and 3 are in flight
 *     free_pages [3, 1 | …]           of the free ones, the first flying_count are in flight */
struct kv_pool {
    struct kernels *kernels;
    struct kv_layout layout;
    void *memory; /* [page_count][layout.page_bytes] */
    uint32_t page_count;
    uint32_t free_count;
    uint32_t flying_count; /* free pages in flight: the first of free_pages */
    uint32_t idle_count;
    uint32_t pinned_count;
    page_id *free_pages;
    uint32_t *references;
    uint64_t *batches;     /* of each page: its last batch of copies; 0 = none */
    uint64_t begun, ended; /* the last batch begun, and the last one that is known to be over */
    uint64_t waits;        /* for copies that were not over when their pages were needed */
    uint8_t *marks;        /* of each page: held by the cache, pinned */
    struct engine_domain *domains; /* of the page's content, while it is held */
    void (*tell_idle)(void *context, page_id page, bool is_idle);
    void *tell_context;
    void *poison; /* [page_bytes] in builds with slow checks */
};

/* Makes as many pages as `bytes` holds. LIMIT, with the sizes, when that is less than one sequence
 * of `context` tokens needs, so that a sequence alone can always finish; NO_MEMORY. */
enum status kv_pool_init(struct kv_pool *pool, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes, uint32_t context);
void kv_pool_deinit(struct kv_pool *pool);

/* Pages that `tokens` tokens need; and the number of those that can be kept when their sequence has
 * ended: all, or only the full ones where the pool has no partial pages (kv_pool_has_parts). */
uint32_t kv_pool_pages_for(const struct kv_pool *pool, uint32_t tokens);
uint32_t kv_pool_pages_kept(const struct kv_pool *pool, uint32_t tokens);

/* A page with one reference, for content of `domain`; KV_POOL_NONE when none is free. When all free
 * pages are in flight, work waits for a copy. */
page_id kv_pool_acquire(struct kv_pool *pool, const struct engine_domain *domain);
/* Adds a reference to a page that is held. */
void kv_pool_retain(struct kv_pool *pool, page_id page);
/* Gives a reference up; with the last one the page is free. */
void kv_pool_release(struct kv_pool *pool, page_id page);

/* Whether the first tokens of a page have a meaning without the others, so that a partial page can
 * be copied and kept. Not where keys are packed by groups. */
bool kv_pool_has_parts(const struct kv_pool *pool);
/* Of `tokens` computed tokens, those that are in pages alone and so can be swapped out: all, or
 * where keys are packed by groups, those of full groups. */
uint32_t kv_pool_tokens_packed(const struct kv_pool *pool, uint32_t tokens);

/* A batch of copies has begun that reads or writes a held page. Only kv_host calls this. */
void kv_pool_fly(struct kv_pool *pool, page_id page, uint64_t batch);
static inline bool kv_pool_is_flying(const struct kv_pool *pool, page_id page)
{
    return pool->batches[page] > pool->ended;
}
/* Whether at least one of these pages is in flight. */
bool kv_pool_are_flying(const struct kv_pool *pool, const page_id *pages, uint32_t count);
/* Looks which batches are over, without waiting. Called once a step and after each batch. */
void kv_pool_land(struct kv_pool *pool);
/* Work submitted from here on runs after the copies of these pages. */
void kv_pool_wait(struct kv_pool *pool, const page_id *pages, uint32_t count);

/* The page's memory, which only kernels touch; pages follow each other at layout.page_bytes. */
void *kv_pool_memory(const struct kv_pool *pool, page_id page);

/* Sets the function that is called, at once, when a page becomes idle, and when it stops being idle
 * because it was retained or pinned. */
void kv_pool_set_idle(struct kv_pool *pool, void (*tell)(void *context, page_id page, bool is_idle),
                      void *context);
/* The cache becomes a holder of a held page, or stops being one. An uncache does not call the
 * function of kv_pool_set_idle: the cache knows. */
void kv_pool_cache(struct kv_pool *pool, page_id page);
void kv_pool_uncache(struct kv_pool *pool, page_id page);
bool kv_pool_is_cached(const struct kv_pool *pool, page_id page);
bool kv_pool_is_idle(const struct kv_pool *pool, page_id page);
/* A pin is one more reference, which belongs to no sequence; only pages of the cache are pinned. */
void kv_pool_pin(struct kv_pool *pool, page_id page);
void kv_pool_unpin(struct kv_pool *pool, page_id page);
bool kv_pool_is_pinned(const struct kv_pool *pool, page_id page);

/* Asserts, in every build, that each page of a table is held, is not in flight, and is of a domain
 * in `visible`. This is the last check between one tenant's keys and another's query. */
void kv_pool_assert_visible(const struct kv_pool *pool, const page_id *pages, uint32_t page_count,
                            const struct engine_domain *visible, uint32_t visible_count);

/* Whether all invariants hold; holders[page] is the number of references that others than the cache
 * and pins hold. O(pages). */
bool kv_pool_check(const struct kv_pool *pool, const uint32_t *holders);
