/* edge_pace: how long a small request waits while the engine generates for another tenant.
 *
 * A request that generates nothing (tokenize, models, a refusal) still costs some 0.1 to 0.2 ms of
 * both event loops and of the ledger's thread. These threads run at nice 0 and the compute threads
 * at nice 10, so each such request delays a step of another tenant. One client can send thousands a
 * second.
 *
 *   request ─► its owner has asked for less than `rate` a second ──────────► at once
 *          └─► more, and another tenant generates, or did a second ago ──► waits for its turn
 *
 * Each owner has a bucket with the rate (GCRA). The requests of a quarter of a second may come at
 * once. A request waits at most EDGE_PACE_MOST_MS. If it had to wait longer, its owner would have
 * that many requests waiting already.
 *
 * An owner is a tenant, or the address of a caller that is refused. Refused generations fill a
 * second bucket, and generations wait for that bucket only. So a tenant that tokenises a lot does
 * not delay its own chats. There a body counts too, because it was read, copied and parsed: each
 * EDGE_PACE_PART_BYTES of it as one request. A generation whose client left before an engine began
 * it counts as refused, because the server has worked for nothing.
 *
 * Owns:     the counts and buckets of owners, in rows chosen by a keyed hash. Two owners share a
 *           row with a probability of 1 in EDGE_PACE_ROWS. Then they count as one owner.
 * Thread:   the loop's thread.
 * Cost:     O(1). Only edge_pace_create allocates memory.
 * Not here: the waiting itself (edge_forward).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "config/base/status.h"

enum {
    EDGE_PACE_ROWS = 16384,
    EDGE_PACE_MOST_MS = 2000,
    EDGE_PACE_OPEN_MS = 100,    /* for a route without a key, because health checks call it */
    EDGE_PACE_RECENT_MS = 1000, /* a client that chats pauses so long between two answers */
    EDGE_PACE_PART_BYTES = 64 * 1024,
};

struct edge_pace;

/* What a request does to its owner's buckets. */
enum edge_pace_kind {
    EDGE_PACE_SMALL,      /* fills the bucket of small requests and waits for it */
    EDGE_PACE_GENERATION, /* waits for the bucket of refused generations */
};

/* Makes the table. `rate` is the number of small requests a second of one owner; with 0 no request
 * waits. NO_MEMORY. */
enum status edge_pace_create(struct edge_pace **out, uint32_t rate);
void edge_pace_destroy(struct edge_pace *pace);

/* These return the row of a tenant, from its tenant_hash, or of a peer's address. */
uint32_t edge_pace_tenant(const uint8_t *tenant_hash);
uint32_t edge_pace_address(struct slice peer);

/* Notes that a request of the owner, with a body of so many bytes, was refused before it began. */
void edge_pace_refused(struct edge_pace *pace, uint32_t owner, size_t body_bytes, int64_t now_us);
/* These note that a generation of the owner begins, or has ended. `is_idle` means that no engine
 * began it, because it was refused or because its client left. */
void edge_pace_began(struct edge_pace *pace, uint32_t owner);
void edge_pace_ended(struct edge_pace *pace, uint32_t owner, bool is_idle, size_t body_bytes,
                     int64_t now_us);

/* Returns the milliseconds that a request of the owner waits, at most `most_ms`. Sets `is_over`
 * (may be NULL) if the wait would be longer. The caller then refuses the request after the wait. */
uint32_t edge_pace_wait_ms(struct edge_pace *pace, uint32_t owner, enum edge_pace_kind kind,
                           uint32_t most_ms, int64_t now_us, bool *is_over);
