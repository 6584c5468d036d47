#include "kernels/ranks.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "kernels/threads.h"

enum {
    RANKS_LINE = 64,
    RANKS_SPINS = 2000, /* as for compute threads: about 35 to 100 µs */
    RANKS_LOOK_MS = 50, /* longest sleep between two checks whether the others live */
    RANKS_HEAD_BYTES = 4096,
    /* times the longest wait, while a rank reads its weights as rank 0 has read its own */
    RANKS_READ_WAITS = 10,
};

/* The number of meetings that a rank has come to. `sleepers` saves the system call while all others
 * still spin. */
struct ranks_line {
    _Alignas(RANKS_LINE) atomic_uint turn;
    atomic_uint sleepers;
};

/* Shared by all ranks. The slots follow at RANKS_HEAD_BYTES: two of each rank, used in turn. */
struct ranks_shared {
    struct ranks_line lines[LIMIT_RANKS];
    atomic_bool is_lost; /* a rank has ended; set by the first rank that notices */
};

struct ranks {
    struct ranks_shared *shared;
    size_t bytes;
    uint32_t count;
    uint32_t own;
    uint32_t turn; /* meetings that this rank has come to */
    uint32_t spins;
    _Atomic int64_t wait_ns; /* the longest wait */
    bool is_lost;
    /* [rank] in rank 0: the socket to it; in another rank only [0]; else -1 */
    int sockets[LIMIT_RANKS];
    int followers[LIMIT_RANKS]; /* [rank] the other ends, until ranks_become */
};

_Static_assert(sizeof(struct ranks_shared) <= RANKS_HEAD_BYTES,
               "the head of the shared memory is too small");

static void close_all(int *sockets)
{
    for (uint32_t i = 0; i < LIMIT_RANKS; i++) {
        if (sockets[i] >= 0)
            close(sockets[i]);
        sockets[i] = -1;
    }
}

enum status ranks_create(struct ranks **out, uint32_t count)
{
    if (count < 2 || count > LIMIT_RANKS)
        FAIL(STATUS_OUT_OF_RANGE, "%u ranks of one model; from 2 to %d are supported", count,
             LIMIT_RANKS);
    struct ranks *ranks = mem_zalloc(1, sizeof *ranks);
    if (ranks == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the ranks");
    *ranks = (struct ranks){.count = count,
                            .spins = count <= threads_processors() ? RANKS_SPINS : 0,
                            .bytes = RANKS_HEAD_BYTES + (size_t)2 * count * RANKS_SLOT_BYTES};
    ranks_set_wait(ranks, LIMIT_RANK_WAIT_MS);
    memset(ranks->sockets, 0xff, sizeof ranks->sockets); /* -1 */
    memset(ranks->followers, 0xff, sizeof ranks->followers);
    ranks->shared =
        mmap(NULL, ranks->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool is_made = ranks->shared != MAP_FAILED;
    for (uint32_t i = 1; i < count && is_made; i++) {
        int ends[2];
        is_made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
        if (is_made) {
            ranks->sockets[i] = ends[0];
            ranks->followers[i] = ends[1];
        }
    }
    if (!is_made) {
        int error = errno;
        ranks_destroy(ranks);
        FAIL(STATUS_NO_MEMORY, "memory and sockets of %u ranks: %s", count, strerrordesc_np(error));
    }
    *out = ranks;
    return STATUS_OK;
}

void ranks_become(struct ranks *ranks, uint32_t rank)
{
    ASSERT(rank < ranks->count);
    ranks->own = rank;
    if (rank > 0) {
        int own = ranks->followers[rank];
        ranks->followers[rank] = -1;
        close_all(ranks->sockets);
        ranks->sockets[0] = own;
    }
    close_all(ranks->followers);
}

void ranks_destroy(struct ranks *ranks)
{
    if (ranks == NULL)
        return;
    close_all(ranks->sockets);
    close_all(ranks->followers);
    if (ranks->shared != MAP_FAILED)
        munmap(ranks->shared, ranks->bytes);
    mem_free(ranks);
}

uint32_t ranks_count(const struct ranks *ranks)
{
    return ranks != NULL ? ranks->count : 1;
}

uint32_t ranks_own(const struct ranks *ranks)
{
    return ranks != NULL ? ranks->own : 0;
}

/* --- checking that the ranks live --- */

static void set_lost(struct ranks *ranks)
{
    ranks->is_lost = true;
    atomic_store(&ranks->shared->is_lost, true);
}

/* `rank` is `count` when another rank has noticed which one. */
static enum status fail_lost(struct ranks *ranks, uint32_t rank)
{
    set_lost(ranks);
    if (rank == ranks->count)
        FAIL(STATUS_UNAVAILABLE, "tensor parallel: another rank's process has ended");
    FAIL(STATUS_UNAVAILABLE, "tensor parallel: the process of rank %u has ended", rank);
}

static enum status check_lost(const struct ranks *ranks)
{
    if (ranks->is_lost)
        FAIL(STATUS_UNAVAILABLE, "tensor parallel: a rank's process has ended");
    return STATUS_OK;
}

/* Returns the rank that has ended, among those that this one has a socket to; `count` when all
 * live. */
static uint32_t meet_lost(const struct ranks *ranks)
{
    for (uint32_t i = 0; i < ranks->count; i++) {
        struct pollfd one = {.fd = ranks->sockets[i], .events = POLLRDHUP};
        if (one.fd >= 0 && poll(&one, 1, 0) > 0)
            return i;
    }
    return ranks->count;
}

bool ranks_live(const struct ranks *ranks)
{
    if (meet_lost(ranks) < ranks->count) /* the ranks without a socket to it learn it here */
        atomic_store(&ranks->shared->is_lost, true);
    return !atomic_load(&ranks->shared->is_lost);
}

void ranks_set_wait(struct ranks *ranks, uint32_t limit_ms)
{
    atomic_store(&ranks->wait_ns, limit_ms * INT64_C(1000000));
}

/* Adds to a wait and fails when it exceeds `times` the longest wait. */
static enum status wait_longer(struct ranks *ranks, struct ranks_wait *wait, int64_t times)
{
    const int64_t now_ns = clock_mono_ns(clock_system());
    const int64_t away_ns = wait->looked_ns > 0 ? now_ns - wait->looked_ns : 0;
    const int64_t most_ns = 2 * RANKS_LOOK_MS * INT64_C(1000000);
    wait->looked_ns = now_ns;
    wait->waited_ns += away_ns < most_ns ? away_ns : most_ns;
    if (ranks->own > 0 || wait->waited_ns <= times * atomic_load(&ranks->wait_ns))
        return STATUS_OK;
    set_lost(ranks);
    FAIL(STATUS_UNAVAILABLE, "tensor parallel: a rank's process has not responded for %lld ms",
         (long long)(wait->waited_ns / 1000000));
}

enum status ranks_wait_more(struct ranks *ranks, struct ranks_wait *wait)
{
    const uint32_t lost = meet_lost(ranks);
    if (lost < ranks->count || atomic_load(&ranks->shared->is_lost))
        return fail_lost(ranks, lost);
    return wait_longer(ranks, wait, 1);
}

/* --- sockets --- */

static void wait_socket(const struct ranks *ranks, uint32_t rank, short events)
{
    struct pollfd one = {.fd = ranks->sockets[rank], .events = events};
    (void)poll(&one, 1, RANKS_LOOK_MS);
}

enum status ranks_write(struct ranks *ranks, uint32_t to, const void *bytes, size_t length)
{
    struct ranks_wait wait = {0};
    TRY(check_lost(ranks)); /* bytes that follow a gap would be read as something else */
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(ranks->sockets[to], (const char *)bytes + done, length - done,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN)
            return fail_lost(ranks, to);
        if (sent < 0 && errno == EAGAIN) {
            TRY(ranks_wait_more(ranks, &wait));
            wait_socket(ranks, to, POLLOUT);
        }
        if (sent > 0) {
            done += (size_t)sent;
            wait = (struct ranks_wait){0};
        }
    }
    return STATUS_OK;
}

/* Reads all bytes. Ranks other than 0 sleep here while there is no work. When another rank has
 * ended meanwhile, rank 0 first reads what that rank had sent. */
enum status ranks_read(struct ranks *ranks, uint32_t from, void *bytes, size_t length)
{
    const int flags = ranks->own > 0 ? MSG_WAITALL : MSG_DONTWAIT;
    struct ranks_wait wait = {0};
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(ranks->sockets[from], (char *)bytes + done, length - done, flags);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return fail_lost(ranks, from);
        if (got < 0 && errno == EAGAIN) {
            TRY(wait_longer(ranks, &wait, RANKS_READ_WAITS));
            wait_socket(ranks, from, POLLIN);
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return STATUS_OK;
}

/* --- meetings --- */

void *ranks_slot(struct ranks *ranks, uint32_t rank)
{
    size_t index = 2 * (size_t)rank + ranks->turn % 2;
    return (char *)ranks->shared + RANKS_HEAD_BYTES + index * RANKS_SLOT_BYTES;
}

/* The waiting side raises `sleepers` and then reads the turn; the other side sets the turn and then
 * reads `sleepers`. So one of the two notices, and the kernel checks the turn again before it
 * sleeps. */
static void meet_sleep(struct ranks_line *line, uint32_t seen)
{
    struct timespec look = {.tv_nsec = RANKS_LOOK_MS * 1000000};
    atomic_fetch_add(&line->sleepers, 1);
    if (atomic_load(&line->turn) == seen)
        syscall(SYS_futex, &line->turn, FUTEX_WAIT, seen, &look, NULL, 0);
    atomic_fetch_sub(&line->sleepers, 1);
}

static enum status meet_wait(struct ranks *ranks, uint32_t rank)
{
    struct ranks_line *line = &ranks->shared->lines[rank];
    struct ranks_wait wait = {0};
    for (uint32_t i = 0;; i++) {
        uint32_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);
        if ((int32_t)(turn - ranks->turn) >= 0)
            return STATUS_OK;
        if (i < ranks->spins) {
            threads_pause();
            continue;
        }
        TRY(ranks_wait_more(ranks, &wait));
        meet_sleep(line, turn);
    }
}

enum status ranks_meet(struct ranks *ranks)
{
    TRY(check_lost(ranks));
    struct ranks_line *own = &ranks->shared->lines[ranks->own];
    atomic_store(&own->turn, ++ranks->turn);
    if (atomic_load(&own->sleepers) > 0)
        syscall(SYS_futex, &own->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    for (uint32_t i = 0; i < ranks->count; i++)
        if (i != ranks->own)
            TRY(meet_wait(ranks, i));
    return STATUS_OK;
}
