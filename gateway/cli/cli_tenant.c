#include "gateway/cli/cli_tenant.h"

#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_value.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"STATE", "state", CLI_PRINT_TEXT, true},
    {"WEIGHT", "weight", CLI_PRINT_NUMBER, true},
    {"CLASS", "default_class", CLI_PRINT_TEXT, true},
    {"BEST", "best_class", CLI_PRINT_TEXT, true},
    {"GROUP", "group", CLI_PRINT_TEXT, false},
    {"SHARE", "share", CLI_PRINT_TEXT, true},
    {"CREATED", "created_at", CLI_PRINT_TIME, false},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
    {"MODELS", "models", CLI_PRINT_WORDS, false},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static const struct cli_resource tenant = {.path = "/admin/v1/tenants",
                                           .word = "tenant",
                                           .id_prefix = "tnt_",
                                           .most = LIMIT_TENANTS,
                                           .shown = 1000,
                                           .columns = columns,
                                           .column_count = COLUMNS,
                                           .list_columns = COLUMNS};

enum status cli_tenant_append_path(struct cli_call *call, const char *id_or_name,
                                   struct buffer *path)
{
    return cli_resource_append_path(call, &tenant, id_or_name, path);
}

enum status cli_tenant_list(struct cli_call *call)
{
    return cli_resource_list(call, &tenant);
}

enum status cli_tenant_show(struct cli_call *call)
{
    return cli_resource_ask(call, &tenant, "GET", call->argument, NULL);
}

static enum status body_text(const struct cli_call *call, enum cli_flag flag, const char *member,
                             json_t *body)
{
    const char *text = call->values[flag];
    if (text != NULL && json_object_set_new(body, member, json_string(text)) != 0)
        FAIL(STATUS_INVALID, "--%s is not valid UTF-8", member);
    return STATUS_OK;
}

static enum status body_number(const struct cli_call *call, enum cli_flag flag, const char *name,
                               const char *member, json_t *body)
{
    const char *text = call->values[flag];
    int64_t number = 0;
    if (text == NULL)
        return STATUS_OK;
    TRY(cli_value_number(name, text, 1, INT32_MAX, &number));
    json_object_set_new(body, member, json_integer(number));
    return STATUS_OK;
}

/* Adds the fields that the flags give to `body`. The server checks the ranges of numbers. */
static enum status body_fill(const struct cli_call *call, json_t *body)
{
    json_t *pairs = NULL;
    json_t *models = NULL;
    const char *names = call->values[CLI_FLAG_MODELS];
    TRY(body_text(call, CLI_FLAG_NAME, "name", body));
    TRY(body_number(call, CLI_FLAG_WEIGHT, "--weight", "weight", body));
    TRY(body_text(call, CLI_FLAG_GROUP, "group", body));
    TRY(body_text(call, CLI_FLAG_SHARE, "share", body));
    TRY(body_number(call, CLI_FLAG_CACHE_SHARE, "--cache-share", "cache_share", body));
    TRY(body_text(call, CLI_FLAG_DEFAULT_CLASS, "default_class", body));
    TRY(body_text(call, CLI_FLAG_BEST_CLASS, "best_class", body));
    if (names != NULL && names[0] != '\0')
        TRY(cli_value_words("--models", names, &models));
    if (names != NULL)
        json_object_set_new(body, "models", models != NULL ? models : json_array());
    if (call->metadata_count > 0) {
        TRY(cli_value_pairs("--meta", call->metadata, call->metadata_count, &pairs));
        json_object_set_new(body, "metadata", pairs);
    }
    return STATUS_OK;
}

enum status cli_tenant_create(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    if (json_object_set_new(body, "name", json_string(call->argument)) != 0)
        FAIL_OUT(STATUS_INVALID, "the name is not valid UTF-8");
    TRY_OUT(body_fill(call, body));
    status = cli_resource_ask(call, &tenant, "POST", NULL, body);
out:
    json_decref(body);
    return status;
}

enum status cli_tenant_change(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    TRY_OUT(body_fill(call, body));
    if (json_object_size(body) == 0)
        FAIL_OUT(STATUS_INVALID,
                 "nothing to change: give --name, --weight, --group, --share, --cache-share, "
                 "--default-class, --best-class, --models or --meta");
    status = cli_resource_ask(call, &tenant, "PATCH", call->argument, body);
out:
    json_decref(body);
    return status;
}

static enum status change_state(struct cli_call *call, const char *state)
{
    json_t *body = json_pack("{s:s}", "state", state);
    enum status status = cli_resource_ask(call, &tenant, "PATCH", call->argument, body);
    json_decref(body);
    return status;
}

enum status cli_tenant_suspend(struct cli_call *call)
{
    return change_state(call, "suspended");
}

enum status cli_tenant_resume(struct cli_call *call)
{
    return change_state(call, "active");
}

enum status cli_tenant_archive(struct cli_call *call)
{
    return cli_resource_ask(call, &tenant, "DELETE", call->argument, NULL);
}
