#include "kernels/cpu/ops/ops.h"

#include "config/base/clock.h"

static const char *const TIMES_NAMES[] = {
#define OP(name) #name,
#include "kernels/ops.def"
};

struct times_job {
    threads_job job;
    void *context;
    int64_t own_end; /* of thread 0, which alone writes and reads it */
};

static void op_times_job(void *context, uint32_t thread, uint32_t count)
{
    struct times_job *timed = context;
    timed->job(timed->context, thread, count);
    if (thread == 0)
        timed->own_end = clock_mono_ns(clock_system());
}

/* When all entries are used, the last one also counts new shapes. */
static struct kernels_time *times_find(struct op_times *times, const struct ops_work *work)
{
    const char *name = TIMES_NAMES[work->op];
    for (uint32_t i = 0; i < times->count; i++) {
        struct kernels_time *entry = &times->entries[i];
        if (entry->name == name && entry->outputs == work->outputs && entry->inputs == work->inputs)
            return entry;
    }
    if (times->count == KERNELS_TIMES_MAX)
        return &times->entries[KERNELS_TIMES_MAX - 1];
    struct kernels_time *entry = &times->entries[times->count++];
    *entry = (struct kernels_time){.name = name, .outputs = work->outputs, .inputs = work->inputs};
    return entry;
}

void op_times_run(struct kernels *kernels, const struct ops_work *work, bool is_alone,
                  threads_job job, void *context)
{
    struct times_job timed = {.job = job, .context = context};
    int64_t start = clock_mono_ns(clock_system());
    if (is_alone)
        op_times_job(&timed, 0, 1);
    else
        threads_run(kernels->threads, op_times_job, &timed);
    int64_t end = is_alone ? timed.own_end : clock_mono_ns(clock_system());
    struct kernels_time *entry = times_find(&kernels->times, work);
    entry->calls++;
    entry->ns += (uint64_t)(end - start);
    entry->wait_ns += (uint64_t)(end - timed.own_end);
    entry->int8_operations += work->int8_operations;
    entry->f32_operations += work->f32_operations;
    entry->bytes += work->bytes;
}

void op_times_begin(struct kernels *kernels)
{
    kernels->times = (struct op_times){.is_on = true};
}

uint32_t op_times_end(struct kernels *kernels, struct kernels_time *out)
{
    kernels->times.is_on = false;
    for (uint32_t i = 0; i < kernels->times.count; i++)
        out[i] = kernels->times.entries[i];
    return kernels->times.count;
}
