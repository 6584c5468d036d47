#include "tests/sim/sim_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/status.h"

enum { PARTS = 20, ARRIVALS_MAX = 1 << 14 };

/* A context of this model's size stands for one of 8,192 tokens (prompts) and 2,048 (answers). */
enum { PROMPT_SHRINKS = 24, GENERATED_SHRINKS = 12, PROMPT_MAX = 110, GENERATED_MAX = 60 };

/* Azure, conversations of 2023: the 0, 5, … 100 % quantiles of prompts, answers, and gaps in
 * hundredths of their mean. */
static const uint32_t azure_prompt[PARTS + 1] = {2,    181,  238,  382,  396,  407,  844,
                                                 983,  1010, 1029, 1046, 1065, 1085, 1106,
                                                 1135, 1164, 1236, 1351, 2332, 4080, 7930};
static const uint32_t azure_generated[PARTS + 1] = {10,  40,  55,  69,  82,  91,  99,
                                                    114, 142, 171, 217, 376, 390, 396,
                                                    398, 405, 413, 421, 431, 488, 1000};
static const uint32_t azure_gap[PARTS + 1] = {0,  4,  10,  15,  21,  28,  35,  42,  49,  58,  68,
                                              79, 92, 106, 121, 139, 161, 188, 232, 308, 2108};

static uint32_t quantile(const uint32_t *table, struct rng *rng)
{
    enum { FINE = 1000 };
    uint32_t part = (uint32_t)rng_below(rng, PARTS);
    uint32_t within = (uint32_t)rng_below(rng, FINE);
    return table[part] + (table[part + 1] - table[part]) * within / FINE;
}

static uint32_t shrink(uint64_t tokens, uint32_t by, uint32_t most)
{
    uint64_t small = tokens / by > 0 ? tokens / by : 1;
    return small < most ? (uint32_t)small : most;
}

void sim_trace_draw(struct sim_arrival *out, struct rng *rng, int64_t at_us, uint32_t gap_us)
{
    *out = (struct sim_arrival){
        .at_us = at_us + (int64_t)gap_us * quantile(azure_gap, rng) / 100,
        .prompt = shrink(quantile(azure_prompt, rng), PROMPT_SHRINKS, PROMPT_MAX),
        .generated = shrink(quantile(azure_generated, rng), GENERATED_SHRINKS, GENERATED_MAX),
    };
}

/* "2023-11-16 18:15:46.6805900,374,44" */
static bool read_azure(struct sim_arrival *out, const char *line)
{
    uint32_t hours;
    uint32_t minutes;
    double seconds;
    unsigned long long prompt;
    unsigned long long generated;
    if (sscanf(line, "%*[0-9-] %u:%u:%lf,%llu,%llu", &hours, &minutes, &seconds, &prompt,
               &generated) != 5)
        return false;
    *out = (struct sim_arrival){
        .at_us = (int64_t)((hours * 3600 + minutes * 60 + seconds) * 1e6),
        .prompt = shrink(prompt, PROMPT_SHRINKS, PROMPT_MAX),
        .generated = shrink(generated, GENERATED_SHRINKS, GENERATED_MAX),
    };
    return true;
}

/* {"timestamp":0,"input_length":6758,"output_length":500,"hash_ids":[0,1,2]} */
static bool read_mooncake(struct sim_arrival *out, const char *line)
{
    const char *time = strstr(line, "\"timestamp\":");
    const char *generated = strstr(line, "\"output_length\":");
    const char *ids = strstr(line, "\"hash_ids\":");
    if (time == NULL || generated == NULL || ids == NULL)
        return false;
    *out = (struct sim_arrival){
        .at_us = strtoll(strchr(time, ':') + 1, NULL, 10) * 1000,
        .prompt = 1,
        .generated = shrink(strtoull(strchr(generated, ':') + 1, NULL, 10), GENERATED_SHRINKS,
                            GENERATED_MAX),
    };
    for (ids = strpbrk(ids, "0123456789"); ids != NULL && out->block_count < SIM_TRACE_BLOCKS;) {
        char *end;
        out->blocks[out->block_count++] = (uint32_t)strtoul(ids, &end, 10);
        ids = *end == ',' ? end + 1 : NULL;
    }
    return true;
}

bool sim_trace_open(struct sim_trace *trace, const char *path)
{
    static char line[1 << 16];
    *trace = (struct sim_trace){.arrivals = mem_zalloc(ARRIVALS_MAX, sizeof(*trace->arrivals))};
    ASSERT(trace->arrivals != NULL);
    FILE *file = fopen(path, "r");
    while (file != NULL && trace->count < ARRIVALS_MAX && fgets(line, sizeof(line), file) != NULL) {
        struct sim_arrival *next = &trace->arrivals[trace->count];
        if (read_azure(next, line) || read_mooncake(next, line))
            trace->count++;
    }
    if (file != NULL)
        fclose(file);
    if (trace->count > 1)
        return true;
    fprintf(stderr, "sim: %s: no arrivals\n", path);
    sim_trace_close(trace);
    return false;
}

void sim_trace_close(struct sim_trace *trace)
{
    mem_free(trace->arrivals);
    *trace = (struct sim_trace){0};
}
