#include "engine/sampling/sampler_order.h"

#include <math.h>
#include <string.h>

#include "config/base/status.h"

/* A value has 32 bits: the turns look at 11, 11 and 10 of them. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, TURNS = 3 };

/* Size of the sample, and how far from its expected rank the wanted one is searched: four standard
 * deviations of the rank of the median. */
enum { SAMPLE = 1024, SAMPLE_DOUBT = 64 };

static const uint32_t shifts[TURNS] = {21, 10, 0};

/* Bits that rise as values fall; equal for both zeros. */
static uint32_t order_key(float value)
{
    uint32_t bits;
    if (isnan(value))
        value = -INFINITY;
    value += 0.0F; /* no −0 */
    memcpy(&bits, &value, sizeof(bits));
    return bits >> 31 ? bits : ~(bits | 0x80000000U);
}

static uint32_t order_digit(float value, uint32_t turn)
{
    uint32_t digits = turn < TURNS - 1 ? DIGITS : DIGITS / 2;
    return order_key(value) >> shifts[turn] & (digits - 1);
}

/* The digit with which the counts reach `wanted`; subtracts the counts before it from `wanted`. */
static uint32_t find_digit(const uint32_t counts[DIGITS], uint32_t *wanted)
{
    uint32_t digit = 0;
    while (counts[digit] < *wanted)
        *wanted -= counts[digit++];
    return digit;
}

/* The `wanted`-th in order of ids[0, count), whose ids rise. */
static uint32_t find_in(const float *values, uint32_t *ids, uint32_t count, uint32_t wanted)
{
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t counts[DIGITS] = {0};
        for (uint32_t i = 0; i < count; i++)
            counts[order_digit(values[ids[i]], turn)]++;
        uint32_t digit = find_digit(counts, &wanted);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t id = ids[i];
            ids[kept] = id;
            kept += order_digit(values[id], turn) == digit;
        }
        count = kept;
    }
    return ids[wanted - 1]; /* all that are left have equal values */
}

/* Two values between which the wanted one most probably lies: those of a sample a little before and
 * after the expected rank. */
static void find_between(const float *values, uint32_t count, uint32_t wanted, uint32_t *ids,
                         uint32_t *scratch, float *least, float *most)
{
    const uint32_t stride = count / SAMPLE;
    for (uint32_t i = 0; i < SAMPLE; i++)
        ids[i] = i * stride;
    sampler_order_sort(values, ids, SAMPLE, scratch);
    uint32_t place = (uint32_t)((uint64_t)wanted * SAMPLE / count);
    *most = place > SAMPLE_DOUBT ? values[ids[place - SAMPLE_DOUBT]] : INFINITY;
    *least = place + SAMPLE_DOUBT < SAMPLE ? values[ids[place + SAMPLE_DOUBT]] : -INFINITY;
}

/* Floyd and Rivest 1975: most values are only compared with two bounds. Returns the id, or `count`
 * when the sample was misleading. */
static uint32_t find_by_sample(const struct kernels *kernels, const float *values, uint32_t count,
                               uint32_t wanted, uint32_t *ids, uint32_t *scratch)
{
    float least;
    float most;
    find_between(values, count, wanted, ids, scratch, &least, &most);
    uint32_t reached = kernels_row_above(kernels, values, count, least, ids);
    uint32_t between = 0;
    for (uint32_t i = 0; i < reached; i++) {
        uint32_t id = ids[i];
        ids[between] = id;
        between += values[id] <= most;
    }
    uint32_t before = reached - between;
    if (wanted <= before || wanted > reached)
        return count;
    return find_in(values, ids, between, wanted - before);
}

struct sampler_order_cut sampler_order_find(const struct kernels *kernels, const float *values,
                                            uint32_t count, uint32_t wanted, uint32_t *ids,
                                            uint32_t *scratch)
{
    ASSERT(wanted > 0 && wanted <= count);
    uint32_t last = count;
    if (count >= 4 * SAMPLE)
        last = find_by_sample(kernels, values, count, wanted, ids, scratch);
    if (last == count) {
        for (uint32_t i = 0; i < count; i++)
            ids[i] = i;
        last = find_in(values, ids, count, wanted);
    }
    float value = values[last];
    return (struct sampler_order_cut){isnan(value) ? -INFINITY : value, last};
}

/* Radix sort by the last digit first; each turn keeps the order of equals. */
void sampler_order_sort(const float *values, uint32_t *ids, uint32_t count, uint32_t *scratch)
{
    uint32_t places[DIGITS];
    uint32_t *from = ids;
    uint32_t *to = scratch;
    for (uint32_t turn = TURNS; turn-- > 0;) {
        memset(places, 0, sizeof(places));
        for (uint32_t i = 0; i < count; i++)
            places[order_digit(values[from[i]], turn)]++;
        uint32_t sum = 0;
        for (uint32_t digit = 0; digit < DIGITS; digit++) {
            uint32_t here = places[digit];
            places[digit] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[places[order_digit(values[from[i]], turn)]++] = from[i];
        uint32_t *other = from;
        from = to;
        to = other;
    }
    memcpy(ids, from, count * sizeof(*ids));
}
