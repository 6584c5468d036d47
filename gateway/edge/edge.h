/* edge: the process that customers and administrators connect to.
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
    int public_descriptor; /* bound and listening, or -1: the edge binds config->listen itself */
    int admin_descriptor;  /* the same for config->admin_listen */
    /* The edge writes one byte here once it serves, and one after each reload over the config API
     * (edge_reload); or -1. */
    int ready_descriptor;
    const struct config_sources *sources; /* for reloads; NULL: options cannot be reloaded */
    pid_t parent;        /* once it is gone, SIGTERM ends the edge without draining; 0: no parent */
    const char *sandbox; /* what /ready says about the sandbox; NULL: "off" */
    struct pulse *pulse; /* the loop's sign of life; NULL: nobody watches it */
    const struct edge_deaths *deaths; /* for the metrics; NULL: there is no parent */
    int64_t engine_user; /* the user that must own the engine's listening process; -1: any */
};

/* Serves until SIGTERM or SIGINT, then drains: it refuses new requests, lets running ones finish
 * for at most drain_timeout_s, ends the rest with an error, and commits the ledger. A failure at
 * the start is logged and returned. */
enum status edge_run(const struct edge_options *options);
