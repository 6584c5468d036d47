/* pool_health: whether requests may go to one engine, and how many.
 *
 *            5 failures in a row, or half of 20 in 10 s
 *      up ───────────────────────────────────────────────► ejected
 *       ▲ ▲                                                   │ 1 s, doubled up to 60 s
 *       │ └── slow start, 10 s ◄── three good trials ── trial ◄┘
 *       └──── slow start, 10 s ◄── it answers ───────── down ◄── nobody listens
 *
 * An engine that goes down while it is ejected or in its trials is ejected again when it answers,
 * for what is left of its time.
 *
 * Owns:     the state of one engine.
 * Thread:   the pool's.
 * Cost:     O(1); no clock of its own: time and chance come in.
 * Not here: asking the engine, choosing among engines (pool).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum pool_health_state {
    POOL_HEALTH_UP,
    POOL_HEALTH_DOWN,
    POOL_HEALTH_EJECTED,
    POOL_HEALTH_TRIAL, /* one request at a time is sent, until its answer has begun */
};

enum {
    POOL_HEALTH_ROW = 5,          /* failures in a row that eject */
    POOL_HEALTH_COUNT_LEAST = 20, /* requests in 10 s of which half must not fail */
    POOL_HEALTH_SECONDS = 10,
    POOL_HEALTH_TRIALS = 3,
    POOL_HEALTH_EJECT_MS = 1000,
    POOL_HEALTH_EJECT_MS_MAX = 60000,
    POOL_HEALTH_SLOW_MS = 10000,
};

struct pool_health {
    enum pool_health_state state;
    uint32_t row;    /* failures since the last success */
    uint32_t trials; /* good ones in this state */
    uint32_t eject_ms;
    bool is_out;          /* it was ejected, and has not passed its trials since */
    int64_t until_us;     /* is_out: when trials begin */
    int64_t slow_from_us; /* UP: when it came back; 0 = long ago */
    struct {
        int64_t second;
        uint32_t good, failed;
    } recent[POOL_HEALTH_SECONDS];
};

void pool_health_init(struct pool_health *health);
/* An answer has ended well; in a trial: it has begun. */
void pool_health_good(struct pool_health *health, int64_t now_us);
/* The engine broke: no connection, a cut before the first byte, 5xx, a broken frame. `may_eject` is
 * false while half of the model's engines are ejected already. `chance` is any number: the time of
 * ejection varies by a fifth, so that engines do not come back together. */
void pool_health_failed(struct pool_health *health, int64_t now_us, bool may_eject,
                        uint32_t chance);
/* Nobody listens, or two questions were not answered. */
void pool_health_down(struct pool_health *health);
/* A question was answered. Only a state DOWN changes. */
void pool_health_answered(struct pool_health *health, int64_t now_us);
/* Moves an ejection that is over to its trials. */
void pool_health_look(struct pool_health *health, int64_t now_us);
/* How many requests may run there, of `most` that it can run at once: 0 while it is down or
 * ejected, and in slow start a part that grows with the time. In a trial it is `most`: old requests
 * may still run. */
uint32_t pool_health_room(const struct pool_health *health, uint32_t most, int64_t now_us);
const char *pool_health_name(const struct pool_health *health);
