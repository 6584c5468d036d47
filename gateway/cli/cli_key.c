#include "gateway/cli/cli_key.h"

#include "config/base/clock.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_text.h"
#include "gateway/cli/cli_value.h"

enum { LINE_BYTES_MAX = 1024 };

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"STATE", "state", CLI_PRINT_STATE, true},
    {"SCOPES", "scopes", CLI_PRINT_WORDS, false},
    {"CREATED", "created_at", CLI_PRINT_TIME, false},
    {"EXPIRES", "expires_at", CLI_PRINT_TIME, false},
    {"LAST USED", "last_used_at", CLI_PRINT_TIME, false},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* The admin keys, or the keys of --tenant. */
static enum status append_path(struct cli_call *call, struct buffer *path)
{
    if (strcmp(call->command->resource, "admin-key") == 0) {
        buffer_append_text(path, "/admin/v1/admin-keys");
    } else {
        if (call->values[CLI_FLAG_TENANT] == NULL)
            FAIL(STATUS_INVALID, "--tenant is missing: give the tenant whose keys are meant");
        TRY(cli_tenant_append_path(call, call->values[CLI_FLAG_TENANT], path));
        buffer_append_text(path, "/keys");
    }
    return path->status;
}

static const struct cli_resource key_resource = {.append_path = append_path,
                                                 .word = "key",
                                                 .id_prefix = "",
                                                 .most = LIMIT_KEYS,
                                                 .shown = 1000,
                                                 .columns = columns,
                                                 .column_count = COLUMNS,
                                                 .list_columns = COLUMNS};

enum status cli_key_list(struct cli_call *call)
{
    return cli_resource_list(call, &key_resource);
}

/* Prints a new key: its value alone to standard output, so that a shell can read it, and its id to
 * standard error. */
static enum status print_new(const struct cli_call *call, const json_t *key)
{
    const char *value = json_string_value(json_object_get(key, "key"));
    const char *id = json_string_value(json_object_get(key, "id"));
    if (value == NULL || id == NULL)
        FAIL(STATUS_PROTOCOL, "the server's answer holds no key");
    struct buffer line;
    buffer_init(&line, LINE_BYTES_MAX);
    cli_text_append(&line, slice_of(id));
    if (line.status == STATUS_OK)
        fprintf(call->options->err,
                "%s: its value is shown only this once; keep it where nobody else can read it\n",
                line.bytes);
    buffer_clear(&line);
    cli_text_append(&line, slice_of(value));
    enum status status = line.status;
    if (status == STATUS_OK)
        status = cli_print_raw(call, buffer_slice(&line));
    if (line.bytes != NULL)
        explicit_bzero(line.bytes, line.capacity);
    buffer_deinit(&line);
    return status;
}

static enum status print_key(const struct cli_call *call, struct slice bytes, const json_t *key)
{
    bool has_value = json_is_string(json_object_get(key, "key"));
    if (has_value && !cli_print_is_json(call))
        return print_new(call, key);
    if (has_value)
        fprintf(call->options->err, "the key's value is shown only this once\n");
    return cli_print_object(call, bytes, key, columns, COLUMNS);
}

static enum status key_ask(struct cli_call *call, const char *method, const char *verb,
                           const json_t *body)
{
    struct buffer path;
    struct https_client_answer answer;
    json_t *key = NULL;
    buffer_init(&path, LIMIT_PATH_BYTES);
    https_client_answer_init(&answer);
    enum status status = cli_resource_append_path(call, &key_resource, call->argument, &path);
    buffer_append_text(&path, verb);
    if (status == STATUS_OK)
        status = path.status;
    if (status == STATUS_OK) {
        struct cli_api_request request = {.method = method,
                                          .path = path.bytes,
                                          .body = body,
                                          .revision = call->values[CLI_FLAG_IF_REVISION]};
        status = cli_api_ask_object(call->api, &request, &answer, &key);
    }
    if (status == STATUS_OK)
        status = print_key(call, buffer_slice(&answer.body), key);
    json_decref(key);
    https_client_answer_deinit(&answer);
    buffer_deinit(&path);
    return status;
}

enum status cli_key_show(struct cli_call *call)
{
    return key_ask(call, "GET", "", NULL);
}

/* Adds the fields that the flags give to `body`. */
static enum status body_fill(const struct cli_call *call, json_t *body)
{
    const char *expires = call->values[CLI_FLAG_EXPIRES];
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    json_t *value = NULL;
    if (call->values[CLI_FLAG_NAME] != NULL &&
        json_object_set_new(body, "name", json_string(call->values[CLI_FLAG_NAME])) != 0)
        FAIL(STATUS_INVALID, "--name is not valid UTF-8");
    if (call->values[CLI_FLAG_SCOPES] != NULL) {
        TRY(cli_value_words("--scopes", call->values[CLI_FLAG_SCOPES], &value));
        json_object_set_new(body, "scopes", value);
    }
    if (expires != NULL) {
        TRY(cli_value_expiry("--expires", expires, now_s, &value));
        json_object_set_new(body, "expires_at", value);
    }
    return STATUS_OK;
}

enum status cli_key_create(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = body_fill(call, body);
    if (status == STATUS_OK)
        status = key_ask(call, "POST", "", body);
    json_decref(body);
    return status;
}

enum status cli_key_change(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    TRY_OUT(body_fill(call, body));
    if (json_object_size(body) == 0)
        FAIL_OUT(STATUS_INVALID, "say what to change: --name, --scopes or --expires");
    status = key_ask(call, "PATCH", "", body);
out:
    json_decref(body);
    return status;
}

enum status cli_key_rotate(struct cli_call *call)
{
    json_t *body = json_object();
    int64_t overlap_s = 0;
    enum status status = STATUS_OK;
    if (call->values[CLI_FLAG_OVERLAP] != NULL) {
        TRY_OUT(cli_value_duration("--overlap", call->values[CLI_FLAG_OVERLAP], &overlap_s));
        json_object_set_new(body, "overlap_s", json_integer(overlap_s));
    }
    status = key_ask(call, "POST", "/rotate", body);
out:
    json_decref(body);
    return status;
}

enum status cli_key_revoke(struct cli_call *call)
{
    return key_ask(call, "DELETE", "", NULL);
}
