/* prefix_trace: hit rates of the prefix tree and its eviction, compared with plain leaf-LRU; and of
 * the cache with window units, compared with pages of all layers.
 *
 * usage: prefix_trace [FILE]     a trace in Mooncake's format: one JSON object on each line, where
 *                                "hash_ids" is read, blocks of 512 tokens, and "input_length", by
 *                                which the last one may be shorter. Equal ids mean equal prefixes.
 *                                Without FILE, a generator with the statistics of that trace
 *
 * A node of the tree stands for one block. Capacities are 1, 3 and 10 times 2,000 blocks: the 1.0 M
 * tokens of f16 KV that an 8B model leaves room for on a device of 141 GB. Prints a JSON line for
 * each. The cache with window units has the shape of Gemma 3 270M: 3 layers that read all tokens,
 * 15 with a window of 512, and a tenth of the bytes that all blocks need in all layers. Exits with
 * 1 when the tree's hit rate is below plain leaf-LRU's, when a flood of one tenant takes the cache
 * of another, or when window units find less than UNITS_GAIN times what whole pages find. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/sequence/sequence.h"
#include "radix/radix_tree.h"

enum {
    BLOCKS_MAX = 512, /* of one request */
    REQUESTS_MAX = 16384,
    IDS_MAX = 1 << 20,
    SYMBOLS = 16,
    BLOCKS_1X = 2000,
    GENERATED = 4000,
    BLOCK_TOKENS = 512,
    PAGE = 64,        /* tokens of a page that stands for a block of 512: a window is one page */
    WINDOW_UNITS = 5, /* 15 layers in units of 3 */
    MEMORY_PERCENT = 10,
};

/* What window units must find, divided by what pages of all layers find. */
static const double UNITS_GAIN = 1.7;

struct request {
    uint32_t tenant;
    uint32_t count;
    uint32_t *ids; /* [count] */
    uint32_t last; /* tokens of the last block */
};

struct trace {
    uint32_t count;
    struct request requests[REQUESTS_MAX];
};

struct hits {
    uint64_t blocks[2]; /* asked, by tenant */
    uint64_t found[2];
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "prefix_trace: %s\n", what);
    exit(2);
}

static void must(bool condition, const char *what)
{
    if (!condition)
        die(what);
}

/* --- traces --- */

static void trace_add(struct trace *trace, uint32_t tenant, const uint32_t *ids, uint32_t count)
{
    must(trace->count < REQUESTS_MAX, "there are too many requests");
    struct request *request = &trace->requests[trace->count++];
    *request = (struct request){.tenant = tenant, .count = count, .last = BLOCK_TOKENS};
    request->ids = mem_alloc(count * sizeof(*ids) + 1);
    must(request->ids != NULL, "no memory");
    memcpy(request->ids, ids, count * sizeof(*ids));
}

static void trace_free(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->count; i++)
        mem_free(trace->requests[i].ids);
    mem_free(trace);
}

static void trace_read_line(struct trace *trace, const char *line)
{
    uint32_t ids[BLOCKS_MAX] = {0};
    uint32_t count = 0;
    const char *at = strstr(line, "\"hash_ids\"");
    must(at != NULL && (at = strchr(at, '[')) != NULL, "a line has no hash_ids");
    for (at++; *at != ']' && *at != '\0';) {
        char *end;
        unsigned long id = strtoul(at, &end, 10);
        must(end > at && id < IDS_MAX && count < BLOCKS_MAX, "a list of hash_ids is invalid");
        ids[count++] = (uint32_t)id;
        at = end + strspn(end, ", ");
    }
    trace_add(trace, 0, ids, count);
    at = strstr(line, "\"input_length\":");
    const unsigned long tokens = at != NULL ? strtoul(strchr(at, ':') + 1, NULL, 10) : 0;
    if (count > 0 && tokens > (count - 1) * BLOCK_TOKENS && tokens < count * BLOCK_TOKENS)
        trace->requests[trace->count - 1].last = (uint32_t)tokens % BLOCK_TOKENS;
}

static void trace_read(struct trace *trace, const char *path)
{
    static char line[1 << 16];
    FILE *file = fopen(path, "r");
    must(file != NULL, "cannot open the trace");
    while (fgets(line, sizeof(line), file) != NULL)
        trace_read_line(trace, line);
    fclose(file);
}

/* Generates conversations with about the statistics of Mooncake's trace: 26 blocks each (there 27);
 * an unlimited cache hits 41 % (there 33 %), 2,000 blocks 9 % (there 5 %). Most requests open a
 * conversation, with a long new text behind one common block; the others continue one of the latest
 * 1,500. */
static void trace_generate(struct trace *trace)
{
    enum { OPEN = 1500 };
    static uint32_t paths[OPEN][BLOCKS_MAX];
    static uint32_t counts[OPEN];
    struct rng rng = {.seed = 20};
    uint32_t next_id = 1;
    uint32_t opened = 0;
    while (trace->count < GENERATED) {
        uint32_t at = opened % OPEN;
        uint32_t new_blocks = (uint32_t)(1 + rng_below(&rng, 8));
        if (opened == 0 || rng_below(&rng, 100) < 62) {
            counts[at] = 1; /* block 0 begins every conversation */
            opened++;
            new_blocks = (uint32_t)(1 + rng_below(&rng, 12) * rng_below(&rng, 9));
        } else {
            uint32_t known = opened < OPEN ? opened : OPEN;
            uint32_t back = (uint32_t)rng_below(&rng, known);
            at = (opened - 1 - back) % OPEN;
        }
        for (uint32_t i = 0; i < new_blocks && counts[at] < BLOCKS_MAX; i++)
            paths[at][counts[at]++] = next_id++;
        trace_add(trace, 0, paths[at], counts[at]);
    }
}

/* Generates a flood: for each request of tenant 1, who has eight prompts of 20 blocks, tenant 0
 * sends 20 texts of 30 blocks that never return. Tenant 1's 160 blocks fit in half of a capacity of
 * 1,000. */
static void trace_flood(struct trace *trace, bool is_alone)
{
    uint32_t ids[32];
    uint32_t next_id = 1000;
    for (uint32_t turn = 0; turn < 200; turn++) {
        for (uint32_t f = 0; f < 20 && !is_alone; f++) {
            for (uint32_t i = 0; i < 30; i++)
                ids[i] = next_id++;
            trace_add(trace, 0, ids, 30);
        }
        for (uint32_t i = 0; i < 20; i++)
            ids[i] = turn % 8 * 20 + i;
        trace_add(trace, 1, ids, 20);
    }
}

/* --- the real tree --- */

/* Ids differ only in their low bits: spreads them, as tokens would be. */
static void tree_symbols(const struct request *request, uint32_t *out)
{
    for (uint32_t i = 0; i < request->count * SYMBOLS; i++)
        out[i] = (uint32_t)rng_at(7, request->ids[i / SYMBOLS], i % SYMBOLS);
}

static void tree_request(struct radix_tree *tree, radix_domain domain,
                         const struct request *request, uint32_t capacity, struct hits *hits)
{
    static uint32_t symbols[BLOCKS_MAX * SYMBOLS];
    static radix_node nodes[BLOCKS_MAX];
    radix_node rest;
    uint32_t rest_symbols;
    tree_symbols(request, symbols);
    uint32_t found = radix_tree_match(tree, &domain, 1, symbols, request->count * SYMBOLS, nodes,
                                      &rest, &rest_symbols);
    hits->blocks[request->tenant] += request->count;
    hits->found[request->tenant] += found;
    for (uint32_t i = 0; i < found; i++)
        radix_evict_busy(tree, nodes[i]);
    for (uint32_t i = found; i < request->count; i++) {
        if (radix_tree_count(tree, RADIX_DEVICE) == capacity)
            radix_tree_clear(tree, radix_evict_next(tree, RADIX_DEVICE));
        nodes[i] = radix_tree_insert(tree, domain, i > 0 ? nodes[i - 1] : RADIX_NONE,
                                     symbols + i * SYMBOLS, SYMBOLS);
        must(nodes[i] != RADIX_NONE, "the tree is full");
        radix_tree_set(tree, nodes[i], RADIX_DEVICE, i);
    }
    for (uint32_t i = request->count; i-- > 0;)
        radix_evict_idle(tree, nodes[i]);
}

static struct hits tree_run(const struct trace *trace, uint32_t capacity)
{
    struct hits hits = {0};
    struct radix_tree *tree;
    const struct radix_options options = {.page_symbols = SYMBOLS,
                                          .values_max = capacity,
                                          .ghosts_max = 16,
                                          .domains_max = 4,
                                          .seed = 1};
    must(radix_tree_create(&tree, &options) == STATUS_OK, "no memory for the tree");
    for (uint32_t i = 0; i < trace->count; i++) {
        uint8_t id[16] = {(uint8_t)(1 + trace->requests[i].tenant)};
        tree_request(tree, radix_tree_open_domain(tree, id, 100), &trace->requests[i], capacity,
                     &hits);
    }
    must(radix_check(tree), "the tree is broken");
    radix_tree_destroy(tree);
    return hits;
}

/* --- plain leaf-LRU: one list of blocks. A request moves its own blocks to the front, the deepest
 * first, so that the last block of the list is always a leaf --- */

struct lru {
    uint32_t *before; /* [IDS_MAX + 1]; entry IDS_MAX is the list's head */
    uint32_t *after;
    bool *is_resident;
    uint32_t count;
};

static void lru_unlink(struct lru *lru, uint32_t id)
{
    lru->after[lru->before[id]] = lru->after[id];
    lru->before[lru->after[id]] = lru->before[id];
}

static void lru_push(struct lru *lru, uint32_t id)
{
    lru->before[id] = IDS_MAX;
    lru->after[id] = lru->after[IDS_MAX];
    lru->before[lru->after[IDS_MAX]] = id;
    lru->after[IDS_MAX] = id;
}

static void lru_request(struct lru *lru, const struct request *request, uint32_t capacity,
                        struct hits *hits)
{
    uint32_t found = 0;
    while (found < request->count && lru->is_resident[request->ids[found]])
        found++;
    hits->blocks[request->tenant] += request->count;
    hits->found[request->tenant] += found;
    for (uint32_t i = 0; i < found; i++) {
        lru_unlink(lru, request->ids[i]);
        lru_push(lru, request->ids[i]);
    }
    for (uint32_t i = found; i < request->count; i++) {
        if (lru->count == capacity) {
            uint32_t last = lru->before[IDS_MAX];
            lru_unlink(lru, last);
            lru->is_resident[last] = false;
            lru->count--;
        }
        lru_push(lru, request->ids[i]);
        lru->is_resident[request->ids[i]] = true;
        lru->count++;
    }
    for (uint32_t i = request->count; i-- > 0;) {
        lru_unlink(lru, request->ids[i]);
        lru_push(lru, request->ids[i]);
    }
}

static struct hits lru_run(const struct trace *trace, uint32_t capacity)
{
    struct hits hits = {0};
    struct lru lru = {.before = mem_zalloc(IDS_MAX + 1, sizeof(uint32_t)),
                      .after = mem_zalloc(IDS_MAX + 1, sizeof(uint32_t)),
                      .is_resident = mem_zalloc(IDS_MAX, sizeof(bool))};
    must(lru.before != NULL && lru.after != NULL && lru.is_resident != NULL, "no memory");
    lru.before[IDS_MAX] = IDS_MAX;
    lru.after[IDS_MAX] = IDS_MAX;
    for (uint32_t i = 0; i < trace->count; i++)
        lru_request(&lru, &trace->requests[i], capacity, &hits);
    mem_free(lru.before);
    mem_free(lru.after);
    mem_free(lru.is_resident);
    return hits;
}

/* --- the cache with window units: the real pool, tree and tails, without keys and values --- */

/* Tokens of a request's prompt. A block is a page, and its last block may be shorter. */
static uint32_t units_tokens(const struct request *request, uint32_t *out)
{
    const uint32_t last = (request->last + BLOCK_TOKENS / PAGE - 1) / (BLOCK_TOKENS / PAGE);
    const uint32_t count = (request->count - 1) * PAGE + last;
    for (uint32_t i = 0; i <= count; i++) /* one more is computed in any case */
        out[i] = (uint32_t)rng_at(7, i < count ? request->ids[i / PAGE] : IDS_MAX, i % PAGE);
    return count;
}

static void units_request(struct prefix_cache *cache, struct sequence *sequence,
                          const struct request *request, struct hits *hits)
{
    static const struct engine_domain domain = {{1}};
    const struct prefix_view view = {.domain = &domain, .weight = 100};
    struct kv_pool *pool = cache->pool;
    struct prefix_match match;
    const uint32_t count = units_tokens(request, sequence->tokens);
    sequence->domain = domain;
    sequence->computed = prefix_cache_take(cache, &view, sequence->tokens, count + 1,
                                           sequence->pages, &sequence->page_count, &match);
    sequence->window_page = kv_pool_window_page(pool, sequence->computed);
    hits->blocks[0] += request->count;
    hits->found[0] += match.pages + (match.tokens == count && match.rest_tokens > 0);
    sequence_keep_tail(sequence, pool, match.pages * PAGE);
    const uint32_t fork = match.tokens + match.window_lost;
    while (sequence->computed < count) {
        const uint32_t page = sequence->computed / PAGE;
        const uint32_t before = sequence->computed;
        const uint32_t end = (page + 1) * PAGE < count ? (page + 1) * PAGE : count;
        must(prefix_cache_make_room(cache, kv_pool_page_units(pool)), "a request has no room");
        sequence_grow(sequence, pool, end);
        sequence->computed = end;
        if (end % PAGE == 0)
            prefix_cache_insert(cache, &view, sequence->tokens, page, 1, sequence->pages);
        if (before < fork && fork <= end)
            sequence_keep_tail(sequence, pool, fork);
        if (end == count)
            sequence_keep_tail(sequence, pool, end);
        sequence_advance(sequence, pool);
    }
    if (match.tokens < count && count % PAGE > 0)
        prefix_cache_insert_rest(cache, &view, sequence->tokens, count,
                                 sequence->pages[count / PAGE], false);
    sequence_drop_pages(sequence, pool);
}

/* Replays the trace in memory of `units` units, of which a page inside a window has 1 + more. */
static struct hits units_run(const struct trace *trace, uint32_t units, uint32_t more)
{
    static uint32_t tokens[(BLOCKS_MAX + 1) * PAGE];
    static page_id pages[BLOCKS_MAX + 1];
    struct sequence sequence = {.tokens = tokens, .pages = pages};
    struct hits hits = {0};
    struct kernels *kernels;
    struct kv_layout layout;
    struct kv_pool pool;
    struct prefix_cache cache;
    const struct kernels_options options = {
        .isa = "ref", .threads = 1, .rows_max = 1, .cols_max = 64};
    const uint32_t context = (BLOCKS_MAX + 1) * PAGE;
    must(kernels_create(&kernels, &options) == STATUS_OK, "no kernels");
    must(kernels_kv_layout(kernels, KV_TYPE_F16, PAGE, 1, 1, 1, &layout) == STATUS_OK, "no layout");
    layout.window_units = more;
    layout.window = more > 0 ? PAGE : 0;
    must(kv_pool_init(&pool, kernels, &layout, (uint64_t)units * layout.page_bytes, context) ==
             STATUS_OK,
         "the memory is too small");
    must(prefix_cache_init(&cache,
                           &(struct prefix_cache_options){
                               .kernels = kernels, .pool = &pool, .context = context, .seed = 1}) ==
             STATUS_OK,
         "no memory for the cache");
    for (uint32_t i = 0; i < trace->count; i++)
        units_request(&cache, &sequence, &trace->requests[i], &hits);
    must(prefix_cache_check(&cache), "the cache is broken");
    prefix_cache_deinit(&cache);
    kv_pool_deinit(&pool);
    kernels_destroy(kernels);
    return hits;
}

/* --- what is shown --- */

static double rate(const struct hits *hits, uint32_t tenant)
{
    return hits->blocks[tenant] > 0 ? (double)hits->found[tenant] / (double)hits->blocks[tenant]
                                    : 0;
}

static bool show_capacities(const char *path)
{
    static const uint32_t times[] = {1, 3, 10};
    struct trace *trace = mem_zalloc(1, sizeof(*trace));
    bool is_good = true;
    must(trace != NULL, "no memory");
    if (path != NULL)
        trace_read(trace, path);
    else
        trace_generate(trace);
    struct hits unlimited = lru_run(trace, IDS_MAX);
    for (uint32_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint32_t capacity = times[i] * BLOCKS_1X;
        struct hits tree = tree_run(trace, capacity);
        struct hits lru = lru_run(trace, capacity);
        is_good = is_good && tree.found[0] >= lru.found[0];
        printf("{\"what\":\"prefix_trace\",\"trace\":\"%s\",\"requests\":%u,\"blocks\":%llu,"
               "\"capacity_blocks\":%u,\"tree\":%.4f,\"leaf_lru\":%.4f,\"unlimited\":%.4f}\n",
               path != NULL ? "file" : "generated", trace->count,
               (unsigned long long)tree.blocks[0], capacity, rate(&tree, 0), rate(&lru, 0),
               rate(&unlimited, 0));
    }
    trace_free(trace);
    return is_good;
}

static uint32_t blocks_of(const struct trace *trace)
{
    bool *is_known = mem_zalloc(IDS_MAX, sizeof(*is_known));
    uint32_t blocks = 0;
    must(is_known != NULL, "no memory");
    for (uint32_t i = 0; i < trace->count; i++)
        for (uint32_t b = 0; b < trace->requests[i].count; b++) {
            blocks += !is_known[trace->requests[i].ids[b]];
            is_known[trace->requests[i].ids[b]] = true;
        }
    mem_free(is_known);
    return blocks;
}

static bool show_units(const char *path)
{
    struct trace *trace = mem_zalloc(1, sizeof(*trace));
    must(trace != NULL, "no memory");
    if (path != NULL)
        trace_read(trace, path);
    else
        trace_generate(trace);
    const uint32_t pages = blocks_of(trace) * MEMORY_PERCENT / 100;
    const struct hits whole = units_run(trace, pages, 0);
    const struct hits units = units_run(trace, pages * (1 + WINDOW_UNITS), WINDOW_UNITS);
    const double gain = rate(&units, 0) / rate(&whole, 0);
    printf("{\"what\":\"prefix_units\",\"trace\":\"%s\",\"pages\":%u,\"whole_pages\":%.4f,"
           "\"units\":%.4f,\"gain\":%.2f}\n",
           path != NULL ? "file" : "generated", pages, rate(&whole, 0), rate(&units, 0), gain);
    trace_free(trace);
    return gain >= UNITS_GAIN;
}

static bool show_flood(void)
{
    double rates[3]; /* tenant 1 alone, under the flood, and under it with plain leaf-LRU */
    for (uint32_t i = 0; i < 3; i++) {
        struct trace *trace = mem_zalloc(1, sizeof(*trace));
        must(trace != NULL, "no memory");
        trace_flood(trace, i == 0);
        struct hits hits = i < 2 ? tree_run(trace, 1000) : lru_run(trace, 1000);
        rates[i] = rate(&hits, 1);
        trace_free(trace);
    }
    printf("{\"what\":\"prefix_flood\",\"capacity_blocks\":1000,\"alone\":%.4f,\"flooded\":%.4f,"
           "\"flooded_leaf_lru\":%.4f}\n",
           rates[0], rates[1], rates[2]);
    return rates[1] >= rates[0];
}

int main(int argc, char **argv)
{
    must(argc <= 2, "usage: prefix_trace [FILE]");
    bool is_good = show_capacities(argc > 1 ? argv[1] : NULL);
    is_good = show_flood() && is_good;
    is_good = show_units(argc > 1 ? argv[1] : NULL) && is_good;
    if (!is_good)
        fprintf(stderr, "prefix_trace: a hit rate is below its bound\n");
    return is_good ? 0 : 1;
}
