/* radix_types: nodes, domains and tiers, as all files of the room know them.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: what can be done with them (radix_tree), how they lie in memory (radix_store).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct radix_tree;
typedef uint32_t radix_node;   /* good until its value is cleared or its domain dropped */
typedef uint32_t radix_domain; /* good while the domain has nodes, else until the next open */

#define RADIX_NONE UINT32_MAX

enum radix_tier { RADIX_GHOST, RADIX_DEVICE, RADIX_HOST, RADIX_TIERS };

struct radix_options {
    uint32_t page_symbols; /* of a node */
    uint32_t values_max;   /* nodes with a value: as many as pages of all tiers; kept for them */
    uint32_t ghosts_max;   /* nodes beside them */
    uint32_t domains_max;  /* with nodes at the same time */
    uint64_t seed;         /* secret: keys the hashes, so that nobody can make long chains */
};
