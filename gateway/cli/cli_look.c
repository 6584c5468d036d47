#include "gateway/cli/cli_look.h"

#include "config/base/clock.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_text.h"
#include "gateway/cli/cli_value.h"

static void audit_name(const char *name, struct buffer *path)
{
    bool is_first = strchr(path->bytes, '?') == NULL;
    buffer_printf(path, "%c%s=", is_first ? '?' : '&', name);
}

static enum status audit_word(const struct cli_call *call, enum cli_flag flag, const char *name,
                              struct buffer *path)
{
    if (call->values[flag] == NULL)
        return STATUS_OK;
    audit_name(name, path);
    cli_api_append_segment(path, slice_of(call->values[flag]));
    return path->status;
}

static enum status audit_time(const struct cli_call *call, enum cli_flag flag, const char *shown,
                              const char *name, struct buffer *path)
{
    int64_t seconds = 0;
    if (call->values[flag] == NULL)
        return STATUS_OK;
    TRY(cli_value_past(shown, call->values[flag], clock_wall_us(clock_system()) / 1000000,
                       &seconds));
    audit_name(name, path);
    buffer_printf(path, "%lld", (long long)seconds);
    return path->status;
}

static enum status audit_path(struct cli_call *call, struct buffer *path)
{
    buffer_append_text(path, "/admin/v1/audit");
    TRY(path->status);
    TRY(audit_word(call, CLI_FLAG_ACTOR, "actor", path));
    TRY(audit_word(call, CLI_FLAG_SUBJECT, "subject", path));
    TRY(audit_word(call, CLI_FLAG_TYPE, "type", path));
    TRY(audit_time(call, CLI_FLAG_FROM, "--from", "since", path));
    return audit_time(call, CLI_FLAG_TO, "--to", "until", path);
}

static const struct cli_print_column audit_columns[] = {
    {"WHEN", "effective_at", CLI_PRINT_TIME, true},
    {"WHAT", "type", CLI_PRINT_TEXT, true},
    {"SUBJECT", "subject", CLI_PRINT_TEXT, true},
    {"BY", "actor.id", CLI_PRINT_TEXT, true},
    {"PERSON", "actor.subject", CLI_PRINT_TEXT, false},
    {"FROM", "actor.peer", CLI_PRINT_TEXT, false},
    {"DETAIL", "detail", CLI_PRINT_TEXT, false},
};
enum { AUDIT_COLUMNS = sizeof audit_columns / sizeof audit_columns[0] };

static const struct cli_resource audit = {.append_path = audit_path,
                                          .word = "audit",
                                          .id_prefix = "",
                                          .list_order = "desc",
                                          .most = 1000000,
                                          .shown = 50,
                                          .columns = audit_columns,
                                          .column_count = AUDIT_COLUMNS,
                                          .list_columns = AUDIT_COLUMNS};

enum status cli_look_audit(struct cli_call *call)
{
    return cli_resource_list(call, &audit);
}

/* Prints the metrics line by line, each made safe for a terminal. --json makes no difference. */
enum status cli_look_metrics(struct cli_call *call)
{
    struct cli_api_request request = {.method = "GET", .path = "/metrics"};
    struct https_client_answer answer;
    struct buffer text;
    https_client_answer_init(&answer);
    buffer_init(&text, 4 * (size_t)LIMIT_HTTPS_ANSWER_BYTES);
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
    https_client_answer_deinit(&answer);
    return status;
}
