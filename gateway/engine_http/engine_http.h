/* engine_http: the engine process's face: JSON over HTTP/1.1 on a Unix socket ↔ engine.h.
 *
 * Owns:     the engine, its listener, final records that the edge has not acknowledged.
 * Thread:   engine_http_run takes the calling thread as its event loop until SIGTERM or SIGINT.
 * Cost:     –
 * Not here: customers, keys, TLS (edge).
 */
#pragma once

#include <sys/types.h>

#include "config/base/limits.h"
#include "config/base/pulse.h"
#include "config/config.h"

enum { ENGINE_HTTP_PEERS = 4 };

struct ranks;

/* All descriptors are the callee's from the call on. What is given as one was opened with rights
 * that this process may no longer have. */
struct engine_http_options {
    const struct config *config;
    int descriptor;       /* bound and listening Unix socket, or -1: binds config->socket itself */
    int ready_descriptor; /* one byte is written there and it is closed once it serves; or -1 */
    int draft_descriptor; /* of config->draft_model, or 0: opens it */
    int model_descriptor; /* the model's file, or -1: opens config->model */
    int state_descriptor; /* the directory of finals.ring, or -1: config->data_dir */
    /* Of each of config->engines: this process is rank 0 of them, borrowed; NULL = alone. */
    struct ranks *ranks[LIMIT_ENGINES];
    /* Who may connect: the user ids of the edge's process. None given = this process's own. */
    uid_t peers[ENGINE_HTTP_PEERS];
    size_t peer_count;
    struct pulse *pulse; /* its loop and its engines' threads beat there; NULL = nobody watches */
};

/* Opens the model (the message says what is wrong with it), then serves until told to end. */
enum status engine_http_run(const struct engine_http_options *options);
