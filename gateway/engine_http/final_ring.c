#include "gateway/engine_http/final_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/mem.h"

enum { FINAL_RING_VERSION = 1 };

static const uint64_t MAGIC = 0x676e69724c4e4946u; /* "FINLring" */

struct final_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t capacity;
    uint32_t reserved;
    uint64_t next;  /* sequence of the next record, from 1 */
    uint64_t acked; /* all up to this one are counted */
    uint64_t lost;
    _Alignas(64) struct final_record slots[];
};

struct final_ring {
    struct final_header *header;
    size_t bytes;
};

static enum status open_map(struct final_ring *ring, int descriptor, uint32_t capacity)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    bool is_new = info.st_size == 0;
    if (!is_new && (size_t)info.st_size != ring->bytes)
        FAIL(STATUS_CORRUPT, "final records: the file has another size than this version's");
    /* Every block is taken now: a hole that meets a full disk later would be a SIGBUS. */
    int error = posix_fallocate(descriptor, 0, (off_t)ring->bytes);
    if (error != 0 && is_new && ftruncate(descriptor, 0) != 0)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    if (error != 0)
        FAIL(error == ENOSPC ? STATUS_STORAGE_FULL : STATUS_IO, "final records: %s",
             strerror(error));
    void *map = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    ring->header = map;
    if (is_new)
        *ring->header = (struct final_header){.magic = MAGIC,
                                              .version = FINAL_RING_VERSION,
                                              .slot_bytes = sizeof(struct final_record),
                                              .capacity = capacity,
                                              .next = 1};
    const struct final_header *header = ring->header;
    bool is_ours = header->magic == MAGIC && header->version == FINAL_RING_VERSION &&
                   header->slot_bytes == sizeof(struct final_record) &&
                   header->capacity == capacity && header->next >= 1 &&
                   header->acked < header->next;
    if (!is_ours)
        FAIL(STATUS_CORRUPT, "final records: the file is not of this version; move it away");
    return STATUS_OK;
}

enum status final_ring_open(struct final_ring **out, int directory, const char *name,
                            uint32_t capacity)
{
    ASSERT(capacity >= 1);
    struct final_ring *ring = mem_zalloc(1, sizeof *ring);
    if (ring == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the final records");
    ring->bytes = sizeof(struct final_header) + (size_t)capacity * sizeof(struct final_record);
    int descriptor = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    enum status status = STATUS_OK;
    if (descriptor < 0)
        FAIL_OUT(STATUS_IO, "final records %s: %s", name, strerror(errno));
    TRY_OUT(open_map(ring, descriptor, capacity));
    *out = ring;
    ring = NULL;
out:
    if (descriptor >= 0)
        close(descriptor);
    final_ring_close(ring);
    return status;
}

void final_ring_close(struct final_ring *ring)
{
    if (ring == NULL)
        return;
    if (ring->header != NULL)
        munmap(ring->header, ring->bytes);
    mem_free(ring);
}

void final_ring_append(struct final_ring *ring, struct final_record *record)
{
    struct final_header *header = ring->header;
    record->sequence = header->next;
    if (header->next - header->acked > header->capacity) {
        header->acked = header->next - header->capacity;
        header->lost++;
    }
    header->slots[header->next % header->capacity] = *record;
    /* The slot is whole before the count says so: a killed process leaves no half record. */
    __atomic_store_n(&header->next, header->next + 1, __ATOMIC_RELEASE);
}

enum status final_ring_acknowledge(struct final_ring *ring, uint64_t sequence)
{
    if (sequence >= ring->header->next)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "record_seq", "no record %llu was ever written",
                   (unsigned long long)sequence);
    if (sequence > ring->header->acked)
        ring->header->acked = sequence;
    return STATUS_OK;
}

bool final_ring_next(const struct final_ring *ring, uint64_t sequence, struct final_record *out)
{
    const struct final_header *header = ring->header;
    uint64_t first = sequence > header->acked ? sequence + 1 : header->acked + 1;
    if (first >= header->next)
        return false;
    *out = header->slots[first % header->capacity];
    /* A file can be damaged: what is read from it stays inside its types. */
    out->request_id[sizeof out->request_id - 1] = '\0';
    if ((unsigned)out->report.finish > ENGINE_FINISH_ERROR)
        out->report.finish = ENGINE_FINISH_ERROR;
    return out->sequence == first;
}

uint64_t final_ring_unacknowledged(const struct final_ring *ring)
{
    return ring->header->next - 1 - ring->header->acked;
}

uint64_t final_ring_lost(const struct final_ring *ring)
{
    return ring->header->lost;
}

void final_ring_render(const struct final_record *record, struct buffer *out)
{
    const struct engine_report *report = &record->report;
    buffer_append_text(out, "{\"protocol\":1,\"request_id\":");
    buffer_append_json_string(out, slice_of(record->request_id));
    buffer_printf(out,
                  ",\"record_seq\":%llu,\"prompt_tokens\":%u,\"cached_tokens\":%u,"
                  "\"completion_tokens\":%u,\"finish_reason\":\"%s\",\"estimated\":false,",
                  (unsigned long long)record->sequence, report->prompt_tokens,
                  report->cached_tokens, report->completion_tokens,
                  engine_finish_name(report->finish));
    buffer_printf(out,
                  "\"queue_us\":%lld,\"prefill_us\":%lld,\"decode_us\":%lld,\"preemptions\":%u,"
                  "\"swapped_pages\":%u,\"swap_us\":%lld}",
                  (long long)report->queue_us, (long long)report->prefill_us,
                  (long long)report->decode_us, report->preemptions, report->swapped_pages,
                  (long long)report->swap_us);
}
