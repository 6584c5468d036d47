/* grammar_cache: compiled grammars by share domain and whole source.
 *
 * Owns:     a table of sources and references of grammars.
 * Thread:   any; one lock.
 * Cost:     a hash and a comparison of the source; no allocation when a source is found.
 * Not here: compilation (engine/schema), who waits for it (the compile thread).
 *
 * A grammar is seen by its domain alone. A cache that domains shared would tell a neighbour, by
 * time, that somebody has sent a schema before. A domain has at most LIMIT_GRAMMAR_DOMAIN_BYTES and
 * LIMIT_GRAMMAR_DOMAIN_COUNT, and all together have at most the bytes of the options. The least
 * recently used grammar of the domain goes first if the domain is over its share; if all are over,
 * the least recently used one of the domain that has the most bytes goes. So one tenant's schemas
 * never push out a small set of another's. A grammar that a run uses lives on until the run ends.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/grammar/grammar.h"

struct grammar_cache;

struct grammar_cache_domain {
    uint8_t bytes[16];
};

struct grammar_cache_counts {
    size_t bytes;
    uint32_t grammars;
    uint32_t domains;
    uint64_t hits;
    uint64_t misses;
    uint64_t evicted;
};

/* `limit_bytes` bounds sources and grammars of all domains together; 0 keeps nothing. */
enum status grammar_cache_new(size_t limit_bytes, struct grammar_cache **out);
void grammar_cache_free(struct grammar_cache *cache); /* NULL is allowed */

/* Returns a reference that the caller drops, or NULL. A grammar whose table is full is forgotten,
 * so that it is compiled anew. `kind` and `options` are numbers of the front
 * end's that belong to the source. */
struct grammar *grammar_cache_find(struct grammar_cache *cache, struct grammar_cache_domain domain,
                                   uint32_t kind, uint32_t options, struct slice source);
/* Keeps the grammar, takes a reference of its own, and copies the source. If the source is there
 * already, or is too large, or there is no memory, nothing is kept. */
void grammar_cache_keep(struct grammar_cache *cache, struct grammar_cache_domain domain,
                        uint32_t kind, uint32_t options, struct slice source,
                        struct grammar *grammar);
void grammar_cache_count(struct grammar_cache *cache, struct grammar_cache_counts *out);
