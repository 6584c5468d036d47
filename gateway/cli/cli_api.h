/* cli_api: a client of the config API: authentication, JSON, retries, lists in pages, refusals.
 *
 * Owns:     the HTTPS client, and the admin key's value, which it wipes at the end.
 * Thread:   one at a time; calls block.
 * Cost:     one exchange for a call; up to three when the connection is lost or the server is busy.
 * Not here: bytes and certificates (https_client), what is asked (cli_tenant, cli_key, cli_look).
 */
#pragma once

#include <jansson.h>

#include "gateway/upstream/https_client.h"

struct cli_api;

struct cli_api_options {
    const char *url;
    const char *ca_file;   /* trusted certificates, PEM; NULL = the system's */
    const char *cert_file; /* client certificate, PEM; NULL = none */
    const char *cert_key_file;
    const char *key_file; /* one line; NULL = the certificate alone authenticates */
    uint32_t timeout_ms;  /* of each exchange */
    bool is_dry_run;
    FILE *warnings; /* gets a warning when other users can read the key file */
};

/* Reads the files; sends nothing. INVALID for a wrong URL or a file that does not hold one key, IO
 * for a file that cannot be read. */
enum status cli_api_open(struct cli_api **out, const struct cli_api_options *options);
void cli_api_close(struct cli_api *api);

struct cli_api_request {
    const char *method;
    const char *path;     /* percent-encoded; dry_run is added to changes */
    const json_t *body;   /* borrowed; NULL = none */
    const char *revision; /* digits, sent as If-Match; NULL = any revision */
};

/* Makes one call; `answer`, which the caller inits and deinits, gets code and body. A code other
 * than 2xx fails with CONFLICT: the note has the server's message and what to do, and
 * cli_api_is_refused() is true. Other failures are those of https_client_call().
 *
 * The call is repeated when the server is busy, and when the connection was lost and a repetition
 * cannot act twice: a POST carries an Idempotency-Key, which stays the same; GETs, and changes
 * without a revision, have the same effect twice as once. */
enum status cli_api_ask(struct cli_api *api, const struct cli_api_request *request,
                        struct https_client_answer *answer);
/* The same; `*out` is the body as an object, a reference of the caller's. PROTOCOL when it is no
 * object. */
enum status cli_api_ask_object(struct cli_api *api, const struct cli_api_request *request,
                               struct https_client_answer *answer, json_t **out);
/* Reads up to `most` rows of a list, page after page, into one list object, a reference of the
 * caller's. Its has_more says whether there are more rows. The path may have a query. */
enum status cli_api_list(struct cli_api *api, const char *path, const char *order, size_t most,
                         json_t **out);
/* Whether the last failure was a refusal by the server. */
bool cli_api_is_refused(const struct cli_api *api);

/* Appends one segment of a path, or one value of a query, percent-encoded. */
void cli_api_append_segment(struct buffer *path, struct slice text);
