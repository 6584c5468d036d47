#include "gateway/http/failure_guard.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

enum { SETS = 256, WAYS = 4 };

struct slot {
    uint64_t print; /* hash of the address; 0 = free */
    int64_t at_us;  /* when the level was `level` */
    uint32_t level;
    bool is_told; /* this series of failures was logged */
};

struct failure_guard {
    uint32_t burst;
    int64_t unit_us; /* time in which the level sinks by one */
    struct slot slots[SETS][WAYS];
};

struct failure_guard *failure_guard_create(uint32_t burst, uint32_t per_second)
{
    ASSERT(burst >= 1 && per_second >= 1);
    struct failure_guard *guard = mem_zalloc(1, sizeof *guard);
    if (guard == NULL)
        return NULL;
    guard->burst = burst;
    guard->unit_us = 1000000 / per_second;
    return guard;
}

void failure_guard_destroy(struct failure_guard *guard)
{
    mem_free(guard);
}

/* The hash of the address without the port; an IPv6 address counts by its /64, which one customer
 * has. */
uint64_t failure_guard_address(struct slice peer)
{
    size_t end = peer.length;
    while (end > 0 && peer.bytes[end - 1] != ':')
        end--;
    struct slice address = {peer.bytes, end > 0 ? end - 1 : peer.length};
    struct in6_addr six;
    char text[INET6_ADDRSTRLEN];
    bool is_six = address.length > 2 && address.bytes[0] == '[';
    if (is_six) {
        snprintf(text, sizeof text, "%.*s", (int)address.length - 2, address.bytes + 1);
        is_six = inet_pton(AF_INET6, text, &six) == 1;
    }
    uint64_t print = is_six ? hash_bytes(hash_process_key(), &six, 8)
                            : hash_bytes(hash_process_key(), address.bytes, address.length);
    return print != 0 ? print : 1;
}

static uint32_t fail_level(const struct failure_guard *guard, const struct slot *slot,
                           int64_t now_us)
{
    int64_t gone = (now_us - slot->at_us) / guard->unit_us;
    return gone < slot->level ? slot->level - (uint32_t)gone : 0;
}

static struct slot *fail_slot(struct failure_guard *guard, uint64_t print, int64_t now_us)
{
    struct slot *set = guard->slots[print % SETS];
    struct slot *lowest = &set[0];
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].print == print)
            return &set[i];
        if (fail_level(guard, &set[i], now_us) < fail_level(guard, lowest, now_us))
            lowest = &set[i];
    }
    *lowest = (struct slot){.print = print, .at_us = now_us};
    return lowest;
}

bool failure_guard_is_over(struct failure_guard *guard, struct slice peer, int64_t now_us)
{
    uint64_t print = failure_guard_address(peer);
    const struct slot *set = guard->slots[print % SETS];
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].print == print)
            return fail_level(guard, &set[i], now_us) >= guard->burst;
    }
    return false;
}

bool failure_guard_fail(struct failure_guard *guard, struct slice peer, int64_t now_us,
                        bool *is_first)
{
    struct slot *slot = fail_slot(guard, failure_guard_address(peer), now_us);
    uint32_t level = fail_level(guard, slot, now_us);
    slot->at_us =
        level > 0 ? slot->at_us + (int64_t)(slot->level - level) * guard->unit_us : now_us;
    slot->level = level < 2 * guard->burst ? level + 1 : level;
    bool is_too_many = slot->level > guard->burst;
    *is_first = is_too_many && !slot->is_told;
    slot->is_told = is_too_many;
    return is_too_many;
}
