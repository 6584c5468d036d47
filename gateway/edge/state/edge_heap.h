/* edge_heap: how many bytes of this process's heap are in use.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one mallinfo2, which locks each of the allocator's arenas for a moment.
 * Not here: how much each tenant's requests hold (edge_memory).
 */
#pragma once

#include <stddef.h>

/* Bytes that malloc has given out and not got back, large blocks with mappings of their own
 * included. */
size_t edge_heap_bytes(void);
