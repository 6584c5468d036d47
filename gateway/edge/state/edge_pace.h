/* edge_pace: how long a small request waits while the engine generates for another tenant.
 *
 * A request that generates nothing (tokenize, models, a refusal) still costs some 0.1 to 0.2 ms of
 * both event loops and of the ledger's thread. These run at nice 0 and the compute threads at nice
 * 10, so each such request holds up a step of another tenant. One client asks thousands a second.
 *
 *   request ─► its owner has asked for less than `rate` a second ──────────► at once
 *          └─► more, and another tenant generates, or did a second ago ──► waits for its turn
 *
 * The rate is a bucket for each owner (GCRA): a quarter of a second's requests may come at once. A
 * request waits at most EDGE_PACE_MOST_MS. Who would wait longer has that many waiting already.
 *
 * An owner is a tenant, or the address of a caller that is refused. Refused generations fill a
 * bucket of their own, and generations wait for that one alone: a tenant that tokenises a lot does
 * not hold up its own chats.
 *
 * Owns:     counts and buckets of owners by a keyed hash. Two owners share a row with a chance of
 *           1 in EDGE_PACE_ROWS; they are then one owner.
 * Thread:   the loop's thread.
 * Cost:     O(1), memory only in edge_pace_create.
 * Not here: the waiting itself (edge_forward).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "config/base/status.h"

enum {
    EDGE_PACE_ROWS = 16384,
    EDGE_PACE_MOST_MS = 2000,
    EDGE_PACE_OPEN_MS = 100,    /* for a route without a key: whoever looks after us asks it */
    EDGE_PACE_RECENT_MS = 1000, /* between two answers of a client that chats */
};

struct edge_pace;

/* What a request does to its owner's buckets. */
enum edge_pace_kind {
    EDGE_PACE_SMALL,      /* fills the bucket of small requests and waits for it */
    EDGE_PACE_GENERATION, /* waits for the bucket of refused generations */
};

/* `rate`: small requests a second of one owner; 0: nobody waits. NO_MEMORY. */
enum status edge_pace_create(struct edge_pace **out, uint32_t rate);
void edge_pace_destroy(struct edge_pace *pace);

/* The row of a tenant (auth's hash of it), or of a peer's address. */
uint32_t edge_pace_tenant(const uint8_t *tenant_hash);
uint32_t edge_pace_address(struct slice peer);

/* A request of that owner was refused before it began. */
void edge_pace_refused(struct edge_pace *pace, uint32_t owner, int64_t now_us);
/* A generation of that owner begins, or is over; `is_refused`: with a refusal of 4xx. */
void edge_pace_began(struct edge_pace *pace, uint32_t owner);
void edge_pace_ended(struct edge_pace *pace, uint32_t owner, bool is_refused, int64_t now_us);

/* Milliseconds that a request of that owner waits, at most `most_ms`. `is_over` (may be NULL): it
 * would be more, so that it is to be refused when the time is over. */
uint32_t edge_pace_wait_ms(struct edge_pace *pace, uint32_t owner, enum edge_pace_kind kind,
                           uint32_t most_ms, int64_t now_us, bool *is_over);
