/* kv_host: pages in host memory, each a whole copy of a KV page: pages evicted from the tree, and
 * pages of swapped-out sequences.
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

/* As in kv_pool, a page is free exactly when its count is 0. Holders are the tree (at most once a
 * page) and the lists of swapped-out sequences. */
struct kv_host {
    struct kernels *kernels;
    size_t page_bytes;
    void *memory; /* [page_count][page_bytes]; NULL without pages */
    uint32_t page_count;
    uint32_t free_count;
    host_page *free_pages; /* the first free_count entries are valid */
    uint32_t *references;
    struct engine_domain *domains; /* of the content, while it is held */
    uint64_t *batches;             /* of each page: its last batch of copies; 0 = none */
    void *poison;                  /* [page_bytes] in builds with slow checks */
};

/* Makes as many pages of `page_bytes` as `bytes` holds. With none, the host pool is always full.
 * NO_MEMORY, with the size wanted. */
enum status kv_host_init(struct kv_host *host, struct kernels *kernels, size_t page_bytes,
                         uint64_t bytes);
void kv_host_deinit(struct kv_host *host);

/* A page with one reference, for content of `domain` that is still to be copied into it;
 * KV_POOL_NONE when none is free. */
host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain);
/* Begin one batch of copies: pages from[i] of the pool to host pages to[i], or the other way. All
 * are held, and none is twice in `to`. Both assert, in every build, that from[i] and to[i] are of
 * the same domain. */
void kv_host_out(struct kv_host *host, struct kv_pool *pool, const page_id *from,
                 const host_page *to, uint32_t count);
void kv_host_in(struct kv_host *host, struct kv_pool *pool, const host_page *from,
                const page_id *to, uint32_t count);
/* Work submitted from here on runs after the copies of this page. */
void kv_host_wait(struct kv_host *host, host_page page);
/* The bytes of a held page, which only kernels touch. Asserts, in every build, that its
 * domain is `domain`. */
const void *kv_host_get(const struct kv_host *host, host_page page,
                        const struct engine_domain *domain);
/* Adds a reference to a page that is held. */
void kv_host_retain(struct kv_host *host, host_page page);
/* Gives a reference up. With the last one the page is free and its domain forgotten. */
void kv_host_release(struct kv_host *host, host_page page);

/* Whether all invariants hold. O(pages). */
bool kv_host_check(const struct kv_host *host);
