#include "gateway/cli/cli_resource.h"

#include "gateway/cli/cli_value.h"

static const char *path_find(const json_t *list, const char *name)
{
    const json_t *rows = json_object_get(list, "data");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *its = json_string_value(json_object_get(row, "name"));
        if (its != NULL && strcmp(its, name) == 0)
            return json_string_value(json_object_get(row, "id"));
    }
    return NULL;
}

static enum status path_append(struct cli_call *call, const struct cli_resource *resource,
                               const char *id_or_name, struct buffer *path)
{
    json_t *list = NULL;
    const char *id = id_or_name;
    buffer_append_text(path, resource->path);
    if (id == NULL)
        return path->status;
    if (strncmp(id, resource->id_prefix, strlen(resource->id_prefix)) != 0) {
        TRY(cli_api_list(call->api, resource->path, "asc", resource->most, &list));
        id = path_find(list, id_or_name);
    }
    buffer_append_char(path, '/');
    if (id != NULL)
        cli_api_append_segment(path, slice_of(id));
    json_decref(list);
    if (id == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no %s of the name '%.128s': banyan admin %s list",
             resource->word, id_or_name, resource->word);
    return path->status;
}

enum status cli_resource_ask(struct cli_call *call, const struct cli_resource *resource,
                             const char *method, const char *id_or_name, const json_t *body)
{
    struct buffer path;
    struct cli_https_answer answer;
    json_t *object = NULL;
    buffer_init(&path, LIMIT_PATH_BYTES);
    cli_https_answer_init(&answer);
    enum status status = path_append(call, resource, id_or_name, &path);
    const struct cli_api_request request = {.method = method,
                                            .path = path.bytes,
                                            .body = body,
                                            .revision = call->values[CLI_FLAG_IF_REVISION]};
    if (status == STATUS_OK)
        status = cli_api_ask_object(call->api, &request, &answer, &object);
    if (status == STATUS_OK)
        status = cli_print_object(call, buffer_slice(&answer.body), object, resource->columns,
                                  resource->column_count);
    json_decref(object);
    cli_https_answer_deinit(&answer);
    buffer_deinit(&path);
    return status;
}

enum status cli_resource_rows(struct cli_call *call, const char *path, int64_t shown, int64_t most,
                              const struct cli_print_column *columns, size_t column_count)
{
    json_t *list = NULL;
    if (call->values[CLI_FLAG_LIMIT] != NULL)
        TRY(cli_value_number("--limit", call->values[CLI_FLAG_LIMIT], 1, most, &shown));
    TRY(cli_api_list(call->api, path, "asc", (size_t)shown, &list));
    enum status status = cli_print_list(call, list, columns, column_count);
    json_decref(list);
    return status;
}

enum status cli_resource_list(struct cli_call *call, const struct cli_resource *resource)
{
    return cli_resource_rows(call, resource->path, (int64_t)resource->most, (int64_t)resource->most,
                             resource->columns, resource->list_columns);
}
