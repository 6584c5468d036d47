/* usage_waiting: remembers the usage hashes that Redis has refused, or lately accepted again. Redis
 * keeps one hash for each tenant and day.
 *
 * Owns:     a bounded list of such days, each with the time of its next try.
 * Thread:   the thread of redis_link.
 * Cost:     O(entries) a call.
 * Not here: trying again (usage_redis), the scripts in Redis (usage_scripts).
 *
 *   refused ─► WAITS, tried after 1, 2, 4, then each 5 s ─► made ─► WATCHED for 60 s ─► forgotten
 *                ▲                                                      │ looked at each 2 s, made
 *                └──────────────────────── refused ─────────────────────┘ again where it is gone
 *
 * A day that waits does not delay other days. While a day waits, the mark banyan:shipped stays
 * before its row `since`. So all rows from `since` on are sent again after a restart. Redis skips
 * the rows that it already has, because each hash has a mark.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"

enum { USAGE_WAITING_MAX = LIMIT_REDIS_WAITING, USAGE_WAITING_DUE = 16 };

struct usage_waiting_entry {
    char tenant_id[LIMIT_ID_BYTES];
    int64_t day;   /* days since 1970 */
    int64_t since; /* the first row that the hash may lack */
    bool is_watched;
    uint32_t tries;
    int64_t next_us;
    int64_t until_us; /* the end of the watch, while is_watched */
};

struct usage_waiting {
    struct usage_waiting_entry entries[USAGE_WAITING_MAX];
    uint32_t count;
    /* the least `since` of the days that found no room in the list; INT64_MAX: none */
    int64_t lost_since;
};

void usage_waiting_init(struct usage_waiting *waiting);

/* Returns the entry of a tenant's day that waits; NULL when that day does not wait. */
const struct usage_waiting_entry *usage_waiting_find(const struct usage_waiting *waiting,
                                                     const char *tenant_id, int64_t day);
/* Whether that tenant's day waits, so that its rows must not be sent now. */
bool usage_waiting_has(const struct usage_waiting *waiting, const char *tenant_id, int64_t day);
/* Redis refused the day's hash. True when the day did not wait before. When the list is full, the
 * watched day whose watch ends first is forgotten. When no day is watched, `lost_since` is set, and
 * the caller must compare all days later. */
bool usage_waiting_add(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                       int64_t since, int64_t now_us);
/* Redis has the day's hash, new or kept. The day is watched from now on, unless the list is full of
 * days that wait. True when the day had waited. */
bool usage_waiting_made(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                        int64_t now_us);
/* Returns the days that are to be tried now, at most USAGE_WAITING_DUE, and sets the time of the
 * next try of each. Forgets watched days whose watch is over. */
uint32_t usage_waiting_due(struct usage_waiting *waiting, int64_t now_us,
                           struct usage_waiting_entry out[USAGE_WAITING_DUE]);
/* Returns the row before the first one that a hash may lack; INT64_MAX when no hash lacks a row. */
int64_t usage_waiting_held(const struct usage_waiting *waiting);
/* How many days wait, without those that are only watched. */
uint32_t usage_waiting_count(const struct usage_waiting *waiting);
