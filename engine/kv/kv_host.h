/* kv_host: pages in host memory, each a whole copy of a KV page: what the tree has evicted, and
 * what paused sequences hold.
 *
 * Owns:     the page memory and the free list; the domain of each held page; the copies between it
 *           and the pool, both ways.
 * Thread:   engine thread only, therefore no locks; kv_host_init before it starts.
 * Cost:     a copy is a part of one batch of kernels_pages_copy; no allocation after kv_host_init.
 * Not here: which page is evicted or dropped (prefix_cache), who is swapped (kv_swap), the device's
 *           pages (kv_pool).
 *
 * On the CPU this is separate memory with a budget of its own, so that every rule of the host tier
 * runs, and is tested, without a GPU. On a device it is pinned, and copies go on beside the work:
 *
 *  - Batches follow each other. So a host page may be given away while a batch reads or writes it:
 *    the next one that touches it comes behind. Who touches it otherwise waits (kv_host_wait).
 *  - A page of the pool is in flight meanwhile (kv_pool): it is free as soon as the copy out of it
 *    has begun, but given to nobody before that is over, unless work waits for it.
 *  - Who brings pages back holds them at once; it has rows when they have arrived (step_plan).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/kv/kv_pool.h"

typedef uint32_t host_page;

/* As in kv_pool: a page is free exactly when its count is 0. Holders are the tree (at most once a
 * page) and the lists of paused sequences. */
struct kv_host {
    struct kernels *kernels;
    size_t page_bytes;
    void *memory; /* [page_count][page_bytes]; NULL without pages */
    uint32_t page_count;
    uint32_t free_count;
    host_page *free_pages; /* the first free_count entries count */
    uint32_t *references;
    struct engine_domain *domains; /* of the content, while it is held */
    uint64_t *batches;             /* of each page: the last batch of copies; 0 = none */
    void *poison;                  /* [page_bytes] in builds with slow checks */
};

/* As many pages of `page_bytes` as `bytes` holds; none is a host pool that is always full.
 * NO_MEMORY, with the sum. */
enum status kv_host_init(struct kv_host *host, struct kernels *kernels, size_t page_bytes,
                         uint64_t bytes);
void kv_host_deinit(struct kv_host *host);

/* A page with one reference, for content of `domain`, which is still to be copied there;
 * KV_POOL_NONE when none is free. */
host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain);
/* One batch: pages from[i] of the pool to host pages to[i], or the other way; all are held, none
 * stands twice in `to`. Asserts, in every build, that each two are of the same domain. */
void kv_host_out(struct kv_host *host, struct kv_pool *pool, const page_id *from,
                 const host_page *to, uint32_t count);
void kv_host_in(struct kv_host *host, struct kv_pool *pool, const host_page *from,
                const page_id *to, uint32_t count);
/* Work asked from here on comes behind the copies of this page. */
void kv_host_wait(struct kv_host *host, host_page page);
/* The bytes of a held page, which kernels alone touch. Asserts, in every build, that its domain is
 * `domain`. */
const void *kv_host_get(const struct kv_host *host, host_page page,
                        const struct engine_domain *domain);
/* One more reference to a page that is held. */
void kv_host_retain(struct kv_host *host, host_page page);
/* The page is free, and its domain forgotten, when the last reference goes. */
void kv_host_release(struct kv_host *host, host_page page);

/* All invariants. O(pages). */
bool kv_host_check(const struct kv_host *host);
