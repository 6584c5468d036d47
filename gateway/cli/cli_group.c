#include "gateway/cli/cli_group.h"

#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_value.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"TENANTS", "tenants", CLI_PRINT_NUMBER, true},
    {"PROMPTS", "shared_prompts", CLI_PRINT_NUMBER, true},
    {"CREATED", "created_at", CLI_PRINT_TIME, false},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
    {"MEMBERS", "members", CLI_PRINT_WORDS, true},
};

static const struct cli_resource group = {.path = "/admin/v1/groups",
                                          .word = "group",
                                          .id_prefix = "grp_",
                                          .most = LIMIT_GROUPS,
                                          .columns = columns,
                                          .column_count = sizeof columns / sizeof columns[0],
                                          .list_columns = 5};

enum status cli_group_list(struct cli_call *call)
{
    return cli_resource_list(call, &group);
}

enum status cli_group_show(struct cli_call *call)
{
    return cli_resource_ask(call, &group, "GET", call->argument, NULL);
}

enum status cli_group_delete(struct cli_call *call)
{
    return cli_resource_ask(call, &group, "DELETE", call->argument, NULL);
}

static enum status body_metadata(const struct cli_call *call, json_t *body)
{
    json_t *pairs = NULL;
    if (call->metadata_count == 0)
        return STATUS_OK;
    TRY(cli_value_pairs("--meta", call->metadata, call->metadata_count, &pairs));
    json_object_set_new(body, "metadata", pairs);
    return STATUS_OK;
}

enum status cli_group_create(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    if (json_object_set_new(body, "name", json_string(call->argument)) != 0)
        FAIL_OUT(STATUS_INVALID, "the name is not valid UTF-8");
    TRY_OUT(body_metadata(call, body));
    status = cli_resource_ask(call, &group, "POST", NULL, body);
out:
    json_decref(body);
    return status;
}

enum status cli_group_change(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = body_metadata(call, body);
    if (status == STATUS_OK && json_object_size(body) == 0)
        status =
            status_fail(STATUS_INVALID, __FILE__, __LINE__, NULL, "say what to change: --meta");
    if (status == STATUS_OK)
        status = cli_resource_ask(call, &group, "PATCH", call->argument, body);
    json_decref(body);
    return status;
}
