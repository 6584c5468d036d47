#include "gateway/cli/cli_limits.h"

#include <assert.h>
#include <stdio.h>

#include "auth/limits/quota_limits.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_value.h"

#define QUOTA_LIMIT(NAME, name, ...) {#name, #name, CLI_PRINT_TEXT, true},
#define LIMIT_COLUMNS                                                                              \
    {"cached_input_percent", "cached_input_percent", CLI_PRINT_TEXT, true},                        \
        {"on_limit", "on_limit", CLI_PRINT_TEXT, true},                                            \
        {"weight", "weight", CLI_PRINT_TEXT, true},                                                \
        {"default_class", "default_class", CLI_PRINT_TEXT, true},                                  \
        {"best_class", "best_class", CLI_PRINT_TEXT, true},                                        \
    {                                                                                              \
        "REVISION", "revision", CLI_PRINT_NUMBER, true                                             \
    }
static const struct cli_print_column limit_columns[] = {
    {"TENANT", "tenant_id", CLI_PRINT_TEXT, true},
    {"PLAN", "plan", CLI_PRINT_TEXT, true},
#include "auth/limits/quota_limits.def"
    LIMIT_COLUMNS,
};
static const struct cli_print_column key_columns[] = {
    {"TENANT", "tenant_id", CLI_PRINT_TEXT, true},
    {"KEY", "key_id", CLI_PRINT_TEXT, true},
#include "auth/limits/quota_limits.def"
    LIMIT_COLUMNS,
};
static const struct cli_print_column plan_columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"TENANTS", "tenants", CLI_PRINT_NUMBER, true},
    {"CREATED", "created_at", CLI_PRINT_TIME, false},
#include "auth/limits/quota_limits.def"
    LIMIT_COLUMNS,
};
#undef QUOTA_LIMIT
enum {
    COLUMNS_LIMITS = sizeof limit_columns / sizeof limit_columns[0],
    COLUMNS_PLAN = sizeof plan_columns / sizeof plan_columns[0],
    COLUMNS_LIST = 4,
};

static const struct cli_resource plan = {.path = "/admin/v1/plans",
                                         .word = "plan",
                                         .id_prefix = "pln_",
                                         .most = LIMIT_PLANS,
                                         .columns = plan_columns,
                                         .column_count = COLUMNS_PLAN,
                                         .list_columns = COLUMNS_LIST};

/* --- body of a request --- */

/* The JSON value of "60", "60:shadow" or "none"; for on_limit the value is a word. */
static enum status limits_value(const char *name, char *text, json_t **out)
{
    int64_t number = 0;
    char *mode = strchr(text, ':');
    if (strcmp(text, "none") == 0) {
        *out = json_null();
        return STATUS_OK;
    }
    if (strcmp(name, "on_limit") == 0) {
        *out = json_string(text);
        return STATUS_OK;
    }
    if (mode != NULL)
        *mode++ = '\0';
    TRY(cli_value_number(name, text, 0, LIMIT_QUOTA_BUDGET, &number));
    *out = mode == NULL ? json_integer(number)
                        : json_pack("{s:I,s:s}", "limit", (json_int_t)number, "mode", mode);
    return STATUS_OK;
}

static enum status limits_one(const char *word, json_t *body)
{
    char text[LIMIT_NAME_BYTES];
    json_t *value = NULL;
    snprintf(text, sizeof text, "%s", word);
    char *equals = strchr(text, '=');
    if (equals == NULL || strlen(word) >= sizeof text)
        FAIL(STATUS_INVALID,
             "--limits needs NAME=NUMBER, NAME=NUMBER:shadow or NAME=none, not '%.64s'", word);
    *equals = '\0';
    TRY(limits_value(text, equals + 1, &value));
    if (json_object_set_new(body, text, value) != 0)
        FAIL(STATUS_INVALID, "--limits is not valid UTF-8");
    return STATUS_OK;
}

/* Adds weight and classes to `body`; "none" removes the tenant's or plan's own value. */
static enum status class_add(const struct cli_call *call, json_t *body)
{
    static const struct {
        enum cli_flag flag;
        const char *member;
    } classes[] = {{CLI_FLAG_DEFAULT_CLASS, "default_class"}, {CLI_FLAG_BEST_CLASS, "best_class"}};
    const char *weight = call->values[CLI_FLAG_WEIGHT];
    int64_t number = 0;
    if (weight != NULL && strcmp(weight, "none") != 0)
        TRY(cli_value_number("--weight", weight, 1, LIMIT_WEIGHT, &number));
    if (weight != NULL)
        json_object_set_new(body, "weight", number > 0 ? json_integer(number) : json_null());
    for (int i = 0; i < 2; i++) {
        const char *word = call->values[classes[i].flag];
        if (word != NULL &&
            json_object_set_new(body, classes[i].member,
                                strcmp(word, "none") == 0 ? json_null() : json_string(word)) != 0)
            FAIL(STATUS_INVALID, "a class is not valid UTF-8");
    }
    return STATUS_OK;
}

static bool class_is_given(const struct cli_call *call)
{
    return call->values[CLI_FLAG_WEIGHT] != NULL || call->values[CLI_FLAG_DEFAULT_CLASS] != NULL ||
           call->values[CLI_FLAG_BEST_CLASS] != NULL;
}

/* Adds everything that the flags give. The server checks the names of limits. */
static enum status limits_add(const struct cli_call *call, json_t *body)
{
    json_t *words = NULL;
    enum status status = STATUS_OK;
    TRY(class_add(call, body));
    if (call->values[CLI_FLAG_LIMITS] == NULL)
        return STATUS_OK;
    TRY(cli_value_words("--limits", call->values[CLI_FLAG_LIMITS], &words));
    for (size_t i = 0; i < json_array_size(words) && status == STATUS_OK; i++)
        status = limits_one(json_string_value(json_array_get(words, i)), body);
    json_decref(words);
    return status;
}

/* --- plans --- */

enum status cli_limits_plan_id(struct cli_call *call, const char *id_or_name, json_t **out)
{
    return cli_resource_id(call, &plan, id_or_name, out);
}

enum status cli_limits_plan_list(struct cli_call *call)
{
    return cli_resource_list(call, &plan);
}

enum status cli_limits_plan_show(struct cli_call *call)
{
    return cli_resource_ask(call, &plan, "GET", call->argument, NULL);
}

enum status cli_limits_plan_delete(struct cli_call *call)
{
    return cli_resource_ask(call, &plan, "DELETE", call->argument, NULL);
}

static enum status plan_send(struct cli_call *call, const char *name, bool is_new)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    if (name != NULL && json_object_set_new(body, "name", json_string(name)) != 0)
        FAIL_OUT(STATUS_INVALID, "the name is not valid UTF-8");
    TRY_OUT(limits_add(call, body));
    if (json_object_size(body) == 0)
        FAIL_OUT(STATUS_INVALID, "nothing to change: give --name, --limits, --default-class, "
                                 "--best-class or --weight");
    status = is_new ? cli_resource_ask(call, &plan, "POST", NULL, body)
                    : cli_resource_ask(call, &plan, "PATCH", call->argument, body);
out:
    json_decref(body);
    return status;
}

enum status cli_limits_plan_create(struct cli_call *call)
{
    return plan_send(call, call->argument, true);
}

enum status cli_limits_plan_change(struct cli_call *call)
{
    return plan_send(call, call->values[CLI_FLAG_NAME], false);
}

/* --- limits of a tenant or of a key --- */

static const struct cli_print_column *limits_columns(const struct cli_call *call)
{
    static_assert(sizeof key_columns == sizeof limit_columns, "both have COLUMNS_LIMITS columns");
    return call->values[CLI_FLAG_KEY] != NULL ? key_columns : limit_columns;
}

static enum status limits_path(struct cli_call *call, struct buffer *path)
{
    TRY(cli_tenant_append_path(call, call->argument, path));
    if (call->values[CLI_FLAG_KEY] != NULL) {
        buffer_append_text(path, "/keys/");
        cli_api_append_segment(path, slice_of(call->values[CLI_FLAG_KEY]));
    }
    buffer_append_text(path, "/limits");
    return path->status;
}

enum status cli_limits_show(struct cli_call *call)
{
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = limits_path(call, &path);
    if (status == STATUS_OK)
        status =
            cli_resource_send(call, &(struct cli_api_request){.method = "GET", .path = path.bytes},
                              limits_columns(call), COLUMNS_LIMITS);
    buffer_deinit(&path);
    return status;
}

/* The members of a GET's answer that a PUT accepts. */
static json_t *set_members(const json_t *limits)
{
    static const char *const others[] = {"object", "tenant_id", "key_id", "revision", "effective"};
    json_t *body = json_copy((json_t *)limits);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        json_object_del(body, others[i]);
    return body;
}

/* Sends the changed limits with the revision that was read, so that two admins who change them at
 * the same time do not undo each other's changes. */
static enum status set_send(struct cli_call *call, const char *path, const json_t *limits)
{
    char revision[24];
    const char *name = call->values[CLI_FLAG_PLAN];
    const char *wanted = call->values[CLI_FLAG_IF_REVISION];
    json_int_t read = json_integer_value(json_object_get(limits, "revision"));
    json_t *body = set_members(limits);
    json_t *id = NULL;
    enum status status = STATUS_OK;
    snprintf(revision, sizeof revision, "%lld", (long long)read);
    TRY_OUT(limits_add(call, body));
    if (name != NULL && name[0] != '\0')
        TRY_OUT(cli_limits_plan_id(call, name, &id));
    if (name != NULL)
        json_object_set_new(body, "plan", id != NULL ? json_incref(id) : json_null());
    struct cli_api_request request = {.method = "PUT", .path = path, .body = body};
    request.revision = wanted != NULL ? wanted : read > 0 ? revision : NULL;
    status = cli_resource_send(call, &request, limits_columns(call), COLUMNS_LIMITS);
out:
    json_decref(id);
    json_decref(body);
    return status;
}

enum status cli_limits_set(struct cli_call *call)
{
    struct https_client_answer answer;
    json_t *limits = NULL;
    struct buffer path;
    if (call->values[CLI_FLAG_LIMITS] == NULL && call->values[CLI_FLAG_PLAN] == NULL &&
        !class_is_given(call))
        FAIL(STATUS_INVALID, "nothing to set: give --limits, --plan, --default-class, "
                             "--best-class or --weight");
    if (call->values[CLI_FLAG_KEY] != NULL &&
        (call->values[CLI_FLAG_PLAN] != NULL || call->values[CLI_FLAG_WEIGHT] != NULL))
        FAIL(STATUS_INVALID, "a key has limits and classes only: --plan and --weight are for its "
                             "tenant");
    buffer_init(&path, LIMIT_PATH_BYTES);
    https_client_answer_init(&answer);
    enum status status = limits_path(call, &path);
    if (status == STATUS_OK)
        status = cli_api_ask_object(call->api,
                                    &(struct cli_api_request){.method = "GET", .path = path.bytes},
                                    &answer, &limits);
    if (status == STATUS_OK)
        status = set_send(call, path.bytes, limits);
    json_decref(limits);
    https_client_answer_deinit(&answer);
    buffer_deinit(&path);
    return status;
}
