/* serve: the parent process: starts edge and engine, watches and restarts them, ends both in order.
 *
 * Owns:     two child processes, and the listening sockets, which outlive an edge.
 * Thread:   the process's only one; it parses nothing that comes from outside.
 * Cost:     sleeps, except for signals and for a look at the children twice a second.
 * Not here: what the children do (edge, engine_http), options (config).
 *
 *   SIGTERM or SIGINT         the edge drains (running answers end, new requests get 503) and
 *                             exits; then the engine exits
 *   a child dies, or cannot   another start after 0.1 s; the delay doubles up to 5 s, and begins
 *   be started                with 0.1 s again after a child that ran for 10 s
 *   a child gives no sign of  SIGKILL, then as above
 *   life for hang_timeout_s
 */
#pragma once

#include "config/config.h"

/* Runs until SIGTERM or SIGINT, and returns when both children have ended. Prints "ready
 * https://A:P" to standard output once both serve. Fails when an address or the data directory is
 * in use, and with UNAVAILABLE when a child that was never ready cannot start for a reason that
 * another start would meet again; the child has printed the reason. */
enum status serve_run(const struct config *config, const struct config_sources *sources);
