#include "engine/scheduler/scheduler_fair.h"

#include <math.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"

enum { NOBODY = SCHEDULER_FAIR_NOBODY };

/* --- accounts --- */

enum status scheduler_fair_init(struct scheduler_fair *fair,
                                const struct scheduler_fair_options *options)
{
    ASSERT(options->clients > 0 && options->quantum > 0);
    uint32_t buckets = 1;
    while (buckets < options->clients)
        buckets *= 2;
    *fair = (struct scheduler_fair){
        .options = *options, .bucket_mask = buckets - 1, .mixed_part = -SCHEDULER_MIXED_PARTS};
    if (fair->options.floor_percent > SCHEDULER_FLOOR_MOST)
        fair->options.floor_percent = SCHEDULER_FLOOR_MOST;
    fair->clients = mem_zalloc(options->clients, sizeof(*fair->clients));
    fair->buckets = mem_alloc(buckets * sizeof(*fair->buckets));
    fair->shown = mem_alloc(options->clients * sizeof(*fair->shown));
    if (fair->clients == NULL || fair->buckets == NULL || fair->shown == NULL) {
        scheduler_fair_deinit(fair);
        FAIL(STATUS_NO_MEMORY, "no memory for the accounts of %u clients", options->clients);
    }
    memset(fair->buckets, 0xff, buckets * sizeof(*fair->buckets));
    return STATUS_OK;
}

void scheduler_fair_deinit(struct scheduler_fair *fair)
{
    mem_free(fair->clients);
    mem_free(fair->buckets);
    mem_free(fair->shown);
    fair->clients = NULL;
    fair->buckets = NULL;
    fair->shown = NULL;
}

static uint32_t *fair_bucket(struct scheduler_fair *fair, const struct engine_domain *tenant,
                             enum service_class service_class)
{
    uint64_t words[2];
    _Static_assert(sizeof(words) == sizeof(*tenant), "a tenant is two words");
    memcpy(words, tenant, sizeof(words));
    uint64_t hash = hash_mix64(words[0] ^ hash_mix64(words[1] + service_class));
    return &fair->buckets[hash & fair->bucket_mask];
}

/* An account for a new client: one that was never used, else the idle one with the least debt. */
static uint32_t fair_take(struct scheduler_fair *fair)
{
    if (fair->used < fair->options.clients)
        return fair->used++;
    uint32_t best = NOBODY;
    double best_debt = 0;
    for (uint32_t i = 0; i < fair->used; i++) {
        const struct scheduler_client *client = &fair->clients[i];
        double debt = client->served - fair->level[client->service_class];
        if (client->requests > 0 || (best != NOBODY && debt >= best_debt))
            continue;
        best = i;
        best_debt = debt;
    }
    ASSERT(best != NOBODY);
    struct scheduler_client *old = &fair->clients[best];
    uint32_t *link = fair_bucket(fair, &old->tenant, old->service_class);
    while (*link != best)
        link = &fair->clients[*link].next;
    *link = old->next;
    return best;
}

uint32_t scheduler_fair_enter(struct scheduler_fair *fair, const struct engine_domain *tenant,
                              enum service_class service_class, uint32_t weight)
{
    uint32_t *bucket = fair_bucket(fair, tenant, service_class);
    uint32_t found = *bucket;
    while (found != NOBODY && (fair->clients[found].service_class != service_class ||
                               memcmp(&fair->clients[found].tenant, tenant, sizeof(*tenant)) != 0))
        found = fair->clients[found].next;
    if (found == NOBODY) {
        found = fair_take(fair);
        fair->clients[found] = (struct scheduler_client){
            .tenant = *tenant,
            .service_class = service_class,
            .next = *bucket,
            .served = fair->level[service_class] - fair->options.quantum,
        };
        *bucket = found;
    }
    fair->clients[found].weight = weight > 0 ? weight : 100;
    if (fair->clients[found].requests++ == 0 && fair->requests[service_class] > 0)
        fair->mixed_part = fair->now_part;
    fair->requests[service_class]++;
    return found;
}

void scheduler_fair_leave(struct scheduler_fair *fair, uint32_t client)
{
    struct scheduler_client *account = &fair->clients[client];
    ASSERT(account->requests > 0);
    fair->requests[account->service_class]--;
    if (--account->requests > 0)
        return;
    account->is_over = false;
    account->is_backlogged = false;
}

/* --- charges --- */

void scheduler_fair_charge(struct scheduler_fair *fair, uint32_t client, double tokens)
{
    struct scheduler_client *account = &fair->clients[client];
    account->charged += tokens;
    account->served += tokens * 100 / account->weight;
}

double scheduler_fair_residency(double room_tokens)
{
    return room_tokens / SCHEDULER_RESIDENCY_TOKENS * SCHEDULER_PRICE_RESIDENCY;
}

void scheduler_fair_charge_pages(struct scheduler_fair *fair, uint32_t client, double room_tokens)
{
    if (!fair->clients[client].is_over)
        scheduler_fair_charge(fair, client, scheduler_fair_residency(room_tokens));
}

double scheduler_fair_slack(const struct scheduler_fair *fair, uint32_t least_weight)
{
    const struct scheduler_fair_options *options = &fair->options;
    double most = options->rows_max + SCHEDULER_PRICE_CACHED * options->context +
                  SCHEDULER_PRICE_GENERATED * options->sequences_max * SCHEDULER_QUANTUM_STEPS;
    return most * 100 / least_weight + options->quantum;
}

double scheduler_fair_step_most(const struct scheduler_fair *fair, uint32_t least_weight)
{
    const struct scheduler_fair_options *options = &fair->options;
    double most = options->rows_max + SCHEDULER_PRICE_CACHED * options->context +
                  SCHEDULER_PRICE_GENERATED * options->sequences_max;
    return most * 100 / least_weight;
}

void scheduler_fair_raise(struct scheduler_fair *fair, enum service_class service_class,
                          double served)
{
    double *level = &fair->level[service_class];
    double quantum = fair->options.quantum;
    if (*level <= served)
        *level += (floor((served - *level) / quantum) + 1) * quantum;
}

bool scheduler_fair_is_mixed(const struct scheduler_fair *fair)
{
    return fair->now_part - fair->mixed_part < SCHEDULER_MIXED_PARTS;
}

int scheduler_fair_sign(const struct scheduler_fair *fair, uint32_t client)
{
    const struct scheduler_client *account = &fair->clients[client];
    double level = fair->level[account->service_class];
    return (account->served < level) - (account->served > level);
}

/* --- the window --- */

void scheduler_fair_tick(struct scheduler_fair *fair, int64_t now_us,
                         const struct scheduler_fair_step *step)
{
    fair->now_part = now_us / SCHEDULER_WINDOW_PART_US;
    struct scheduler_window_part *part =
        &fair->parts[(uint64_t)fair->now_part % SCHEDULER_WINDOW_PARTS];
    if (part->number != fair->now_part)
        *part = (struct scheduler_window_part){.number = fair->now_part};
    if (step == NULL)
        return;
    fair->steps++;
    uint64_t rows = 0;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        rows += step->rows[c];
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        if (step->units[c] > part->units[c])
            part->units[c] = step->units[c];
        if (!step->has_work[c])
            continue;
        part->asked[c] += rows;
        part->had[c] += step->rows[c];
    }
}

static bool fair_is_recent(const struct scheduler_fair *fair,
                           const struct scheduler_window_part *part)
{
    return part->number > fair->now_part - SCHEDULER_WINDOW_PARTS;
}

uint32_t scheduler_fair_owed(const struct scheduler_fair *fair, enum service_class service_class)
{
    uint32_t percent = fair->options.floor_percent;
    uint64_t asked = 0;
    uint64_t had = 0;
    for (uint32_t i = 0; i < SCHEDULER_WINDOW_PARTS; i++) {
        const struct scheduler_window_part *part = &fair->parts[i];
        if (!fair_is_recent(fair, part))
            continue;
        uint64_t most = (2 * part->asked[service_class] * percent + 99) / 100;
        asked += part->asked[service_class];
        had += part->had[service_class] < most ? part->had[service_class] : most;
    }
    uint64_t floor_rows = (asked * percent + 99) / 100;
    return floor_rows > had ? (uint32_t)(floor_rows - had) : 0;
}

uint32_t scheduler_fair_peak(const struct scheduler_fair *fair, enum service_class service_class)
{
    uint32_t peak = 0;
    for (uint32_t i = 0; i < SCHEDULER_WINDOW_PARTS; i++)
        if (fair_is_recent(fair, &fair->parts[i]) && fair->parts[i].units[service_class] > peak)
            peak = fair->parts[i].units[service_class];
    return peak;
}
