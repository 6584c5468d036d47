#include "gateway/cli/cli_api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/mem.h"
#include "config/base/random_bytes.h"

enum {
    TRIES_MAX = 3,
    AGAIN_MS_DEFAULT = 200,
    AGAIN_MS_MAX = 2000,
    PAGE_ROWS = 100, /* the config API's largest page */
    ID_BYTES = 16,
};

struct cli_api {
    struct https_client *https;
    bool is_dry_run;
    bool is_refused;
    char key[LIMIT_KEY_BYTES];
};

/* --- open --- */

static enum status key_read(struct cli_api *api, int descriptor,
                            const struct cli_api_options *options)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode))
        FAIL(STATUS_IO, "the key file %s cannot be read", options->key_file);
    if (S_ISREG(info.st_mode) && (info.st_mode & 077) != 0)
        fprintf(options->warnings, "warning: other users can read %s; run: chmod 600 %s\n",
                options->key_file, options->key_file);
    size_t length = 0;
    ssize_t got = 0;
    while (length < sizeof api->key &&
           (got = read(descriptor, api->key + length, sizeof api->key - length)) > 0)
        length += (size_t)got;
    if (got < 0)
        FAIL(STATUS_IO, "the key file %s: %s", options->key_file, strerror(errno));
    while (length > 0 && (api->key[length - 1] == '\n' || api->key[length - 1] == '\r' ||
                          api->key[length - 1] == ' '))
        length--;
    if (length == 0 || length >= sizeof api->key)
        FAIL(STATUS_INVALID, "%s does not hold one API key", options->key_file);
    for (size_t i = 0; i < length; i++) {
        if (api->key[i] <= ' ' || api->key[i] > '~')
            FAIL(STATUS_INVALID, "%s does not hold one API key", options->key_file);
    }
    api->key[length] = '\0';
    return STATUS_OK;
}

static enum status open_key(struct cli_api *api, const struct cli_api_options *options)
{
    int descriptor = open(options->key_file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        FAIL(STATUS_IO, "the key file %s: %s; give it with --key-file, or the server's --data-dir",
             options->key_file, strerror(errno));
    enum status status = key_read(api, descriptor, options);
    close(descriptor);
    return status;
}

enum status cli_api_open(struct cli_api **out, const struct cli_api_options *options)
{
    struct cli_api *api = mem_zalloc(1, sizeof *api);
    if (api == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a client");
    api->is_dry_run = options->is_dry_run;
    struct https_client_options https = {.url = options->url,
                                         .ca_file = options->ca_file,
                                         .cert_file = options->cert_file,
                                         .cert_key_file = options->cert_key_file,
                                         .timeout_ms = options->timeout_ms};
    enum status status = options->key_file != NULL ? open_key(api, options) : STATUS_OK;
    if (status == STATUS_OK)
        status = https_client_open(&api->https, &https);
    if (status != STATUS_OK) {
        cli_api_close(api);
        return status;
    }
    *out = api;
    return STATUS_OK;
}

void cli_api_close(struct cli_api *api)
{
    if (api == NULL)
        return;
    https_client_close(api->https);
    explicit_bzero(api->key, sizeof api->key);
    mem_free(api);
}

bool cli_api_is_refused(const struct cli_api *api)
{
    return api->is_refused;
}

void cli_api_append_segment(struct buffer *path, struct slice text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '~';
        char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};
        if (is_plain)
            buffer_append_char(path, (char)c);
        else
            buffer_append(path, escaped, sizeof escaped);
    }
}

/* --- one call --- */

/* What an operator can do about a refusal; NULL = nothing to add to the server's message. */
static const char *refuse_hint(int code)
{
    switch (code) {
    case 401:
        return "the server does not accept this key: give another with --key-file";
    case 403:
        return "use a key that has the scope: banyan admin admin-key list shows scopes";
    case 404:
        return "banyan admin RESOURCE list shows what exists";
    case 405:
        return "the server has another version than this command";
    case 412:
        return "somebody changed it meanwhile: show it again, then use its new revision";
    case 503:
        return "try again shortly";
    default:
        return NULL;
    }
}

static enum status refuse(struct cli_api *api, const struct https_client_answer *answer)
{
    api->is_refused = true;
    json_t *root = json_loadb(answer->body.bytes != NULL ? answer->body.bytes : "",
                              answer->body.length, 0, NULL);
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *param = json_string_value(json_object_get(error, "param"));
    const char *hint = refuse_hint(answer->code);
    enum status status = status_fail(
        STATUS_CONFLICT, __FILE__, __LINE__, NULL, "%.200s (HTTP %d%s%.40s%s%.40s%s%.40s)%s%s",
        message != NULL ? message : "the server refused without giving a reason", answer->code,
        code != NULL ? ", " : "", code != NULL ? code : "", param != NULL ? ", field " : "",
        param != NULL ? param : "", answer->request_id[0] != '\0' ? ", request " : "",
        answer->request_id, hint != NULL ? "\n  " : "", hint != NULL ? hint : "");
    json_decref(root);
    return status;
}

static void again_wait(uint32_t wait_ms)
{
    if (wait_ms == 0)
        wait_ms = AGAIN_MS_DEFAULT;
    if (wait_ms > AGAIN_MS_MAX)
        wait_ms = AGAIN_MS_MAX;
    struct timespec left = {.tv_sec = wait_ms / 1000, .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void ask_headers(const struct cli_api *api, const struct cli_api_request *request,
                        struct buffer *out)
{
    if (api->key[0] != '\0')
        buffer_printf(out, "authorization: Bearer %s\r\n", api->key);
    if (request->revision != NULL)
        buffer_printf(out, "if-match: \"%s\"\r\n", request->revision);
    if (strcmp(request->method, "POST") != 0)
        return;
    uint8_t bytes[ID_BYTES];
    random_bytes(bytes, sizeof bytes);
    buffer_append_text(out, "idempotency-key: cli-");
    for (size_t i = 0; i < sizeof bytes; i++)
        buffer_printf(out, "%02x", bytes[i]);
    buffer_append_text(out, "\r\n");
}

/* Whether the call can be repeated without acting twice. */
static bool ask_is_repeatable(const struct cli_api_request *request)
{
    return request->revision == NULL || strcmp(request->method, "POST") == 0;
}

static enum status ask_tries(struct cli_api *api, const struct cli_api_request *request,
                             const struct https_client_request *https,
                             struct https_client_answer *answer)
{
    for (int tries = 1;; tries++) {
        buffer_clear(&answer->body);
        answer->retry_after_ms = 0;
        answer->request_id[0] = '\0';
        answer->next_page[0] = '\0';
        enum status status = https_client_call(api->https, https, answer);
        bool is_busy = status == STATUS_OK && answer->code == 503;
        /* The server may still be handling the call that was lost; until then it answers 409. */
        bool is_running = status == STATUS_OK && answer->code == 409 && tries > 1;
        bool is_lost = status == STATUS_IO && ask_is_repeatable(request);
        if ((!is_busy && !is_running && !is_lost) || tries == TRIES_MAX)
            return status;
        again_wait(answer->retry_after_ms);
    }
}

enum status cli_api_ask(struct cli_api *api, const struct cli_api_request *request,
                        struct https_client_answer *answer)
{
    api->is_refused = false;
    struct buffer headers;
    struct buffer path;
    buffer_init(&headers, LIMIT_HEAD_BYTES);
    buffer_init(&path, LIMIT_PATH_BYTES);
    ask_headers(api, request, &headers);
    buffer_append_text(&path, request->path);
    if (api->is_dry_run && strcmp(request->method, "GET") != 0)
        buffer_append_text(&path, "?dry_run=true");
    char *body = request->body != NULL ? json_dumps(request->body, JSON_COMPACT) : NULL;
    enum status status = headers.status != STATUS_OK ? headers.status : path.status;
    if (request->body != NULL && body == NULL)
        status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for a body");
    if (status == STATUS_OK) {
        struct https_client_request https = {.method = request->method,
                                             .path = path.bytes,
                                             .headers = headers.length > 0 ? headers.bytes : "",
                                             .body = slice_of(body)};
        status = ask_tries(api, request, &https, answer);
    }
    if (status == STATUS_OK && (answer->code < 200 || answer->code > 299))
        status = refuse(api, answer);
    free(body);
    if (headers.bytes != NULL)
        explicit_bzero(headers.bytes, headers.capacity);
    buffer_deinit(&headers);
    buffer_deinit(&path);
    return status;
}

enum status cli_api_ask_object(struct cli_api *api, const struct cli_api_request *request,
                               struct https_client_answer *answer, json_t **out)
{
    TRY(cli_api_ask(api, request, answer));
    json_t *root = json_loadb(answer->body.bytes != NULL ? answer->body.bytes : "",
                              answer->body.length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        FAIL(STATUS_PROTOCOL, "the answer is no JSON object; does --url name a config API?");
    }
    *out = root;
    return STATUS_OK;
}

/* --- lists --- */

/* Appends the rows of a page to the list; `after` becomes the id of the last row. */
static enum status list_join(json_t *list, json_t *page, char after[LIMIT_ID_BYTES], bool *has_more)
{
    json_t *rows = json_object_get(page, "data");
    const char *last = json_string_value(json_object_get(page, "last_id"));
    size_t count = json_array_size(rows);
    *has_more = json_is_true(json_object_get(page, "has_more"));
    if (!json_is_array(rows) || (count > 0 && (last == NULL || strlen(last) >= LIMIT_ID_BYTES)) ||
        (*has_more && (count == 0 || strcmp(last, after) == 0)))
        FAIL(STATUS_PROTOCOL, "the answer is no list; does --url name a config API?");
    if (count == 0)
        return STATUS_OK;
    snprintf(after, LIMIT_ID_BYTES, "%s", last);
    json_t *all = json_object_get(list, "data");
    if (json_array_size(all) == 0)
        json_object_set(list, "first_id", json_object_get(page, "first_id"));
    if (json_array_extend(all, rows) != 0)
        FAIL(STATUS_NO_MEMORY, "no memory for a list");
    json_object_set(list, "last_id", json_object_get(page, "last_id"));
    json_object_set(list, "has_more", json_object_get(page, "has_more"));
    return STATUS_OK;
}

static enum status list_page(struct cli_api *api, const char *path, const char *order, size_t rows,
                             const char *after, json_t **out)
{
    struct buffer full;
    struct https_client_answer answer;
    buffer_init(&full, LIMIT_PATH_BYTES);
    https_client_answer_init(&answer);
    buffer_printf(&full, "%s%climit=%zu&order=%s", path, strchr(path, '?') != NULL ? '&' : '?',
                  rows, order);
    if (after[0] != '\0') {
        buffer_append_text(&full, "&after=");
        cli_api_append_segment(&full, slice_of(after));
    }
    enum status status = full.status;
    if (status == STATUS_OK) {
        struct cli_api_request request = {.method = "GET", .path = full.bytes};
        status = cli_api_ask_object(api, &request, &answer, out);
    }
    https_client_answer_deinit(&answer);
    buffer_deinit(&full);
    return status;
}

enum status cli_api_list(struct cli_api *api, const char *path, const char *order, size_t most,
                         json_t **out)
{
    char after[LIMIT_ID_BYTES] = "";
    bool has_more = true;
    json_t *list = json_pack("{s:s,s:[],s:n,s:n,s:b}", "object", "list", "data", "first_id",
                             "last_id", "has_more", 0);
    enum status status = STATUS_OK;
    if (list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a list");
    for (size_t count = 0; has_more && count < most && status == STATUS_OK;
         count = json_array_size(json_object_get(list, "data"))) {
        json_t *page = NULL;
        size_t rows = most - count < PAGE_ROWS ? most - count : PAGE_ROWS;
        status = list_page(api, path, order, rows, after, &page);
        if (status == STATUS_OK)
            status = list_join(list, page, after, &has_more);
        json_decref(page);
    }
    if (status != STATUS_OK)
        json_decref(list);
    else
        *out = list;
    return status;
}
