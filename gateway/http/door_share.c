#include "gateway/http/door_share.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/status.h"

enum {
    SMALL_BYTES = LIMIT_SMALL_BODY_BYTES + LIMIT_HEAD_BYTES,
    FLOOR_PARTS = 64,   /* the floor is at most 1/64 of the limit */
    RESERVE_PARTS = 16, /* the reserve is 1/16 of the limit */
    SLACK_PARTS = 8,    /* the slack is 1/8 of the largest hold */
};

struct door_account {
    struct door_account *chain;
    struct door_hold *holds;
    uint8_t owner[DOOR_SHARE_OWNER_BYTES];
    size_t bytes;
};

void door_share_init(struct door_share *share, size_t limit_bytes, size_t account_bytes_max)
{
    *share =
        (struct door_share){.limit_bytes = limit_bytes, .account_bytes_max = account_bytes_max};
}

static size_t bucket_of(const uint8_t *owner)
{
    return hash_bytes(hash_process_key(), owner, DOOR_SHARE_OWNER_BYTES) % DOOR_SHARE_BUCKETS;
}

static struct door_account *account_find(const struct door_share *share, const uint8_t *owner)
{
    struct door_account *account = share->buckets[bucket_of(owner)];
    while (account != NULL && memcmp(account->owner, owner, DOOR_SHARE_OWNER_BYTES) != 0)
        account = account->chain;
    return account;
}

static struct door_account *account_make(struct door_share *share, const uint8_t *owner)
{
    struct door_account *account = mem_zalloc(1, sizeof *account);
    if (account == NULL)
        return NULL;
    memcpy(account->owner, owner, DOOR_SHARE_OWNER_BYTES);
    struct door_account **bucket = &share->buckets[bucket_of(owner)];
    account->chain = *bucket;
    *bucket = account;
    share->accounts++;
    return account;
}

static void account_forget(struct door_share *share, struct door_account *account)
{
    ASSERT(account->bytes == 0);
    struct door_account **link = &share->buckets[bucket_of(account->owner)];
    while (*link != account)
        link = &(*link)->chain;
    *link = account->chain;
    share->accounts--;
    mem_free(account);
}

void door_share_leave(struct door_share *share, struct door_hold *hold)
{
    struct door_account *account = hold->account;
    if (account == NULL)
        return;
    ASSERT(account->bytes >= hold->bytes);
    ASSERT(share->bytes >= hold->bytes);
    account->bytes -= hold->bytes;
    share->bytes -= hold->bytes;
    *(hold->previous != NULL ? &hold->previous->next : &account->holds) = hold->next;
    if (hold->next != NULL)
        hold->next->previous = hold->previous;
    *hold = (struct door_hold){.give_way = hold->give_way};
    if (account->holds == NULL)
        account_forget(share, account);
}

static bool hold_join(struct door_share *share, struct door_hold *hold, const uint8_t *owner)
{
    struct door_account *account = account_find(share, owner);
    if (account == NULL)
        account = account_make(share, owner);
    if (account == NULL)
        return false;
    *hold = (struct door_hold){.account = account,
                               .next = account->holds,
                               .order = ++share->order,
                               .since_us = share->now_us,
                               .give_way = hold->give_way};
    if (account->holds != NULL)
        account->holds->previous = hold;
    account->holds = hold;
    return true;
}

bool door_share_set(struct door_share *share, struct door_hold *hold,
                    const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t bytes)
{
    bool is_others =
        hold->account != NULL && memcmp(hold->account->owner, owner, DOOR_SHARE_OWNER_BYTES) != 0;
    if (bytes == 0 || is_others)
        door_share_leave(share, hold);
    if (bytes == 0)
        return true;
    if (hold->account == NULL && !hold_join(share, hold, owner))
        return false;
    hold->account->bytes = hold->account->bytes - hold->bytes + bytes;
    share->bytes = share->bytes - hold->bytes + bytes;
    hold->bytes = bytes;
    return true;
}

bool door_share_has_room(const struct door_share *share,
                         const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more)
{
    size_t floor_bytes = share->limit_bytes / FLOOR_PARTS;
    const struct byte_shares_rule rule = {.limit_bytes = share->limit_bytes,
                                          .floor_bytes = floor_bytes < LIMIT_MEMORY_FLOOR_BYTES
                                                             ? floor_bytes
                                                             : LIMIT_MEMORY_FLOOR_BYTES,
                                          .reserve_bytes = share->limit_bytes / RESERVE_PARTS};
    const struct door_account *account = account_find(share, owner);
    size_t own = account != NULL ? account->bytes : 0;
    if (byte_shares_allow(&rule, share->bytes, own, more))
        return true;
    size_t free_bytes = share->limit_bytes > share->bytes ? share->limit_bytes - share->bytes : 0;
    return more <= SMALL_BYTES && more <= free_bytes && own <= free_bytes - more;
}

static struct door_hold *account_largest(const struct door_account *account)
{
    struct door_hold *largest = account->holds;
    for (struct door_hold *hold = largest; hold != NULL; hold = hold->next) {
        if (hold->bytes > largest->bytes ||
            (hold->bytes == largest->bytes && hold->order > largest->order))
            largest = hold;
    }
    return largest;
}

/* The account with the most bytes, except `but`. */
static struct door_account *account_richest(const struct door_share *share,
                                            const struct door_account *but)
{
    struct door_account *most = NULL;
    for (size_t i = 0; i < DOOR_SHARE_BUCKETS; i++) {
        for (struct door_account *at = share->buckets[i]; at != NULL; at = at->chain) {
            if (at != but && (most == NULL || at->bytes > most->bytes))
                most = at;
        }
    }
    return most;
}

/* Uploads of one length differ a little, because their heads do. The slack allows for that. It is
 * less than a hold, so that two owners cannot replace each other's uploads in turn. */
static size_t admit_slack(const struct door_hold *largest)
{
    return largest->bytes / SLACK_PARTS;
}

/* The largest hold of an owner that would still have `least` bytes without it; NULL when it would
 * not. */
static struct door_hold *admit_victim(const struct door_account *richest, size_t least)
{
    struct door_hold *largest = richest != NULL ? account_largest(richest) : NULL;
    bool is_fair =
        largest != NULL && richest->bytes - largest->bytes + admit_slack(largest) >= least;
    return is_fair ? largest : NULL;
}

/* The oldest of those that have had longer than their bytes need; NULL: there is none. */
static struct door_hold *admit_late(const struct door_share *share)
{
    struct door_hold *late = NULL;
    for (size_t i = 0; i < DOOR_SHARE_BUCKETS; i++) {
        for (struct door_account *at = share->buckets[i]; at != NULL; at = at->chain) {
            for (struct door_hold *hold = at->holds; hold != NULL; hold = hold->next) {
                int64_t patience_us =
                    LIMIT_UPLOAD_PATIENCE_MS * INT64_C(1000) +
                    (int64_t)(hold->bytes * UINT64_C(1000000) / LIMIT_UPLOAD_BYTES_S);
                if (share->now_us - hold->since_us > patience_us &&
                    (late == NULL || hold->since_us < late->since_us))
                    late = hold;
            }
        }
    }
    if (late != NULL)
        late->is_late = true;
    return late;
}

enum byte_shares_verdict door_share_admit(struct door_share *share,
                                          const uint8_t owner[DOOR_SHARE_OWNER_BYTES], size_t more)
{
    if (door_share_has_room(share, owner, more))
        return BYTE_SHARES_OK;
    const struct door_account *account = account_find(share, owner);
    size_t own = account != NULL ? account->bytes : 0;
    while (more <= share->limit_bytes) {
        struct door_account *richest = account_richest(share, account);
        if (share->bytes <= share->limit_bytes - more) {
            if (richest != NULL &&
                richest->bytes + admit_slack(account_largest(richest)) >= own + more)
                return BYTE_SHARES_OK;
            break;
        }
        struct door_hold *victim = admit_victim(richest, own + more);
        if (victim == NULL && own == 0)
            victim = admit_late(share);
        if (victim == NULL)
            break;
        victim->give_way(victim);
        ASSERT(victim->account == NULL);
    }
    return own == 0 ? BYTE_SHARES_ALL : BYTE_SHARES_OWN;
}

struct door_hold *door_share_yields(const struct door_share *share, const struct door_hold *changed)
{
    if (changed->account != NULL && changed->account->bytes > share->account_bytes_max)
        return account_largest(changed->account);
    if (share->bytes <= share->limit_bytes)
        return NULL;
    const struct door_account *most = account_richest(share, NULL);
    return most != NULL ? account_largest(most) : NULL;
}
