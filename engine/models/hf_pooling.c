#include "engine/models/hf_pooling.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/json_read.h"
#include "config/base/limits_files.h"
#include "engine/models/hf_folder.h"

static enum status read_json(int folder, const char *name, enum json_read_kind kind,
                             struct buffer *text, struct json_read *out)
{
    TRY(hf_folder_read_json(folder, name, text, out));
    if (out->values[0].kind != kind)
        FAIL(STATUS_CORRUPT, "%s is no JSON %s", name, kind == JSON_READ_ARRAY ? "list" : "object");
    return STATUS_OK;
}

/* --- the pooling --- */

static const struct {
    const char *name;
    uint32_t number; /* pooling_type; 0: not supported */
} MODES[] = {
    {"pooling_mode_mean_tokens", 1},
    {"pooling_mode_cls_token", 2},
    {"pooling_mode_lasttoken", 3},
    {"pooling_mode_max_tokens", 0},
    {"pooling_mode_mean_sqrt_len_tokens", 0},
    {"pooling_mode_weightedmean_tokens", 0},
};

static enum status pooling_find(const struct json_read *json, uint32_t *out)
{
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        const struct json_read_value *value = json_read_member(json, 0, MODES[i].name);
        if (value == NULL || value->kind != JSON_READ_TRUE)
            continue;
        if (MODES[i].number == 0)
            FAIL(STATUS_UNSUPPORTED, "the Pooling module has %s, which is not supported",
                 MODES[i].name);
        *out = MODES[i].number;
        count++;
    }
    if (count != 1)
        FAIL(STATUS_UNSUPPORTED, "the Pooling module has %u ways of pooling; one is supported",
             count);
    return STATUS_OK;
}

static enum status pooling_read(int folder, struct slice path, uint32_t *out)
{
    char name[LIMIT_FOLDER_NAME_BYTES + 1];
    struct json_read json = {0};
    struct buffer text;
    if (!hf_folder_is_name(path))
        FAIL(STATUS_CORRUPT, "modules.json: the path of the Pooling module leads elsewhere");
    snprintf(name, sizeof name, "%.*s", (int)path.length, path.bytes);
    const int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (inner < 0)
        FAIL(STATUS_CORRUPT, "model directory: %s cannot be opened: %s", name,
             strerrordesc_np(errno));
    enum status status = read_json(inner, "config.json", JSON_READ_OBJECT, &text, &json);
    close(inner);
    if (status == STATUS_OK)
        status = pooling_find(&json, out);
    json_read_free(&json);
    buffer_deinit(&text);
    if (status == STATUS_NOT_FOUND)
        FAIL(STATUS_CORRUPT, "model directory: there is no %s/config.json", name);
    return status;
}

/* --- the modules --- */

static struct slice text_of(const struct json_read *json, uint32_t at, const char *name)
{
    const struct json_read_value *value = json_read_member(json, at, name);
    return value != NULL && value->kind == JSON_READ_STRING ? json_read_text(value) : SLICE("");
}

/* The class without its package: "sentence_transformers.models.Pooling". */
static struct slice class_of(struct slice type)
{
    size_t from = type.length;
    while (from > 0 && type.bytes[from - 1] != '.')
        from--;
    return (struct slice){type.bytes + from, type.length - from};
}

static enum status modules_read(int folder, const struct json_read *json, uint32_t *pooling,
                                bool *is_normalised)
{
    uint32_t at = 1;
    for (uint32_t i = 0; i < json->values[0].count; i++, at = json->values[at].next) {
        if (json->values[at].kind != JSON_READ_OBJECT)
            FAIL(STATUS_CORRUPT, "modules.json: module %u is no object", i);
        const struct slice type = class_of(text_of(json, at, "type"));
        const bool is_first = slice_is(type, "Transformer") && i == 0;
        const bool is_pooling = slice_is(type, "Pooling") && i == 1;
        const bool is_last = slice_is(type, "Normalize") && i == 2;
        if (!is_first && !is_pooling && !is_last)
            FAIL(STATUS_UNSUPPORTED,
                 "modules.json: module %u is '%.*s'; supported are Transformer, Pooling and "
                 "Normalize, in this order",
                 i, (int)(type.length < 64 ? type.length : 64), type.bytes);
        if (is_first && text_of(json, at, "path").length > 0)
            FAIL(STATUS_UNSUPPORTED, "modules.json: a Transformer with a path of its own is not "
                                     "supported");
        if (is_pooling)
            TRY(pooling_read(folder, text_of(json, at, "path"), pooling));
        *is_normalised = is_last;
    }
    return STATUS_OK;
}

enum status hf_pooling_read(int folder, const char *arch, struct gguf_keys *keys)
{
    struct json_read json = {0};
    struct buffer text;
    uint32_t pooling = 0;
    bool is_normalised = false;
    char key[64];
    enum status status = read_json(folder, "modules.json", JSON_READ_ARRAY, &text, &json);
    if (status == STATUS_OK)
        status = modules_read(folder, &json, &pooling, &is_normalised);
    json_read_free(&json);
    buffer_deinit(&text);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    TRY(status);
    snprintf(key, sizeof key, "%s.pooling_type", arch);
    gguf_keys_u32(keys, key, pooling);
    gguf_keys_bool(keys, "banyan.embeddings_normalised", is_normalised);
    return STATUS_OK;
}
