/* byte_shares: how much memory each owner holds, and the rule that says whether it may hold more.
 *
 * Owns:     a table of owners (16 bytes each name one) and what each of them holds.
 * Thread:   one at a time.
 * Cost:     O(1) expected; an allocation for an owner's first bytes.
 * Not here: the bytes themselves, who the owners are, what a refused owner is told.
 *
 * The rule is the dynamic threshold of switches with one buffer for all ports (Choudhury and Hahne,
 * 1998). `own` is what the owner holds, `more` what it asks for, `all` what all owners hold, and
 * `free` what would be left of the limit once the new bytes are booked:
 *
 *     allowed when    own ≤ free / BYTE_SHARES_PARTS
 *     or when         own + more ≤ floor and all + more ≤ limit + reserve
 *
 * An owner that is alone may hold a fifth of the limit, plus the last bytes that it took. Every
 * greedy owner leaves less for the others, but always something. Let N owners take what they can,
 * each at most b bytes at a time. Then at least left(N) bytes stay free, where
 *
 *     left(0) = limit,   left(n) = (left(n - 1) - b) × PARTS / (PARTS + 1)
 *
 * So an owner that holds at most (left(N) - more) / (PARTS + 1) is never refused. Proof: order the
 * N owners by the last time that the rule let each of them take more. At that time the n-th owner
 * held at most b bytes and its share of left(n - 1). Since then it has only given bytes back.
 *
 * The reserve lets small requests pass even when many owners have filled the limit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

enum { BYTE_SHARES_OWNER_BYTES = 16, BYTE_SHARES_PARTS = 4 };

struct byte_shares_rule {
    size_t limit_bytes;
    size_t floor_bytes;   /* an owner may hold this much although the limit is full … */
    size_t reserve_bytes; /* … while all owners together exceed the limit by at most this much */
};

struct byte_shares;
struct byte_shares_owner;

/* What one object holds on behalf of one owner. All zero: nothing, of no owner. */
struct byte_shares_hold {
    struct byte_shares_owner *owner;
    size_t bytes;
};

enum byte_shares_verdict {
    BYTE_SHARES_OK,
    BYTE_SHARES_OWN,       /* the owner has used up its share */
    BYTE_SHARES_ALL,       /* the owner holds little, but the limit and the reserve are full */
    BYTE_SHARES_NO_MEMORY, /* no memory for the owner's entry */
};

/* The rule alone: returns whether an owner that holds `own` may take `more` when all hold `total`.
 */
bool byte_shares_allow(const struct byte_shares_rule *rule, size_t total, size_t own, size_t more);

enum status byte_shares_create(struct byte_shares **out, const struct byte_shares_rule *rule);
/* Every hold must be empty. */
void byte_shares_destroy(struct byte_shares *shares);

/* Books `bytes` for the owner in `hold`, which must be empty. Books nothing unless the verdict is
 * BYTE_SHARES_OK. */
enum byte_shares_verdict byte_shares_take(struct byte_shares *shares, struct byte_shares_hold *hold,
                                          const uint8_t owner[BYTE_SHARES_OWNER_BYTES],
                                          size_t bytes);
/* Sets a hold that has an owner to `bytes`. They are booked whatever the verdict, because the
 * memory is in use already; the caller acts on the verdict. A hold that shrinks always gets
 * BYTE_SHARES_OK. */
enum byte_shares_verdict byte_shares_set(struct byte_shares *shares, struct byte_shares_hold *hold,
                                         size_t bytes);
/* Gives back all that the hold has; no effect on an empty one. */
void byte_shares_leave(struct byte_shares *shares, struct byte_shares_hold *hold);

size_t byte_shares_total(const struct byte_shares *shares);
/* Returns what the owner of the hold has in all its holds. */
size_t byte_shares_own(const struct byte_shares_hold *hold);
/* Returns the number of owners that have a hold. */
uint32_t byte_shares_owners(const struct byte_shares *shares);
