#include "tests/kit/half_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/models/model.h"
#include "kernels/types/half.h"
#include "tests/kit/gguf_writer.h"

static void write_keys(struct gguf_writer *writer, const struct model_config *config)
{
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"block_count", config->layers},
                  {"context_length", config->context},
                  {"embedding_length", config->width},
                  {"feed_forward_length", config->hidden},
                  {"attention.head_count", config->heads},
                  {"attention.head_count_kv", config->kv_heads},
                  {"attention.key_length", config->head_dim},
                  {"attention.value_length", config->head_dim},
                  {"rope.dimension_count", config->rope_dims}};
    char name[128];
    gguf_writer_string(writer, "general.architecture", config->architecture);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(name, sizeof name, "%s.%s", config->architecture, counts[i].name);
        gguf_writer_u32(writer, name, counts[i].value);
    }
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", config->architecture);
    gguf_writer_f32(writer, name, config->norm_epsilon);
    snprintf(name, sizeof name, "%s.rope.freq_base", config->architecture);
    gguf_writer_f32(writer, name, config->ropes[0].base);
}

static void write_matrix(struct gguf_writer *writer, const char *name, const struct tensor *tensor)
{
    const size_t cols = tensor->dims[0];
    const size_t count = cols * tensor->dims[1];
    uint16_t *halves = malloc(count * sizeof *halves);
    float *row = malloc(cols * sizeof *row);
    if (halves == NULL || row == NULL)
        abort();
    for (size_t r = 0; r < tensor->dims[1]; r++) {
        tensor_row_to_f32(tensor, r, row);
        for (size_t c = 0; c < cols; c++)
            halves[r * cols + c] = half_from_float(row[c]);
    }
    gguf_writer_tensor(writer, name, 2, tensor->dims, TENSOR_TYPE_f16, halves,
                       count * sizeof *halves);
    free(halves);
    free(row);
}

enum status half_model_build(const struct gguf *gguf, struct buffer *out)
{
    struct gguf_writer writer;
    struct model_config config;
    TRY(model_config_read(&config, &(struct model_source){.gguf = gguf}));
    gguf_writer_init(&writer);
    write_keys(&writer, &config);
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice found;
        struct tensor tensor;
        char name[128];
        gguf_tensor_at(gguf, i, &found, &tensor);
        snprintf(name, sizeof name, "%.*s", (int)found.length, found.bytes);
        if (tensor.dim_count == 2)
            write_matrix(&writer, name, &tensor);
        else
            gguf_writer_tensor(&writer, name, tensor.dim_count, tensor.dims, tensor.type->id,
                               tensor.data, tensor.bytes);
    }
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
    return STATUS_OK;
}
