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

/* A node is one page of `page_symbols` symbols and is found by (parent, symbols), compared in full.
 * Two domains of page_symbols 2; what a domain reads as its prefix, it repeats as ghosts (~):
 *
 *     public   [ab]=7 ─ [cd]=8                a path of `own` is matched in both at once:
 *     own      [ab]~ ─ [cd]~ ─ [ef]=3         abcdef → 7, 8, 3
 *                            └ [g]=5          a rest: the end of a text, a leaf
 *
 * A ghost has no value and gives none: what only another domain holds is not found through it. One
 * without children is removed at once. */
/* NO_MEMORY, with the sum. `values_max` + `ghosts_max` < 2^31. */
enum status radix_tree_create(struct radix_tree **out, const struct radix_options *options);
void radix_tree_destroy(struct radix_tree *tree);

/* The domain of an id; RADIX_NONE when it is not open. O(1). */
radix_domain radix_tree_find_domain(const struct radix_tree *tree, const uint8_t id[16]);
/* Finds or makes it; its weight (≥ 1) is `weight` from now on. A new one takes the place of one
 * without nodes when there is no other. RADIX_NONE when all have nodes. O(log domains). */
radix_domain radix_tree_open_domain(struct radix_tree *tree, const uint8_t id[16], uint32_t weight);

/* How far `symbols` are known to `domains`, in lockstep: page i is nodes[i], of the first domain
 * whose tree holds it with a value. Returns whole pages matched; `nodes` has room for count /
 * page_symbols. Then *rest is the node with a value, behind those pages and in any of the domains,
 * that shares most of the following symbols, *rest_symbols ≥ 1 of them (the earlier domain, then
 * the later inserted one among equals; LIMIT_REST_CANDIDATES of a domain are looked at, the latest
 * first), or RADIX_NONE and 0. Entries of `domains` may be RADIX_NONE; at most
 * LIMIT_DOMAINS_VISIBLE + 1. Changes nothing. O(pages × domains). */
uint32_t radix_tree_match(const struct radix_tree *tree, const radix_domain *domains,
                          uint32_t domain_count, const uint32_t *symbols, uint32_t count,
                          radix_node *nodes, radix_node *rest, uint32_t *rest_symbols);

/* The node at the end of a path of `count` ≥ 1 symbols in one domain, below `below`, a whole page
 * of it (RADIX_NONE: from the root), made where it is missing, with ghosts on the way. A rest if
 * `count` is no multiple of page_symbols. If radix_tree_tier says that it is a ghost, the caller
 * sets or clears it before the next insert. RADIX_NONE, and nothing changed, when the table is full
 * or the domain has no right to so many ghosts: it may have as many as it leaves for others.
 * O(pages). */
radix_node radix_tree_insert(struct radix_tree *tree, radix_domain domain, radix_node below,
                             const uint32_t *symbols, uint32_t count);
/* Gives a node a value in a tier, or moves it there with a new value. It is busy then.
 * O(log domains). */
void radix_tree_set(struct radix_tree *tree, radix_node node, enum radix_tier tier, uint32_t value);
/* Takes the value; the node vanishes, and ancestors without value and children with it, unless it
 * has children: then it is a ghost. O(log domains), and a step for each node that vanishes. */
void radix_tree_clear(struct radix_tree *tree, radix_node node);

enum radix_tier radix_tree_tier(const struct radix_tree *tree, radix_node node);
uint32_t radix_tree_value(const struct radix_tree *tree, radix_node node); /* of a node with one */
radix_domain radix_tree_domain_of(const struct radix_tree *tree, radix_node node);
uint32_t radix_tree_symbol_count(const struct radix_tree *tree,
                                 radix_node node); /* a rest has fewer */

/* Nodes of a tier (ghosts too): in all domains, and in one. */
uint32_t radix_tree_count(const struct radix_tree *tree, enum radix_tier tier);
uint32_t radix_tree_resident(const struct radix_tree *tree, radix_domain domain,
                             enum radix_tier tier);

/* Forgets every node of a domain, busy or not; `gone` is told each value and may not call the tree.
 * O(nodes of the domain). */
void radix_tree_drop_domain(struct radix_tree *tree, radix_domain domain,
                            void (*gone)(void *context, enum radix_tier tier, uint32_t value),
                            void *context);

/* --- radix_evict: which value goes next ---
 * A node is idle when its value may be taken: only the tree holds it. Whoever releases a path goes
 * from its last page to its first, so that the least recently idle is a leaf. */

/* Joins the end of its domain's list of its tier; moves there if it is in it. Not for ghosts.
 * O(log domains). */
void radix_evict_idle(struct radix_tree *tree, radix_node node);
/* Leaves the list; nothing happens if it is in none. O(log domains). */
void radix_evict_busy(struct radix_tree *tree, radix_node node);
/* The least recently idle node of the domain that is furthest above its share (the most nodes of
 * this tier, idle or not, by weight) of those with idle nodes. Domains with RADIX_EVICT_FLOOR nodes
 * or fewer come last, least recently idle first. RADIX_NONE when nothing is idle. It stays in the
 * list until it is cleared, set or busy. O(1). */
enum { RADIX_EVICT_FLOOR = 4 };
radix_node radix_evict_next(const struct radix_tree *tree, enum radix_tier tier);
uint32_t radix_evict_idle_count(const struct radix_tree *tree, enum radix_tier tier);

/* --- radix_check: all invariants; for tests and slow checks. O(nodes + domains) --- */
bool radix_check(const struct radix_tree *tree);
