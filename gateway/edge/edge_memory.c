#include "gateway/edge/edge_memory.h"

#include <malloc.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

enum { LOOK_EVERY_MS = 100 };

struct edge_memory {
    struct loop_timer *timer;
    struct metric *refused;
    size_t limit_bytes;
    size_t start_bytes; /* what was there before any request: keys, tenants, databases */
    size_t seen_bytes;  /* at the last look, beyond that */
    size_t taken_bytes; /* since then */
};

size_t edge_memory_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd; /* large blocks have mappings of their own */
}

static void memory_look(void *context)
{
    struct edge_memory *memory = context;
    size_t heap_bytes = edge_memory_heap_bytes();
    memory->seen_bytes = heap_bytes > memory->start_bytes ? heap_bytes - memory->start_bytes : 0;
    memory->taken_bytes = 0;
    loop_timer_arm(memory->timer, LOOK_EVERY_MS);
}

enum status edge_memory_create(struct edge_memory **out, struct loop *loop, size_t limit_bytes,
                               struct edge_metrics *metrics)
{
    struct edge_memory *memory = mem_zalloc(1, sizeof *memory);
    if (memory == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the memory's account");
    memory->limit_bytes = limit_bytes;
    memory->start_bytes = edge_memory_heap_bytes();
    memory->refused = metrics->memory_refused;
    memory->timer = loop_timer_create(loop, memory_look, memory);
    memory_look(memory);
    *out = memory;
    return STATUS_OK;
}

void edge_memory_destroy(struct edge_memory *memory)
{
    if (memory == NULL)
        return;
    loop_timer_destroy(memory->timer);
    mem_free(memory);
}

enum status edge_memory_take(struct edge_memory *memory, size_t body_bytes)
{
    bool is_large = body_bytes > LIMIT_SMALL_BODY_BYTES;
    size_t most = is_large ? memory->limit_bytes : 2 * memory->limit_bytes;
    /* A large body is copied once, for the check and the engine. */
    size_t wanted = memory->seen_bytes + memory->taken_bytes + body_bytes;
    if (wanted > most) {
        metric_add(memory->refused, 1);
        FAIL(STATUS_BUSY,
             "The server has no memory for a request of this size now; try again shortly.");
    }
    memory->taken_bytes += body_bytes;
    return STATUS_OK;
}
