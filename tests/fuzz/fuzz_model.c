/* fuzz_model: bytes → gguf_parse → model_open → one step, with the reference kernels and with those
 * that a server would choose, which pack weights in their own way. A hostile file must not cause a
 * read or write out of bounds, whatever its numbers are. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/models/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { ROWS = 3, PAGE_TOKENS = 16, PAGE_BYTES_MAX = 1 << 24 };

static void step(struct kernels *kernels, struct model *model)
{
    const struct model_config *config = model_config(model);
    struct kv_layout layout;
    if (config->context < ROWS ||
        kernels_kv_layout(kernels, KV_TYPE_F16, PAGE_TOKENS, config->layers, config->kv_heads,
                          config->head_dim, &layout) != STATUS_OK ||
        layout.page_bytes > PAGE_BYTES_MAX)
        return;
    void *pages = kernels_buffer_create(kernels, layout.page_bytes);
    const uint32_t page = 0;
    const uint32_t *const tables[] = {&page};
    const uint32_t zeros[ROWS] = {0};
    const uint32_t numbers[ROWS] = {0, 1, 2};
    if (pages == NULL)
        return;
    model_forward(model, &(struct model_batch){.rows = ROWS,
                                               .tokens = zeros,
                                               .kv = {.layout = &layout,
                                                      .pages = pages,
                                                      .sequence = zeros,
                                                      .position = numbers,
                                                      .page_tables = tables},
                                               .logit_rows = 2,
                                               .logit_row = numbers + 1});
    kernels_buffer_destroy(kernels, pages);
}

static void run(const struct gguf *gguf, const struct model_config *config, const char *isa)
{
    struct kernels *kernels;
    struct model *model;
    const struct kernels_options options = {
        .isa = isa, .threads = 1, .rows_max = ROWS, .cols_max = model_cols_max(config)};
    if (kernels_create(&kernels, &options) != STATUS_OK)
        return;
    if (model_open(&model, kernels, &(struct model_source){.gguf = gguf}, ROWS, 2) == STATUS_OK) {
        step(kernels, model);
        model_close(model);
    }
    kernels_destroy(kernels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct gguf *gguf;
    struct model_config config;
    if (gguf_parse(&gguf, bytes, length) != STATUS_OK)
        return 0;
    if (model_config_read(&config, &(struct model_source){.gguf = gguf}) == STATUS_OK) {
        run(gguf, &config, "ref");
        run(gguf, &config, "auto");
    }
    gguf_close(gguf);
    return 0;
}
