#include "engine/models/model.h"

#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "engine/models/decoder.h"
#include "engine/models/model_wanted.h"
#include "kernels/kernels_step.h"

static const char *const MODEL_WEIGHTS_NAMES[] = {
    [MODEL_WEIGHTS_FILE] = "file", [MODEL_WEIGHTS_INT4] = "int4", [MODEL_WEIGHTS_Q8] = "q8"};

enum status model_weights_find(enum model_weights *out, const char *name)
{
    for (int i = MODEL_WEIGHTS_FILE; i <= MODEL_WEIGHTS_Q8; i++)
        if (strcmp(name, MODEL_WEIGHTS_NAMES[i]) == 0) {
            *out = (enum model_weights)i;
            return STATUS_OK;
        }
    FAIL(STATUS_INVALID, "--weights %.32s is not known: file, int4 or q8", name);
}

const char *model_weights_name(enum model_weights weights)
{
    return MODEL_WEIGHTS_NAMES[weights];
}

uint32_t model_cols_max(const struct model_config *config)
{
    uint32_t attention = config->heads * config->head_dim;
    uint32_t most = config->width > config->hidden ? config->width : config->hidden;
    return most > attention ? most : attention;
}

/* --- the model --- */

enum status model_open(struct model **out, struct kernels *kernels,
                       const struct model_source *source, uint32_t rows_max,
                       uint32_t logit_rows_max)
{
    const struct model_options options = {.rows_max = rows_max, .logit_rows_max = logit_rows_max};
    struct model_config config;
    struct model_share whole;
    TRY(model_config_read(&config, source));
    TRY(model_share_of(&whole, &config, 0, 1));
    return model_open_share(out, kernels, source, &options, &whole);
}

static void open_tell_codes(const struct model *model)
{
    const struct model_codes_sums *sums = &model->codes_sums;
    static const char *const events[] = {
        [MODEL_WEIGHTS_INT4] = "weights_int4", [MODEL_WEIGHTS_Q8] = "weights_q8"};
    if (model->weights != MODEL_WEIGHTS_FILE)
        LOG(LOG_INFO, events[model->weights], LOG_NUMBER("matrices", sums->matrices),
            LOG_NUMBER("file_bytes", sums->file_bytes), LOG_NUMBER("bytes", sums->bytes),
            LOG_NUMBER("kept", sums->kept), LOG_NUMBER("kept_bytes", sums->kept_bytes));
}

/* Checks what no kernel table of this machine supports and no tensor or layout shows. */
static enum status open_check(const struct model *model)
{
    const uint32_t group = model->config.heads / model->config.kv_heads;
    if (kernels_is_device(model->kernels) && group > ATTENTION_DEVICE_HEADS)
        FAIL(STATUS_UNSUPPORTED,
             "model file: %u query heads over one key-value head; devices have up to %d", group,
             ATTENTION_DEVICE_HEADS);
    if (model_is_encoder(model) && (kernels_is_device(model->kernels) || model->share.count > 1 ||
                                    model->weights == MODEL_WEIGHTS_INT4))
        FAIL(STATUS_UNSUPPORTED, "%s models run on processors, as one rank, and not as int4",
             model->config.architecture);
    return STATUS_OK;
}

/* Allocates what model_wanted_groups writes to. */
static enum status open_wanted(struct model *model)
{
    model->wanted_order = mem_zalloc(model->logit_rows_max, sizeof *model->wanted_order);
    model->wanted_shared = mem_zalloc(model->logit_rows_max, sizeof *model->wanted_shared);
    if (model->wanted_order == NULL || model->wanted_shared == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u rows of logits", model->logit_rows_max);
    return STATUS_OK;
}

static void open_free(struct model *model)
{
    mem_free(model->wanted_order);
    mem_free(model->wanted_shared);
    mem_free(model);
}

static enum status open_all(struct model *model, const struct model_source *source,
                            uint32_t context)
{
    TRY(model_config_read_arch(&model->config, source, &model->arch));
    model->context = context > 0 ? context : model->config.context;
    if (model->share.rank == 0)
        (void)model_config_warn(&model->config, model->arch, source);
    TRY(open_check(model));
    TRY(open_wanted(model));
    return decoder_open(model, source);
}

enum status model_open_share(struct model **out, struct kernels *kernels,
                             const struct model_source *source, const struct model_options *options,
                             const struct model_share *share)
{
    ASSERT(options->rows_max >= 1);
    ASSERT(options->logit_rows_max >= 1);
    ASSERT(options->logit_rows_max <= options->rows_max);
    struct model *model = mem_zalloc(1, sizeof *model);
    if (model == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory");
    model->kernels = kernels;
    model->share = *share;
    model->weights = options->weights;
    model->has_states = options->has_states;
    model->rows_max = options->rows_max;
    model->logit_rows_max = options->logit_rows_max;
    model->told_us = clock_mono_us(clock_system());
    const enum status status = open_all(model, source, options->context);
    if (status != STATUS_OK) {
        open_free(model);
        return status;
    }
    open_tell_codes(model);
    *out = model;
    return STATUS_OK;
}

void model_close(struct model *model)
{
    if (model == NULL)
        return;
    decoder_close(model);
    open_free(model);
}

void model_tell(struct model *model, void (*told)(void *context, const struct model_batch *batch),
                void *context)
{
    model->told = told;
    model->told_context = context;
}

void model_watch(struct model *model, struct pulse *pulse, uint32_t place)
{
    model->pulse = pulse;
    model->pulse_place = place;
}

const struct model_config *model_config(const struct model *model)
{
    return &model->config;
}

bool model_is_encoder(const struct model *model)
{
    return (model->arch->features & ARCH_ENCODER) != 0;
}

const float *model_states(const struct model *model)
{
    ASSERT(model->states != NULL);
    return model->states;
}

const struct model_codes_sums *model_codes_sums(const struct model *model)
{
    return &model->codes_sums;
}

static void forward_check(const struct model *model, const struct model_batch *batch)
{
    const struct model_config *config = &model->config;
    ASSERT(batch->rows >= 1);
    ASSERT(batch->rows <= model->rows_max);
    ASSERT(batch->logit_rows <= model->logit_rows_max);
    ASSERT(batch->layers <= config->layers);
    ASSERT(batch->kv.layout->kv_heads == model->share.kv_heads);
    ASSERT(batch->kv.layout->head_dim == config->head_dim);
    for (uint32_t r = 0; r < batch->rows; r++) {
        ASSERT(batch->tokens[r] < config->vocab);
        ASSERT(batch->kv.position[r] < config->context);
    }
    for (uint32_t i = 0; i < batch->logit_rows; i++)
        ASSERT(batch->logit_row[i] < batch->rows);
}

/* The largest window of any layer; 0 if some layer has none. */
static uint32_t forward_window(const struct model_config *config)
{
    uint32_t largest = config->kinds[0].window;
    for (uint32_t i = 1; i < config->kind_count; i++) {
        const uint32_t window = config->kinds[i].window;
        largest = largest == 0 || window == 0 ? 0 : window > largest ? window : largest;
    }
    return largest;
}

/* The window of the layers that look back less than others; 0 if all layers look back alike. */
static uint32_t forward_second(const struct model_config *config)
{
    const uint32_t largest = forward_window(config);
    for (uint32_t i = 0; i < config->kind_count; i++)
        if (config->kinds[i].window != largest)
            return config->kinds[i].window;
    return 0;
}

static void forward_run(void *context)
{
    struct model *model = context;
    decoder_forward(model, model->batch);
}

const float *model_forward(struct model *model, const struct model_batch *batch)
{
    const bool is_for_model = model_units_places(&model->config, batch->kv.layout, model->places);
    ASSERT(is_for_model); /* the pages are laid out for this model */
    forward_check(model, batch);
    if (model->told != NULL)
        model->told(model->told_context, batch);
    const struct attention_groups wanted = {model->wanted_order, model->wanted_shared};
    const bool is_shared = model_wanted_groups(batch, model->wanted_order, model->wanted_shared);
    model->wanted_groups = is_shared ? &wanted : NULL;
    const struct kernels_step step = {
        .rows = batch->rows,
        .tokens = batch->tokens,
        .kv = batch->kv,
        .groups = batch->groups,
        .wanted_groups = model->wanted_groups,
        .logit_rows = batch->logit_rows,
        .logit_rows_max = model->logit_rows_max,
        .heads = model->share.heads,
        .window = {forward_window(&model->config), forward_second(&model->config)},
        .logit_row = batch->logit_row,
        .layers = batch->layers,
        .has_sums = model->share.count > 1};
    model->batch = batch;
    if (kernels_step_run(model->kernels, &step, forward_run, model) != STATUS_OK)
        return NULL;
    return model_is_encoder(model) ? model->states : model->logits;
}
