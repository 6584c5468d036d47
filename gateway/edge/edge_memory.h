/* edge_memory: the edge's memory in all, and who is turned away when it runs short.
 *
 * Owns:     a timer; the last look at the heap, and what large requests took since.
 * Thread:   the loop's thread.
 * Cost:     a look at the heap every 100 ms (some 10 µs); an add and a compare a request.
 * Not here: bounds of a single body, stream or answer (limits.h), unfinished uploads (h2_sweep).
 *
 *   heap at the last look + taken since  ≤ limit        anybody
 *                                        ≤ 2 × limit    bodies of up to LIMIT_SMALL_BODY_BYTES
 *                                        above          nobody
 *
 * The heap is what the allocator says is in use beyond what was there at the start: bodies, jobs,
 * readers, TLS. Nothing has to be booked and nothing can be forgotten. That one tenant does not use
 * it up for all others is the work of the bounds for each tenant (edge_wait).
 */
#pragma once

#include "gateway/edge/edge_metrics.h"
#include "gateway/http/loop.h"

struct edge_memory;

enum status edge_memory_create(struct edge_memory **out, struct loop *loop, size_t limit_bytes,
                               struct edge_metrics *metrics);
void edge_memory_destroy(struct edge_memory *memory);

/* A request with a body of that size wants to go on. BUSY when there is no room for it; it is
 * counted in banyan_memory_refused_total then. */
enum status edge_memory_take(struct edge_memory *memory, size_t body_bytes);

/* Bytes of the heap in use, now; any thread. */
size_t edge_memory_heap_bytes(void);
