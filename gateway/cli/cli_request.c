#include "gateway/cli/cli_request.h"

#include "gateway/cli/cli_resource.h"

/* A page by default: the rows are those of one moment then. */
enum { ROWS_DEFAULT = 100, ROWS_MAX = 100000 };

static const char PATH[] = "/admin/v1/requests";

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"TENANT", "tenant_name", CLI_PRINT_TEXT, false},
    {"CLASS", "class", CLI_PRINT_TEXT, true},
    {"STATE", "state", CLI_PRINT_TEXT, true},
    {"PLACE", "explain.position", CLI_PRINT_NUMBER, true},
    {"EST MS", "explain.estimate_ms", CLI_PRINT_NUMBER, true},
    {"PROMPT", "prompt_tokens", CLI_PRINT_NUMBER, true},
    {"CACHED", "cached_tokens", CLI_PRINT_NUMBER, true},
    {"TOKENS", "completion_tokens", CLI_PRINT_NUMBER, true},
    {"AGE MS", "age_ms", CLI_PRINT_NUMBER, true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

enum status cli_request_list(struct cli_call *call)
{
    return cli_resource_rows(call, PATH, ROWS_DEFAULT, ROWS_MAX, columns, COLUMNS);
}

enum status cli_request_cancel(struct cli_call *call)
{
    struct cli_https_answer answer;
    struct buffer path;
    json_t *request = NULL;
    cli_https_answer_init(&answer);
    buffer_init(&path, LIMIT_PATH_BYTES);
    buffer_append_text(&path, PATH);
    buffer_append_char(&path, '/');
    cli_api_append_segment(&path, slice_of(call->argument));
    enum status status = path.status;
    if (status == STATUS_OK)
        status = cli_api_ask_object(
            call->api, &(struct cli_api_request){.method = "DELETE", .path = path.bytes}, &answer,
            &request);
    if (status == STATUS_OK)
        status = cli_print_object(call, buffer_slice(&answer.body), request, columns, COLUMNS);
    json_decref(request);
    buffer_deinit(&path);
    cli_https_answer_deinit(&answer);
    return status;
}
