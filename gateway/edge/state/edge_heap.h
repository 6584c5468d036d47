/* edge_heap: how much of the heap is in use.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: whose requests hold how much (edge_memory).
 */
#pragma once

#include <stddef.h>

/* Bytes in use, now. */
size_t edge_heap_bytes(void);
