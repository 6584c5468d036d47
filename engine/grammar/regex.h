/* regex: regular languages of bytes as shared nodes, matched by derivatives.
 *
 *     (ab|c){2,5} & !cc     AND(NOT(CAT(c, c)), REP(OR(CAT(a, b), c), 2, 5))
 *
 * Owns:     a pool owns its nodes. Equal nodes are one node, so equality is a comparison of ids.
 * Thread:   one at a time; a lexer sees to that for the pool that it was given.
 * Cost:     a step of fuel for each node that is made or looked at.
 * Not here: the syntax of regexes (regex_parse), sets of characters (regex_chars), states (lexer).
 *
 * The derivative of a regex by a byte is the regex of what may follow that byte (Brzozowski, 1964).
 * Nodes have a normal form, in which OR and AND are flat, sorted and without repetitions, so that a
 * regex has few derivatives (Owens, Reppy and Turon, 2009). A counted repetition is one node, and
 * its derivative counts down: `a{1,999}` takes one node until it is read.
 *
 * A failure is latched in the pool: later calls return REGEX_NONE, and regex_pool_status says what
 * failed. So a caller checks once, at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/grammar/byte_set.h"
#include "engine/grammar/regex_types.h"

struct grammar_fuel;
struct regex_pool;

/* `fuel` is borrowed and must outlive what is done with the pool; NULL is no bound. */
enum status regex_pool_new(struct grammar_fuel *fuel, struct regex_pool **out);
void regex_pool_free(struct regex_pool *pool); /* NULL is allowed */
/* The first failure: LIMIT (nodes, sets or fuel), CANCELLED or NO_MEMORY. */
enum status regex_pool_status(const struct regex_pool *pool);
/* Other fuel from now on. The failure of the fuel before stays. */
void regex_pool_set_fuel(struct regex_pool *pool, struct grammar_fuel *fuel);
size_t regex_pool_bytes(const struct regex_pool *pool);
/* These bytes are cut from every set, because no token has them. Call it before nodes are made. */
void regex_pool_cut(struct regex_pool *pool, const struct byte_set *missing);

/* One byte of the set. */
regex_node_id regex_bytes(struct regex_pool *pool, const struct byte_set *bytes);
regex_node_id regex_text(struct regex_pool *pool, struct slice text);
regex_node_id regex_cat(struct regex_pool *pool, regex_node_id a, regex_node_id b);
regex_node_id regex_or(struct regex_pool *pool, regex_node_id a, regex_node_id b);
regex_node_id regex_and(struct regex_pool *pool, regex_node_id a, regex_node_id b);
/* Of many at once, in O(n log n). */
regex_node_id regex_or_many(struct regex_pool *pool, const regex_node_id *nodes, size_t count);
/* Every string of bytes that `a` does not match. Intersect it with what is wanted: the contrary of
 * a text holds also what is no UTF-8. */
regex_node_id regex_not(struct regex_pool *pool, regex_node_id a);
/* `min` > `max` matches nothing. */
regex_node_id regex_repeat(struct regex_pool *pool, regex_node_id a, uint32_t min, uint32_t max);
/* Texts of decimal digits whose value leaves `remainder` when it is divided by `divisor`, leading
 * zeros and the empty text (its value is 0) included. `divisor` is at least 1. */
regex_node_id regex_mod(struct regex_pool *pool, uint32_t divisor, uint32_t remainder);

/* How bytes are written in another text: a byte of `plain` stands for itself, another one is
 * `other[byte]`, which may be REGEX_NONE. No text of `other` begins with a plain byte, and none is
 * the beginning of another one, so the contrary of what is written is exact. */
struct regex_writing {
    struct byte_set plain;
    regex_node_id other[256];
};
/* `a` written so: of JSON strings, for example, with their escapes. Remainders cannot be written:
 * they are LIMIT. */
regex_node_id regex_write(struct regex_pool *pool, const struct regex_writing *writing,
                          regex_node_id a);

regex_node_id regex_derive(struct regex_pool *pool, regex_node_id a, uint8_t byte);
bool regex_is_nullable(const struct regex_pool *pool, regex_node_id a); /* the empty text matches */
bool regex_matches(struct regex_pool *pool, regex_node_id a, struct slice text);
/* Whether no text matches. It looks at derivatives until one is nullable. Out of fuel the answer is
 * false and the status is latched. */
bool regex_is_empty_language(struct regex_pool *pool, regex_node_id a);
/* The same with at most `steps` derivatives; false also when they do not show it. The answer
 * depends on the regex alone, not on what was looked at before. */
bool regex_is_seen_empty(struct regex_pool *pool, regex_node_id a, uint32_t steps);

/* Bytes that behave alike in these regexes and all their derivatives have one class. Cut bytes have
 * class 0, which no other byte has, unless there are 256 classes. `first` has a byte of each class,
 * in class 0 a cut one if there is one. Returns the number of classes. */
uint32_t regex_pool_classes(struct regex_pool *pool, const regex_node_id *roots, size_t count,
                            uint8_t class_of[256], uint8_t first[256]);
bool regex_pool_is_cut(const struct regex_pool *pool, uint8_t byte);

/* --- characters --- */

/* One character of these ranges, in UTF-8. Ranges may overlap and stand in any order; surrogates
 * and code points over U+10FFFF are left out. */
regex_node_id regex_chars(struct regex_pool *pool, const struct regex_range *ranges, size_t count);

/* REGEX_RUN_NONE as `chars` where the regex has no such form. */
struct regex_run regex_run_of(const struct regex_pool *pool, regex_node_id a);
/* The ranges of a class, sorted and apart. They live as long as the pool. */
const struct regex_range *regex_chars_of(const struct regex_pool *pool, uint32_t chars,
                                         uint32_t *count);
uint32_t regex_chars_count(const struct regex_pool *pool);
