#include "gateway/cli/cli_certificate.h"

#include "config/base/clock.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_value.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"LABEL", "label", CLI_PRINT_TEXT, false},
    {"STATE", "state", CLI_PRINT_STATE, true},
    {"URI", "uri", CLI_PRINT_TEXT, false},
    {"DNS", "dns", CLI_PRINT_TEXT, false},
    {"FINGERPRINT", "fingerprint", CLI_PRINT_TEXT, false},
    {"SCOPES", "scopes", CLI_PRINT_WORDS, false},
    {"CREATED", "created_at", CLI_PRINT_TIME, false},
    {"EXPIRES", "expires_at", CLI_PRINT_TIME, false},
    {"LAST USED", "last_used_at", CLI_PRINT_TIME, false},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

/* The certificates of --tenant, or without it those of admins. */
static enum status append_path(struct cli_call *call, struct buffer *path)
{
    if (call->values[CLI_FLAG_TENANT] != NULL)
        TRY(cli_tenant_append_path(call, call->values[CLI_FLAG_TENANT], path));
    else
        buffer_append_text(path, "/admin/v1");
    buffer_append_text(path, "/certificates");
    return path->status;
}

static const struct cli_resource certificate = {.append_path = append_path,
                                                .word = "certificate",
                                                .id_prefix = "",
                                                .most = LIMIT_CERTIFICATES,
                                                .shown = 1000,
                                                .columns = columns,
                                                .column_count = COLUMNS,
                                                .list_columns = COLUMNS};

enum status cli_certificate_list(struct cli_call *call)
{
    return cli_resource_list(call, &certificate);
}

enum status cli_certificate_show(struct cli_call *call)
{
    return cli_resource_ask(call, &certificate, "GET", call->argument, NULL);
}

enum status cli_certificate_revoke(struct cli_call *call)
{
    return cli_resource_ask(call, &certificate, "DELETE", call->argument, NULL);
}

/* --- body of a request --- */

static enum status body_fill(const struct cli_call *call, json_t *body)
{
    static const struct {
        enum cli_flag flag;
        const char *member;
    } texts[] = {{CLI_FLAG_LABEL, "label"},
                 {CLI_FLAG_FINGERPRINT, "fingerprint"},
                 {CLI_FLAG_URI, "uri"},
                 {CLI_FLAG_DNS, "dns"}};
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    json_t *value = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = call->values[texts[i].flag];
        if (text != NULL && json_object_set_new(body, texts[i].member, json_string(text)) != 0)
            FAIL(STATUS_INVALID, "--%s is not valid UTF-8", texts[i].member);
    }
    if (call->values[CLI_FLAG_SCOPES] != NULL) {
        TRY(cli_value_words("--scopes", call->values[CLI_FLAG_SCOPES], &value));
        json_object_set_new(body, "scopes", value);
    }
    if (call->values[CLI_FLAG_EXPIRES] != NULL) {
        TRY(cli_value_expiry("--expires", call->values[CLI_FLAG_EXPIRES], now_s, &value));
        json_object_set_new(body, "expires_at", value);
    }
    return STATUS_OK;
}

enum status cli_certificate_create(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = body_fill(call, body);
    if (status == STATUS_OK)
        status = cli_resource_ask(call, &certificate, "POST", NULL, body);
    json_decref(body);
    return status;
}

enum status cli_certificate_change(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = STATUS_OK;
    TRY_OUT(body_fill(call, body));
    if (json_object_size(body) == 0)
        FAIL_OUT(STATUS_INVALID, "say what to change: --label, --scopes or --expires");
    status = cli_resource_ask(call, &certificate, "PATCH", call->argument, body);
out:
    json_decref(body);
    return status;
}
