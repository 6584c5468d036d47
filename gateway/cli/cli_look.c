#include "gateway/cli/cli_look.h"

#include "gateway/cli/cli_print.h"
#include "gateway/cli/cli_text.h"
#include "gateway/cli/cli_value.h"

enum { AUDIT_ROWS_DEFAULT = 50, AUDIT_ROWS_MAX = 1000000 };

enum status cli_look_audit(struct cli_call *call)
{
    static const struct cli_print_column columns[] = {
        {"WHEN", "effective_at", CLI_PRINT_TIME, true}, {"WHAT", "type", CLI_PRINT_TEXT, true},
        {"SUBJECT", "subject", CLI_PRINT_TEXT, true},   {"BY", "actor.id", CLI_PRINT_TEXT, true},
        {"FROM", "actor.peer", CLI_PRINT_TEXT, false},  {"DETAIL", "detail", CLI_PRINT_TEXT, false},
    };
    int64_t rows = AUDIT_ROWS_DEFAULT;
    json_t *list = NULL;
    if (call->values[CLI_FLAG_LIMIT] != NULL)
        TRY(cli_value_number("--limit", call->values[CLI_FLAG_LIMIT], 1, AUDIT_ROWS_MAX, &rows));
    TRY(cli_api_list(call->api, "/admin/v1/audit", "desc", (size_t)rows, &list));
    enum status status = cli_print_list(call, list, columns, sizeof columns / sizeof columns[0]);
    json_decref(list);
    return status;
}

/* {"options":{NAME:VALUE}} → a list of {"name","value"}, which prints as a table. */
static json_t *config_rows(const json_t *config)
{
    json_t *list = json_pack("{s:[]}", "data");
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(config, "options"), name, value)
    {
        json_array_append_new(json_object_get(list, "data"),
                              json_pack("{s:s,s:O}", "name", name, "value", value));
    }
    return list;
}

enum status cli_look_config(struct cli_call *call)
{
    static const struct cli_print_column columns[] = {{"OPTION", "name", CLI_PRINT_TEXT, true},
                                                      {"VALUE", "value", CLI_PRINT_TEXT, false}};
    struct cli_api_request request = {.method = "GET", .path = "/admin/v1/config"};
    struct cli_https_answer answer;
    json_t *config = NULL;
    cli_https_answer_init(&answer);
    enum status status = cli_api_ask_object(call->api, &request, &answer, &config);
    if (status == STATUS_OK && cli_print_is_json(call)) {
        status = cli_print_raw(call, buffer_slice(&answer.body));
    } else if (status == STATUS_OK) {
        json_t *list = config_rows(config);
        status = cli_print_list(call, list, columns, 2);
        json_decref(list);
    }
    json_decref(config);
    cli_https_answer_deinit(&answer);
    return status;
}

/* Line by line, so that what is no text does not reach the terminal; --json makes no difference. */
enum status cli_look_metrics(struct cli_call *call)
{
    struct cli_api_request request = {.method = "GET", .path = "/metrics"};
    struct cli_https_answer answer;
    struct buffer text;
    cli_https_answer_init(&answer);
    buffer_init(&text, 4 * (size_t)LIMIT_CLI_ANSWER_BYTES);
    enum status status = cli_api_ask(call->api, &request, &answer);
    const char *at = answer.body.bytes;
    while (status == STATUS_OK && at != NULL && *at != '\0') {
        size_t length = strcspn(at, "\n");
        cli_text_append(&text, (struct slice){at, length});
        buffer_append_char(&text, '\n');
        at += length + (at[length] == '\n' ? 1 : 0);
        status = text.status;
    }
    if (status == STATUS_OK)
        status = cli_print_raw(call, buffer_slice(&text));
    buffer_deinit(&text);
    cli_https_answer_deinit(&answer);
    return status;
}
