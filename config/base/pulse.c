#include "config/base/pulse.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE_BYTES = 64 };

struct pulse {
    struct {
        _Alignas(LINE_BYTES) atomic_uint beats;
    } lines[PULSE_PLACES];
};

enum status pulse_create(struct pulse **out)
{
    void *memory =
        mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        FAIL(STATUS_NO_MEMORY, "shared memory for the watchdog: %s", strerror(errno));
    *out = memory;
    return STATUS_OK;
}

void pulse_destroy(struct pulse *pulse)
{
    if (pulse != NULL)
        munmap(pulse, sizeof *pulse);
}

void pulse_clear(struct pulse *pulse)
{
    for (uint32_t place = 0; place < PULSE_PLACES; place++)
        atomic_store(&pulse->lines[place].beats, 0);
}

void pulse_beat(struct pulse *pulse, uint32_t place)
{
    ASSERT(place < PULSE_PLACES);
    if (pulse == NULL)
        return;
    uint32_t beats = atomic_load_explicit(&pulse->lines[place].beats, memory_order_relaxed) + 1;
    atomic_store_explicit(&pulse->lines[place].beats, beats != 0 ? beats : 1, memory_order_relaxed);
}

uint32_t pulse_read(const struct pulse *pulse, uint32_t place)
{
    ASSERT(place < PULSE_PLACES);
    return atomic_load_explicit(&pulse->lines[place].beats, memory_order_relaxed);
}
