#include "engine/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"

/* A token that is in the tree, while it is sorted. */
struct word {
    const uint8_t *bytes;
    uint32_t length;
    uint32_t id;
};

static int compare_words(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    if (order != 0)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t common_bytes(const struct word *a, const struct word *b)
{
    uint32_t same = 0;
    while (same < a->length && same < b->length && a->bytes[same] == b->bytes[same])
        same++;
    return same;
}

/* --- nodes --- */

/* Nodes in preorder: those on the way to the last one are open until a node stands higher. */
struct making {
    struct token_trie_node *nodes;
    uint32_t count;
    uint32_t open[TOKEN_TRIE_DEPTH + 1]; /* by depth */
    uint32_t depth;                      /* of the last node */
};

/* Closes the nodes that are deeper than `depth`. */
static void close_nodes(struct making *making, uint32_t depth)
{
    for (; making->depth > depth; making->depth--) {
        uint32_t at = making->open[making->depth];
        making->nodes[at].size = (making->count - at) & TOKEN_TRIE_NONE;
    }
}

/* Adds a node below the last one. */
static void open_node(struct making *making, uint8_t byte)
{
    making->depth++;
    making->open[making->depth] = making->count;
    making->nodes[making->count++] = (struct token_trie_node){
        .byte = byte, .depth = (uint8_t)making->depth, .token = TOKEN_TRIE_NONE};
}

static void begin_nodes(struct making *making, struct token_trie_node *nodes)
{
    *making = (struct making){.nodes = nodes, .count = 1};
    nodes[0] = (struct token_trie_node){.token = TOKEN_TRIE_NONE};
}

static void end_nodes(struct making *making)
{
    close_nodes(making, 0);
    making->nodes[0].size = making->count & TOKEN_TRIE_NONE;
}

/* --- the whole tree --- */

/* Copies the bytes of all tokens. */
static enum status copy_bytes(struct token_trie *trie, const struct token_trie_source *source)
{
    uint64_t total = 0;
    for (uint32_t id = 0; id < trie->vocab; id++) {
        size_t length = source->bytes(source->context, id).length;
        total += length <= TOKEN_TRIE_DEPTH ? length : 0;
    }
    if (total >= UINT32_MAX)
        FAIL(STATUS_LIMIT, "the tokens have too many bytes");
    trie->offsets = mem_zalloc((size_t)trie->vocab + 1, sizeof *trie->offsets);
    trie->bytes = mem_alloc((size_t)total + 1);
    if (trie->offsets == NULL || trie->bytes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the bytes of %u tokens", trie->vocab);
    uint32_t used = 0;
    for (uint32_t id = 0; id < trie->vocab; id++) {
        struct slice bytes = source->bytes(source->context, id);
        trie->offsets[id] = used;
        if (bytes.length == 0 || bytes.length > TOKEN_TRIE_DEPTH)
            continue;
        memcpy(trie->bytes + used, bytes.bytes, bytes.length);
        used += (uint32_t)bytes.length;
    }
    trie->offsets[trie->vocab] = used;
    return STATUS_OK;
}

/* Sorted by bytes, then by id. */
static uint32_t sort_words(const struct token_trie *trie, struct word *words)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < trie->vocab; id++) {
        struct slice bytes = token_trie_bytes(trie, id);
        if (bytes.length != 0)
            words[count++] =
                (struct word){(const uint8_t *)bytes.bytes, (uint32_t)bytes.length, id};
    }
    if (count != 0)
        qsort(words, count, sizeof *words, compare_words);
    return count;
}

/* Chains ids with equal bytes; only the first id of a chain stays among the words. */
static enum status chain_equal(struct token_trie *trie, struct word *words, uint32_t *count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, last = 0; i < *count; i++) {
        bool is_equal = kept != 0 && words[kept - 1].length == words[i].length &&
                        common_bytes(&words[kept - 1], &words[i]) == words[i].length;
        if (is_equal && trie->equal == NULL) {
            trie->equal = mem_alloc(trie->vocab * sizeof *trie->equal);
            if (trie->equal == NULL)
                FAIL(STATUS_NO_MEMORY, "no memory for ids with equal bytes");
            for (uint32_t id = 0; id < trie->vocab; id++)
                trie->equal[id] = TOKEN_TRIE_NONE;
        }
        if (is_equal)
            trie->equal[last] = words[i].id;
        last = words[i].id;
        if (!is_equal)
            words[kept++] = words[i];
    }
    *count = kept;
    return STATUS_OK;
}

static enum status make_nodes(struct token_trie *trie, const struct word *words, uint32_t count)
{
    uint64_t nodes = 1;
    for (uint32_t i = 0; i < count; i++)
        nodes += words[i].length - (i == 0 ? 0 : common_bytes(&words[i - 1], &words[i]));
    if (nodes > TOKEN_TRIE_NODES)
        FAIL(STATUS_LIMIT, "the tree of tokens has too many nodes");
    trie->all.nodes = mem_alloc(nodes * sizeof *trie->all.nodes);
    if (trie->all.nodes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tree of %u tokens", count);
    struct making making;
    begin_nodes(&making, trie->all.nodes);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i == 0 ? 0 : common_bytes(&words[i - 1], &words[i]);
        close_nodes(&making, at);
        for (; at < words[i].length; at++)
            open_node(&making, words[i].bytes[at]);
        making.nodes[making.count - 1].token = words[i].id & TOKEN_TRIE_NONE;
    }
    end_nodes(&making);
    trie->all.count = making.count;
    return STATUS_OK;
}

static void find_missing(struct token_trie *trie)
{
    struct byte_set seen = {{0}};
    for (uint32_t i = 0; i < trie->offsets[trie->vocab]; i++)
        byte_set_add(&seen, (uint8_t)trie->bytes[i]);
    for (uint32_t word = 0; word < BYTE_SET_WORDS; word++)
        trie->missing.words[word] = ~seen.words[word];
}

enum status token_trie_new(const struct token_trie_source *source, struct token_trie **out)
{
    *out = NULL;
    if (source->vocab >= TOKEN_TRIE_NONE)
        FAIL(STATUS_LIMIT, "a vocabulary of %u tokens is too large", source->vocab);
    struct token_trie *trie = mem_zalloc(1, sizeof *trie);
    struct word *words = mem_zalloc((size_t)source->vocab + 1, sizeof *words);
    enum status status = STATUS_OK;
    if (trie == NULL || words == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a tree of %u tokens", source->vocab);
    trie->vocab = source->vocab;
    TRY_OUT(copy_bytes(trie, source));
    uint32_t count = sort_words(trie, words);
    TRY_OUT(chain_equal(trie, words, &count));
    TRY_OUT(make_nodes(trie, words, count));
    find_missing(trie);
    *out = trie;
    trie = NULL;
out:
    token_trie_free(trie);
    mem_free(words);
    return status;
}

void token_trie_free(struct token_trie *trie)
{
    if (trie == NULL)
        return;
    token_trie_part_free(&trie->all);
    mem_free(trie->offsets);
    mem_free(trie->bytes);
    mem_free(trie->equal);
    mem_free(trie);
}

size_t token_trie_memory(const struct token_trie *trie)
{
    return sizeof *trie + trie->all.count * sizeof *trie->all.nodes +
           ((size_t)trie->vocab + 1) * sizeof *trie->offsets + trie->offsets[trie->vocab] +
           (trie->equal != NULL ? trie->vocab * sizeof *trie->equal : 0);
}

/* --- parts --- */

enum status token_trie_part_new(const struct token_trie *trie, const uint32_t *without,
                                struct token_trie_part *out)
{
    *out = (struct token_trie_part){.count = 0};
    struct token_trie_node *nodes = mem_alloc(trie->all.count * sizeof *nodes);
    if (nodes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tree of tokens");
    struct making making;
    begin_nodes(&making, nodes);
    uint8_t path[TOKEN_TRIE_DEPTH + 1]; /* bytes on the way to the node that is looked at */
    for (uint32_t i = 1; i < trie->all.count; i++) {
        const struct token_trie_node *node = &trie->all.nodes[i];
        uint32_t depth = node->depth;
        path[depth] = node->byte;
        if (making.depth >= depth)
            close_nodes(&making, depth - 1);
        if (node->token == TOKEN_TRIE_NONE || (without[node->token / 32] >> node->token % 32 & 1))
            continue;
        while (making.depth < depth)
            open_node(&making, path[making.depth + 1]);
        nodes[making.count - 1].token = node->token;
    }
    end_nodes(&making);
    struct token_trie_node *fitting = mem_realloc(nodes, making.count * sizeof *nodes);
    *out = (struct token_trie_part){fitting != NULL ? fitting : nodes, making.count};
    return STATUS_OK;
}

void token_trie_part_free(struct token_trie_part *part)
{
    mem_free(part->nodes);
    *part = (struct token_trie_part){.count = 0};
}
