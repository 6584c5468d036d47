/* stderr_lines: logs what libraries print on the stream `stderr`.
 *
 * Owns:     the C library's stream between begin and end. Descriptor 2 does not change, so the log
 *           and a sanitizer's report still go there.
 * Thread:   any; the first begin and the last end while no thread prints.
 * Cost:     one line of the log for each line, with the rate limit of log_share; lines above it are
 *           counted.
 * Not here: the log (config/base/log).
 *
 * libh2o prints a line for each HTTP/2 frame of unknown type, and any client may send these without
 * end.
 */
#pragma once

#include "config/base/status.h"

/* Calls may be nested, each with its stderr_lines_end: lines are logged between the first begin and
 * the last end. NO_MEMORY. */
enum status stderr_lines_begin(void);
/* The last end restores the stream. */
void stderr_lines_end(void);
