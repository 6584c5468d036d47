#include "kernels/cuda/cuda_nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/ranks.h"

/* The part of nccl.h that is used, unchanged since 2.0. */
enum { NCCL_SUCCESS = 0, NCCL_FLOAT32 = 7, NCCL_SUM = 0 };

struct nccl_id {
    char internal[128];
};

struct nccl_calls {
    int (*id)(struct nccl_id *out);
    int (*init)(void **comm, int ranks, struct nccl_id id, int rank);
    int (*reduce)(const void *from, void *to, size_t count, int type, int operation, void *comm,
                  cudaStream_t stream);
    int (*abort)(void *comm);
    const char *(*error)(int result);
};

struct cuda_nccl {
    struct cuda_backend *backend;
    struct ranks *ranks;
    void *library;
    struct nccl_calls calls;
    void *comm; /* NULL once a rank has ended */
    void *lost; /* the communicator after that */
};

/* What rank 0 sends to the others. */
struct nccl_hello {
    bool has_nccl;
    struct nccl_id id;
};

static bool nccl_load(struct cuda_nccl *nccl)
{
    struct nccl_calls *calls = &nccl->calls;
    const struct {
        const char *name;
        void *place;
    } symbols[] = {{"ncclGetUniqueId", &calls->id},
                   {"ncclCommInitRank", &calls->init},
                   {"ncclAllReduce", &calls->reduce},
                   {"ncclCommAbort", &calls->abort},
                   {"ncclGetErrorString", &calls->error}};
    nccl->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = nccl->library != NULL ? dlsym(nccl->library, symbols[i].name) : NULL;
        if (symbol == NULL)
            return false;
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    return true;
}

static enum status nccl_check(const struct cuda_nccl *nccl, int result, const char *what)
{
    if (result == NCCL_SUCCESS)
        return STATUS_OK;
    FAIL(STATUS_UNAVAILABLE, "NCCL: %s: %s", what, nccl->calls.error(result));
}

/* All ranks report whether they have NCCL. Rank 0 answers whether all have it, with the id of the
 * communicator; for that, it listens on a socket of its own, which a process that has given up its
 * rights may not do. */
static enum status nccl_meet(struct cuda_nccl *nccl, struct nccl_hello *hello)
{
    bool has_nccl = nccl_load(nccl);
    memset(hello, 0, sizeof *hello);
    if (ranks_own(nccl->ranks) > 0) {
        TRY(ranks_write(nccl->ranks, 0, &has_nccl, sizeof has_nccl));
        return ranks_read(nccl->ranks, 0, hello, sizeof *hello);
    }
    hello->has_nccl = has_nccl;
    for (uint32_t rank = 1; rank < ranks_count(nccl->ranks); rank++) {
        TRY(ranks_read(nccl->ranks, rank, &has_nccl, sizeof has_nccl));
        hello->has_nccl = hello->has_nccl && has_nccl;
    }
    if (hello->has_nccl)
        hello->has_nccl = nccl->calls.id(&hello->id) == NCCL_SUCCESS;
    for (uint32_t rank = 1; rank < ranks_count(nccl->ranks); rank++)
        TRY(ranks_write(nccl->ranks, rank, hello, sizeof *hello));
    return STATUS_OK;
}

enum status cuda_nccl_open(struct cuda_nccl **out, struct cuda_backend *backend,
                           struct ranks *ranks)
{
    struct nccl_hello hello;
    *out = NULL;
    struct cuda_nccl *nccl = (struct cuda_nccl *)mem_zalloc(1, sizeof *nccl);
    if (nccl == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for NCCL");
    nccl->backend = backend;
    nccl->ranks = ranks;
    enum status status = nccl_meet(nccl, &hello);
    if (status == STATUS_OK && hello.has_nccl) {
        int count = (int)ranks_count(ranks);
        int own = (int)ranks_own(ranks);
        status = nccl_check(nccl, nccl->calls.init(&nccl->comm, count, hello.id, own),
                            "ncclCommInitRank");
    }
    if (status != STATUS_OK || !hello.has_nccl) {
        cuda_nccl_close(nccl);
        return status;
    }
    *out = backend->nccl = nccl;
    return STATUS_OK;
}

void cuda_nccl_close(struct cuda_nccl *nccl)
{
    if (nccl == NULL)
        return;
    nccl->backend->nccl = NULL;
    if (nccl->comm != NULL || nccl->lost != NULL)
        return;
    if (nccl->library != NULL)
        dlclose(nccl->library);
    mem_free(nccl);
}

void cuda_nccl_reduce(struct cuda_nccl *nccl, const struct all_reduce_args *args)
{
    struct cuda_backend *backend = nccl->backend;
    const size_t count = (size_t)args->rows * args->cols;
    if (backend->is_failed || nccl->comm == NULL || count == 0)
        return;
    int result = nccl->calls.reduce(args->x, args->x, count, NCCL_FLOAT32, NCCL_SUM, nccl->comm,
                                    backend->stream);
    /* the step is tried again without a graph */
    if (result != NCCL_SUCCESS && backend->graphs.is_capturing)
        cuda_backend_is_well(backend, cudaErrorStreamCaptureUnsupported, "ncclAllReduce");
    else if (nccl_check(nccl, result, "ncclAllReduce") != STATUS_OK)
        cuda_backend_fail(backend, status_note()->message);
}

void cuda_nccl_gather(struct cuda_nccl *nccl, const struct all_gather_args *args)
{
    struct cuda_backend *backend = nccl->backend;
    const uint64_t own = ranks_own(nccl->ranks);
    const uint64_t count = ranks_count(nccl->ranks);
    const size_t begin = args->cols * own / count;
    const size_t part = args->cols * (own + 1) / count - begin;
    const size_t row_bytes = args->cols * sizeof(float);
    if (backend->is_failed || args->rows == 0)
        return;
    if (!cuda_backend_is_well(
            backend, cudaMemsetAsync(args->out, 0, args->rows * row_bytes, backend->stream),
            "parts of rows") ||
        !cuda_backend_is_well(backend,
                              cudaMemcpy2DAsync(args->out + begin, row_bytes, args->part,
                                                part * sizeof(float), part * sizeof(float),
                                                args->rows, cudaMemcpyDefault, backend->stream),
                              "parts of rows"))
        return;
    struct all_reduce_args sum = {};
    sum.x = args->out;
    sum.rows = args->rows;
    sum.cols = args->cols;
    cuda_nccl_reduce(nccl, &sum);
}

bool cuda_nccl_agree(struct cuda_nccl *nccl, uint64_t own, uint64_t *least, uint64_t *most)
{
    struct ranks *ranks = nccl->ranks;
    const uint64_t *said[LIMIT_RANKS];
    uint64_t *mine = (uint64_t *)ranks_slot(ranks, ranks_own(ranks));
    *mine = own;
    for (uint32_t rank = 0; rank < ranks_count(ranks); rank++)
        said[rank] = (const uint64_t *)ranks_slot(ranks, rank);
    if (ranks_meet(ranks) != STATUS_OK) {
        cuda_backend_fail(nccl->backend, status_note()->message);
        return false;
    }
    *least = *most = own;
    for (uint32_t rank = 0; rank < ranks_count(ranks); rank++) {
        *least = *said[rank] < *least ? *said[rank] : *least;
        *most = *said[rank] > *most ? *said[rank] : *most;
    }
    return true;
}

/* Aborts what the device waits for at once; the call itself may then wait for the other ranks. */
static void *nccl_abort(void *context)
{
    struct cuda_nccl *nccl = (struct cuda_nccl *)context;
    (void)nccl->calls.abort(nccl->lost);
    return NULL;
}

void cuda_nccl_wait(struct cuda_nccl *nccl)
{
    struct ranks_wait wait = {};
    while (!nccl->backend->is_failed && nccl->comm != NULL &&
           cudaStreamQuery(nccl->backend->stream) == cudaErrorNotReady) {
        if (ranks_wait_more(nccl->ranks, &wait) == STATUS_OK)
            continue;
        cuda_backend_fail(nccl->backend, status_note()->message);
        pthread_t thread;
        nccl->lost = nccl->comm;
        nccl->comm = NULL;
        if (pthread_create(&thread, NULL, nccl_abort, nccl) == 0)
            pthread_detach(thread);
    }
}
