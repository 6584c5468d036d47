#include "gateway/engine_http/final_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/hash.h"
#include "config/base/log.h"
#include "config/base/mem.h"

enum { FINAL_RING_VERSION = 2, NAME_BYTES = 64, LOST_LOG_EVERY = 1024 };

static const uint64_t MAGIC = 0x676e69724c4e4946u; /* "FINLring" */

struct final_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t capacity;
    uint32_t live_capacity; /* 0 in version 1 */
    uint64_t next;          /* sequence of the next record; the first is 1 */
    uint64_t acked;         /* all records up to this one are acknowledged */
    uint64_t lost;          /* records that were overwritten before they were acknowledged */
};

/* A running request that was answered with 200. record.sequence is 0 until its end is recorded. */
struct final_live {
    uint32_t is_used;
    struct final_record record;
};

/* The model of the records from `first` on, up to the next era. `first` is stored after the whole
 * `name`. */
struct final_era {
    uint64_t first; /* 0 = unused */
    char name[LIMIT_NAME_BYTES];
};

/* The model of all records with the number of its place + 1. `is_used` is stored after the whole
 * `name`. */
struct final_name {
    uint64_t is_used;
    char name[LIMIT_NAME_BYTES];
};

/* The file's format depends on this size, on every machine. */
_Static_assert(sizeof(struct final_counts) == 64, "the ring's format has changed");

struct final_ring {
    struct final_header *header;      /* the mapped file: header, live, slots, eras */
    struct final_live *live;          /* [live_capacity] */
    struct final_record *slots;       /* [capacity] */
    struct final_era *eras;           /* [FINAL_RING_MODELS] */
    struct final_name *names;         /* [FINAL_RING_NAMES] */
    bool is_wanted[FINAL_RING_NAMES]; /* this process has given the name's number out */
    size_t bytes;
    int descriptor; /* has the lock */
    uint32_t recovered;
    uint32_t live_count;
    uint32_t *free_places; /* [live_capacity - live_count] free slots of `live` */
    /* Hash table from request ids to slots: each link is slot + 1, or 0 at the end of a chain. */
    uint32_t *buckets; /* [bucket_count], a power of two */
    uint32_t *chain;   /* [capacity] */
    uint32_t bucket_count;
};

/* When a process is killed, the file keeps every store that it made, in program order. So only the
 * compiler must be kept from moving stores. */
static void keep_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* --- the index of ids ---------------------------------------------------------------------- */

static uint32_t *index_bucket(const struct final_ring *ring, const char *request_id, size_t length)
{
    uint64_t hash = hash_bytes(hash_process_key(), request_id, length);
    return &ring->buckets[hash & (ring->bucket_count - 1)];
}

static void index_add(struct final_ring *ring, uint32_t slot)
{
    const char *id = ring->slots[slot].request_id;
    uint32_t *bucket = index_bucket(ring, id, strnlen(id, LIMIT_REQUEST_ID_BYTES));
    ring->chain[slot] = *bucket;
    *bucket = slot + 1;
}

static void index_drop(struct final_ring *ring, uint32_t slot)
{
    const char *id = ring->slots[slot].request_id;
    uint32_t *link = index_bucket(ring, id, strnlen(id, LIMIT_REQUEST_ID_BYTES));
    while (*link != 0 && *link != slot + 1)
        link = &ring->chain[*link - 1];
    if (*link != 0)
        *link = ring->chain[slot];
}

static bool id_is(const struct final_record *record, struct slice id)
{
    return strnlen(record->request_id, LIMIT_REQUEST_ID_BYTES) == id.length &&
           memcmp(record->request_id, id.bytes, id.length) == 0;
}

bool final_ring_knows(const struct final_ring *ring, struct slice request_id)
{
    uint32_t link = *index_bucket(ring, request_id.bytes, request_id.length);
    for (; link != 0; link = ring->chain[link - 1]) {
        if (id_is(&ring->slots[link - 1], request_id))
            return true;
    }
    for (uint32_t i = 0, seen = 0; seen < ring->live_count; i++) {
        seen += ring->live[i].is_used;
        if (ring->live[i].is_used != 0 && id_is(&ring->live[i].record, request_id))
            return true;
    }
    return false;
}

/* --- opening ------------------------------------------------------------------------------- */

static size_t open_bytes(uint32_t capacity, uint32_t live_capacity)
{
    return sizeof(struct final_header) + (size_t)live_capacity * sizeof(struct final_live) +
           (size_t)capacity * sizeof(struct final_record) +
           FINAL_RING_MODELS * sizeof(struct final_era) +
           FINAL_RING_NAMES * sizeof(struct final_name);
}

/* Renames the file of an older version. Its unacknowledged records are kept for the operator: read
 * here they could be misunderstood. */
static enum status open_aside(int directory, const char *name, uint32_t version)
{
    char aside[NAME_BYTES + 8];
    snprintf(aside, sizeof aside, "%s.v%u", name, version);
    if (renameat(directory, name, directory, aside) != 0)
        FAIL(STATUS_IO, "final records: the old file cannot be renamed to %s: %s", aside,
             strerror(errno));
    LOG(LOG_WARN, "final_records_set_aside", LOG_TEXT("file", aside),
        LOG_NUMBER("version", version));
    return STATUS_OK;
}

/* Opens and locks the file; a file of an older version is renamed and replaced. */
static enum status open_file(struct final_ring *ring, int directory, const char *name)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        struct final_header header = {0};
        ring->descriptor = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (ring->descriptor < 0)
            FAIL(STATUS_IO, "final records %s: %s", name, strerror(errno));
        if (flock(ring->descriptor, LOCK_EX | LOCK_NB) != 0)
            FAIL(STATUS_EXISTS, "final records: another engine uses this state directory");
        ssize_t got = pread(ring->descriptor, &header, sizeof header, 0);
        bool is_old = got == (ssize_t)sizeof header && header.magic == MAGIC &&
                      header.version < FINAL_RING_VERSION;
        if (!is_old)
            return STATUS_OK;
        TRY(open_aside(directory, name, header.version));
        close(ring->descriptor);
        ring->descriptor = -1;
    }
    FAIL(STATUS_CORRUPT,
         "final records: another process replaces the file; is an older engine running?");
}

/* The slots for running requests: as many as the file has; in a new file as many as are asked
 * for. */
static uint32_t open_live_capacity(const struct final_ring *ring, uint32_t asked)
{
    struct final_header header = {0};
    ssize_t got = pread(ring->descriptor, &header, sizeof header, 0);
    bool is_told = got == (ssize_t)sizeof header && header.magic == MAGIC &&
                   header.version == FINAL_RING_VERSION && header.live_capacity > 0;
    return is_told ? header.live_capacity : asked;
}

static enum status open_map(struct final_ring *ring, uint32_t capacity, uint32_t asked)
{
    struct stat info;
    const uint32_t live_capacity = open_live_capacity(ring, asked);
    ring->bytes = open_bytes(capacity, live_capacity);
    if (fstat(ring->descriptor, &info) != 0)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    bool is_new = info.st_size == 0;
    /* A file from before models, or numbers of models, were stored is shorter, and grows. */
    size_t without_names = ring->bytes - FINAL_RING_NAMES * sizeof(struct final_name);
    size_t without_models = without_names - FINAL_RING_MODELS * sizeof(struct final_era);
    const size_t size = (size_t)info.st_size;
    if (!is_new && size != ring->bytes && size != without_names && size != without_models)
        FAIL(STATUS_CORRUPT, "final records: the file has not the size that this version expects; "
                             "move it away");
    /* All blocks are allocated now. A store into a hole would be a SIGBUS when the disk is full. */
    int error = posix_fallocate(ring->descriptor, 0, (off_t)ring->bytes);
    if (error != 0 && is_new && ftruncate(ring->descriptor, 0) != 0)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    if (error != 0)
        FAIL(error == ENOSPC ? STATUS_STORAGE_FULL : STATUS_IO, "final records: %s",
             strerror(error));
    void *map = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->descriptor, 0);
    if (map == MAP_FAILED)
        FAIL(STATUS_IO, "final records: %s", strerror(errno));
    ring->header = map;
    struct final_header *header = ring->header;
    if (header->magic == 0) { /* a new file, or one whose maker died before it stored the magic */
        *header = (struct final_header){.version = FINAL_RING_VERSION,
                                        .slot_bytes = sizeof(struct final_record),
                                        .capacity = capacity,
                                        .live_capacity = live_capacity,
                                        .next = 1};
        keep_order();
        header->magic = MAGIC;
    }
    bool is_ours = header->magic == MAGIC && header->version == FINAL_RING_VERSION &&
                   header->slot_bytes == sizeof(struct final_record) &&
                   header->capacity == capacity && header->live_capacity == live_capacity &&
                   header->next >= 1 && header->acked < header->next;
    if (!is_ours)
        FAIL(STATUS_CORRUPT, "final records: the file is not of this version; move it away");
    ring->live = (void *)(header + 1);
    ring->slots = (void *)(ring->live + live_capacity);
    ring->eras = (void *)(ring->slots + capacity);
    ring->names = (void *)(ring->eras + FINAL_RING_MODELS);
    return STATUS_OK;
}

static enum status open_index(struct final_ring *ring)
{
    const struct final_header *header = ring->header;
    ring->bucket_count = 1;
    while (ring->bucket_count < header->capacity)
        ring->bucket_count *= 2;
    ring->buckets = mem_zalloc(ring->bucket_count, sizeof *ring->buckets);
    ring->chain = mem_zalloc(header->capacity, sizeof *ring->chain);
    ring->free_places = mem_zalloc(header->live_capacity, sizeof *ring->free_places);
    if (ring->buckets == NULL || ring->chain == NULL || ring->free_places == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the index of final records");
    uint64_t kept = header->next - 1 < header->capacity ? header->next - 1 : header->capacity;
    for (uint64_t sequence = header->next - kept; sequence < header->next; sequence++)
        index_add(ring, (uint32_t)(sequence % header->capacity));
    return STATUS_OK;
}

/* Records the requests that were running when an earlier process died. First, all sequences of
 * running requests are cleared: a sequence that was stored without its record would look as if the
 * request had been recorded, once another record gets that number. */
static void open_recover(struct final_ring *ring)
{
    const struct final_header *header = ring->header;
    for (uint32_t i = 0; i < header->live_capacity; i++) {
        struct final_live *live = &ring->live[i];
        live->is_used = live->is_used != 0;
        if (live->is_used != 0 && live->record.sequence != 0 &&
            live->record.sequence < header->next)
            live->is_used = 0;
        keep_order();
        live->record.sequence = 0;
        keep_order();
    }
    for (uint32_t i = 0; i < header->live_capacity; i++) {
        if (ring->live[i].is_used == 0)
            continue;
        struct final_record record = ring->live[i].record;
        record.report.finish = ENGINE_FINISH_ERROR;
        ring->live_count++;
        final_ring_end(ring, (int)i, &record);
        ring->recovered++;
    }
    /* The first slots are used first, so that searches (final_ring_knows) end early. */
    for (uint32_t i = 0; i < header->live_capacity; i++)
        ring->free_places[i] = header->live_capacity - 1 - i;
}

/* Makes room for more running requests while there are none: a new file with the same records
 * replaces the old file, which is unchanged until then. */
static enum status open_longer(struct final_ring **ring, int directory, const char *name,
                               uint32_t live_capacity)
{
    enum status status = STATUS_OK;
    const struct final_header *from = (*ring)->header;
    char longer[NAME_BYTES + 8];
    struct final_ring *to = mem_zalloc(1, sizeof *to);
    if (to == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the final records");
    to->descriptor = -1;
    snprintf(longer, sizeof longer, "%s.new", name);
    (void)unlinkat(directory, longer, 0); /* an earlier process may have died here */
    TRY_OUT(open_file(to, directory, longer));
    TRY_OUT(open_map(to, from->capacity, live_capacity));
    memcpy(to->slots, (*ring)->slots, from->capacity * sizeof *to->slots);
    memcpy(to->eras, (*ring)->eras, FINAL_RING_MODELS * sizeof *to->eras);
    memcpy(to->names, (*ring)->names, FINAL_RING_NAMES * sizeof *to->names);
    to->header->next = from->next;
    to->header->acked = from->acked;
    to->header->lost = from->lost;
    to->recovered = (*ring)->recovered;
    TRY_OUT(open_index(to));
    open_recover(to);
    keep_order();
    if (fsync(to->descriptor) != 0 || renameat(directory, longer, directory, name) != 0)
        FAIL_OUT(STATUS_IO, "final records: the longer file cannot replace the old one: %s",
                 strerror(errno));
    keep_order();
    struct final_ring *old = *ring;
    *ring = to;
    to = old;
out:
    if (status != STATUS_OK)
        (void)unlinkat(directory, longer, 0);
    final_ring_close(to);
    return status;
}

enum status final_ring_open(struct final_ring **out, int directory, const char *name,
                            uint32_t capacity, uint32_t live_capacity)
{
    ASSERT(capacity >= 1);
    ASSERT(live_capacity >= 1);
    enum status status = STATUS_OK;
    struct final_ring *ring = mem_zalloc(1, sizeof *ring);
    if (ring == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the final records");
    ring->descriptor = -1;
    TRY_OUT(open_file(ring, directory, name));
    TRY_OUT(open_map(ring, capacity, live_capacity));
    TRY_OUT(open_index(ring));
    open_recover(ring);
    if (ring->recovered > 0)
        LOG(LOG_WARN, "final_records_recovered", LOG_NUMBER("requests", ring->recovered));
    if (ring->header->live_capacity < live_capacity)
        TRY_OUT(open_longer(&ring, directory, name, live_capacity));
    *out = ring;
    ring = NULL;
out:
    final_ring_close(ring);
    return status;
}

void final_ring_close(struct final_ring *ring)
{
    if (ring == NULL)
        return;
    if (ring->header != NULL)
        munmap(ring->header, ring->bytes);
    if (ring->descriptor >= 0)
        close(ring->descriptor);
    mem_free(ring->buckets);
    mem_free(ring->chain);
    mem_free(ring->free_places);
    mem_free(ring);
}

/* --- models -------------------------------------------------------------------------------- */

/* The era of a record: the last one that began before it or with it; NULL when there is none. */
static const struct final_era *model_era(const struct final_ring *ring, uint64_t sequence)
{
    const struct final_era *found = NULL;
    for (size_t i = 0; i < FINAL_RING_MODELS; i++) {
        const struct final_era *era = &ring->eras[i];
        if (era->first != 0 && era->first <= sequence &&
            (found == NULL || era->first >= found->first))
            found = era;
    }
    return found;
}

void final_ring_name_model(struct final_ring *ring, const char *name)
{
    const struct final_header *header = ring->header;
    const struct final_era *last = model_era(ring, header->next);
    struct final_era *place = &ring->eras[0];
    if (last != NULL && strcmp(last->name, name) == 0)
        return;
    for (size_t i = 1; i < FINAL_RING_MODELS; i++) {
        if (ring->eras[i].first < place->first)
            place = &ring->eras[i];
    }
    if (last != NULL && last->first == header->next) /* its engine wrote no record */
        place = &ring->eras[last - ring->eras];
    place->first = 0;
    keep_order();
    snprintf(place->name, sizeof place->name, "%s", name);
    keep_order();
    place->first = header->next;
    keep_order();
}

const char *final_ring_model(const struct final_ring *ring, uint64_t sequence)
{
    const struct final_era *era = model_era(ring, sequence);
    return era != NULL && memchr(era->name, '\0', sizeof era->name) != NULL ? era->name : "";
}

/* A place whose name no record needs any more; FINAL_RING_NAMES when there is none. Records that
 * were acknowledged are never read again. Requests of this process keep a number before their
 * record is begun, so what it has given out stays. */
static uint16_t number_unneeded(const struct final_ring *ring)
{
    bool is_needed[FINAL_RING_NAMES + 1] = {false};
    const struct final_header *header = ring->header;
    uint16_t place = 0;
    for (uint64_t sequence = header->acked + 1; sequence < header->next; sequence++) {
        const uint16_t model = ring->slots[sequence % header->capacity].model;
        is_needed[model <= FINAL_RING_NAMES ? model : 0] = true;
    }
    while (place < FINAL_RING_NAMES && (is_needed[place + 1] || ring->is_wanted[place]))
        place++;
    return place;
}

enum status final_ring_number(struct final_ring *ring, const char *name, uint16_t *out)
{
    uint16_t place = 0;
    while (place < FINAL_RING_NAMES && ring->names[place].is_used != 0 &&
           strncmp(ring->names[place].name, name, LIMIT_NAME_BYTES) != 0)
        place++;
    if (place == FINAL_RING_NAMES) {
        place = number_unneeded(ring);
        if (place == FINAL_RING_NAMES)
            FAIL(STATUS_UNAVAILABLE,
                 "final records of %d other models wait for the edge to take them",
                 FINAL_RING_NAMES);
        ring->names[place].is_used = 0;
        keep_order();
    }
    if (ring->names[place].is_used == 0) {
        snprintf(ring->names[place].name, LIMIT_NAME_BYTES, "%s", name);
        keep_order();
        ring->names[place].is_used = 1;
        keep_order();
    }
    ring->is_wanted[place] = true;
    *out = (uint16_t)(place + 1);
    return STATUS_OK;
}

static const char *record_model(const struct final_ring *ring, const struct final_record *record)
{
    if (record->model == 0)
        return final_ring_model(ring, record->sequence);
    if (record->model > FINAL_RING_NAMES)
        return "";
    const char *name = ring->names[record->model - 1].name;
    return memchr(name, '\0', LIMIT_NAME_BYTES) != NULL ? name : "";
}

/* --- writing ------------------------------------------------------------------------------- */

int final_ring_begin(struct final_ring *ring, const struct final_record *record)
{
    ASSERT(ring->live_count < ring->header->live_capacity);
    ring->live_count++;
    uint32_t place = ring->free_places[ring->header->live_capacity - ring->live_count];
    struct final_live *live = &ring->live[place];
    ASSERT(live->is_used == 0);
    live->record = *record;
    live->record.sequence = 0;
    keep_order();
    live->is_used = 1;
    keep_order();
    return (int)place;
}

void final_ring_progress(struct final_ring *ring, int place, const struct final_counts *so_far,
                         int64_t at_us)
{
    struct final_live *live = &ring->live[place];
    ASSERT(live->is_used == 1);
    live->record.at_us = at_us;
    live->record.report = *so_far;
    keep_order(); /* the counts are stored before the edge can see the tokens */
}

/* Frees the slot of the next record. If it has an unacknowledged record, that one is lost, which is
 * counted and logged. */
static struct final_record *end_slot(struct final_ring *ring)
{
    struct final_header *header = ring->header;
    uint32_t slot = (uint32_t)(header->next % header->capacity);
    if (header->next > header->capacity)
        index_drop(ring, slot);
    if (header->next - header->acked > header->capacity) {
        header->lost++;
        keep_order();
        header->acked = header->next - header->capacity;
        keep_order();
        if (header->lost % LOST_LOG_EVERY == 1)
            LOG(LOG_ERROR, "final_record_lost", LOG_NUMBER("lost", header->lost),
                LOG_NUMBER("record_seq", header->acked));
    }
    return &ring->slots[slot];
}

void final_ring_end(struct final_ring *ring, int place, struct final_record *record)
{
    struct final_header *header = ring->header;
    struct final_live *live = place != FINAL_RING_NONE ? &ring->live[place] : NULL;
    record->sequence = header->next;
    if (live != NULL) {
        ASSERT(live->is_used == 1);
        live->record.sequence = record->sequence;
        keep_order();
    }
    struct final_record *slot = end_slot(ring);
    *slot = *record;
    keep_order();
    header->next++;
    keep_order();
    index_add(ring, (uint32_t)(slot - ring->slots));
    if (live != NULL) {
        live->is_used = 0;
        ring->free_places[header->live_capacity - ring->live_count] = (uint32_t)place;
        ring->live_count--;
    }
    keep_order();
}

enum status final_ring_acknowledge(struct final_ring *ring, uint64_t sequence)
{
    if (sequence >= ring->header->next)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "record_seq", "record %llu was never written",
                   (unsigned long long)sequence);
    if (sequence > ring->header->acked)
        ring->header->acked = sequence;
    return STATUS_OK;
}

/* --- reading ------------------------------------------------------------------------------- */

bool final_ring_next(const struct final_ring *ring, uint64_t sequence, struct final_record *out)
{
    const struct final_header *header = ring->header;
    uint64_t first = (sequence > header->acked ? sequence : header->acked) + 1;
    if (first == 0)
        return false;
    /* The file may be damaged. A slot without its record must not hide the records after it, and
     * values must stay in the range of their types. */
    while (first < header->next && ring->slots[first % header->capacity].sequence != first)
        first++;
    if (first >= header->next)
        return false;
    *out = ring->slots[first % header->capacity];
    out->request_id[sizeof out->request_id - 1] = '\0';
    out->service_class[sizeof out->service_class - 1] = '\0';
    /* Older engines left this member undefined. */
    if (out->report.reasoning_tokens > out->report.completion_tokens)
        out->report.reasoning_tokens = 0;
    if ((unsigned)out->report.finish > ENGINE_FINISH_GRAMMAR)
        out->report.finish = ENGINE_FINISH_ERROR;
    return true;
}

struct final_ring_figures final_ring_figures(const struct final_ring *ring)
{
    return (struct final_ring_figures){
        .last = ring->header->next - 1,
        .acknowledged = ring->header->acked,
        .lost = ring->header->lost,
        .live = ring->live_count,
        .recovered = ring->recovered,
    };
}

static void render_hex(struct buffer *out, const char *name, const uint8_t bytes[16])
{
    static const uint8_t none[16];
    static const char digits[] = "0123456789abcdef";
    buffer_append_text(out, name);
    if (memcmp(bytes, none, sizeof none) == 0) {
        buffer_append_text(out, "null");
        return;
    }
    buffer_append_char(out, '"');
    for (size_t i = 0; i < 16; i++) {
        buffer_append_char(out, digits[bytes[i] >> 4]);
        buffer_append_char(out, digits[bytes[i] & 15]);
    }
    buffer_append_char(out, '"');
}

struct final_counts final_ring_counts(const struct engine_report *report)
{
    return (struct final_counts){.prompt_tokens = report->prompt_tokens,
                                 .cached_tokens = report->cached_tokens,
                                 .completion_tokens = report->completion_tokens,
                                 .reasoning_tokens = report->reasoning_tokens,
                                 .queue_us = report->queue_us,
                                 .prefill_us = report->prefill_us,
                                 .decode_us = report->decode_us,
                                 .preemptions = report->preemptions,
                                 .swapped_pages = report->swapped_pages,
                                 .swap_us = report->swap_us,
                                 .finish = report->finish};
}

void final_ring_render(const struct final_ring *ring, const struct final_record *record,
                       const struct engine_report *whole, struct buffer *out)
{
    const struct final_counts *report = &record->report;
    buffer_append_text(out, "{\"protocol\":1,\"request_id\":");
    buffer_append_json_string(out, slice_of(record->request_id));
    buffer_printf(out, ",\"record_seq\":%llu", (unsigned long long)record->sequence);
    render_hex(out, ",\"tenant\":", record->tenant);
    render_hex(out, ",\"key\":", record->key);
    buffer_printf(out, ",\"route\":\"%s\",\"class\":",
                  record->route == FINAL_ROUTE_CHAT         ? "/v1/chat/completions"
                  : record->route == FINAL_ROUTE_GENERATE   ? "/v1/generate"
                  : record->route == FINAL_ROUTE_EMBEDDINGS ? "/v1/embeddings"
                                                            : "/v1/completions");
    buffer_append_json_string(out, slice_of(record->service_class));
    buffer_append_text(out, ",\"model\":");
    buffer_append_json_string(out, slice_of(record_model(ring, record)));
    buffer_printf(out,
                  ",\"at_us\":%lld,\"prompt_tokens\":%u,\"cached_tokens\":%u,"
                  "\"completion_tokens\":%u,\"reasoning_tokens\":%u,\"finish_reason\":\"%s\","
                  "\"estimated\":%s,",
                  (long long)record->at_us, report->prompt_tokens, report->cached_tokens,
                  report->completion_tokens, report->reasoning_tokens,
                  engine_finish_name(report->finish), report->is_estimated == 1 ? "true" : "false");
    buffer_printf(out,
                  "\"queue_us\":%lld,\"prefill_us\":%lld,\"decode_us\":%lld,\"preemptions\":%u,"
                  "\"swapped_pages\":%u,\"swap_us\":%lld",
                  (long long)report->queue_us, (long long)report->prefill_us,
                  (long long)report->decode_us, report->preemptions, report->swapped_pages,
                  (long long)report->swap_us);
    if (whole != NULL)
        buffer_printf(out,
                      ",\"cached_published\":%u,\"cached_group\":%u,\"cached_own\":%u,"
                      "\"cached_host\":%u,\"paused_us\":%lld,\"recomputed_tokens\":%u,"
                      "\"drafts_accepted\":%u,\"drafts_rejected\":%u",
                      whole->cached_public, whole->cached_group, whole->cached_own,
                      whole->cached_host_tokens, (long long)whole->paused_us,
                      whole->recomputed_tokens, whole->drafts_accepted, whole->drafts_rejected);
    buffer_append_char(out, '}');
}
