#include "engine/draft/draft_model.h"

#include <string.h>

#include "config/base/mem.h"
#include "engine/models/model_units.h"

static enum status open_check_vocab(const struct gguf *gguf, const struct vocab *vocab)
{
    enum status status = STATUS_OK;
    struct vocab *own = NULL;
    TRY(vocab_create(&own, gguf));
    if (vocab_size(own) != vocab_size(vocab))
        FAIL_OUT(STATUS_UNSUPPORTED, "the draft model has %u tokens, the model %u", vocab_size(own),
                 vocab_size(vocab));
    for (uint32_t id = 0; id < vocab_size(own); id++) {
        struct slice a = vocab_bytes(own, id);
        struct slice b = vocab_bytes(vocab, id);
        if (a.length != b.length || memcmp(a.bytes, b.bytes, a.length) != 0 ||
            vocab_kind(own, id) != vocab_kind(vocab, id))
            FAIL_OUT(STATUS_UNSUPPORTED, "token %u of the draft model is not the model's", id);
    }
out:
    vocab_destroy(own);
    return status;
}

static enum status open_pages(struct draft_model *draft, const struct draft_model_options *options,
                              const struct model_config *config)
{
    const uint32_t tokens = options->page_tokens;
    struct kv_layout layout;
    TRY(model_units_layout_whole(options->kernels, config, config->kv_heads, options->kv_type,
                                 tokens, &layout));
    uint32_t pages = (options->context + tokens - 1) / tokens;
    TRY(kv_pool_init(&draft->pool, options->kernels, &layout,
                     (uint64_t)DRAFT_MODEL_CONTEXTS * pages * layout.page_bytes, options->context));
    draft->places = mem_zalloc(options->places, sizeof(*draft->places));
    draft->pages = mem_zalloc((size_t)options->places * pages, sizeof(*draft->pages));
    if (draft->places == NULL || draft->pages == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the sequences of the draft model");
    for (uint32_t i = 0; i < options->places; i++)
        draft->places[i].pages = draft->pages + (size_t)i * pages;
    return STATUS_OK;
}

enum status draft_model_open(struct draft_model **out, const struct draft_model_options *options)
{
    enum status status = STATUS_OK;
    struct model_config config;
    TRY(open_check_vocab(options->source->gguf, options->vocab));
    TRY(model_config_read(&config, options->source));
    if (config.context < options->context)
        FAIL(STATUS_UNSUPPORTED, "the draft model has a context of %u tokens, %u are served",
             config.context, options->context);
    struct draft_model *draft = mem_zalloc(1, sizeof(*draft));
    if (draft == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the draft model");
    draft->place_count = options->places;
    uint32_t rows = options->rows_max < DRAFT_MODEL_ROWS ? options->rows_max : DRAFT_MODEL_ROWS;
    uint32_t logit_rows = rows < options->places ? rows : options->places;
    TRY_OUT(open_pages(draft, options, &config));
    TRY_OUT(model_open(&draft->model, options->kernels, options->source, rows, logit_rows));
    const struct draft_guess_options guess_options = {
        .model = draft->model,
        .has_own_noise = options->has_own_noise,
        .rows_max = rows,
        .sequences_max = options->places,
    };
    TRY_OUT(draft_guess_init(&draft->guess, &guess_options));
    *out = draft;
out:
    if (status != STATUS_OK)
        draft_model_close(draft);
    return status;
}

void draft_model_close(struct draft_model *draft)
{
    if (draft == NULL)
        return;
    for (uint32_t i = 0; draft->places != NULL && i < draft->place_count; i++)
        while (draft->places[i].page_count > 0)
            kv_pool_release(&draft->pool, draft->places[i].pages[--draft->places[i].page_count]);
    if (draft->model != NULL)
        model_close(draft->model);
    draft_guess_deinit(&draft->guess);
    kv_pool_deinit(&draft->pool);
    mem_free(draft->places);
    mem_free(draft->pages);
    mem_free(draft);
}
