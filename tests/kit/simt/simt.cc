/* simt: runs a kernel's blocks on the processor, the threads of a block as fibers. */
#include "tests/kit/simt/cuda_runtime.h"
#include "tests/kit/simt/simt_race.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#undef threadIdx
#undef blockIdx
#undef gridDim
#undef blockDim

enum {
    SIMT_THREADS_MAX = 1024,
    SIMT_STACK_BYTES = 64 << 10,
    SIMT_GIVEN_BYTES = 64,
    SIMT_COPIES_MAX = 512, /* of one thread, unfinished */
};

dim3 simt_thread, simt_block, simt_grid, simt_block_shape;

/* A fiber is the end of its stack. swapcontext would work everywhere, but it asks the system for
 * the signal mask each time, and a kernel's threads switch at every instruction that a warp
 * executes together. */
#if defined(__x86_64__)
typedef void *fiber;
extern "C" void simt_switch(fiber *from, fiber to);
asm(R"(
    .text
    .globl simt_switch
    .type simt_switch, @function
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simt_switch, . - simt_switch
)");

static void fiber_switch(fiber *from, fiber *to)
{
    simt_switch(from, *to);
}

/* Prepares a stack as if main had called switch: six registers, the address to continue at, and no
 * caller. */
static void fiber_make(fiber *out, char *stack, size_t bytes, void (*main)())
{
    void **top = (void **)(stack + bytes);
    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = (void *)main;
    *out = top - 8;
}
#else
typedef ucontext_t fiber;

static void fiber_switch(fiber *from, fiber *to)
{
    swapcontext(from, to);
}

static void fiber_make(fiber *out, char *stack, size_t bytes, void (*main)())
{
    getcontext(out);
    out->uc_stack.ss_sp = stack;
    out->uc_stack.ss_size = bytes;
    out->uc_link = nullptr;
    makecontext(out, main, 0);
}
#endif

/* Threads that have arrived wait until the generation changes. */
struct barrier {
    unsigned arrived;
    unsigned generation;
};

struct copy {
    void *to;
    const void *from;
    uint32_t bytes;
    uint32_t size;
    unsigned group;
};

static struct {
    fiber scheduler;
    fiber threads[SIMT_THREADS_MAX];
    char *stacks;
    bool is_done[SIMT_THREADS_MAX];
    unsigned running;
    unsigned count;
    unsigned left;  /* threads that have not returned */
    uint64_t steps; /* threads that came to a barrier, or returned */
    unsigned warp_left[SIMT_THREADS_MAX / 32];
    barrier block;
    barrier warps[SIMT_THREADS_MAX / 32];
    barrier syncs[SIMT_THREADS_MAX / 32];
    uint32_t launches;
    bool is_running;
    bool is_early[SIMT_THREADS_MAX]; /* launched early, and has not come to cuda_machine_begin */
    /* What lanes give, in two buffers used in turn: each is read until the next exchange but one.
     */
    char given[SIMT_THREADS_MAX / 32][2][32 * SIMT_GIVEN_BYTES];
    unsigned held; /* 1 + generation of the block's barrier at which a predicate last held */
    copy copies[SIMT_THREADS_MAX][SIMT_COPIES_MAX];
    unsigned copy_count[SIMT_THREADS_MAX];
    unsigned copy_groups[SIMT_THREADS_MAX];
    void (*body)(void *context);
    void *context;
} simt;

static void yield()
{
    fiber_switch(&simt.threads[simt.running], &simt.scheduler);
}

static void wait(barrier *at, unsigned wanted)
{
    const unsigned generation = at->generation;
    simt.steps++;
    if (++at->arrived == wanted) {
        at->arrived = 0;
        at->generation++;
    }
    while (at->generation == generation)
        yield();
}

void simt_barrier_block()
{
    if (simt.left != simt.count) {
        fprintf(stderr, "simt: a barrier came after some threads had ended\n");
        abort();
    }
    wait(&simt.block, simt.count);
}

void simt_barrier_warp()
{
    const unsigned warp = simt.running / 32;
    if (simt.warp_left[warp] != 32) {
        fprintf(stderr, "simt: only a part of a warp came to a barrier\n");
        abort();
    }
    wait(&simt.syncs[warp], 32);
}

int __syncthreads_or(int predicate)
{
    const unsigned now = simt.block.generation + 1;
    if (predicate)
        simt.held = now;
    simt_barrier_block();
    const bool out = simt.held == now;
    simt_barrier_block(); /* all threads have read it */
    return out;
}

alignas(16) static char shared[SIMT_SHARED_BYTES];
static size_t shared_bytes; /* of the launch */

void simt_shared(size_t bytes)
{
    if (bytes > SIMT_SHARED_BYTES) {
        fprintf(stderr, "simt: %zu bytes of shared memory are too many\n", bytes);
        abort();
    }
    shared_bytes = bytes;
    memset(shared, 0xff, bytes);
}

char *cuda_machine_shared()
{
    return shared;
}

static void copy_begin(void *to, const void *from, uint32_t bytes, uint32_t size)
{
    const unsigned thread = simt.running;
    const size_t at = (size_t)((char *)to - shared);
    if (at % size != 0 || at + size > shared_bytes || (uintptr_t)from % size != 0 || bytes > size ||
        simt.copy_count[thread] == SIMT_COPIES_MAX) {
        fprintf(stderr, "simt: an impossible copy of %u bytes\n", bytes);
        abort();
    }
    if (simt_race_write != nullptr) {
        simt_race_read(from, bytes);
        simt_race_write(to, size);
    }
    memset(to, 0xff, size);
    simt.copies[thread][simt.copy_count[thread]++] =
        copy{to, from, bytes, size, simt.copy_groups[thread]};
}

void cuda_machine_copy16(void *to, const void *from, uint32_t bytes)
{
    copy_begin(to, from, bytes, 16);
}

void cuda_machine_copy8(void *to, const void *from, uint32_t bytes)
{
    copy_begin(to, from, bytes, 8);
}

void cuda_machine_copied()
{
    simt.copy_groups[simt.running]++;
}

/* Performs the copies of groups before `group`. */
static void copies_do(unsigned group)
{
    const unsigned thread = simt.running;
    unsigned left = 0;
    for (unsigned i = 0; i < simt.copy_count[thread]; i++) {
        const copy one = simt.copies[thread][i];
        if (one.group >= group) {
            simt.copies[thread][left++] = one;
            continue;
        }
        if (simt_race_write != nullptr)
            simt_race_write(one.to, one.size);
        memset(one.to, 0, one.size);
        memcpy(one.to, one.from, one.bytes);
    }
    simt.copy_count[thread] = left;
}

void simt_copied_wait(unsigned left)
{
    const unsigned groups = simt.copy_groups[simt.running];
    copies_do(groups > left ? groups - left : 0);
}

void cuda_machine_copies_wait()
{
    copies_do(simt.copy_groups[simt.running] + 1);
}

/* Rounds twice: right where float32 holds the result exactly, as for codes. */
uint32_t cuda_machine_half2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out = 0;
    for (int i = 0; i < 32; i += 16) {
        const float value =
            fmaf(half_to_float((uint16_t)(a >> i)), half_to_float((uint16_t)(b >> i)),
                 half_to_float((uint16_t)(c >> i)));
        out |= (uint32_t)half_from_float(value) << i;
    }
    return out;
}

uint32_t atomicAdd(uint32_t *at, uint32_t value)
{
    const uint32_t old = *at;
    if (simt_race_add != nullptr)
        simt_race_add(at, sizeof *at);
    *at += value; /* safe, because threads switch at barriers only */
    return old;
}

uint32_t atomicOr(uint32_t *at, uint32_t value)
{
    const uint32_t old = *at;
    if (simt_race_add != nullptr)
        simt_race_add(at, sizeof *at);
    *at |= value;
    return old;
}

struct simt_who simt_who_runs()
{
    return {simt.launches,
            (simt_block.z * simt_grid.y + simt_block.y) * simt_grid.x + simt_block.x,
            simt.block.generation,
            simt.syncs[simt.running / 32].generation,
            simt.running,
            simt.is_early[simt.running]};
}

bool simt_is_running()
{
    return simt.is_running;
}

/* Returns whether an address is shared memory: the launch's, or a kernel's variable, which is among
 * the program's own data. */
extern "C" char __data_start, _end;
bool simt_is_of_device(const void *at)
{
    const char *place = (const char *)at;
    return (place >= &__data_start && place < &_end) || simt_is_device(at);
}

uint32_t simt_lane()
{
    return simt.running % 32;
}

const char *simt_exchange(const void *given, size_t bytes)
{
    const unsigned warp = simt.running / 32;
    char *all = simt.given[warp][simt.warps[warp].generation % 2];
    if (bytes > SIMT_GIVEN_BYTES || simt.warp_left[warp] != 32) {
        fprintf(stderr, "simt: only a part of a warp came to an exchange\n");
        abort();
    }
    memcpy(all + simt_lane() * SIMT_GIVEN_BYTES, given, bytes);
    wait(&simt.warps[warp], 32);
    return all;
}

static void thread_main()
{
    simt.body(simt.context);
    if (simt.copy_count[simt.running] > 0) {
        fprintf(stderr, "simt: a thread ended before its copies\n");
        abort();
    }
    simt.is_done[simt.running] = true;
    simt.left--;
    simt.steps++;
    simt.warp_left[simt.running / 32]--;
    yield();
}

static void run_block(dim3 block, bool is_early)
{
    simt.left = simt.count;
    for (unsigned i = 0; i < simt.count; i++) {
        simt.is_done[i] = false;
        simt.is_early[i] = is_early;
        simt.copy_groups[i] = 0;
        simt.warps[i / 32] = simt.syncs[i / 32] = barrier{};
        simt.warp_left[i / 32] = 32;
        fiber_make(&simt.threads[i], simt.stacks + (size_t)i * SIMT_STACK_BYTES, SIMT_STACK_BYTES,
                   thread_main);
    }
    simt.block = barrier{};
    simt.held = 0;
    while (simt.left > 0) {
        const uint64_t before = simt.steps;
        for (unsigned i = 0; i < simt.count; i++) {
            if (simt.is_done[i])
                continue;
            simt.running = i;
            simt_thread = dim3(i % block.x, i / block.x % block.y, i / (block.x * block.y));
            fiber_switch(&simt.scheduler, &simt.threads[i]);
        }
        if (simt.steps == before) {
            fprintf(stderr, "simt: threads of a block wait for others that never come\n");
            abort();
        }
    }
}

static uint64_t simt_begun; /* threads that have called cuda_machine_begin */

void cuda_machine_begin()
{
    simt_begun++;
    simt.is_early[simt.running] = false;
}

/* Advances by a hundred with each call. */
long long clock64()
{
    static long long cycles;
    return cycles += 100;
}

void simt_run(dim3 grid, dim3 block, bool is_early, void (*body)(void *context), void *context)
{
    const uint64_t begun = simt_begun;
    simt.count = block.x * block.y * block.z;
    if (simt.count % 32 != 0 || simt.count > SIMT_THREADS_MAX || grid.x * grid.y * grid.z == 0 ||
        grid.y > 65535 || grid.z > 65535) {
        fprintf(stderr, "simt: impossible shape: %u × %u × %u blocks of %u threads\n", grid.x,
                grid.y, grid.z, simt.count);
        abort();
    }
    if (simt.stacks == nullptr)
        simt.stacks = (char *)aligned_alloc(64, (size_t)SIMT_THREADS_MAX * SIMT_STACK_BYTES);
    simt.body = body;
    simt.context = context;
    simt_grid = grid;
    simt_block_shape = block;
    simt.launches++;
    simt.is_running = true;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                simt_block = dim3(x, y, z);
                run_block(block, is_early);
            }
    simt.is_running = false;
    if (simt_race_over != nullptr)
        simt_race_over();
    if (is_early && simt_begun - begun != (uint64_t)simt.count * grid.x * grid.y * grid.z) {
        fprintf(
            stderr,
            "simt: a kernel was launched early, but not all of its threads begin with a wait\n");
        abort();
    }
}

/* 2^exponent. */
static double power_of_two(int64_t exponent)
{
    const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* Truncates each term toward zero at simt_cut_places binary places below the greatest one's first,
 * then the sum toward zero at a float32's last place. Devices do so; their manual does not say. */
static float sum_cut(const double *terms, unsigned count)
{
    double most = 0;
    int64_t sum = 0;
    uint64_t bits;
    for (unsigned i = 0; i < count; i++)
        most = fabs(terms[i]) > most ? fabs(terms[i]) : most;
    if (most == 0)
        return 0;
    memcpy(&bits, &most, sizeof bits);
    const int64_t exponent = (int64_t)(bits >> 52) - 1023 - simt_cut_places; /* of the last place */
    const double places = power_of_two(-exponent);
    for (unsigned i = 0; i < count; i++)
        sum += (int64_t)(terms[i] * places);
    const double exact = (double)sum * power_of_two(exponent);
    const float out = (float)exact;
    return fabs((double)out) > fabs(exact) ? nextafterf(out, 0) : out;
}

/* Sums in float32 in rising order, unless a test asks for truncation; values that are not finite
 * are never truncated. */
static float sum_terms(const double *terms, unsigned count)
{
    float sum = (float)terms[0];
    for (unsigned i = 1; i < count; i++)
        sum += (float)terms[i];
    return simt_cut_places > 0 && isfinite(sum) ? sum_cut(terms, count) : sum;
}

/* Lane 4g + t has rows g and g + 8 and columns 2t, 2t + 1, 2t + 8, 2t + 9 of A; the same rows of B
 * in column g; rows g and g + 8 and columns 2t, 2t + 1 of C. */
void simt_mma(float *c, const uint32_t *a, const uint32_t *b, float (*read)(uint16_t bits))
{
    uint32_t given[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const char *all = simt_exchange(given, sizeof given);
    const unsigned g = simt_lane() / 4;
    const unsigned t = simt_lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned column = 2 * t + i % 2;
        double terms[1 + 16] = {c[i]};
        for (unsigned k = 0; k < 16; k++) {
            uint32_t of_a, of_b;
            memcpy(&of_a, all + (4 * g + k % 8 / 2) * SIMT_GIVEN_BYTES + 4 * (i / 2 + 2 * (k / 8)),
                   sizeof of_a);
            memcpy(&of_b, all + (4 * column + k % 8 / 2) * SIMT_GIVEN_BYTES + 4 * (4 + k / 8),
                   sizeof of_b);
            terms[1 + k] =
                read((uint16_t)(of_a >> 16 * (k % 2))) * read((uint16_t)(of_b >> 16 * (k % 2)));
        }
        c[i] = sum_terms(terms, sizeof terms / sizeof terms[0]);
    }
}

/* --- the runtime --- */

int simt_calls_left = -1;
int simt_capture_calls_left = -1;
int simt_error = cudaSuccess;
size_t simt_memory_bytes = (size_t)1 << 30;
struct simt_counts simt_counts;
size_t simt_used_bytes;
size_t simt_shared_most = SIMT_SHARED_BYTES;
int simt_has_code = 1;
int simt_devices = 1;
int simt_old_devices;
int simt_nccl_refuses_capture;
int simt_cut_places;
static simt_graph *captured; /* NULL: no capture is in progress */
static bool is_broken;       /* the capture will end with nothing */

cudaError_t simt_call(uint64_t *count)
{
    ++*count;
    if (simt_calls_left == 0)
        simt_error = cudaErrorLaunchFailure;
    else if (simt_calls_left > 0)
        simt_calls_left--;
    return simt_error;
}

/* A call that is part of a capture. */
static cudaError_t capture_call(uint64_t *count)
{
    const cudaError_t error = simt_call(count);
    const bool fails = simt_capture_calls_left == 0;
    if (simt_capture_calls_left >= 0)
        simt_capture_calls_left--;
    return error != cudaSuccess ? error : fails ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t simt_call_outside(uint64_t *count)
{
    const cudaError_t error = simt_call(count);
    is_broken = is_broken || captured != nullptr;
    return error == cudaSuccess && captured != nullptr ? cudaErrorStreamCaptureUnsupported : error;
}

bool simt_is_capturing()
{
    return captured != nullptr;
}

/* Runs a kernel or a copy, which may touch the device's memory. */
static void work_do(const std::function<void()> &work)
{
    const bool before = simt_reach(true);
    work();
    simt_reach(before);
}

cudaError_t simt_work(uint64_t *count, const std::function<void()> &work)
{
    const cudaError_t error = captured != nullptr ? capture_call(count) : simt_call(count);
    if (error != cudaSuccess)
        is_broken = true;
    else if (captured != nullptr)
        captured->works.push_back(work);
    else
        work_do(work);
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode)
{
    const cudaError_t error = capture_call(&simt_counts.captures);
    if (error != cudaSuccess)
        return error;
    captured = new simt_graph;
    is_broken = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    cudaError_t error = capture_call(&simt_counts.captures);
    if (error == cudaSuccess && is_broken)
        error = cudaErrorStreamCaptureInvalidated;
    *out = error == cudaSuccess ? captured : nullptr;
    if (error != cudaSuccess)
        delete captured;
    captured = nullptr;
    return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    const size_t bytes = graph->works.size() * SIMT_GRAPH_BYTES;
    *out = nullptr;
    const cudaError_t error = capture_call(&simt_counts.captures);
    if (error != cudaSuccess)
        return error;
    if (bytes > simt_memory_bytes - simt_used_bytes)
        return cudaErrorMemoryAllocation;
    simt_used_bytes += bytes;
    *out = new simt_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return capture_call(&simt_counts.captures);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t)
{
    const cudaError_t error = simt_call_outside(&simt_counts.graphs);
    if (error == cudaSuccess)
        for (const std::function<void()> &work : graph->works)
            work_do(work);
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    simt_used_bytes -= graph->works.size() * SIMT_GRAPH_BYTES;
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = nullptr;
    const cudaError_t error = simt_call_outside(&simt_counts.allocations);
    if (error != cudaSuccess)
        return error;
    if (bytes > simt_memory_bytes - simt_used_bytes)
        return cudaErrorMemoryAllocation; /* fails this call alone */
    *out = simt_memory_take(bytes);
    if (*out == nullptr)
        return cudaErrorOperatingSystem;
    simt_used_bytes += bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    static int context = -1; /* the context's node, open while the process lives */
    if (memory == nullptr && context < 0)
        context = simt_node_open();
    if (memory != nullptr)
        simt_used_bytes -= simt_memory_give(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    *out = simt_pinned_take(bytes);
    return *out != nullptr ? simt_call_outside(&simt_counts.allocations)
                           : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *memory)
{
    simt_pinned_give(memory);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = simt_memory_bytes - simt_used_bytes;
    *total_bytes = simt_memory_bytes;
    return simt_error;
}
