#include "gateway/cli/cli_issuer.h"

#include "config/base/mem.h"
#include "gateway/cli/cli_resource.h"

enum { ROWS_DEFAULT = 1000 };

static const char PATH[] = "/admin/v1/issuers";

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"NAME", "name", CLI_PRINT_TEXT, false},
    {"ISSUER", "issuer", CLI_PRINT_TEXT, false},
    {"ALGORITHMS", "algorithms", CLI_PRINT_WORDS, true},
    {"REVISION", "revision", CLI_PRINT_NUMBER, true},
    /* These of one issuer alone. */
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

enum status cli_issuer_list(struct cli_call *call)
{
    return cli_resource_rows(call, PATH, ROWS_DEFAULT, ROWS_DEFAULT, columns, COLUMNS_LIST);
}

/* --- one issuer, by id or name --- */

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

static enum status path_append(struct cli_call *call, struct buffer *path)
{
    json_t *list = NULL;
    const char *id = call->argument;
    enum status status = STATUS_OK;
    if (strncmp(id, "iss_", 4) != 0) {
        TRY(cli_api_list(call->api, PATH, "asc", LIMIT_ISSUERS, &list));
        id = path_find(list, call->argument);
    }
    if (id == NULL)
        FAIL_OUT(STATUS_NOT_FOUND,
                 "there is no issuer of the name '%.128s': banyan admin issuer list",
                 call->argument);
    buffer_append_text(path, PATH);
    buffer_append_char(path, '/');
    cli_api_append_segment(path, slice_of(id));
    status = path->status;
out:
    json_decref(list);
    return status;
}

static enum status issuer_ask(struct cli_call *call, const struct cli_api_request *request)
{
    struct cli_https_answer answer;
    json_t *issuer = NULL;
    cli_https_answer_init(&answer);
    enum status status = cli_api_ask_object(call->api, request, &answer, &issuer);
    if (status == STATUS_OK)
        status = cli_print_object(call, buffer_slice(&answer.body), issuer, columns, COLUMNS);
    json_decref(issuer);
    cli_https_answer_deinit(&answer);
    return status;
}

static enum status issuer_ask_one(struct cli_call *call, const char *method, const json_t *body)
{
    struct buffer path;
    buffer_init(&path, LIMIT_PATH_BYTES);
    enum status status = path_append(call, &path);
    if (status == STATUS_OK)
        status = issuer_ask(
            call, &(struct cli_api_request){.method = method,
                                            .path = path.bytes,
                                            .body = body,
                                            .revision = call->values[CLI_FLAG_IF_REVISION]});
    buffer_deinit(&path);
    return status;
}

enum status cli_issuer_show(struct cli_call *call)
{
    return issuer_ask_one(call, "GET", NULL);
}

enum status cli_issuer_delete(struct cli_call *call)
{
    return issuer_ask_one(call, "DELETE", NULL);
}

/* --- what flags say --- */

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

/* The fields of --file, and those of --jwks as jwks. At least one of them is given. */
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
    status =
        issuer_ask(call, &(struct cli_api_request){.method = "POST", .path = PATH, .body = body});
out:
    json_decref(body);
    return status;
}

enum status cli_issuer_change(struct cli_call *call)
{
    json_t *body = NULL;
    TRY(body_read(call, &body));
    enum status status = issuer_ask_one(call, "PATCH", body);
    json_decref(body);
    return status;
}
