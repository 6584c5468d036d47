#include "gateway/cli/cli_issuer.h"

#include "config/base/mem.h"
#include "gateway/cli/cli_resource.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"ISSUER", "issuer", CLI_PRINT_TEXT, false},
    {"ALGORITHMS", "algorithms", CLI_PRINT_WORDS, true},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
    /* Shown for one issuer, not in the list. */
    {"AUDIENCES", "audiences", CLI_PRINT_WORDS, true},
    {"TENANT CLAIM", "tenant_claim", CLI_PRINT_TEXT, false},
    {"SCOPE CLAIM", "scope_claim", CLI_PRINT_TEXT, false},
    {"SCOPES", "scopes", CLI_PRINT_WORDS, true},
    {"LIFETIME S", "max_lifetime_s", CLI_PRINT_NUMBER, true},
    {"JWKS FILE", "jwks_file", CLI_PRINT_TEXT, false},
    {"JWKS URL", "jwks_url", CLI_PRINT_TEXT, false},
    {"JWKS ERROR", "jwks_error", CLI_PRINT_TEXT, false},
    {"ADMIN CLAIM", "admin_claim", CLI_PRINT_TEXT, false},
};
enum { COLUMNS_LIST = 5, COLUMNS = sizeof columns / sizeof columns[0] };

static const struct cli_resource issuer = {.path = "/admin/v1/issuers",
                                           .word = "issuer",
                                           .id_prefix = "iss_",
                                           .most = LIMIT_ISSUERS,
                                           .columns = columns,
                                           .column_count = COLUMNS,
                                           .list_columns = COLUMNS_LIST};

enum status cli_issuer_list(struct cli_call *call)
{
    return cli_resource_list(call, &issuer);
}

enum status cli_issuer_show(struct cli_call *call)
{
    return cli_resource_ask(call, &issuer, "GET", call->argument, NULL);
}

enum status cli_issuer_delete(struct cli_call *call)
{
    return cli_resource_ask(call, &issuer, "DELETE", call->argument, NULL);
}

/* --- body of a request --- */

static enum status file_read(const char *flag, const char *path, json_t **out)
{
    json_error_t error;
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL && error.line < 0)
        FAIL(STATUS_INVALID, "%s %s cannot be read", flag, path);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        FAIL(STATUS_INVALID, "%s %s is no JSON object", flag, path);
    }
    return STATUS_OK;
}

/* Makes the body: the fields of --file, and the key set of --jwks as "jwks". One must be given. */
static enum status body_read(const struct cli_call *call, json_t **out)
{
    const char *file = call->values[CLI_FLAG_FILE];
    const char *jwks = call->values[CLI_FLAG_JWKS];
    json_t *body = NULL;
    json_t *keys = NULL;
    enum status status = STATUS_OK;
    *out = NULL;
    if (file == NULL && jwks == NULL)
        FAIL(STATUS_INVALID, "give --file FILE with the issuer's fields, --jwks FILE, or both");
    if (file != NULL)
        TRY_OUT(file_read("--file", file, &body));
    else
        body = json_object();
    if (jwks != NULL) {
        TRY_OUT(file_read("--jwks", jwks, &keys));
        json_object_set(body, "jwks", keys);
    }
    *out = json_incref(body);
out:
    json_decref(keys);
    json_decref(body);
    return status;
}

enum status cli_issuer_create(struct cli_call *call)
{
    json_t *body = NULL;
    enum status status = STATUS_OK;
    TRY(body_read(call, &body));
    if (json_object_set_new(body, "name", json_string(call->argument)) != 0)
        FAIL_OUT(STATUS_INVALID, "the name is not valid UTF-8");
    status = cli_resource_ask(call, &issuer, "POST", NULL, body);
out:
    json_decref(body);
    return status;
}

enum status cli_issuer_change(struct cli_call *call)
{
    json_t *body = NULL;
    TRY(body_read(call, &body));
    enum status status = cli_resource_ask(call, &issuer, "PATCH", call->argument, body);
    json_decref(body);
    return status;
}
