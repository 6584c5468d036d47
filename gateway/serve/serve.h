/* serve: the parent: starts edge and engine, watches them, restarts what dies, ends both in order.
 *
 * Owns:     two child processes and the listening sockets that outlive an edge.
 * Thread:   the process's only one; it never parses anything from outside.
 * Cost:     asleep but for signals.
 * Not here: what the children do (edge, engine_http), options (config).
 *
 *   SIGTERM ─► serve ─► edge: drains (running answers end, new ones 503), exits
 *                    ─► then engine: exits
 *   engine dies ─► started again after 0.1 s, doubling to 5 s; 0.1 s again once it ran for 10 s
 */
#pragma once

#include "config/config.h"

/* Runs until SIGTERM or SIGINT and both children have ended. Prints "ready https://A:P" on standard
 * output once both serve. Fails when an address is in use, or when a half cannot start for a reason
 * that another try would meet again (it has said which) before it was ever ready. */
enum status serve_run(const struct config *config, const struct config_sources *sources);
