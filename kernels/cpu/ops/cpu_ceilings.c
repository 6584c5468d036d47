#include "kernels/cpu/ops/cpu_ceilings.h"

#include <stdatomic.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/mem.h"

/* Repeats of one measurement; a caller that wants more measures several times. */
enum { CEILINGS_REPEATS = 2 };
#define CEILINGS_DRAM_BYTES ((size_t)256 << 20) /* eight times a large cache */
/* Rounds of one repeat: a few hundredths of a second. */
#define CEILINGS_ROUNDS 2000000u

struct ceilings_job {
    struct kernels *kernels;
    uint64_t (*spin)(uint64_t rounds, uint64_t *sink);
    uint64_t rounds;
    const char *memory;
    size_t bytes;
    atomic_uint_fast64_t operations;
    atomic_uint_fast64_t sink;
};

static void cpu_ceilings_spin_job(void *context, uint32_t thread, uint32_t count)
{
    struct ceilings_job *job = context;
    uint64_t sink = thread + count;
    atomic_fetch_add(&job->operations, job->spin(job->rounds, &sink));
    atomic_fetch_add(&job->sink, sink);
}

static void cpu_ceilings_read_job(void *context, uint32_t thread, uint32_t count)
{
    struct ceilings_job *job = context;
    uint64_t sink = 0;
    size_t lines = job->bytes / 64;
    size_t begin = lines * thread / count * 64;
    size_t end = lines * (thread + 1) / count * 64;
    job->kernels->table->read(job->memory + begin, end - begin, &sink);
    atomic_fetch_add(&job->sink, sink);
}

/* Returns billions of operations a second: the best of the repeats and of `best`, because a ceiling
 * is what the undisturbed machine does. */
static double ceilings_spin(struct kernels *kernels,
                            uint64_t (*spin)(uint64_t rounds, uint64_t *sink), double best)
{
    struct ceilings_job job = {.kernels = kernels, .spin = spin, .rounds = CEILINGS_ROUNDS / 8};
    for (int i = 0; i < CEILINGS_REPEATS; i++) {
        atomic_store(&job.operations, 0);
        int64_t start = clock_mono_us(clock_system());
        threads_run(kernels->threads, cpu_ceilings_spin_job, &job);
        int64_t ns = (clock_mono_us(clock_system()) - start) * 1000;
        double rate = (double)atomic_load(&job.operations) / (double)(ns > 0 ? ns : 1);
        best = rate > best ? rate : best;
    }
    return best;
}

static double ceilings_read(struct kernels *kernels, const char *memory, size_t bytes, double best)
{
    struct ceilings_job job = {.kernels = kernels, .memory = memory, .bytes = bytes};
    for (int i = 0; i < CEILINGS_REPEATS; i++) {
        int64_t start = clock_mono_us(clock_system());
        threads_run(kernels->threads, cpu_ceilings_read_job, &job);
        int64_t ns = (clock_mono_us(clock_system()) - start) * 1000;
        double rate = (double)bytes / (double)(ns > 0 ? ns : 1);
        best = rate > best ? rate : best;
    }
    return best;
}

enum status cpu_ceilings_measure(struct kernels *kernels, size_t model_bytes,
                                 struct kernels_ceilings *out)
{
    size_t bytes = model_bytes > CEILINGS_DRAM_BYTES ? model_bytes : CEILINGS_DRAM_BYTES;
    if (model_bytes < 64)
        FAIL(STATUS_OUT_OF_RANGE, "a model of %zu bytes; at least 64 are needed to measure",
             model_bytes);
    char *memory = kernels_buffer_create(kernels, bytes);
    if (memory == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes to read", bytes);
    memset(memory, 1, bytes); /* untouched pages would all be the same page of zeros */
    out->int8_gops = ceilings_spin(kernels, kernels->table->spin_int8, out->int8_gops);
    out->f32_gflops = ceilings_spin(kernels, kernels->table->spin_f32, out->f32_gflops);
    out->read_gbps_model = ceilings_read(kernels, memory, model_bytes, out->read_gbps_model);
    out->read_gbps_dram = ceilings_read(kernels, memory, CEILINGS_DRAM_BYTES, out->read_gbps_dram);
    kernels_buffer_destroy(kernels, memory);
    return STATUS_OK;
}
