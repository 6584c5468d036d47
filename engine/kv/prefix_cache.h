/* prefix_cache: what was computed once: the trees of pages, their host tier, pins and figures.
 *
 * Owns:     the radix tree, the host pool (also when off: kv_swap fills it too), one reference of
 *           the KV pool for each page in the tree and one more for each pinned page.
 * Thread:   engine thread only.
 * Cost:     no allocation after prefix_cache_init; each call O(pages of its text × domains that it
 *           sees), but for drop_domain (pages of the domain) and check.
 * Not here: page memory and counts (kv_pool, kv_host), order of eviction (radix_evict), who is
 *           admitted and who waits for whom (step, scheduler).
 *
 *     sequence ──take──► [p0][p1][p2]  shared, read only     [p3] its own: the rest, copied
 *     sequence ──insert─► the tree holds p3 too, once it is full: nobody writes it any more
 *     nobody but the tree: idle ──make_room──► host page ──take──► device page again, or dropped
 *
 * The cache belongs to one opening of one model: a reload is a new process, hence an empty cache,
 * and no page outlives the weights that it was computed with.
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
    struct kv_pool *pool; /* filled by the cache with what it holds; outlives the cache */
    uint64_t host_bytes;  /* of the host tier; 0 = what is evicted is dropped */
    uint32_t context;     /* tokens of the longest text */
    uint32_t pin_percent; /* cap of pinned pages, of the pool; one full context stays beside it */
    uint64_t seed;        /* secret: keys the tree's hashes */
    uint32_t ghosts_max;  /* nodes that only repeat others' tokens; 0 = by the pool's memory */
    uint32_t exchange;    /* pages kept free, so that copies to the host need not be waited for */
    bool is_off;          /* finds nothing, keeps nothing */
};

/* Whose tree is written and whose are read, in the order of matching; `domain` comes last when it
 * is not one of `visible`. A zero `domain` has no cache at all. Visibility is what the request was
 * admitted with. */
struct prefix_view {
    const struct engine_domain *domain; /* where its pages go */
    uint32_t weight;                    /* of `domain` among domains, ≥ 1 */
    const struct engine_domain *visible;
    uint32_t visible_count;  /* ≤ LIMIT_DOMAINS_VISIBLE */
    uint32_t visible_public; /* the first so many are published prompts, */
    uint32_t visible_group;  /* so many behind them the group's, the others its own */
};

struct prefix_match {
    uint32_t tokens; /* found: those of `pages`, and rest_tokens */
    uint32_t pages;  /* whole ones */
    uint32_t rest_tokens;
    uint32_t host_pages;  /* of `pages`, in the host tier: each takes a free or idle page */
    uint32_t device_idle; /* of `pages`, idle now: they stop being available when taken */
    uint32_t tokens_public, tokens_group, tokens_own; /* sum: tokens */
    uint32_t tokens_host;                             /* of tokens, in the host tier */
    uint32_t tokens_by[LIMIT_DOMAINS_VISIBLE + 1];    /* in order of `visible`, then `domain` */
};

struct prefix_published { /* a domain with pinned pages */
    struct engine_domain domain;
    uint32_t pages;
    uint64_t hits; /* requests that found a token there */
    uint64_t hit_tokens;
};

struct prefix_figures {
    uint32_t pages_free, pages_idle, pages_pinned, pages_host; /* idle: cached and held by nobody */
    uint32_t pages_active;                                     /* the rest of the pool */
    uint32_t pin_pages_max;
    uint64_t query_tokens, hit_tokens; /* as counted by prefix_cache_count */
    uint64_t evicted_to_host, evicted_dropped, host_dropped, returned_pages;
};

struct prefix_cache {
    struct prefix_cache_options options;
    struct kv_pool *pool;
    struct kv_host host;
    struct radix_tree *tree;            /* NULL: off */
    radix_node *page_node;              /* [pages of the pool]; RADIX_NONE = not in the tree */
    radix_node *host_node;              /* [pages of the host pool] */
    radix_node *nodes;                  /* [pages of a context] of the match under way */
    struct prefix_published *published; /* [published_count], room for LIMIT_PROMPTS */
    uint32_t published_count;
    uint32_t pin_pages_max;
    uint32_t host_reserve; /* host pages that only kv_swap takes */
    struct {               /* evicted pages, of one batch of copies */
        uint32_t count;
        page_id from[PREFIX_BATCH];
        host_page to[PREFIX_BATCH];
    } evicted;
    struct { /* pages that come back, of one batch: the tree has them in host memory until then */
        uint32_t count;
        host_page from[PREFIX_BATCH];
        page_id to[PREFIX_BATCH];
        uint32_t index[PREFIX_BATCH]; /* of their text */
    } returned;
    void (*moved)(void *context, uint32_t index, host_page from, page_id to);
    void *moved_context;
    struct prefix_figures figures; /* the counters */
    uint64_t version;
};

/* NO_MEMORY. After kv_pool_init; the pool tells this cache of idle pages from now on. */
enum status prefix_cache_init(struct prefix_cache *cache,
                              const struct prefix_cache_options *options);
/* Before kv_pool_deinit. */
void prefix_cache_deinit(struct prefix_cache *cache);

/* What a text of `count` tokens would find: at most count - 1 of them, since one must be computed.
 * Changes nothing, recency neither. */
void prefix_cache_find(struct prefix_cache *cache, const struct prefix_view *view,
                       const uint32_t *tokens, uint32_t count, struct prefix_match *out);
/* Takes what is found: a reference of each whole page, in order; host pages come back into fresh
 * device pages first; of the rest a copy in a fresh page, which is the caller's own. Writes the
 * page table and returns the tokens that it holds. As much as prefix_cache_find says when
 * host_pages + (rest_tokens > 0) pages beyond device_idle are available (and, for a rest, the only
 * page left is not the one that holds it), else less: `out` says what was taken. */
uint32_t prefix_cache_take(struct prefix_cache *cache, const struct prefix_view *view,
                           const uint32_t *tokens, uint32_t count, page_id *pages,
                           uint32_t *page_count, struct prefix_match *out);
/* Counts a request's hit: once per request, at its first admission, never for its other choices or
 * when it is computed again. */
void prefix_cache_count(struct prefix_cache *cache, const struct prefix_view *view, uint32_t count,
                        const struct prefix_match *match);

/* Pages [first, first + count) of a sequence's table are full and computed; `tokens` is its text
 * from the start. The tree holds them from now on, and they are never written again. Where it holds
 * the same tokens already, the entry of the table becomes the tree's page (the bits are the same)
 * and the duplicate is released. Pages that came from other domains are not for this call. Where
 * the pages before `first` cannot be found any more (no room for ghosts, a domain dropped), nothing
 * is kept. */
void prefix_cache_insert(struct prefix_cache *cache, const struct prefix_view *view,
                         const uint32_t *tokens, uint32_t first, uint32_t count, page_id *pages);
/* The end of a text: its tokens in `page`, behind all full ones, if there are any. When `is_open`
 * its owner goes on writing it, so the tree gets a copy, in a free or idle page, or nothing if
 * there is none; else the tree holds the page itself. (A copy for the owner would cost the same and
 * change its table.) */
void prefix_cache_insert_rest(struct prefix_cache *cache, const struct prefix_view *view,
                              const uint32_t *tokens, uint32_t count, page_id page, bool is_open);

/* Evicts until `pages` pages are free: to the host tier if there is one, since copying a page is
 * always cheaper than computing it, else dropped. False if too few are idle; those are free. */
bool prefix_cache_make_room(struct prefix_cache *cache, uint32_t pages);
/* Evicts until as many pages are free as options.exchange says, if so many are idle: those who want
 * pages in the next step find some that no copy reads any more. */
void prefix_cache_make_ahead(struct prefix_cache *cache);
/* Free and idle pages but for options.exchange: what the planner may count on. O(1). */
uint32_t prefix_cache_available(const struct prefix_cache *cache);

/* Whether `pages` more may be pinned; LIMIT, with the numbers. */
enum status prefix_cache_pin_check(const struct prefix_cache *cache, uint32_t pages);
/* Pins the whole text in the view's own tree, its rest too, until the domain is dropped: pinned
 * pages are neither evicted nor demoted. `*pages` is how many it has pinned. LIMIT, with the
 * numbers, over the cap or LIMIT_PROMPTS domains; NOT_FOUND when not all of it is in the tree; BUSY
 * when no page is free to bring it back into. Nothing is pinned then. What is pinned
 * already stays and counts once. */
enum status prefix_cache_pin(struct prefix_cache *cache, const struct prefix_view *view,
                             const uint32_t *tokens, uint32_t count, uint32_t *pages);
/* Forgets a domain: its pages and pins. Running sequences keep what they hold. Who still computes
 * into the domain must be ended first, or it is opened again. */
void prefix_cache_drop_domain(struct prefix_cache *cache, const struct engine_domain *domain);

/* Changes whenever a find could give another answer: one that was kept with it is still good. */
uint64_t prefix_cache_version(const struct prefix_cache *cache);

/* --- host pages that paused sequences hold (kv_swap), the tree perhaps too: never evicted --- */

/* Host pages that are free or only the tree's. O(1). */
uint32_t prefix_cache_host_available(const struct prefix_cache *cache);
bool prefix_cache_host_is_cached(const struct prefix_cache *cache, host_page page);
/* The tree drops least wanted host pages until `pages` are free; false if too few are its alone. */
bool prefix_cache_host_make_room(struct prefix_cache *cache, uint32_t pages);
/* So many free host pages are not for what is evicted. */
void prefix_cache_host_reserve(struct prefix_cache *cache, uint32_t pages);
/* `page`, which nobody but the caller and perhaps the tree holds, has been copied to the caller's
 * host page `to`: the tree has it there from now on, and `page` is free. */
void prefix_cache_demote(struct prefix_cache *cache, page_id page, host_page to);
/* The other way, into the caller's fresh `page`. The caller's reference to `from` is given up. */
void prefix_cache_promote(struct prefix_cache *cache, host_page from, page_id page);
/* Gives up a reference: what only the tree holds then may be evicted. */
void prefix_cache_host_release(struct prefix_cache *cache, host_page page);
/* Who is told when the tree leaves a host page that others hold too, for pool page `to` with the
 * same content, which is page `index` of its text: `moved` retains that one for them and gives up
 * their references to `from`, so that there is one copy. */
void prefix_cache_set_moved(struct prefix_cache *cache,
                            void (*moved)(void *context, uint32_t index, host_page from,
                                          page_id to),
                            void *context);

/* Domains with pinned pages; [0, count) of `out`. */
uint32_t prefix_cache_published(const struct prefix_cache *cache, struct prefix_published *out,
                                uint32_t count);
void prefix_cache_figures(const struct prefix_cache *cache, struct prefix_figures *out);

/* All invariants of tree, pool, host pool and pins together; for tests and slow checks. O(all). */
bool prefix_cache_check(const struct prefix_cache *cache);
