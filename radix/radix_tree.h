/* radix_tree: prefix trees of pages of symbols, one for each domain, in one table of nodes.
 *
 * Owns:     nodes, the symbols that they stand for, lists of what may be evicted (radix_evict).
 * Thread:   one at a time.
 * Cost:     no allocation after radix_tree_create; about 130 bytes a node at 16 symbols.
 * Not here: what a value is and who else holds it (engine/kv/prefix_cache).
 */
#pragma once

#include "config/base/status.h"
#include "radix/radix_types.h"

/* A node stands for one page of `page_symbols` symbols. It is found by (parent, symbols), compared
 * in full. The example has two domains and page_symbols 2. A domain whose paths continue a prefix
 * of another domain repeats that prefix as ghosts (~):
 *
 *     public   [ab]=7 ─ [cd]=8                a path of `own` is matched in both at once:
 *     own      [ab]~ ─ [cd]~ ─ [ef]=3         abcdef → 7, 8, 3
 *                            └ [g]=5          a partial page: the end of a path, a leaf
 *
 * A ghost has no value. A match through it succeeds only where another domain of the same match has
 * the value. A ghost without children is removed at once. */

/* Creates a tree without nodes. `values_max` + `ghosts_max` must be below 2^31. NO_MEMORY: the note
 * says how much was wanted. */
enum status radix_tree_create(struct radix_tree **out, const struct radix_options *options);
void radix_tree_destroy(struct radix_tree *tree);

/* Returns the domain of an id, or RADIX_NONE when it is not open. O(1). */
radix_domain radix_tree_find_domain(const struct radix_tree *tree, const uint8_t id[16]);
/* Finds the domain of an id or opens it, and sets its weight (≥ 1). When all domains are open, the
 * new one replaces one without nodes. RADIX_NONE when all have nodes. O(log domains). */
radix_domain radix_tree_open_domain(struct radix_tree *tree, const uint8_t id[16], uint32_t weight);

/* Matches `symbols` in all `domains` in lockstep. Returns how many whole pages matched; nodes[i] is
 * the node of page i, taken from the first domain whose tree has it with a value. `nodes` has room
 * for count / page_symbols entries.
 *
 * *partial is the partial match behind those pages: the node with a value that shares the most of
 * the following symbols, *partial_symbols ≥ 1 of them. Ties go to the earlier domain, then to the
 * node inserted later. At most LIMIT_PARTIAL_CANDIDATES nodes of a domain are compared, latest
 * first. Without a partial match they are RADIX_NONE and 0.
 *
 * `domains` has at most LIMIT_DOMAINS_VISIBLE + 1 entries; an entry may be RADIX_NONE. Changes
 * nothing. O(pages × domains). */
uint32_t radix_tree_match(const struct radix_tree *tree, const radix_domain *domains,
                          uint32_t domain_count, const uint32_t *symbols, uint32_t count,
                          radix_node *nodes, radix_node *partial, uint32_t *partial_symbols);

/* Returns the node at the end of a path of `count` ≥ 1 symbols of one domain. The path starts below
 * the node `below`, a whole page of the domain, or at the root when `below` is RADIX_NONE. Missing
 * nodes are made, as ghosts. If `count` is not a multiple of page_symbols, the last node is a
 * partial page. If the returned node is a ghost (radix_tree_tier), the caller sets or clears it
 * before the next insert. Returns RADIX_NONE, and changes nothing, when the table is full or the
 * domain would have more ghosts than it leaves free for others. O(pages). */
radix_node radix_tree_insert(struct radix_tree *tree, radix_domain domain, radix_node below,
                             const uint32_t *symbols, uint32_t count);
/* Gives a node a value in a tier, or replaces its value and tier. The node is busy afterwards, and
 * its value has one unit. O(log domains). */
void radix_tree_set(struct radix_tree *tree, radix_node node, enum radix_tier tier, uint32_t value);
/* Says how many units of its tier's memory a node's value takes, from 1 to UINT16_MAX; shares are
 * counted in units (radix_evict_next). O(log domains). */
void radix_tree_weigh(struct radix_tree *tree, radix_node node, uint32_t units);
/* Takes the value away. A node with children becomes a ghost. Otherwise the node is removed, and
 * with it each ancestor that then has neither value nor children. O(log domains) and O(1) for each
 * removed node. */
void radix_tree_clear(struct radix_tree *tree, radix_node node);

enum radix_tier radix_tree_tier(const struct radix_tree *tree, radix_node node);
/* Returns the value of a node that has one. */
uint32_t radix_tree_value(const struct radix_tree *tree, radix_node node);
uint32_t radix_tree_units(const struct radix_tree *tree, radix_node node);
radix_domain radix_tree_domain_of(const struct radix_tree *tree, radix_node node);
/* Returns page_symbols, or fewer for a partial page. */
uint32_t radix_tree_symbol_count(const struct radix_tree *tree, radix_node node);

/* Returns the number of nodes of a tier (ghosts too): of all domains, and of one. */
uint32_t radix_tree_count(const struct radix_tree *tree, enum radix_tier tier);
uint32_t radix_tree_resident(const struct radix_tree *tree, radix_domain domain,
                             enum radix_tier tier);

/* Removes every node of a domain, busy or not. Calls `gone` with each value; `gone` may not call
 * the tree. O(nodes of the domain). */
void radix_tree_drop_domain(struct radix_tree *tree, radix_domain domain,
                            void (*gone)(void *context, enum radix_tier tier, uint32_t value),
                            void *context);

/* --- radix_evict: which value is evicted next ---
 * A node is idle when the tree alone holds its value, so that the value may be evicted. A caller
 * that releases a path starts with its last page, so that the least recently idle node is a leaf.
 */

/* Appends the node to its domain's idle list of its tier, or moves it to the end. Not for ghosts.
 * O(log domains). */
void radix_evict_idle(struct radix_tree *tree, radix_node node);
/* Removes the node from its idle list; no effect if it is in none. O(log domains). */
void radix_evict_busy(struct radix_tree *tree, radix_node node);
/* Returns the next node to evict: the least recently idle node of the domain furthest above its
 * share. That is the domain whose nodes of this tier, idle or not, have the most units by weight,
 * among the domains with idle nodes. Domains with at most RADIX_EVICT_FLOOR nodes come last, least
 * recently idle first. RADIX_NONE when nothing is idle. The node stays in the list until it is
 * cleared, set or made busy. O(1). */
enum { RADIX_EVICT_FLOOR = 4 };
radix_node radix_evict_next(const struct radix_tree *tree, enum radix_tier tier);
uint32_t radix_evict_idle_count(const struct radix_tree *tree, enum radix_tier tier);

/* --- radix_check: tests all invariants; for tests and slow checks. O(nodes + domains) --- */
bool radix_check(const struct radix_tree *tree);
