/* radix_store: the layout of the tree's memory, shared by the files of this room.
 *
 * Owns:     the layout of struct radix_tree.
 * Thread:   as radix_tree.
 * Not here: anything for other rooms (radix_tree.h).
 */
#pragma once

#include "config/base/hash.h"
#include "radix/radix_types.h"

/* A parent is a node, or the root of a domain, written RADIX_ROOT | domain. */
#define RADIX_ROOT 0x80000000u

/* A node. A node with symbol_count 0 is free, and `bucket_next` is the next free one. Lists end
 * with RADIX_NONE. */
struct radix_record {
    uint32_t parent;
    uint32_t hash; /* of (parent, symbols) */
    radix_node bucket_next;
    radix_domain domain;
    radix_node first_child; /* the child inserted last */
    radix_node sibling_previous, sibling_next;
    radix_node idle_previous, idle_next;
    uint32_t value;
    /* 0: busy; otherwise the value of the tree's clock when the node became idle */
    uint64_t idle_since;
    uint16_t symbol_count;
    uint8_t tier;
    uint16_t units; /* of its value; 1 unless radix_tree_weigh said otherwise */
};

/* The idle nodes of a domain in a tier, least recently idle first. `position` is the domain's index
 * in the tier's heap, or RADIX_NONE when the list is empty. */
struct radix_idle {
    radix_node first, last;
    uint32_t position;
};

/* A domain. A domain without nodes is in the queue of empty domains, whether it has a name or not.
 */
struct radix_domain_record {
    uint8_t id[16];
    bool is_named;
    uint32_t weight;
    radix_domain bucket_next;
    radix_domain empty_previous, empty_next;
    radix_node first_child;
    uint32_t counts[RADIX_TIERS]; /* nodes of each tier */
    uint32_t units[RADIX_TIERS];  /* of these nodes */
    struct radix_idle idle[RADIX_TIERS];
};

/* Nodes and domains are found through chained hash tables. Each has 2^n heads, at least as many as
 * it can have entries, so that chains are short. */
struct radix_tree {
    struct radix_options options;
    struct hash_key key;
    struct radix_record *nodes; /* [values_max + ghosts_max] */
    uint32_t *symbols;          /* [values_max + ghosts_max][page_symbols] */
    radix_node *buckets;        /* [bucket_mask + 1] */
    struct radix_domain_record *domains;
    radix_domain *domain_buckets;
    uint32_t bucket_mask, domain_bucket_mask;
    radix_node free_first;
    /* the node that the last insert made, while it has no value; else RADIX_NONE */
    radix_node fresh;
    radix_domain empty_first, empty_last;
    uint32_t counts[RADIX_TIERS];
    uint32_t idle_counts[RADIX_TIERS];
    uint64_t clock;                   /* the number of calls of radix_evict_idle so far */
    radix_domain *heaps[RADIX_TIERS]; /* domains with idle nodes; the root evicts next */
    uint32_t heap_counts[RADIX_TIERS];
};

static inline uint32_t radix_store_nodes(const struct radix_tree *tree)
{
    return tree->options.values_max + tree->options.ghosts_max;
}

static inline uint32_t *radix_store_symbols(const struct radix_tree *tree, radix_node node)
{
    return tree->symbols + (size_t)node * tree->options.page_symbols;
}

/* Returns where a parent stores its first child. */
static inline radix_node *radix_store_children(const struct radix_tree *tree, uint32_t parent)
{
    return (parent & RADIX_ROOT) != 0 ? &tree->domains[parent & ~RADIX_ROOT].first_child
                                      : &tree->nodes[parent].first_child;
}

/* Returns the part of a node's hash that depends on the symbols alone. A match hashes a page once
 * and combines the result with the parent that each domain has (radix_store_hash). */
static inline uint64_t radix_store_hash_symbols(const struct radix_tree *tree,
                                                const uint32_t *symbols, uint32_t count)
{
    return hash_bytes(&tree->key, symbols, count * sizeof *symbols);
}

static inline uint32_t radix_store_hash(uint64_t symbols_hash, uint32_t parent)
{
    return (uint32_t)hash_mix64(symbols_hash + parent * 0x9e3779b97f4a7c15u);
}

/* Returns the child of `parent` with exactly these symbols, or RADIX_NONE. */
radix_node radix_tree_child(const struct radix_tree *tree, uint32_t parent, uint64_t symbols_hash,
                            const uint32_t *symbols, uint32_t count);

static inline uint32_t radix_store_domain_hash(const struct radix_tree *tree, const uint8_t id[16])
{
    return (uint32_t)hash_bytes(&tree->key, id, 16);
}

/* Returns whether domain `a` evicts before domain `b`; both have idle nodes in `tier`. Shares are
 * parts of the same tier in proportion to weight, so the domain furthest above its share is the one
 * whose nodes have the most units by weight. */
bool radix_evict_rank_before(const struct radix_tree *tree, enum radix_tier tier, radix_domain a,
                             radix_domain b);
/* Restores a domain's position in the heap of a tier, after its idle list, count or weight changed.
 */
void radix_evict_rank(struct radix_tree *tree, radix_domain domain, enum radix_tier tier);
