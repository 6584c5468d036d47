/* death: whether a call ends the process, for assertions that stay on in release builds.
 *
 * Owns:     the child process that makes the call.
 * Thread:   one.
 * Cost:     a fork.
 * Not here: what the call does.
 */
#pragma once

#include <stdbool.h>

/* Returns true when `body` aborts. What it changes stays in the child. */
bool death_by(void (*body)(void *context), void *context);
