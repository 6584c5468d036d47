/* hf_kit: config.json of a tiny model with one part changed, read by hf_config. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/models/hf_config.h"
#include "tests/kit/tiny_folder.h"

/* What a change of the text must lead to: `from` stands in the model's config.json. */
struct hf_kit_case {
    const char *model;
    const char *from;
    const char *to;
    enum status status;
    const char *says; /* part of the message; NULL: it is read */
};

/* Reads config.json of the model with `to` in place of `from`, both spellings after each other. */
static inline enum status hf_kit_read(const struct hf_kit_case *kit, enum tiny_spelling spelling,
                                      struct hf_config *out)
{
    const struct json_read_limits limits = {.depth = 16, .values = 4096};
    struct buffer text;
    struct buffer changed;
    struct json_read json;
    struct gguf_keys keys;
    buffer_init(&text, 1 << 20);
    buffer_init(&changed, 1 << 20);
    tiny_folder_config(tiny_model_find(kit->model), spelling, &text);
    const char *at = strstr(text.bytes, kit->from);
    if (at == NULL)
        fail_msg("%s is not in %s", kit->from, text.bytes);
    buffer_append(&changed, text.bytes, (size_t)(at - text.bytes));
    buffer_append_text(&changed, kit->to);
    buffer_append_text(&changed, at + strlen(kit->from));
    if (json_read(&json, buffer_slice(&changed), &limits) != STATUS_OK)
        fail_msg("%s: %s", status_note()->message, changed.bytes);
    gguf_keys_init(&keys);
    const enum status status = hf_config_read(out, &json, &keys);
    gguf_keys_deinit(&keys);
    json_read_free(&json);
    buffer_deinit(&text);
    buffer_deinit(&changed);
    return status;
}

static inline void hf_kit_check(const struct hf_kit_case *cases, size_t count,
                                enum tiny_spelling spelling)
{
    for (size_t i = 0; i < count; i++) {
        const struct hf_kit_case *kit = &cases[i];
        struct hf_config config;
        const enum status status = hf_kit_read(kit, spelling, &config);
        if (status != kit->status)
            fail_msg("%s, '%s': %s: %s", kit->model, kit->to, status_name(status),
                     status_note()->message);
        if (kit->says != NULL && (strstr(status_note()->message, kit->says) == NULL ||
                                  strstr(status_note()->message, "config.json") == NULL))
            fail_msg("%s, '%s': '%s' wanted: %s", kit->model, kit->to, kit->says,
                     status_note()->message);
    }
}
