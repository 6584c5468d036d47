/* kv_swap: pages of paused sequences, in host memory or protected in the pool.
 *
 * Owns:     a list for each place of the table of sequences: the page table of one that is paused,
 *           with its references, of pool pages and of host pages.
 * Thread:   engine thread only, therefore no locks; kv_swap_init before it starts.
 * Cost:     out and in are one batch of copies (kv_host: on a device beside the work); no
 *           allocation after kv_swap_init. give_way, protected and check are O(places × pages of a
 *           context).
 * Not here: who is paused and when (scheduler, step), page memory (kv_pool, kv_host), what else is
 *           in host memory (prefix_cache).
 *
 *     running   table [p0 shared][p1 cached, its own][p2 cached, its own][p3 open]
 *     out       list  [p0       ][h7                ][h2                ][h5     ]   p1 p2 p3 free
 *     in        table [p0       ][p9                ][p4                ][p1     ]
 *
 * Shared pages stay: others read them, and while only paused sequences do they are *protected*:
 * taken last (kv_swap_give_way). A page has one copy: a private page that the tree holds too moves
 * there to the host tier with it, where it is still found; whoever brings it back brings it back
 * for all. Bits never change.
 *
 * Nothing here waits. When host memory is full, idle pages of the tree make room; then whole lists
 * of others *fall*, the least deserving first: their sequences are computed again from their
 * tokens. A list may also be cut by kv_swap_give_way: the sequence goes on from what is left.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/service_class.h"
#include "engine/kv/prefix_cache.h"

struct kv_swap_options {
    struct prefix_cache *cache; /* with pool and host pool; outlives the swap */
    struct kernels *kernels;
    const struct clock *clock; /* a manual one teaches no rates: pages cost nothing then */
    uint32_t places;           /* of the table of sequences */
    uint32_t context;          /* tokens of the longest text */
    uint32_t exchange_pages;   /* of the host pool, kept from what is only cached (1/8 at most) */
};

/* Whose a list is: decides who falls. Lower classes first, then of the tenant with most swapped
 * pages for its weight, then the least computed. */
struct kv_swap_owner {
    struct engine_domain tenant; /* of fairness; zero: each such list is a tenant of its own */
    uint32_t weight;             /* ≥ 1 */
    enum service_class service_class;
    uint32_t computed; /* tokens whose K and V stand in the pages */
};

/* An entry is a pool page, or a host page with this bit. */
#define KV_SWAP_HOST 0x80000000u

struct kv_swap_list {
    uint32_t *pages;     /* [page_count] of the text, in order */
    uint32_t page_count; /* 0: nothing is held */
    uint32_t host_count; /* of them, in host memory: so many device pages are needed to come back */
    struct kv_swap_owner owner;
    bool is_kept;   /* comes back in this step */
    bool is_marked; /* within a call */
};

struct kv_swap_figures {
    uint64_t pages_out, pages_in; /* copied; × page_bytes are the bytes */
    int64_t out_us, in_us;        /* what is beside the work by the measured rate */
    uint64_t refused;             /* kv_swap_out found no room */
    uint64_t fallen;              /* lists that lost everything to make room for others */
    uint64_t protected_to_host;   /* pages taken by kv_swap_give_way */
    uint64_t protected_dropped;
};

struct kv_swap {
    struct kv_swap_options options;
    struct prefix_cache *cache;
    struct kv_swap_list *lists; /* [places] */
    uint32_t *entries;          /* [places][pages of a context] */
    uint32_t *from, *to;        /* [pages of pool or host pool] of one batch */
    uint32_t *counts;           /* [the same] scratch */
    double out_us, in_us;       /* of a page: measured at the start, and lately if calls wait */
    bool is_too_small_said;
    struct kv_swap_figures figures;
};

/* NO_MEMORY, UNAVAILABLE as kernels_step_end. After prefix_cache_init; the cache tells this swap of
 * pages that come back. */
enum status kv_swap_init(struct kv_swap *swap, const struct kv_swap_options *options);
/* Gives all references back; before prefix_cache_deinit. */
void kv_swap_deinit(struct kv_swap *swap);

/* What kv_swap_out would copy: pages that nobody else but the tree holds, which are free then. */
uint32_t kv_swap_private(const struct kv_swap *swap, const page_id *pages, uint32_t page_count);

/* The page table of place `place`, whose list is empty, becomes its list; *page_count is 0 then.
 * False, and nothing has changed, when there is no host memory for its private pages, even were the
 * tree's idle pages and the lists that deserve it less to go: it is to be computed again. */
bool kv_swap_out(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count,
                 const struct kv_swap_owner *owner);
/* Whether the sequence comes back in this step: then it does not fall, nor is it cut, to make room
 * for others before kv_swap_in, which ends it. */
void kv_swap_keep(struct kv_swap *swap, uint32_t place, bool is_kept);
/* The list becomes the page table, `host_count` pages of it fresh ones; tokens beyond
 * those pages are to be computed again. False, and nothing has changed, when not so many are
 * free or idle. */
bool kv_swap_in(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count);
/* Its request runs in another class from now on: it falls with that one's. */
void kv_swap_lower(struct kv_swap *swap, uint32_t place, enum service_class service_class);
/* The sequence ends, or is to be computed again. Nothing happens when nothing is held. */
void kv_swap_drop(struct kv_swap *swap, uint32_t place);

static inline const struct kv_swap_list *kv_swap_list(const struct kv_swap *swap, uint32_t place)
{
    return &swap->lists[place];
}

/* Pool pages that only lists and the tree hold: what kv_swap_give_way could free. */
uint32_t kv_swap_protected(const struct kv_swap *swap);
/* Makes `pages` of them available (free, or the tree's alone), or all, of the least deserving lists
 * first, the last page of a list first: to host memory while there is room without anybody falling,
 * else the lists that hold it are cut there. How many are more available than before. */
uint32_t kv_swap_give_way(struct kv_swap *swap, uint32_t pages);

/* Predicted µs of both ways for so many pages, from measured rates; against step_cost's time of
 * computing them again. */
int64_t kv_swap_cost_us(const struct kv_swap *swap, uint32_t pages);

/* Adds the lists' references of pool pages to holders[page], for kv_pool_check. */
void kv_swap_count_holders(const struct kv_swap *swap, uint32_t *holders);
/* All invariants of lists and host pool: each host page's references are the tree's and the
 * lists'. */
bool kv_swap_check(const struct kv_swap *swap);
