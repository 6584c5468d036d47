/* cli_api: the config API as a client sees it: key, JSON, trying again, lists in pages, refusals.
 *
 * Owns:     the client, the key's value (wiped at the end).
 * Thread:   one at a time.
 * Cost:     a call is one exchange; up to three when the connection is lost or the server is busy.
 * Not here: bytes and certificates (https_client), what is asked (cli_tenant, cli_key, cli_look).
 */
#pragma once

#include <jansson.h>

#include "gateway/upstream/https_client.h"

struct cli_api;

struct cli_api_options {
    const char *url;
    const char *ca_file;   /* NULL = the system's */
    const char *cert_file; /* a client's own; NULL = none */
    const char *cert_key_file;
    const char *key_file; /* one line; NULL = the certificate alone says who asks */
    uint32_t timeout_ms;
    bool is_dry_run;
    FILE *warnings; /* a key file that others may read is told here */
};

/* INVALID (url), IO (a file), LIMIT (key file too long). Nothing is sent. */
enum status cli_api_open(struct cli_api **out, const struct cli_api_options *options);
void cli_api_close(struct cli_api *api);

struct cli_api_request {
    const char *method;
    const char *path;     /* percent-encoded, without dry_run, which is added to changes */
    const json_t *body;   /* NULL = none */
    const char *revision; /* digits: sent as If-Match; NULL = any */
};

/* `answer` receives code and body; the caller inits and deinits it. A code that is not 2xx fails:
 * the note is the server's message and what to do, and cli_api_is_refused is true. Else as
 * https_client_call. A POST carries an Idempotency-Key of its own, so that trying it again when the
 * connection was lost cannot do it twice; GETs, and changes without a revision, are tried again
 * too: twice is the same as once. */
enum status cli_api_ask(struct cli_api *api, const struct cli_api_request *request,
                        struct https_client_answer *answer);
/* The same, and the body as an object: PROTOCOL when it is none. The caller drops the reference. */
enum status cli_api_ask_object(struct cli_api *api, const struct cli_api_request *request,
                               struct https_client_answer *answer, json_t **out);
/* Up to `most` rows of a list, page after page: one list object; its has_more tells of others. The
 * path may have a query. */
enum status cli_api_list(struct cli_api *api, const char *path, const char *order, size_t most,
                         json_t **out);
/* The last failure was the server's refusal. */
bool cli_api_is_refused(const struct cli_api *api);

/* Appends one segment of a path, percent-encoded. */
void cli_api_append_segment(struct buffer *path, struct slice text);
