#include "engine/models/hf_model.h"

#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "engine/models/hf_folder.h"
#include "engine/models/hf_pooling.h"
#include "engine/models/hf_tokenizer.h"

struct hf_model {
    struct hf_config config;
    struct gguf_keys written;
    struct gguf *keys;
    struct hf_shards *shards;
    struct hf_tensors *tensors;
};

/* A directory without a tokenizer has no keys about text, which the server then asks for. */
static enum status open_text(struct hf_model *model, int folder, const struct json_read *config)
{
    int64_t size = 0;
    (void)json_read_integer(json_read_member(config, 0, "vocab_size"), &size);
    const enum status status = hf_tokenizer_read(folder, config, (uint32_t)size, &model->written);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status open_config(struct hf_model *model, int folder)
{
    struct json_read json = {0};
    struct buffer text;
    enum status status = hf_folder_read_json(folder, "config.json", &text, &json);
    if (status == STATUS_OK)
        status = hf_config_read(&model->config, &json, &model->written);
    if (status == STATUS_OK)
        status = open_text(model, folder, &json);
    if (status == STATUS_OK)
        status = hf_pooling_read(folder, model->config.arch->name, &model->written);
    json_read_free(&json);
    buffer_deinit(&text);
    return status;
}

enum status hf_model_open(struct hf_model **out, int folder)
{
    enum status status = STATUS_OK;
    struct hf_model *model = mem_zalloc(1, sizeof *model);
    *out = NULL;
    if (model == NULL)
        FAIL(STATUS_NO_MEMORY, "model directory: no memory");
    gguf_keys_init(&model->written);
    TRY_OUT(open_config(model, folder));
    TRY_OUT(gguf_keys_finish(&model->written, &model->keys));
    TRY_OUT(hf_shards_open(&model->shards, folder));
    TRY_OUT(hf_tensors_open(&model->tensors, &model->config, model->shards));
    *out = model;
    model = NULL;
out:
    hf_model_close(model);
    return status;
}

void hf_model_close(struct hf_model *model)
{
    if (model == NULL)
        return;
    hf_tensors_close(model->tensors);
    hf_shards_close(model->shards);
    gguf_close(model->keys);
    gguf_keys_deinit(&model->written);
    mem_free(model);
}

void hf_model_forget(const struct hf_model *model)
{
    hf_shards_forget(model->shards);
}

const struct gguf *hf_model_keys(const struct hf_model *model)
{
    return model->keys;
}

const struct hf_tensors *hf_model_tensors(const struct hf_model *model)
{
    return model->tensors;
}
