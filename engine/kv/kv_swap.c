#include "engine/kv/kv_swap.h"

#include <string.h>

#include "config/base/log.h"
#include "config/base/mem.h"

/* Smaller batches say little about the rate: most of their time is the hand-over to the threads. */
enum { RATE_PAGES_MIN = 4 };
/* At most one in this many host pages is reserved for swapping. */
enum { RESERVE_SHARE = 8 };

/* Weight of a new batch in the measured rate. */
static const double rate_weight = 0.25;

static const struct engine_domain no_domain;

static bool is_host(uint32_t entry)
{
    return (entry & KV_SWAP_HOST) != 0;
}

static host_page host_of(uint32_t entry)
{
    return entry & ~KV_SWAP_HOST;
}

/* --- copies --- */

static void learn_rate(const struct kv_swap *swap, double *unit_us, uint32_t units, int64_t us)
{
    if (swap->options.clock->is_manual || units < RATE_PAGES_MIN)
        return;
    double measured = (double)us / units;
    *unit_us += (measured - *unit_us) * (*unit_us > 0 ? rate_weight : 1);
}

/* Copies pages swap->from[0, count) of one pool to swap->to of the other, and counts them. */
static void copy_batch(struct kv_swap *swap, bool is_out, uint32_t count)
{
    struct prefix_cache *cache = swap->cache;
    struct kv_swap_figures *figures = &swap->figures;
    double *unit_us = is_out ? &swap->out_us : &swap->in_us;
    int64_t began_us = clock_mono_us(swap->options.clock);
    uint32_t units = is_out ? kv_host_out(&cache->host, cache->pool, swap->from, swap->to, count)
                            : kv_host_in(&cache->host, cache->pool, swap->from, swap->to, count);
    int64_t us = (int64_t)(*unit_us * units);
    if (!kv_pool_are_flying(cache->pool, is_out ? swap->from : swap->to, count)) {
        us = clock_mono_us(swap->options.clock) - began_us;
        learn_rate(swap, unit_us, units, us);
    }
    *(is_out ? &figures->out_us : &figures->in_us) += us;
    *(is_out ? &figures->pages_out : &figures->pages_in) += count;
    *(is_out ? &figures->units_out : &figures->units_in) += units;
}

/* Measures the first rates on free pages: out, then in. The second copy of each counts, since the
 * first touches new memory. */
static enum status init_rates(struct kv_swap *swap)
{
    const struct kv_pool *pool = swap->cache->pool;
    const struct kv_host *host = &swap->cache->host;
    uint32_t count = host->free_count < pool->free_count ? host->free_count : pool->free_count;
    count = count < 2 * RATE_PAGES_MIN ? count : 2 * RATE_PAGES_MIN;
    if (count == 0 || pool->free_count < pool->unit_count || swap->options.clock->is_manual)
        return STATUS_OK;
    for (uint32_t i = 0; i < count; i++) {
        swap->from[i] = pool->free_units[pool->free_count - 1 - i];
        swap->to[i] = host->free_units[host->free_count - 1 - i];
    }
    const struct pages_copy_args out = {host->memory, pool->memory, swap->to,
                                        swap->from,   count,        host->page_bytes};
    const struct pages_copy_args in = {pool->memory, host->memory, swap->from,
                                       swap->to,     count,        host->page_bytes};
    for (uint32_t i = 0; i < 4; i++) {
        int64_t began_us = clock_mono_us(swap->options.clock);
        kernels_pages_copy(swap->options.kernels, i < 2 ? &out : &in);
        TRY(kernels_pages_end(swap->options.kernels));
        double page_us = (double)(clock_mono_us(swap->options.clock) - began_us) / count;
        *(i < 2 ? &swap->out_us : &swap->in_us) = page_us;
    }
    return STATUS_OK;
}

/* --- start and end --- */

static void moved(void *context, uint32_t index, host_page from, page_id to);

enum status kv_swap_init(struct kv_swap *swap, const struct kv_swap_options *options)
{
    struct prefix_cache *cache = options->cache;
    const uint32_t pages = kv_pool_pages_for(cache->pool, options->context);
    const uint32_t share = cache->host.unit_count / RESERVE_SHARE;
    uint32_t most = cache->pool->unit_count > cache->host.unit_count ? cache->pool->unit_count
                                                                     : cache->host.unit_count;
    most = most > 2 * RATE_PAGES_MIN ? most : 2 * RATE_PAGES_MIN;
    *swap = (struct kv_swap){.options = *options, .cache = cache};
    swap->lists = mem_zalloc(options->places, sizeof(*swap->lists));
    swap->entries = mem_zalloc((size_t)options->places * pages, sizeof(*swap->entries));
    swap->from = mem_zalloc(most, sizeof(*swap->from));
    swap->to = mem_zalloc(most, sizeof(*swap->to));
    swap->counts = mem_zalloc(most, sizeof(*swap->counts));
    swap->needs = mem_zalloc(most, sizeof(*swap->needs));
    if (swap->lists == NULL || swap->entries == NULL || swap->from == NULL || swap->to == NULL ||
        swap->counts == NULL || swap->needs == NULL) {
        kv_swap_deinit(swap);
        FAIL(STATUS_NO_MEMORY, "no memory for the swap lists of %u sequences", options->places);
    }
    for (uint32_t i = 0; i < options->places; i++)
        swap->lists[i].pages = swap->entries + (size_t)i * pages;
    prefix_cache_set_moved(cache, moved, swap);
    prefix_cache_host_reserve(cache,
                              options->exchange_pages < share ? options->exchange_pages : share);
    enum status status = init_rates(swap);
    if (status != STATUS_OK)
        kv_swap_deinit(swap);
    return status;
}

void kv_swap_deinit(struct kv_swap *swap)
{
    for (uint32_t i = 0; swap->lists != NULL && i < swap->options.places; i++)
        kv_swap_drop(swap, i);
    if (swap->cache != NULL)
        prefix_cache_set_moved(swap->cache, NULL, NULL);
    mem_free(swap->lists);
    mem_free(swap->entries);
    mem_free(swap->from);
    mem_free(swap->to);
    mem_free(swap->counts);
    mem_free(swap->needs);
    *swap = (struct kv_swap){0};
}

/* --- entries --- */

/* In all lists, entries `index` that are host page `from` become pool page `to`. A page has the
 * same index in all lists that hold it. */
static void moved(void *context, uint32_t index, host_page from, page_id to)
{
    struct kv_swap *swap = context;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->page_count <= index || list->pages[index] != (from | KV_SWAP_HOST))
            continue;
        list->pages[index] = to;
        list->host_count--;
        list->host_units -= kv_host_page_units(&swap->cache->host, from);
        kv_pool_retain(swap->cache->pool, to);
        if (index >= list->window_page)
            kv_pool_need_window(swap->cache->pool, to);
        kv_host_release(&swap->cache->host, from);
    }
}

/* Releases from the last page to the first, so that the page idle for longest in the tree
 * is a leaf. */
static void cut(struct kv_swap *swap, struct kv_swap_list *list, uint32_t pages)
{
    while (list->page_count > pages) {
        uint32_t entry = list->pages[--list->page_count];
        if (is_host(entry)) {
            list->host_count--;
            list->host_units -= kv_host_page_units(&swap->cache->host, host_of(entry));
            prefix_cache_host_release(swap->cache, host_of(entry));
            continue;
        }
        if (list->page_count >= list->window_page)
            kv_pool_unneed_window(swap->cache->pool, entry);
        kv_pool_release(swap->cache->pool, entry);
    }
}

void kv_swap_drop(struct kv_swap *swap, uint32_t place)
{
    cut(swap, &swap->lists[place], 0);
    swap->lists[place].is_kept = false;
}

void kv_swap_keep(struct kv_swap *swap, uint32_t place, bool is_kept)
{
    swap->lists[place].is_kept = is_kept && swap->lists[place].page_count > 0;
}

void kv_swap_lower(struct kv_swap *swap, uint32_t place, enum service_class service_class)
{
    swap->lists[place].owner.service_class = service_class;
}

/* --- which lists are dropped --- */

static bool is_same_tenant(const struct kv_swap_owner *a, const struct kv_swap_owner *b)
{
    return memcmp(&a->tenant, &no_domain, sizeof(no_domain)) != 0 &&
           memcmp(&a->tenant, &b->tenant, sizeof(a->tenant)) == 0;
}

/* A sequence that is to be swapped out, and the host units that it needs. */
struct newcomer {
    const struct kv_swap_owner *owner;
    uint32_t units;
};

/* Host units of an owner's tenant in its class: those of lists that are not marked, and those that
 * the newcomer needs. */
static uint64_t tenant_units(const struct kv_swap *swap, const struct kv_swap_owner *owner,
                             const struct newcomer *newcomer)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        const struct kv_swap_list *list = &swap->lists[i];
        if (!list->is_marked && list->owner.service_class == owner->service_class &&
            is_same_tenant(&list->owner, owner))
            units += list->host_units;
    }
    if (newcomer->owner != NULL && newcomer->owner->service_class == owner->service_class &&
        is_same_tenant(newcomer->owner, owner))
        units += newcomer->units;
    return units;
}

/* Priority of a list. The first field that differs decides. */
struct priority {
    enum service_class service_class;
    uint64_t units; /* of the tenant */
    uint32_t weight;
    uint32_t computed;
};

static struct priority priority_of(const struct kv_swap *swap, const struct kv_swap_owner *owner,
                                   uint32_t own_units, const struct newcomer *newcomer)
{
    uint64_t units = tenant_units(swap, owner, newcomer);
    return (struct priority){.service_class = owner->service_class,
                             .units = units > 0 ? units : own_units,
                             .weight = owner->weight,
                             .computed = owner->computed};
}

static bool priority_is_less(const struct priority *a, const struct priority *b)
{
    if (a->service_class != b->service_class)
        return a->service_class > b->service_class;
    if (a->units * b->weight != b->units * a->weight)
        return a->units * b->weight > b->units * a->weight;
    return a->computed < b->computed;
}

/* The list of least priority among those not marked or kept that hold pages in host memory (or any
 * pages, if not `is_of_host`); NULL when there is none. */
static struct kv_swap_list *least_priority(const struct kv_swap *swap, bool is_of_host,
                                           const struct newcomer *newcomer, struct priority *out)
{
    struct kv_swap_list *least = NULL;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->is_marked || list->is_kept ||
            (is_of_host ? list->host_count : list->page_count) == 0)
            continue;
        if (least != NULL && list->owner.service_class < out->service_class)
            continue; /* of a more urgent class: its tenant's pages need not be counted */
        struct priority priority = priority_of(swap, &list->owner, list->host_units, newcomer);
        if (least != NULL && !priority_is_less(&priority, out))
            continue;
        least = list;
        *out = priority;
    }
    return least;
}

static void unmark(struct kv_swap *swap)
{
    for (uint32_t i = 0; i < swap->options.places; i++)
        swap->lists[i].is_marked = false;
}

/* Host units that would be free, or the tree's alone, without this list. */
static uint32_t own_host_units(const struct kv_swap *swap, const struct kv_swap_list *list)
{
    const struct prefix_cache *cache = swap->cache;
    uint32_t own = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        host_page page = host_of(list->pages[i]);
        if (is_host(list->pages[i]) &&
            cache->host.references[page] == 1 + (uint32_t)prefix_cache_host_is_cached(cache, page))
            own += kv_host_page_units(&cache->host, page);
    }
    return own;
}

/* Marks the lists to drop so that the newcomer has room; false when the lists of less priority do
 * not have enough pages. */
static bool mark_dropped(struct kv_swap *swap, const struct newcomer *newcomer)
{
    uint32_t room = prefix_cache_host_available(swap->cache);
    while (room < newcomer->units) {
        struct priority least;
        struct kv_swap_list *list = least_priority(swap, true, newcomer, &least);
        struct priority own = priority_of(swap, newcomer->owner, newcomer->units, newcomer);
        if (list == NULL || !priority_is_less(&least, &own))
            return false;
        list->is_marked = true;
        room += own_host_units(swap, list);
    }
    return true;
}

static bool make_host_room(struct kv_swap *swap, const struct kv_swap_owner *owner, uint32_t units)
{
    const struct newcomer newcomer = {owner, units};
    bool is_roomy = units <= swap->cache->host.unit_count && mark_dropped(swap, &newcomer);
    for (uint32_t i = 0; is_roomy && i < swap->options.places; i++) {
        if (!swap->lists[i].is_marked)
            continue;
        kv_swap_drop(swap, i);
        swap->figures.fallen++;
    }
    unmark(swap);
    return is_roomy && prefix_cache_host_make_room(swap->cache, units);
}

/* --- out and in --- */

static bool is_private(const struct kv_pool *pool, page_id page)
{
    return !kv_pool_is_pinned(pool, page) &&
           pool->references[page] == 1 + (uint32_t)kv_pool_is_cached(pool, page);
}

/* Whether a copy of a page takes its window units along: its sequence resumes inside its window, or
 * the tree keeps it as a tail. */
static bool takes_window(const struct kv_pool *pool, page_id page, bool is_in_window)
{
    return kv_pool_window_units(pool, page) > 0 &&
           (is_in_window || (kv_pool_is_tail(pool, page) && kv_pool_is_cached(pool, page)));
}

uint32_t kv_swap_private(const struct kv_swap *swap, const page_id *pages, uint32_t page_count,
                         uint32_t computed, uint32_t *units)
{
    const struct kv_pool *pool = swap->cache->pool;
    const uint32_t window_page = kv_pool_window_page(pool, computed);
    uint32_t count = 0;
    *units = 0;
    for (uint32_t i = 0; i < page_count; i++) {
        if (!is_private(pool, pages[i]))
            continue;
        count++;
        *units += takes_window(pool, pages[i], i >= window_page) ? kv_pool_page_units(pool) : 1;
    }
    return count;
}

static void say_too_small(struct kv_swap *swap, uint32_t units)
{
    if (swap->is_too_small_said || units <= swap->cache->host.unit_count)
        return;
    swap->is_too_small_said = true;
    LOG(LOG_WARN, "host_memory_too_small", LOG_NUMBER("pages_wanted", units),
        LOG_NUMBER("host_pages", swap->cache->host.unit_count),
        LOG_TEXT("instead", "preempted sequences are recomputed"));
}

bool kv_swap_out(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count,
                 const struct kv_swap_owner *owner)
{
    struct kv_swap_list *list = &swap->lists[place];
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    uint32_t units;
    uint32_t count = 0;
    ASSERT(list->page_count == 0);
    ASSERT(owner->weight > 0);
    list->window_page = kv_pool_window_page(pool, owner->computed);
    /* Found before lists are dropped: pages shared only with these become private
     * then, and stay. */
    (void)kv_swap_private(swap, pages, *page_count, owner->computed, &units);
    for (uint32_t i = 0; i < *page_count; i++)
        if (is_private(pool, pages[i]))
            swap->to[count++] = i;
    if (!make_host_room(swap, owner, units)) {
        say_too_small(swap, units);
        swap->figures.refused++;
        return false;
    }
    memcpy(list->pages, pages, *page_count * sizeof(*pages));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = swap->to[i];
        swap->from[i] = pages[index];
        swap->to[i] = kv_host_acquire(host, &pool->domains[pages[index]]);
        if (takes_window(pool, pages[index], index >= list->window_page))
            kv_host_add_window(host, swap->to[i]);
        list->pages[index] = swap->to[i] | KV_SWAP_HOST;
    }
    copy_batch(swap, true, count);
    for (uint32_t i = list->window_page; i < *page_count; i++)
        if (is_host(list->pages[i]))
            kv_pool_unneed_window(pool, pages[i]);
    for (uint32_t i = 0; i < count; i++)
        prefix_cache_demote(swap->cache, swap->from[i], swap->to[i]);
    list->page_count = *page_count;
    list->host_count = count;
    list->host_units = units;
    list->owner = *owner;
    *page_count = 0;
    return true;
}

/* What is available, with the units kept free for copies: the scheduler has not counted these. */
static uint32_t can_be_had(const struct kv_pool *pool)
{
    return kv_pool_available(pool);
}

/* Fresh pool page for a host page, with window units if that has some. */
static page_id fresh_page(struct kv_pool *pool, const struct kv_host *host, host_page from)
{
    page_id page = kv_pool_acquire(pool, &host->domains[from]);
    if (kv_host_page_units(host, from) > 1)
        kv_pool_add_window(pool, page);
    return page;
}

bool kv_swap_in(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count)
{
    struct kv_swap_list *list = &swap->lists[place];
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    ASSERT(*page_count == 0);
    if (can_be_had(pool) < list->host_units ||
        !prefix_cache_make_room(swap->cache, list->host_units))
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        pages[i] = list->pages[i];
        if (!is_host(list->pages[i]))
            continue;
        swap->from[count] = host_of(list->pages[i]);
        pages[i] = fresh_page(pool, host, swap->from[count]);
        swap->to[count++] = pages[i];
    }
    copy_batch(swap, false, count);
    *page_count = list->page_count;
    list->page_count = 0; /* first: `moved` is for the other lists */
    list->host_count = 0;
    list->host_units = 0;
    list->is_kept = false;
    for (uint32_t i = 0; i < *page_count; i++) {
        if (!is_host(list->pages[i]))
            continue;
        host_page from = host_of(list->pages[i]);
        moved(swap, i, from, pages[i]);
        prefix_cache_promote(swap->cache, from, pages[i]);
        if (i >= list->window_page || kv_pool_window_units(pool, pages[i]) == 0)
            continue;
        kv_pool_keep_tail(pool, pages[i]); /* a tail of the tree, before the window */
        kv_pool_unneed_window(pool, pages[i]);
    }
    return true;
}

int64_t kv_swap_cost_us(const struct kv_swap *swap, uint32_t units)
{
    return (int64_t)((swap->out_us + swap->in_us) * units);
}

/* --- protected pages --- */

void kv_swap_count_holders(const struct kv_swap *swap, uint32_t *holders, uint32_t *needs)
{
    const bool has_windows = swap->cache->pool->windows != NULL;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        const struct kv_swap_list *list = &swap->lists[i];
        for (uint32_t p = 0; p < list->page_count; p++) {
            if (is_host(list->pages[p]))
                continue;
            holders[list->pages[p]]++;
            if (needs != NULL && has_windows && p >= list->window_page)
                needs[list->pages[p]]++;
        }
    }
}

/* Whether the `holders` lists, and perhaps the tree, are all that hold a page. */
static bool is_protected(const struct kv_pool *pool, page_id page, uint32_t holders)
{
    return holders > 0 && !kv_pool_is_pinned(pool, page) &&
           pool->references[page] == holders + (uint32_t)kv_pool_is_cached(pool, page);
}

/* Whether the window units of a page would be spare without the `needs` lists that need them. */
static bool is_window_protected(const struct kv_pool *pool, page_id page, uint32_t needs)
{
    return needs > 0 && kv_pool_needs(pool, page) == needs &&
           !(kv_pool_is_pinned(pool, page) && kv_pool_is_tail(pool, page));
}

uint32_t kv_swap_protected(const struct kv_swap *swap)
{
    const struct kv_pool *pool = swap->cache->pool;
    uint32_t count = 0;
    memset(swap->counts, 0, pool->unit_count * sizeof(*swap->counts));
    memset(swap->needs, 0, pool->unit_count * sizeof(*swap->needs));
    kv_swap_count_holders(swap, swap->counts, swap->needs);
    for (page_id page = 0; page < pool->unit_count; page++) {
        count += is_protected(pool, page, swap->counts[page]);
        if (is_window_protected(pool, page, swap->needs[page]))
            count += pool->layout.window_units;
    }
    return count;
}

/* Lists with this entry, without kept ones: a page that they hold is not protected now. With
 * `is_in_window` only those that need its window. */
static uint32_t lists_with(const struct kv_swap *swap, uint32_t index, uint32_t entry,
                           bool is_in_window)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < swap->options.places; i++)
        count += swap->lists[i].page_count > index && swap->lists[i].pages[index] == entry &&
                 !swap->lists[i].is_kept && (!is_in_window || index >= swap->lists[i].window_page);
    return count;
}

/* Moves a protected page, in all lists that hold it, to host memory; false when there
 * is no room. */
static bool protected_to_host(struct kv_swap *swap, uint32_t index, page_id page)
{
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    const bool has_window = takes_window(pool, page, kv_pool_needs(pool, page) > 0);
    const uint32_t units = has_window ? kv_pool_page_units(pool) : 1;
    bool is_first = true;
    if (!prefix_cache_host_make_room(swap->cache, units))
        return false;
    swap->from[0] = page;
    swap->to[0] = kv_host_acquire(host, &pool->domains[page]);
    if (has_window)
        kv_host_add_window(host, swap->to[0]);
    copy_batch(swap, true, 1);
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->page_count <= index || list->pages[index] != page)
            continue;
        list->pages[index] = swap->to[0] | KV_SWAP_HOST;
        list->host_count++;
        list->host_units += units;
        if (index >= list->window_page)
            kv_pool_unneed_window(pool, page);
        if (!is_first) {
            kv_host_retain(host, swap->to[0]);
            kv_pool_release(pool, page);
        }
        is_first = false;
    }
    prefix_cache_demote(swap->cache, page, swap->to[0]);
    return true;
}

/* Cuts all lists that hold a page there. Where the layout has window units, the window behind the
 * new end would be missing: the lists are dropped. */
static void protected_drop(struct kv_swap *swap, uint32_t index, page_id page)
{
    const uint32_t left = swap->cache->pool->windows == NULL ? index : 0;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->page_count > index && list->pages[index] == page)
            cut(swap, list, left);
    }
}

/* Makes what page `index` of a list has available, if only lists hold it back. */
static void give_page(struct kv_swap *swap, struct kv_swap_list *list, uint32_t index)
{
    const struct kv_pool *pool = swap->cache->pool;
    const uint32_t page = list->pages[index];
    if (is_host(page))
        return;
    bool is_own = is_protected(pool, page, lists_with(swap, index, page, false));
    if (!is_own && !is_window_protected(pool, page, lists_with(swap, index, page, true)))
        return;
    if (is_own && protected_to_host(swap, index, page)) {
        swap->figures.protected_to_host++;
    } else {
        protected_drop(swap, index, page);
        swap->figures.protected_dropped++;
    }
}

uint32_t kv_swap_give_way(struct kv_swap *swap, uint32_t units)
{
    const struct kv_pool *pool = swap->cache->pool;
    const uint32_t before = can_be_had(pool);
    const struct newcomer nobody = {0};
    struct priority least;
    struct kv_swap_list *list;
    while ((list = least_priority(swap, false, &nobody, &least)) != NULL) {
        list->is_marked = true;
        for (uint32_t i = list->page_count; i-- > 0 && i < list->page_count;) {
            if (can_be_had(pool) - before >= units)
                break;
            give_page(swap, list, i);
        }
    }
    unmark(swap);
    return can_be_had(pool) - before;
}

/* --- check --- */

static bool check_list(const struct kv_swap *swap, const struct kv_swap_list *list)
{
    const struct kv_pool *pool = swap->cache->pool;
    const struct kv_host *host = &swap->cache->host;
    uint32_t host_count = 0;
    uint32_t host_units = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        const uint32_t entry = list->pages[i];
        if (is_host(entry) ? host_of(entry) >= host->unit_count
                           : entry >= pool->unit_count || pool->references[entry] == 0)
            return false;
        if (i >= list->window_page && !(is_host(entry) ? kv_host_has_window(host, host_of(entry))
                                                       : kv_pool_has_window(pool, entry)))
            return false;
        if (!is_host(entry))
            continue;
        host_count++;
        host_units += kv_host_page_units(host, host_of(entry));
        swap->counts[host_of(entry)]++;
    }
    return host_count == list->host_count && host_units == list->host_units && !list->is_marked;
}

bool kv_swap_check(const struct kv_swap *swap)
{
    const struct kv_host *host = &swap->cache->host;
    memset(swap->counts, 0, host->unit_count * sizeof(*swap->counts));
    for (uint32_t i = 0; i < swap->options.places; i++)
        if (!check_list(swap, &swap->lists[i]))
            return false;
    for (host_page page = 0; page < host->unit_count; page++)
        if (host->references[page] !=
            swap->counts[page] + (uint32_t)prefix_cache_host_is_cached(swap->cache, page))
            return false;
    return kv_host_check(host);
}
