/* rng: random numbers as pure functions of (seed, counter).
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a number is about 20 instructions.
 * Not here: secure bytes from the system (random_bytes), distributions of tokens (sampler).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns 64 well mixed bits of (seed, stream, counter): SplitMix64's finaliser (Steele, Lea and
 * Flood, OOPSLA 2014) applied over the three words. The same arguments give the same result on
 * every machine. */
uint64_t rng_at(uint64_t seed, uint64_t stream, uint64_t counter);

/* The same in two calls, for many numbers of one stream. */
uint64_t rng_stream(uint64_t seed, uint64_t stream);
uint64_t rng_of(uint64_t of_stream, uint64_t counter);

/* Maps 64 bits to a number uniform in (0, 1), never 0 nor 1: the middle of one of 2^52 equal
 * intervals. */
double rng_unit(uint64_t bits);

/* A generator for tests and jitter; the counter is its state. */
struct rng {
    uint64_t seed;
    uint64_t counter;
};
uint64_t rng_next(struct rng *rng);
/* Uniform in [0, bound), bound ≥ 1. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
