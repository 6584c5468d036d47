#include "gateway/engine_http/face.h"

#include "config/base/hash.h"
#include "config/base/random_bytes.h"
#include "gateway/http/http_error.h"

void face_init(struct face *face)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[(FACE_INSTANCE_BYTES - 1) / 2];
    random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        face->instance[2 * i] = digits[bytes[i] >> 4];
        face->instance[2 * i + 1] = digits[bytes[i] & 15];
    }
    face->gauges.finals_waiting =
        metrics_get(face->metrics, METRIC_GAUGE, "banyan_final_records",
                    "Final records that no edge has acknowledged.", "", NULL, 0);
    face->gauges.finals_lost =
        metrics_get(face->metrics, METRIC_GAUGE, "banyan_final_records_lost",
                    "Final records overwritten before an edge acknowledged them.", "", NULL, 0);
    face->gauges.jobs = metrics_get(face->metrics, METRIC_GAUGE, "banyan_engine_jobs",
                                    "Requests that the engine's face has not ended.", "", NULL, 0);
}

void face_metrics_set(const struct face *face)
{
    struct final_ring_figures finals = final_ring_figures(face->finals);
    metric_set(face->gauges.finals_waiting, (double)(finals.last - finals.acknowledged));
    metric_set(face->gauges.finals_lost, (double)finals.lost);
    metric_set(face->gauges.jobs, face->job_count);
}

/* Never 0, which marks an empty entry. */
static uint64_t hash_of_id(struct slice request_id)
{
    return hash_bytes(hash_process_key(), request_id.bytes, request_id.length) | 1;
}

/* The link that points to the entry of this hash, or the last link of its list (0). */
static uint32_t *recent_find(struct face *face, uint64_t hash)
{
    uint32_t *to = &face->recent_lists[(hash >> 32) % FACE_RECENT_IDS];
    while (*to != 0 && face->recent[*to - 1].hash != hash)
        to = &face->recent[*to - 1].next;
    return to;
}

static void recent_drop(struct face *face, uint64_t hash)
{
    uint32_t *to = recent_find(face, hash);
    if (*to == 0)
        return;
    struct face_recent *recent = &face->recent[*to - 1];
    *to = recent->next;
    *recent = (struct face_recent){0};
}

bool face_remember_id(struct face *face, struct slice request_id)
{
    uint64_t hash = hash_of_id(request_id);
    if (*recent_find(face, hash) != 0)
        return false;
    struct face_recent *recent = &face->recent[face->recent_next];
    recent_drop(face, recent->hash);
    recent->hash = hash;
    *recent_find(face, hash) = ++face->recent_next; /* appends the entry to its list */
    face->recent_next %= FACE_RECENT_IDS;
    return true;
}

void face_forget_id(struct face *face, struct slice request_id)
{
    recent_drop(face, hash_of_id(request_id));
}

enum status face_bodies_create(struct face *face)
{
    static const struct byte_shares_rule rule = {.limit_bytes = LIMIT_REQUEST_BYTES_IN_ENGINE,
                                                 .floor_bytes = LIMIT_SMALL_BODY_BYTES,
                                                 .reserve_bytes =
                                                     LIMIT_REQUEST_BYTES_IN_ENGINE / 16};
    return byte_shares_create(&face->bodies, &rule);
}

void face_bodies_destroy(struct face *face)
{
    /* Requests that have not ended when the process ends still use the shares. */
    if (face->bodies != NULL && byte_shares_owners(face->bodies) == 0)
        byte_shares_destroy(face->bodies);
    face->bodies = NULL;
}

enum status face_reserve_body(struct face *face, const uint8_t tenant[16], size_t bytes,
                              struct byte_shares_hold *hold)
{
    switch (byte_shares_take(face->bodies, hold, tenant, bytes)) {
    case BYTE_SHARES_OK:
        face->body_count++;
        return STATUS_OK;
    case BYTE_SHARES_OWN:
        FAIL(STATUS_ENGINE_SHARE,
             "Waiting requests of this tenant use all the memory in the engine that they may use "
             "now; send fewer at once, or try again when some have ended.");
    case BYTE_SHARES_ALL:
        FAIL(STATUS_BUSY, "The engine's memory for waiting requests is used up.");
    case BYTE_SHARES_NO_MEMORY:
        break;
    }
    FAIL(STATUS_NO_MEMORY, "no memory for a request");
}

void face_give_back_body(struct face *face, struct byte_shares_hold *hold)
{
    byte_shares_leave(face->bodies, hold);
}

void face_release_body(struct face *face, struct byte_shares_hold *hold)
{
    ASSERT(face->body_count > 0);
    face->body_count--;
    byte_shares_leave(face->bodies, hold);
}

static void face_pump(void *context)
{
    struct face *face = context;
    /* Cleared before events are taken: an event that comes meanwhile posts again. */
    atomic_store(&face->is_pump_posted, false);
    struct source_event event;
    struct source *source = face->source;
    uint32_t taken = 0;
    while (taken < FACE_PUMP_EVENTS && source->ops->next(source, &event)) {
        struct face_sink *sink = event.engine.context;
        sink->take(sink, &event);
        taken++;
    }
    if (taken == FACE_PUMP_EVENTS)
        face_wake(face); /* the other events, after the loop's other work */
    if (source->ops->has_failed(source))
        face->failed(face->failed_context);
}

void face_wake(void *context)
{
    struct face *face = context;
    if (!atomic_exchange(&face->is_pump_posted, true))
        loop_post(face->loop, face_pump, face);
}

bool face_accepts(struct face *face, struct http_request *request)
{
    if (!face->is_draining)
        return true;
    http_respond_error(request, STATUS_UNAVAILABLE, NULL, "The engine is shutting down.");
    return false;
}
