#include "gateway/engine_http/face.h"

#include "config/base/hash.h"
#include "gateway/engine_http/face_job.h"
#include "gateway/http/http_error.h"

/* Never 0, which is an empty place. */
static uint64_t hash_of_id(struct slice request_id)
{
    return hash_bytes(hash_process_key(), request_id.bytes, request_id.length) | 1;
}

bool face_remember_id(struct face *face, struct slice request_id)
{
    uint64_t hash = hash_of_id(request_id);
    for (uint32_t i = 0; i < FACE_RECENT_IDS; i++) {
        if (face->recent_ids[i] == hash)
            return false;
    }
    face->recent_ids[face->recent_next] = hash;
    face->recent_next = (face->recent_next + 1) % FACE_RECENT_IDS;
    return true;
}

void face_forget_id(struct face *face, struct slice request_id)
{
    uint64_t hash = hash_of_id(request_id);
    for (uint32_t i = 0; i < FACE_RECENT_IDS; i++) {
        if (face->recent_ids[i] == hash)
            face->recent_ids[i] = 0;
    }
}

static void face_pump(void *context)
{
    struct face *face = context;
    /* Cleared first: an event that comes while we drain posts again. */
    atomic_store(&face->is_pump_posted, false);
    struct engine_event event;
    while (engine_next_event(face->engine, &event))
        face_job_on_event(event.context, &event);
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
