/* usage_waiting: the tenants' days whose hash Redis refuses, or has lately accepted again.
 *
 * Owns:     a bounded list of such days, and the time of the next try of each.
 * Thread:   the thread of redis_link.
 * Cost:     O(entries) a call.
 * Not here: trying again (usage_redis), the scripts in Redis (usage_scripts).
 *
 *   refused ─► WAITS, tried after 1, 2, 4, then each 5 s ─► made ─► WATCHED for 60 s ─► forgotten
 *                ▲                                                      │ looked at each 2 s, made
 *                └──────────────────────── refused ─────────────────────┘ again where it is gone
 *
 * A day that waits delays no other day. It holds back the mark banyan:shipped, so that all rows
 * from `since` on are sent again after a restart; rows that Redis has already are dropped there by
 * their marks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

enum { USAGE_WAITING_MAX = LIMIT_REDIS_WAITING, USAGE_WAITING_DUE = 16 };

struct usage_waiting_entry {
    char tenant_id[LIMIT_ID_BYTES];
    int64_t day;   /* since 1970 */
    int64_t since; /* the first row that the hash may lack */
    bool is_watched;
    uint32_t tries;
    int64_t next_us;
    int64_t until_us; /* the end of the watch, while is_watched */
};

struct usage_waiting {
    struct usage_waiting_entry entries[USAGE_WAITING_MAX];
    uint32_t count;
    int64_t lost_since; /* the least `since` of days that found no room; INT64_MAX: none */
};

void usage_waiting_init(struct usage_waiting *waiting);

/* The entry of a tenant's day that waits; NULL when it does not. */
const struct usage_waiting_entry *usage_waiting_find(const struct usage_waiting *waiting,
                                                     const char *tenant_id, int64_t day);
/* Whether that tenant's day waits, so that its rows must not be sent now. */
bool usage_waiting_has(const struct usage_waiting *waiting, const char *tenant_id, int64_t day);
/* Redis refused the day's hash. True when the day did not wait before. Without room, the oldest day
 * that is only watched is forgotten; if there is none, `lost_since` is set, and the caller must
 * compare all days later. */
bool usage_waiting_add(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                       int64_t since, int64_t now_us);
/* The day's hash was made or found: the day is watched from now on. True when it had waited. */
bool usage_waiting_made(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                        int64_t now_us);
/* Days to be tried now, at most USAGE_WAITING_DUE; sets the next time of each. Watched days whose
 * time is over are forgotten. */
uint32_t usage_waiting_due(struct usage_waiting *waiting, int64_t now_us,
                           struct usage_waiting_entry out[USAGE_WAITING_DUE]);
/* The row before the first one that a hash may lack; INT64_MAX: none lacks any. */
int64_t usage_waiting_held(const struct usage_waiting *waiting);
/* How many days wait, without those that are only watched. */
uint32_t usage_waiting_count(const struct usage_waiting *waiting);
