/* door_share: memory that requests hold before they are whole, booked to an owner.
 *
 * Owns:     accounts (one for each owner that holds something) and their sums.
 * Thread:   one.
 * Cost:     O(1) to book; O(accounts + holds of one of them) to find who gives way.
 * Not here: what is counted and what giving way means (arrival), how whole requests are booked.
 *
 * An owner is an address, a tenant, or whatever else 16 bytes can name. When the share is full, the
 * owner that holds the most gives way with the largest thing it holds, the youngest of equals. So
 * an owner that holds little is never touched while another one holds more. Whoever asks for room
 * before it takes it (door_share_admit) is let in by the same order:
 *
 *   room by the rule of byte_shares ──────────────────────────────► let in
 *   no room, but another owner would still hold as much as the one
 *     that asks, without the largest thing it holds ──────────────► that gives way, look again
 *   no room, the one that asks holds nothing, and a thing has had
 *     longer than its bytes need at LIMIT_UPLOAD_BYTES_S ──────────► the oldest of these gives way
 *   none of these ────────────────────────────────────────────────► refused
 *
 * So an owner that comes to hold b bytes is refused only while no other one holds b and its largest
 * thing beside: each of N owners has about an N-th, however much the others ask for. And when N
 * owners hold one thing each and fill the share, one more owner waits at most for the time that
 * the oldest of these things may take.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/byte_shares.h"

enum { DOOR_SHARE_OWNER_BYTES = 16, DOOR_SHARE_BUCKETS = 256 };

struct door_account;

/* What one connection or stream holds, of one owner. All zero: nothing, of nobody. */
struct door_hold {
    struct door_account *account;
    struct door_hold *previous;
    struct door_hold *next;
    size_t bytes;
    int64_t since_us; /* when it first held something */
    bool is_late;     /* it gives way because it took too long */
    uint64_t order;   /* the later it first held something, the greater */
    /* Lets go of it at once, and ends what holds it; set by whoever asks for room, and kept. */
    void (*give_way)(struct door_hold *hold);
};

struct door_share {
    size_t limit_bytes;
    size_t account_bytes_max; /* of one owner; SIZE_MAX: no limit of its own */
    size_t bytes;
    uint64_t order;
    int64_t now_us; /* the time, which the caller sets before it asks for room */
    uint32_t accounts;
    struct door_account *buckets[DOOR_SHARE_BUCKETS];
};

void door_share_init(struct door_share *share, size_t limit_bytes, size_t account_bytes_max);

/* `hold` has `bytes` of that owner's now, whether there is room or not: they are there. 0 lets go.
 * False without memory for an owner's account; then the hold has nothing. */
bool door_share_set(struct door_share *share, struct door_hold *hold,
                    const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t bytes);
/* Lets go of everything; no effect on an empty hold. */
void door_share_leave(struct door_share *share, struct door_hold *hold);

/* Whether the owner may hold so many bytes more as things are: by the rule of byte_shares, with a
 * floor for small requests. A small one also comes in when its owner holds at most what then stays
 * free: beside its own large one. */
bool door_share_has_room(const struct door_share *share,
                         const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more);

/* The same, but others that hold more may give way for it. OWN: the owner holds as much as the
 * others do. ALL: it holds nothing, and there is no room. */
enum byte_shares_verdict door_share_admit(struct door_share *share,
                                          const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more);

/* The hold that has to give way next: NULL when all is within the limits. `changed` is the hold
 * that was set last; the limit of one owner is checked for its owner alone. */
struct door_hold *door_share_yields(const struct door_share *share,
                                    const struct door_hold *changed);
