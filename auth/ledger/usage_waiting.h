/* usage_waiting: tenants' days whose hash Redis does not take, or has just taken again.
 *
 * Owns:     a bounded list of them, and when each is tried again.
 * Thread:   the link's.
 * Cost:     O(entries) a call.
 * Not here: what is tried (usage_redis), what Redis does then (usage_scripts).
 *
 *   refused ─► WAITS, tried after 1, 2, 4, then each 5 s ─► made ─► WATCHED for 60 s ─► forgotten
 *                ▲                                                      │ looked at each 2 s, made
 *                └──────────────────────── refused ─────────────────────┘ again where it is gone
 *
 * A day that waits holds no other day up. It holds back the mark banyan:shipped, so that all rows
 * behind `since` are sent again after a restart; the marks in Redis drop those that are there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

enum { USAGE_WAITING_MAX = LIMIT_REDIS_WAITING, USAGE_WAITING_DUE = 16 };

struct usage_waiting_entry {
    char tenant_id[LIMIT_ID_BYTES];
    int64_t day;   /* since 1970 */
    int64_t since; /* all rows before this one are in the hash, or it is made anew */
    bool is_watched;
    uint32_t tries;
    int64_t next_us;
    int64_t until_us; /* while it is watched */
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
/* Whether rows of that tenant and day are not to be sent now. */
bool usage_waiting_has(const struct usage_waiting *waiting, const char *tenant_id, int64_t day);
/* Redis refused it. True when it did not wait before. Without room the oldest day that is only
 * watched is forgotten; if there is none, `lost_since` is set, and the caller compares all days. */
bool usage_waiting_add(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                       int64_t since, int64_t now_us);
/* Its hash was made or found: it is watched from now on. True when it had waited. */
bool usage_waiting_made(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                        int64_t now_us);
/* Days to be tried now, at most USAGE_WAITING_DUE; sets the next time of each. Watched days whose
 * time is over are forgotten. */
uint32_t usage_waiting_due(struct usage_waiting *waiting, int64_t now_us,
                           struct usage_waiting_entry out[USAGE_WAITING_DUE]);
/* The row before the first one that may be missing in a hash; INT64_MAX: none is. */
int64_t usage_waiting_held(const struct usage_waiting *waiting);
/* How many wait, the watched ones not counted. */
uint32_t usage_waiting_count(const struct usage_waiting *waiting);
