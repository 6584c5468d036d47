#include "engine/text/tokenizer_bpe.h"

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "config/base/turns.h"

/* The number of bytes or candidates of a long piece between two calls of turns_spend. */
enum { MERGE_SPEND = 1024 };

/* A token in the linked list of those left, indexed by the position of its first byte. */
struct tokenizer_bpe_node {
    uint32_t id; /* TOKENIZER_BPE_NONE once it is merged into its left neighbour */
    uint32_t previous;
    uint32_t next; /* the piece's length at the end of the list */
};

/* A pair that may merge. It is stale when its position no longer has these two tokens. */
struct tokenizer_bpe_candidate {
    uint32_t rank;
    uint32_t at;
    const struct tokenizer_bpe_merge *merge;
};

enum status tokenizer_bpe_table_init(struct tokenizer_bpe_table *table, size_t merges_max)
{
    table->mask = 1;
    while (table->mask + 1 < 2 * (merges_max + 1))
        table->mask = table->mask * 2 + 1;
    table->slots = mem_zalloc(table->mask + 1, sizeof(*table->slots));
    if (table->slots == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu merges", merges_max);
    for (size_t i = 0; i <= table->mask; i++)
        table->slots[i].rank = TOKENIZER_BPE_NONE;
    return STATUS_OK;
}

void tokenizer_bpe_table_deinit(struct tokenizer_bpe_table *table)
{
    mem_free(table->slots);
    table->slots = NULL;
}

/* Finds the slot of the pair, or the free one where it belongs. The process key prevents a crafted
 * file from choosing pairs that collide. */
static struct tokenizer_bpe_merge *table_slot(const struct tokenizer_bpe_table *table,
                                              uint32_t left, uint32_t right)
{
    uint64_t pair = ((uint64_t)left << 32) | right;
    const struct hash_key *key = hash_process_key();
    size_t at = hash_mix64(hash_mix64(pair ^ key->k0) ^ key->k1) & table->mask;
    while (table->slots[at].rank != TOKENIZER_BPE_NONE &&
           (table->slots[at].left != left || table->slots[at].right != right))
        at = (at + 1) & table->mask;
    return &table->slots[at];
}

enum status tokenizer_bpe_table_add(struct tokenizer_bpe_table *table, uint32_t left,
                                    uint32_t right, uint32_t rank, uint32_t merged)
{
    ASSERT(rank != TOKENIZER_BPE_NONE);
    struct tokenizer_bpe_merge *slot = table_slot(table, left, right);
    if (slot->rank != TOKENIZER_BPE_NONE)
        FAIL(STATUS_EXISTS, "merge %u is the same as merge %u", rank, slot->rank);
    *slot = (struct tokenizer_bpe_merge){left, right, rank, merged};
    return STATUS_OK;
}

const struct tokenizer_bpe_merge *tokenizer_bpe_table_find(const struct tokenizer_bpe_table *table,
                                                           uint32_t left, uint32_t right)
{
    const struct tokenizer_bpe_merge *slot = table_slot(table, left, right);
    return slot->rank != TOKENIZER_BPE_NONE ? slot : NULL;
}

void tokenizer_bpe_scratch_init(struct tokenizer_bpe_scratch *scratch)
{
    *scratch = (struct tokenizer_bpe_scratch){0};
}

void tokenizer_bpe_scratch_deinit(struct tokenizer_bpe_scratch *scratch)
{
    mem_free(scratch->nodes);
    mem_free(scratch->candidates);
    *scratch = (struct tokenizer_bpe_scratch){0};
}

static enum status merge_reserve(struct tokenizer_bpe_scratch *scratch, size_t count)
{
    ASSERT(count < UINT32_MAX);
    if (count <= scratch->capacity)
        return STATUS_OK;
    size_t capacity = scratch->capacity < 64 ? 64 : scratch->capacity;
    while (capacity < count)
        capacity += capacity / 2;
    /* The old content is not needed, so it is not copied. */
    tokenizer_bpe_scratch_deinit(&(struct tokenizer_bpe_scratch){
        .nodes = scratch->nodes, .candidates = scratch->candidates});
    scratch->capacity = 0;
    scratch->nodes = mem_alloc(capacity * sizeof(*scratch->nodes));
    scratch->candidates = mem_alloc(2 * capacity * sizeof(*scratch->candidates));
    if (scratch->nodes == NULL || scratch->candidates == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to split %zu bytes into tokens", count);
    scratch->capacity = capacity;
    return STATUS_OK;
}

static bool merge_before(struct tokenizer_bpe_candidate a, struct tokenizer_bpe_candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void merge_push(struct tokenizer_bpe_scratch *scratch, struct tokenizer_bpe_candidate item)
{
    struct tokenizer_bpe_candidate *heap = scratch->candidates;
    ASSERT(scratch->candidate_count < 2 * scratch->capacity);
    size_t at = scratch->candidate_count++;
    while (at > 0 && merge_before(item, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
        scratch->steps++;
    }
    heap[at] = item;
    scratch->steps++;
}

static struct tokenizer_bpe_candidate merge_pop(struct tokenizer_bpe_scratch *scratch)
{
    struct tokenizer_bpe_candidate *heap = scratch->candidates;
    struct tokenizer_bpe_candidate top = heap[0];
    size_t count = --scratch->candidate_count;
    struct tokenizer_bpe_candidate item = heap[count];
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && merge_before(heap[child + 1], heap[child]))
            child++;
        if (!merge_before(heap[child], item))
            break;
        heap[at] = heap[child];
        at = child;
        scratch->steps++;
    }
    heap[at] = item;
    scratch->steps++;
    return top;
}

/* Adds the pair that begins at `at` to the candidates, if it merges. */
static void merge_offer(const struct tokenizer_bpe_table *table,
                        struct tokenizer_bpe_scratch *scratch, size_t at, size_t length)
{
    const struct tokenizer_bpe_node *nodes = scratch->nodes;
    size_t next = nodes[at].next;
    if (next >= length)
        return;
    const struct tokenizer_bpe_merge *merge =
        tokenizer_bpe_table_find(table, nodes[at].id, nodes[next].id);
    if (merge != NULL)
        merge_push(scratch, (struct tokenizer_bpe_candidate){merge->rank, (uint32_t)at, merge});
}

/* Joins the node at `at` with its right neighbour. */
static void merge_join(const struct tokenizer_bpe_table *table,
                       struct tokenizer_bpe_scratch *scratch, uint32_t at, uint32_t merged,
                       size_t length)
{
    struct tokenizer_bpe_node *nodes = scratch->nodes;
    uint32_t gone = nodes[at].next;
    nodes[at].id = merged;
    nodes[at].next = nodes[gone].next;
    nodes[gone].id = TOKENIZER_BPE_NONE;
    if (nodes[at].next < length)
        nodes[nodes[at].next].previous = at;
    if (at > 0)
        merge_offer(table, scratch, nodes[at].previous, length);
    merge_offer(table, scratch, at, length);
}

enum status tokenizer_bpe_merge(const struct tokenizer_bpe_table *table,
                                struct tokenizer_bpe_scratch *scratch, uint32_t *ids, size_t *count)
{
    size_t length = *count;
    if (length < 2)
        return STATUS_OK;
    TRY(merge_reserve(scratch, length));
    struct tokenizer_bpe_node *nodes = scratch->nodes;
    for (size_t i = 0; i < length; i++)
        nodes[i] = (struct tokenizer_bpe_node){ids[i], (uint32_t)i - 1, (uint32_t)i + 1};
    scratch->candidate_count = 0;
    for (size_t i = 0; i + 1 < length; i++) {
        if (i % MERGE_SPEND == MERGE_SPEND - 1)
            turns_spend(MERGE_SPEND / 2);
        merge_offer(table, scratch, i, length);
    }
    for (size_t looked = 1; scratch->candidate_count > 0; looked++) {
        if (looked % MERGE_SPEND == 0)
            turns_spend(MERGE_SPEND / 2);
        struct tokenizer_bpe_candidate best = merge_pop(scratch);
        const struct tokenizer_bpe_node *node = &nodes[best.at];
        bool is_fresh = node->id == best.merge->left && node->next < length &&
                        nodes[node->next].id == best.merge->right;
        if (is_fresh)
            merge_join(table, scratch, best.at, best.merge->merged, length);
    }
    if (length < MERGE_SPEND)
        turns_spend(length);
    size_t kept = 0;
    for (size_t i = 0; i < length; i = nodes[i].next)
        ids[kept++] = nodes[i].id;
    *count = kept;
    return STATUS_OK;
}
