#include "gateway/pool/pool_health.h"

#include <string.h>

void pool_health_init(struct pool_health *health)
{
    *health = (struct pool_health){.eject_ms = POOL_HEALTH_EJECT_MS};
}

static void count(struct pool_health *health, int64_t now_us, bool is_good)
{
    const int64_t second = now_us / 1000000;
    const size_t at = (size_t)(second % POOL_HEALTH_SECONDS);
    if (health->recent[at].second != second) {
        health->recent[at].second = second;
        health->recent[at].good = health->recent[at].failed = 0;
    }
    health->recent[at].good += is_good;
    health->recent[at].failed += !is_good;
}

static bool is_half_broken(const struct pool_health *health, int64_t now_us)
{
    uint32_t good = 0;
    uint32_t failed = 0;
    for (size_t i = 0; i < POOL_HEALTH_SECONDS; i++) {
        if (now_us / 1000000 - health->recent[i].second >= POOL_HEALTH_SECONDS)
            continue;
        good += health->recent[i].good;
        failed += health->recent[i].failed;
    }
    return good + failed >= POOL_HEALTH_COUNT_LEAST && failed * 2 >= good + failed;
}

static void come_up(struct pool_health *health, int64_t now_us)
{
    health->state = POOL_HEALTH_UP;
    health->row = 0;
    health->is_out = false;
    health->slow_from_us = now_us;
    memset(health->recent, 0, sizeof health->recent);
}

void pool_health_good(struct pool_health *health, int64_t now_us)
{
    health->row = 0;
    count(health, now_us, true);
    if (health->state != POOL_HEALTH_TRIAL || ++health->trials < POOL_HEALTH_TRIALS)
        return;
    health->eject_ms = POOL_HEALTH_EJECT_MS;
    come_up(health, now_us);
}

static void eject(struct pool_health *health, int64_t now_us, uint32_t chance)
{
    const int64_t part = (int64_t)(chance % 401) - 200; /* thousandths: from -20 % to +20 % */
    const int64_t ms = health->eject_ms + health->eject_ms * part / 1000;
    health->state = POOL_HEALTH_EJECTED;
    health->is_out = true;
    health->until_us = now_us + ms * 1000;
    health->eject_ms = health->eject_ms * 2 < POOL_HEALTH_EJECT_MS_MAX ? health->eject_ms * 2
                                                                       : POOL_HEALTH_EJECT_MS_MAX;
}

void pool_health_failed(struct pool_health *health, int64_t now_us, bool may_eject, uint32_t chance)
{
    health->row++;
    count(health, now_us, false);
    if (health->state == POOL_HEALTH_TRIAL) /* it was ejected already */
        eject(health, now_us, chance);
    else if (health->state == POOL_HEALTH_UP && may_eject &&
             (health->row >= POOL_HEALTH_ROW || is_half_broken(health, now_us)))
        eject(health, now_us, chance);
}

void pool_health_down(struct pool_health *health)
{
    health->state = POOL_HEALTH_DOWN;
}

void pool_health_answered(struct pool_health *health, int64_t now_us)
{
    if (health->state == POOL_HEALTH_DOWN && health->is_out)
        health->state = POOL_HEALTH_EJECTED; /* that it answers questions proves no more */
    else if (health->state == POOL_HEALTH_DOWN)
        come_up(health, now_us);
}

void pool_health_look(struct pool_health *health, int64_t now_us)
{
    if (health->state != POOL_HEALTH_EJECTED || now_us < health->until_us)
        return;
    health->state = POOL_HEALTH_TRIAL;
    health->trials = 0;
}

uint32_t pool_health_room(const struct pool_health *health, uint32_t most, int64_t now_us)
{
    if (health->state == POOL_HEALTH_DOWN || health->state == POOL_HEALTH_EJECTED)
        return 0;
    if (health->state == POOL_HEALTH_TRIAL)
        return most;
    const int64_t since_ms = (now_us - health->slow_from_us) / 1000;
    if (health->slow_from_us == 0 || since_ms >= POOL_HEALTH_SLOW_MS)
        return most;
    const uint32_t part = (uint32_t)((uint64_t)most * (uint64_t)since_ms / POOL_HEALTH_SLOW_MS);
    return part > 0 ? part : 1;
}

const char *pool_health_name(const struct pool_health *health)
{
    static const char *const names[] = {[POOL_HEALTH_UP] = "up",
                                        [POOL_HEALTH_DOWN] = "down",
                                        [POOL_HEALTH_EJECTED] = "ejected",
                                        [POOL_HEALTH_TRIAL] = "trial"};
    return names[health->state];
}
