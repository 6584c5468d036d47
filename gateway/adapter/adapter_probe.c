#include "gateway/adapter/adapter_probe.h"

#include <stdio.h>
#include <string.h>

#include "config/base/limits_upstream.h"
#include "gateway/upstream/https_client.h"

/* Asks one path. `*out` is NULL when the answer is not 200 or no JSON object. */
static enum status ask(struct https_client *https, const struct adapter_probe *probe,
                       const char *path, json_t **out, int *code)
{
    char whole[LIMIT_NAME_BYTES + 256];
    char headers[LIMIT_UPSTREAM_KEY_BYTES + 64];
    struct https_client_answer answer;
    snprintf(whole, sizeof whole, "%s%s", probe->prefix, path);
    snprintf(headers, sizeof headers, "%suser-agent: banyan\r\n", probe->key);
    const struct https_client_request request = {
        .method = "GET", .path = whole, .headers = headers};
    *out = NULL;
    https_client_answer_init(&answer);
    enum status status = https_client_call(https, &request, &answer);
    *code = status == STATUS_OK ? answer.code : 0;
    if (status == STATUS_OK && answer.code == 200)
        *out = json_loadb(answer.body.bytes, answer.body.length, 0, NULL);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    https_client_answer_deinit(&answer);
    return status;
}

static enum status find_kind(struct https_client *https, const struct adapter_probe *probe,
                             const struct adapter_kind **out)
{
    if (strcmp(probe->kind, "auto") != 0) {
        *out = adapter_kind_named(probe->kind);
        if (*out == NULL)
            FAIL(STATUS_INVALID, "--upstream-kind %s is not known: auto, %s", probe->kind,
                 adapter_kind_names());
        return STATUS_OK;
    }
    for (size_t i = 0; adapter_kind_at(i) != NULL; i++) {
        json_t *answer = NULL;
        int code = 0;
        *out = adapter_kind_at(i);
        if ((*out)->path[0] == '\0')
            return STATUS_OK;
        TRY(ask(https, probe, (*out)->path, &answer, &code));
        bool is_this = answer != NULL;
        json_decref(answer);
        if (is_this)
            return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status find_model(struct https_client *https, const struct adapter_probe *probe,
                              struct adapter_facts *out)
{
    json_t *answer = NULL;
    int code = 0;
    TRY(ask(https, probe, "/v1/models", &answer, &code));
    const json_t *model = json_array_get(json_object_get(answer, "data"), 0);
    const json_t *id = json_object_get(model, "id");
    const size_t length = json_string_length(id);
    enum status status = STATUS_OK;
    if (code == 401 || code == 403)
        FAIL_OUT(STATUS_UNAVAILABLE,
                 "the server at %s wants another API key: give it with --upstream-key-file",
                 probe->origin);
    if (code != 200)
        FAIL_OUT(STATUS_UNAVAILABLE, "the server at %s answers /v1/models with HTTP %d",
                 probe->origin, code);
    if (!json_is_string(id) || length == 0 || length >= sizeof out->model ||
        strlen(json_string_value(id)) != length)
        FAIL_OUT(STATUS_PROTOCOL, "the server at %s does not say the name of its model",
                 probe->origin);
    memcpy(out->model, json_string_value(id), length + 1);
    /* Other servers answer the path of vLLM too, and ignore a salt: only its own word proves it. */
    const json_t *owner = json_object_get(model, "owned_by");
    if (strcmp(probe->kind, "auto") == 0 && out->kind->owner != NULL &&
        (!json_is_string(owner) || strcmp(json_string_value(owner), out->kind->owner) != 0))
        out->kind = adapter_kind_named("openai");
    out->context = adapter_kind_number(model, "max_model_len");
    if (out->context == 0)
        out->context = adapter_kind_number(json_object_get(model, "meta"), "n_ctx");
out:
    json_decref(answer);
    return status;
}

/* What only this kind says of itself. */
static enum status find_more(struct https_client *https, const struct adapter_probe *probe,
                             struct adapter_facts *out)
{
    json_t *answer = NULL;
    int code = 0;
    if (out->kind->facts == NULL)
        return STATUS_OK;
    TRY(ask(https, probe, out->kind->path, &answer, &code));
    out->kind->facts(answer, out);
    json_decref(answer);
    return STATUS_OK;
}

enum status adapter_probe_run(const struct adapter_probe *probe, struct adapter_facts *out)
{
    struct https_client *https = NULL;
    const struct https_client_options options = {.url = probe->origin,
                                                 .timeout_ms = LIMIT_UPSTREAM_PROBE_MS,
                                                 .may_be_plain = true,
                                                 .answer_bytes = LIMIT_UPSTREAM_PROBE_BYTES};
    *out = (struct adapter_facts){0};
    TRY(https_client_open(&https, &options));
    enum status status = find_kind(https, probe, &out->kind);
    if (status == STATUS_OK)
        status = find_model(https, probe, out);
    if (status == STATUS_OK)
        status = find_more(https, probe, out);
    https_client_close(https);
    return status;
}
