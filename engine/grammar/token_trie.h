/* token_trie: the byte strings of a vocabulary as a tree, in the order in which a walk meets them.
 *
 *     tokens "a" (7), "ab" (9), "b" (4):  root · a 1 (token 7) · b 2 (token 9) · b 1 (token 4)
 *     node 1 has size 2: a walk that does not go on at "a" continues at node 3
 *
 * Owns:     nodes, a copy of the tokens' bytes, chains of ids with equal bytes.
 * Thread:   made at start, then read-only from any.
 * Cost:     making sorts the tokens: 18 to 103 ms for 49k to 262k tokens.
 * Not here: the vocabulary (engine/models), walks (grammar_mask), character classes (token_class).
 *
 * Every id that has bytes is in the tree. Two ids may have the same bytes: a node holds the lowest
 * id, and token_trie_next leads to the others. Control and unused tokens, and tokens of more than
 * 255 bytes, have no bytes here; a grammar names a control token by its id.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/grammar/byte_set.h"

enum {
    TOKEN_TRIE_DEPTH = 255,      /* longest token in bytes */
    TOKEN_TRIE_NONE = 0xffffff,  /* no token */
    TOKEN_TRIE_NODES = 0xfffffe, /* most nodes */
};

/* In preorder. `size` counts the node and all below it. */
struct token_trie_node {
    uint64_t byte : 8;
    uint64_t depth : 8; /* the root has 0 */
    uint64_t size : 24;
    uint64_t token : 24; /* the lowest id, or TOKEN_TRIE_NONE */
};

/* Where the bytes of tokens come from. */
struct token_trie_source {
    uint32_t vocab; /* number of ids */
    /* The bytes of an id; none for a token that cannot stand in a text. */
    struct slice (*bytes)(const void *context, uint32_t id);
    const void *context;
};

/* A tree over some of the tokens: nodes alone. */
struct token_trie_part {
    struct token_trie_node *nodes;
    uint32_t count;
};

struct token_trie {
    struct token_trie_part all;
    uint32_t vocab;
    uint32_t *offsets; /* [vocab + 1] into bytes */
    char *bytes;
    uint32_t *equal; /* [vocab] next id with the same bytes; NULL when no two ids have the same */
    struct byte_set missing;
};

/* LIMIT when there are too many tokens or nodes; NO_MEMORY. */
enum status token_trie_new(const struct token_trie_source *source, struct token_trie **out);
void token_trie_free(struct token_trie *trie); /* NULL is allowed */
size_t token_trie_memory(const struct token_trie *trie);

/* The tree of the tokens whose bit is not set in `without`. The lowest id of equal ones decides. */
enum status token_trie_part_new(const struct token_trie *trie, const uint32_t *without,
                                struct token_trie_part *out);
void token_trie_part_free(struct token_trie_part *part);

static inline const struct token_trie_node *token_trie_nodes(const struct token_trie *trie)
{
    return trie->all.nodes;
}

static inline uint32_t token_trie_node_count(const struct token_trie *trie)
{
    return trie->all.count;
}

static inline uint32_t token_trie_vocab(const struct token_trie *trie)
{
    return trie->vocab;
}

/* Words of a mask with a bit for each id. */
static inline uint32_t token_trie_mask_words(const struct token_trie *trie)
{
    return (trie->vocab + 31) / 32;
}

/* The next higher id with the same bytes, or TOKEN_TRIE_NONE. */
static inline uint32_t token_trie_next(const struct token_trie *trie, uint32_t id)
{
    return trie->equal != NULL ? trie->equal[id] : (uint32_t)TOKEN_TRIE_NONE;
}

/* Empty when the id is not in the tree. */
static inline struct slice token_trie_bytes(const struct token_trie *trie, uint32_t id)
{
    return (struct slice){trie->bytes + trie->offsets[id],
                          trie->offsets[id + 1] - trie->offsets[id]};
}

/* Bytes that no token has: a text with one of them cannot be written. */
static inline struct byte_set token_trie_missing(const struct token_trie *trie)
{
    return trie->missing;
}
