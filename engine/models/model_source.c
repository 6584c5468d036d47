#include "engine/models/model_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status model_source_open(struct model_source *out, const char *path)
{
    *out = (struct model_source){0};
    /* O_NONBLOCK, so that the start does not hang if the path names a pipe. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        FAIL(STATUS_IO, "model file: cannot be opened: %s", strerrordesc_np(errno));
    const enum status status = model_source_open_descriptor(out, descriptor);
    close(descriptor);
    return status;
}

enum status model_source_open_descriptor(struct model_source *out, int descriptor)
{
    struct stat info;
    *out = (struct model_source){0};
    if (fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
        TRY(hf_model_open(&out->hf, descriptor));
        out->gguf = hf_model_keys(out->hf);
        return STATUS_OK;
    }
    TRY(gguf_open_descriptor(&out->owned, descriptor));
    out->gguf = out->owned;
    return STATUS_OK;
}

void model_source_close(struct model_source *source)
{
    gguf_close(source->owned);
    hf_model_close(source->hf);
    *source = (struct model_source){0};
}

void model_source_forget(const struct model_source *source)
{
    if (source->hf != NULL)
        hf_model_forget(source->hf);
    else
        gguf_forget_data(source->gguf);
}

bool model_source_has(const struct model_source *source, const char *key)
{
    return gguf_has(source->gguf, key);
}

enum status model_source_get_u32(const struct model_source *source, const char *key, uint32_t *out)
{
    return gguf_get_u32(source->gguf, key, out);
}

enum status model_source_get_f32(const struct model_source *source, const char *key, float *out)
{
    return gguf_get_f32(source->gguf, key, out);
}

enum status model_source_get_bool(const struct model_source *source, const char *key, bool *out)
{
    return gguf_get_bool(source->gguf, key, out);
}

enum status model_source_get_string(const struct model_source *source, const char *key,
                                    struct slice *out)
{
    return gguf_get_string(source->gguf, key, out);
}

enum status model_source_get_list(const struct model_source *source, const char *key, uint32_t max,
                                  uint32_t *out, uint32_t *count)
{
    struct gguf_array array;
    TRY(gguf_get_array(source->gguf, key, &array));
    if (array.count > max)
        FAIL(STATUS_CORRUPT, "model file: key '%s' has %llu elements, the limit is %u", key,
             (unsigned long long)array.count, max);
    *count = (uint32_t)array.count;
    for (uint32_t i = 0; i < *count; i++)
        TRY(gguf_array_next_u32(&array, &out[i]));
    return STATUS_OK;
}

enum status model_source_get_length(const struct model_source *source, const char *key,
                                    uint64_t *out)
{
    struct gguf_array array;
    TRY(gguf_get_array(source->gguf, key, &array));
    *out = array.count;
    return STATUS_OK;
}

bool model_source_is_list(const struct model_source *source, const char *key)
{
    return gguf_is_array(source->gguf, key);
}

uint32_t model_source_key_count(const struct model_source *source)
{
    return gguf_key_count(source->gguf);
}

struct slice model_source_key_at(const struct model_source *source, uint32_t index)
{
    return gguf_key_at(source->gguf, index);
}

void model_source_tensor_name(const struct model_source *source, struct model_source_name name,
                              int64_t layer, char out[static MODEL_SOURCE_NAME_BYTES])
{
    const char *own = source->hf != NULL ? name.hf : name.gguf;
    if (layer == MODEL_SOURCE_NO_LAYER)
        snprintf(out, MODEL_SOURCE_NAME_BYTES, "%s", own);
    else
        snprintf(out, MODEL_SOURCE_NAME_BYTES,
                 source->hf != NULL ? "model.layers.%lld.%s" : "blk.%lld.%s", (long long)layer,
                 own);
}

enum status model_source_get_tensor(const struct model_source *source, const char *name,
                                    struct tensor *out)
{
    uint32_t index;
    if (source->hf == NULL)
        return gguf_get_tensor(source->gguf, name, out);
    TRY(hf_tensors_find(hf_model_tensors(source->hf), name, &index));
    hf_tensors_at(hf_model_tensors(source->hf), index, NULL, out);
    return STATUS_OK;
}

enum status model_source_load_tensor(const struct model_source *source, const char *name,
                                     struct tensor *out, void **memory)
{
    uint32_t index;
    *memory = NULL;
    if (source->hf == NULL)
        return gguf_get_tensor(source->gguf, name, out);
    TRY(hf_tensors_find(hf_model_tensors(source->hf), name, &index));
    return hf_tensors_load(hf_model_tensors(source->hf), index, out, memory);
}

enum status model_source_find_tensor(const struct model_source *source, const char *name,
                                     uint32_t *out)
{
    if (source->hf == NULL)
        return gguf_find_tensor(source->gguf, name, out);
    return hf_tensors_find(hf_model_tensors(source->hf), name, out);
}

uint32_t model_source_tensor_count(const struct model_source *source)
{
    return source->hf != NULL ? hf_tensors_count(hf_model_tensors(source->hf))
                              : gguf_tensor_count(source->gguf);
}

void model_source_tensor_at(const struct model_source *source, uint32_t index, struct slice *name,
                            struct tensor *out)
{
    if (source->hf != NULL)
        hf_tensors_at(hf_model_tensors(source->hf), index, name, out);
    else
        gguf_tensor_at(source->gguf, index, name, out);
}
