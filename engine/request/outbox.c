#include "engine/request/outbox.h"

#include <string.h>

#include "config/base/mem.h"

enum { RECORD_ALIGNMENT = 16 };

size_t outbox_record_bytes(uint32_t top_count, size_t text_bytes)
{
    size_t bytes =
        sizeof(struct outbox_record) + top_count * sizeof(struct engine_logprob) + text_bytes;
    return (bytes + RECORD_ALIGNMENT - 1) & ~(size_t)(RECORD_ALIGNMENT - 1);
}

enum status outbox_init(struct outbox *outbox, size_t capacity_bytes, size_t record_bytes_max)
{
    size_t capacity = (capacity_bytes + 3 * record_bytes_max + 63) & ~(size_t)63;
    outbox->capacity = capacity;
    outbox->held = 0;
    atomic_init(&outbox->head, 0);
    atomic_init(&outbox->tail, 0);
    outbox->bytes = mem_alloc_aligned(64, capacity);
    if (outbox->bytes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an outbox of %zu bytes", capacity);
    return STATUS_OK;
}

void outbox_deinit(struct outbox *outbox)
{
    mem_free(outbox->bytes);
    outbox->bytes = NULL;
}

/* A record of this kind fills the ring up to its end. Its `bytes` and `kind` always fit there,
 * since records and capacity are multiples of 16. */
static const uint32_t skip_kind = UINT32_MAX;

bool outbox_push(struct outbox *outbox, const struct outbox_record *record,
                 const struct engine_logprob *top, struct slice text)
{
    size_t bytes = outbox_record_bytes(record->top_count, text.length);
    size_t head = atomic_load_explicit(&outbox->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&outbox->tail, memory_order_acquire);
    size_t offset = head % outbox->capacity;
    size_t skip = offset + bytes > outbox->capacity ? outbox->capacity - offset : 0;
    if (head + skip + bytes - tail > outbox->capacity)
        return false;
    if (skip > 0) {
        const uint32_t filler[2] = {(uint32_t)skip, skip_kind};
        memcpy(outbox->bytes + offset, filler, sizeof(filler));
        offset = 0;
    }
    struct outbox_record copy = *record;
    copy.bytes = (uint32_t)bytes;
    copy.text_bytes = (uint32_t)text.length;
    char *cursor = outbox->bytes + offset;
    memcpy(cursor, &copy, sizeof(copy));
    cursor += sizeof(copy);
    if (record->top_count > 0)
        memcpy(cursor, top, record->top_count * sizeof(*top));
    cursor += record->top_count * sizeof(*top);
    if (text.length > 0)
        memcpy(cursor, text.bytes, text.length);
    atomic_store_explicit(&outbox->head, head + skip + bytes, memory_order_release);
    return true;
}

const struct outbox_record *outbox_next(struct outbox *outbox, const struct engine_logprob **top,
                                        struct slice *text)
{
    size_t tail = atomic_load_explicit(&outbox->tail, memory_order_relaxed) + outbox->held;
    outbox->held = 0;
    size_t head = atomic_load_explicit(&outbox->head, memory_order_acquire);
    const struct outbox_record *record = NULL;
    while (tail != head) {
        record = (const void *)(outbox->bytes + tail % outbox->capacity);
        if ((uint32_t)record->kind != skip_kind)
            break;
        tail += record->bytes;
        record = NULL;
    }
    atomic_store_explicit(&outbox->tail, tail, memory_order_release);
    if (record == NULL)
        return NULL;
    outbox->held = record->bytes;
    const char *cursor = (const char *)(record + 1);
    *top = (const void *)cursor;
    cursor += record->top_count * sizeof(**top);
    *text = (struct slice){cursor, record->text_bytes};
    return record;
}
