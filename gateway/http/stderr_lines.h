/* stderr_lines: what libraries print on the stream `stderr` becomes lines of the log.
 *
 * Owns:     the C library's stream between begin and end; the descriptor 2 is left alone, so that
 *           the log itself and a sanitizer's report go where they always went.
 * Thread:   any; the first begin and the last end while nobody prints.
 * Cost:     a line is one line of the log, at most LINES_A_SECOND of them; more are counted.
 * Not here: the log (config/base/log).
 *
 * libh2o reports frames of unknown type there, which anybody may send without end.
 */
#pragma once

#include "config/base/status.h"

/* NO_MEMORY. Each begin wants its end; between the first and the last of them lines are taken. */
enum status stderr_lines_begin(void);
/* The last one makes the stream again what it was. */
void stderr_lines_end(void);
