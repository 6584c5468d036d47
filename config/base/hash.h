/* hash: a mixer, a hash for tables whose keys come from outside, and CRC-32.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     SipHash-1-3 about 1.3 cycles a byte; CRC-32 by table, about 1 ns a byte.
 * Not here: cryptography (OpenSSL, in auth).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* SplitMix64's finaliser: a bijection on 64 bits with full avalanche. */
static inline uint64_t hash_mix64(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012). With a secret 128-bit key nobody outside can choose
 * names that collide. Keys come from random_bytes, once a process. */
struct hash_key {
    uint64_t k0;
    uint64_t k1;
};
uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t length);
/* Returns a random key, made at the first call and the same for the life of the process. */
const struct hash_key *hash_process_key(void);

/* CRC-32 as in zip and PNG (ISO 3309, reflected polynomial 0xedb88320). */
uint32_t hash_crc32(const void *bytes, size_t length);
