#include "gateway/cli/cli_request.h"

#include "gateway/cli/cli_resource.h"

/* By default one page is shown: its rows are of one moment. */
enum { ROWS_SHOWN = 100, ROWS_MAX = 100000 };

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

static const struct cli_resource request = {.path = "/admin/v1/requests",
                                            .word = "request",
                                            .id_prefix = "",
                                            .most = ROWS_MAX,
                                            .shown = ROWS_SHOWN,
                                            .columns = columns,
                                            .column_count = COLUMNS,
                                            .list_columns = COLUMNS};

enum status cli_request_list(struct cli_call *call)
{
    return cli_resource_list(call, &request);
}

enum status cli_request_cancel(struct cli_call *call)
{
    return cli_resource_ask(call, &request, "DELETE", call->argument, NULL);
}
