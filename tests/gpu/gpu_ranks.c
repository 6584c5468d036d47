/* gpu_ranks: a model of two processes on a device: sums, gathers, then engines against one process
 * alone.
 *
 * Usage: gpu_ranks [apart]. With two devices each rank has its own, and uses NCCL if it is
 * installed. Otherwise both share one device, and sums go over the host. On the processor there are
 * two devices with `apart`: sums are then part of graphs, in both ranks or, where one cannot
 * capture, in none. Ends with 0 when all is well, 77 without a device. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/rng.h"
#include "engine/ranks/rank_follow.h"
#include "kernels/kernels.h"
#include "kernels/kernels_step.h"
#include "tests/gpu/gpu_device.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/rank_group.h"
#include "tests/kit/rounds.h"
#if BANYAN_SIMT
#include "tests/kit/simt/simt.h"
#endif

enum { RANKS = 2, ROWS = 5, COLS = 3001, PROMPT = 90, TOKENS = 12, REQUESTS = 3 };

/* Sums in another order, and halves in between. */
static const double logprob_most = 0.05;

/* On the processor each row of a step takes long, so there are fewer. Prompts still share a page
 * and end inside another. */
#if BANYAN_SIMT
static uint32_t prompt_step(void)
{
    return rounds(17, 35);
}

static uint32_t tokens_asked(void)
{
    return rounds(6, TOKENS);
}
#else
static uint32_t prompt_step(void)
{
    return 35;
}

static uint32_t tokens_asked(void)
{
    return TOKENS;
}
#endif

static uint32_t first_device;
static char model_path[64];
static uint32_t tokens[REQUESTS][PROMPT];
static struct engine_run_transcript split[REQUESTS];
static struct engine_run_transcript alone[REQUESTS];

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s: %s\n", __LINE__, #condition, status_note()->message);             \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static float part_of(uint32_t rank, uint32_t i)
{
    return (float)(int32_t)(rng_at(7, rank, i) % 20001 - 10000) / 64;
}

struct step_sum {
    struct kernels *kernels;
    struct all_reduce_args args;
};

static void step_forward(void *context)
{
    const struct step_sum *sum = context;
    kernels_all_reduce(sum->kernels, &sum->args);
}

static void step_nothing(void *context)
{
    (void)context;
}

/* Runs steps of a shape, of which the second is captured and the third replayed, with one row more.
 * Then one rank drops the graph: both see the shape as new, capture it again, and replay. In
 * between rank 0 has steps of its own, like a draft model's, for which no other rank waits. */
static int steps(struct kernels *kernels, float *x, uint32_t own)
{
    static const uint32_t rows[] = {3, 3, 4, 4, 4, 3};
    enum { DROPPED = 3 };
    static float back[4 * COLS];
    static const uint32_t zeros[4];
    uint32_t table = 0;
    const uint32_t *tables[] = {&table};
    struct kv_layout layout;
    struct step_sum sum = {kernels, {.x = x, .cols = COLS}};
    CHECK(kernels_kv_layout(kernels, KV_TYPE_F16, 64, 1, 1, 64, &layout) == STATUS_OK);
    for (uint32_t turn = 0; turn < sizeof rows / sizeof *rows; turn++) {
        const struct kernels_step step = {.rows = rows[turn],
                                          .kv = {.layout = &layout,
                                                 .pages = x,
                                                 .sequence = zeros,
                                                 .position = zeros,
                                                 .page_tables = tables},
                                          .has_sums = true};
        if (turn == DROPPED && own == 1)
            kernels_buffer_destroy(kernels, NULL); /* no graph may use what is freed */
        sum.args.rows = rows[turn];
        for (uint32_t i = 0; i < 4 * COLS; i++)
            back[i] = part_of(own, i);
        kernels_upload(kernels, x, back, sizeof back);
        if (own == 0) {
            struct kernels_step own_step = step;
            own_step.has_sums = false;
            CHECK(kernels_step_run(kernels, &own_step, step_nothing, NULL) == STATUS_OK);
        }
        CHECK(kernels_step_run(kernels, &step, step_forward, &sum) == STATUS_OK);
        CHECK(kernels_download(kernels, back, x, sizeof back) == STATUS_OK);
        for (uint32_t i = 0; i < rows[turn] * COLS; i++)
            CHECK(back[i] == part_of(0, i) + part_of(1, i));
    }
    return 0;
}

/* Multiples of 1/64, so that every order has the same sum. */
static int operations(struct ranks *ranks, void *context)
{
    static float x[ROWS * COLS];
    static float back[ROWS * COLS];
    struct kernels *kernels = NULL;
    uint32_t own = ranks_own(ranks);
    const uint32_t begin = (uint32_t)((uint64_t)COLS * own / RANKS);
    const uint32_t width = (uint32_t)((uint64_t)COLS * (own + 1) / RANKS) - begin;
    const struct kernels_options options = {.isa = "cuda",
                                            .device = first_device,
                                            .threads = 1,
                                            .rows_max = 16,
                                            .cols_max = 4096,
                                            .ranks = ranks};
    (void)context;
    CHECK(kernels_create(&kernels, &options) == STATUS_OK);
    CHECK(kernels_ranks_open(kernels) == STATUS_OK);
    float *sum = kernels_buffer_create(kernels, sizeof x);
    float *part = kernels_buffer_create(kernels, sizeof x);
    float *out = kernels_buffer_create(kernels, sizeof x);
    CHECK(sum != NULL && part != NULL && out != NULL);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = part_of(own, i);
    kernels_upload(kernels, sum, x, sizeof x);
    kernels_all_reduce(kernels, &(struct all_reduce_args){.x = sum, .rows = ROWS, .cols = COLS});
    CHECK(kernels_download(kernels, back, sum, sizeof back) == STATUS_OK);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        CHECK(back[i] == part_of(0, i) + part_of(1, i));
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < width; i++)
            x[r * width + i] = (float)(r * COLS + begin + i);
    kernels_upload(kernels, part, x, ROWS * width * sizeof *x);
    kernels_all_gather(
        kernels, &(struct all_gather_args){.part = part, .out = out, .rows = ROWS, .cols = COLS});
    CHECK(kernels_step_end(kernels) == STATUS_OK);
    CHECK(kernels_download(kernels, back, out, sizeof back) == STATUS_OK);
    for (uint32_t i = 0; i < ROWS * COLS && own == 0; i++)
        CHECK(back[i] == (float)i);
    CHECK(steps(kernels, sum, own) == 0);
    kernels_buffer_destroy(kernels, sum);
    kernels_buffer_destroy(kernels, part);
    kernels_buffer_destroy(kernels, out);
    kernels_destroy(kernels);
    return 0;
}

static int follow(struct ranks *ranks, void *context)
{
    int descriptor = open(context, O_RDONLY | O_CLOEXEC);
    enum status status = descriptor >= 0 ? rank_follow_run(ranks, descriptor) : STATUS_IO;
    if (status != STATUS_OK)
        printf("rank %u: %s\n", ranks_own(ranks), status_note()->message);
    return status == STATUS_OK ? 0 : 1;
}

#if BANYAN_SIMT
static bool has_graphs(void)
{
    return simt_counts.graphs > 0;
}

/* Its own graphs fail, so the other rank uses none either. */
static int follow_without_graphs(struct ranks *ranks, void *context)
{
    simt_nccl_refuses_capture = 1;
    const int code = follow(ranks, context);
    CHECK(!has_graphs());
    return code;
}

static int follow_with_graphs(struct ranks *ranks, void *context)
{
    const int code = follow(ranks, context);
    CHECK(has_graphs());
    return code;
}
#endif

static struct engine_request request_of(uint32_t index)
{
    const uint32_t count = 10 + prompt_step() * index;
    for (uint32_t i = 0; i < count; i++)
        tokens[index][i] = (uint32_t)(rng_at(9, i < 70 ? 1 : index, i) % 256);
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = tokens[index],
                                   .token_count = count,
                                   .choices = 1,
                                   .tokens_max = tokens_asked(),
                                   .sampling = {.top_p = 1},
                                   .ignore_end = true,
                                   .want_logprobs = true,
                                   .top_logprobs = 2,
                                   .domain = {.bytes = {1}},
                                   .weight = 100};
}

static void run_engine(struct ranks *ranks, struct engine_run_transcript *out)
{
    struct engine_options options = engine_run_options();
    options.isa = "cuda";
    options.device = first_device;
    options.ranks = ranks;
    options.model_path = model_path;
    options.kv_bytes = 16 << 20;
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request request = request_of(i);
        struct engine_run_transcript *one = &out[i];
        engine_run_submit(engine, &request, one);
        engine_run_finish(engine, &one, 1);
    }
    engine_close(engine);
}

static int compare(void)
{
    uint32_t same = 0;
    const uint32_t count = tokens_asked();
    for (uint32_t r = 0; r < REQUESTS; r++) {
        CHECK(!split[r].is_refused && split[r].choices[0].count == count);
        for (uint32_t i = 0; i < count; i++) {
            const struct engine_run_token *a = &alone[r].choices[0].tokens[i];
            const struct engine_run_token *b = &split[r].choices[0].tokens[i];
            if (a->token != b->token) {
                CHECK((double)(a->top[0].logprob - a->top[1].logprob) < 2 * logprob_most);
                break;
            }
            CHECK(fabs((double)a->logprob - (double)b->logprob) < logprob_most);
            same++;
        }
    }
    printf("%u of %u tokens as of one process\n", same, REQUESTS * count);
    CHECK(same >= REQUESTS * count / 2);
    return 0;
}

/* Asks in a child process, since a process must not fork after asking for a device. Returns 0, or
 * the exit status without a device, which has been said. */
static int ask_device(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        exit(kernels_can_run("cuda") ? 0 : gpu_device_missing());
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

static int run_operations(struct rank_group *group)
{
    CHECK(operations(group->ranks, NULL) == 0);
    CHECK(rank_group_end(group) == 0);
    return 0;
}

#if BANYAN_SIMT
/* Each rank has a device of its own. The group forked last ends first, because it holds the others'
 * sockets. */
static int run_apart(void)
{
    struct rank_group engines;
    struct rank_group uneven;
    struct rank_group group;
    rank_group_fork(&engines, RANKS, follow_with_graphs, model_path);
    rank_group_fork(&uneven, RANKS, follow_without_graphs, model_path);
    rank_group_fork(&group, RANKS, operations, NULL);
    CHECK(run_operations(&group) == 0);
    CHECK(simt_counts.graphs == 4 + 5); /* captured and replayed, twice; and its own */
    simt_counts.graphs = 0;
    run_engine(uneven.ranks, split);
    CHECK(rank_group_end(&uneven) == 0);
    CHECK(!has_graphs());
    run_engine(NULL, alone);
    CHECK(compare() == 0);
    simt_counts.graphs = 0;
    run_engine(engines.ranks, split);
    CHECK(rank_group_end(&engines) == 0);
    CHECK(has_graphs());
    return compare();
}
#endif

static int run_ranks(void)
{
    struct rank_group engines;
    struct rank_group group;
    rank_group_fork(&engines, RANKS, follow, model_path);
    rank_group_fork(&group, RANKS, operations, NULL);
    CHECK(run_operations(&group) == 0);
    run_engine(engines.ranks, split);
    CHECK(rank_group_end(&engines) == 0);
    run_engine(NULL, alone);
    return compare();
}

int main(int argc, char **argv)
{
    struct llama_shape shape = engine_run_shape();
    int (*run)(void) = run_ranks;
    (void)argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
#if BANYAN_SIMT
    if (argc > 1) {
        simt_devices = 1 + RANKS;
        simt_old_devices = 1; /* no rank may use the first device */
        first_device = 1;
        run = run_apart;
    }
#else
    (void)argc;
#endif
    int code = ask_device();
    if (code != 0)
        return code;
    shape.type = 1; /* F16 */
    engine_run_write_model(&shape, model_path, sizeof model_path);
    code = run();
    unlink(model_path);
    return code;
}
