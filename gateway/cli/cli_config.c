#include "gateway/cli/cli_config.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "gateway/cli/cli_print.h"

static const char PATH[] = "/admin/v1/config";

/* Makes a call and prints its answer. An answer with "valid": false is printed, and is INVALID. */
static enum status ask(struct cli_call *call, const struct cli_api_request *request,
                       enum status (*print)(const struct cli_call *call, const json_t *answer))
{
    struct https_client_answer answer;
    json_t *object = NULL;
    https_client_answer_init(&answer);
    enum status status = cli_api_ask_object(call->api, request, &answer, &object);
    if (status == STATUS_OK && cli_print_is_json(call))
        status = cli_print_raw(call, buffer_slice(&answer.body));
    else if (status == STATUS_OK)
        status = print(call, object);
    if (status == STATUS_OK && json_is_false(json_object_get(object, "valid")))
        status = status_fail(STATUS_INVALID, __FILE__, __LINE__, NULL, "the options are not valid");
    json_decref(object);
    https_client_answer_deinit(&answer);
    return status;
}

static enum status print_rows(const struct cli_call *call, json_t *rows,
                              const struct cli_print_column *columns, size_t count)
{
    json_t *list = json_pack("{s:O}", "data", rows);
    enum status status = cli_print_list(call, list, columns, count);
    json_decref(list);
    return status;
}

static bool has_word(const json_t *words, const char *word)
{
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *its = json_string_value(json_array_get(words, i));
        if (its != NULL && strcmp(its, word) == 0)
            return true;
    }
    return false;
}

static enum status show_print(const struct cli_call *call, const json_t *config)
{
    static const struct cli_print_column columns[] = {{"OPTION", "name", CLI_PRINT_TEXT, true},
                                                      {"VALUE", "value", CLI_PRINT_TEXT, false},
                                                      {"FROM", "source", CLI_PRINT_TEXT, true},
                                                      {"RELOAD", "reload", CLI_PRINT_TEXT, true}};
    const json_t *reloadable = json_object_get(config, "reloadable");
    json_t *rows = json_array();
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(config, "options"), name, value)
    {
        const json_t *source = json_object_get(json_object_get(config, "sources"), name);
        json_array_append_new(rows,
                              json_pack("{s:s,s:O,s:s,s:s}", "name", name, "value", value, "source",
                                        json_is_string(source) ? json_string_value(source) : "",
                                        "reload", has_word(reloadable, name) ? "yes" : ""));
    }
    enum status status = print_rows(call, rows, columns, 4);
    json_decref(rows);
    return status;
}

enum status cli_config_show(struct cli_call *call)
{
    return ask(call, &(struct cli_api_request){.method = "GET", .path = PATH}, show_print);
}

static enum status changes_print(const struct cli_call *call, const json_t *answer)
{
    static const struct cli_print_column columns[] = {{"OPTION", "option", CLI_PRINT_TEXT, true},
                                                      {"FROM", "from", CLI_PRINT_TEXT, false},
                                                      {"TO", "to", CLI_PRINT_TEXT, false},
                                                      {"TAKES", "takes", CLI_PRINT_TEXT, true}};
    return print_rows(call, json_object_get(answer, "changes"), columns, 4);
}

enum status cli_config_reload(struct cli_call *call)
{
    return ask(call,
               &(struct cli_api_request){.method = "POST",
                                         .path = "/admin/v1/config/reload",
                                         .revision = call->values[CLI_FLAG_IF_REVISION]},
               changes_print);
}

static enum status validate_print(const struct cli_call *call, const json_t *answer)
{
    static const struct cli_print_column columns[] = {{"OPTION", "param", CLI_PRINT_TEXT, true},
                                                      {"WRONG", "message", CLI_PRINT_TEXT, false}};
    if (json_is_true(json_object_get(answer, "valid")))
        return changes_print(call, answer);
    return print_rows(call, json_object_get(answer, "errors"), columns, 2);
}

static enum status file_load(const char *path, json_t **out)
{
    json_error_t error;
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL && error.line < 0)
        FAIL(STATUS_INVALID, "%s cannot be read", path);
    if (*out == NULL)
        FAIL(STATUS_INVALID, "%s, line %d, column %d: %s", path, error.line, error.column,
             error.text);
    return STATUS_OK;
}

enum status cli_config_validate(struct cli_call *call)
{
    json_t *options = NULL;
    TRY(file_load(call->argument, &options));
    json_t *body = json_pack("{s:o}", "options", options);
    enum status status =
        ask(call,
            &(struct cli_api_request){
                .method = "POST", .path = "/admin/v1/config/validate", .body = body},
            validate_print);
    json_decref(body);
    return status;
}

/* --- export and import --- */

/* Writes the file whole or not at all: it writes PATH.new and renames it. */
static enum status export_write(const char *path, struct slice text)
{
    char other[4096];
    int length = snprintf(other, sizeof other, "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof other)
        FAIL(STATUS_INVALID, "--out: the path is too long");
    FILE *file = fopen(other, "we");
    if (file == NULL)
        FAIL(STATUS_IO, "--out %s: %s", path, strerrordesc_np(errno));
    bool is_written = fwrite(text.bytes, 1, text.length, file) == text.length;
    is_written = fflush(file) == 0 && is_written;
    is_written = fsync(fileno(file)) == 0 && is_written;
    is_written = fclose(file) == 0 && is_written;
    if (is_written && rename(other, path) == 0)
        return STATUS_OK;
    int error = errno;
    (void)remove(other);
    FAIL(STATUS_IO, "--out %s: %s", path, strerrordesc_np(error));
}

enum status cli_config_export(struct cli_call *call)
{
    const char *path = call->values[CLI_FLAG_OUT];
    struct cli_api_request request = {.method = "GET", .path = "/admin/v1/config/export"};
    struct https_client_answer answer;
    https_client_answer_init(&answer);
    enum status status = cli_api_ask(call->api, &request, &answer);
    struct slice text = buffer_slice(&answer.body);
    if (text.length > 0 && text.bytes[text.length - 1] == '\n')
        text.length--; /* cli_print_raw ends a line itself */
    if (status == STATUS_OK)
        status = path != NULL ? export_write(path, buffer_slice(&answer.body))
                              : cli_print_raw(call, text);
    https_client_answer_deinit(&answer);
    return status;
}

static enum status import_print(const struct cli_call *call, const json_t *answer)
{
    static const struct cli_print_column columns[] = {
        {"ACTION", "action", CLI_PRINT_TEXT, true},
        {"RESOURCE", "resource", CLI_PRINT_TEXT, true},
        {"NAME", "name", CLI_PRINT_TEXT, false},
        {"FIELDS", "fields", CLI_PRINT_WORDS, false}};
    return print_rows(call, json_object_get(answer, "changes"), columns, 4);
}

enum status cli_config_import(struct cli_call *call)
{
    json_t *document = NULL;
    TRY(file_load(call->argument, &document));
    if (call->values[CLI_FLAG_PRUNE] != NULL)
        json_object_set_new(document, "prune", json_true());
    enum status status =
        ask(call,
            &(struct cli_api_request){.method = "POST",
                                      .path = "/admin/v1/config/import",
                                      .body = document,
                                      .revision = call->values[CLI_FLAG_IF_REVISION]},
            import_print);
    json_decref(document);
    return status;
}
