/* radix_types: the types that all files of the room share: nodes, domains, tiers, options.
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
typedef uint32_t radix_node;   /* valid until its value is cleared or its domain dropped */
typedef uint32_t radix_domain; /* valid while the domain has nodes, else until the next open */

#define RADIX_NONE UINT32_MAX

enum radix_tier { RADIX_GHOST, RADIX_DEVICE, RADIX_HOST, RADIX_TIERS };

struct radix_options {
    uint32_t page_symbols; /* symbols of a whole page */
    /* nodes with a value: one for each page of all tiers; ghosts never take their capacity */
    uint32_t values_max;
    uint32_t ghosts_max;  /* further nodes, for ghosts */
    uint32_t domains_max; /* domains open at the same time */
    uint64_t seed;        /* secret; keys the hashes, so that nobody can build long chains */
};
