/* prefix_cache: what was computed once and can be used again: trees of pages, host tier and pins.
 *
 * Owns:     the radix tree, the host pool (also when the cache is off: kv_swap uses it too), one
 *           reference to a pool page for each page in the tree and one more for each pinned page.
 * Thread:   engine thread only.
 * Cost:     no allocation after prefix_cache_init; each call O(pages of its tokens × domains that
 *           it sees), except drop_domain (pages of the domain) and check.
 * Not here: page memory and counts (kv_pool, kv_host), order of eviction (radix_evict), admission
 *           and waiting for another's prefix (step, scheduler).
 *
 *     sequence ──take──► [p0][p1][p2]  shared, read only     [p3] its own: a copied partial page
 *     sequence ──insert─► the tree holds p3 too, once it is full: it is never written again
 *     held by the tree alone: idle ──make_room──► host page ──take──► pool page again, or dropped
 *
 * Where layers have two kinds, only pages inside somebody's window are sure to have their window
 * units (kv_pool). A text is found only as far as the pages of the window behind its end have them:
 * nobody can compute the missing ones alone, since layers read each other's results. So the window
 * behind the ends of texts is kept as a *tail*, together with its pages, and other pages give
 * theirs up first.
 *
 * The cache belongs to one process with one model. A reload of the weights is a new process with an
 * empty cache, so no page outlives the weights that it was computed with.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "engine/kv/kv_host.h"
#include "engine/kv/kv_pool.h"
#include "radix/radix_tree.h"

enum { PREFIX_BATCH = 64 };

struct prefix_cache_options {
    struct kernels *kernels;
    struct kv_pool *pool; /* its pages are what the cache holds; outlives the cache */
    uint64_t host_bytes;  /* of the host tier; 0 = evicted pages are dropped */
    uint32_t context;     /* tokens of the longest sequence */
    uint32_t pin_percent; /* largest share of the pool to pin; one full context stays beside it */
    uint64_t seed;        /* secret: keys the tree's hashes */
    uint32_t ghosts_max;  /* tree nodes without a page of their own; 0 = by the pool's memory */
    uint32_t exchange;    /* units kept free, so that a step need not wait for copies to the host */
    bool is_off;          /* finds nothing, keeps nothing */
};

/* Which tree is written and which are read, in the order of matching; `domain` is read last when it
 * is not in `visible`. A request with a zero `domain` does not use the cache. What is visible was
 * decided when the request was admitted by the gateway. */
struct prefix_view {
    const struct engine_domain *domain; /* where its pages go */
    uint32_t weight;                    /* of `domain` among domains, ≥ 1 */
    const struct engine_domain *visible;
    uint32_t visible_count;  /* ≤ LIMIT_DOMAINS_VISIBLE */
    uint32_t visible_public; /* of `visible` this many come first and are published prompts, */
    uint32_t visible_group;  /* then this many are the group's; the others are its own */
};

struct prefix_match {
    uint32_t tokens;      /* found: in full pages, and rest_tokens */
    uint32_t pages;       /* full ones */
    uint32_t rest_tokens; /* in a partial page */
    uint32_t host_pages;  /* of `pages`, in the host tier: each needs a free or idle page */
    uint32_t device_idle; /* of `pages`, idle now: they stop being available when taken */
    uint32_t cost;        /* units of the available ones that taking all of this uses */
    uint32_t window_lost; /* tokens beyond `tokens` that are there, but without their window */
    uint32_t tokens_public, tokens_group, tokens_own; /* their sum is `tokens` */
    uint32_t tokens_host;                             /* of `tokens`, in the host tier */
    uint32_t tokens_by[LIMIT_DOMAINS_VISIBLE + 1];    /* in order of `visible`, then `domain` */
};

struct prefix_published { /* a domain with pinned pages */
    struct engine_domain domain;
    uint32_t pages;
    uint64_t hits; /* requests that found at least one token there */
    uint64_t hit_tokens;
};

/* All pages are counted in units. Idle are pages that the cache alone holds, and spare windows. */
struct prefix_figures {
    uint32_t pages_free, pages_idle, pages_pinned, pages_host;
    uint32_t pages_active;  /* all other units of the pool */
    uint32_t pages_windows; /* of all units of the pool, window units */
    uint32_t pin_units_max;
    uint64_t query_tokens, hit_tokens; /* as counted by prefix_cache_count */
    uint64_t window_lost_tokens;       /* as window_lost, likewise */
    uint64_t windows_dropped;          /* pages of the tree that gave up their window units */
    uint64_t evicted_to_host, evicted_dropped, host_dropped, returned_pages; /* pages */
};

struct prefix_cache {
    struct prefix_cache_options options;
    struct kv_pool *pool;
    struct kv_host host;
    struct radix_tree *tree;            /* NULL = the cache is off */
    radix_node *page_node;              /* [pages of the pool]; RADIX_NONE = not in the tree */
    radix_node *host_node;              /* [pages of the host pool] */
    radix_node *nodes;                  /* [pages of a context] of the current lookup */
    struct prefix_published *published; /* [published_count], room for LIMIT_PROMPTS */
    uint32_t published_count;
    uint32_t pin_units_max;
    uint32_t host_reserve; /* host units that only kv_swap may take */
    struct {               /* evicted pages, to be copied in one batch */
        uint32_t count;
        uint32_t units; /* that are free then */
        page_id from[PREFIX_BATCH];
        host_page to[PREFIX_BATCH];
    } evicted;
    struct { /* pages that come back in one batch: the tree has them in host memory until then */
        uint32_t count;
        host_page from[PREFIX_BATCH];
        page_id to[PREFIX_BATCH];
        uint32_t index[PREFIX_BATCH]; /* of the page in its sequence */
        uint32_t window_page; /* pages from this index on are needed with their window units */
    } returned;
    void (*moved)(void *context, uint32_t index, host_page from, page_id to);
    void *moved_context;
    struct prefix_figures figures; /* only the counters are kept here */
    uint64_t version;
};

/* NO_MEMORY. Call it after kv_pool_init; it sets the pool's functions (kv_pool_set_tell). */
enum status prefix_cache_init(struct prefix_cache *cache,
                              const struct prefix_cache_options *options);
/* Call it before kv_pool_deinit. */
void prefix_cache_deinit(struct prefix_cache *cache);

/* What a sequence of `count` tokens would find: at most count - 1 of them, since one must be
 * computed. Changes nothing, not even the recency of pages. */
void prefix_cache_find(struct prefix_cache *cache, const struct prefix_view *view,
                       const uint32_t *tokens, uint32_t count, struct prefix_match *out);
/* Takes what is found. Of each full page it takes a reference, in order; pages in host memory are
 * first copied into fresh pages. Of a partial page the caller gets a copy in a fresh page of its
 * own. The caller needs the window units of pages from kv_pool_window_page(the tokens) on. Writes
 * the page table and returns the tokens in it. That is as much as prefix_cache_find says when
 * `cost` units are available (and, for a partial page, not only in the page that holds it);
 * otherwise less. `out` says what was taken. */
uint32_t prefix_cache_take(struct prefix_cache *cache, const struct prefix_view *view,
                           const uint32_t *tokens, uint32_t count, page_id *pages,
                           uint32_t *page_count, struct prefix_match *out);
/* Counts the hits of a request: once for each request, at its first admission, neither for its
 * other choices nor when it is recomputed. */
void prefix_cache_count(struct prefix_cache *cache, const struct prefix_view *view, uint32_t count,
                        const struct prefix_match *match);

/* Pages [first, first + count) of a sequence's page table are full and computed; `tokens` are those
 * of the sequence from its start. The tree holds the pages from now on, and they are never written
 * again. Where the tree has the same tokens already, the entry of the table becomes the tree's page
 * (the bits are the same) and the duplicate is released. All these pages must be of the view's
 * domain. If the pages before `first` cannot be found any more (no room for ghosts, or a domain was
 * dropped), nothing is inserted. */
void prefix_cache_insert(struct prefix_cache *cache, const struct prefix_view *view,
                         const uint32_t *tokens, uint32_t first, uint32_t count, page_id *pages);
/* Inserts the partial page at the end of `count` tokens, if there is one. When `is_open`, its owner
 * continues to write it: the tree gets a copy in a free or idle page, or nothing if there is none.
 * Otherwise the tree holds the page itself. (Copying for the owner instead would cost the same and
 * change its page table.) */
void prefix_cache_insert_rest(struct prefix_cache *cache, const struct prefix_view *view,
                              const uint32_t *tokens, uint32_t count, page_id page, bool is_open);

/* Makes `units` units free. First spare window units of pages that are no tails are given up. Then
 * idle pages are evicted: to the host tier if there is one, since copying a page is always cheaper
 * than computing it, with their window units if they are tails; otherwise they are dropped. Last,
 * tails of pages that are held give up their window units. False when too few are available; those
 * are free then. */
bool prefix_cache_make_room(struct prefix_cache *cache, uint32_t units);
/* Makes options.exchange units free, if so many are available, so that the next step finds units
 * that no copy reads any more. */
void prefix_cache_make_ahead(struct prefix_cache *cache);
/* kv_pool_available without options.exchange: what the scheduler may count on. O(1). */
uint32_t prefix_cache_available(const struct prefix_cache *cache);

/* Whether `units` more units may be pinned; LIMIT, with the numbers. */
enum status prefix_cache_pin_check(const struct prefix_cache *cache, uint32_t units);
/* Pins all `count` tokens in the view's own tree, the partial page too, until the domain is
 * dropped: pinned pages are neither evicted nor demoted, and those of the window behind the end
 * keep their window units. Sets `*pages` to the pinned pages of the
 * domain. LIMIT, with the numbers, beyond pin_percent or LIMIT_PROMPTS domains; NOT_FOUND when not
 * all of them are in the tree; BUSY when no page is free to bring one back into. After a failure
 * nothing more is pinned. Pages that are pinned already stay so and count once. */
enum status prefix_cache_pin(struct prefix_cache *cache, const struct prefix_view *view,
                             const uint32_t *tokens, uint32_t count, uint32_t *pages);
/* Forgets a domain, with its pages and pins. Running sequences keep the pages they hold. Sequences
 * that still compute into the domain must be ended first, or they open it again. */
void prefix_cache_drop_domain(struct prefix_cache *cache, const struct engine_domain *domain);

/* Changes whenever a lookup could give another result: one made at the same version
 * is still valid. */
uint64_t prefix_cache_version(const struct prefix_cache *cache);

/* --- host pages of swapped-out sequences (kv_swap), perhaps of the tree too: never evicted --- */

/* Host units that are free or held by the tree alone. O(1), or O(host units) where the layout has
 * window units. */
uint32_t prefix_cache_host_available(const struct prefix_cache *cache);
bool prefix_cache_host_is_cached(const struct prefix_cache *cache, host_page page);
/* The tree drops its least valuable host pages until `units` units are free; false if too few are
 * its own alone. */
bool prefix_cache_host_make_room(struct prefix_cache *cache, uint32_t units);
/* Reserves free host units: evicted pages do not take them. */
void prefix_cache_host_reserve(struct prefix_cache *cache, uint32_t units);
/* `page`, held only by the caller and perhaps the tree, has been copied to the caller's host page
 * `to`: the tree has it there from now on, and `page` is free. */
void prefix_cache_demote(struct prefix_cache *cache, page_id page, host_page to);
/* The reverse, into the caller's fresh `page`. Gives up the caller's reference to `from`. */
void prefix_cache_promote(struct prefix_cache *cache, host_page from, page_id page);
/* Gives up a reference. A page that only the tree holds then may be evicted. */
void prefix_cache_host_release(struct prefix_cache *cache, host_page page);
/* Sets the function that is called when the tree leaves host page `from`, which others hold too,
 * because pool page `to` has the same content, page `index` of its sequence. `moved` retains `to`
 * for the other holders, needs its window for those inside whose window it is, and gives up their
 * references to `from`, so that one copy remains. */
void prefix_cache_set_moved(struct prefix_cache *cache,
                            void (*moved)(void *context, uint32_t index, host_page from,
                                          page_id to),
                            void *context);

/* Writes at most `count` domains with pinned pages to `out`; returns how many. */
uint32_t prefix_cache_published(const struct prefix_cache *cache, struct prefix_published *out,
                                uint32_t count);
void prefix_cache_figures(const struct prefix_cache *cache, struct prefix_figures *out);

/* Whether all invariants of tree, pool, host pool and pins hold; for tests and
 * slow checks. O(all). */
bool prefix_cache_check(const struct prefix_cache *cache);
