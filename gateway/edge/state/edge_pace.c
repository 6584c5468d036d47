#include "gateway/edge/state/edge_pace.h"

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "gateway/http/failure_guard.h"

enum { SECOND_US = 1000000, BURST_PARTS = 4 };

/* One owner. A bucket is the time at which it is empty again. */
struct row {
    int64_t small_us;
    int64_t refused_us;
    uint32_t generations; /* that run now */
};

/* An owner that generated, and until when that counts. */
struct recent {
    uint32_t owner;
    int64_t until_us;
};

struct edge_pace {
    int64_t unit_us; /* the time of one request at the rate; 0: no request waits */
    uint32_t generations;
    struct recent recent[2]; /* the last owner, and the last other owner before it */
    struct row rows[EDGE_PACE_ROWS];
};

enum status edge_pace_create(struct edge_pace **out, uint32_t rate)
{
    struct edge_pace *pace = mem_zalloc(1, sizeof *pace);
    if (pace == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the pace of small requests");
    pace->unit_us = rate == 0 ? 0 : SECOND_US / rate;
    *out = pace;
    return STATUS_OK;
}

void edge_pace_destroy(struct edge_pace *pace)
{
    mem_free(pace);
}

uint32_t edge_pace_tenant(const uint8_t *tenant_hash)
{
    return hash_bytes(hash_process_key(), tenant_hash, 16) % EDGE_PACE_ROWS;
}

uint32_t edge_pace_address(struct slice peer)
{
    return hash_mix64(failure_guard_address(peer)) % EDGE_PACE_ROWS;
}

static void bucket_fill(const struct edge_pace *pace, int64_t *bucket_us, size_t body_bytes,
                        int64_t now_us)
{
    int64_t units = 1 + (int64_t)(body_bytes / EDGE_PACE_PART_BYTES);
    *bucket_us = (*bucket_us > now_us ? *bucket_us : now_us) + units * pace->unit_us;
}

/* Fills the owner's bucket of refusals, at most up to one longest wait. Otherwise refusals that
 * delayed no other owner could make it wait for hours. */
void edge_pace_refused(struct edge_pace *pace, uint32_t owner, size_t body_bytes, int64_t now_us)
{
    int64_t most_us = now_us + EDGE_PACE_MOST_MS * INT64_C(1000) + SECOND_US / BURST_PARTS;
    int64_t *bucket_us = &pace->rows[owner].refused_us;
    bucket_fill(pace, bucket_us, body_bytes, now_us);
    if (*bucket_us > most_us)
        *bucket_us = most_us;
}

void edge_pace_began(struct edge_pace *pace, uint32_t owner)
{
    pace->generations++;
    pace->rows[owner].generations++;
}

void edge_pace_ended(struct edge_pace *pace, uint32_t owner, bool is_idle, size_t body_bytes,
                     int64_t now_us)
{
    struct row *row = &pace->rows[owner];
    ASSERT(row->generations > 0 && pace->generations > 0);
    pace->generations--;
    row->generations--;
    if (is_idle) {
        edge_pace_refused(pace, owner, body_bytes, now_us);
        return;
    }
    if (pace->recent[0].owner != owner)
        pace->recent[1] = pace->recent[0];
    pace->recent[0] = (struct recent){owner, now_us + EDGE_PACE_RECENT_MS * INT64_C(1000)};
}

/* Whether another owner generates, or did less than EDGE_PACE_RECENT_MS ago. */
static bool others_generate(const struct edge_pace *pace, uint32_t owner, int64_t now_us)
{
    const struct recent *recent = &pace->recent[pace->recent[0].owner == owner];
    return pace->generations > pace->rows[owner].generations ||
           (recent->owner != owner && recent->until_us > now_us);
}

uint32_t edge_pace_wait_ms(struct edge_pace *pace, uint32_t owner, enum edge_pace_kind kind,
                           uint32_t most_ms, int64_t now_us, bool *is_over)
{
    struct row *row = &pace->rows[owner];
    int64_t *bucket_us = kind == EDGE_PACE_SMALL ? &row->small_us : &row->refused_us;
    if (is_over != NULL)
        *is_over = false;
    if (pace->unit_us == 0 || !others_generate(pace, owner, now_us))
        return 0;
    int64_t wait_us = *bucket_us - now_us - SECOND_US / BURST_PARTS;
    if (wait_us > most_ms * INT64_C(1000)) {
        if (is_over != NULL)
            *is_over = true;
        return most_ms;
    }
    if (kind == EDGE_PACE_SMALL)
        bucket_fill(pace, bucket_us, 0, now_us);
    return wait_us > 0 ? (uint32_t)((wait_us + 999) / 1000) : 0;
}
