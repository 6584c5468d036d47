#include "engine/step/step_embed.h"

#include <math.h>
#include <string.h>

#include "config/base/mem.h"
#include "engine/step/step_metrics.h"
#include "engine/step/step_tell.h"

enum status step_embed_init(struct step *step)
{
    struct step_embed *embed = &step->embed;
    const struct step_options *options = &step->options;
    if (options->pooling == ENGINE_POOLING_NONE)
        return STATUS_OK;
    const bool is_mean = options->pooling != ENGINE_POOLING_LAST;
    const bool is_device = kernels_is_device(options->kernels);
    embed->width = model_config(options->model)->width;
    const size_t bytes = embed->width * sizeof(float);
    embed->vector = mem_zalloc(1, bytes);
    if (is_mean)
        embed->sums = mem_zalloc(step->places, bytes);
    if (is_device)
        embed->copy = mem_zalloc(options->logit_rows_max, bytes);
    if (embed->vector == NULL || (is_mean && embed->sums == NULL) ||
        (is_device && embed->copy == NULL))
        FAIL(STATUS_NO_MEMORY, "no memory for embeddings of %u numbers", embed->width);
    return STATUS_OK;
}

void step_embed_deinit(struct step *step)
{
    mem_free(step->embed.vector);
    mem_free(step->embed.sums);
    mem_free(step->embed.copy);
    step->embed = (struct step_embed){0};
}

static const struct engine_request *asked_of(const struct step *step, uint32_t index)
{
    return &step->options.tickets->slots[step->sequences.slots[index].slot].asked;
}

enum status step_embed_read(struct step *step, uint32_t parts)
{
    struct step_embed *embed = &step->embed;
    bool is_wanted = false;
    for (uint32_t i = 0; i < parts && !is_wanted; i++)
        is_wanted = asked_of(step, step->parts[i].sequence)->pooling != ENGINE_POOLING_NONE;
    if (!is_wanted)
        return STATUS_OK;
    embed->states = model_states(step->options.model);
    if (embed->copy == NULL)
        return STATUS_OK;
    const size_t bytes = (size_t)step->batch.model.logit_rows * embed->width * sizeof(float);
    TRY(kernels_download(step->options.kernels, embed->copy, embed->states, bytes));
    embed->states = embed->copy;
    return STATUS_OK;
}

void step_embed_row(struct step *step, uint32_t index, uint32_t position, uint32_t row)
{
    struct step_embed *embed = &step->embed;
    const float *state = embed->states + (size_t)row * embed->width;
    if (embed->sums == NULL) {
        memcpy(embed->vector, state, embed->width * sizeof(float));
        return;
    }
    float *sum = embed->sums + (size_t)index * embed->width;
    if (position > 0 && step->options.pooling == ENGINE_POOLING_FIRST)
        return;
    for (uint32_t i = 0; i < embed->width; i++)
        sum[i] = position == 0 ? state[i] : sum[i] + state[i];
}

static void tell_scale(float *vector, const float *from, uint32_t width, double factor)
{
    for (uint32_t i = 0; i < width; i++)
        vector[i] = (float)(from[i] * factor);
}

/* The factor that gives a vector the length 1; 0 for one of zeros. */
static double tell_factor(const float *from, uint32_t width)
{
    double squares = 0;
    for (uint32_t i = 0; i < width; i++)
        squares += (double)from[i] * from[i];
    return squares > 0 ? 1 / sqrt(squares) : 0;
}

void step_embed_tell(struct step *step, uint32_t index)
{
    struct step_embed *embed = &step->embed;
    const float *from =
        embed->sums != NULL ? embed->sums + (size_t)index * embed->width : embed->vector;
    double factor = 1; /* a mean has the direction of its sum */
    if (step->options.has_unit_vectors)
        factor = tell_factor(from, embed->width);
    else if (step->options.pooling == ENGINE_POOLING_MEAN)
        factor = 1.0 / step->sequences.slots[index].token_count;
    tell_scale(embed->vector, from, embed->width, factor);
    const struct outbox_record record = step_tell_record(step, ENGINE_EVENT_EMBEDDING, index);
    step_tell(step, &record, NULL,
              (struct slice){(const char *)embed->vector, embed->width * sizeof(float)});
    if (step->metrics.embeddings != NULL)
        metric_add(step->metrics.embeddings, 1);
}
