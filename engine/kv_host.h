/* kv_host: pages in host memory, each a whole copy of a KV page: what the tree has evicted, and
 * what paused sequences hold.
 *
 * Owns:     the page memory and the free list; the domain of each held page.
 * Thread:   engine thread only, therefore no locks; kv_host_init before it starts.
 * Cost:     a store is one memcpy of a page; no allocation after kv_host_init.
 * Not here: which page is evicted or dropped (prefix_cache), who is swapped (kv_swap), the device's
 *           pages (kv_pool).
 *
 * On the CPU this is separate memory with a budget of its own, so that every rule of the host tier
 * runs, and is tested, without a GPU.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/kv_pool.h"

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
};

/* As many pages of `page_bytes` as `bytes` holds; none is a host pool that is always full.
 * NO_MEMORY, with the sum. */
enum status kv_host_init(struct kv_host *host, struct kernels *kernels, size_t page_bytes,
                         uint64_t bytes);
void kv_host_deinit(struct kv_host *host);

/* A page with one reference, for content of `domain`, which is still to be copied there (kv_swap
 * does so in batches); KV_POOL_NONE when none is free. */
host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain);
/* The same with a copy of a page. */
host_page kv_host_store(struct kv_host *host, const void *page, const struct engine_domain *domain);
/* The bytes of a held page. Asserts, in every build, that its domain is `domain`. */
const void *kv_host_get(const struct kv_host *host, host_page page,
                        const struct engine_domain *domain);
/* One more reference to a page that is held. */
void kv_host_retain(struct kv_host *host, host_page page);
/* The page is free, and its domain forgotten, when the last reference goes. */
void kv_host_release(struct kv_host *host, host_page page);

/* All invariants. O(pages). */
bool kv_host_check(const struct kv_host *host);
