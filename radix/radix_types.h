/* radix_types: the types that all files of this folder share: nodes, domains, tiers, options.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: what can be done with them (radix_tree), their layout in memory (radix_store).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct radix_tree;
/* Names a node until the node's value is cleared or its domain is dropped. Later the tree may give
 * the number to another node. */
typedef uint32_t radix_node;
/* Names a domain while the domain has nodes. A domain without nodes may lose its number to another
 * one when radix_tree_open_domain is called. */
typedef uint32_t radix_domain;

#define RADIX_NONE UINT32_MAX

enum radix_tier { RADIX_GHOST, RADIX_DEVICE, RADIX_HOST, RADIX_TIERS };

struct radix_options {
    uint32_t page_symbols; /* symbols of a whole page */
    /* the largest number of nodes with a value: one for each page of all tiers */
    uint32_t values_max;
    uint32_t ghosts_max;  /* further nodes, for ghosts: nodes without a value (radix_tree.h) */
    uint32_t domains_max; /* domains open at the same time */
    uint64_t seed;        /* secret; keys the hashes, so that nobody can build long chains */
};
