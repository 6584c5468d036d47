#include "gateway/cli/cli_tenant.h"

#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_value.h"

enum { ROWS_DEFAULT = 1000, ROWS_MAX = LIMIT_TENANTS };

static const char PATH[] = "/admin/v1/tenants";

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
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

enum status cli_tenant_list(struct cli_call *call)
{
    return cli_resource_rows(call, PATH, ROWS_DEFAULT, ROWS_MAX, columns, COLUMNS);
}

/* The id of the tenant of that name; borrowed from the list. */
static const char *path_find(const json_t *list, const char *name)
{
    const json_t *rows = json_object_get(list, "data");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *its = json_string_value(json_object_get(row, "name"));
        const char *state = json_string_value(json_object_get(row, "state"));
        bool is_archived = state != NULL && strcmp(state, "archived") == 0;
        if (its != NULL && strcmp(its, name) == 0 && !is_archived)
            return json_string_value(json_object_get(row, "id"));
    }
    return NULL;
}

enum status cli_tenant_append_path(struct cli_call *call, const char *id_or_name,
                                   struct buffer *path)
{
    buffer_append_text(path, PATH);
    buffer_append_char(path, '/');
    if (strncmp(id_or_name, "tnt_", 4) == 0) {
        cli_api_append_segment(path, slice_of(id_or_name));
        return path->status;
    }
    json_t *list = NULL;
    TRY(cli_api_list(call->api, PATH, "asc", ROWS_MAX, &list));
    const char *id = path_find(list, id_or_name);
    enum status status = STATUS_OK;
    if (id == NULL)
        status = status_fail(STATUS_NOT_FOUND, __FILE__, __LINE__, NULL,
                             "there is no tenant of the name '%.128s': banyan admin tenant list",
                             id_or_name);
    else
        cli_api_append_segment(path, slice_of(id));
    json_decref(list);
    return status != STATUS_OK ? status : path->status;
}

static enum status tenant_ask(struct cli_call *call, const struct cli_api_request *request)
{
    struct cli_https_answer answer;
    json_t *tenant = NULL;
    cli_https_answer_init(&answer);
    enum status status = cli_api_ask_object(call->api, request, &answer, &tenant);
    if (status == STATUS_OK)
        status = cli_print_object(call, buffer_slice(&answer.body), tenant, columns, COLUMNS);
    json_decref(tenant);
    cli_https_answer_deinit(&answer);
    return status;
}

/* A call about the tenant that the argument names. */
static enum status tenant_ask_one(struct cli_call *call, const char *method, const json_t *body)
{
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = cli_tenant_append_path(call, call->argument, &path);
    if (status == STATUS_OK)
        status = tenant_ask(
            call, &(struct cli_api_request){.method = method,
                                            .path = path.bytes,
                                            .body = body,
                                            .revision = call->values[CLI_FLAG_IF_REVISION]});
    buffer_deinit(&path);
    return status;
}

enum status cli_tenant_show(struct cli_call *call)
{
    return tenant_ask_one(call, "GET", NULL);
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

/* What the flags say of a tenant, onto `body`; the server has the last word on numbers. */
static enum status body_fill(const struct cli_call *call, json_t *body)
{
    json_t *pairs = NULL;
    TRY(body_text(call, CLI_FLAG_NAME, "name", body));
    TRY(body_number(call, CLI_FLAG_WEIGHT, "--weight", "weight", body));
    TRY(body_text(call, CLI_FLAG_GROUP, "group", body));
    TRY(body_text(call, CLI_FLAG_SHARE, "share", body));
    TRY(body_number(call, CLI_FLAG_CACHE_SHARE, "--cache-share", "cache_share", body));
    TRY(body_text(call, CLI_FLAG_DEFAULT_CLASS, "default_class", body));
    TRY(body_text(call, CLI_FLAG_BEST_CLASS, "best_class", body));
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
    status =
        tenant_ask(call, &(struct cli_api_request){.method = "POST", .path = PATH, .body = body});
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
                 "say what to change: --name, --weight, --group, --share, --cache-share, "
                 "--default-class, --best-class or --meta");
    status = tenant_ask_one(call, "PATCH", body);
out:
    json_decref(body);
    return status;
}

static enum status change_state(struct cli_call *call, const char *state)
{
    json_t *body = json_pack("{s:s}", "state", state);
    enum status status = tenant_ask_one(call, "PATCH", body);
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
    return tenant_ask_one(call, "DELETE", NULL);
}
