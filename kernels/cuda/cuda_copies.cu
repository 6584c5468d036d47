#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Copies whole pages between the device and pinned memory, on a stream of their own, in order. An
 * event after each batch tells when it is complete and lets work wait for it. There is an event for
 * each of the last CUDA_BACKEND_BATCHES batches. For an older batch the oldest of these events is
 * used, which completes later. So no caller ever waits for a free event. */

static bool copies_is_well(struct cuda_backend *backend, cudaError_t error)
{
    return cuda_backend_is_well(backend, error, "pages_copy");
}

static cudaEvent_t copies_event(const struct cuda_backend *backend, uint64_t batch)
{
    return backend->batches[batch % CUDA_BACKEND_BATCHES];
}

/* Returns `batch`, or the first later batch that has an event. */
static uint64_t copies_known(const struct cuda_backend *backend, uint64_t batch)
{
    return backend->batches_begun - batch < CUDA_BACKEND_BATCHES
               ? batch
               : backend->batches_begun - CUDA_BACKEND_BATCHES + 1;
}

extern "C" uint64_t cuda_pages_copy(struct cuda_backend *backend,
                                    const struct pages_copy_args *args)
{
    struct cuda_plan_run run;
    const uint64_t batch = ++backend->batches_begun;
    if (backend->is_failed)
        return batch;
    bool is_well =
        copies_is_well(backend, cudaEventRecord(backend->worked, backend->stream)) &&
        copies_is_well(backend, cudaStreamWaitEvent(backend->copies, backend->worked, 0));
    for (uint32_t i = 0; is_well && i < args->count; i += run.count) {
        run = cuda_plan_copy(args, i);
        is_well = copies_is_well(
            backend,
            cudaMemcpyAsync((char *)args->to + run.to * args->page_bytes,
                            (const char *)args->from + run.from * args->page_bytes,
                            run.count * args->page_bytes, cudaMemcpyDefault, backend->copies));
    }
    if (is_well)
        copies_is_well(backend, cudaEventRecord(copies_event(backend, batch), backend->copies));
    return batch;
}

extern "C" uint64_t cuda_pages_ended(struct cuda_backend *backend)
{
    while (!backend->is_failed && backend->batches_over < backend->batches_begun) {
        const uint64_t next = copies_known(backend, backend->batches_over + 1);
        const cudaError_t error = cudaEventQuery(copies_event(backend, next));
        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError(); /* not a failure, but recorded like one */
            break;
        }
        if (!copies_is_well(backend, error))
            break;
        backend->batches_over = next;
    }
    return backend->is_failed ? backend->batches_begun : backend->batches_over;
}

extern "C" void cuda_pages_wait_for(struct cuda_backend *backend, uint64_t batch)
{
    ASSERT(batch <= backend->batches_begun);
    if (!backend->is_failed && batch > backend->batches_over)
        copies_is_well(backend,
                       cudaStreamWaitEvent(backend->stream,
                                           copies_event(backend, copies_known(backend, batch)), 0));
}

extern "C" void cuda_pages_wait(struct cuda_backend *backend)
{
    cuda_pages_wait_for(backend, backend->batches_begun);
}

extern "C" enum status cuda_pages_end(struct cuda_backend *backend)
{
    if (!backend->is_failed && copies_is_well(backend, cudaStreamSynchronize(backend->copies)))
        backend->batches_over = backend->batches_begun;
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}
