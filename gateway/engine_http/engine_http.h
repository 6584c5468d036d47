/* engine_http: the HTTP server of the engine process: JSON over HTTP/1.1 on a Unix socket.
 *
 * Owns:     the engines (fleet), the listener, the final records.
 * Thread:   engine_http_run uses the calling thread as its event loop until SIGTERM or SIGINT.
 * Cost:     –
 * Not here: tenants, keys, TLS (edge).
 */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "config/base/limits.h"
#include "config/base/pulse.h"
#include "config/config.h"

enum { ENGINE_HTTP_PEERS = 4 };

struct pool_upstream;
struct ranks;

/* engine_http_run owns all descriptors. A descriptor is given when it was opened with rights that
 * this process may no longer have; else engine_http_run opens the file itself. */
struct engine_http_options {
    const struct config *config;
    int descriptor;          /* Unix socket, bound and listening; -1 = bind config->socket */
    int ready_descriptor;    /* gets one byte and is closed when the process serves; -1 = none */
    int draft_descriptor;    /* file of config->draft_model; 0 = open it */
    int model_descriptor;    /* file of config->model; -1 = open it */
    int template_descriptor; /* file of config->chat_template; 0 = open it */
    /* Of config->upstream, which needs it: looked up before this process lost that right. */
    const struct pool_upstream *upstreams; /* [upstream_count] */
    uint32_t upstream_count;
    int state_descriptor; /* directory of finals.ring; -1 = open config->data_dir */
    /* One for each of config->engines, borrowed; this process is rank 0. NULL = no other ranks. */
    struct ranks *ranks[LIMIT_ENGINES];
    /* User ids of the edge, which may connect. Without any, only this process's user may. */
    uid_t peers[ENGINE_HTTP_PEERS];
    size_t peer_count;
    struct pulse *pulse; /* gets signs of life of the loop and the engines; NULL = nobody watches */
};

/* Opens everything, then serves until SIGTERM or SIGINT and the drain are over. The failures of
 * opening have a note that says what is wrong. UNAVAILABLE when a device or a rank has failed. */
enum status engine_http_run(const struct engine_http_options *options);
