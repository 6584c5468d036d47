/* serve: the parent: starts edge and engine, watches them, restarts what dies, ends both in order.
 *
 * Owns:     two child processes and the listening sockets that outlive an edge.
 * Thread:   the process's only one; it never parses anything from outside.
 * Cost:     asleep but for signals and a look at the children twice a second.
 * Not here: what the children do (edge, engine_http), options (config).
 *
 *   SIGTERM ─► serve ─► edge: drains (running answers end, new ones 503), exits
 *                    ─► then engine: exits
 *   a half dies, or cannot be started ─► again after 0.1 s, doubling to 5 s; 0.1 s once more
 *                                        when it has run for 10 s
 *   either gives no sign of life for hang_timeout_s ─► SIGKILL, and as above
 */
#pragma once

#include "config/config.h"

/* Runs until SIGTERM or SIGINT and both children have ended. Prints "ready https://A:P" on standard
 * output once both serve. Fails when an address is in use, or when a half cannot start for a reason
 * that another try would meet again (it has said which) before it was ever ready. */
enum status serve_run(const struct config *config, const struct config_sources *sources);
