/* serve_half: one half of the server as a process: opens what it needs with the rights it was
 * started with, gives them up, then runs.
 *
 * Owns:     the order of these steps; the locks D/engine/engine.lock and the descriptors handed on.
 * Thread:   the process's only one until the half runs.
 * Cost:     a few milliseconds at start.
 * Not here: what the halves do (edge, engine_http), starting and watching them (serve).
 *
 *   engine   model, ranks, D/engine, lock, socket      ─► user ─► Landlock ─► seccomp ─► run
 *   edge     listeners (unless given)                   ─► user ─► Landlock ─► seccomp ─► run
 */
#pragma once

#include <sys/types.h>

#include "config/base/pulse.h"
#include "config/config.h"
#include "gateway/edge/state/edge_deaths.h"
#include "gateway/serve/rights.h"

struct serve_half_options {
    const struct config *config;
    const struct config_sources *sources; /* for a reload; NULL = none */
    const struct rights *rights;
    pid_t parent;          /* it ends with this process; 0 = started alone */
    int parent_signal;     /* how; 0 = SIGTERM */
    bool is_rank;          /* a process that computes beside an engine */
    int public_descriptor; /* bound and listening, or -1 (edge alone) */
    int admin_descriptor;
    int ready_descriptor;             /* or -1 */
    struct pulse *pulse;              /* of this half; NULL: nobody watches */
    const struct edge_deaths *deaths; /* the edge's alone; or NULL */
};

/* Both return when the half has ended. CONFLICT when another holds the directory. */
enum status serve_half_run_engine(const struct serve_half_options *options);
enum status serve_half_run_edge(const struct serve_half_options *options);

/* The engine's process from here on: no path but those beneath D/engine (`state`, borrowed), no
 * network, no other program. Public so that tests can try to get out. */
enum status serve_half_confine_engine(const struct serve_half_options *options, int state);

/* `banyan edge` and `banyan engine` alone: decides rights, makes the data directory, runs. */
enum status serve_half_run_alone(const struct config *config, const struct config_sources *sources,
                                 enum status (*run)(const struct serve_half_options *options));
