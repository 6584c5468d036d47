#include "tests/kit/radix_model.h"

#include <stdbool.h>
#include <string.h>

#include "radix/radix_tree.h"

enum { IDS = 6, ENTRIES = 20, PATH = 11, SYMBOLS = 2, VISIBLE = 5 };

/* A node with a value; the ghosts follow from the list of these. */
struct entry {
    uint32_t id;
    uint32_t count;
    uint32_t symbols[PATH];
    enum radix_tier tier;
    uint32_t value;
    uint32_t units;
    uint64_t idle_since; /* 0: busy */
    radix_node node;
};

struct radix_model {
    uint32_t (*draw)(void *context, uint32_t bound);
    void *context;
    struct radix_options options;
    struct radix_tree *tree;
    struct entry entries[ENTRIES];
    uint32_t entry_count;
    uint32_t weights[IDS];
    uint32_t value;
    uint64_t clock;
    const char *wrong;
};

static uint32_t draw(struct radix_model *m, uint32_t bound)
{
    return m->draw(m->context, bound);
}

static bool claim(struct radix_model *m, bool is_right, const char *what)
{
    if (!is_right && m->wrong == NULL)
        m->wrong = what;
    return is_right;
}

static void id_of(uint32_t id, uint8_t out[16])
{
    memset(out, 0, 16);
    out[0] = (uint8_t)id;
}

static radix_domain find(const struct radix_model *m, uint32_t id)
{
    uint8_t bytes[16];
    id_of(id, bytes);
    return radix_tree_find_domain(m->tree, bytes);
}

static bool starts(const struct entry *e, uint32_t id, const uint32_t *symbols, uint32_t count)
{
    return e->id == id && e->count >= count &&
           memcmp(e->symbols, symbols, count * sizeof *symbols) == 0;
}

static struct entry *exact(struct radix_model *m, uint32_t id, const uint32_t *symbols,
                           uint32_t count)
{
    for (uint32_t i = 0; i < m->entry_count; i++)
        if (m->entries[i].count == count && starts(&m->entries[i], id, symbols, count))
            return &m->entries[i];
    return NULL;
}

/* Returns whether an id's tree has a node at the end of this path, ghost or not. */
static bool has_node(struct radix_model *m, uint32_t id, const uint32_t *symbols, uint32_t count)
{
    if (count % m->options.page_symbols != 0)
        return exact(m, id, symbols, count) != NULL;
    for (uint32_t i = 0; i < m->entry_count; i++)
        if (starts(&m->entries[i], id, symbols, count))
            return true;
    return false;
}

static bool has_entries(const struct radix_model *m, uint32_t id)
{
    bool has = false;
    for (uint32_t i = 0; i < m->entry_count && !has; i++)
        has = m->entries[i].id == id;
    return has;
}

/* Returns how many whole pages of entry `at` need a ghost: no earlier entry passes through them,
 * and they have no value. */
static uint32_t ghosts_of(struct radix_model *m, uint32_t at)
{
    const struct entry *e = &m->entries[at];
    uint32_t ghosts = 0;
    for (uint32_t count = m->options.page_symbols; count < e->count;
         count += m->options.page_symbols) {
        bool is_new = exact(m, e->id, e->symbols, count) == NULL;
        for (uint32_t i = 0; i < at && is_new; i++)
            is_new = !starts(&m->entries[i], e->id, e->symbols, count);
        ghosts += is_new;
    }
    return ghosts;
}

static uint32_t resident(const struct radix_model *m, uint32_t id, enum radix_tier tier)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->entry_count; i++)
        count += m->entries[i].id == id && m->entries[i].tier == tier;
    return count;
}

static uint64_t resident_units(const struct radix_model *m, uint32_t id, enum radix_tier tier)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < m->entry_count; i++)
        if (m->entries[i].id == id && m->entries[i].tier == tier)
            units += m->entries[i].units;
    return units;
}

static void check_counts(struct radix_model *m)
{
    uint32_t sums[RADIX_TIERS] = {0};
    uint32_t idle[RADIX_TIERS] = {0};
    for (uint32_t id = 0; id < IDS; id++) {
        uint32_t counts[RADIX_TIERS] = {0};
        for (uint32_t i = 0; i < m->entry_count; i++) {
            if (m->entries[i].id != id)
                continue;
            counts[RADIX_GHOST] += ghosts_of(m, i);
            counts[m->entries[i].tier]++;
            idle[m->entries[i].tier] += m->entries[i].idle_since != 0;
        }
        radix_domain domain = find(m, id);
        for (enum radix_tier tier = 0; tier < RADIX_TIERS; tier++) {
            sums[tier] += counts[tier];
            claim(m,
                  domain == RADIX_NONE ? counts[tier] == 0
                                       : radix_tree_resident(m->tree, domain, tier) == counts[tier],
                  "nodes of a domain");
        }
    }
    for (enum radix_tier tier = 0; tier < RADIX_TIERS; tier++)
        claim(m, radix_tree_count(m->tree, tier) == sums[tier], "nodes of a tier");
    for (enum radix_tier tier = RADIX_DEVICE; tier < RADIX_TIERS; tier++)
        claim(m, radix_evict_idle_count(m->tree, tier) == idle[tier], "idle nodes of a tier");
    claim(m, radix_check(m->tree), "radix_check");
}

/* Draws a path: a random one, or one of the list's with a few more symbols, or a prefix of that. */
static uint32_t draw_path(struct radix_model *m, uint32_t symbols[PATH])
{
    uint32_t known = 0;
    if (m->entry_count > 0 && draw(m, 4) > 0) {
        const struct entry *e = &m->entries[draw(m, m->entry_count)];
        known = e->count;
        memcpy(symbols, e->symbols, sizeof e->symbols);
    }
    for (uint32_t i = known; i < PATH; i++)
        symbols[i] = draw(m, SYMBOLS);
    uint32_t count = 1 + known + draw(m, m->options.page_symbols + 1);
    count = count < PATH ? count : PATH;
    return draw(m, 3) == 0 ? 1 + draw(m, count) : count;
}

static void set(struct radix_model *m, struct entry *e, enum radix_tier tier)
{
    e->tier = tier;
    e->value = ++m->value;
    e->units = 1;
    e->idle_since = 0;
    radix_tree_set(m->tree, e->node, tier, e->value);
}

static void forget(struct radix_model *m, struct entry *e)
{
    *e = m->entries[--m->entry_count];
}

static radix_domain open_domain(struct radix_model *m, uint32_t id)
{
    uint8_t bytes[16];
    uint32_t live = 0;
    bool is_live = false;
    for (uint32_t i = 0; i < IDS; i++) {
        live += has_entries(m, i);
        is_live = is_live || (i == id && has_entries(m, i));
    }
    id_of(id, bytes);
    radix_domain domain = radix_tree_open_domain(m->tree, bytes, m->weights[id]);
    claim(m, (domain == RADIX_NONE) == (!is_live && live == m->options.domains_max), "open");
    claim(m, domain == find(m, id), "open, then find");
    return domain;
}

/* Returns whether the tree has room for a path. */
static bool may_insert(struct radix_model *m, uint32_t id, const uint32_t *symbols, uint32_t count)
{
    if (has_node(m, id, symbols, count))
        return true;
    uint32_t more = 0;
    uint32_t own = 0;
    uint32_t all = 0;
    for (uint32_t at = m->options.page_symbols; at < count; at += m->options.page_symbols)
        more += !has_node(m, id, symbols, at);
    for (uint32_t i = 0; i < m->entry_count; i++) {
        uint32_t ghosts = ghosts_of(m, i);
        all += ghosts;
        own += m->entries[i].id == id ? ghosts : 0;
    }
    return m->entry_count < m->options.values_max &&
           m->entry_count + all + more < m->options.values_max + m->options.ghosts_max &&
           (more == 0 || own + all + 2 * more <= m->options.ghosts_max);
}

static void do_insert(struct radix_model *m)
{
    uint32_t symbols[PATH];
    uint32_t id = draw(m, IDS);
    uint32_t count = draw_path(m, symbols);
    radix_domain domain = open_domain(m, id);
    if (domain == RADIX_NONE)
        return;
    uint32_t from = m->options.page_symbols * draw(m, 3); /* some paths begin below a node */
    radix_node below = RADIX_NONE;
    if (from >= count || from == 0 || !has_node(m, id, symbols, from))
        from = 0;
    else
        below = radix_tree_insert(m->tree, domain, RADIX_NONE, symbols, from);
    bool may = may_insert(m, id, symbols, count);
    radix_node node = radix_tree_insert(m->tree, domain, below, symbols + from, count - from);
    if (!claim(m, (node != RADIX_NONE) == may, "room to insert") || !may)
        return;
    struct entry *e = exact(m, id, symbols, count);
    claim(m, radix_tree_domain_of(m->tree, node) == domain, "domain of a node");
    uint32_t part = count % m->options.page_symbols;
    claim(m, radix_tree_symbol_count(m->tree, node) == (part != 0 ? part : m->options.page_symbols),
          "symbols of a node");
    if (e != NULL) {
        claim(m,
              node == e->node && radix_tree_tier(m->tree, node) == e->tier &&
                  radix_tree_value(m->tree, node) == e->value &&
                  radix_tree_units(m->tree, node) == e->units,
              "inserted again");
        return;
    }
    claim(m, radix_tree_tier(m->tree, node) == RADIX_GHOST, "a new node is a ghost");
    if (m->entry_count == m->options.values_max || draw(m, 8) == 0) {
        radix_tree_clear(m->tree, node);
        return;
    }
    e = &m->entries[m->entry_count++];
    *e = (struct entry){.id = id, .count = count, .node = node};
    memcpy(e->symbols, symbols, sizeof symbols);
    set(m, e, draw(m, 3) == 0 ? RADIX_HOST : RADIX_DEVICE);
}

/* Returns how many of the symbols after `pages` pages an entry shares, if it is the next page
 * there. */
static uint32_t partial_common(const struct radix_model *m, const struct entry *e, uint32_t id,
                               const uint32_t *symbols, uint32_t count, uint32_t pages)
{
    uint32_t at = pages * m->options.page_symbols;
    if (!starts(e, id, symbols, at) || e->count > at + m->options.page_symbols)
        return 0;
    uint32_t common = 0;
    while (at + common < e->count && at + common < count &&
           e->symbols[at + common] == symbols[at + common])
        common++;
    return common;
}

static void check_partial(struct radix_model *m, const uint32_t *ids, uint32_t id_count,
                          const uint32_t *symbols, uint32_t count, uint32_t pages,
                          radix_node partial, uint32_t partial_symbols)
{
    uint32_t best = 0;
    uint32_t best_id = IDS;
    bool is_right = false;
    for (uint32_t i = 0; i < id_count; i++) {
        for (uint32_t k = 0; k < m->entry_count; k++) {
            uint32_t common = partial_common(m, &m->entries[k], ids[i], symbols, count, pages);
            if (common > best) {
                best = common;
                best_id = ids[i];
            }
            is_right = is_right || (common == partial_symbols && m->entries[k].node == partial);
        }
    }
    claim(m, best == partial_symbols && (best > 0 ? is_right : partial == RADIX_NONE),
          "the partial match");
    claim(m, best == 0 || radix_tree_domain_of(m->tree, partial) == find(m, best_id),
          "the partial match's domain");
}

static void do_match(struct radix_model *m)
{
    uint32_t symbols[PATH];
    uint32_t ids[VISIBLE];
    radix_domain domains[VISIBLE];
    radix_node nodes[PATH];
    radix_node partial;
    uint32_t partial_symbols;
    uint32_t count = draw_path(m, symbols) - 1;
    uint32_t id_count = draw(m, VISIBLE + 1);
    for (uint32_t i = 0; i < id_count; i++) {
        ids[i] = draw(m, IDS);
        domains[i] = find(m, ids[i]);
    }
    uint32_t pages = radix_tree_match(m->tree, domains, id_count, symbols, count, nodes, &partial,
                                      &partial_symbols);
    uint32_t expected = 0;
    for (uint32_t end = m->options.page_symbols; end <= count; end += m->options.page_symbols) {
        const struct entry *first = NULL;
        for (uint32_t i = 0; i < id_count && first == NULL; i++)
            first = exact(m, ids[i], symbols, end);
        if (first == NULL)
            break;
        if (!claim(m, expected < pages && nodes[expected] == first->node, "a page matched"))
            return;
        expected++;
    }
    if (claim(m, pages == expected, "pages matched"))
        check_partial(m, ids, id_count, symbols, count, pages, partial, partial_symbols);
}

/* Returns whether `a` is evicted before `b`, both idle in the same tier. */
static bool gives_before(const struct radix_model *m, const struct entry *a, const struct entry *b)
{
    if (a->id != b->id) {
        uint64_t a_units = resident_units(m, a->id, a->tier) * m->weights[b->id];
        uint64_t b_units = resident_units(m, b->id, b->tier) * m->weights[a->id];
        bool is_above = resident(m, a->id, a->tier) > RADIX_EVICT_FLOOR;
        if (is_above != (resident(m, b->id, b->tier) > RADIX_EVICT_FLOOR))
            return is_above;
        if (is_above && a_units != b_units)
            return a_units > b_units;
    }
    return a->idle_since < b->idle_since;
}

static void do_evict(struct radix_model *m)
{
    enum radix_tier tier = draw(m, 2) == 0 ? RADIX_DEVICE : RADIX_HOST;
    struct entry *next = NULL;
    for (uint32_t i = 0; i < m->entry_count; i++) {
        struct entry *e = &m->entries[i];
        if (e->tier == tier && e->idle_since != 0 && (next == NULL || gives_before(m, e, next)))
            next = e;
    }
    radix_node node = radix_evict_next(m->tree, tier);
    if (!claim(m, node == (next != NULL ? next->node : RADIX_NONE), "the next to go") ||
        next == NULL)
        return;
    if (draw(m, 3) == 0) {
        set(m, next, tier == RADIX_DEVICE ? RADIX_HOST : RADIX_DEVICE);
    } else {
        radix_tree_clear(m->tree, node);
        forget(m, next);
    }
}

static void dropped(void *context, enum radix_tier tier, uint32_t value)
{
    struct radix_model *m = context;
    for (uint32_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].value == value) {
            claim(m, m->entries[i].tier == tier, "tier of a dropped value");
            forget(m, &m->entries[i]);
            return;
        }
    }
    claim(m, false, "a dropped value");
}

static void do_drop(struct radix_model *m)
{
    uint32_t id = draw(m, IDS);
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->entry_count; i++)
        others += m->entries[i].id != id;
    radix_domain domain = find(m, id);
    if (domain != RADIX_NONE)
        radix_tree_drop_domain(m->tree, domain, dropped, m);
    claim(m, m->entry_count == others && !has_entries(m, id), "drop");
}

static void do_entry(struct radix_model *m, uint32_t kind)
{
    if (m->entry_count == 0)
        return;
    struct entry *e = &m->entries[draw(m, m->entry_count)];
    if (kind == 0) {
        radix_evict_idle(m->tree, e->node);
        e->idle_since = ++m->clock;
    } else if (kind == 1) {
        radix_evict_busy(m->tree, e->node);
        e->idle_since = 0;
    } else if (kind == 2) {
        set(m, e, draw(m, 2) == 0 ? RADIX_HOST : RADIX_DEVICE);
    } else if (kind == 3) {
        e->units = 1 + draw(m, 6);
        radix_tree_weigh(m->tree, e->node, e->units);
    } else {
        radix_tree_clear(m->tree, e->node);
        forget(m, e);
    }
}

static void do_one(struct radix_model *m)
{
    uint32_t kind = draw(m, 64);
    if (kind < 20) {
        do_insert(m);
    } else if (kind < 36) {
        do_match(m);
    } else if (kind < 50) {
        do_entry(m, 0);
    } else if (kind < 54) {
        do_entry(m, 1);
    } else if (kind < 58) {
        do_entry(m, kind % 3 + 2);
    } else if (kind < 62) {
        do_evict(m);
    } else if (kind < 63) {
        uint32_t id = draw(m, IDS);
        m->weights[id] = 1 + draw(m, 4);
        open_domain(m, id);
    } else if (draw(m, 8) == 0) {
        do_drop(m);
    }
}

const char *radix_model_run(uint32_t (*draw_from)(void *context, uint32_t bound), void *context,
                            uint32_t operations, uint32_t *done)
{
    struct radix_model m = {.draw = draw_from, .context = context};
    m.options = (struct radix_options){
        .page_symbols = 1 + draw(&m, 4),
        .values_max = 1 + draw(&m, ENTRIES),
        .ghosts_max = draw(&m, 24),
        .domains_max = 1 + draw(&m, IDS),
        .seed = draw(&m, 1000),
    };
    for (int i = 0; i < IDS; i++)
        m.weights[i] = 1 + draw(&m, 4);
    *done = 0;
    if (radix_tree_create(&m.tree, &m.options) != STATUS_OK)
        return "no memory";
    for (; *done < operations && m.wrong == NULL; ++*done) {
        do_one(&m);
        if (m.wrong == NULL)
            check_counts(&m);
    }
    radix_tree_destroy(m.tree);
    return m.wrong;
}
