/* simt_race: whether two threads of a launch touch the same byte without an order between them.
 *
 * The kernels are compiled with -fsanitize=thread, whose calls come here instead of to its library.
 * A byte of shared or device memory remembers who wrote it last, and the last two who read it. Of
 * two accesses by different threads, one of them a write, threads of one block must have a barrier
 * of the block between them, or of their warp (__syncwarp alone: shuffles and matrix instructions
 * order no memory); those of two blocks have none in a launch. Asynchronous copies write when they
 * are asked for, and again when they are waited for. Atomic additions race with all else. */
#include <unistd.h>

#include <unordered_map>
#include <vector>

#include "tests/kit/simt/cuda_runtime.h"
#include "tests/kit/simt/simt_race.h"

namespace {
enum kind : uint8_t { RACE_NONE, RACE_READ, RACE_WRITE, RACE_ATOMIC };
enum { RACE_PAGE = 4096, RACE_TOLD_MAX = 20 };

struct access {
    struct simt_who who;
    kind of;
};

struct cell {
    struct access written;
    struct access read[2];
};

std::unordered_map<uintptr_t, std::vector<cell>> pages;
uint64_t checked;
unsigned found;

bool is_ordered(const struct simt_who &before, const struct simt_who &now, bool is_shared)
{
    if (before.launch != now.launch)
        return true;
    if (before.block != now.block)
        return is_shared; /* each block's is its own */
    return before.thread == now.thread || before.barriers != now.barriers ||
           (before.thread / 32 == now.thread / 32 && before.syncs != now.syncs);
}

extern "C" const char __executable_start;

void tell(const struct access &before, const struct access &now, uintptr_t at, const void *from)
{
    static const char *const kinds[] = {"", "read", "write", "addition"};
    if (found++ < RACE_TOLD_MAX)
        fprintf(stderr,
                "simt: a race at %#lx: %s by thread %u of block %u, %s by %u of %u, called from "
                "%#lx of the program (launch %u, %s)\n",
                (unsigned long)at, kinds[before.of], before.who.thread, before.who.block,
                kinds[now.of], now.who.thread, now.who.block,
                (unsigned long)((const char *)from - &__executable_start), now.who.launch,
                simt_is_device((void *)at) ? "device memory" : "shared memory");
}

struct cell *cell_at(uintptr_t at)
{
    static uintptr_t last;
    static std::vector<cell> *page; /* the last one's: elements of a map stay where they are */
    if (page == nullptr || at / RACE_PAGE != last) {
        last = at / RACE_PAGE;
        page = &pages[last];
        if (page->empty())
            page->resize(RACE_PAGE);
    }
    return &(*page)[at % RACE_PAGE];
}

void touch(uintptr_t at, kind of, const void *from)
{
    struct cell *cell = cell_at(at);
    const struct access now = {simt_who_runs(), of};
    checked++;
    const bool is_shared = !simt_is_device((void *)at);
    const bool is_alike = of == cell->written.of && of == RACE_ATOMIC;
    if (cell->written.of != RACE_NONE && !is_alike && !is_ordered(cell->written.who, now.who, is_shared))
        tell(cell->written, now, at, from);
    if (of != RACE_READ) {
        for (const struct access &read : cell->read)
            if (read.of != RACE_NONE && !is_ordered(read.who, now.who, is_shared))
                tell(read, now, at, from);
        cell->written = now;
        return;
    }
    /* The second one is of another warp, where there is such. */
    if (cell->read[0].of != RACE_NONE && (cell->read[0].who.block != now.who.block ||
                                          cell->read[0].who.thread / 32 != now.who.thread / 32))
        cell->read[1] = cell->read[0];
    else if (cell->read[1].of == RACE_NONE)
        cell->read[1] = cell->read[0];
    cell->read[0] = now;
}
} // namespace

static void race(const void *at, size_t bytes, kind of, const void *from)
{
    if (!simt_is_running() || !simt_is_of_device(at))
        return;
    for (size_t i = 0; i < bytes; i++)
        touch((uintptr_t)at + i, of, from);
}

void simt_race_read(const void *at, size_t bytes)
{
    race(at, bytes, RACE_READ, __builtin_return_address(0));
}

void simt_race_write(const void *at, size_t bytes)
{
    race(at, bytes, RACE_WRITE, __builtin_return_address(0));
}

void simt_race_add(const void *at, size_t bytes)
{
    race(at, bytes, RACE_ATOMIC, __builtin_return_address(0));
}

__attribute__((destructor)) static void race_end()
{
    fprintf(stderr, "simt: %llu accesses, %u races\n", (unsigned long long)checked, found);
    if (found > 0)
        _exit(3);
}

/* --- what the compiler calls --- */
#define RACE_CALLS(size)                                                                           \
    extern "C" void __tsan_read##size(void *at)                                                    \
    {                                                                                              \
        race(at, size, RACE_READ, __builtin_return_address(0));                                    \
    }                                                                                              \
    extern "C" void __tsan_write##size(void *at)                                                   \
    {                                                                                              \
        race(at, size, RACE_WRITE, __builtin_return_address(0));                                   \
    }                                                                                              \
    extern "C" void __tsan_unaligned_read##size(void *at)                                          \
    {                                                                                              \
        race(at, size, RACE_READ, __builtin_return_address(0));                                    \
    }                                                                                              \
    extern "C" void __tsan_unaligned_write##size(void *at)                                         \
    {                                                                                              \
        race(at, size, RACE_WRITE, __builtin_return_address(0));                                   \
    }
RACE_CALLS(1)
RACE_CALLS(2)
RACE_CALLS(4)
RACE_CALLS(8)
RACE_CALLS(16)

extern "C" void __tsan_read_range(void *at, unsigned long bytes)
{
    race(at, bytes, RACE_READ, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *at, unsigned long bytes)
{
    race(at, bytes, RACE_WRITE, __builtin_return_address(0));
}
extern "C" void __tsan_init()
{
}
extern "C" void __tsan_func_entry(void *)
{
}
extern "C" void __tsan_func_exit()
{
}
extern "C" void __tsan_vptr_update(void **, void *)
{
}
extern "C" void __tsan_vptr_read(void **)
{
}
