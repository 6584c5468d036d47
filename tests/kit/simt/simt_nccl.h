/* simt_nccl: the part of NCCL that cuda_nccl.cu calls, between processes that a test's main has
 * forked.
 *
 * Owns:     memory that all of them share, mapped before main.
 * Thread:   one a process.
 * Cost:     two meetings a sum, each of which spins.
 * Not here: a rank that ends while others wait for it: they wait until their group's alarm.
 */
#pragma once

#include <atomic>
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda/cuda_backend.cuh"

enum { SIMT_NCCL_RANKS = 2, SIMT_NCCL_MEETINGS = 8, SIMT_NCCL_FLOATS = 1 << 20 };

/* Ranks that compute together. */
struct simt_meeting {
    std::atomic<uint32_t> come;
    std::atomic<bool> is_broken; /* no rank waits for others any more */
    size_t counts[SIMT_NCCL_RANKS];
    uint64_t captures[SIMT_NCCL_RANKS];
    float slots[SIMT_NCCL_RANKS][SIMT_NCCL_FLOATS];
};

struct simt_nccl_shared {
    std::atomic<uint32_t> used;
    struct simt_meeting meetings[SIMT_NCCL_MEETINGS];
};

static struct simt_nccl_shared *const simt_nccl_all =
    (struct simt_nccl_shared *)mmap(nullptr, sizeof(struct simt_nccl_shared),
                                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

struct simt_nccl_id {
    char internal[128];
};

struct simt_nccl_comm {
    struct simt_meeting *meeting;
    int rank;
    uint32_t turn;
    uint64_t captured; /* sums in graphs */
};

static int simt_nccl_id_make(struct simt_nccl_id *out)
{
    const uint32_t which = simt_nccl_all->used++ % SIMT_NCCL_MEETINGS;
    memset(out, 0, sizeof *out);
    memcpy(out->internal, &which, sizeof which);
    return 0;
}

static int simt_nccl_init(void **out, int ranks, struct simt_nccl_id id, int rank)
{
    uint32_t which;
    memcpy(&which, id.internal, sizeof which);
    struct simt_nccl_comm *comm = new simt_nccl_comm{&simt_nccl_all->meetings[which], rank, 0, 0};
    *out = comm;
    return ranks == SIMT_NCCL_RANKS ? 0 : 1;
}

static void simt_nccl_meet(struct simt_nccl_comm *comm)
{
    comm->turn += SIMT_NCCL_RANKS;
    comm->meeting->come++;
    while ((int32_t)(comm->meeting->come - comm->turn) < 0) {
        if (comm->meeting->is_broken)
            abort();
        sched_yield();
    }
}

/* Sums from rank 0 on. With NCCL, ranks that sum different counts would hang or read wrong memory;
 * ranks may also hang when only one uses a graph, or graphs of different captures. Here both end
 * the test. */
static void simt_nccl_sum(struct simt_nccl_comm *comm, const float *from, float *to, size_t count,
                          uint64_t capture)
{
    struct simt_meeting *meeting = comm->meeting;
    meeting->counts[comm->rank] = count;
    meeting->captures[comm->rank] = capture;
    memcpy(meeting->slots[comm->rank], from, count * sizeof *from);
    simt_nccl_meet(comm);
    if (meeting->counts[0] != meeting->counts[1] || meeting->captures[0] != meeting->captures[1]) {
        meeting->is_broken = true;
        abort();
    }
    for (size_t i = 0; i < count; i++)
        to[i] = meeting->slots[0][i] + meeting->slots[1][i];
    simt_nccl_meet(comm);
}

static int simt_nccl_reduce(const void *from, void *to, size_t count, int, int, void *context,
                            cudaStream_t)
{
    struct simt_nccl_comm *comm = (struct simt_nccl_comm *)context;
    if (count > SIMT_NCCL_FLOATS)
        abort();
    if (simt_nccl_refuses_capture && simt_is_capturing())
        return 1;
    const uint64_t capture = simt_is_capturing() ? ++comm->captured : 0;
    return simt_work(&simt_counts.launches,
                     [=] {
                         simt_nccl_sum(comm, (const float *)from, (float *)to, count, capture);
                     }) == cudaSuccess
               ? 0
               : 1;
}

static int simt_nccl_abort(void *)
{
    return 0;
}

static const char *simt_nccl_error(int)
{
    return "unhandled cuda error";
}

/* Replaces dlopen and its siblings. */
static void *simt_nccl_open(const char *, int)
{
    return simt_devices > 1 ? simt_nccl_all : nullptr;
}

static int simt_nccl_close(void *)
{
    return 0;
}

static void *simt_nccl_symbol(void *, const char *name)
{
    const struct {
        const char *name;
        void *symbol;
    } symbols[] = {{"ncclGetUniqueId", (void *)simt_nccl_id_make},
                   {"ncclCommInitRank", (void *)simt_nccl_init},
                   {"ncclAllReduce", (void *)simt_nccl_reduce},
                   {"ncclCommAbort", (void *)simt_nccl_abort},
                   {"ncclGetErrorString", (void *)simt_nccl_error}};
    for (const auto &symbol : symbols)
        if (strcmp(symbol.name, name) == 0)
            return symbol.symbol;
    return nullptr;
}
