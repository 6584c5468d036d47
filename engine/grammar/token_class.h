/* token_class: masks of character classes, made beforehand for each length.
 *
 *     class [a-z], "cat" has 3 characters, "ca" has 2, "c1" is not of the class
 *     mask 2 = tokens of at most 2 characters of the class = { "ca", … }
 *
 * Owns:     the classes of one model, at most LIMIT_TOKEN_CLASSES: the least recently used goes
 *           when nobody holds it. It borrows the trie.
 * Thread:   any; one lock, which is not held while a class is made.
 * Cost:     making a class walks the trie once: 2 to 18 ms, so the compile thread does it.
 *           Finding one compares its ranges.
 * Not here: when a state has a class (lexer_run), the walk of what is left (grammar_mask).
 *
 * Where the open lexeme is `X{m,n} tail`, every token of at most n characters of X is allowed. What
 * is left are tokens with other bytes: they are a tree of their own, a hundredth of the whole for
 * the characters of JSON strings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/token_trie.h"

struct token_classes;

/* Immutable while it is held. */
struct token_class {
    /* [n] tokens of 1 to n characters of the class, for n up to `longest`. */
    const uint32_t *masks[LIMIT_TOKEN_CLASS_CHARS + 1];
    uint32_t longest;            /* characters of the longest token of the class */
    struct token_trie_part rest; /* tokens that are not of the class */
};

enum status token_classes_new(const struct token_trie *trie, struct token_classes **out);
void token_classes_free(struct token_classes *classes); /* NULL is allowed; nothing may be held */
const struct token_trie *token_classes_trie(const struct token_classes *classes);
size_t token_classes_bytes(struct token_classes *classes);

/* Holds the class of these ranges (sorted and apart, as lexer_chars gives them) if it is made,
 * else NULL. */
const struct token_class *token_classes_find(struct token_classes *classes,
                                             const struct regex_range *ranges, uint32_t count);
/* Makes it if need be. NULL when all places are held, or without memory: then masks are walked. */
const struct token_class *token_classes_make(struct token_classes *classes,
                                             const struct regex_range *ranges, uint32_t count);
void token_classes_release(struct token_classes *classes, const struct token_class *class);

/* Whether the class gives the mask of a state with this run: each token of the class either stays
 * in the lexeme or is dead. */
static inline bool token_class_fits(const struct token_class *class, struct regex_run run)
{
    return run.max >= class->longest || run.is_exact;
}

/* The tokens of the class that are allowed there. The others are in `rest`, to be walked. */
static inline const uint32_t *token_class_mask(const struct token_class *class, uint32_t max)
{
    return class->masks[max < class->longest ? max : class->longest];
}
