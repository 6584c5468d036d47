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

/* The model that the caller knows, if the server still has it; else the server's first. Some
 * servers list several, and the last that was used or loaded comes first. */
static const json_t *find_listed(const struct adapter_probe *probe, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "data");
    for (size_t i = 0; probe->model != NULL && i < json_array_size(list); i++) {
        const json_t *model = json_array_get(list, i);
        const char *id = json_string_value(json_object_get(model, "id"));
        if (id != NULL && strcmp(id, probe->model) == 0)
            return model;
    }
    return json_array_get(list, 0);
}

/* Reads the name, the owner and the context of the server's model. */
static enum status read_model(const struct adapter_probe *probe, const json_t *answer, int code,
                              struct adapter_facts *out, char owner[LIMIT_NAME_BYTES])
{
    const json_t *model = find_listed(probe, answer);
    const json_t *id = json_object_get(model, "id");
    const char *owned_by = json_string_value(json_object_get(model, "owned_by"));
    const size_t length = json_string_length(id);
    if (code == 401 || code == 403)
        FAIL(STATUS_UNAVAILABLE,
             "the server at %s wants another API key: give it with --upstream-key-file",
             probe->origin);
    if (code != 200)
        FAIL(STATUS_UNAVAILABLE, "the server at %s answers /v1/models with HTTP %d", probe->origin,
             code);
    if (!json_is_string(id) || length == 0 || length >= sizeof out->model ||
        strlen(json_string_value(id)) != length)
        FAIL(STATUS_PROTOCOL, "the server at %s does not say the name of its model", probe->origin);
    memcpy(out->model, json_string_value(id), length + 1);
    snprintf(owner, LIMIT_NAME_BYTES, "%s", owned_by != NULL ? owned_by : "");
    out->context = adapter_kind_number(model, "max_model_len");
    if (out->context == 0)
        out->context = adapter_kind_number(json_object_get(model, "meta"), "n_ctx");
    return STATUS_OK;
}

static enum status find_model(struct https_client *https, const struct adapter_probe *probe,
                              struct adapter_facts *out, char owner[LIMIT_NAME_BYTES])
{
    json_t *answer = NULL;
    int code = 0;
    TRY(ask(https, probe, "/v1/models", &answer, &code));
    enum status status = read_model(probe, answer, code, out, owner);
    json_decref(answer);
    return status;
}

/* Asks the path of a kind. `*is_this` is set when it answers as the kind does, and then the kind's
 * facts are read. */
static enum status try_kind(struct https_client *https, const struct adapter_probe *probe,
                            const struct adapter_kind *kind, struct adapter_facts *out,
                            bool *is_this)
{
    json_t *answer = NULL;
    int code = 0;
    TRY(ask(https, probe, kind->path, &answer, &code));
    *is_this = answer != NULL;
    if (answer != NULL && kind->facts != NULL)
        kind->facts(answer, out);
    json_decref(answer);
    return STATUS_OK;
}

static enum status find_given(struct https_client *https, const struct adapter_probe *probe,
                              struct adapter_facts *out)
{
    bool is_this = false;
    out->kind = adapter_kind_named(probe->kind);
    if (out->kind == NULL)
        FAIL(STATUS_INVALID, "--upstream-kind %s is not known: auto, %s", probe->kind,
             adapter_kind_names());
    if (out->kind->facts == NULL)
        return STATUS_OK;
    return try_kind(https, probe, out->kind, out, &is_this);
}

/* Other servers answer the path of vLLM too, and ignore a salt. So a kind that has an owner is
 * asked for only where the server's models have that owner. */
static enum status find_kind(struct https_client *https, const struct adapter_probe *probe,
                             const char *owner, struct adapter_facts *out)
{
    bool is_this = false;
    if (strcmp(probe->kind, "auto") != 0)
        return find_given(https, probe, out);
    for (size_t i = 0; adapter_kind_at(i) != NULL && !is_this; i++) {
        const struct adapter_kind *kind = adapter_kind_at(i);
        if (kind->owner != NULL && strcmp(kind->owner, owner) != 0)
            continue;
        out->kind = kind;
        if (kind->path[0] == '\0')
            return STATUS_OK;
        TRY(try_kind(https, probe, kind, out, &is_this));
    }
    return STATUS_OK;
}

enum status adapter_probe_run(const struct adapter_probe *probe, struct adapter_facts *out)
{
    struct https_client *https = NULL;
    char owner[LIMIT_NAME_BYTES];
    const struct https_client_options options = {.url = probe->origin,
                                                 .timeout_ms = probe->timeout_ms,
                                                 .is_over = probe->is_over,
                                                 .may_be_plain = true,
                                                 .address = probe->address,
                                                 .answer_bytes = LIMIT_UPSTREAM_PROBE_BYTES};
    *out = (struct adapter_facts){0};
    TRY(https_client_open(&https, &options));
    enum status status = find_model(https, probe, out, owner);
    if (status == STATUS_OK)
        status = find_kind(https, probe, owner, out);
    https_client_close(https);
    return status;
}
