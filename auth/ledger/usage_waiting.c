#include "auth/ledger/usage_waiting.h"

#include <stdio.h>
#include <string.h>

static const int64_t SECOND_US = 1000000;
enum { FIRST_S = 1, MOST_S = 5, LOOK_S = 2, WATCH_S = 60, DOUBLINGS = 3 };

void usage_waiting_init(struct usage_waiting *waiting)
{
    waiting->count = 0;
    waiting->lost_since = INT64_MAX;
}

static struct usage_waiting_entry *find(const struct usage_waiting *waiting, const char *tenant_id,
                                        int64_t day)
{
    for (uint32_t i = 0; i < waiting->count; i++) {
        const struct usage_waiting_entry *entry = &waiting->entries[i];
        if (entry->day == day && strcmp(entry->tenant_id, tenant_id) == 0)
            return (struct usage_waiting_entry *)(uintptr_t)entry;
    }
    return NULL;
}

const struct usage_waiting_entry *usage_waiting_find(const struct usage_waiting *waiting,
                                                     const char *tenant_id, int64_t day)
{
    const struct usage_waiting_entry *entry = find(waiting, tenant_id, day);
    return entry != NULL && !entry->is_watched ? entry : NULL;
}

bool usage_waiting_has(const struct usage_waiting *waiting, const char *tenant_id, int64_t day)
{
    return usage_waiting_find(waiting, tenant_id, day) != NULL;
}

/* Returns an entry for one more day: a free one, or the watched one whose watch ends first. NULL
 * when all days wait. */
static struct usage_waiting_entry *place(struct usage_waiting *waiting)
{
    struct usage_waiting_entry *oldest = NULL;
    if (waiting->count < USAGE_WAITING_MAX)
        return &waiting->entries[waiting->count++];
    for (uint32_t i = 0; i < waiting->count; i++) {
        struct usage_waiting_entry *entry = &waiting->entries[i];
        if (entry->is_watched && (oldest == NULL || entry->until_us < oldest->until_us))
            oldest = entry;
    }
    return oldest;
}

bool usage_waiting_add(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                       int64_t since, int64_t now_us)
{
    struct usage_waiting_entry *entry = find(waiting, tenant_id, day);
    bool is_new = entry == NULL || entry->is_watched;
    if (entry == NULL)
        entry = place(waiting);
    if (entry == NULL) {
        waiting->lost_since = since < waiting->lost_since ? since : waiting->lost_since;
    } else {
        if (is_new) {
            *entry = (struct usage_waiting_entry){.day = day, .since = since};
            snprintf(entry->tenant_id, sizeof entry->tenant_id, "%s", tenant_id);
        }
        uint32_t doublings = entry->tries < DOUBLINGS ? entry->tries : DOUBLINGS;
        int64_t pause_s = (int64_t)FIRST_S << doublings;
        entry->since = since < entry->since ? since : entry->since;
        entry->tries++;
        entry->next_us = now_us + (pause_s < MOST_S ? pause_s : MOST_S) * SECOND_US;
    }
    return is_new;
}

bool usage_waiting_made(struct usage_waiting *waiting, const char *tenant_id, int64_t day,
                        int64_t now_us)
{
    struct usage_waiting_entry *entry = find(waiting, tenant_id, day);
    bool has_waited = entry != NULL && !entry->is_watched;
    if (entry == NULL)
        entry = place(waiting);
    if (entry != NULL) {
        *entry = (struct usage_waiting_entry){.day = day,
                                              .since = INT64_MAX,
                                              .is_watched = true,
                                              .next_us = now_us + LOOK_S * SECOND_US,
                                              .until_us = now_us + WATCH_S * SECOND_US};
        snprintf(entry->tenant_id, sizeof entry->tenant_id, "%s", tenant_id);
    }
    return has_waited;
}

static void drop(struct usage_waiting *waiting, struct usage_waiting_entry *entry)
{
    *entry = waiting->entries[--waiting->count];
}

uint32_t usage_waiting_due(struct usage_waiting *waiting, int64_t now_us,
                           struct usage_waiting_entry out[USAGE_WAITING_DUE])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < waiting->count && count < USAGE_WAITING_DUE;) {
        struct usage_waiting_entry *entry = &waiting->entries[i];
        if (entry->is_watched && entry->until_us <= now_us) {
            drop(waiting, entry);
            continue;
        }
        if (entry->next_us <= now_us) {
            out[count++] = *entry;
            entry->next_us = now_us + (entry->is_watched ? LOOK_S : MOST_S) * SECOND_US;
        }
        i++;
    }
    return count;
}

int64_t usage_waiting_held(const struct usage_waiting *waiting)
{
    int64_t since = waiting->lost_since;
    for (uint32_t i = 0; i < waiting->count; i++) {
        const struct usage_waiting_entry *entry = &waiting->entries[i];
        since = !entry->is_watched && entry->since < since ? entry->since : since;
    }
    return since == INT64_MAX ? INT64_MAX : since - 1;
}

uint32_t usage_waiting_count(const struct usage_waiting *waiting)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < waiting->count; i++)
        count += waiting->entries[i].is_watched ? 0 : 1;
    return count;
}
