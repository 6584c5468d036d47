/* random_bytes: secure random bytes from the system.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a system call.
 * Not here: numbers that can be drawn again (rng).
 */
#pragma once

#include <stddef.h>

/* Fills `out` from the kernel's generator. Aborts the process if the kernel cannot deliver. */
void random_bytes(void *out, size_t length);
