#include "radix/radix_store.h"
#include "radix/radix_tree.h"

bool radix_evict_rank_before(const struct radix_tree *tree, enum radix_tier tier, radix_domain a,
                             radix_domain b)
{
    const struct radix_domain_record *left = &tree->domains[a];
    const struct radix_domain_record *right = &tree->domains[b];
    const uint64_t left_units = (uint64_t)left->units[tier] * right->weight;
    const uint64_t right_units = (uint64_t)right->units[tier] * left->weight;
    const bool is_left_above = left->counts[tier] > RADIX_EVICT_FLOOR;
    if (is_left_above != (right->counts[tier] > RADIX_EVICT_FLOOR))
        return is_left_above;
    if (is_left_above && left_units != right_units)
        return left_units > right_units;
    return tree->nodes[left->idle[tier].first].idle_since <
           tree->nodes[right->idle[tier].first].idle_since;
}

static void rank_put(struct radix_tree *tree, enum radix_tier tier, uint32_t position,
                     radix_domain domain)
{
    tree->heaps[tier][position] = domain;
    tree->domains[domain].idle[tier].position = position;
}

static void rank_up(struct radix_tree *tree, enum radix_tier tier, uint32_t position)
{
    const radix_domain *heap = tree->heaps[tier];
    const radix_domain domain = heap[position];
    while (position > 0 && radix_evict_rank_before(tree, tier, domain, heap[(position - 1) / 2])) {
        rank_put(tree, tier, position, heap[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    rank_put(tree, tier, position, domain);
}

static void rank_down(struct radix_tree *tree, enum radix_tier tier, uint32_t position)
{
    const radix_domain *heap = tree->heaps[tier];
    const radix_domain domain = heap[position];
    const uint32_t count = tree->heap_counts[tier];
    for (;;) {
        uint32_t child = position * 2 + 1;
        if (child >= count)
            break;
        if (child + 1 < count && radix_evict_rank_before(tree, tier, heap[child + 1], heap[child]))
            child++;
        if (!radix_evict_rank_before(tree, tier, heap[child], domain))
            break;
        rank_put(tree, tier, position, heap[child]);
        position = child;
    }
    rank_put(tree, tier, position, domain);
}

void radix_evict_rank(struct radix_tree *tree, radix_domain domain, enum radix_tier tier)
{
    struct radix_idle *idle = &tree->domains[domain].idle[tier];
    uint32_t position = idle->position;
    if (idle->first == RADIX_NONE) {
        if (position == RADIX_NONE)
            return;
        idle->position = RADIX_NONE; /* the heap's last domain moves into the gap */
        radix_domain last = tree->heaps[tier][--tree->heap_counts[tier]];
        if (last == domain)
            return;
        rank_put(tree, tier, position, last);
        domain = last;
    } else if (position == RADIX_NONE) {
        rank_put(tree, tier, tree->heap_counts[tier]++, domain);
    }
    rank_up(tree, tier, tree->domains[domain].idle[tier].position);
    rank_down(tree, tier, tree->domains[domain].idle[tier].position);
}

/* Unlinks the node from its idle list. The caller updates the domain's rank. */
static void idle_leave(struct radix_tree *tree, radix_node node)
{
    struct radix_record *it = &tree->nodes[node];
    struct radix_idle *idle = &tree->domains[it->domain].idle[it->tier];
    *(it->idle_previous != RADIX_NONE ? &tree->nodes[it->idle_previous].idle_next : &idle->first) =
        it->idle_next;
    *(it->idle_next != RADIX_NONE ? &tree->nodes[it->idle_next].idle_previous : &idle->last) =
        it->idle_previous;
    it->idle_previous = RADIX_NONE;
    it->idle_next = RADIX_NONE;
    it->idle_since = 0;
    tree->idle_counts[it->tier]--;
}

void radix_evict_idle(struct radix_tree *tree, radix_node node)
{
    ASSERT(node < radix_store_nodes(tree));
    struct radix_record *it = &tree->nodes[node];
    ASSERT(it->symbol_count > 0);
    ASSERT(it->tier != RADIX_GHOST);
    if (it->idle_since != 0)
        idle_leave(tree, node);
    struct radix_idle *idle = &tree->domains[it->domain].idle[it->tier];
    it->idle_previous = idle->last;
    *(idle->last != RADIX_NONE ? &tree->nodes[idle->last].idle_next : &idle->first) = node;
    idle->last = node;
    it->idle_since = ++tree->clock;
    tree->idle_counts[it->tier]++;
    radix_evict_rank(tree, it->domain, it->tier);
}

void radix_evict_busy(struct radix_tree *tree, radix_node node)
{
    ASSERT(node < radix_store_nodes(tree));
    struct radix_record *it = &tree->nodes[node];
    ASSERT(it->symbol_count > 0);
    if (it->idle_since == 0)
        return;
    idle_leave(tree, node);
    radix_evict_rank(tree, it->domain, it->tier);
}

radix_node radix_evict_next(const struct radix_tree *tree, enum radix_tier tier)
{
    ASSERT(tier != RADIX_GHOST);
    return tree->heap_counts[tier] == 0 ? RADIX_NONE
                                        : tree->domains[tree->heaps[tier][0]].idle[tier].first;
}

uint32_t radix_evict_idle_count(const struct radix_tree *tree, enum radix_tier tier)
{
    return tree->idle_counts[tier];
}
