#include "gateway/cli/cli_prompt.h"

#include <errno.h>
#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/mem.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_value.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"STATE", "state", CLI_PRINT_TEXT, true},
    {"TOKENS", "tokens", CLI_PRINT_NUMBER, true},
    {"PAGES", "pages", CLI_PRINT_NUMBER, true},
    {"HITS", "hits", CLI_PRINT_NUMBER, true},
    {"EXPIRES", "pin_until", CLI_PRINT_TIME, false},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
    /* Shown for one prompt, not in the list. */
    {"HIT TOKENS", "hit_tokens", CLI_PRINT_NUMBER, true},
    {"TENANTS", "tenants", CLI_PRINT_WORDS, true},
    {"GROUPS", "groups", CLI_PRINT_WORDS, true},
    {"ERROR", "error", CLI_PRINT_TEXT, false},
};
enum { COLUMNS_LIST = 8, COLUMNS = sizeof columns / sizeof columns[0] };

static const struct cli_resource prompt = {.path = "/admin/v1/shared-prompts",
                                           .word = "prompt",
                                           .id_prefix = "spr_",
                                           .most = LIMIT_PROMPTS,
                                           .columns = columns,
                                           .column_count = COLUMNS,
                                           .list_columns = COLUMNS_LIST};

enum status cli_prompt_list(struct cli_call *call)
{
    return cli_resource_list(call, &prompt);
}

enum status cli_prompt_show(struct cli_call *call)
{
    return cli_resource_ask(call, &prompt, "GET", call->argument, NULL);
}

enum status cli_prompt_delete(struct cli_call *call)
{
    return cli_resource_ask(call, &prompt, "DELETE", call->argument, NULL);
}

/* --- body of a request --- */

static enum status file_read(const char *flag, const char *path, struct buffer *out)
{
    char piece[4096];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        FAIL(STATUS_INVALID, "%s %s: %s", flag, path, strerror(errno));
    size_t got;
    while (out->status == STATUS_OK && (got = fread(piece, 1, sizeof piece, file)) > 0)
        buffer_append(out, piece, got);
    bool is_bad = ferror(file) != 0;
    fclose(file);
    if (is_bad)
        FAIL(STATUS_INVALID, "%s %s cannot be read", flag, path);
    if (out->status != STATUS_OK)
        FAIL(STATUS_INVALID, "%s %s is longer than %d bytes", flag, path, LIMIT_ADMIN_BODY_BYTES);
    return STATUS_OK;
}

static enum status body_add_text(json_t *body, const char *path, struct buffer *bytes)
{
    TRY(file_read("--text", path, bytes));
    if (json_object_set_new(body, "text", json_stringn(bytes->bytes, bytes->length)) != 0)
        FAIL(STATUS_INVALID, "--text %s is not valid UTF-8", path);
    return STATUS_OK;
}

static enum status body_add_messages(json_t *body, const char *path, struct buffer *bytes)
{
    json_error_t error;
    TRY(file_read("--messages", path, bytes));
    json_t *messages = json_loadb(bytes->bytes, bytes->length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_array(messages)) {
        json_decref(messages);
        FAIL(STATUS_INVALID,
             "--messages %s is no JSON list of messages: [{\"role\":\"system\",\"content\":\"…\"}]",
             path);
    }
    json_object_set_new(body, "messages", messages);
    return STATUS_OK;
}

/* Appends the id of the tenant with this id or name to `list`. */
static enum status tenants_add(struct cli_call *call, const char *id_or_name, json_t *list)
{
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = cli_tenant_append_path(call, id_or_name, &path);
    if (status == STATUS_OK)
        json_array_append_new(list, json_string(strrchr(path.bytes, '/') + 1));
    buffer_deinit(&path);
    return status;
}

/* `*out` is the list that --tenants or --groups gives, with ids in place of tenants' names; NULL
 * when the flag is not given. */
static enum status names_read(struct cli_call *call, bool are_tenants, json_t **out)
{
    const char *flag = are_tenants ? "--tenants" : "--groups";
    const char *text = call->values[are_tenants ? CLI_FLAG_TENANTS : CLI_FLAG_GROUPS];
    json_t *words = NULL;
    *out = NULL;
    if (text == NULL)
        return STATUS_OK;
    TRY(cli_value_words(flag, text, &words));
    if (!are_tenants) {
        *out = words;
        return STATUS_OK;
    }
    json_t *ids = json_array();
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(words) && status == STATUS_OK; i++)
        status = tenants_add(call, json_string_value(json_array_get(words, i)), ids);
    json_decref(words);
    if (status == STATUS_OK)
        *out = ids;
    else
        json_decref(ids);
    return status;
}

static enum status body_add_until(const struct cli_call *call, json_t *body)
{
    const char *until = call->values[CLI_FLAG_UNTIL];
    json_t *time = NULL;
    if (until == NULL)
        return STATUS_OK;
    TRY(cli_value_expiry("--until", until, clock_wall_us(clock_system()) / 1000000, &time));
    json_object_set_new(body, "pin_until", time);
    return STATUS_OK;
}

static enum status body_add_names(struct cli_call *call, json_t *body)
{
    json_t *list = NULL;
    TRY(names_read(call, true, &list));
    if (list != NULL)
        json_object_set_new(body, "tenants", list);
    TRY(names_read(call, false, &list));
    if (list != NULL)
        json_object_set_new(body, "groups", list);
    return STATUS_OK;
}

enum status cli_prompt_create(struct cli_call *call)
{
    const char *text = call->values[CLI_FLAG_TEXT];
    const char *messages = call->values[CLI_FLAG_MESSAGES];
    json_t *body = json_object();
    struct buffer bytes;
    enum status status = STATUS_OK;
    buffer_init(&bytes, LIMIT_ADMIN_BODY_BYTES);
    if ((text == NULL) == (messages == NULL))
        FAIL_OUT(STATUS_INVALID, "give the prompt with either --messages FILE or --text FILE");
    if (json_object_set_new(body, "name", json_string(call->argument)) != 0)
        FAIL_OUT(STATUS_INVALID, "the name is not valid UTF-8");
    TRY_OUT(text != NULL ? body_add_text(body, text, &bytes)
                         : body_add_messages(body, messages, &bytes));
    TRY_OUT(body_add_until(call, body));
    TRY_OUT(body_add_names(call, body));
    status = cli_resource_ask(call, &prompt, "POST", NULL, body);
out:
    buffer_deinit(&bytes);
    json_decref(body);
    return status;
}

enum status cli_prompt_change(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    if (call->values[CLI_FLAG_NAME] != NULL &&
        json_object_set_new(body, "name", json_string(call->values[CLI_FLAG_NAME])) != 0)
        FAIL_OUT(STATUS_INVALID, "--name is not valid UTF-8");
    TRY_OUT(body_add_until(call, body));
    if (json_object_size(body) == 0)
        FAIL_OUT(STATUS_INVALID, "nothing to change: give --name or --until");
    status = cli_resource_ask(call, &prompt, "PATCH", call->argument, body);
out:
    json_decref(body);
    return status;
}

/* --- grants --- */

static void grants_remove(json_t *list, const json_t *name)
{
    for (size_t i = json_array_size(list); i > 0; i--) {
        if (json_equal(json_array_get(list, i - 1), name))
            json_array_remove(list, i - 1);
    }
}

/* Sets the new list of tenants or groups in `body`: that of `granted`, with the names of the flag
 * added or removed. */
static enum status grants_edit(struct cli_call *call, const json_t *granted, bool are_tenants,
                               bool is_grant, json_t *body)
{
    const char *member = are_tenants ? "tenants" : "groups";
    json_t *names = NULL;
    TRY(names_read(call, are_tenants, &names));
    if (names == NULL)
        return STATUS_OK;
    json_t *list = json_copy(json_object_get(granted, member));
    if (list == NULL)
        list = json_array();
    for (size_t i = 0; i < json_array_size(names); i++) {
        grants_remove(list, json_array_get(names, i));
        if (is_grant)
            json_array_append(list, json_array_get(names, i));
    }
    json_decref(names);
    json_object_set_new(body, member, list);
    return STATUS_OK;
}

/* Sends the new lists with the revision that was read, so that two admins who grant at the same
 * time do not undo each other's changes. */
static enum status grants_send(struct cli_call *call, const char *path, const json_t *granted,
                               bool is_grant)
{
    char revision[24];
    const char *wanted = call->values[CLI_FLAG_IF_REVISION];
    json_t *body = json_object();
    enum status status = STATUS_OK;
    snprintf(revision, sizeof revision, "%lld",
             (long long)json_integer_value(json_object_get(granted, "revision")));
    TRY_OUT(grants_edit(call, granted, true, is_grant, body));
    TRY_OUT(grants_edit(call, granted, false, is_grant, body));
    status =
        cli_resource_send(call,
                          &(struct cli_api_request){.method = "PATCH",
                                                    .path = path,
                                                    .body = body,
                                                    .revision = wanted != NULL ? wanted : revision},
                          columns, COLUMNS);
out:
    json_decref(body);
    return status;
}

static enum status grants_change(struct cli_call *call, bool is_grant)
{
    struct https_client_answer answer;
    json_t *granted = NULL;
    struct buffer path;
    if (call->values[CLI_FLAG_TENANTS] == NULL && call->values[CLI_FLAG_GROUPS] == NULL)
        FAIL(STATUS_INVALID, "give --tenants, --groups or both");
    buffer_init(&path, LIMIT_PATH_BYTES);
    https_client_answer_init(&answer);
    enum status status = cli_resource_append_path(call, &prompt, call->argument, &path);
    if (status == STATUS_OK)
        status = cli_api_ask_object(call->api,
                                    &(struct cli_api_request){.method = "GET", .path = path.bytes},
                                    &answer, &granted);
    if (status == STATUS_OK)
        status = grants_send(call, path.bytes, granted, is_grant);
    json_decref(granted);
    https_client_answer_deinit(&answer);
    buffer_deinit(&path);
    return status;
}

enum status cli_prompt_grant(struct cli_call *call)
{
    return grants_change(call, true);
}

enum status cli_prompt_revoke(struct cli_call *call)
{
    return grants_change(call, false);
}
