#include "engine/kv/kv_host.h"

#include <string.h>

#include "config/base/mem.h"

/* Arrays of window units, where the layout has some. */
static enum status init_windows(struct kv_host *host)
{
    const size_t units = (size_t)host->unit_count * host->window_units;
    if (units == 0)
        return STATUS_OK;
    host->windows = mem_alloc(units * sizeof(*host->windows));
    host->from = mem_zalloc(host->unit_count, sizeof(*host->from));
    host->to = mem_zalloc(host->unit_count, sizeof(*host->to));
    if (host->windows == NULL || host->from == NULL || host->to == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the window units of %u host units", host->unit_count);
    memset(host->windows, 0xff, units * sizeof(*host->windows));
    return STATUS_OK;
}

enum status kv_host_init(struct kv_host *host, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes)
{
    const size_t page_bytes = layout->page_bytes;
    ASSERT(page_bytes > 0);
    uint64_t pages = bytes / page_bytes;
    if (pages > KV_POOL_NONE - 1)
        pages = KV_POOL_NONE - 1;
    *host = (struct kv_host){.kernels = kernels,
                             .page_bytes = page_bytes,
                             .unit_count = (uint32_t)pages,
                             .window_units = layout->window_units};
    if (pages == 0)
        return STATUS_OK;
    host->memory = kernels_host_create(kernels, pages * page_bytes);
    if (host->memory == NULL) {
        *host = (struct kv_host){0};
        return kernels_no_host_memory(kernels, pages * page_bytes, "KV pages");
    }
    host->free_units = mem_zalloc(pages, sizeof(*host->free_units));
    host->references = mem_zalloc(pages, sizeof(*host->references));
    host->domains = mem_zalloc(pages, sizeof(*host->domains));
    host->batches = mem_zalloc(pages, sizeof(*host->batches));
    if (host->free_units == NULL || host->references == NULL || host->domains == NULL ||
        host->batches == NULL) {
        kv_host_deinit(host);
        FAIL(STATUS_NO_MEMORY, "no memory for %llu host pages of %zu bytes",
             (unsigned long long)pages, page_bytes);
    }
    const enum status status = init_windows(host);
    if (status != STATUS_OK) {
        kv_host_deinit(host);
        return status;
    }
    for (uint32_t i = 0; i < host->unit_count; i++)
        host->free_units[i] = host->unit_count - 1 - i;
    host->free_count = host->unit_count;
#ifdef BANYAN_SLOW_CHECKS
    host->poison = mem_alloc(page_bytes);
    if (host->poison == NULL) {
        kv_host_deinit(host);
        FAIL(STATUS_NO_MEMORY, "no memory for the poison of %llu host pages of %zu bytes",
             (unsigned long long)pages, page_bytes);
    }
    memset(host->poison, 0xff, page_bytes);
#endif
    return STATUS_OK;
}

void kv_host_deinit(struct kv_host *host)
{
    if (host->memory != NULL) {
        (void)kernels_pages_end(host->kernels); /* after a device failure no copy runs either */
        kernels_host_destroy(host->kernels, host->memory);
    }
    mem_free(host->free_units);
    mem_free(host->references);
    mem_free(host->domains);
    mem_free(host->batches);
    mem_free(host->windows);
    mem_free(host->from);
    mem_free(host->to);
    mem_free(host->poison);
    *host = (struct kv_host){0};
}

static char *unit_memory(const struct kv_host *host, uint32_t unit)
{
    return (char *)host->memory + (size_t)unit * host->page_bytes;
}

host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain)
{
    if (host->free_count == 0)
        return KV_POOL_NONE;
    host_page page = host->free_units[--host->free_count];
    ASSERT(host->references[page] == 0);
    host->references[page] = 1;
    host->domains[page] = *domain;
    return page;
}

void kv_host_add_window(struct kv_host *host, host_page page)
{
    if (host->windows == NULL)
        return;
    ASSERT(host->references[page] > 0);
    ASSERT(!kv_host_has_window(host, page));
    ASSERT(host->free_count >= host->window_units);
    for (uint32_t i = 0; i < host->window_units; i++)
        host->windows[(size_t)page * host->window_units + i] = host->free_units[--host->free_count];
}

/* Records the copy of one page with the units that its host page has; both pages are held and of
 * one domain. */
static void copied(struct kv_host *host, struct kv_pool *pool, host_page page, page_id of,
                   uint64_t batch)
{
    ASSERT(page < host->unit_count);
    ASSERT(host->references[page] > 0);
    ASSERT(pool->references[of] > 0);
    ASSERT(memcmp(&host->domains[page], &pool->domains[of], sizeof(pool->domains[of])) == 0);
    host->batches[page] = batch;
    for (uint32_t group = 0; group < kv_host_page_units(host, page); group++)
        kv_pool_fly(pool, kv_pool_unit(pool, of, group), batch);
}

/* Copies `count` pages, pool page in_pool[i] from or to host page in_host[i]. */
static uint32_t copy(struct kv_host *host, struct kv_pool *pool, const page_id *in_pool,
                     const host_page *in_host, uint32_t count, bool is_out)
{
    struct pages_copy_args args = {.to = is_out ? host->memory : pool->memory,
                                   .from = is_out ? pool->memory : host->memory,
                                   .to_pages = is_out ? in_host : in_pool,
                                   .from_pages = is_out ? in_pool : in_host,
                                   .count = count,
                                   .page_bytes = host->page_bytes};
    if (host->windows != NULL) {
        args.to_pages = host->to;
        args.from_pages = host->from;
        args.count = 0;
    }
    for (uint32_t i = 0; host->windows != NULL && i < count; i++) {
        ASSERT(!kv_host_has_window(host, in_host[i]) || kv_pool_has_window(pool, in_pool[i]));
        for (uint32_t group = 0; group < kv_host_page_units(host, in_host[i]); group++) {
            const uint32_t at_host = kv_host_unit(host, in_host[i], group);
            const uint32_t at_pool = kv_pool_unit(pool, in_pool[i], group);
            host->to[args.count] = is_out ? at_host : at_pool;
            host->from[args.count++] = is_out ? at_pool : at_host;
        }
    }
    if (count == 0)
        return 0;
    const uint64_t batch = kernels_pages_copy(host->kernels, &args);
    for (uint32_t i = 0; i < count; i++)
        copied(host, pool, in_host[i], in_pool[i], batch);
    kv_pool_land(pool);
    return args.count;
}

uint32_t kv_host_out(struct kv_host *host, struct kv_pool *pool, const page_id *from,
                     const host_page *to, uint32_t count)
{
    return copy(host, pool, from, to, count, true);
}

uint32_t kv_host_in(struct kv_host *host, struct kv_pool *pool, const host_page *from,
                    const page_id *to, uint32_t count)
{
    ASSERT(!kv_pool_are_flying(pool, to, count)); /* fresh pages: none of them is still copied */
    return copy(host, pool, to, from, count, false);
}

void kv_host_wait(struct kv_host *host, host_page page)
{
    kernels_pages_wait(host->kernels, host->batches[page]);
}

const void *kv_host_get(const struct kv_host *host, host_page page, uint32_t group,
                        const struct engine_domain *domain)
{
    ASSERT(page < host->unit_count);
    ASSERT(host->references[page] > 0);
    ASSERT(memcmp(host->domains[page].bytes, domain->bytes, sizeof(domain->bytes)) == 0);
    return unit_memory(host, kv_host_unit(host, page, group));
}

void kv_host_retain(struct kv_host *host, host_page page)
{
    ASSERT(page < host->unit_count);
    ASSERT(host->references[page] > 0);
    ASSERT(host->references[page] < UINT32_MAX);
    host->references[page]++;
}

static void give_free(struct kv_host *host, uint32_t unit, uint64_t batch)
{
    ASSERT(host->free_count < host->unit_count);
    host->free_units[host->free_count++] = unit;
#ifdef BANYAN_SLOW_CHECKS
    /* As in kv_pool: reading a released unit shows. The upload runs after work submitted before,
     * which may read the unit. */
    if (batch <= kernels_pages_ended(host->kernels))
        kernels_upload(host->kernels, unit_memory(host, unit), host->poison, host->page_bytes);
#else
    (void)batch;
#endif
}

void kv_host_release(struct kv_host *host, host_page page)
{
    ASSERT(page < host->unit_count);
    ASSERT(host->references[page] > 0);
    if (--host->references[page] > 0)
        return;
    host->domains[page] = (struct engine_domain){0};
    for (uint32_t group = kv_host_page_units(host, page); group-- > 1;) {
        give_free(host, kv_host_unit(host, page, group), host->batches[page]);
        host->windows[(size_t)page * host->window_units + group - 1] = KV_POOL_NONE;
    }
    give_free(host, page, host->batches[page]);
}

/* Adds the window units of held pages to the sums; false when a page has some but not all, or one
 * that is a page itself. */
static bool check_windows(const struct kv_host *host, uint32_t *count, uint64_t *sum,
                          uint64_t *squares)
{
    for (host_page page = 0; host->windows != NULL && page < host->unit_count; page++) {
        const bool has = kv_host_has_window(host, page);
        for (uint32_t i = 0; i < host->window_units; i++) {
            const uint32_t unit = host->windows[(size_t)page * host->window_units + i];
            if ((unit != KV_POOL_NONE) != has ||
                (has && (host->references[page] == 0 || unit >= host->unit_count ||
                         host->references[unit] > 0)))
                return false;
            *sum += has ? unit : 0;
            *squares += has ? (uint64_t)unit * unit : 0;
            *count += has;
        }
    }
    return true;
}

bool kv_host_check(const struct kv_host *host)
{
    uint32_t held = 0;
    for (host_page page = 0; page < host->unit_count; page++)
        held += host->references[page] > 0;
    /* Free entries and window units: as many as units that are no pages, none of them twice. */
    uint64_t sum = 0;
    uint64_t squares = 0;
    if (!check_windows(host, &held, &sum, &squares))
        return false;
    for (uint32_t i = 0; i < host->free_count; i++) {
        uint32_t unit = host->free_units[i];
        if (unit >= host->unit_count || host->references[unit] > 0)
            return false;
        sum += unit;
        squares += (uint64_t)unit * unit;
    }
    for (host_page page = 0; page < host->unit_count; page++) {
        sum -= host->references[page] > 0 ? 0 : page;
        squares -= host->references[page] > 0 ? 0 : (uint64_t)page * page;
    }
    return held + host->free_count == host->unit_count && sum == 0 && squares == 0;
}
