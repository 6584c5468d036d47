/* kv_swap: pages of preempted sequences that are swapped out: in host memory, or protected in the
 * pool.
 *
 * Owns:     a list for each slot of the table of sequences: the page table of a swapped-out
 *           sequence, with its references to pool pages and host pages.
 * Thread:   engine thread only, therefore no locks; kv_swap_init before it starts.
 * Cost:     out and in are one batch of copies (kv_host: on a device they overlap with computing);
 *           no allocation after kv_swap_init. give_way, protected and check are O(slots × pages of
 *           a context).
 * Not here: which sequence is preempted and when (scheduler, step), page memory (kv_pool, kv_host),
 *           what else is in host memory (prefix_cache).
 *
 *     running   table [p0 shared][p1 cached, its own][p2 cached, its own][p3 open]
 *     out       list  [p0       ][h7                ][h2                ][h5     ]   p1 p2 p3 free
 *     in        table [p0       ][p9                ][p4                ][p1     ]
 *
 * Shared pages stay in the pool, since others read them. While only swapped-out sequences hold a
 * page, it is *protected*: taken last (kv_swap_give_way). A page has one copy: a private page that
 * the tree holds too moves to the host tier for both, and is still found there; when it is brought
 * back, it is back for all its holders. Its bits never change.
 *
 * A sequence resumes with the window units of the pages inside its window: a page that is copied
 * takes those along, and for a shared page the list needs them as the running sequence did.
 *
 * No call waits for room. When host memory is full, idle pages of the tree make room; then whole
 * lists of other sequences are dropped, those with the least priority first, and their sequences
 * are recomputed from their tokens. kv_swap_give_way may also cut the end of a list: its sequence
 * resumes from what is left. Where the layout has window units, it drops the list instead, because
 * the window behind the new end is gone.
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
    const struct clock *clock; /* with a manual clock no rate is learnt, and pages cost nothing */
    uint32_t places;           /* slots of the table of sequences */
    uint32_t context;          /* tokens of the longest sequence */
    uint32_t exchange_pages;   /* host units that merely cached pages never fill (1/8 at most) */
};

/* Owner of a list; decides which list is dropped first: that of the lowest class, then of the
 * tenant with the most swapped pages for its weight, then with the fewest computed tokens. */
struct kv_swap_owner {
    struct engine_domain tenant; /* as for fairness; zero: each such list is a tenant of its own */
    uint32_t weight;             /* ≥ 1 */
    enum service_class service_class;
    uint32_t computed; /* tokens whose keys and values are in the pages */
};

/* An entry of a list is a pool page, or a host page with this bit set. */
#define KV_SWAP_HOST 0x80000000u

struct kv_swap_list {
    uint32_t *pages;      /* [page_count] of the sequence, in order */
    uint32_t page_count;  /* 0 = nothing is held */
    uint32_t host_count;  /* of these, in host memory */
    uint32_t host_units;  /* of these host pages: units of the pool that a swap in needs */
    uint32_t window_page; /* the window of its sequence begins with this page */
    struct kv_swap_owner owner;
    bool is_kept;   /* is swapped in in this step */
    bool is_marked; /* scratch of a call */
};

struct kv_swap_figures {
    uint64_t pages_out, pages_in; /* copied */
    uint64_t units_out, units_in; /* the same; times page_bytes = bytes */
    int64_t out_us, in_us;        /* copies that overlap with computing: by the measured rate */
    uint64_t refused;             /* calls of kv_swap_out that found no room */
    uint64_t fallen;              /* lists dropped to make room for others */
    uint64_t protected_to_host;   /* pages that kv_swap_give_way moved to host memory */
    uint64_t protected_dropped;   /* pages for which it cut or dropped lists */
};

struct kv_swap {
    struct kv_swap_options options;
    struct prefix_cache *cache;
    struct kv_swap_list *lists; /* [places] */
    uint32_t *entries;          /* [places][pages of a context] */
    uint32_t *from, *to;        /* [units of the larger pool] of one batch */
    uint32_t *counts;           /* [the same] scratch, as needs */
    uint32_t *needs;
    double out_us, in_us; /* time to copy a unit, measured at start and by waiting calls */
    bool is_too_small_said;
    struct kv_swap_figures figures;
};

/* NO_MEMORY, UNAVAILABLE as kernels_pages_end. Call it after prefix_cache_init; the cache tells it
 * of pages that come back. */
enum status kv_swap_init(struct kv_swap *swap, const struct kv_swap_options *options);
/* Gives all references back. Call it before prefix_cache_deinit. */
void kv_swap_deinit(struct kv_swap *swap);

/* Pages that kv_swap_out would copy for a sequence with `computed` tokens in its pages: those that
 * only the caller and perhaps the tree hold; and their units. */
uint32_t kv_swap_private(const struct kv_swap *swap, const page_id *pages, uint32_t page_count,
                         uint32_t computed, uint32_t *units);

/* Swaps out: the page table of slot `place`, whose list is empty, becomes its list; its private
 * pages are copied and free, and *page_count is 0. False, without any change, when host memory has
 * no room for its private pages, even without the tree's idle pages and the lists of less priority:
 * the sequence is to be recomputed. */
bool kv_swap_out(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count,
                 const struct kv_swap_owner *owner);
/* Whether the sequence is swapped in in this step: until kv_swap_in its list is neither dropped nor
 * cut to make room for others. */
void kv_swap_keep(struct kv_swap *swap, uint32_t place, bool is_kept);
/* Swaps in: the list becomes the page table, with `host_units` fresh units. Tokens beyond these
 * pages are to be recomputed. False, without any change, when too few units are available. */
bool kv_swap_in(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count);
/* The request belongs to another class from now on, and its list is dropped as one
 * of that class. */
void kv_swap_lower(struct kv_swap *swap, uint32_t place, enum service_class service_class);
/* Drops a list: its sequence has ended, or is to be recomputed. An empty list is left as it is. */
void kv_swap_drop(struct kv_swap *swap, uint32_t place);

static inline const struct kv_swap_list *kv_swap_list(const struct kv_swap *swap, uint32_t place)
{
    return &swap->lists[place];
}

/* Pool pages that only lists and perhaps the tree hold, and window units that only lists need: the
 * units that kv_swap_give_way could free. */
uint32_t kv_swap_protected(const struct kv_swap *swap);
/* Makes up to `units` of them available, from the lists of least priority first, the last page of a
 * list first. A page moves to host memory if there is room without dropping a list; otherwise the
 * lists that hold it are cut there, or dropped. Returns how many units more are available. */
uint32_t kv_swap_give_way(struct kv_swap *swap, uint32_t units);

/* Predicted microseconds to swap `units` units out and in, from measured rates. step_pause compares
 * them with the time to recompute the tokens. */
int64_t kv_swap_cost_us(const struct kv_swap *swap, uint32_t units);

/* Adds the lists' references to pool pages to holders[page], and to needs[page] those that need the
 * page's window (NULL: not counted), for kv_pool_check. */
void kv_swap_count_holders(const struct kv_swap *swap, uint32_t *holders, uint32_t *needs);
/* Whether all invariants of lists and host pool hold: each host page is held by the tree and by
 * lists as often as its count says. */
bool kv_swap_check(const struct kv_swap *swap);
