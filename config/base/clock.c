#include "config/base/clock.h"

#include <time.h>

static const struct clock system_clock;

const struct clock *clock_system(void)
{
    return &system_clock;
}

void clock_manual_init(struct clock *clock, int64_t start_us)
{
    clock->is_manual = true;
    atomic_init(&clock->manual_us, start_us);
}

void clock_manual_advance(struct clock *clock, int64_t by_us)
{
    atomic_fetch_add(&clock->manual_us, by_us);
}

static int64_t clock_read_us(const struct clock *clock, clockid_t id)
{
    if (clock->is_manual)
        return atomic_load(&((struct clock *)(uintptr_t)clock)->manual_us);
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_us(const struct clock *clock)
{
    return clock_read_us(clock, CLOCK_MONOTONIC);
}

int64_t clock_mono_ns(const struct clock *clock)
{
    struct timespec now;
    if (clock->is_manual)
        return clock_mono_us(clock) * 1000;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_wall_us(const struct clock *clock)
{
    return clock_read_us(clock, CLOCK_REALTIME);
}
