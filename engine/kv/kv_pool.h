/* kv_pool: a fixed number of units of KV memory: pages with reference counts and domains, and their
 * window units.
 *
 * Owns:     the memory and the free list; nothing else frees a unit.
 * Thread:   engine thread only, therefore no locks; kv_pool_init before it starts.
 * Cost:     acquire, retain and release are O(1), O(window units) for a page that has some; no
 *           allocation after kv_pool_init.
 * Not here: which page to give up (prefix_cache, scheduler), what lies inside a page (kernels).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/request/engine_request.h"
#include "kernels/kernels.h"

typedef uint32_t page_id;

enum { KV_POOL_NONE = UINT32_MAX };

/* A page is one unit, its identity. Its count is 0 exactly when it is free; then, and only then, it
 * is in `free_units`:
 *
 *     references  [2][0][1][0]        pages 1 and 3 are free
 *     free_units  [1, 3 | …]          the first free_count entries are valid
 *
 * Holders are sequences, swap lists, the cache (at most once a page) and a pin. A page that the
 * cache alone holds is idle: it may be evicted, so free units and idle pages together are
 * available.
 *
 * Where the layout has window units, a page inside the window of a sequence has
 * layout.window_units more units, all of them or none. Their count is 0 too, and they belong to
 * their page alone:
 *
 *     references  [1][0][0][2][0][0]  page 0 has the units 1 and 2, page 3 has no window units any
 *     windows [0] [1, 2]              more, and the units 4 and 5 are free
 *
 * `needs` counts the holders that have the page inside their window. When nobody needs the window
 * units of a page, they are spare, and count as available: those of a *tail* (where a text ended
 * that may be continued) are given up last, those of other pages first. A page that the cache does
 * not hold gives them up at once, because nobody can find it again. A pinned tail keeps them.
 *
 * A unit is in flight from the beginning of a batch of copies that reads or writes it (kv_host)
 * until the batch is over, or until work waits for it. No row computes on it meanwhile, and free
 * units in flight are acquired last:
 *
 *     batches    [7][0][4][7]         batches up to 5 are over: units 0 and 3 are in flight
 *     free_units [3, 1 | …]           of the free ones, the first flying_count are in flight */
enum kv_spare { KV_SPARE_NONE, KV_SPARE_MIDDLE, KV_SPARE_TAIL, KV_SPARES };

struct kv_pool {
    struct kernels *kernels;
    struct kv_layout layout;
    void *memory; /* [unit_count][layout.page_bytes] */
    uint32_t unit_count;
    uint32_t free_count;
    uint32_t flying_count; /* free units in flight: the first of free_units */
    uint32_t idle_count;   /* pages */
    uint32_t pinned_count; /* pages */
    uint32_t *free_units;
    uint32_t *references;
    uint64_t *batches;     /* of each unit: its last batch of copies; 0 = none */
    uint64_t begun, ended; /* the last batch begun, and the last one that is known to be over */
    uint64_t waits;        /* for copies that were not over when their units were needed */
    uint8_t *marks;        /* of each page: held by the cache, pinned, a tail */
    struct engine_domain *domains; /* of the page's content, while it is held */
    /* Window units; NULL where the layout has none. */
    uint32_t *windows;     /* [unit_count][layout.window_units]; KV_POOL_NONE: the page has none */
    uint32_t *needs;       /* [unit_count] */
    uint32_t window_count; /* pages that have window units */
    uint32_t kept_count;   /* of these, tails that are pinned */
    struct kv_pool_link {
        enum kv_spare list; /* that the page is in */
        page_id before, after;
    } * links; /* [unit_count] */
    struct kv_pool_list {
        page_id first, last; /* the one that became spare first, and last */
        uint32_t count;
    } spares[KV_SPARES]; /* pages whose window units are spare */
    struct kv_pool_tell {
        void (*idle)(void *context, page_id page, bool is_idle);
        void (*window)(void *context, page_id page);
        void *context;
    } tell;       /* kv_pool_set_tell */
    void *poison; /* [page_bytes] in builds with slow checks */
};

/* Makes as many units as `bytes` holds. LIMIT, with the sizes, when that is less than one sequence
 * of `context` tokens needs (kv_pool_units_least), so that a sequence alone can always finish;
 * NO_MEMORY. */
enum status kv_pool_init(struct kv_pool *pool, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes, uint32_t context);
void kv_pool_deinit(struct kv_pool *pool);

/* Pages that `tokens` tokens need; and the number of those that can be kept when their sequence has
 * ended: all, or only the full ones where the pool has no partial pages (kv_pool_has_parts). */
uint32_t kv_pool_pages_for(const struct kv_pool *pool, uint32_t tokens);
uint32_t kv_pool_pages_kept(const struct kv_pool *pool, uint32_t tokens);

/* Units of a page that has its window units. */
static inline uint32_t kv_pool_page_units(const struct kv_pool *pool)
{
    return 1 + pool->layout.window_units;
}
/* First page that attention of a row at `position` touches in layers with a window; 0 where the
 * layout has no window units. */
static inline uint32_t kv_pool_window_page(const struct kv_pool *pool, uint32_t position)
{
    return kernels_window_first(pool->layout.window, position) / pool->layout.page_tokens;
}
/* The most pages between that page and the row's own, so the most pages with window units that a
 * sequence needs before it grows. */
uint32_t kv_pool_window_pages(const struct kv_pool *pool);
/* Units that a text of `tokens` tokens needs while it is computed in chunks of one page at most. */
uint32_t kv_pool_units_least(const struct kv_pool *pool, uint32_t tokens);
/* Units that stay when its sequence has ended and the window behind its end is kept. */
uint32_t kv_pool_units_kept(const struct kv_pool *pool, uint32_t tokens);
/* Units that are free or that can be had by giving up idle pages and spare window units. O(1). */
uint32_t kv_pool_available(const struct kv_pool *pool);
/* Units that pins keep. */
uint32_t kv_pool_units_pinned(const struct kv_pool *pool);

/* A page with one reference, without window units, for content of `domain`; KV_POOL_NONE when no
 * unit is free. When all free units are in flight, work waits for a copy. */
page_id kv_pool_acquire(struct kv_pool *pool, const struct engine_domain *domain);
/* Adds a reference to a page that is held. */
void kv_pool_retain(struct kv_pool *pool, page_id page);
/* Gives a reference up; with the last one the page is free. Nobody may need its window then. */
void kv_pool_release(struct kv_pool *pool, page_id page);

/* --- window units; where the layout has none, no call changes anything --- */

/* Whether a page has them; true where the layout has none, because nothing is missing then. */
static inline bool kv_pool_has_window(const struct kv_pool *pool, page_id page)
{
    return pool->windows == NULL ||
           pool->windows[(size_t)page * pool->layout.window_units] != KV_POOL_NONE;
}
/* Those that a page has: layout.window_units or 0. */
static inline uint32_t kv_pool_window_units(const struct kv_pool *pool, page_id page)
{
    return pool->windows != NULL && kv_pool_has_window(pool, page) ? pool->layout.window_units : 0;
}
/* Place of a page's unit of group `group`: of the page itself, or of a window unit that it has. */
static inline uint32_t kv_pool_unit(const struct kv_pool *pool, page_id page, uint32_t group)
{
    return group == 0 ? page : pool->windows[(size_t)page * pool->layout.window_units + group - 1];
}
/* Gives a held page fresh window units, which the caller needs. As many units must be free. */
void kv_pool_add_window(struct kv_pool *pool, page_id page);
/* A holder of a page needs its window units, which it must have, or needs them no more. */
void kv_pool_need_window(struct kv_pool *pool, page_id page);
void kv_pool_unneed_window(struct kv_pool *pool, page_id page);
/* How many holders need them. */
static inline uint32_t kv_pool_needs(const struct kv_pool *pool, page_id page)
{
    return pool->needs != NULL ? pool->needs[page] : 0;
}
/* A sequence that holds `from`, and perhaps needs its window, takes `to` in its place, which has
 * the same content: `to` takes over the window units if it has none, and the need. */
void kv_pool_move_window(struct kv_pool *pool, page_id from, page_id to);
/* The page is a tail until it is free: its window units are given up last. */
void kv_pool_keep_tail(struct kv_pool *pool, page_id page);
bool kv_pool_is_tail(const struct kv_pool *pool, page_id page);
/* Whether its window units are spare. */
static inline bool kv_pool_is_spare(const struct kv_pool *pool, page_id page)
{
    return pool->links != NULL && pool->links[page].list != KV_SPARE_NONE;
}
/* Gives up the window units that have been spare for longest; false when the list is empty. */
bool kv_pool_drop_spare(struct kv_pool *pool, enum kv_spare list);
/* Asserts, in every build, that pages [begin, end) of a table have window units that are needed. */
void kv_pool_assert_window(const struct kv_pool *pool, const page_id *pages, uint32_t begin,
                           uint32_t end);

/* Whether the first tokens of a page have a meaning without the others, so that a partial page can
 * be copied and kept. Not where keys are packed by groups. */
bool kv_pool_has_parts(const struct kv_pool *pool);
/* Of `tokens` computed tokens, those that are in pages alone and so can be swapped out: all, or
 * where keys are packed by groups, those of full groups. */
uint32_t kv_pool_tokens_packed(const struct kv_pool *pool, uint32_t tokens);

/* A batch of copies has begun that reads or writes a unit of a held page. Only kv_host calls this.
 * A batch with window units has their page too. */
void kv_pool_fly(struct kv_pool *pool, uint32_t unit, uint64_t batch);
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

/* The memory of a page or of a window unit, which only kernels touch; units follow each other at
 * layout.page_bytes. */
void *kv_pool_memory(const struct kv_pool *pool, uint32_t unit);

/* Sets the functions that are called, at once: `idle` when a page becomes idle, and when it stops
 * being idle because it was retained or pinned; `window` when a page that the cache holds got its
 * window units or gave them up. NULL: none is called any more. */
void kv_pool_set_tell(struct kv_pool *pool, const struct kv_pool_tell *tell);
/* The cache becomes a holder of a held page, or stops being one. An uncache calls no function of
 * kv_pool_set_tell: the cache knows. */
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
 * and pins hold, and needs[page] of these need its window (NULL: not compared). O(units). */
bool kv_pool_check(const struct kv_pool *pool, const uint32_t *holders, const uint32_t *needs);
