/* cache_bed: a pool with a prefix cache, and pages whose bytes show which text they belong to.
 *
 * Owns:     kernels and layout of the test program; what its caller opens.
 * Thread:   one.
 * Cost:     checking a page computes its text again from the start.
 * Not here: what is right (the tests). A violated expectation ends the process.
 *
 * K and V of each token are a function of all tokens up to it, as a forward pass would write them.
 */
#pragma once

#include "engine/kv/prefix_cache.h"

enum {
    CACHE_BED_SYMBOLS = 16,
    CACHE_BED_CONTEXT = 96,
    CACHE_BED_TABLE = CACHE_BED_CONTEXT / CACHE_BED_SYMBOLS,
};

extern struct kernels *cache_bed_kernels;
extern struct kv_layout cache_bed_layout;

/* Set-up of a cmocka group, with pages of f16 or of i8, or with two window units and a window of
 * one token: from token 64 on, rows read the window units of pages from the fifth on. */
int cache_bed_setup(void **state);
int cache_bed_setup_i8(void **state);
int cache_bed_setup_windows(void **state);
int cache_bed_teardown(void **state);

/* A pool with a cache, and the number of holders of each page besides the cache, and of those that
 * need its window units. */
struct cache_bed {
    struct kv_pool pool;
    struct prefix_cache cache;
    uint32_t holders[1024];
    uint32_t needs[1024];
};

struct cache_bed_text {
    uint32_t tokens[CACHE_BED_CONTEXT];
};

/* A sequence as the engine would run it. */
struct cache_bed_runner {
    struct cache_bed *bed;
    struct prefix_view view;
    const uint32_t *tokens;
    page_id pages[CACHE_BED_TABLE];
    uint32_t page_count;
    uint32_t computed;
    uint32_t full;        /* pages of the table that were inserted or taken */
    uint32_t window_page; /* pages from here on need their window units */
    struct prefix_match match;
};

/* Writes tokens [from, to) of a text, all within page `index`, as the kernels would. */
void cache_bed_compute(void *page, const uint32_t *tokens, uint32_t index, uint32_t from,
                       uint32_t to);
/* Checks that the first `count` tokens of a page are those of page `index` of the text. */
void cache_bed_must_hold(const void *page, const uint32_t *tokens, uint32_t index, uint32_t count);
/* `ghosts` is prefix_cache_options.ghosts_max. */
void cache_bed_init(struct cache_bed *bed, uint32_t pages, uint32_t host_pages, uint32_t ghosts);
void cache_bed_deinit(struct cache_bed *bed);
/* Checks all invariants; for a bed without preempted sequences. */
void cache_bed_check(struct cache_bed *bed);
/* Makes a text that shares its first `common` tokens with `other` and none after them. */
void cache_bed_text_make(struct cache_bed_text *out, const struct cache_bed_text *other,
                         uint32_t common, uint32_t salt);
/* Checks that the sequence may see its pages, and that they hold its text. */
void cache_bed_verify(const struct cache_bed_runner *runner);
/* Admits a prompt of `count` tokens, and checks that it takes what it found, with the right bytes.
 * Returns the tokens computed already. */
uint32_t cache_bed_start(struct cache_bed_runner *runner, struct cache_bed *bed,
                         const struct prefix_view *view, const struct cache_bed_text *text,
                         uint32_t count);
/* Computes up to `count` tokens and inserts the pages that became full. False when there is no
 * room. */
bool cache_bed_grow(struct cache_bed_runner *runner, uint32_t count);
/* Give the partial page to the cache; release the pages; do both. */
void cache_bed_rest(struct cache_bed_runner *runner, bool is_open);
void cache_bed_release(struct cache_bed_runner *runner);
void cache_bed_end(struct cache_bed_runner *runner);
/* Runs a whole request and returns how many tokens it found in the cache. */
uint32_t cache_bed_run(struct cache_bed *bed, const struct prefix_view *view,
                       const struct cache_bed_text *text, uint32_t count);
