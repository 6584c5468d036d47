#include "tests/gpu/gpu_data.h"

#include <math.h>
#include <string.h>

#include "kernels/types/half.h"

static void half_at(unsigned char *at, float value)
{
    const uint16_t half = half_from_float(value);
    memcpy(at, &half, sizeof half);
}

static float within(struct rng *rng, float spread)
{
    return (float)(rng_unit(rng_next(rng)) * 2 - 1) * spread;
}

static void codes_fill(struct rng *rng, unsigned char *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t bits = rng_next(rng);
        memcpy(out + i, &bits, bytes - i < sizeof bits ? bytes - i : sizeof bits);
    }
}

static void block_fill(struct rng *rng, const struct tensor_type_info *type, float spread,
                       unsigned char *block)
{
    const float value = within(rng, spread);
    switch (type->id) {
    case TENSOR_TYPE_f32:
        memcpy(block, &value, sizeof value);
        return;
    case TENSOR_TYPE_bf16:
        memcpy(block, (const char *)&value + 2, 2);
        return;
    case TENSOR_TYPE_f16:
        half_at(block, value);
        return;
    default:
        codes_fill(rng, block, type->block_bytes);
        break;
    }
    switch (type->id) {
    case TENSOR_TYPE_mxfp4: /* codes of up to 12 */
        block[0] =
            (unsigned char)(128 + (int)floor(log2((double)spread / 12)) - (int)rng_below(rng, 8));
        return;
    case TENSOR_TYPE_q6_k:
        half_at(block + 208, value / 4096);
        return;
    case TENSOR_TYPE_q4_k:
    case TENSOR_TYPE_q5_k:
        half_at(block, value / 63 / (type->id == TENSOR_TYPE_q4_k ? 15 : 31));
        half_at(block + 2, within(rng, spread * 2 / 3) / 63);
        return;
    case TENSOR_TYPE_q4_1:
    case TENSOR_TYPE_q5_1:
        half_at(block + 2, within(rng, spread * 2 / 3));
        break;
    default:
        break;
    }
    half_at(block, value / (type->id == TENSOR_TYPE_q8_0 ? 127 : 12));
}

void gpu_data_fill(struct rng *rng, const struct tensor_type_info *type, float spread,
                   size_t blocks, void *out)
{
    for (size_t b = 0; b < blocks; b++)
        block_fill(rng, type, spread, (unsigned char *)out + b * type->block_bytes);
}
