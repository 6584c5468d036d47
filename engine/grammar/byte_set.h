/* byte_set: a set of bytes, a bit each.
 *
 * Owns:     nothing; a value of 32 bytes.
 * Thread:   any.
 * Not here: sets of characters (regex_chars).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { BYTE_SET_WORDS = 4 };

/* Byte b is bit b % 64 of word b / 64. */
struct byte_set {
    uint64_t words[BYTE_SET_WORDS];
};

static inline bool byte_set_has(const struct byte_set *set, uint8_t byte)
{
    return (set->words[byte >> 6] >> (byte & 63) & 1) != 0;
}

static inline void byte_set_add(struct byte_set *set, uint8_t byte)
{
    set->words[byte >> 6] |= (uint64_t)1 << (byte & 63);
}

/* Adds the bytes from `first` to `last`, both included. */
static inline void byte_set_add_range(struct byte_set *set, uint8_t first, uint8_t last)
{
    for (uint32_t byte = first; byte <= last; byte++)
        byte_set_add(set, (uint8_t)byte);
}

static inline bool byte_set_is_empty(const struct byte_set *set)
{
    return (set->words[0] | set->words[1] | set->words[2] | set->words[3]) == 0;
}

static inline bool byte_set_equals(const struct byte_set *a, const struct byte_set *b)
{
    return ((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) |
            (a->words[2] ^ b->words[2]) | (a->words[3] ^ b->words[3])) == 0;
}

static inline struct byte_set byte_set_or(struct byte_set a, const struct byte_set *b)
{
    for (uint32_t i = 0; i < BYTE_SET_WORDS; i++)
        a.words[i] |= b->words[i];
    return a;
}

static inline struct byte_set byte_set_and(struct byte_set a, const struct byte_set *b)
{
    for (uint32_t i = 0; i < BYTE_SET_WORDS; i++)
        a.words[i] &= b->words[i];
    return a;
}

static inline struct byte_set byte_set_without(struct byte_set a, const struct byte_set *b)
{
    for (uint32_t i = 0; i < BYTE_SET_WORDS; i++)
        a.words[i] &= ~b->words[i];
    return a;
}
