#include "tests/parity/tiny_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER "tests/parity/tiny/"

enum { UNITS = 1 << 17 }; /* of a log-probability, kept as a number of 24 bits */

static _Noreturn void die(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static void read_logprobs(struct tiny_golden *golden)
{
    char path[256];
    const size_t count = (size_t)golden->positions * TINY_VOCAB;
    uint8_t *bytes = malloc(3 * count + 1);
    snprintf(path, sizeof path, FOLDER "%s.logprobs", golden->model->name);
    FILE *file = fopen(path, "rb");
    golden->logprobs = calloc(count, sizeof *golden->logprobs);
    if (file == NULL || bytes == NULL || golden->logprobs == NULL)
        die(path, "cannot be read");
    if (fread(bytes, 1, 3 * count + 1, file) != 3 * count)
        die(path, "does not have 3 bytes for each position and token");
    for (size_t i = 0; i < count; i++) {
        uint32_t units = (uint32_t)(bytes[3 * i] | bytes[3 * i + 1] << 8 | bytes[3 * i + 2] << 16);
        golden->logprobs[i] = -(double)units / UNITS;
    }
    fclose(file);
    free(bytes);
}

void tiny_golden_open(struct tiny_golden *golden, const struct tiny_model *model)
{
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, FOLDER "%s.json", model->name);
    *golden = (struct tiny_golden){.model = model, .json = json_load_file(path, 0, &error)};
    if (golden->json == NULL)
        die(path, error.text);
    const json_t *tokens = json_object_get(golden->json, "tokens");
    golden->positions = (uint32_t)json_integer_value(json_object_get(golden->json, "positions"));
    if (json_array_size(tokens) != TINY_GOLDEN_TOKENS || golden->positions == 0 ||
        golden->positions > TINY_GOLDEN_TOKENS)
        die(path, "has another number of tokens or positions");
    for (uint32_t i = 0; i < TINY_GOLDEN_TOKENS; i++)
        golden->tokens[i] = (uint32_t)json_integer_value(json_array_get(tokens, i));
    read_logprobs(golden);
}

void tiny_golden_close(struct tiny_golden *golden)
{
    json_decref(golden->json);
    free(golden->logprobs);
}

static double log_of_sum(const float *logits)
{
    double most = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < TINY_VOCAB; i++)
        most = fmax(most, (double)logits[i]);
    for (uint32_t i = 0; i < TINY_VOCAB; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

double tiny_golden_difference(const struct tiny_golden *golden, const float *logits)
{
    double worst = 0;
    const uint32_t first = TINY_GOLDEN_TOKENS - golden->positions;
    for (uint32_t p = 0; p < golden->positions; p++) {
        const float *row = logits + (size_t)(first + p) * TINY_VOCAB;
        const double *want = golden->logprobs + (size_t)p * TINY_VOCAB;
        const double base = log_of_sum(row);
        for (uint32_t i = 0; i < TINY_VOCAB; i++) {
            double difference = fabs((double)row[i] - base - want[i]);
            if (!(difference <= worst)) /* also when it is no number */
                worst = isnan(difference) ? INFINITY : difference;
        }
    }
    return worst;
}
