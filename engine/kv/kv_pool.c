#include "engine/kv/kv_pool.h"

#include <string.h>

#include "config/base/mem.h"

enum { MARK_CACHED = 1, MARK_PINNED = 2 };

enum status kv_pool_init(struct kv_pool *pool, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes, uint32_t context)
{
    enum status status = STATUS_OK;
    ASSERT(layout->page_bytes > 0);
    ASSERT(layout->page_tokens > 0);
    *pool = (struct kv_pool){.kernels = kernels, .layout = *layout};

    uint64_t pages = bytes / layout->page_bytes;
    uint64_t pages_needed = ((uint64_t)context + layout->page_tokens - 1) / layout->page_tokens;
    if (pages > KV_POOL_NONE - 1)
        pages = KV_POOL_NONE - 1;
    if (pages < pages_needed)
        FAIL(STATUS_LIMIT,
             "KV memory of %llu bytes holds %llu pages of %u tokens (%zu bytes each), but one "
             "sequence of the full context (%u tokens) needs %llu pages = %llu bytes: give more "
             "KV memory or a smaller context",
             (unsigned long long)bytes, (unsigned long long)pages, layout->page_tokens,
             layout->page_bytes, context, (unsigned long long)pages_needed,
             (unsigned long long)(pages_needed * layout->page_bytes));
    ASSERT(pages > 0);

    pool->page_count = (uint32_t)pages;
    pool->memory = kernels_buffer_create(kernels, pages * layout->page_bytes);
    if (pool->memory == NULL)
        TRY_OUT(kernels_no_memory(kernels, pages * layout->page_bytes, "KV pages"));
    pool->free_pages = mem_zalloc(pages, sizeof(*pool->free_pages));
    pool->references = mem_zalloc(pages, sizeof(*pool->references));
    pool->marks = mem_zalloc(pages, sizeof(*pool->marks));
    pool->domains = mem_zalloc(pages, sizeof(*pool->domains));
    pool->batches = mem_zalloc(pages, sizeof(*pool->batches));
    if (pool->free_pages == NULL || pool->references == NULL || pool->marks == NULL ||
        pool->domains == NULL || pool->batches == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for %u KV pages of %zu bytes", pool->page_count,
                 layout->page_bytes);
    /* The lowest page is acquired first, so that a small load touches little memory. */
    for (uint32_t i = 0; i < pool->page_count; i++)
        pool->free_pages[i] = pool->page_count - 1 - i;
    pool->free_count = pool->page_count;
#ifdef BANYAN_SLOW_CHECKS
    pool->poison = mem_alloc(layout->page_bytes);
    if (pool->poison == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for the content of free pages");
    memset(pool->poison, 0xff, layout->page_bytes);
#endif
out:
    if (status != STATUS_OK)
        kv_pool_deinit(pool);
    return status;
}

void kv_pool_deinit(struct kv_pool *pool)
{
    if (pool->memory != NULL)
        kernels_buffer_destroy(pool->kernels, pool->memory);
    mem_free(pool->free_pages);
    mem_free(pool->references);
    mem_free(pool->marks);
    mem_free(pool->domains);
    mem_free(pool->batches);
    mem_free(pool->poison);
    *pool = (struct kv_pool){0};
}

uint32_t kv_pool_pages_for(const struct kv_pool *pool, uint32_t tokens)
{
    return (uint32_t)(((uint64_t)tokens + pool->layout.page_tokens - 1) / pool->layout.page_tokens);
}

uint32_t kv_pool_pages_kept(const struct kv_pool *pool, uint32_t tokens)
{
    return kv_pool_has_parts(pool) ? kv_pool_pages_for(pool, tokens)
                                   : tokens / pool->layout.page_tokens;
}

bool kv_pool_has_parts(const struct kv_pool *pool)
{
    return pool->layout.open_bytes == 0;
}

uint32_t kv_pool_tokens_packed(const struct kv_pool *pool, uint32_t tokens)
{
    return kv_pool_has_parts(pool) ? tokens : tokens - tokens % KV_GROUP_TOKENS;
}

/* --- copies --- */

void kv_pool_fly(struct kv_pool *pool, page_id page, uint64_t batch)
{
    ASSERT(page < pool->page_count);
    ASSERT(pool->references[page] > 0);
    pool->batches[page] = batch;
    pool->begun = batch;
}

bool kv_pool_are_flying(const struct kv_pool *pool, const page_id *pages, uint32_t count)
{
    for (uint32_t i = 0; pool->ended < pool->begun && i < count; i++)
        if (kv_pool_is_flying(pool, pages[i]))
            return true;
    return false;
}

/* Batches up to `ended` are over, or all later work runs after them. */
static void land_until(struct kv_pool *pool, uint64_t ended)
{
    uint32_t flying = 0;
    pool->ended = ended;
    for (uint32_t i = 0; i < pool->flying_count; i++) {
        page_id page = pool->free_pages[i];
        if (!kv_pool_is_flying(pool, page))
            continue;
        pool->free_pages[i] = pool->free_pages[flying];
        pool->free_pages[flying++] = page;
    }
    pool->flying_count = flying;
}

void kv_pool_land(struct kv_pool *pool)
{
    if (pool->ended == pool->begun)
        return;
    uint64_t ended = kernels_pages_ended(pool->kernels);
    if (ended > pool->ended)
        land_until(pool, ended < pool->begun ? ended : pool->begun);
}

static void wait_until(struct kv_pool *pool, uint64_t batch)
{
    kernels_pages_wait(pool->kernels, batch);
    pool->waits++;
    land_until(pool, batch);
}

void kv_pool_wait(struct kv_pool *pool, const page_id *pages, uint32_t count)
{
    uint64_t last = 0;
    for (uint32_t i = 0; pool->ended < pool->begun && i < count; i++)
        last = pool->batches[pages[i]] > last ? pool->batches[pages[i]] : last;
    if (last > pool->ended)
        wait_until(pool, last);
}

/* All free pages are in flight: waits for the earliest of their batches. */
static void wait_for_free(struct kv_pool *pool)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < pool->flying_count; i++) {
        uint64_t batch = pool->batches[pool->free_pages[i]];
        first = batch < first ? batch : first;
    }
    wait_until(pool, first);
}

/* --- references --- */

page_id kv_pool_acquire(struct kv_pool *pool, const struct engine_domain *domain)
{
    if (pool->free_count == 0)
        return KV_POOL_NONE;
    if (pool->free_count == pool->flying_count)
        wait_for_free(pool);
    page_id page = pool->free_pages[--pool->free_count];
    ASSERT(pool->references[page] == 0);
    pool->references[page] = 1;
    pool->domains[page] = *domain;
#ifdef BANYAN_SLOW_CHECKS
    /* All ones is NaN in every float type: reading a page before it is written shows. */
    kernels_upload(pool->kernels, kv_pool_memory(pool, page), pool->poison,
                   pool->layout.page_bytes);
#endif
    return page;
}

bool kv_pool_is_idle(const struct kv_pool *pool, page_id page)
{
    return pool->references[page] == 1 && pool->marks[page] == MARK_CACHED;
}

/* Called after a change of a page's count or marks; `was_idle` is its state before. */
static void changed(struct kv_pool *pool, page_id page, bool was_idle)
{
    bool is_idle = kv_pool_is_idle(pool, page);
    if (is_idle == was_idle)
        return;
    if (is_idle)
        pool->idle_count++;
    else
        pool->idle_count--;
    if (pool->tell_idle != NULL)
        pool->tell_idle(pool->tell_context, page, is_idle);
}

static void add_reference(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    ASSERT(pool->references[page] > 0);
    ASSERT(pool->references[page] < UINT32_MAX);
    pool->references[page]++;
}

void kv_pool_retain(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    bool was_idle = kv_pool_is_idle(pool, page);
    add_reference(pool, page);
    changed(pool, page, was_idle);
}

void kv_pool_release(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    ASSERT(pool->references[page] > 0);
    /* The references of the cache and of a pin are not for this call. */
    ASSERT(pool->references[page] > (uint32_t)__builtin_popcount(pool->marks[page]));
    if (--pool->references[page] > 0) {
        changed(pool, page, false);
        return;
    }
    ASSERT(pool->free_count < pool->page_count);
    pool->free_pages[pool->free_count++] = page;
    if (!kv_pool_is_flying(pool, page))
        return;
    pool->free_pages[pool->free_count - 1] = pool->free_pages[pool->flying_count];
    pool->free_pages[pool->flying_count++] = page;
}

void *kv_pool_memory(const struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    return (char *)pool->memory + (size_t)page * pool->layout.page_bytes;
}

void kv_pool_set_idle(struct kv_pool *pool, void (*tell)(void *context, page_id page, bool is_idle),
                      void *context)
{
    pool->tell_idle = tell;
    pool->tell_context = context;
}

void kv_pool_cache(struct kv_pool *pool, page_id page)
{
    add_reference(pool, page);
    ASSERT(pool->marks[page] == 0);
    pool->marks[page] = MARK_CACHED;
}

void kv_pool_uncache(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    ASSERT(pool->marks[page] == MARK_CACHED);
    pool->idle_count -= kv_pool_is_idle(pool, page);
    pool->marks[page] = 0;
    kv_pool_release(pool, page);
}

bool kv_pool_is_cached(const struct kv_pool *pool, page_id page)
{
    return (pool->marks[page] & MARK_CACHED) != 0;
}

void kv_pool_pin(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->page_count);
    ASSERT(pool->marks[page] == MARK_CACHED);
    bool was_idle = kv_pool_is_idle(pool, page);
    add_reference(pool, page);
    pool->marks[page] |= MARK_PINNED;
    pool->pinned_count++;
    changed(pool, page, was_idle);
}

void kv_pool_unpin(struct kv_pool *pool, page_id page)
{
    ASSERT(kv_pool_is_pinned(pool, page));
    pool->marks[page] &= (uint8_t)~MARK_PINNED;
    pool->pinned_count--;
    kv_pool_release(pool, page);
}

bool kv_pool_is_pinned(const struct kv_pool *pool, page_id page)
{
    return (pool->marks[page] & MARK_PINNED) != 0;
}

static bool assert_visible_has(const struct engine_domain *visible, uint32_t visible_count,
                               const struct engine_domain *domain)
{
    for (uint32_t i = 0; i < visible_count; i++)
        if (memcmp(visible[i].bytes, domain->bytes, sizeof(domain->bytes)) == 0)
            return true;
    return false;
}

void kv_pool_assert_visible(const struct kv_pool *pool, const page_id *pages, uint32_t page_count,
                            const struct engine_domain *visible, uint32_t visible_count)
{
    for (uint32_t i = 0; i < page_count; i++) {
        ASSERT(pages[i] < pool->page_count);
        ASSERT(pool->references[pages[i]] > 0);
        ASSERT(!kv_pool_is_flying(pool, pages[i]));
        ASSERT(assert_visible_has(visible, visible_count, &pool->domains[pages[i]]));
    }
}

/* Whether the free list has each page of count 0 once (compared by sum and sum of squares), pages
 * in flight first. */
static bool check_free_list(const struct kv_pool *pool)
{
    uint64_t sum = 0;
    uint64_t squares = 0;
    for (uint32_t i = 0; i < pool->free_count; i++) {
        page_id page = pool->free_pages[i];
        if (page >= pool->page_count || pool->references[page] != 0 ||
            kv_pool_is_flying(pool, page) != (i < pool->flying_count))
            return false;
        sum += page;
        squares += (uint64_t)page * page;
    }
    for (uint32_t page = 0; page < pool->page_count; page++) {
        if (pool->references[page] == 0) {
            sum -= page;
            squares -= (uint64_t)page * page;
        }
    }
    return sum == 0 && squares == 0;
}

bool kv_pool_check(const struct kv_pool *pool, const uint32_t *holders)
{
    uint32_t zero_count = 0;
    uint32_t idle_count = 0;
    uint32_t pinned_count = 0;
    for (uint32_t page = 0; page < pool->page_count; page++) {
        uint32_t marked = (uint32_t)__builtin_popcount(pool->marks[page]);
        if (pool->references[page] != holders[page] + marked)
            return false;
        if (kv_pool_is_pinned(pool, page) && !kv_pool_is_cached(pool, page))
            return false;
        zero_count += pool->references[page] == 0;
        idle_count += kv_pool_is_idle(pool, page);
        pinned_count += kv_pool_is_pinned(pool, page);
    }
    return zero_count == pool->free_count && pool->flying_count <= pool->free_count &&
           idle_count == pool->idle_count && pinned_count == pool->pinned_count &&
           check_free_list(pool);
}
