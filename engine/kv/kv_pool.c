#include "engine/kv/kv_pool.h"

#include <string.h>

#include "config/base/mem.h"

enum { MARK_CACHED = 1, MARK_PINNED = 2, MARK_TAIL = 4, MARKS_HOLD = MARK_CACHED | MARK_PINNED };

/* Arrays of window units, where the layout has some. */
static enum status init_windows(struct kv_pool *pool)
{
    const size_t units = (size_t)pool->unit_count * pool->layout.window_units;
    for (int list = 0; list < KV_SPARES; list++)
        pool->spares[list] = (struct kv_pool_list){KV_POOL_NONE, KV_POOL_NONE, 0};
    if (units == 0)
        return STATUS_OK;
    ASSERT(pool->layout.window > 0);
    pool->windows = mem_alloc(units * sizeof(*pool->windows));
    pool->needs = mem_zalloc(pool->unit_count, sizeof(*pool->needs));
    pool->links = mem_zalloc(pool->unit_count, sizeof(*pool->links));
    if (pool->windows == NULL || pool->needs == NULL || pool->links == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the window units of %u KV units", pool->unit_count);
    memset(pool->windows, 0xff, units * sizeof(*pool->windows));
    return STATUS_OK;
}

enum status kv_pool_init(struct kv_pool *pool, struct kernels *kernels,
                         const struct kv_layout *layout, uint64_t bytes, uint32_t context)
{
    enum status status = STATUS_OK;
    ASSERT(layout->page_bytes > 0);
    ASSERT(layout->page_tokens > 0);
    *pool = (struct kv_pool){.kernels = kernels, .layout = *layout};

    const char *what = layout->window_units > 0 ? "units" : "pages";
    uint64_t pages = bytes / layout->page_bytes;
    uint64_t pages_needed = kv_pool_units_least(pool, context);
    if (pages > KV_POOL_NONE - 1)
        pages = KV_POOL_NONE - 1;
    if (pages < pages_needed)
        FAIL(STATUS_LIMIT,
             "KV memory of %llu bytes holds %llu %s of %u tokens (%zu bytes each), but one "
             "sequence of the full context (%u tokens) needs %llu %s = %llu bytes: give more "
             "KV memory or a smaller context",
             (unsigned long long)bytes, (unsigned long long)pages, what, layout->page_tokens,
             layout->page_bytes, context, (unsigned long long)pages_needed, what,
             (unsigned long long)(pages_needed * layout->page_bytes));
    ASSERT(pages > 0);

    pool->unit_count = (uint32_t)pages;
    pool->memory = kernels_buffer_create(kernels, pages * layout->page_bytes);
    if (pool->memory == NULL)
        TRY_OUT(kernels_no_memory(kernels, pages * layout->page_bytes, "KV pages"));
    pool->free_units = mem_zalloc(pages, sizeof(*pool->free_units));
    pool->references = mem_zalloc(pages, sizeof(*pool->references));
    pool->marks = mem_zalloc(pages, sizeof(*pool->marks));
    pool->domains = mem_zalloc(pages, sizeof(*pool->domains));
    pool->batches = mem_zalloc(pages, sizeof(*pool->batches));
    if (pool->free_units == NULL || pool->references == NULL || pool->marks == NULL ||
        pool->domains == NULL || pool->batches == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for %u KV pages of %zu bytes", pool->unit_count,
                 layout->page_bytes);
    TRY_OUT(init_windows(pool));
    /* The lowest page is acquired first, so that a small load touches little memory. */
    for (uint32_t i = 0; i < pool->unit_count; i++)
        pool->free_units[i] = pool->unit_count - 1 - i;
    pool->free_count = pool->unit_count;
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
    mem_free(pool->free_units);
    mem_free(pool->references);
    mem_free(pool->marks);
    mem_free(pool->domains);
    mem_free(pool->batches);
    mem_free(pool->windows);
    mem_free(pool->needs);
    mem_free(pool->links);
    mem_free(pool->poison);
    *pool = (struct kv_pool){0};
}

uint32_t kv_pool_pages_for(const struct kv_pool *pool, uint32_t tokens)
{
    return (uint32_t)(((uint64_t)tokens + pool->layout.page_tokens - 1) / pool->layout.page_tokens);
}

/* Attention reads whole blocks of keys, so a window may begin up to a block less one key early. The
 * blocks begin with pages, unless pages are of another size. */
uint32_t kv_pool_window_pages(const struct kv_pool *pool)
{
    const uint32_t tokens = pool->layout.page_tokens;
    const uint64_t keys = (uint64_t)pool->layout.window + ATTENTION_BLOCK_KEYS - 2;
    if (pool->layout.window_units == 0)
        return 0;
    return (uint32_t)((keys + tokens - 1) / tokens) + (ATTENTION_BLOCK_KEYS % tokens != 0);
}

static uint32_t units_for(const struct kv_pool *pool, uint32_t pages, uint32_t window_pages)
{
    const uint64_t windows = pages < window_pages ? pages : window_pages;
    const uint64_t units = pages + windows * pool->layout.window_units;
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

uint32_t kv_pool_units_least(const struct kv_pool *pool, uint32_t tokens)
{
    return units_for(pool, kv_pool_pages_for(pool, tokens), kv_pool_window_pages(pool) + 1);
}

uint32_t kv_pool_units_kept(const struct kv_pool *pool, uint32_t tokens)
{
    return units_for(pool, kv_pool_pages_kept(pool, tokens), kv_pool_window_pages(pool) + 1);
}

uint32_t kv_pool_available(const struct kv_pool *pool)
{
    const uint32_t spare = pool->spares[KV_SPARE_MIDDLE].count + pool->spares[KV_SPARE_TAIL].count;
    return pool->free_count + pool->idle_count + spare * pool->layout.window_units;
}

uint32_t kv_pool_units_pinned(const struct kv_pool *pool)
{
    return pool->pinned_count + pool->kept_count * pool->layout.window_units;
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

void kv_pool_fly(struct kv_pool *pool, uint32_t unit, uint64_t batch)
{
    ASSERT(unit < pool->unit_count);
    pool->batches[unit] = batch;
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
        page_id page = pool->free_units[i];
        if (!kv_pool_is_flying(pool, page))
            continue;
        pool->free_units[i] = pool->free_units[flying];
        pool->free_units[flying++] = page;
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
        uint64_t batch = pool->batches[pool->free_units[i]];
        first = batch < first ? batch : first;
    }
    wait_until(pool, first);
}

/* --- references --- */

static uint32_t take_free(struct kv_pool *pool)
{
    ASSERT(pool->free_count > 0);
    if (pool->free_count == pool->flying_count)
        wait_for_free(pool);
    const uint32_t unit = pool->free_units[--pool->free_count];
    ASSERT(pool->references[unit] == 0);
#ifdef BANYAN_SLOW_CHECKS
    /* All ones is NaN in every float type: reading a unit before it is written shows. */
    kernels_upload(pool->kernels, kv_pool_memory(pool, unit), pool->poison,
                   pool->layout.page_bytes);
#endif
    return unit;
}

static void give_free(struct kv_pool *pool, uint32_t unit)
{
    ASSERT(pool->free_count < pool->unit_count);
    pool->free_units[pool->free_count++] = unit;
    if (!kv_pool_is_flying(pool, unit))
        return;
    pool->free_units[pool->free_count - 1] = pool->free_units[pool->flying_count];
    pool->free_units[pool->flying_count++] = unit;
}

page_id kv_pool_acquire(struct kv_pool *pool, const struct engine_domain *domain)
{
    if (pool->free_count == 0)
        return KV_POOL_NONE;
    const page_id page = take_free(pool);
    pool->references[page] = 1;
    pool->marks[page] = 0;
    pool->domains[page] = *domain;
    return page;
}

bool kv_pool_is_idle(const struct kv_pool *pool, page_id page)
{
    return pool->references[page] == 1 && (pool->marks[page] & MARKS_HOLD) == MARK_CACHED;
}

/* --- window units --- */

static void spare_leave(struct kv_pool *pool, page_id page)
{
    struct kv_pool_link *link = &pool->links[page];
    struct kv_pool_list *list = &pool->spares[link->list];
    *(link->before != KV_POOL_NONE ? &pool->links[link->before].after : &list->first) = link->after;
    *(link->after != KV_POOL_NONE ? &pool->links[link->after].before : &list->last) = link->before;
    list->count--;
    link->list = KV_SPARE_NONE;
}

static void spare_join(struct kv_pool *pool, page_id page, enum kv_spare to)
{
    struct kv_pool_list *list = &pool->spares[to];
    pool->links[page] = (struct kv_pool_link){to, list->last, KV_POOL_NONE};
    *(list->last != KV_POOL_NONE ? &pool->links[list->last].after : &list->first) = page;
    list->last = page;
    list->count++;
}

static bool is_kept(const struct kv_pool *pool, page_id page)
{
    const uint8_t both = MARK_PINNED | MARK_TAIL;
    return (pool->marks[page] & both) == both && kv_pool_has_window(pool, page);
}

/* Called after a page got its window units or gave them up. */
static void tell_window(const struct kv_pool *pool, page_id page)
{
    if ((pool->marks[page] & MARK_CACHED) != 0 && pool->tell.window != NULL)
        pool->tell.window(pool->tell.context, page);
}

static void drop_window(struct kv_pool *pool, page_id page)
{
    uint32_t *units = &pool->windows[(size_t)page * pool->layout.window_units];
    ASSERT(pool->needs[page] == 0);
    if (pool->links[page].list != KV_SPARE_NONE)
        spare_leave(pool, page);
    for (uint32_t i = 0; i < pool->layout.window_units; i++) {
        give_free(pool, units[i]);
        units[i] = KV_POOL_NONE;
    }
    pool->window_count--;
    tell_window(pool, page);
}

/* Called after a change of what decides about a page's window units: who needs them, and marks. */
static void settle(struct kv_pool *pool, page_id page)
{
    if (pool->windows == NULL)
        return;
    enum kv_spare list = KV_SPARE_NONE;
    if (kv_pool_has_window(pool, page) && pool->needs[page] == 0) {
        if ((pool->marks[page] & MARK_CACHED) == 0) {
            drop_window(pool, page);
            return;
        }
        if (!is_kept(pool, page))
            list = (pool->marks[page] & MARK_TAIL) != 0 ? KV_SPARE_TAIL : KV_SPARE_MIDDLE;
    }
    if (pool->links[page].list == list)
        return;
    if (pool->links[page].list != KV_SPARE_NONE)
        spare_leave(pool, page);
    if (list != KV_SPARE_NONE)
        spare_join(pool, page, list);
}

void kv_pool_add_window(struct kv_pool *pool, page_id page)
{
    if (pool->windows == NULL)
        return;
    ASSERT(pool->references[page] > 0);
    ASSERT(!kv_pool_has_window(pool, page));
    for (uint32_t i = 0; i < pool->layout.window_units; i++)
        pool->windows[(size_t)page * pool->layout.window_units + i] = take_free(pool);
    pool->window_count++;
    pool->kept_count += is_kept(pool, page);
    pool->needs[page] = 1;
    tell_window(pool, page);
}

void kv_pool_need_window(struct kv_pool *pool, page_id page)
{
    if (pool->windows == NULL)
        return;
    ASSERT(pool->references[page] > 0);
    ASSERT(kv_pool_has_window(pool, page));
    pool->needs[page]++;
    settle(pool, page);
}

void kv_pool_unneed_window(struct kv_pool *pool, page_id page)
{
    if (pool->windows == NULL)
        return;
    ASSERT(pool->needs[page] > 0);
    pool->needs[page]--;
    settle(pool, page);
}

void kv_pool_move_window(struct kv_pool *pool, page_id from, page_id to)
{
    if (pool->windows == NULL || !kv_pool_has_window(pool, from))
        return;
    const uint32_t units = pool->layout.window_units;
    ASSERT(pool->needs[from] == 1); /* of the sequence: nobody else has this page */
    if (!kv_pool_has_window(pool, to)) {
        memcpy(&pool->windows[(size_t)to * units], &pool->windows[(size_t)from * units],
               units * sizeof(*pool->windows));
        memset(&pool->windows[(size_t)from * units], 0xff, units * sizeof(*pool->windows));
        pool->kept_count += is_kept(pool, to);
        tell_window(pool, to);
    }
    pool->needs[to]++;
    settle(pool, to);
    pool->needs[from]--;
    settle(pool, from);
}

void kv_pool_keep_tail(struct kv_pool *pool, page_id page)
{
    if (pool->windows == NULL)
        return;
    ASSERT(pool->references[page] > 0);
    const bool was_kept = is_kept(pool, page);
    pool->marks[page] |= MARK_TAIL;
    pool->kept_count += is_kept(pool, page) - was_kept;
    settle(pool, page);
}

bool kv_pool_is_tail(const struct kv_pool *pool, page_id page)
{
    return (pool->marks[page] & MARK_TAIL) != 0;
}

bool kv_pool_drop_spare(struct kv_pool *pool, enum kv_spare list)
{
    const page_id page = pool->spares[list].first;
    if (page == KV_POOL_NONE)
        return false;
    drop_window(pool, page);
    return true;
}

void kv_pool_assert_window(const struct kv_pool *pool, const page_id *pages, uint32_t begin,
                           uint32_t end)
{
    for (uint32_t i = begin; pool->windows != NULL && i < end; i++) {
        ASSERT(kv_pool_has_window(pool, pages[i]));
        ASSERT(pool->needs[pages[i]] > 0);
    }
}

/* --- references, going on --- */

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
    if (pool->tell.idle != NULL)
        pool->tell.idle(pool->tell.context, page, is_idle);
}

static void add_reference(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->unit_count);
    ASSERT(pool->references[page] > 0);
    ASSERT(pool->references[page] < UINT32_MAX);
    pool->references[page]++;
}

void kv_pool_retain(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->unit_count);
    bool was_idle = kv_pool_is_idle(pool, page);
    add_reference(pool, page);
    changed(pool, page, was_idle);
}

void kv_pool_release(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->unit_count);
    ASSERT(pool->references[page] > 0);
    /* The references of the cache and of a pin are not for this call. */
    ASSERT(pool->references[page] >
           (uint32_t)__builtin_popcount(pool->marks[page] & (unsigned)MARKS_HOLD));
    if (--pool->references[page] > 0) {
        changed(pool, page, false);
        return;
    }
    settle(pool, page); /* not needed and not cached: its window units are free now */
    ASSERT(kv_pool_window_units(pool, page) == 0);
    pool->marks[page] = 0;
    give_free(pool, page);
}

void *kv_pool_memory(const struct kv_pool *pool, uint32_t unit)
{
    ASSERT(unit < pool->unit_count);
    return (char *)pool->memory + (size_t)unit * pool->layout.page_bytes;
}

void kv_pool_set_tell(struct kv_pool *pool, const struct kv_pool_tell *tell)
{
    pool->tell = tell != NULL ? *tell : (struct kv_pool_tell){0};
}

void kv_pool_cache(struct kv_pool *pool, page_id page)
{
    add_reference(pool, page);
    ASSERT((pool->marks[page] & MARKS_HOLD) == 0);
    pool->marks[page] |= MARK_CACHED;
}

void kv_pool_uncache(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->unit_count);
    ASSERT((pool->marks[page] & MARKS_HOLD) == MARK_CACHED);
    pool->idle_count -= kv_pool_is_idle(pool, page);
    pool->marks[page] &= (uint8_t)~MARK_CACHED;
    settle(pool, page);
    kv_pool_release(pool, page);
}

bool kv_pool_is_cached(const struct kv_pool *pool, page_id page)
{
    return (pool->marks[page] & MARK_CACHED) != 0;
}

void kv_pool_pin(struct kv_pool *pool, page_id page)
{
    ASSERT(page < pool->unit_count);
    ASSERT((pool->marks[page] & MARKS_HOLD) == MARK_CACHED);
    bool was_idle = kv_pool_is_idle(pool, page);
    add_reference(pool, page);
    pool->marks[page] |= MARK_PINNED;
    pool->pinned_count++;
    pool->kept_count += pool->windows != NULL && is_kept(pool, page);
    settle(pool, page);
    changed(pool, page, was_idle);
}

void kv_pool_unpin(struct kv_pool *pool, page_id page)
{
    ASSERT(kv_pool_is_pinned(pool, page));
    pool->kept_count -= pool->windows != NULL && is_kept(pool, page);
    pool->marks[page] &= (uint8_t)~MARK_PINNED;
    pool->pinned_count--;
    settle(pool, page);
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
        ASSERT(pages[i] < pool->unit_count);
        ASSERT(pool->references[pages[i]] > 0);
        ASSERT(!kv_pool_is_flying(pool, pages[i]));
        ASSERT(assert_visible_has(visible, visible_count, &pool->domains[pages[i]]));
    }
}

/* Whether each page has all or none of its window units, in the list that its state asks for. Adds
 * them, and their squares, to the sums. */
static bool check_windows(const struct kv_pool *pool, const uint32_t *needs, uint64_t *sum,
                          uint64_t *squares)
{
    uint32_t counts[KV_SPARES] = {0};
    uint32_t windows = 0;
    uint32_t kept = 0;
    for (uint32_t page = 0; pool->windows != NULL && page < pool->unit_count; page++) {
        const bool has = kv_pool_has_window(pool, page);
        const bool is_cached = (pool->marks[page] & MARK_CACHED) != 0;
        const bool is_spare = has && pool->needs[page] == 0 && !is_kept(pool, page);
        const enum kv_spare list = !is_spare                     ? KV_SPARE_NONE
                                   : kv_pool_is_tail(pool, page) ? KV_SPARE_TAIL
                                                                 : KV_SPARE_MIDDLE;
        if ((needs != NULL && needs[page] != pool->needs[page]) || pool->links[page].list != list ||
            pool->needs[page] > pool->references[page] || (pool->needs[page] > 0 && !has) ||
            (is_spare && !is_cached) || (has && pool->references[page] == 0))
            return false;
        for (uint32_t i = 0; i < pool->layout.window_units; i++) {
            const uint32_t unit = pool->windows[(size_t)page * pool->layout.window_units + i];
            if ((unit != KV_POOL_NONE) != has ||
                (has && (unit >= pool->unit_count || pool->references[unit] != 0)))
                return false;
            *sum += has ? unit : 0;
            *squares += has ? (uint64_t)unit * unit : 0;
        }
        windows += has;
        kept += is_kept(pool, page);
        counts[list] += is_spare;
    }
    return windows == pool->window_count && kept == pool->kept_count &&
           counts[KV_SPARE_MIDDLE] == pool->spares[KV_SPARE_MIDDLE].count &&
           counts[KV_SPARE_TAIL] == pool->spares[KV_SPARE_TAIL].count;
}

/* Whether the free list and the window units of pages have each unit of count 0 once together
 * (compared by sum and sum of squares), units in flight first in the list. */
static bool check_free_list(const struct kv_pool *pool, uint64_t sum, uint64_t squares)
{
    for (uint32_t i = 0; i < pool->free_count; i++) {
        page_id page = pool->free_units[i];
        if (page >= pool->unit_count || pool->references[page] != 0 ||
            kv_pool_is_flying(pool, page) != (i < pool->flying_count))
            return false;
        sum += page;
        squares += (uint64_t)page * page;
    }
    for (uint32_t page = 0; page < pool->unit_count; page++) {
        if (pool->references[page] == 0) {
            sum -= page;
            squares -= (uint64_t)page * page;
        }
    }
    return sum == 0 && squares == 0;
}

bool kv_pool_check(const struct kv_pool *pool, const uint32_t *holders, const uint32_t *needs)
{
    uint32_t zero_count = 0;
    uint32_t idle_count = 0;
    uint32_t pinned_count = 0;
    uint64_t sum = 0;
    uint64_t squares = 0;
    for (uint32_t page = 0; page < pool->unit_count; page++) {
        uint32_t marked = (uint32_t)__builtin_popcount(pool->marks[page] & (unsigned)MARKS_HOLD);
        if (pool->references[page] != holders[page] + marked)
            return false;
        if (kv_pool_is_pinned(pool, page) && !kv_pool_is_cached(pool, page))
            return false;
        zero_count += pool->references[page] == 0;
        idle_count += kv_pool_is_idle(pool, page);
        pinned_count += kv_pool_is_pinned(pool, page);
    }
    return check_windows(pool, needs, &sum, &squares) &&
           zero_count == pool->free_count + pool->window_count * pool->layout.window_units &&
           pool->flying_count <= pool->free_count && idle_count == pool->idle_count &&
           pinned_count == pool->pinned_count && check_free_list(pool, sum, squares);
}
