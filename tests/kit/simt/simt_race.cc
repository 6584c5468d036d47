/* simt_race: finds two threads of a launch that touch the same byte without an order between them.
 *
 * The kernels are compiled with -fsanitize=thread, whose calls come here instead of to its library.
 * For each word of shared or device memory it remembers the last writer, the last two readers, and
 * the bytes they touched. Two accesses by different threads, one of them a write, need an order.
 * Threads of one block must have a barrier of the block between them, or of their warp (only
 * __syncwarp: shuffles and matrix instructions order no memory). Threads of two blocks have no
 * order within a launch. Asynchronous copies write when they are requested, and again when they are
 * waited for. Atomic additions race with all other accesses. Two writes of the same value do not
 * race. A kernel that is launched early runs beside the one before it until it waits. Until then it
 * must not have read anything that the other wrote, nor have written device memory. */
#include <unistd.h>

#include <unordered_map>
#include <vector>

#include "tests/kit/simt/cuda_runtime.h"
#include "tests/kit/simt/simt_race.h"

namespace
{
enum kind : uint8_t { RACE_NONE, RACE_READ, RACE_WRITE, RACE_ATOMIC };
enum { RACE_WORD = 4, RACE_PAGE = 1024 /* words */, RACE_TOLD_MAX = 20 };

struct access {
    struct simt_who who;
    kind of;
    uint8_t bytes; /* bit i: byte i of the word */
};

struct word {
    struct access written;
    struct access read[2];
};

/* A write after another thread's: a race if it changes the value, which the next access shows. */
struct doubt {
    struct access before, now;
    uintptr_t at;
    const void *from;
    uint32_t value;
};

std::unordered_map<uintptr_t, std::vector<word>> pages;
std::vector<doubt> doubts;
uint64_t checked;
unsigned found;

bool is_ordered(const struct access &before, const struct access &now, bool is_shared)
{
    const struct simt_who &a = before.who;
    const struct simt_who &b = now.who;
    if (before.of == RACE_NONE || (before.bytes & now.bytes) == 0 || a.launch != b.launch)
        return true;
    if (a.block != b.block)
        return is_shared; /* shared memory of another block is other memory */
    return a.thread == b.thread || a.barriers != b.barriers ||
           (a.thread / 32 == b.thread / 32 && a.syncs != b.syncs);
}

extern "C" const char __executable_start;

const char *const kinds[] = {"", "read", "write", "addition"};

void tell(const struct access &before, const struct access &now, uintptr_t at, const void *from)
{
    if (found++ < RACE_TOLD_MAX)
        fprintf(stderr,
                "simt: a race at %#lx: %s by thread %u of block %u, %s by %u of %u, called from "
                "%#lx of the program (launch %u, %s)\n",
                (unsigned long)at, kinds[before.of], before.who.thread, before.who.block,
                kinds[now.of], now.who.thread, now.who.block,
                (unsigned long)((const char *)from - &__executable_start), now.who.launch,
                simt_is_device((void *)at) ? "device memory" : "shared memory");
}

void tell_early(const struct access &now, uintptr_t at, const void *from)
{
    if (found++ < RACE_TOLD_MAX)
        fprintf(stderr,
                "simt: a race at %#lx: %s before the wait by thread %u of block %u, called from "
                "%#lx of the program (launch %u)\n",
                (unsigned long)at, kinds[now.of], now.who.thread, now.who.block,
                (unsigned long)((const char *)from - &__executable_start), now.who.launch);
}

uint32_t value_at(uintptr_t at, uint8_t bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < RACE_WORD; i++)
        if (bytes >> i & 1)
            value |= (uint32_t)((const unsigned char *)at)[i] << 8 * i;
    return value;
}

void look_at_doubts()
{
    for (const struct doubt &doubt : doubts)
        if (value_at(doubt.at, doubt.before.bytes & doubt.now.bytes) != doubt.value)
            tell(doubt.before, doubt.now, doubt.at, doubt.from);
    doubts.clear();
}

struct word *word_at(uintptr_t at)
{
    static uintptr_t last;
    static std::vector<word> *page; /* the page used last; elements of a map keep their addresses */
    const uintptr_t index = at / RACE_WORD / RACE_PAGE;
    if (page == nullptr || index != last) {
        last = index;
        page = &pages[last];
        if (page->empty())
            page->resize(RACE_PAGE);
    }
    return &(*page)[at / RACE_WORD % RACE_PAGE];
}

void touch(uintptr_t at, uint8_t bytes, kind of, const void *from)
{
    struct word *word = word_at(at);
    const struct access now = {simt_who_runs(), of, bytes};
    const bool is_shared = !simt_is_device((void *)at);
    checked++;
    if (now.who.is_early && !is_shared &&
        (of != RACE_READ ||
         (word->written.of != RACE_NONE && word->written.who.launch + 1 == now.who.launch)))
        tell_early(now, at, from);
    if (!is_ordered(word->written, now, is_shared)) {
        if (of == RACE_WRITE && word->written.of == RACE_WRITE)
            doubts.push_back(
                {word->written, now, at, from, value_at(at, word->written.bytes & bytes)});
        else if (of != RACE_ATOMIC || word->written.of != RACE_ATOMIC)
            tell(word->written, now, at, from);
    }
    if (of != RACE_READ) {
        for (const struct access &read : word->read)
            if (!is_ordered(read, now, is_shared))
                tell(read, now, at, from);
        word->written = now;
        return;
    }
    /* The second reader is of another warp, if there is one. */
    if (word->read[1].of == RACE_NONE || word->read[0].who.block != now.who.block ||
        word->read[0].who.thread / 32 != now.who.thread / 32)
        word->read[1] = word->read[0];
    word->read[0] = now;
}
} // namespace

static void race(const void *at, size_t bytes, kind of, const void *from)
{
    if (!simt_is_running() || !simt_is_of_device(at))
        return;
    look_at_doubts();
    for (uintptr_t i = (uintptr_t)at, end = i + bytes; i < end;) {
        const uintptr_t word = i / RACE_WORD * RACE_WORD;
        const uintptr_t next = word + RACE_WORD < end ? word + RACE_WORD : end;
        touch(word, (uint8_t)(((1u << (next - i)) - 1) << (i - word)), of, from);
        i = next;
    }
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

/* Judges what the last writes changed; later their memory may be gone. */
void simt_race_over()
{
    look_at_doubts();
}

__attribute__((destructor)) static void race_end()
{
    fprintf(stderr, "simt: %llu accesses, %u races\n", (unsigned long long)checked, found);
    if (found > 0)
        _exit(3);
}

/* --- called by the compiler --- */
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

/* The host's, between processes (simt_nccl). */
extern "C" uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *at, uint32_t value, int)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
extern "C" uint32_t __tsan_atomic32_load(const volatile uint32_t *at, int)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
extern "C" uint8_t __tsan_atomic8_load(const volatile uint8_t *at, int)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
extern "C" void __tsan_atomic8_store(volatile uint8_t *at, uint8_t value, int)
{
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
