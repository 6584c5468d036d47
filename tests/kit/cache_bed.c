#include "tests/kit/cache_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

enum { DIM = 4 };

struct kernels *cache_bed_kernels;
struct kv_layout cache_bed_layout;
static char *scratch; /* [2] pages */

static void must(bool condition, const char *what, int line)
{
    if (condition)
        return;
    fprintf(stderr, "cache_bed:%d: %s: %s\n", line, what, status_note()->message);
    abort();
}
#define MUST(condition) must((condition), #condition, __LINE__)

static int setup(enum kv_type type)
{
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = CACHE_BED_SYMBOLS, .cols_max = 64};
    if (kernels_create(&cache_bed_kernels, &options) != STATUS_OK ||
        kernels_kv_layout(cache_bed_kernels, type, CACHE_BED_SYMBOLS, 1, 1, DIM,
                          &cache_bed_layout) != STATUS_OK)
        return -1;
    scratch = mem_zalloc(2, cache_bed_layout.page_bytes);
    return scratch == NULL;
}

int cache_bed_setup(void **state)
{
    (void)state;
    return setup(KV_TYPE_F16);
}

int cache_bed_setup_i8(void **state)
{
    (void)state;
    return setup(KV_TYPE_I8);
}

int cache_bed_setup_windows(void **state)
{
    (void)state;
    const int status = setup(KV_TYPE_F16);
    cache_bed_layout.window_units = 2;
    cache_bed_layout.window = 1;
    return status;
}

int cache_bed_teardown(void **state)
{
    (void)state;
    mem_free(scratch);
    kernels_destroy(cache_bed_kernels);
    return 0;
}

/* Writes tokens [from, to) of a text, all within page `index`, as the kernels would. */
void cache_bed_compute(void *page, const uint32_t *tokens, uint32_t index, uint32_t from,
                       uint32_t to)
{
    float rows[CACHE_BED_SYMBOLS][DIM];
    uint32_t sequence[CACHE_BED_SYMBOLS] = {0};
    uint32_t position[CACHE_BED_SYMBOLS];
    const uint32_t table[1] = {0};
    const uint32_t *tables[1] = {table};
    uint64_t prefix = 0;
    for (uint32_t t = 0; t < index * CACHE_BED_SYMBOLS + to; t++) {
        prefix = rng_at(prefix, tokens[t], t);
        for (uint32_t d = 0; t >= index * CACHE_BED_SYMBOLS + from && d < DIM; d++)
            rows[t - index * CACHE_BED_SYMBOLS - from][d] = (float)(prefix >> (11 * d) & 2047);
    }
    for (uint32_t r = from; r < to; r++)
        position[r - from] = r;
    const struct kv_write_args args = {.k = rows[0],
                                       .v = rows[0],
                                       .rows = to - from,
                                       .kv = {.layout = &cache_bed_layout,
                                              .pages = page,
                                              .sequence = sequence,
                                              .position = position,
                                              .page_tables = tables}};
    kernels_kv_write(cache_bed_kernels, &args);
}

/* Checks that the first `count` tokens of a page are those of page `index` of the text. */
void cache_bed_must_hold(const void *page, const uint32_t *tokens, uint32_t index, uint32_t count)
{
    char *expected = scratch;
    char *found = scratch + cache_bed_layout.page_bytes;
    memset(scratch, 0, 2 * cache_bed_layout.page_bytes);
    cache_bed_compute(expected, tokens, index, 0, count);
    kernels_kv_copy(cache_bed_kernels, &cache_bed_layout, found, page, count);
    MUST(memcmp(found, expected, cache_bed_layout.page_bytes) == 0);
}

void cache_bed_init(struct cache_bed *bed, uint32_t pages, uint32_t host_pages, uint32_t ghosts)
{
    memset(bed->holders, 0, sizeof bed->holders);
    MUST(pages <= 1024);
    MUST(kv_pool_init(
             &bed->pool, cache_bed_kernels, &cache_bed_layout, pages * cache_bed_layout.page_bytes,
             pages * CACHE_BED_SYMBOLS < CACHE_BED_CONTEXT ? pages * CACHE_BED_SYMBOLS
                                                           : CACHE_BED_CONTEXT) == STATUS_OK);
    const struct prefix_cache_options options = {
        .kernels = cache_bed_kernels,
        .pool = &bed->pool,
        .host_bytes = host_pages * cache_bed_layout.page_bytes,
        .context = pages * CACHE_BED_SYMBOLS < CACHE_BED_CONTEXT ? pages * CACHE_BED_SYMBOLS
                                                                 : CACHE_BED_CONTEXT,
        .pin_percent = 50,
        .seed = 5,
        .ghosts_max = ghosts};
    MUST(prefix_cache_init(&bed->cache, &options) == STATUS_OK);
}

void cache_bed_deinit(struct cache_bed *bed)
{
    prefix_cache_deinit(&bed->cache);
    kv_pool_deinit(&bed->pool);
}

void cache_bed_check(struct cache_bed *bed)
{
    MUST(prefix_cache_check(&bed->cache));
    MUST(kv_pool_check(&bed->pool, bed->holders,
                       cache_bed_layout.window_units > 0 ? bed->needs : NULL));
    MUST(prefix_cache_available(&bed->cache) == kv_pool_available(&bed->pool));
}

/* Makes a text that shares its first `common` tokens with `other` and none after them. */
void cache_bed_text_make(struct cache_bed_text *out, const struct cache_bed_text *other,
                         uint32_t common, uint32_t salt)
{
    for (uint32_t i = 0; i < CACHE_BED_CONTEXT; i++)
        out->tokens[i] = i < common ? other->tokens[i] : (salt << 8) + i;
}

void cache_bed_verify(const struct cache_bed_runner *runner)
{
    const struct kv_pool *pool = &runner->bed->pool;
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE + 1] = {*runner->view.domain};
    for (uint32_t i = 0; i < runner->view.visible_count; i++)
        visible[i + 1] = runner->view.visible[i];
    kv_pool_assert_visible(pool, runner->pages, runner->page_count, visible,
                           runner->view.visible_count + 1);
    for (uint32_t i = 0; i * CACHE_BED_SYMBOLS < runner->computed; i++) {
        uint32_t left = runner->computed - i * CACHE_BED_SYMBOLS;
        const uint32_t last = i >= runner->window_page ? pool->layout.window_units : 0;
        for (uint32_t group = 0; group <= last; group++)
            cache_bed_must_hold(kv_pool_memory(pool, kv_pool_unit(pool, runner->pages[i], group)),
                                runner->tokens, i,
                                left < CACHE_BED_SYMBOLS ? left : CACHE_BED_SYMBOLS);
    }
    kv_pool_assert_window(pool, runner->pages, runner->window_page, runner->page_count);
}

/* Admits a prompt of `count` tokens, and checks that it takes what it found, with the right bytes.
 */
uint32_t cache_bed_start(struct cache_bed_runner *runner, struct cache_bed *bed,
                         const struct prefix_view *view, const struct cache_bed_text *text,
                         uint32_t count)
{
    *runner = (struct cache_bed_runner){.bed = bed, .view = *view, .tokens = text->tokens};
    struct prefix_match found;
    prefix_cache_find(&bed->cache, view, text->tokens, count, &found);
    /* More for the partial page's own copy, while the page that holds it stays. */
    bool is_roomy =
        prefix_cache_available(&bed->cache) >= found.cost + kv_pool_page_units(&bed->pool);
    runner->computed = prefix_cache_take(&bed->cache, view, text->tokens, count, runner->pages,
                                         &runner->page_count, &runner->match);
    MUST(runner->computed < count);
    MUST(runner->computed <= found.tokens);
    if (is_roomy)
        MUST(memcmp(&runner->match, &found, sizeof found) == 0);
    MUST(runner->computed == runner->match.tokens);
    MUST(runner->page_count == runner->match.pages + (runner->match.rest_tokens > 0));
    MUST(runner->match.tokens_public + runner->match.tokens_group + runner->match.tokens_own ==
         runner->match.tokens);
    runner->full = runner->match.pages;
    runner->window_page = kv_pool_window_page(&bed->pool, runner->computed);
    for (uint32_t i = 0; i < runner->page_count; i++) {
        bed->holders[runner->pages[i]]++;
        bed->needs[runner->pages[i]] += i >= runner->window_page;
    }
    cache_bed_verify(runner);
    return runner->computed;
}

/* Computes up to `count` tokens and inserts the pages that became full. False when there is no
 * room. */
bool cache_bed_grow(struct cache_bed_runner *runner, uint32_t count)
{
    struct cache_bed *bed = runner->bed;
    uint32_t wanted = (count + CACHE_BED_SYMBOLS - 1) / CACHE_BED_SYMBOLS;
    uint32_t missing = wanted > runner->page_count ? wanted - runner->page_count : 0;
    if (!prefix_cache_make_room(&bed->cache, missing * kv_pool_page_units(&bed->pool)))
        return false;
    while (runner->page_count < wanted) {
        page_id page = kv_pool_acquire(&bed->pool, runner->view.domain);
        MUST(page != KV_POOL_NONE);
        kv_pool_add_window(&bed->pool, page);
        bed->holders[page]++;
        bed->needs[page]++;
        runner->pages[runner->page_count++] = page;
    }
    while (runner->computed < count) {
        uint32_t index = runner->computed / CACHE_BED_SYMBOLS;
        uint32_t end =
            (index + 1) * CACHE_BED_SYMBOLS < count ? (index + 1) * CACHE_BED_SYMBOLS : count;
        /* the sequence is the page's only holder */
        MUST(bed->pool.references[runner->pages[index]] == 1);
        for (uint32_t group = 0; group <= bed->pool.layout.window_units; group++)
            cache_bed_compute(
                kv_pool_memory(&bed->pool, kv_pool_unit(&bed->pool, runner->pages[index], group)),
                runner->tokens, index, runner->computed % CACHE_BED_SYMBOLS,
                end - index * CACHE_BED_SYMBOLS);
        runner->computed = end;
    }
    uint32_t full = runner->computed / CACHE_BED_SYMBOLS;
    if (full > runner->full) {
        for (uint32_t i = runner->full; i < full; i++) {
            bed->holders[runner->pages[i]]--;
            bed->needs[runner->pages[i]] -= i >= runner->window_page;
        }
        prefix_cache_insert(&bed->cache, &runner->view, runner->tokens, runner->full,
                            full - runner->full, runner->pages);
        for (uint32_t i = runner->full; i < full; i++) {
            bed->holders[runner->pages[i]]++;
            bed->needs[runner->pages[i]] += i >= runner->window_page;
        }
        runner->full = full;
    }
    while (runner->window_page < kv_pool_window_page(&bed->pool, runner->computed)) {
        bed->needs[runner->pages[runner->window_page]]--;
        kv_pool_unneed_window(&bed->pool, runner->pages[runner->window_page++]);
    }
    cache_bed_verify(runner);
    return true;
}

void cache_bed_rest(struct cache_bed_runner *runner, bool is_open)
{
    if (runner->computed % CACHE_BED_SYMBOLS != 0)
        prefix_cache_insert_rest(&runner->bed->cache, &runner->view, runner->tokens,
                                 runner->computed,
                                 runner->pages[runner->computed / CACHE_BED_SYMBOLS], is_open);
}

void cache_bed_release(struct cache_bed_runner *runner)
{
    while (runner->page_count > 0) {
        page_id page = runner->pages[--runner->page_count];
        runner->bed->holders[page]--;
        if (runner->page_count >= runner->window_page) {
            runner->bed->needs[page]--;
            kv_pool_unneed_window(&runner->bed->pool, page);
        }
        kv_pool_release(&runner->bed->pool, page);
    }
}

void cache_bed_end(struct cache_bed_runner *runner)
{
    cache_bed_rest(runner, false);
    for (uint32_t i = runner->window_page; i < runner->page_count; i++)
        kv_pool_keep_tail(&runner->bed->pool, runner->pages[i]);
    cache_bed_release(runner);
}

/* Runs a whole request and returns how many tokens it found in the cache. */
uint32_t cache_bed_run(struct cache_bed *bed, const struct prefix_view *view,
                       const struct cache_bed_text *text, uint32_t count)
{
    struct cache_bed_runner runner;
    uint32_t found = cache_bed_start(&runner, bed, view, text, count);
    MUST(cache_bed_grow(&runner, count));
    cache_bed_end(&runner);
    cache_bed_check(bed);
    return found;
}
