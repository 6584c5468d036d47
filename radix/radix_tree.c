#include "radix/radix_tree.h"

#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "radix/radix_store.h"

/* --- creation --- */

/* Returns the number of heads of a chained table: a power of two, at least `entries`. */
static uint32_t create_heads(uint32_t entries)
{
    uint32_t heads = 1;
    while (heads < entries)
        heads *= 2;
    return heads;
}

/* Writes all memory once, so that no step pays for the first touch of a page. */
static void create_fill(struct radix_tree *tree)
{
    uint32_t nodes = radix_store_nodes(tree);
    memset(tree->symbols, 0, (size_t)nodes * tree->options.page_symbols * sizeof *tree->symbols);
    memset(tree->buckets, 0xff, ((size_t)tree->bucket_mask + 1) * sizeof *tree->buckets);
    memset(tree->domain_buckets, 0xff,
           ((size_t)tree->domain_bucket_mask + 1) * sizeof *tree->domain_buckets);
    for (uint32_t i = 0; i < nodes; i++)
        tree->nodes[i] = (struct radix_record){.bucket_next = i + 1 < nodes ? i + 1 : RADIX_NONE};
    tree->free_first = 0;
    tree->fresh = RADIX_NONE;
    uint32_t domains = tree->options.domains_max;
    for (uint32_t i = 0; i < domains; i++) {
        tree->domains[i] = (struct radix_domain_record){
            .bucket_next = RADIX_NONE,
            .empty_previous = i > 0 ? i - 1 : RADIX_NONE,
            .empty_next = i + 1 < domains ? i + 1 : RADIX_NONE,
            .first_child = RADIX_NONE,
        };
        for (enum radix_tier tier = 0; tier < RADIX_TIERS; tier++)
            tree->domains[i].idle[tier] = (struct radix_idle){RADIX_NONE, RADIX_NONE, RADIX_NONE};
    }
    tree->empty_first = 0;
    tree->empty_last = domains - 1;
}

enum status radix_tree_create(struct radix_tree **out, const struct radix_options *options)
{
    enum status status = STATUS_OK;
    ASSERT(options->page_symbols > 0);
    ASSERT(options->page_symbols <= UINT16_MAX);
    ASSERT(options->values_max > 0);
    ASSERT(options->values_max < RADIX_ROOT);
    ASSERT(options->ghosts_max < RADIX_ROOT - options->values_max);
    ASSERT(options->domains_max > 0);
    ASSERT(options->domains_max < RADIX_ROOT);
    size_t nodes = (size_t)options->values_max + options->ghosts_max;
    size_t heads = create_heads((uint32_t)nodes);
    size_t domain_heads = create_heads(options->domains_max);
    struct radix_tree *tree = mem_zalloc(1, sizeof *tree);
    if (tree == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a prefix tree");
    tree->options = *options;
    tree->key = (struct hash_key){hash_mix64(options->seed), hash_mix64(~options->seed)};
    tree->bucket_mask = (uint32_t)(heads - 1);
    tree->domain_bucket_mask = (uint32_t)(domain_heads - 1);
    tree->nodes = mem_zalloc(nodes, sizeof *tree->nodes);
    tree->symbols = mem_zalloc(nodes, options->page_symbols * sizeof *tree->symbols);
    tree->buckets = mem_zalloc(heads, sizeof *tree->buckets);
    tree->domains = mem_zalloc(options->domains_max, sizeof *tree->domains);
    tree->domain_buckets = mem_zalloc(domain_heads, sizeof *tree->domain_buckets);
    bool is_whole = tree->nodes != NULL && tree->symbols != NULL && tree->buckets != NULL &&
                    tree->domains != NULL && tree->domain_buckets != NULL;
    for (enum radix_tier tier = RADIX_DEVICE; tier < RADIX_TIERS; tier++) {
        tree->heaps[tier] = mem_zalloc(options->domains_max, sizeof **tree->heaps);
        is_whole = is_whole && tree->heaps[tier] != NULL;
    }
    if (!is_whole)
        FAIL_OUT(STATUS_NO_MEMORY,
                 "no memory for a prefix tree of %zu nodes and %u domains: %zu MiB", nodes,
                 options->domains_max,
                 (nodes * (sizeof *tree->nodes + options->page_symbols * sizeof *tree->symbols) +
                  options->domains_max * sizeof *tree->domains) >>
                     20);
    create_fill(tree);
    *out = tree;
out:
    if (status != STATUS_OK)
        radix_tree_destroy(tree);
    return status;
}

void radix_tree_destroy(struct radix_tree *tree)
{
    if (tree == NULL)
        return;
    mem_free(tree->nodes);
    mem_free(tree->symbols);
    mem_free(tree->buckets);
    mem_free(tree->domains);
    mem_free(tree->domain_buckets);
    for (enum radix_tier tier = RADIX_DEVICE; tier < RADIX_TIERS; tier++)
        mem_free(tree->heaps[tier]);
    mem_free(tree);
}

/* --- domains --- */

static void empty_leave(struct radix_tree *tree, radix_domain domain)
{
    struct radix_domain_record *it = &tree->domains[domain];
    *(it->empty_previous != RADIX_NONE ? &tree->domains[it->empty_previous].empty_next
                                       : &tree->empty_first) = it->empty_next;
    *(it->empty_next != RADIX_NONE ? &tree->domains[it->empty_next].empty_previous
                                   : &tree->empty_last) = it->empty_previous;
}

static void empty_join(struct radix_tree *tree, radix_domain domain)
{
    struct radix_domain_record *it = &tree->domains[domain];
    it->empty_previous = tree->empty_last;
    it->empty_next = RADIX_NONE;
    *(tree->empty_last != RADIX_NONE ? &tree->domains[tree->empty_last].empty_next
                                     : &tree->empty_first) = domain;
    tree->empty_last = domain;
}

static radix_domain *domain_head(const struct radix_tree *tree, const uint8_t id[16])
{
    return &tree->domain_buckets[radix_store_domain_hash(tree, id) & tree->domain_bucket_mask];
}

radix_domain radix_tree_find_domain(const struct radix_tree *tree, const uint8_t id[16])
{
    radix_domain domain = *domain_head(tree, id);
    while (domain != RADIX_NONE && memcmp(tree->domains[domain].id, id, 16) != 0)
        domain = tree->domains[domain].bucket_next;
    return domain;
}

static void open_unname(struct radix_tree *tree, radix_domain domain)
{
    radix_domain *link = domain_head(tree, tree->domains[domain].id);
    while (*link != domain)
        link = &tree->domains[*link].bucket_next;
    *link = tree->domains[domain].bucket_next;
}

static bool domain_has_nodes(const struct radix_domain_record *it)
{
    return it->first_child != RADIX_NONE;
}

radix_domain radix_tree_open_domain(struct radix_tree *tree, const uint8_t id[16], uint32_t weight)
{
    ASSERT(weight > 0);
    radix_domain domain = radix_tree_find_domain(tree, id);
    if (domain == RADIX_NONE) {
        domain = tree->empty_first;
        if (domain == RADIX_NONE)
            return RADIX_NONE;
        struct radix_domain_record *it = &tree->domains[domain];
        if (it->is_named)
            open_unname(tree, domain);
        memcpy(it->id, id, 16);
        it->is_named = true;
        it->bucket_next = *domain_head(tree, id);
        *domain_head(tree, id) = domain;
    }
    if (!domain_has_nodes(&tree->domains[domain])) { /* a domain opened recently is reused last */
        empty_leave(tree, domain);
        empty_join(tree, domain);
    }
    if (tree->domains[domain].weight != weight) {
        tree->domains[domain].weight = weight;
        for (enum radix_tier tier = RADIX_DEVICE; tier < RADIX_TIERS; tier++)
            radix_evict_rank(tree, domain, tier);
    }
    return domain;
}

/* --- search --- */

radix_node radix_tree_child(const struct radix_tree *tree, uint32_t parent, uint64_t symbols_hash,
                            const uint32_t *symbols, uint32_t count)
{
    uint32_t hash = radix_store_hash(symbols_hash, parent);
    radix_node node = tree->buckets[hash & tree->bucket_mask];
    for (; node != RADIX_NONE; node = tree->nodes[node].bucket_next) {
        const struct radix_record *it = &tree->nodes[node];
        if (it->hash == hash && it->parent == parent && it->symbol_count == count &&
            memcmp(radix_store_symbols(tree, node), symbols, count * sizeof *symbols) == 0)
            break;
    }
    return node;
}

static uint32_t common_symbols(const uint32_t *a, const uint32_t *b, uint32_t count)
{
    uint32_t common = 0;
    while (common < count && a[common] == b[common])
        common++;
    return common;
}

/* Among the latest children of `parent`, finds the one with a value that shares more of `symbols`
 * than *best_symbols, and updates *best and *best_symbols. */
static void match_partial(const struct radix_tree *tree, uint32_t parent, const uint32_t *symbols,
                          uint32_t count, radix_node *best, uint32_t *best_symbols)
{
    radix_node node = *radix_store_children(tree, parent);
    for (int looked = 0; node != RADIX_NONE && looked < LIMIT_PARTIAL_CANDIDATES; looked++) {
        const struct radix_record *it = &tree->nodes[node];
        uint32_t comparable = it->symbol_count < count ? it->symbol_count : count;
        if (it->tier != RADIX_GHOST && comparable > *best_symbols) {
            uint32_t common = common_symbols(radix_store_symbols(tree, node), symbols, comparable);
            if (common > *best_symbols) {
                *best = node;
                *best_symbols = common;
            }
        }
        node = it->sibling_next;
    }
}

uint32_t radix_tree_match(const struct radix_tree *tree, const radix_domain *domains,
                          uint32_t domain_count, const uint32_t *symbols, uint32_t count,
                          radix_node *nodes, radix_node *partial, uint32_t *partial_symbols)
{
    ASSERT(domain_count <= LIMIT_DOMAINS_VISIBLE + 1);
    /* The position of each domain in its tree, in the caller's order. A domain that lacks the next
     * page is dropped. */
    uint32_t parents[2][LIMIT_DOMAINS_VISIBLE + 1];
    uint32_t parent_count = 0;
    const uint32_t page_symbols = tree->options.page_symbols;
    uint32_t pages = 0;
    for (uint32_t i = 0; i < domain_count; i++)
        if (domains[i] != RADIX_NONE && domain_has_nodes(&tree->domains[domains[i]]))
            parents[0][parent_count++] = RADIX_ROOT | domains[i];
    for (; parent_count > 0 && pages < count / page_symbols; pages++) {
        const uint32_t *page = symbols + (size_t)pages * page_symbols;
        const uint64_t hash = radix_store_hash_symbols(tree, page, page_symbols);
        const uint32_t *now = parents[pages % 2];
        uint32_t *next = parents[(pages + 1) % 2];
        uint32_t next_count = 0;
        radix_node found = RADIX_NONE;
        for (uint32_t i = 0; i < parent_count; i++) {
            radix_node child = radix_tree_child(tree, now[i], hash, page, page_symbols);
            if (child == RADIX_NONE)
                continue;
            next[next_count++] = child;
            if (found == RADIX_NONE && tree->nodes[child].tier != RADIX_GHOST)
                found = child;
        }
        if (found == RADIX_NONE)
            break;
        nodes[pages] = found;
        parent_count = next_count;
    }
    uint32_t left = count - pages * page_symbols;
    if (left > page_symbols)
        left = page_symbols;
    *partial = RADIX_NONE;
    *partial_symbols = 0;
    for (uint32_t i = 0; i < parent_count; i++)
        match_partial(tree, parents[pages % 2][i], symbols + (size_t)pages * page_symbols, left,
                      partial, partial_symbols);
    return pages;
}

/* --- nodes --- */

static struct radix_record *record_get(const struct radix_tree *tree, radix_node node)
{
    ASSERT(node < radix_store_nodes(tree));
    ASSERT(tree->nodes[node].symbol_count > 0);
    return &tree->nodes[node];
}

static void children_join(struct radix_tree *tree, radix_node node)
{
    struct radix_record *it = &tree->nodes[node];
    radix_node *first = radix_store_children(tree, it->parent);
    it->sibling_previous = RADIX_NONE;
    it->sibling_next = *first;
    if (*first != RADIX_NONE)
        tree->nodes[*first].sibling_previous = node;
    *first = node;
}

static void children_leave(struct radix_tree *tree, radix_node node)
{
    const struct radix_record *it = &tree->nodes[node];
    *(it->sibling_previous != RADIX_NONE ? &tree->nodes[it->sibling_previous].sibling_next
                                         : radix_store_children(tree, it->parent)) =
        it->sibling_next;
    if (it->sibling_next != RADIX_NONE)
        tree->nodes[it->sibling_next].sibling_previous = it->sibling_previous;
}

static void count_add(struct radix_tree *tree, radix_node node)
{
    const struct radix_record *it = &tree->nodes[node];
    tree->counts[it->tier]++;
    tree->domains[it->domain].counts[it->tier]++;
    tree->domains[it->domain].units[it->tier] += it->units;
    if (it->tier != RADIX_GHOST)
        radix_evict_rank(tree, it->domain, it->tier);
}

/* Call before the tier changes or the node is removed; makes the node busy. */
static void count_remove(struct radix_tree *tree, radix_node node)
{
    const struct radix_record *it = &tree->nodes[node];
    radix_evict_busy(tree, node);
    tree->counts[it->tier]--;
    tree->domains[it->domain].counts[it->tier]--;
    tree->domains[it->domain].units[it->tier] -= it->units;
    if (it->tier != RADIX_GHOST)
        radix_evict_rank(tree, it->domain, it->tier);
}

static radix_node node_make(struct radix_tree *tree, radix_domain domain, uint32_t parent,
                            const uint32_t *symbols, uint32_t count)
{
    radix_node node = tree->free_first;
    struct radix_record *it = &tree->nodes[node];
    tree->free_first = it->bucket_next;
    uint32_t hash = radix_store_hash(radix_store_hash_symbols(tree, symbols, count), parent);
    radix_node *head = &tree->buckets[hash & tree->bucket_mask];
    *it = (struct radix_record){
        .parent = parent,
        .hash = hash,
        .bucket_next = *head,
        .domain = domain,
        .first_child = RADIX_NONE,
        .idle_previous = RADIX_NONE,
        .idle_next = RADIX_NONE,
        .symbol_count = (uint16_t)count,
        .tier = RADIX_GHOST,
        .units = 1,
    };
    *head = node;
    memcpy(radix_store_symbols(tree, node), symbols, count * sizeof *symbols);
    if (!domain_has_nodes(&tree->domains[domain]))
        empty_leave(tree, domain);
    children_join(tree, node);
    count_add(tree, node);
    return node;
}

/* Removes a node that has no children, whatever its tier. */
static void node_remove(struct radix_tree *tree, radix_node node)
{
    struct radix_record *it = &tree->nodes[node];
    radix_node *link = &tree->buckets[it->hash & tree->bucket_mask];
    while (*link != node)
        link = &tree->nodes[*link].bucket_next;
    *link = it->bucket_next;
    count_remove(tree, node);
    children_leave(tree, node);
    if (!domain_has_nodes(&tree->domains[it->domain]))
        empty_join(tree, it->domain);
    if (tree->fresh == node)
        tree->fresh = RADIX_NONE;
    it->symbol_count = 0;
    it->bucket_next = tree->free_first;
    tree->free_first = node;
}

/* Returns whether a domain may have a new node at the end of a path and `ghosts` new ghosts on the
 * way. Capacity for values is never given to ghosts. A domain may have at most as many ghosts as it
 * leaves free for others. Hence n greedy domains get 1 / (n + 1) of the ghosts each (Choudhury and
 * Hahne's dynamic thresholds, 1998): no domain is shut out, and nothing is set aside for domains
 * that do not ask. */
static bool insert_may(const struct radix_tree *tree, radix_domain domain, uint32_t ghosts)
{
    uint64_t values = (uint64_t)tree->counts[RADIX_DEVICE] + tree->counts[RADIX_HOST];
    uint64_t used = values + tree->counts[RADIX_GHOST];
    if (values >= tree->options.values_max || used + ghosts >= radix_store_nodes(tree))
        return false;
    uint64_t own = (uint64_t)tree->domains[domain].counts[RADIX_GHOST] + ghosts;
    uint64_t all = (uint64_t)tree->counts[RADIX_GHOST] + ghosts;
    return ghosts == 0 || all + own <= tree->options.ghosts_max;
}

static uint32_t insert_page_symbols(const struct radix_tree *tree, uint32_t page, uint32_t count)
{
    uint32_t left = count - page * tree->options.page_symbols;
    return left < tree->options.page_symbols ? left : tree->options.page_symbols;
}

radix_node radix_tree_insert(struct radix_tree *tree, radix_domain domain, radix_node below,
                             const uint32_t *symbols, uint32_t count)
{
    ASSERT(count > 0);
    ASSERT(domain < tree->options.domains_max);
    ASSERT(tree->domains[domain].is_named);
    ASSERT(tree->fresh == RADIX_NONE);
    const uint32_t page_symbols = tree->options.page_symbols;
    const uint32_t pages = count / page_symbols + (count % page_symbols != 0);
    uint32_t parent = RADIX_ROOT | domain;
    if (below != RADIX_NONE) {
        ASSERT(record_get(tree, below)->domain == domain);
        ASSERT(record_get(tree, below)->symbol_count == page_symbols);
        parent = below;
    }
    uint32_t page = 0;
    for (; page < pages; page++) {
        const uint32_t *at = symbols + (size_t)page * page_symbols;
        uint32_t part = insert_page_symbols(tree, page, count);
        radix_node child =
            radix_tree_child(tree, parent, radix_store_hash_symbols(tree, at, part), at, part);
        if (child == RADIX_NONE)
            break;
        parent = child;
    }
    /* The path exists. Moving its last node to the front makes it the first partial-page candidate.
     */
    if (page == pages) {
        children_leave(tree, parent);
        children_join(tree, parent);
        return parent;
    }
    if (!insert_may(tree, domain, pages - page - 1))
        return RADIX_NONE;
    for (; page < pages; page++)
        parent = node_make(tree, domain, parent, symbols + (size_t)page * page_symbols,
                           insert_page_symbols(tree, page, count));
    tree->fresh = parent;
    return parent;
}

void radix_tree_set(struct radix_tree *tree, radix_node node, enum radix_tier tier, uint32_t value)
{
    struct radix_record *it = record_get(tree, node);
    ASSERT(tier == RADIX_DEVICE || tier == RADIX_HOST);
    ASSERT(it->tier != RADIX_GHOST ||
           tree->counts[RADIX_DEVICE] + tree->counts[RADIX_HOST] < tree->options.values_max);
    count_remove(tree, node);
    it->tier = (uint8_t)tier;
    it->value = value;
    it->units = 1;
    count_add(tree, node);
    if (tree->fresh == node)
        tree->fresh = RADIX_NONE;
}

void radix_tree_weigh(struct radix_tree *tree, radix_node node, uint32_t units)
{
    struct radix_record *it = record_get(tree, node);
    ASSERT(it->tier != RADIX_GHOST);
    ASSERT(units > 0);
    ASSERT(units <= UINT16_MAX);
    uint32_t *sum = &tree->domains[it->domain].units[it->tier];
    *sum = *sum - it->units + units;
    it->units = (uint16_t)units;
    radix_evict_rank(tree, it->domain, it->tier);
}

void radix_tree_clear(struct radix_tree *tree, radix_node node)
{
    struct radix_record *it = record_get(tree, node);
    if (it->tier != RADIX_GHOST) {
        count_remove(tree, node);
        it->tier = RADIX_GHOST;
        it->units = 1;
        count_add(tree, node);
    }
    uint32_t at = node;
    while ((at & RADIX_ROOT) == 0 && tree->nodes[at].tier == RADIX_GHOST &&
           tree->nodes[at].first_child == RADIX_NONE) {
        uint32_t parent = tree->nodes[at].parent;
        node_remove(tree, at);
        at = parent;
    }
}

void radix_tree_drop_domain(struct radix_tree *tree, radix_domain domain,
                            void (*gone)(void *context, enum radix_tier tier, uint32_t value),
                            void *context)
{
    ASSERT(domain < tree->options.domains_max);
    const uint32_t root = RADIX_ROOT | domain;
    uint32_t at = root;
    /* Descend to a leaf, remove it, and continue from its parent. */
    for (;;) {
        radix_node child = *radix_store_children(tree, at);
        if (child != RADIX_NONE) {
            at = child;
            continue;
        }
        if (at == root)
            break;
        const struct radix_record leaf = tree->nodes[at];
        node_remove(tree, at);
        if (leaf.tier != RADIX_GHOST)
            gone(context, leaf.tier, leaf.value);
        at = leaf.parent;
    }
}

/* --- accessors --- */

enum radix_tier radix_tree_tier(const struct radix_tree *tree, radix_node node)
{
    return record_get(tree, node)->tier;
}

uint32_t radix_tree_value(const struct radix_tree *tree, radix_node node)
{
    ASSERT(record_get(tree, node)->tier != RADIX_GHOST);
    return tree->nodes[node].value;
}

uint32_t radix_tree_units(const struct radix_tree *tree, radix_node node)
{
    return record_get(tree, node)->units;
}

radix_domain radix_tree_domain_of(const struct radix_tree *tree, radix_node node)
{
    return record_get(tree, node)->domain;
}

uint32_t radix_tree_symbol_count(const struct radix_tree *tree, radix_node node)
{
    return record_get(tree, node)->symbol_count;
}

uint32_t radix_tree_count(const struct radix_tree *tree, enum radix_tier tier)
{
    return tree->counts[tier];
}

uint32_t radix_tree_resident(const struct radix_tree *tree, radix_domain domain,
                             enum radix_tier tier)
{
    ASSERT(domain < tree->options.domains_max);
    return tree->domains[domain].counts[tier];
}
