/* ceilings_leaf: the loops of spin_int8, spin_f32 and read (table.h), for vectors of any length.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     an instruction or two an accumulator and round; read: one load a vector.
 * Not here: the ceilings computed from them (cpu_ceilings), instructions (the tables' ceilings).
 */
#pragma once

#include <stdint.h>
#include <string.h>

/* `chains` accumulators of `lanes` elements of `type`: more than latency × ports, and few enough
 * for the registers. In the instruction's text %0 is an accumulator, %1 a free register, %2 and %3
 * are a and b. The instructions of one accumulator do `operations`. */
#define CEILINGS_SPIN(name, type, lanes, chains, a, b, operations, text)                           \
    uint64_t name(uint64_t rounds, uint64_t *sink)                                                 \
    {                                                                                              \
        typedef type vector __attribute__((vector_size(sizeof(type) * (lanes))));                  \
        const vector first = (vector){0} + (type)(a);                                              \
        const vector second = (vector){0} + (type)(b);                                             \
        vector sums[chains];                                                                       \
        vector free;                                                                               \
        _Pragma("GCC unroll 16") for (int i = 0; i < (chains); i++)                                \
        {                                                                                          \
            sums[i] = (vector){0} + (type)i;                                                       \
        }                                                                                          \
        for (uint64_t r = 0; r < rounds; r++) {                                                    \
            _Pragma("GCC unroll 16") for (int i = 0; i < (chains); i++)                            \
            {                                                                                      \
                __asm__ volatile(text : "+v"(sums[i]), "=&v"(free) : "v"(first), "v"(second));     \
            }                                                                                      \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 1; i < (chains); i++)                                \
        {                                                                                          \
            sums[0] += sums[i];                                                                    \
        }                                                                                          \
        *sink += (uint64_t)(int64_t)sums[0][0] + 1;                                                \
        return rounds * (chains) * (operations);                                                   \
    }

/* Reads `count` bytes, a multiple of 64, in vectors of `bytes`. */
#define CEILINGS_READ(name, bytes)                                                                 \
    void name(const void *from, size_t count, uint64_t *sink)                                      \
    {                                                                                              \
        typedef uint64_t vector __attribute__((vector_size(bytes)));                               \
        const char *at = from;                                                                     \
        vector sums[4] = {{0}};                                                                    \
        vector line;                                                                               \
        size_t n = 0;                                                                              \
        for (; n + 4 * sizeof line <= count; n += 4 * sizeof line) {                               \
            _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++)                                 \
            {                                                                                      \
                memcpy(&line, at + n + i * sizeof line, sizeof line);                              \
                sums[i] ^= line;                                                                   \
            }                                                                                      \
        }                                                                                          \
        for (; n + sizeof line <= count; n += sizeof line) {                                       \
            memcpy(&line, at + n, sizeof line);                                                    \
            sums[0] ^= line;                                                                       \
        }                                                                                          \
        sums[0] ^= sums[1] ^ sums[2] ^ sums[3];                                                    \
        for (size_t i = 0; i < (bytes) / 8; i++)                                                   \
            *sink += sums[0][i];                                                                   \
    }
