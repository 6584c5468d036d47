/* kv_host: pages in host memory, each a copy of a KV page, with or without its window units: pages
 * evicted from the tree, and pages of swapped-out sequences.
 *
 * Owns:     the page memory and the free list; the domain of each held page; the copies between it
 *           and the pool, both ways.
 * Thread:   engine thread only, therefore no locks; kv_host_init before it starts.
 * Cost:     a copy is a part of one batch of kernels_pages_copy; no allocation after kv_host_init.
 * Not here: which page is evicted or dropped (prefix_cache), which sequence is swapped (kv_swap),
 *           the pages of the pool (kv_pool).
 *
 * On the CPU this is separate memory with its own budget, so that every rule of the host tier runs,
 * and is tested, without a GPU. On a device it is pinned memory, and copies overlap with computing:
 *
 *  - Batches of copies run one after the other. So a host page may be released while a batch reads
 *    or writes it: the next batch that touches it comes later. Any other reader calls kv_host_wait.
 *  - A page of the pool is in flight during its copy (kv_pool). It is free as soon as the copy out
 *    of it has begun, but it is not acquired before the copy is over, unless work waits for it.
 *  - A sequence that swaps pages in holds them at once. It gets rows when they have arrived
 *    (step_plan).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/kv/kv_pool.h"

typedef uint32_t host_page;

/* Pages and their window units are units of the same size, as in kv_pool: the count of a unit is 0
 * when it is free or a window unit. Holders of a page are the tree (at most once a page) and the
 * lists of swapped-out sequences. */
struct kv_host {
    struct kernels *kernels;
    size_t page_bytes;
    void *memory; /* [unit_count][page_bytes]; NULL without units */
    uint32_t unit_count;
    uint32_t free_count;
    uint32_t *free_units; /* the first free_count entries are valid */
    uint32_t *references;
    struct engine_domain *domains; /* of the content, while it is held */
    uint64_t *batches;             /* of each page: its last batch of copies; 0 = none */
    uint32_t window_units;         /* as in kv_layout */
    uint32_t *windows;             /* [unit_count][window_units], as in kv_pool; or NULL */
    uint32_t *from, *to;           /* [unit_count] of a batch with window units; or NULL */
    void *poison;                  /* [page_bytes] in builds with slow checks */
};

/* Makes as many units of the layout as `bytes` holds. With none, the host pool is always full.
 * NO_MEMORY, with the size wanted. */
enum status kv_host_init(struct kv_host *host, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes);
void kv_host_deinit(struct kv_host *host);

/* A page with one reference, for content of `domain` that is still to be copied into it;
 * KV_POOL_NONE when none is free. */
host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain);
/* Gives a held page window units, which are still to be copied. As many units must be free. */
void kv_host_add_window(struct kv_host *host, host_page page);
/* Whether a page has window units; true where the layout has none, as kv_pool_has_window. */
static inline bool kv_host_has_window(const struct kv_host *host, host_page page)
{
    return host->windows == NULL ||
           host->windows[(size_t)page * host->window_units] != KV_POOL_NONE;
}
/* Units of a page: 1, or with its window units more. */
static inline uint32_t kv_host_page_units(const struct kv_host *host, host_page page)
{
    return 1 + (kv_host_has_window(host, page) ? host->window_units : 0);
}
/* Place of a page's unit of group `group`, as kv_pool_unit. */
static inline uint32_t kv_host_unit(const struct kv_host *host, host_page page, uint32_t group)
{
    return group == 0 ? page : host->windows[(size_t)page * host->window_units + group - 1];
}
/* Begin one batch of copies: pages from[i] of the pool to host pages to[i], or the other way, with
 * their window units if the host page has some: then the page of the pool has them too. All are
 * held, and none is twice in `to`. Return the units copied. Both assert, in every build, that
 * from[i] and to[i] are of the same domain. */
uint32_t kv_host_out(struct kv_host *host, struct kv_pool *pool, const page_id *from,
                     const host_page *to, uint32_t count);
uint32_t kv_host_in(struct kv_host *host, struct kv_pool *pool, const host_page *from,
                    const page_id *to, uint32_t count);
/* Work submitted from here on runs after the copies of this page. */
void kv_host_wait(struct kv_host *host, host_page page);
/* The bytes of a held page's unit of group `group`, which only kernels touch. Asserts, in every
 * build, that the page's domain is `domain`. */
const void *kv_host_get(const struct kv_host *host, host_page page, uint32_t group,
                        const struct engine_domain *domain);
/* Adds a reference to a page that is held. */
void kv_host_retain(struct kv_host *host, host_page page);
/* Gives a reference up. With the last one the page is free and its domain forgotten. */
void kv_host_release(struct kv_host *host, host_page page);

/* Whether all invariants hold. O(pages). */
bool kv_host_check(const struct kv_host *host);
