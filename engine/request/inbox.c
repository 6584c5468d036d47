#include "engine/request/inbox.h"

#include <time.h>

enum status inbox_init(struct inbox *inbox, uint32_t capacity)
{
    size_t slots = 2;
    while (slots < capacity)
        slots *= 2;
    TRY(ring_init(&inbox->slots, slots, sizeof(uint32_t)));
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    failed |= pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    failed |= pthread_cond_init(&inbox->condition, &attributes);
    failed |= pthread_condattr_destroy(&attributes);
    failed |= pthread_mutex_init(&inbox->mutex, NULL);
    ASSERT(failed == 0);
    atomic_init(&inbox->is_rung, false);
    atomic_init(&inbox->is_asleep, false);
    return STATUS_OK;
}

void inbox_deinit(struct inbox *inbox)
{
    pthread_cond_destroy(&inbox->condition);
    pthread_mutex_destroy(&inbox->mutex);
    ring_deinit(&inbox->slots);
}

void inbox_push(struct inbox *inbox, uint32_t slot)
{
    bool is_pushed = ring_push(&inbox->slots, &slot);
    ASSERT(is_pushed);
    inbox_ring(inbox);
}

bool inbox_pop(struct inbox *inbox, uint32_t *slot)
{
    return ring_pop(&inbox->slots, slot);
}

/* The ringer writes is_rung and reads is_asleep; the sleeper writes is_asleep and reads is_rung.
 * All four are sequentially consistent, so either the sleeper sees the ring or the ringer sees the
 * sleeper. The sleeper holds the mutex from setting is_asleep until it waits, so the signal cannot
 * fall in between. */
void inbox_ring(struct inbox *inbox)
{
    atomic_store(&inbox->is_rung, true);
    if (!atomic_load(&inbox->is_asleep))
        return;
    pthread_mutex_lock(&inbox->mutex);
    pthread_cond_signal(&inbox->condition);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_wait(struct inbox *inbox, int64_t timeout_us)
{
    struct timespec until;
    if (timeout_us >= 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t nanoseconds = until.tv_nsec + timeout_us % 1000000 * 1000;
        until.tv_sec += (time_t)(timeout_us / 1000000 + nanoseconds / 1000000000);
        until.tv_nsec = (long)(nanoseconds % 1000000000);
    }
    pthread_mutex_lock(&inbox->mutex);
    atomic_store(&inbox->is_asleep, true);
    bool is_over = false;
    while (!atomic_exchange(&inbox->is_rung, false) && !is_over) {
        if (timeout_us < 0)
            pthread_cond_wait(&inbox->condition, &inbox->mutex);
        else
            is_over = pthread_cond_timedwait(&inbox->condition, &inbox->mutex, &until) != 0;
    }
    atomic_store(&inbox->is_asleep, false);
    pthread_mutex_unlock(&inbox->mutex);
}
