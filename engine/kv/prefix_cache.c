#include "engine/kv/prefix_cache.h"

#include <string.h>

#include "config/base/mem.h"

/* Ghosts have room of 1/64 of the pool's memory, at 64 bytes each and those of its tokens, but at
 * least as many as 256 tenants with a published prompt of 4,000 tokens need. */
enum { GHOST_SHARE = 64, GHOST_BYTES = 64, GHOSTS_MIN_TOKENS = 1 << 20, GHOSTS_TOP = 1 << 30 };
enum { DOMAINS_MAX = 65536 };

static const struct engine_domain no_domain;

/* --- start and end --- */

/* Called by the pool when a page becomes, or stops being, held by the tree alone. */
static void tell_idle(void *context, page_id page, bool is_idle)
{
    struct prefix_cache *cache = context;
    radix_node node = cache->page_node[page];
    if (node == RADIX_NONE)
        return;
    if (is_idle)
        radix_evict_idle(cache->tree, node);
    else
        radix_evict_busy(cache->tree, node);
    cache->version++;
}

/* Called by the pool when a page of the tree got its window units or gave them up: shares of the
 * cache are counted in units. */
static void tell_window(void *context, page_id page)
{
    struct prefix_cache *cache = context;
    if (cache->page_node[page] != RADIX_NONE)
        radix_tree_weigh(cache->tree, cache->page_node[page],
                         1 + kv_pool_window_units(cache->pool, page));
}

static radix_node *init_nodes(uint32_t count)
{
    radix_node *nodes = mem_alloc(((size_t)count + 1) * sizeof(*nodes));
    for (uint32_t i = 0; nodes != NULL && i < count; i++)
        nodes[i] = RADIX_NONE;
    return nodes;
}

static uint32_t init_ghosts_max(const struct prefix_cache *cache)
{
    const struct kv_pool *pool = cache->pool;
    const uint32_t tokens = pool->layout.page_tokens;
    const uint64_t bytes = GHOST_SHARE * (GHOST_BYTES + (uint64_t)tokens * sizeof(uint32_t));
    const uint64_t least = GHOSTS_MIN_TOKENS / tokens;
    uint64_t share = (uint64_t)pool->unit_count * pool->layout.page_bytes / bytes;
    if (cache->options.ghosts_max > 0)
        return cache->options.ghosts_max;
    share = share < least ? least : share;
    return (uint32_t)(share < GHOSTS_TOP ? share : GHOSTS_TOP);
}

static enum status init_parts(struct prefix_cache *cache)
{
    const struct prefix_cache_options *options = &cache->options;
    const struct kv_pool *pool = cache->pool;
    TRY(kv_host_init(&cache->host, options->kernels, &pool->layout, options->host_bytes));
    if (options->is_off)
        return STATUS_OK;
    uint32_t values = pool->unit_count + cache->host.unit_count;
    const struct radix_options tree = {
        .page_symbols = pool->layout.page_tokens,
        .values_max = values,
        .ghosts_max = init_ghosts_max(cache),
        .domains_max = values < DOMAINS_MAX ? values : DOMAINS_MAX,
        .seed = options->seed,
    };
    TRY(radix_tree_create(&cache->tree, &tree));
    cache->page_node = init_nodes(pool->unit_count);
    cache->host_node = init_nodes(cache->host.unit_count);
    cache->nodes = init_nodes(kv_pool_pages_for(pool, options->context));
    cache->published = mem_zalloc(LIMIT_PROMPTS, sizeof(*cache->published));
    if (cache->page_node == NULL || cache->host_node == NULL || cache->nodes == NULL ||
        cache->published == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prefix cache of %u pages", values);
    return STATUS_OK;
}

enum status prefix_cache_init(struct prefix_cache *cache,
                              const struct prefix_cache_options *options)
{
    *cache = (struct prefix_cache){.options = *options, .pool = options->pool};
    enum status status = init_parts(cache);
    if (status != STATUS_OK) {
        prefix_cache_deinit(cache);
        return status;
    }
    if (options->is_off)
        return STATUS_OK;
    /* One full sequence always fits beside all pins. */
    uint32_t total = cache->pool->unit_count;
    uint32_t beside =
        total - kv_pool_units_least(cache->pool, options->context) - options->exchange;
    uint32_t share = (uint32_t)((uint64_t)total * options->pin_percent / 100);
    cache->pin_units_max = share < beside ? share : beside;
    kv_pool_set_tell(cache->pool, &(struct kv_pool_tell){tell_idle, tell_window, cache});
    return STATUS_OK;
}

void prefix_cache_deinit(struct prefix_cache *cache)
{
    if (cache->pool != NULL)
        kv_pool_set_tell(cache->pool, NULL);
    radix_tree_destroy(cache->tree);
    kv_host_deinit(&cache->host);
    mem_free(cache->page_node);
    mem_free(cache->host_node);
    mem_free(cache->nodes);
    mem_free(cache->published);
    *cache = (struct prefix_cache){0};
}

/* --- finding --- */

/* What the trees of a view have of a sequence; the nodes of the full pages are in cache->nodes. */
struct lookup {
    radix_domain domains[LIMIT_DOMAINS_VISIBLE + 1];
    uint32_t domain_count;
    uint32_t pages;
    radix_node rest;
    uint32_t rest_tokens;
    uint32_t window_page; /* pages from here on, and the rest, are needed with their windows */
    uint32_t window_lost; /* tokens given up, because their windows are gone */
};

static bool is_same(const struct engine_domain *a, const struct engine_domain *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool is_without_cache(const struct prefix_cache *cache, const struct prefix_view *view)
{
    return cache->tree == NULL || is_same(view->domain, &no_domain);
}

static void look_up(const struct prefix_cache *cache, const struct prefix_view *view,
                    const uint32_t *tokens, uint32_t count, struct lookup *out)
{
    *out = (struct lookup){.rest = RADIX_NONE};
    if (is_without_cache(cache, view))
        return;
    ASSERT(view->visible_count <= LIMIT_DOMAINS_VISIBLE);
    ASSERT(count <= cache->options.context);
    bool is_listed = false;
    for (uint32_t i = 0; i < view->visible_count; i++) {
        out->domains[out->domain_count++] =
            radix_tree_find_domain(cache->tree, view->visible[i].bytes);
        is_listed = is_listed || is_same(&view->visible[i], view->domain);
    }
    if (!is_listed)
        out->domains[out->domain_count++] =
            radix_tree_find_domain(cache->tree, view->domain->bytes);
    out->pages = radix_tree_match(cache->tree, out->domains, out->domain_count, tokens, count,
                                  cache->nodes, &out->rest, &out->rest_tokens);
    if (!kv_pool_has_parts(cache->pool)) {
        out->rest = RADIX_NONE;
        out->rest_tokens = 0;
    }
}

static bool has_window(const struct prefix_cache *cache, radix_node node)
{
    const uint32_t value = radix_tree_value(cache->tree, node);
    return radix_tree_tier(cache->tree, node) == RADIX_HOST
               ? kv_host_has_window(&cache->host, value)
               : kv_pool_has_window(cache->pool, value);
}

/* Shortens what was found to the longest text behind whose end the whole window is there. */
static void fit_window(const struct prefix_cache *cache, struct lookup *found)
{
    const uint32_t symbols = cache->pool->layout.page_tokens;
    const uint32_t tokens = found->pages * symbols + found->rest_tokens;
    uint32_t run = 0; /* pages with windows without a gap, up to this one */
    uint32_t fit = 0;
    found->window_page = kv_pool_window_page(cache->pool, tokens);
    if (cache->pool->windows == NULL)
        return;
    for (uint32_t i = 0; i < found->pages; i++) {
        run = has_window(cache, cache->nodes[i]) ? run + 1 : 0;
        if (i + 1 - kv_pool_window_page(cache->pool, (i + 1) * symbols) <= run)
            fit = i + 1;
    }
    const uint32_t before =
        found->pages > found->window_page ? found->pages - found->window_page : 0;
    if (found->rest_tokens > 0 && before <= run && has_window(cache, found->rest))
        return;
    found->pages = fit;
    found->rest = RADIX_NONE;
    found->rest_tokens = 0;
    found->window_page = kv_pool_window_page(cache->pool, fit * symbols);
    found->window_lost = tokens - fit * symbols;
}

/* Units of the available ones that a sequence uses when it takes a node's page. */
static uint32_t node_cost(const struct prefix_cache *cache, radix_node node, bool is_in_window)
{
    const uint32_t value = radix_tree_value(cache->tree, node);
    if (radix_tree_tier(cache->tree, node) == RADIX_HOST)
        return kv_host_page_units(&cache->host, value);
    return kv_pool_is_idle(cache->pool, value) +
           (is_in_window && kv_pool_is_spare(cache->pool, value) ? cache->pool->layout.window_units
                                                                 : 0);
}

/* Adds `tokens` tokens that a node holds to a match. */
static void add_found(const struct prefix_cache *cache, const struct prefix_view *view,
                      const struct lookup *found, radix_node node, uint32_t tokens,
                      struct prefix_match *out)
{
    radix_domain domain = radix_tree_domain_of(cache->tree, node);
    uint32_t index = 0;
    while (index < found->domain_count && found->domains[index] != domain)
        index++;
    ASSERT(index < found->domain_count); /* nothing is found in a domain that is not visible */
    bool is_host = radix_tree_tier(cache->tree, node) == RADIX_HOST;
    out->tokens += tokens;
    out->tokens_by[index] += tokens;
    if (is_host)
        out->tokens_host += tokens;
    if (index < view->visible_public)
        out->tokens_public += tokens;
    else if (index < view->visible_public + view->visible_group)
        out->tokens_group += tokens;
    else
        out->tokens_own += tokens;
    if (tokens < cache->pool->layout.page_tokens) {
        out->rest_tokens = tokens;
        out->cost += kv_pool_page_units(cache->pool);
        return;
    }
    out->cost += node_cost(cache, node, out->pages >= found->window_page);
    out->pages++;
    out->host_pages += is_host;
    if (!is_host)
        out->device_idle += kv_pool_is_idle(cache->pool, radix_tree_value(cache->tree, node));
}

void prefix_cache_find(struct prefix_cache *cache, const struct prefix_view *view,
                       const uint32_t *tokens, uint32_t count, struct prefix_match *out)
{
    struct lookup found;
    *out = (struct prefix_match){0};
    if (count == 0)
        return;
    look_up(cache, view, tokens, count - 1, &found);
    fit_window(cache, &found);
    out->window_lost = found.window_lost;
    for (uint32_t i = 0; i < found.pages; i++)
        add_found(cache, view, &found, cache->nodes[i], cache->pool->layout.page_tokens, out);
    if (found.rest_tokens > 0)
        add_found(cache, view, &found, found.rest, found.rest_tokens, out);
}

/* --- evicting --- */

static void forget_host(struct prefix_cache *cache, radix_node node)
{
    host_page page = radix_tree_value(cache->tree, node);
    cache->host_node[page] = RADIX_NONE;
    kv_host_release(&cache->host, page);
}

/* Copies the evicted pages, which are free then. */
static void evict_copy(struct prefix_cache *cache)
{
    const uint32_t count = cache->evicted.count;
    kv_host_out(&cache->host, cache->pool, cache->evicted.from, cache->evicted.to, count);
    for (uint32_t i = 0; i < count; i++)
        kv_pool_uncache(cache->pool, cache->evicted.from[i]);
    cache->evicted.count = 0;
    cache->evicted.units = 0;
}

/* Drops the host page that the tree evicts next; false when others hold all of them. */
static bool evict_host(struct prefix_cache *cache)
{
    radix_node next = cache->tree == NULL ? RADIX_NONE : radix_evict_next(cache->tree, RADIX_HOST);
    if (next == RADIX_NONE)
        return false;
    for (uint32_t i = 0; i < cache->evicted.count; i++)
        if (cache->evicted.to[i] == radix_tree_value(cache->tree, next))
            evict_copy(cache); /* before the page is released */
    forget_host(cache, next);
    radix_tree_clear(cache->tree, next);
    cache->figures.host_dropped++;
    cache->version++;
    return true;
}

/* Gives a host page room for the window units of an evicted tail, if the tree has so much there. */
static void evict_window(struct prefix_cache *cache, page_id page, host_page to)
{
    struct kv_host *host = &cache->host;
    if (!kv_pool_is_tail(cache->pool, page) || kv_pool_window_units(cache->pool, page) == 0)
        return;
    const uint32_t wanted = cache->host_reserve + host->window_units;
    while (host->free_count < wanted && evict_host(cache)) {
    }
    if (host->free_count >= wanted)
        kv_host_add_window(host, to);
}

/* A host page for an evicted page; if need be the tree drops one of its own there. */
static host_page evict_acquire(struct prefix_cache *cache, page_id page)
{
    struct kv_host *host = &cache->host;
    if (host->unit_count > 0 && host->free_count <= cache->host_reserve && !evict_host(cache))
        return KV_POOL_NONE;
    if (cache->evicted.count == PREFIX_BATCH)
        evict_copy(cache);
    host_page to = kv_host_acquire(host, &cache->pool->domains[page]);
    if (to != KV_POOL_NONE)
        evict_window(cache, page, to);
    return to;
}

static void set_host(struct prefix_cache *cache, radix_node node, host_page page)
{
    radix_tree_set(cache->tree, node, RADIX_HOST, page);
    radix_tree_weigh(cache->tree, node, kv_host_page_units(&cache->host, page));
    cache->host_node[page] = node;
}

static void evict_page(struct prefix_cache *cache, radix_node node)
{
    page_id page = radix_tree_value(cache->tree, node);
    ASSERT(kv_pool_is_idle(cache->pool, page));
    host_page to = evict_acquire(cache, page);
    cache->page_node[page] = RADIX_NONE;
    cache->version++;
    if (to == KV_POOL_NONE) {
        radix_tree_clear(cache->tree, node);
        cache->figures.evicted_dropped++;
        kv_pool_uncache(cache->pool, page);
        return;
    }
    set_host(cache, node, to);
    radix_evict_idle(cache->tree, node);
    cache->figures.evicted_to_host++;
    cache->evicted.units += 1 + kv_pool_window_units(cache->pool, page);
    cache->evicted.from[cache->evicted.count] = page;
    cache->evicted.to[cache->evicted.count++] = to;
}

/* Gives up spare window units of a list until `units` units are free. */
static void drop_spares(struct prefix_cache *cache, enum kv_spare list, uint32_t units)
{
    while (cache->pool->free_count < units && kv_pool_drop_spare(cache->pool, list)) {
        cache->figures.windows_dropped++;
        cache->version++;
    }
}

bool prefix_cache_make_room(struct prefix_cache *cache, uint32_t units)
{
    radix_node next = RADIX_NONE;
    drop_spares(cache, KV_SPARE_MIDDLE, units);
    while (cache->pool->free_count + cache->evicted.units < units) {
        next = cache->tree == NULL ? RADIX_NONE : radix_evict_next(cache->tree, RADIX_DEVICE);
        if (next == RADIX_NONE)
            break;
        evict_page(cache, next);
    }
    evict_copy(cache);
    drop_spares(cache, KV_SPARE_TAIL, units);
    return cache->pool->free_count >= units;
}

void prefix_cache_make_ahead(struct prefix_cache *cache)
{
    (void)prefix_cache_make_room(cache, cache->options.exchange);
}

uint32_t prefix_cache_available(const struct prefix_cache *cache)
{
    const uint32_t units = kv_pool_available(cache->pool);
    return units > cache->options.exchange ? units - cache->options.exchange : 0;
}

/* A page with its window units, which the caller needs. */
static page_id fresh_page(struct prefix_cache *cache, const struct engine_domain *domain)
{
    if (!prefix_cache_make_room(cache, kv_pool_page_units(cache->pool)))
        return KV_POOL_NONE;
    page_id page = kv_pool_acquire(cache->pool, domain);
    kv_pool_add_window(cache->pool, page);
    return page;
}

/* --- taking --- */

/* Lets a node of the host tier be evicted, unless a swapped-out sequence holds its page too. */
static void host_idle(struct prefix_cache *cache, radix_node node)
{
    if (cache->host.references[radix_tree_value(cache->tree, node)] == 1)
        radix_evict_idle(cache->tree, node);
}

/* No node is evicted between hold and unhold. */
static void hold(struct prefix_cache *cache, radix_node node)
{
    if (radix_tree_tier(cache->tree, node) == RADIX_DEVICE)
        kv_pool_retain(cache->pool, radix_tree_value(cache->tree, node));
    else
        radix_evict_busy(cache->tree, node);
}

static void unhold(struct prefix_cache *cache, radix_node node)
{
    if (radix_tree_tier(cache->tree, node) == RADIX_DEVICE)
        kv_pool_release(cache->pool, radix_tree_value(cache->tree, node));
    else
        host_idle(cache, node);
}

/* Domain of a node's host page. Asserts, in every build, that tree and host pool agree. */
static struct engine_domain host_domain(const struct prefix_cache *cache, radix_node node)
{
    const struct engine_domain *domain = &cache->host.domains[radix_tree_value(cache->tree, node)];
    ASSERT(radix_tree_find_domain(cache->tree, domain->bytes) ==
           radix_tree_domain_of(cache->tree, node));
    return *domain;
}

/* The tree gives up a node's host page, because `page` has the same content: page `index` of the
 * sequence. Swapped-out sequences that held the host page hold `page` from now on. */
static void leave_host(struct prefix_cache *cache, radix_node node, uint32_t index, page_id page)
{
    host_page from = radix_tree_value(cache->tree, node);
    if (cache->host.references[from] > 1)
        cache->moved(cache->moved_context, index, from, page);
    ASSERT(cache->host.references[from] == 1);
    forget_host(cache, node);
}

static void set_device(struct prefix_cache *cache, radix_node node, page_id page)
{
    ASSERT(cache->page_node[page] == RADIX_NONE); /* a page belongs to one node */
    radix_tree_set(cache->tree, node, RADIX_DEVICE, page);
    radix_tree_weigh(cache->tree, node, 1 + kv_pool_window_units(cache->pool, page));
    cache->page_node[page] = node;
    kv_pool_cache(cache->pool, page);
    cache->version++;
}

/* Copies the pages that are brought back; the tree has them in the pool from now on. Those with
 * window units were tails, and are tails again. */
static void bring_copy(struct prefix_cache *cache)
{
    const uint32_t count = cache->returned.count;
    kv_host_in(&cache->host, cache->pool, cache->returned.from, cache->returned.to, count);
    for (uint32_t i = 0; i < count; i++) {
        const page_id page = cache->returned.to[i];
        const radix_node node = cache->host_node[cache->returned.from[i]];
        leave_host(cache, node, cache->returned.index[i], page);
        set_device(cache, node, page);
        if (kv_pool_window_units(cache->pool, page) == 0)
            continue;
        kv_pool_keep_tail(cache->pool, page);
        if (cache->returned.index[i] < cache->returned.window_page)
            kv_pool_unneed_window(cache->pool, page);
    }
    cache->figures.returned_pages += count;
    cache->returned.count = 0;
}

/* A fresh page of `units` units for the first of `wanted` pages that come back. If pages must be
 * evicted for them, as many are evicted as the host tier takes without dropping any: each page that
 * comes back leaves room there. */
static page_id bring_acquire(struct prefix_cache *cache, const struct engine_domain *domain,
                             uint32_t units, uint32_t wanted)
{
    const struct kv_host *host = &cache->host;
    if (cache->pool->free_count < units) {
        bring_copy(cache);
        uint32_t most =
            host->free_count > cache->host_reserve + 1 ? host->free_count - cache->host_reserve : 1;
        most = wanted < most ? wanted : most;
        if (!prefix_cache_make_room(cache, most > units ? most : units) &&
            cache->pool->free_count < units)
            return KV_POOL_NONE;
    }
    page_id page = kv_pool_acquire(cache->pool, domain);
    if (units > 1)
        kv_pool_add_window(cache->pool, page);
    return page;
}

/* Finds pool page `index` of a sequence, whose node is held. A page in host memory, the first of
 * `wanted` ones, gets a fresh page of the same domain; the caller ends with bring_copy. False,
 * without any change, when no page is available. */
static bool bring(struct prefix_cache *cache, radix_node node, uint32_t index, uint32_t wanted,
                  page_id *out)
{
    if (radix_tree_tier(cache->tree, node) == RADIX_DEVICE) {
        *out = radix_tree_value(cache->tree, node);
        return true;
    }
    const struct engine_domain domain = host_domain(cache, node);
    if (cache->returned.count == PREFIX_BATCH)
        bring_copy(cache);
    page_id page = bring_acquire(
        cache, &domain, kv_host_page_units(&cache->host, radix_tree_value(cache->tree, node)),
        wanted);
    if (page == KV_POOL_NONE)
        return false;
    const uint32_t place = cache->returned.count++;
    cache->returned.from[place] = radix_tree_value(cache->tree, node);
    cache->returned.to[place] = page;
    cache->returned.index[place] = index;
    *out = page;
    return true;
}

/* How many nodes are in the host tier. */
static uint32_t host_count(const struct prefix_cache *cache, const radix_node *nodes,
                           uint32_t count)
{
    uint32_t in_host = 0;
    for (uint32_t i = 0; i < count; i++)
        in_host += radix_tree_tier(cache->tree, nodes[i]) == RADIX_HOST;
    return in_host;
}

/* Copies the first tokens of a page of the pool, with its window units. */
static void copy_page(struct prefix_cache *cache, page_id to, page_id from, uint32_t tokens)
{
    struct kv_pool *pool = cache->pool;
    kv_pool_wait(pool, &from, 1);
    for (uint32_t group = 0; group <= pool->layout.window_units; group++)
        kernels_kv_copy(cache->options.kernels, &pool->layout,
                        kv_pool_memory(pool, kv_pool_unit(pool, to, group)),
                        kv_pool_memory(pool, kv_pool_unit(pool, from, group)), tokens);
}

/* Copies the first tokens of a held node's page, from either tier, into a fresh page of the caller,
 * who needs its window units. */
static page_id take_rest(struct prefix_cache *cache, const struct prefix_view *view,
                         radix_node node, uint32_t tokens)
{
    page_id page = fresh_page(cache, view->domain);
    if (page == KV_POOL_NONE)
        return KV_POOL_NONE;
    const uint32_t value = radix_tree_value(cache->tree, node);
    if (radix_tree_tier(cache->tree, node) == RADIX_DEVICE) {
        copy_page(cache, page, value, tokens);
        return page;
    }
    const struct engine_domain domain = host_domain(cache, node);
    kv_host_wait(&cache->host, value);
    for (uint32_t group = 0; group < kv_host_page_units(&cache->host, value); group++)
        kernels_kv_copy(cache->options.kernels, &cache->pool->layout,
                        kv_pool_memory(cache->pool, kv_pool_unit(cache->pool, page, group)),
                        kv_host_get(&cache->host, value, group, &domain), tokens);
    return page;
}

/* Cost of all that was found, before it is held. */
static uint32_t take_cost(const struct prefix_cache *cache, const struct lookup *found)
{
    uint32_t cost = found->rest_tokens > 0 ? kv_pool_page_units(cache->pool) : 0;
    for (uint32_t i = 0; i < found->pages; i++)
        cost += node_cost(cache, cache->nodes[i], i >= found->window_page);
    return cost;
}

/* Protects what was found from eviction, and the windows behind its end from being given up. The
 * entries of `pages` are, until they are replaced, the idle pages among those before. */
static void take_hold(struct prefix_cache *cache, const struct lookup *found, page_id *pages)
{
    const uint32_t idle_count = cache->pool->idle_count;
    for (uint32_t i = 0; i < found->pages; i++) {
        hold(cache, cache->nodes[i]);
        pages[i] = idle_count - cache->pool->idle_count;
        if (i >= found->window_page &&
            radix_tree_tier(cache->tree, cache->nodes[i]) == RADIX_DEVICE)
            kv_pool_need_window(cache->pool, radix_tree_value(cache->tree, cache->nodes[i]));
    }
    if (found->rest == RADIX_NONE)
        return;
    hold(cache, found->rest);
    if (radix_tree_tier(cache->tree, found->rest) == RADIX_DEVICE)
        kv_pool_need_window(cache->pool, radix_tree_value(cache->tree, found->rest));
}

/* Gives up the windows of pages [begin, end) that take_hold protected, or that were brought. */
static void take_unneed(struct prefix_cache *cache, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        if (radix_tree_tier(cache->tree, cache->nodes[i]) == RADIX_DEVICE)
            kv_pool_unneed_window(cache->pool, radix_tree_value(cache->tree, cache->nodes[i]));
}

/* Only the first `taken` pages could be brought, or all of them and not the partial page. Keeps of
 * them what has its window, and returns how many pages that are. */
static uint32_t take_less(struct prefix_cache *cache, struct lookup *found, uint32_t taken)
{
    if (cache->pool->windows == NULL)
        return taken;
    take_unneed(cache, found->window_page, found->pages);
    struct lookup less = *found;
    less.pages = taken;
    less.rest = RADIX_NONE;
    less.rest_tokens = 0;
    fit_window(cache, &less);
    for (uint32_t i = less.window_page; i < less.pages; i++)
        kv_pool_need_window(cache->pool, radix_tree_value(cache->tree, cache->nodes[i]));
    found->window_page = less.window_page;
    return less.pages;
}

/* Brings the pages that were found, as many as there is room for, and adds them to the match. */
static uint32_t take_bring(struct prefix_cache *cache, const struct prefix_view *view,
                           const struct lookup *found, page_id *pages, struct prefix_match *out)
{
    uint32_t away = host_count(cache, cache->nodes, found->pages);
    uint32_t taken = 0;
    uint32_t device_idle = 0;
    cache->returned.window_page = found->window_page;
    for (; taken < found->pages; taken++) {
        struct prefix_match with = *out;
        add_found(cache, view, found, cache->nodes[taken], cache->pool->layout.page_tokens, &with);
        device_idle = pages[taken];
        if (!bring(cache, cache->nodes[taken], taken, away - out->host_pages, &pages[taken]))
            break;
        *out = with;
    }
    bring_copy(cache);
    out->device_idle = device_idle;
    return taken;
}

/* Lets go of what take_hold protected beyond the first `taken` pages. */
static void take_unhold(struct prefix_cache *cache, const struct lookup *found, uint32_t taken)
{
    if (found->rest != RADIX_NONE) {
        if (radix_tree_tier(cache->tree, found->rest) == RADIX_DEVICE)
            kv_pool_unneed_window(cache->pool, radix_tree_value(cache->tree, found->rest));
        unhold(cache, found->rest);
    }
    for (uint32_t i = found->pages; i-- > taken;)
        unhold(cache, cache->nodes[i]);
}

uint32_t prefix_cache_take(struct prefix_cache *cache, const struct prefix_view *view,
                           const uint32_t *tokens, uint32_t count, page_id *pages,
                           uint32_t *page_count, struct prefix_match *out)
{
    struct lookup found;
    page_id rest = KV_POOL_NONE;
    *out = (struct prefix_match){0};
    *page_count = 0;
    if (count == 0)
        return 0;
    look_up(cache, view, tokens, count - 1, &found);
    fit_window(cache, &found);
    out->window_lost = found.window_lost;
    const uint32_t cost = take_cost(cache, &found);
    take_hold(cache, &found, pages);
    uint32_t taken = take_bring(cache, view, &found, pages, out);
    if (found.rest != RADIX_NONE && taken == found.pages)
        rest = take_rest(cache, view, found.rest, found.rest_tokens);
    const bool is_whole =
        taken == found.pages && (found.rest == RADIX_NONE || rest != KV_POOL_NONE);
    if (!is_whole)
        taken = take_less(cache, &found, taken);
    if (taken < out->pages) { /* what is left of the match */
        *out = (struct prefix_match){.window_lost = found.window_lost};
        for (uint32_t i = 0; i < taken; i++)
            add_found(cache, view, &found, cache->nodes[i], cache->pool->layout.page_tokens, out);
    }
    *page_count = taken;
    if (rest != KV_POOL_NONE) {
        add_found(cache, view, &found, found.rest, found.rest_tokens, out);
        pages[(*page_count)++] = rest;
    }
    out->cost = is_whole ? cost : 0; /* of a part it is not known */
    take_unhold(cache, &found, taken);
    return out->tokens;
}

/* --- inserting --- */

static void keep_page(struct prefix_cache *cache, radix_node node, uint32_t index, page_id page)
{
    if (radix_tree_tier(cache->tree, node) == RADIX_HOST)
        leave_host(cache, node, index, page);
    set_device(cache, node, page);
}

/* Drops an idle partial page of the view's own tree that is a prefix of a page that is now inserted
 * in its place: it is of no more use. */
static void forget_shorter(struct prefix_cache *cache, const struct prefix_view *view,
                           const struct lookup *found)
{
    radix_node rest = found->rest;
    if (rest == RADIX_NONE || radix_tree_symbol_count(cache->tree, rest) != found->rest_tokens)
        return;
    if (radix_tree_domain_of(cache->tree, rest) !=
        radix_tree_find_domain(cache->tree, view->domain->bytes))
        return;
    uint32_t value = radix_tree_value(cache->tree, rest);
    if (radix_tree_tier(cache->tree, rest) == RADIX_HOST) {
        forget_host(cache, rest);
        radix_tree_clear(cache->tree, rest);
    } else if (kv_pool_is_idle(cache->pool, value)) {
        cache->page_node[value] = RADIX_NONE;
        radix_tree_clear(cache->tree, rest);
        kv_pool_uncache(cache->pool, value);
    }
    cache->version++;
}

void prefix_cache_insert(struct prefix_cache *cache, const struct prefix_view *view,
                         const uint32_t *tokens, uint32_t first, uint32_t count, page_id *pages)
{
    const uint32_t symbols = cache->pool->layout.page_tokens;
    struct lookup found;
    if (is_without_cache(cache, view) || count == 0)
        return;
    look_up(cache, view, tokens, (first + 1) * symbols - 1, &found);
    if (found.pages < first)
        return; /* pages before these are not in the tree, or not visible: no lookup finds these */
    forget_shorter(cache, view, &found);
    radix_domain domain = radix_tree_open_domain(cache->tree, view->domain->bytes, view->weight);
    if (domain == RADIX_NONE)
        return;
    radix_node node = RADIX_NONE;
    cache->version++; /* even if nothing is new: of partial pages the newest is matched first */
    for (uint32_t i = first; i < first + count; i++) {
        node = i == first ? radix_tree_insert(cache->tree, domain, RADIX_NONE, tokens,
                                              (first + 1) * symbols)
                          : radix_tree_insert(cache->tree, domain, node,
                                              tokens + (size_t)i * symbols, symbols);
        if (node == RADIX_NONE)
            return;
        ASSERT(is_same(&cache->pool->domains[pages[i]], view->domain));
        if (radix_tree_tier(cache->tree, node) != RADIX_DEVICE) {
            keep_page(cache, node, i, pages[i]);
            continue;
        }
        page_id kept = radix_tree_value(cache->tree, node);
        if (kept == pages[i])
            continue;
        kv_pool_retain(cache->pool, kept);
        kv_pool_move_window(cache->pool, pages[i], kept);
        kv_pool_release(cache->pool, pages[i]);
        pages[i] = kept;
    }
}

void prefix_cache_insert_rest(struct prefix_cache *cache, const struct prefix_view *view,
                              const uint32_t *tokens, uint32_t count, page_id page, bool is_open)
{
    const uint32_t symbols = cache->pool->layout.page_tokens;
    struct lookup found;
    if (is_without_cache(cache, view) || count % symbols == 0 || !kv_pool_has_parts(cache->pool))
        return;
    ASSERT(is_same(&cache->pool->domains[page], view->domain));
    look_up(cache, view, tokens, count, &found);
    if (found.pages < count / symbols || found.rest_tokens == count % symbols)
        return; /* no lookup would find it, or it is there already */
    page_id kept = is_open ? fresh_page(cache, view->domain) : page;
    if (kept == KV_POOL_NONE)
        return;
    look_up(cache, view, tokens, count, &found); /* again: making room may have evicted some */
    if (found.pages == count / symbols)
        forget_shorter(cache, view, &found);
    cache->version++;
    radix_domain domain = radix_tree_open_domain(cache->tree, view->domain->bytes, view->weight);
    radix_node node = domain == RADIX_NONE
                          ? RADIX_NONE
                          : radix_tree_insert(cache->tree, domain, RADIX_NONE, tokens, count);
    if (node != RADIX_NONE && radix_tree_tier(cache->tree, node) == RADIX_GHOST) {
        if (is_open)
            copy_page(cache, kept, page, count % symbols);
        keep_page(cache, node, count / symbols, kept);
        kv_pool_keep_tail(cache->pool, kept);
    }
    if (is_open) {
        kv_pool_unneed_window(cache->pool, kept);
        kv_pool_release(cache->pool, kept);
    }
}

/* --- pins, and dropping domains --- */

static struct prefix_published *published_find(const struct prefix_cache *cache,
                                               const struct engine_domain *domain)
{
    for (uint32_t i = 0; i < cache->published_count; i++)
        if (is_same(&cache->published[i].domain, domain))
            return &cache->published[i];
    return NULL;
}

enum status prefix_cache_pin_check(const struct prefix_cache *cache, uint32_t units)
{
    uint32_t pinned = kv_pool_units_pinned(cache->pool);
    const char *what = cache->pool->layout.window_units > 0 ? "units" : "pages";
    if (units > cache->pin_units_max || pinned > cache->pin_units_max - units)
        FAIL(STATUS_LIMIT,
             "%u more pinned %s beside %u exceed the cap of %u (%u %% of %u KV %s, beside "
             "one full context)",
             units, what, pinned, cache->pin_units_max, cache->options.pin_percent,
             cache->pool->unit_count, what);
    return STATUS_OK;
}

/* Units that pinning a node adds to the pinned ones. */
static uint32_t pin_cost(const struct prefix_cache *cache, radix_node node, bool is_in_window)
{
    const uint32_t value = radix_tree_value(cache->tree, node);
    const bool is_pinned =
        radix_tree_tier(cache->tree, node) == RADIX_DEVICE && kv_pool_is_pinned(cache->pool, value);
    const bool is_kept = is_pinned && kv_pool_is_tail(cache->pool, value);
    return !is_pinned + (is_in_window && !is_kept ? cache->pool->layout.window_units : 0);
}

/* Pins all of these held nodes, or none. */
static enum status pin_nodes(struct prefix_cache *cache, const struct engine_domain *domain,
                             const radix_node *nodes, uint32_t count, uint32_t window_page,
                             uint32_t *pages)
{
    struct prefix_published *row = published_find(cache, domain);
    if (row == NULL && cache->published_count == LIMIT_PROMPTS)
        FAIL(STATUS_LIMIT, "%d published prompts are pinned, and no more can be", LIMIT_PROMPTS);
    page_id page = KV_POOL_NONE;
    uint32_t new_count = 0;
    uint32_t new_units = 0;
    for (uint32_t i = 0; i < count; i++) {
        new_count += radix_tree_tier(cache->tree, nodes[i]) == RADIX_HOST ||
                     !kv_pool_is_pinned(cache->pool, radix_tree_value(cache->tree, nodes[i]));
        new_units += pin_cost(cache, nodes[i], i >= window_page);
    }
    TRY(prefix_cache_pin_check(cache, new_units));
    cache->returned.window_page = UINT32_MAX;
    uint32_t away = host_count(cache, nodes, count);
    uint32_t back = 0;
    for (; back < count; back++) {
        const uint32_t wanted = away;
        away -= radix_tree_tier(cache->tree, nodes[back]) == RADIX_HOST;
        if (!bring(cache, nodes[back], back, wanted, &page))
            break;
    }
    bring_copy(cache);
    if (back < count)
        FAIL(STATUS_BUSY, "no KV page is free to bring back one of %u pages to be pinned", count);
    if (row == NULL) {
        row = &cache->published[cache->published_count++];
        *row = (struct prefix_published){.domain = *domain};
    }
    for (uint32_t i = 0; i < count; i++) {
        page = radix_tree_value(cache->tree, nodes[i]);
        if (i >= window_page)
            kv_pool_keep_tail(cache->pool, page);
        if (!kv_pool_is_pinned(cache->pool, page))
            kv_pool_pin(cache->pool, page);
    }
    row->pages += new_count;
    *pages = row->pages;
    return STATUS_OK;
}

enum status prefix_cache_pin(struct prefix_cache *cache, const struct prefix_view *view,
                             const uint32_t *tokens, uint32_t count, uint32_t *pages)
{
    /* Only its own tree: pages of another domain are dropped with that domain. */
    const struct prefix_view own = {.domain = view->domain, .weight = view->weight};
    struct lookup found;
    *pages = 0;
    look_up(cache, &own, tokens, count, &found);
    uint32_t tokens_found = found.pages * cache->pool->layout.page_tokens + found.rest_tokens;
    if (count == 0 || tokens_found < count)
        FAIL(STATUS_NOT_FOUND, "only %u of the %u tokens to be pinned are in the prefix cache",
             tokens_found, count);
    uint32_t nodes = found.pages;
    if (found.rest != RADIX_NONE)
        cache->nodes[nodes++] = found.rest;
    for (uint32_t i = 0; i < nodes; i++)
        hold(cache, cache->nodes[i]);
    const uint32_t window_page = kv_pool_window_page(cache->pool, count - 1);
    enum status status = pin_nodes(cache, view->domain, cache->nodes, nodes, window_page, pages);
    for (uint32_t i = nodes; i-- > 0;)
        unhold(cache, cache->nodes[i]);
    return status;
}

static void drop_gone(void *context, enum radix_tier tier, uint32_t value)
{
    struct prefix_cache *cache = context;
    if (tier == RADIX_HOST) {
        cache->host_node[value] = RADIX_NONE;
        kv_host_release(&cache->host, value);
        return;
    }
    cache->page_node[value] = RADIX_NONE; /* first: the tree has dropped the node already */
    if (kv_pool_is_pinned(cache->pool, value))
        kv_pool_unpin(cache->pool, value);
    kv_pool_uncache(cache->pool, value);
}

void prefix_cache_drop_domain(struct prefix_cache *cache, const struct engine_domain *domain)
{
    if (cache->tree == NULL)
        return;
    radix_domain open = radix_tree_find_domain(cache->tree, domain->bytes);
    if (open != RADIX_NONE)
        radix_tree_drop_domain(cache->tree, open, drop_gone, cache);
    struct prefix_published *row = published_find(cache, domain);
    if (row != NULL)
        *row = cache->published[--cache->published_count];
    cache->version++;
}

/* --- host pages of swapped-out sequences --- */

uint32_t prefix_cache_host_available(const struct prefix_cache *cache)
{
    const struct kv_host *host = &cache->host;
    uint32_t units = host->free_count;
    if (cache->tree != NULL)
        units += radix_evict_idle_count(cache->tree, RADIX_HOST);
    for (host_page page = 0; host->windows != NULL && page < host->unit_count; page++)
        if (host->references[page] == 1 && prefix_cache_host_is_cached(cache, page))
            units += kv_host_page_units(host, page) - 1;
    return units;
}

bool prefix_cache_host_is_cached(const struct prefix_cache *cache, host_page page)
{
    return cache->tree != NULL && cache->host_node[page] != RADIX_NONE;
}

bool prefix_cache_host_make_room(struct prefix_cache *cache, uint32_t units)
{
    while (cache->host.free_count < units)
        if (!evict_host(cache))
            return false;
    return true;
}

void prefix_cache_host_reserve(struct prefix_cache *cache, uint32_t units)
{
    cache->host_reserve = units;
}

void prefix_cache_demote(struct prefix_cache *cache, page_id page, host_page to)
{
    radix_node node = cache->tree == NULL ? RADIX_NONE : cache->page_node[page];
    if (node != RADIX_NONE) {
        cache->figures.windows_dropped +=
            kv_pool_has_window(cache->pool, page) && !kv_host_has_window(&cache->host, to);
        cache->page_node[page] = RADIX_NONE; /* first: the node is not idle but moves */
        set_host(cache, node, to);
        kv_host_retain(&cache->host, to);
        kv_pool_uncache(cache->pool, page);
        cache->version++;
    }
    ASSERT(cache->pool->references[page] == 1);
    kv_pool_release(cache->pool, page);
}

void prefix_cache_promote(struct prefix_cache *cache, host_page from, page_id page)
{
    radix_node node = cache->tree == NULL ? RADIX_NONE : cache->host_node[from];
    if (node != RADIX_NONE) {
        forget_host(cache, node);
        set_device(cache, node, page);
    }
    ASSERT(cache->host.references[from] == 1);
    kv_host_release(&cache->host, from);
}

void prefix_cache_host_release(struct prefix_cache *cache, host_page page)
{
    kv_host_release(&cache->host, page);
    if (cache->tree != NULL && cache->host_node[page] != RADIX_NONE)
        host_idle(cache, cache->host_node[page]);
}

void prefix_cache_set_moved(struct prefix_cache *cache,
                            void (*moved)(void *context, uint32_t index, host_page from,
                                          page_id to),
                            void *context)
{
    cache->moved = moved;
    cache->moved_context = context;
}

/* --- figures --- */

void prefix_cache_count(struct prefix_cache *cache, const struct prefix_view *view, uint32_t count,
                        const struct prefix_match *match)
{
    cache->figures.query_tokens += count;
    cache->figures.hit_tokens += match->tokens;
    cache->figures.window_lost_tokens += match->window_lost;
    for (uint32_t i = 0; i < view->visible_count; i++) {
        struct prefix_published *row =
            match->tokens_by[i] == 0 ? NULL : published_find(cache, &view->visible[i]);
        if (row != NULL) {
            row->hits++;
            row->hit_tokens += match->tokens_by[i];
        }
    }
}

uint64_t prefix_cache_version(const struct prefix_cache *cache)
{
    return cache->version;
}

uint32_t prefix_cache_published(const struct prefix_cache *cache, struct prefix_published *out,
                                uint32_t count)
{
    uint32_t given = cache->published_count < count ? cache->published_count : count;
    if (given > 0)
        memcpy(out, cache->published, given * sizeof(*out));
    return given;
}

void prefix_cache_figures(const struct prefix_cache *cache, struct prefix_figures *out)
{
    const struct kv_pool *pool = cache->pool;
    *out = cache->figures;
    out->pages_free = pool->free_count;
    out->pages_idle = kv_pool_available(pool) - pool->free_count;
    out->pages_pinned = kv_pool_units_pinned(pool);
    out->pages_host = cache->host.unit_count - cache->host.free_count;
    out->pages_active = pool->unit_count - kv_pool_available(pool) - out->pages_pinned;
    out->pages_windows = pool->window_count * pool->layout.window_units;
    out->pin_units_max = cache->pin_units_max;
}

/* --- check --- */

static bool check_node(const struct prefix_cache *cache, radix_node node, enum radix_tier tier,
                       uint32_t value, const struct engine_domain *domain)
{
    const uint32_t units = tier == RADIX_HOST ? kv_host_page_units(&cache->host, value)
                                              : 1 + kv_pool_window_units(cache->pool, value);
    return radix_tree_tier(cache->tree, node) == tier &&
           radix_tree_value(cache->tree, node) == value &&
           radix_tree_units(cache->tree, node) == units &&
           radix_tree_domain_of(cache->tree, node) ==
               radix_tree_find_domain(cache->tree, domain->bytes);
}

bool prefix_cache_check(const struct prefix_cache *cache)
{
    const struct kv_pool *pool = cache->pool;
    const struct kv_host *host = &cache->host;
    if (cache->tree == NULL)
        return pool->idle_count == 0 && pool->pinned_count == 0 && kv_host_check(host);
    uint32_t cached = 0;
    for (page_id page = 0; page < pool->unit_count; page++) {
        radix_node node = cache->page_node[page];
        if (kv_pool_is_cached(pool, page) != (node != RADIX_NONE))
            return false;
        if (node != RADIX_NONE &&
            !check_node(cache, node, RADIX_DEVICE, page, &pool->domains[page]))
            return false;
        cached += node != RADIX_NONE;
    }
    uint32_t stored = 0;
    uint32_t stored_idle = 0;
    for (host_page page = 0; page < host->unit_count; page++) {
        radix_node node = cache->host_node[page];
        if (node == RADIX_NONE)
            continue; /* free, or of swapped-out sequences alone: see kv_swap_check */
        if (host->references[page] == 0 ||
            !check_node(cache, node, RADIX_HOST, page, &host->domains[page]))
            return false;
        stored++;
        stored_idle += host->references[page] == 1;
    }
    uint32_t pinned = 0;
    for (uint32_t i = 0; i < cache->published_count; i++)
        pinned += cache->published[i].pages;
    return cached == radix_tree_count(cache->tree, RADIX_DEVICE) &&
           stored == radix_tree_count(cache->tree, RADIX_HOST) &&
           pool->idle_count == radix_evict_idle_count(cache->tree, RADIX_DEVICE) &&
           stored_idle == radix_evict_idle_count(cache->tree, RADIX_HOST) &&
           pinned == pool->pinned_count && kv_pool_units_pinned(pool) <= cache->pin_units_max &&
           kv_host_check(host) && radix_check(cache->tree);
}
