/* edge: the process that customers and admins talk to.
 *
 * Owns:     both TLS listeners, auth, tenants, ledger, the client to the engine.
 * Thread:   edge_run takes the calling thread as its event loop until SIGTERM or SIGINT.
 * Cost:     –
 * Not here: tokens and tensors (engine), starting processes (serve).
 */
#pragma once

#include <sys/types.h>

#include "config/base/pulse.h"
#include "config/config.h"
#include "gateway/edge/state/edge_deaths.h"

struct edge_options {
    const struct config *config;
    int public_descriptor; /* bound and listening, or -1: edge binds config->listen itself */
    int admin_descriptor;  /* the same for config->admin_listen */
    int ready_descriptor;  /* a byte is written there once it serves, and one with each reload that
                            * the config API has made (edge_reload); or -1 */
    const struct config_sources *sources; /* for a reload; NULL = there is none */
    pid_t parent;                     /* when it is gone, SIGTERM means now; 0 = none to look for */
    const char *sandbox;              /* for /ready; NULL = "off" */
    struct pulse *pulse;              /* its loop beats there; NULL = nobody watches */
    const struct edge_deaths *deaths; /* for the metrics; NULL = there is no parent */
    int64_t engine_user; /* whose process must listen on the engine's socket; -1 = anybody's */
};

/* Serves until told to end, then drains: refuses new requests, finishes what runs (at most
 * drain_timeout_s, then an error event), commits the ledger. Logs and returns what went wrong. */
enum status edge_run(const struct edge_options *options);
