/* serve_half: the edge or the engine as a process of its own: it opens what it needs with the
 * rights of the start, gives these rights up, and runs.
 *
 * Owns:     the order of these steps; the lock D/engine/engine.lock; the descriptors that it opens.
 * Thread:   the process's only one until edge or engine runs.
 * Cost:     a few milliseconds at start.
 * Not here: what edge and engine do (edge, engine_http), starting and watching them (serve).
 *
 *   engine   model, ranks, D/engine, lock, socket, device  ─► user ─► Landlock ─► seccomp ─► run
 *   edge     listeners (unless given)                      ─► user ─► Landlock ─► seccomp ─► run
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
    pid_t parent;          /* the process ends when this one ends; 0 = it was started alone */
    int parent_signal;     /* the signal that ends it then; 0 = SIGTERM */
    bool is_rank;          /* the process is a rank of an engine */
    int public_descriptor; /* bound and listening, or -1 (edge alone) */
    int admin_descriptor;
    int ready_descriptor;             /* gets a byte when the process serves; -1 = none */
    struct pulse *pulse;              /* signs of life; NULL = nobody watches */
    const struct edge_deaths *deaths; /* for the edge; NULL = none */
};

/* Run the engine or the edge, and return when it has ended. CONFLICT when another one uses the data
 * directory. */
enum status serve_half_run_engine(const struct serve_half_options *options);
enum status serve_half_run_edge(const struct serve_half_options *options);

/* Confines the process as an engine: it can open paths beneath D/engine (`state`, borrowed) only,
 * and has no network and no other program. Public so that tests can try to escape. */
enum status serve_half_confine_engine(const struct serve_half_options *options, int state);

/* `banyan edge` or `banyan engine` without a parent: makes the data directory, decides the rights,
 * calls `run`. */
enum status serve_half_run_alone(const struct config *config, const struct config_sources *sources,
                                 enum status (*run)(const struct serve_half_options *options));
