#include "gateway/cli/cli_resource.h"

#include "gateway/cli/cli_value.h"

/* The id of the row with this name, borrowed from the list; archived rows have lost their names. */
static const char *find_name(const json_t *list, const char *name)
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

enum status cli_resource_id(struct cli_call *call, const struct cli_resource *resource,
                            const char *id_or_name, json_t **out)
{
    json_t *list = NULL;
    const char *id = id_or_name;
    *out = NULL;
    if (strncmp(id, resource->id_prefix, strlen(resource->id_prefix)) != 0) {
        TRY(cli_api_list(call->api, resource->path, "asc", resource->most, &list));
        id = find_name(list, id_or_name);
    }
    if (id != NULL)
        *out = json_string(id);
    json_decref(list);
    if (*out == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no %s named '%.128s'; see banyan admin %s list",
             resource->word, id_or_name, resource->word);
    return STATUS_OK;
}

enum status cli_resource_append_path(struct cli_call *call, const struct cli_resource *resource,
                                     const char *id_or_name, struct buffer *path)
{
    json_t *id = NULL;
    if (resource->append_path != NULL)
        TRY(resource->append_path(call, path));
    else
        buffer_append_text(path, resource->path);
    if (id_or_name == NULL)
        return path->status;
    TRY(cli_resource_id(call, resource, id_or_name, &id));
    buffer_append_char(path, '/');
    cli_api_append_segment(path, slice_of(json_string_value(id)));
    json_decref(id);
    return path->status;
}

enum status cli_resource_send(struct cli_call *call, const struct cli_api_request *request,
                              const struct cli_print_column *columns, size_t column_count)
{
    struct https_client_answer answer;
    json_t *object = NULL;
    https_client_answer_init(&answer);
    enum status status = cli_api_ask_object(call->api, request, &answer, &object);
    if (status == STATUS_OK)
        status = cli_print_object(call, buffer_slice(&answer.body), object, columns, column_count);
    json_decref(object);
    https_client_answer_deinit(&answer);
    return status;
}

enum status cli_resource_ask(struct cli_call *call, const struct cli_resource *resource,
                             const char *method, const char *id_or_name, const json_t *body)
{
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = cli_resource_append_path(call, resource, id_or_name, &path);
    const struct cli_api_request request = {.method = method,
                                            .path = path.bytes,
                                            .body = body,
                                            .revision = call->values[CLI_FLAG_IF_REVISION]};
    if (status == STATUS_OK)
        status = cli_resource_send(call, &request, resource->columns, resource->column_count);
    buffer_deinit(&path);
    return status;
}

/* Reads --limit before anything is asked of the server. */
static enum status list_limit(const struct cli_call *call, const struct cli_resource *resource,
                              int64_t *rows)
{
    const char *limit = call->values[CLI_FLAG_LIMIT];
    *rows = (int64_t)(resource->shown != 0 ? resource->shown : resource->most);
    return limit != NULL ? cli_value_number("--limit", limit, 1, (int64_t)resource->most, rows)
                         : STATUS_OK;
}

enum status cli_resource_list(struct cli_call *call, const struct cli_resource *resource)
{
    int64_t rows = 0;
    json_t *list = NULL;
    const char *order = resource->list_order != NULL ? resource->list_order : "asc";
    TRY(list_limit(call, resource, &rows));
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = cli_resource_append_path(call, resource, NULL, &path);
    if (status == STATUS_OK)
        status = cli_api_list(call->api, path.bytes, order, (size_t)rows, &list);
    if (status == STATUS_OK)
        status = cli_print_list(call, list, resource->columns, resource->list_columns);
    json_decref(list);
    buffer_deinit(&path);
    return status;
}
