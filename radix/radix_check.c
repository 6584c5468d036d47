#include <string.h>

#include "radix/radix_store.h"
#include "radix/radix_tree.h"

static bool check_parent(const struct radix_tree *tree, const struct radix_record *it)
{
    if ((it->parent & RADIX_ROOT) != 0)
        return it->parent == (RADIX_ROOT | it->domain);
    if (it->parent >= radix_store_nodes(tree))
        return false;
    const struct radix_record *parent = &tree->nodes[it->parent];
    return parent->symbol_count == tree->options.page_symbols && parent->domain == it->domain;
}

/* Checks that `node` is linked in its parent's list of children and in its hash bucket, and that a
 * look-up of its symbols finds it. */
static bool check_node(const struct radix_tree *tree, radix_node node)
{
    const struct radix_record *it = &tree->nodes[node];
    if (it->domain >= tree->options.domains_max || !tree->domains[it->domain].is_named ||
        it->symbol_count > tree->options.page_symbols || it->tier >= RADIX_TIERS ||
        !check_parent(tree, it))
        return false;
    if (it->sibling_previous == RADIX_NONE ? *radix_store_children(tree, it->parent) != node
                                           : tree->nodes[it->sibling_previous].sibling_next != node)
        return false;
    if (it->sibling_next != RADIX_NONE && tree->nodes[it->sibling_next].sibling_previous != node)
        return false;
    if (it->first_child != RADIX_NONE && (it->symbol_count < tree->options.page_symbols ||
                                          tree->nodes[it->first_child].parent != node))
        return false;
    if (it->tier == RADIX_GHOST &&
        (it->idle_since != 0 || (it->first_child == RADIX_NONE && node != tree->fresh)))
        return false;
    const uint32_t *symbols = radix_store_symbols(tree, node);
    uint64_t hash = radix_store_hash_symbols(tree, symbols, it->symbol_count);
    return it->hash == radix_store_hash(hash, it->parent) &&
           radix_tree_child(tree, it->parent, hash, symbols, it->symbol_count) == node;
}

/* Checks that a domain's idle list of a tier is doubly linked, ordered by time, and holds only idle
 * nodes of that domain and tier. Adds its length to *count. */
static bool check_idle(const struct radix_tree *tree, radix_domain domain, enum radix_tier tier,
                       uint32_t *count)
{
    const struct radix_idle *idle = &tree->domains[domain].idle[tier];
    radix_node previous = RADIX_NONE;
    uint64_t since = 0;
    for (radix_node node = idle->first; node != RADIX_NONE; node = tree->nodes[node].idle_next) {
        const struct radix_record *it = &tree->nodes[node];
        if (node >= radix_store_nodes(tree) || it->symbol_count == 0 || it->domain != domain ||
            it->tier != tier || it->idle_previous != previous || it->idle_since <= since)
            return false;
        since = it->idle_since;
        previous = node;
        ++*count;
    }
    const uint32_t position = idle->position;
    return idle->last == previous && since <= tree->clock &&
           (idle->first == RADIX_NONE) == (position == RADIX_NONE) &&
           (position == RADIX_NONE ||
            (position < tree->heap_counts[tier] && tree->heaps[tier][position] == domain));
}

static bool check_domain(const struct radix_tree *tree, radix_domain domain)
{
    const struct radix_domain_record *it = &tree->domains[domain];
    uint32_t nodes = 0;
    for (enum radix_tier tier = 0; tier < RADIX_TIERS; tier++)
        nodes += it->counts[tier];
    if ((nodes == 0) != (it->first_child == RADIX_NONE))
        return false;
    return !it->is_named || (it->weight > 0 && radix_tree_find_domain(tree, it->id) == domain);
}

/* Checks that the queue of domains without nodes holds exactly those domains. */
static bool check_empty(const struct radix_tree *tree)
{
    uint32_t expected = 0;
    for (uint32_t i = 0; i < tree->options.domains_max; i++)
        expected += tree->domains[i].first_child == RADIX_NONE;
    radix_domain previous = RADIX_NONE;
    uint32_t count = 0;
    for (radix_domain at = tree->empty_first; at != RADIX_NONE && count <= expected;
         at = tree->domains[at].empty_next) {
        if (tree->domains[at].first_child != RADIX_NONE ||
            tree->domains[at].empty_previous != previous)
            return false;
        previous = at;
        count++;
    }
    return count == expected && tree->empty_last == previous;
}

static bool check_heap(const struct radix_tree *tree, enum radix_tier tier)
{
    for (uint32_t i = 1; i < tree->heap_counts[tier]; i++)
        if (radix_evict_rank_before(tree, tier, tree->heaps[tier][i],
                                    tree->heaps[tier][(i - 1) / 2]))
            return false;
    uint32_t idle = 0;
    uint32_t listed = 0;
    for (uint32_t i = 0; i < tree->options.domains_max; i++) {
        if (!check_idle(tree, i, tier, &idle))
            return false;
        listed += tree->domains[i].idle[tier].first != RADIX_NONE;
    }
    uint32_t marked = 0;
    for (uint32_t i = 0; i < radix_store_nodes(tree); i++)
        marked += tree->nodes[i].symbol_count > 0 && tree->nodes[i].tier == tier &&
                  tree->nodes[i].idle_since != 0;
    return idle == marked && idle == tree->idle_counts[tier] && listed == tree->heap_counts[tier];
}

/* Checks that the tree's count of each tier equals the number of such nodes and the sum over the
 * domains, and that the domains' units are those of the nodes. */
static bool check_counts(const struct radix_tree *tree)
{
    uint32_t found[RADIX_TIERS] = {0};
    uint32_t units[RADIX_TIERS] = {0};
    uint32_t used = 0;
    for (uint32_t i = 0; i < radix_store_nodes(tree); i++) {
        if (tree->nodes[i].symbol_count > 0) {
            found[tree->nodes[i].tier]++;
            units[tree->nodes[i].tier] += tree->nodes[i].units;
            used++;
        }
    }
    for (enum radix_tier tier = 0; tier < RADIX_TIERS; tier++) {
        uint32_t sum = 0;
        uint32_t sum_units = 0;
        for (uint32_t i = 0; i < tree->options.domains_max; i++) {
            sum += tree->domains[i].counts[tier];
            sum_units += tree->domains[i].units[tier];
        }
        if (found[tier] != tree->counts[tier] || sum != found[tier] || sum_units != units[tier])
            return false;
    }
    uint32_t free_count = 0;
    for (radix_node at = tree->free_first;
         at != RADIX_NONE && used + free_count <= radix_store_nodes(tree);
         at = tree->nodes[at].bucket_next)
        free_count += tree->nodes[at].symbol_count == 0;
    return used + free_count == radix_store_nodes(tree) &&
           found[RADIX_DEVICE] + found[RADIX_HOST] <= tree->options.values_max;
}

bool radix_check(const struct radix_tree *tree)
{
    for (uint32_t i = 0; i < radix_store_nodes(tree); i++)
        if (tree->nodes[i].symbol_count > 0 && !check_node(tree, i))
            return false;
    for (uint32_t i = 0; i < tree->options.domains_max; i++)
        if (!check_domain(tree, i))
            return false;
    return check_counts(tree) && check_empty(tree) && check_heap(tree, RADIX_DEVICE) &&
           check_heap(tree, RADIX_HOST);
}
