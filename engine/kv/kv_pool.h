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

/* A page is free exactly when its count is 0; then, and only then, it stands in `free_pages`:
 *
 *     references  [2][0][1][0]        pages 1 and 3 are free
 *     free_pages  [1, 3 | …]          the first free_count entries count
 *
 * Holders are sequences, the cache (at most once a page) and a pin. A page that the cache alone
 * holds is idle: it may be evicted, so free and idle pages together are what can be had.
 *
 * A page is in flight from the batch of copies that reads or writes it (kv_host) until the batch is
 * over or work waits for it. Nobody computes on it meanwhile, and free ones are given last:
 *
 *     batches    [7][0][4][7]         batches up to 5 are over: page 3 is free, but in flight
 *     free_pages [3, 1 | …]           the first flying_count */
struct kv_pool {
    struct kernels *kernels;
    struct kv_layout layout;
    void *memory; /* [page_count][layout.page_bytes] */
    uint32_t page_count;
    uint32_t free_count;
    uint32_t flying_count; /* of those */
    uint32_t idle_count;
    uint32_t pinned_count;
    page_id *free_pages;
    uint32_t *references;
    uint64_t *batches;     /* of each page: the last batch of copies; 0 = none */
    uint64_t begun, ended; /* batches: the last one, and that up to which none is waited for */
    uint64_t waits;        /* for copies that were not over when their pages were wanted */
    uint8_t *marks;        /* of each page: held by the cache, pinned */
    struct engine_domain *domains; /* of the page's content, while it is held */
    void (*tell_idle)(void *context, page_id page, bool is_idle);
    void *tell_context;
    void *poison; /* [page_bytes] in builds with slow checks */
};

/* As many pages as `bytes` holds. LIMIT, with the sum, when that is less than one sequence of
 * `context` tokens needs, so that a sequence alone can always finish; NO_MEMORY. */
enum status kv_pool_init(struct kv_pool *pool, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes, uint32_t context);
void kv_pool_deinit(struct kv_pool *pool);

/* Pages that `tokens` tokens need; and those of them that can be kept when nobody computes them any
 * more: all, or where a page has no parts (kv_pool_has_parts) the full ones. */
uint32_t kv_pool_pages_for(const struct kv_pool *pool, uint32_t tokens);
uint32_t kv_pool_pages_kept(const struct kv_pool *pool, uint32_t tokens);

/* A page with one reference, for content of `domain`; KV_POOL_NONE when none is free. Work waits
 * for copies when none else is left. */
page_id kv_pool_acquire(struct kv_pool *pool, const struct engine_domain *domain);
/* One more reference to a page that is held. */
void kv_pool_retain(struct kv_pool *pool, page_id page);
/* The page is free when the last reference goes. */
void kv_pool_release(struct kv_pool *pool, page_id page);

/* Whether any first tokens of a page mean anything without the others, and so can be copied and
 * kept: not where keys are packed by groups. */
bool kv_pool_has_parts(const struct kv_pool *pool);
/* Of so many computed tokens, those that stand in pages alone, and so can be swapped: all, or where
 * keys are packed by groups those of full ones. */
uint32_t kv_pool_tokens_packed(const struct kv_pool *pool, uint32_t tokens);

/* A batch of copies has begun that reads or writes a held page (kv_host alone says so). */
void kv_pool_fly(struct kv_pool *pool, page_id page, uint64_t batch);
static inline bool kv_pool_is_flying(const struct kv_pool *pool, page_id page)
{
    return pool->batches[page] > pool->ended;
}
/* Whether one of these is in flight. */
bool kv_pool_are_flying(const struct kv_pool *pool, const page_id *pages, uint32_t count);
/* Looks which batches are over; waits for none. Once a step, and behind each batch. */
void kv_pool_land(struct kv_pool *pool);
/* Work asked from here on comes behind the copies of these pages. */
void kv_pool_wait(struct kv_pool *pool, const page_id *pages, uint32_t count);

/* The page's memory, which kernels alone touch; pages follow each other at layout.page_bytes. */
void *kv_pool_memory(const struct kv_pool *pool, page_id page);

/* Who is told, at once, when a page becomes idle and when it is idle no more because somebody
 * retained or pinned it. */
void kv_pool_set_idle(struct kv_pool *pool, void (*tell)(void *context, page_id page, bool is_idle),
                      void *context);
/* The cache becomes a holder of a page that is held, or ceases to be one. It is not told of what
 * becomes of idleness by an uncache: it knows. */
void kv_pool_cache(struct kv_pool *pool, page_id page);
void kv_pool_uncache(struct kv_pool *pool, page_id page);
bool kv_pool_is_cached(const struct kv_pool *pool, page_id page);
bool kv_pool_is_idle(const struct kv_pool *pool, page_id page);
/* A pin is one more reference, held for nobody in particular; pages of the cache only. */
void kv_pool_pin(struct kv_pool *pool, page_id page);
void kv_pool_unpin(struct kv_pool *pool, page_id page);
bool kv_pool_is_pinned(const struct kv_pool *pool, page_id page);

/* Asserts, in every build, that each page of a table is held, is not in flight, and its domain is
 * one of `visible`: the last gate between one tenant's keys and another's query. */
void kv_pool_assert_visible(const struct kv_pool *pool, const page_id *pages, uint32_t page_count,
                            const struct engine_domain *visible, uint32_t visible_count);

/* All invariants; `holders[page]` is how many references others than the cache and pins hold.
 * O(pages). */
bool kv_pool_check(const struct kv_pool *pool, const uint32_t *holders);
