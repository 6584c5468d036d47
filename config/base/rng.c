#include "config/base/rng.h"

#include "config/base/hash.h"
#include "config/base/status.h"

static const uint64_t golden_gamma = 0x9e3779b97f4a7c15u; /* 2^64 ÷ golden ratio, odd */

uint64_t rng_stream(uint64_t seed, uint64_t stream)
{
    return hash_mix64(hash_mix64(seed + golden_gamma) ^ (stream + golden_gamma));
}

uint64_t rng_of(uint64_t of_stream, uint64_t counter)
{
    return hash_mix64(of_stream + golden_gamma * (counter + 1));
}

uint64_t rng_at(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return rng_of(rng_stream(seed, stream), counter);
}

double rng_unit(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

uint64_t rng_next(struct rng *rng)
{
    return rng_at(rng->seed, 0, rng->counter++);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    ASSERT(bound >= 1);
    /* Multiply-shift (Lemire, 2019) without the rejection step: a bias of at most bound ÷ 2^64 is
     * fine here. */
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}
