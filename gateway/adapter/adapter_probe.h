/* adapter_probe: asks a foreign server at start what it is: its kind, its model and the model's
 * context.
 *
 * Owns:     nothing.
 * Thread:   one that may block for timeout_ms a question.
 * Cost:     two to five small requests.
 * Not here: requests for answers (adapter).
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include "gateway/adapter/adapter_kind.h"

struct adapter_probe {
    const char *origin; /* "http://localhost:8000", without a path; its host is the Host header */
    const struct sockaddr *address; /* of that host */
    const char *prefix;             /* path before "/v1/…", or "" */
    const char *kind;               /* a name of kinds.def, or "auto" */
    const char *key;                /* "authorization: Bearer …\r\n", or "" */
    const char *model;          /* is taken if the server has it; NULL, or else: its first model */
    uint32_t timeout_ms;        /* of each question */
    const atomic_bool *is_over; /* as https_client_options.is_over; may be NULL */
};

/* UNAVAILABLE when nobody answers, or with another code than 200; INVALID for a kind that does not
 * exist; PROTOCOL when an answer is not understood. */
enum status adapter_probe_run(const struct adapter_probe *probe, struct adapter_facts *out);
