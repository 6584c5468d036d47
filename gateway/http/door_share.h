/* door_share: accounts for the memory of requests that are not whole yet, by owner.
 *
 * Owns:     an account for each owner that has memory, and the sums.
 * Thread:   one.
 * Cost:     O(1) to book; O(accounts + holds of one account) to find what gives way.
 * Not here: what is counted, and what giving way does (arrival); whole requests (edge_memory).
 *
 * An owner is an address, a tenant, or anything else that 16 bytes can name. When the share is over
 * its limit, the owner with the most bytes gives way with its largest hold, the youngest of equals.
 * So an owner with few bytes is never touched while another one has more. A request that asks for
 * memory before it takes it (door_share_admit) is admitted by the same rule:
 *
 *   there is room by the rule of byte_shares ─────────────────────► admitted
 *   no room, but another owner would still have as many bytes as
 *     this one without its largest hold ──────────────────────────► that hold gives way, try again
 *   no room, this owner has no bytes, and a hold has taken longer
 *     than its bytes need at LIMIT_UPLOAD_BYTES_S ─────────────────► the oldest of these gives way
 *   none of these ────────────────────────────────────────────────► refused
 *
 * So a request with which its owner would have b bytes is refused only while no other owner has b
 * bytes besides its largest hold. Each of N owners gets about an N-th, whatever the others ask for.
 * When N owners with one hold each fill the share, one more owner waits at most for the time that
 * the oldest of these holds may take.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/byte_shares.h"

enum { DOOR_SHARE_OWNER_BYTES = 16, DOOR_SHARE_BUCKETS = 256 };

struct door_account;

/* The bytes of one connection or stream, booked to one owner. All zero = nothing. */
struct door_hold {
    struct door_account *account; /* NULL = it has no bytes */
    struct door_hold *previous;
    struct door_hold *next;
    size_t bytes;
    int64_t since_us; /* when it first had bytes */
    bool is_late;     /* it gives way because it took too long */
    uint64_t order;   /* rises with the time at which it first had bytes */
    /* Releases the bytes at once and ends the upload that uses them. The caller sets it before
     * door_share_admit(); it stays set. */
    void (*give_way)(struct door_hold *hold);
};

struct door_share {
    size_t limit_bytes;
    size_t account_bytes_max; /* limit of one owner; SIZE_MAX = none */
    size_t bytes;
    uint64_t order;
    int64_t now_us; /* the time, which the caller sets before it asks for room */
    uint32_t accounts;
    struct door_account *buckets[DOOR_SHARE_BUCKETS];
};

void door_share_init(struct door_share *share, size_t limit_bytes, size_t account_bytes_max);

/* Books `bytes` of the owner to `hold`, in place of what it had. There need be no room, because the
 * memory is in use already. 0 releases the hold. False when there is no memory for an account; then
 * the hold has nothing. */
bool door_share_set(struct door_share *share, struct door_hold *hold,
                    const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t bytes);
/* Releases a hold; does nothing for an empty one. */
void door_share_leave(struct door_share *share, struct door_hold *hold);

/* Whether the owner may have so many bytes more, by the rule of byte_shares with a floor for small
 * requests. A small request is also admitted when its owner has at most as much as then stays free,
 * so that it finds room beside a large one of the same owner. */
bool door_share_has_room(const struct door_share *share,
                         const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more);

/* The same, but owners with more bytes may give way. OWN when there is no room and the owner has
 * bytes already; ALL when there is no room and it has none. */
enum byte_shares_verdict door_share_admit(struct door_share *share,
                                          const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more);

/* The hold that must give way next; NULL when all limits are kept. `changed` is the hold that was
 * set last: account_bytes_max is checked for its owner only. */
struct door_hold *door_share_yields(const struct door_share *share,
                                    const struct door_hold *changed);
