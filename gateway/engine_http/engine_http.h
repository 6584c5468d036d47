/* engine_http: the engine process's face: JSON over HTTP/1.1 on a Unix socket ↔ engine.h.
 *
 * Owns:     the engine, its listener, final records that the edge has not acknowledged.
 * Thread:   engine_http_run takes the calling thread as its event loop until SIGTERM or SIGINT.
 * Cost:     –
 * Not here: customers, keys, TLS (edge).
 */
#pragma once

#include "config/config.h"

struct engine_http_options {
    const struct config *config;
    int descriptor;       /* bound and listening Unix socket, or -1: binds config->socket itself */
    int ready_descriptor; /* one byte is written there and it is closed once it serves; or -1 */
};

/* Opens the model (the message says what is wrong with it), then serves until told to end. */
enum status engine_http_run(const struct engine_http_options *options);
