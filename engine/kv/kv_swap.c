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

static void learn_rate(const struct kv_swap *swap, double *page_us, uint32_t pages, int64_t us)
{
    if (swap->options.clock->is_manual || pages < RATE_PAGES_MIN)
        return;
    double measured = (double)us / pages;
    *page_us += (measured - *page_us) * (*page_us > 0 ? rate_weight : 1);
}

/* Copies pages swap->from[0, count) of one pool to swap->to of the other; returns microseconds. */
static int64_t copy_batch(struct kv_swap *swap, bool is_out, uint32_t count)
{
    struct prefix_cache *cache = swap->cache;
    double *page_us = is_out ? &swap->out_us : &swap->in_us;
    int64_t began_us = clock_mono_us(swap->options.clock);
    if (is_out)
        kv_host_out(&cache->host, cache->pool, swap->from, swap->to, count);
    else
        kv_host_in(&cache->host, cache->pool, swap->from, swap->to, count);
    if (kv_pool_are_flying(cache->pool, is_out ? swap->from : swap->to, count))
        return (int64_t)(*page_us * count);
    int64_t us = clock_mono_us(swap->options.clock) - began_us;
    learn_rate(swap, page_us, count, us);
    return us;
}

/* Measures the first rates on free pages: out, then in. The second copy of each counts, since the
 * first touches new memory. */
static enum status init_rates(struct kv_swap *swap)
{
    const struct kv_pool *pool = swap->cache->pool;
    const struct kv_host *host = &swap->cache->host;
    uint32_t count = host->free_count < pool->free_count ? host->free_count : pool->free_count;
    count = count < 2 * RATE_PAGES_MIN ? count : 2 * RATE_PAGES_MIN;
    if (count == 0 || pool->free_count < pool->page_count || swap->options.clock->is_manual)
        return STATUS_OK;
    for (uint32_t i = 0; i < count; i++) {
        swap->from[i] = pool->free_pages[pool->free_count - 1 - i];
        swap->to[i] = host->free_pages[host->free_count - 1 - i];
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
    const uint32_t share = cache->host.page_count / RESERVE_SHARE;
    uint32_t most = cache->pool->page_count > cache->host.page_count ? cache->pool->page_count
                                                                     : cache->host.page_count;
    most = most > 2 * RATE_PAGES_MIN ? most : 2 * RATE_PAGES_MIN;
    *swap = (struct kv_swap){.options = *options, .cache = cache};
    swap->lists = mem_zalloc(options->places, sizeof(*swap->lists));
    swap->entries = mem_zalloc((size_t)options->places * pages, sizeof(*swap->entries));
    swap->from = mem_zalloc(most, sizeof(*swap->from));
    swap->to = mem_zalloc(most, sizeof(*swap->to));
    swap->counts = mem_zalloc(most, sizeof(*swap->counts));
    if (swap->lists == NULL || swap->entries == NULL || swap->from == NULL || swap->to == NULL ||
        swap->counts == NULL) {
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
        kv_pool_retain(swap->cache->pool, to);
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
            prefix_cache_host_release(swap->cache, host_of(entry));
        } else {
            kv_pool_release(swap->cache->pool, entry);
        }
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

/* A sequence that is to be swapped out, and the host pages that it needs. */
struct newcomer {
    const struct kv_swap_owner *owner;
    uint32_t pages;
};

/* Host pages of an owner's tenant in its class: those of lists that are not marked, and those that
 * the newcomer needs. */
static uint64_t tenant_pages(const struct kv_swap *swap, const struct kv_swap_owner *owner,
                             const struct newcomer *newcomer)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        const struct kv_swap_list *list = &swap->lists[i];
        if (!list->is_marked && list->owner.service_class == owner->service_class &&
            is_same_tenant(&list->owner, owner))
            pages += list->host_count;
    }
    if (newcomer->owner != NULL && newcomer->owner->service_class == owner->service_class &&
        is_same_tenant(newcomer->owner, owner))
        pages += newcomer->pages;
    return pages;
}

/* Priority of a list. The first field that differs decides. */
struct priority {
    enum service_class service_class;
    uint64_t pages; /* of the tenant */
    uint32_t weight;
    uint32_t computed;
};

static struct priority priority_of(const struct kv_swap *swap, const struct kv_swap_owner *owner,
                                   uint32_t own_pages, const struct newcomer *newcomer)
{
    uint64_t pages = tenant_pages(swap, owner, newcomer);
    return (struct priority){.service_class = owner->service_class,
                             .pages = pages > 0 ? pages : own_pages,
                             .weight = owner->weight,
                             .computed = owner->computed};
}

static bool priority_is_less(const struct priority *a, const struct priority *b)
{
    if (a->service_class != b->service_class)
        return a->service_class > b->service_class;
    if (a->pages * b->weight != b->pages * a->weight)
        return a->pages * b->weight > b->pages * a->weight;
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
        struct priority priority = priority_of(swap, &list->owner, list->host_count, newcomer);
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

/* Host pages that would be free, or the tree's alone, without this list. */
static uint32_t own_host_pages(const struct kv_swap *swap, const struct kv_swap_list *list)
{
    const struct prefix_cache *cache = swap->cache;
    uint32_t own = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        host_page page = host_of(list->pages[i]);
        own +=
            is_host(list->pages[i]) &&
            cache->host.references[page] == 1 + (uint32_t)prefix_cache_host_is_cached(cache, page);
    }
    return own;
}

/* Marks the lists to drop so that the newcomer has room; false when the lists of less priority do
 * not have enough pages. */
static bool mark_dropped(struct kv_swap *swap, const struct newcomer *newcomer)
{
    uint32_t room = prefix_cache_host_available(swap->cache);
    while (room < newcomer->pages) {
        struct priority least;
        struct kv_swap_list *list = least_priority(swap, true, newcomer, &least);
        struct priority own = priority_of(swap, newcomer->owner, newcomer->pages, newcomer);
        if (list == NULL || !priority_is_less(&least, &own))
            return false;
        list->is_marked = true;
        room += own_host_pages(swap, list);
    }
    return true;
}

static bool make_host_room(struct kv_swap *swap, const struct kv_swap_owner *owner, uint32_t pages)
{
    const struct newcomer newcomer = {owner, pages};
    bool is_roomy = pages <= swap->cache->host.page_count && mark_dropped(swap, &newcomer);
    for (uint32_t i = 0; is_roomy && i < swap->options.places; i++) {
        if (!swap->lists[i].is_marked)
            continue;
        kv_swap_drop(swap, i);
        swap->figures.fallen++;
    }
    unmark(swap);
    return is_roomy && prefix_cache_host_make_room(swap->cache, pages);
}

/* --- out and in --- */

static bool is_private(const struct kv_pool *pool, page_id page)
{
    return !kv_pool_is_pinned(pool, page) &&
           pool->references[page] == 1 + (uint32_t)kv_pool_is_cached(pool, page);
}

uint32_t kv_swap_private(const struct kv_swap *swap, const page_id *pages, uint32_t page_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < page_count; i++)
        count += is_private(swap->cache->pool, pages[i]);
    return count;
}

static void say_too_small(struct kv_swap *swap, uint32_t pages)
{
    if (swap->is_too_small_said || pages <= swap->cache->host.page_count)
        return;
    swap->is_too_small_said = true;
    LOG(LOG_WARN, "host_memory_too_small", LOG_NUMBER("pages_wanted", pages),
        LOG_NUMBER("host_pages", swap->cache->host.page_count),
        LOG_TEXT("instead", "preempted sequences are recomputed"));
}

bool kv_swap_out(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count,
                 const struct kv_swap_owner *owner)
{
    struct kv_swap_list *list = &swap->lists[place];
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    uint32_t count = 0;
    ASSERT(list->page_count == 0);
    ASSERT(owner->weight > 0);
    /* Found before lists are dropped: pages shared only with these become private
     * then, and stay. */
    for (uint32_t i = 0; i < *page_count; i++)
        if (is_private(pool, pages[i]))
            swap->to[count++] = i;
    if (!make_host_room(swap, owner, count)) {
        say_too_small(swap, count);
        swap->figures.refused++;
        return false;
    }
    memcpy(list->pages, pages, *page_count * sizeof(*pages));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = swap->to[i];
        swap->from[i] = pages[index];
        swap->to[i] = kv_host_acquire(host, &pool->domains[pages[index]]);
        list->pages[index] = swap->to[i] | KV_SWAP_HOST;
    }
    swap->figures.out_us += copy_batch(swap, true, count);
    swap->figures.pages_out += count;
    for (uint32_t i = 0; i < count; i++)
        prefix_cache_demote(swap->cache, swap->from[i], swap->to[i]);
    list->page_count = *page_count;
    list->host_count = count;
    list->owner = *owner;
    *page_count = 0;
    return true;
}

/* Free and idle pages, with those kept free for copies: the scheduler has not counted these. */
static uint32_t can_be_had(const struct kv_pool *pool)
{
    return pool->free_count + pool->idle_count;
}

bool kv_swap_in(struct kv_swap *swap, uint32_t place, page_id *pages, uint32_t *page_count)
{
    struct kv_swap_list *list = &swap->lists[place];
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    ASSERT(*page_count == 0);
    if (can_be_had(pool) < list->host_count ||
        !prefix_cache_make_room(swap->cache, list->host_count))
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        pages[i] = list->pages[i];
        if (!is_host(list->pages[i]))
            continue;
        swap->from[count] = host_of(list->pages[i]);
        pages[i] = kv_pool_acquire(pool, &host->domains[swap->from[count]]);
        swap->to[count++] = pages[i];
    }
    swap->figures.in_us += copy_batch(swap, false, count);
    swap->figures.pages_in += count;
    *page_count = list->page_count;
    list->page_count = 0; /* first: `moved` is for the other lists */
    list->host_count = 0;
    list->is_kept = false;
    for (uint32_t i = 0; i < *page_count; i++) {
        if (!is_host(list->pages[i]))
            continue;
        host_page from = host_of(list->pages[i]);
        moved(swap, i, from, pages[i]);
        prefix_cache_promote(swap->cache, from, pages[i]);
    }
    return true;
}

int64_t kv_swap_cost_us(const struct kv_swap *swap, uint32_t pages)
{
    return (int64_t)((swap->out_us + swap->in_us) * pages);
}

/* --- protected pages --- */

void kv_swap_count_holders(const struct kv_swap *swap, uint32_t *holders)
{
    for (uint32_t i = 0; i < swap->options.places; i++)
        for (uint32_t p = 0; p < swap->lists[i].page_count; p++)
            if (!is_host(swap->lists[i].pages[p]))
                holders[swap->lists[i].pages[p]]++;
}

/* Whether the `holders` lists, and perhaps the tree, are all that hold a page. */
static bool is_protected(const struct kv_pool *pool, page_id page, uint32_t holders)
{
    return holders > 0 && !kv_pool_is_pinned(pool, page) &&
           pool->references[page] == holders + (uint32_t)kv_pool_is_cached(pool, page);
}

uint32_t kv_swap_protected(const struct kv_swap *swap)
{
    const struct kv_pool *pool = swap->cache->pool;
    uint32_t count = 0;
    memset(swap->counts, 0, pool->page_count * sizeof(*swap->counts));
    kv_swap_count_holders(swap, swap->counts);
    for (page_id page = 0; page < pool->page_count; page++)
        count += is_protected(pool, page, swap->counts[page]);
    return count;
}

/* Lists with this entry, without kept ones: a page that they hold is not protected now. */
static uint32_t lists_with(const struct kv_swap *swap, uint32_t index, uint32_t entry)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < swap->options.places; i++)
        count += swap->lists[i].page_count > index && swap->lists[i].pages[index] == entry &&
                 !swap->lists[i].is_kept;
    return count;
}

/* Moves a protected page, in all lists that hold it, to host memory; false when there
 * is no room. */
static bool protected_to_host(struct kv_swap *swap, uint32_t index, page_id page)
{
    struct kv_pool *pool = swap->cache->pool;
    struct kv_host *host = &swap->cache->host;
    bool is_first = true;
    if (!prefix_cache_host_make_room(swap->cache, 1))
        return false;
    swap->from[0] = page;
    swap->to[0] = kv_host_acquire(host, &pool->domains[page]);
    swap->figures.out_us += copy_batch(swap, true, 1);
    swap->figures.pages_out++;
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->page_count <= index || list->pages[index] != page)
            continue;
        list->pages[index] = swap->to[0] | KV_SWAP_HOST;
        list->host_count++;
        if (!is_first) {
            kv_host_retain(host, swap->to[0]);
            kv_pool_release(pool, page);
        }
        is_first = false;
    }
    prefix_cache_demote(swap->cache, page, swap->to[0]);
    return true;
}

static void protected_drop(struct kv_swap *swap, uint32_t index, page_id page)
{
    for (uint32_t i = 0; i < swap->options.places; i++) {
        struct kv_swap_list *list = &swap->lists[i];
        if (list->page_count > index && list->pages[index] == page)
            cut(swap, list, index);
    }
}

uint32_t kv_swap_give_way(struct kv_swap *swap, uint32_t pages)
{
    const struct kv_pool *pool = swap->cache->pool;
    const uint32_t before = can_be_had(pool);
    const struct newcomer nobody = {0};
    struct priority least;
    struct kv_swap_list *list;
    while ((list = least_priority(swap, false, &nobody, &least)) != NULL) {
        list->is_marked = true;
        for (uint32_t i = list->page_count; i-- > 0;) {
            uint32_t page = list->pages[i];
            if (can_be_had(pool) - before >= pages)
                break;
            if (is_host(page) || !is_protected(pool, page, lists_with(swap, i, page)))
                continue;
            if (protected_to_host(swap, i, page)) {
                swap->figures.protected_to_host++;
            } else {
                protected_drop(swap, i, page);
                swap->figures.protected_dropped++;
            }
        }
    }
    unmark(swap);
    return can_be_had(pool) - before;
}

/* --- check --- */

static bool check_list(const struct kv_swap *swap, const struct kv_swap_list *list)
{
    const struct prefix_cache *cache = swap->cache;
    uint32_t host_count = 0;
    for (uint32_t i = 0; i < list->page_count; i++) {
        uint32_t entry = list->pages[i];
        host_count += is_host(entry);
        if (is_host(entry)
                ? host_of(entry) >= cache->host.page_count
                : entry >= cache->pool->page_count || cache->pool->references[entry] == 0)
            return false;
        if (is_host(entry))
            swap->counts[host_of(entry)]++;
    }
    return host_count == list->host_count && !list->is_marked;
}

bool kv_swap_check(const struct kv_swap *swap)
{
    const struct kv_host *host = &swap->cache->host;
    memset(swap->counts, 0, host->page_count * sizeof(*swap->counts));
    for (uint32_t i = 0; i < swap->options.places; i++)
        if (!check_list(swap, &swap->lists[i]))
            return false;
    for (host_page page = 0; page < host->page_count; page++)
        if (host->references[page] !=
            swap->counts[page] + (uint32_t)prefix_cache_host_is_cached(swap->cache, page))
            return false;
    return kv_host_check(host);
}
