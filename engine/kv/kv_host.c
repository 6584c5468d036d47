#include "engine/kv/kv_host.h"

#include <string.h>

#include "config/base/mem.h"

enum status kv_host_init(struct kv_host *host, struct kernels *kernels, size_t page_bytes,
                         uint64_t bytes)
{
    ASSERT(page_bytes > 0);
    uint64_t pages = bytes / page_bytes;
    if (pages > KV_POOL_NONE - 1)
        pages = KV_POOL_NONE - 1;
    *host = (struct kv_host){
        .kernels = kernels, .page_bytes = page_bytes, .page_count = (uint32_t)pages};
    if (pages == 0)
        return STATUS_OK;
    host->memory = kernels_host_create(kernels, pages * page_bytes);
    if (host->memory == NULL) {
        *host = (struct kv_host){0};
        return kernels_no_host_memory(kernels, pages * page_bytes, "KV pages");
    }
    host->free_pages = mem_zalloc(pages, sizeof(*host->free_pages));
    host->references = mem_zalloc(pages, sizeof(*host->references));
    host->domains = mem_zalloc(pages, sizeof(*host->domains));
    host->batches = mem_zalloc(pages, sizeof(*host->batches));
    if (host->free_pages == NULL || host->references == NULL || host->domains == NULL ||
        host->batches == NULL) {
        kv_host_deinit(host);
        FAIL(STATUS_NO_MEMORY, "no memory for %llu host pages of %zu bytes",
             (unsigned long long)pages, page_bytes);
    }
    for (uint32_t i = 0; i < host->page_count; i++)
        host->free_pages[i] = host->page_count - 1 - i;
    host->free_count = host->page_count;
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
    mem_free(host->free_pages);
    mem_free(host->references);
    mem_free(host->domains);
    mem_free(host->batches);
    mem_free(host->poison);
    *host = (struct kv_host){0};
}

static char *page_memory(const struct kv_host *host, host_page page)
{
    return (char *)host->memory + (size_t)page * host->page_bytes;
}

host_page kv_host_acquire(struct kv_host *host, const struct engine_domain *domain)
{
    if (host->free_count == 0)
        return KV_POOL_NONE;
    host_page page = host->free_pages[--host->free_count];
    ASSERT(host->references[page] == 0);
    host->references[page] = 1;
    host->domains[page] = *domain;
    return page;
}

/* Records the copy of one page; both pages are held and of one domain. */
static void copied(struct kv_host *host, struct kv_pool *pool, host_page page, page_id of,
                   uint64_t batch)
{
    ASSERT(page < host->page_count);
    ASSERT(host->references[page] > 0);
    ASSERT(memcmp(&host->domains[page], &pool->domains[of], sizeof(pool->domains[of])) == 0);
    host->batches[page] = batch;
    kv_pool_fly(pool, of, batch);
}

void kv_host_out(struct kv_host *host, struct kv_pool *pool, const page_id *from,
                 const host_page *to, uint32_t count)
{
    const struct pages_copy_args args = {host->memory, pool->memory, to,
                                         from,         count,        host->page_bytes};
    if (count == 0)
        return;
    const uint64_t batch = kernels_pages_copy(host->kernels, &args);
    for (uint32_t i = 0; i < count; i++)
        copied(host, pool, to[i], from[i], batch);
    kv_pool_land(pool);
}

void kv_host_in(struct kv_host *host, struct kv_pool *pool, const host_page *from,
                const page_id *to, uint32_t count)
{
    const struct pages_copy_args args = {pool->memory, host->memory, to,
                                         from,         count,        host->page_bytes};
    if (count == 0)
        return;
    ASSERT(!kv_pool_are_flying(pool, to, count)); /* fresh pages: none of them is still copied */
    const uint64_t batch = kernels_pages_copy(host->kernels, &args);
    for (uint32_t i = 0; i < count; i++)
        copied(host, pool, from[i], to[i], batch);
    kv_pool_land(pool);
}

void kv_host_wait(struct kv_host *host, host_page page)
{
    kernels_pages_wait(host->kernels, host->batches[page]);
}

const void *kv_host_get(const struct kv_host *host, host_page page,
                        const struct engine_domain *domain)
{
    ASSERT(page < host->page_count);
    ASSERT(host->references[page] > 0);
    ASSERT(memcmp(host->domains[page].bytes, domain->bytes, sizeof(domain->bytes)) == 0);
    return page_memory(host, page);
}

void kv_host_retain(struct kv_host *host, host_page page)
{
    ASSERT(page < host->page_count);
    ASSERT(host->references[page] > 0);
    ASSERT(host->references[page] < UINT32_MAX);
    host->references[page]++;
}

void kv_host_release(struct kv_host *host, host_page page)
{
    ASSERT(page < host->page_count);
    ASSERT(host->references[page] > 0);
    if (--host->references[page] > 0)
        return;
    ASSERT(host->free_count < host->page_count);
    host->domains[page] = (struct engine_domain){0};
    host->free_pages[host->free_count++] = page;
#ifdef BANYAN_SLOW_CHECKS
    /* As in kv_pool: reading a released page shows. The upload runs after work submitted before,
     * which may read the page. */
    if (host->batches[page] <= kernels_pages_ended(host->kernels))
        kernels_upload(host->kernels, page_memory(host, page), host->poison, host->page_bytes);
#endif
}

bool kv_host_check(const struct kv_host *host)
{
    uint32_t held = 0;
    for (host_page page = 0; page < host->page_count; page++)
        held += host->references[page] > 0;
    /* Free entries: as many as pages that are not held, none of them held, none twice. */
    uint64_t sum = 0;
    uint64_t squares = 0;
    for (uint32_t i = 0; i < host->free_count; i++) {
        host_page page = host->free_pages[i];
        if (page >= host->page_count || host->references[page] > 0)
            return false;
        sum += page;
        squares += (uint64_t)page * page;
    }
    for (host_page page = 0; page < host->page_count; page++) {
        sum -= host->references[page] > 0 ? 0 : page;
        squares -= host->references[page] > 0 ? 0 : (uint64_t)page * page;
    }
    return held + host->free_count == host->page_count && sum == 0 && squares == 0;
}
