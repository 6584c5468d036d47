/* gpu_parity_chain: a chain of random operations, each of which reads what others wrote, gives
 * equal bits with and without early launch, one by one and as a graph, with few stages and with
 * all. An operation that begins before its input is complete gives other bits here. Tokens are
 * sampled from the last buffer right behind the chain, twice, with other masks each time. */
#include "kernels/cuda/cuda_draw.h"
#include "kernels/cuda/cuda_step.h"
#include "tests/gpu/gpu_parity.h"

enum {
    CHAIN_OPS = 300,
    CHAIN_COLS = 64,
    CHAIN_ROWS_MAX = 20, /* one more than linear layers treat as few, and more */
    CHAIN_BUFFERS = 5,
    CHAIN_ROWS = 8, /* of the step */
    CHAIN_HEADS = 4,
    CHAIN_KV_HEADS = 2,
    CHAIN_DIM = 16,
    CHAIN_PAGE_TOKENS = 16,
    CHAIN_PAGES_EACH = 3,
    CHAIN_TEXTS = 2,
    CHAIN_PAGES = CHAIN_TEXTS * CHAIN_PAGES_EACH,
    CHAIN_DRAWS = 2,
    CHAIN_STEPS = 2,        /* one by one; as the graph that is captured now */
    CHAIN_STEPS_LARGE = 30, /* the more steps, the likelier that two operations overlap */
};

enum chain_kind {
    CHAIN_NORM,
    CHAIN_LINEAR,
    CHAIN_LINEAR_ADD,
    CHAIN_LINEAR_ACT,
    CHAIN_ACT,
    CHAIN_SOFTCAP,
    CHAIN_ROPE,
    CHAIN_KV_WRITE,
    CHAIN_ATTENTION,
    CHAIN_GATHER,
    CHAIN_KINDS
};

static const uint32_t CHAIN_TYPES[] = {TENSOR_TYPE_f32,  TENSOR_TYPE_f16,  TENSOR_TYPE_bf16,
                                       TENSOR_TYPE_q8_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_1};
enum { CHAIN_WEIGHTS = sizeof CHAIN_TYPES / sizeof CHAIN_TYPES[0] };

/* One operation; `to` is another buffer than `from`. `weight` also chooses among its variants. */
struct chain_op {
    enum chain_kind kind;
    uint32_t from, to, rows, weight;
};

/* The initial data of every side, and its operations. */
static struct chain {
    struct chain_op ops[CHAIN_OPS];
    struct tensor tensors[CHAIN_WEIGHTS];
    float floats[CHAIN_BUFFERS][CHAIN_ROWS_MAX * CHAIN_COLS];
    float norm[CHAIN_COLS];
    float angles[CHAIN_ROWS][CHAIN_DIM / 2][2];
    uint32_t order[CHAIN_ROWS_MAX];
    uint32_t masks[CHAIN_DRAWS][CHAIN_ROWS][CHAIN_COLS / 32];
    struct kv_layout layout;
    uint16_t *pages;
} chain;

/* What a step leaves. */
struct chain_result {
    float floats[CHAIN_BUFFERS][CHAIN_ROWS_MAX * CHAIN_COLS];
    struct draw_result draws[CHAIN_DRAWS][CHAIN_ROWS];
};

/* A side, with a backend of its own. */
struct chain_side {
    struct cuda_backend *backend;
    struct cuda_draw *draw;
    struct weight weights[CHAIN_WEIGHTS];
    float *floats[CHAIN_BUFFERS];
    float *norm;
    float *angles;
    uint32_t *order;
    void *pages;
    struct kv_rows kv;
};

static const uint32_t CHAIN_SEQUENCE[CHAIN_ROWS] = {0, 0, 0, 0, 0, 1, 1, 1};
static const uint32_t CHAIN_POSITION[CHAIN_ROWS] = {14, 15, 16, 17, 18, 40, 41, 42};
static const uint32_t CHAIN_TABLE[CHAIN_TEXTS][CHAIN_PAGES_EACH] = {{4, 1, 3}, {0, 5, 2}};
static const uint32_t *const CHAIN_TABLES[CHAIN_TEXTS] = {CHAIN_TABLE[0], CHAIN_TABLE[1]};

static enum act_kind chain_act(const struct chain_op *op)
{
    return (enum act_kind)(ACT_SILU_MUL + op->weight % ACT_GELU_ERF);
}

static void chain_linear(const struct chain_side *side, const struct chain_op *op)
{
    const struct weight *weight = &side->weights[op->weight];
    const enum act_kind act = op->kind == CHAIN_LINEAR_ACT ? chain_act(op) : ACT_NONE;
    const bool is_layer = op->weight % 2 == 1;
    struct linear_args args = {.x = side->floats[op->from],
                               .rows = op->rows,
                               .count = kernels_act_takes_two(act) ? 2 : 1,
                               .weights = {weight, weight},
                               .bias = {op->rows > 1 ? side->norm : NULL},
                               .y = {side->floats[op->to]},
                               .accumulate = op->kind == CHAIN_LINEAR_ADD,
                               .act = act,
                               .norm = side->norm,
                               .norm_bias = is_layer ? side->norm : NULL,
                               .norm_kind = is_layer ? NORM_LAYER : NORM_RMS,
                               .epsilon = 1e-5f};
    cuda_linear(side->backend, &args);
}

static void chain_pages(const struct chain_side *side, const struct chain_op *op)
{
    if (op->kind == CHAIN_KV_WRITE) {
        cuda_kv_write(side->backend, &(struct kv_write_args){.k = side->floats[op->from],
                                                             .v = side->floats[op->to],
                                                             .rows = CHAIN_ROWS,
                                                             .kv = side->kv});
        return;
    }
    cuda_attention(side->backend, &(struct attention_args){.q = side->floats[op->from],
                                                           .out = side->floats[op->to],
                                                           .rows = CHAIN_ROWS,
                                                           .heads = CHAIN_HEADS,
                                                           .scale = 0.25f,
                                                           .kv = side->kv,
                                                           .softcap = (float)(op->weight % 2)});
}

static void chain_run_op(const struct chain_side *side, const struct chain_op *op)
{
    float *from = side->floats[op->from];
    float *to = side->floats[op->to];
    switch (op->kind) {
    case CHAIN_NORM:
        cuda_norm(side->backend,
                  &(struct norm_args){.x = from,
                                      .weight = side->norm,
                                      .y = to,
                                      .rows = op->rows,
                                      .cols = CHAIN_COLS,
                                      .epsilon = 1e-5f,
                                      .kind = op->weight % 2 == 1 ? NORM_LAYER : NORM_RMS,
                                      .accumulate = op->weight % 3 == 0});
        return;
    case CHAIN_ACT:
        cuda_act(side->backend,
                 &(struct act_args){.kind = chain_act(op),
                                    .x = to,
                                    .up = kernels_act_takes_two(chain_act(op)) ? from : NULL,
                                    .rows = op->rows,
                                    .cols = CHAIN_COLS});
        return;
    case CHAIN_SOFTCAP:
        cuda_softcap(side->backend, &(struct softcap_args){to, op->rows, CHAIN_COLS, 4});
        return;
    case CHAIN_ROPE:
        cuda_rope(side->backend,
                  &(struct rope_args){.x = to,
                                      .table = side->angles,
                                      .rows = CHAIN_ROWS,
                                      .heads = CHAIN_HEADS,
                                      .head_dim = CHAIN_DIM,
                                      .pairs = CHAIN_DIM / 2,
                                      .pairing = ROPE_HALVES,
                                      .norm = op->weight % 2 == 1 ? side->norm : NULL,
                                      .epsilon = 1e-6f});
        return;
    case CHAIN_GATHER:
        cuda_gather(side->backend,
                    &(struct gather_args){to, from, side->order, op->rows, CHAIN_COLS});
        return;
    case CHAIN_KV_WRITE:
    case CHAIN_ATTENTION:
        chain_pages(side, op);
        return;
    default:
        chain_linear(side, op);
        return;
    }
}

static void chain_forward(void *context)
{
    for (uint32_t i = 0; i < CHAIN_OPS; i++)
        chain_run_op(context, &chain.ops[i]);
}

static void chain_make(void)
{
    static const uint32_t rows[] = {1, CHAIN_ROWS, 12, CHAIN_ROWS_MAX};
    const size_t halves = CHAIN_PAGES * chain.layout.page_bytes / sizeof(uint16_t);
    for (uint32_t i = 0; i < CHAIN_OPS; i++) {
        struct chain_op *op = &chain.ops[i];
        op->kind = (enum chain_kind)rng_below(&parity.rng, CHAIN_KINDS);
        op->from = (uint32_t)rng_below(&parity.rng, CHAIN_BUFFERS);
        op->to =
            (op->from + 1 + (uint32_t)rng_below(&parity.rng, CHAIN_BUFFERS - 1)) % CHAIN_BUFFERS;
        op->rows = rows[rng_below(&parity.rng, sizeof rows / sizeof rows[0])];
        op->weight = (uint32_t)rng_below(&parity.rng, CHAIN_WEIGHTS);
    }
    for (uint32_t i = 0; i < CHAIN_WEIGHTS; i++)
        chain.tensors[i] = parity_tensor(CHAIN_TYPES[i], CHAIN_COLS, CHAIN_COLS);
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        for (uint32_t i = 0; i < CHAIN_ROWS_MAX * CHAIN_COLS; i++)
            chain.floats[b][i] = (float)(rng_unit(rng_next(&parity.rng)) * 2 - 1);
    for (uint32_t i = 0; i < CHAIN_COLS; i++)
        chain.norm[i] = (float)(rng_unit(rng_next(&parity.rng)) + 0.5);
    for (uint32_t r = 0; r < CHAIN_ROWS; r++)
        for (uint32_t i = 0; i < CHAIN_DIM / 2; i++) {
            chain.angles[r][i][0] = cosf((float)(CHAIN_POSITION[r] * (i + 1)));
            chain.angles[r][i][1] = sinf((float)(CHAIN_POSITION[r] * (i + 1)));
        }
    for (uint32_t r = 0; r < CHAIN_ROWS_MAX; r++)
        chain.order[r] = (uint32_t)rng_below(&parity.rng, CHAIN_ROWS_MAX);
    for (uint32_t d = 0; d < CHAIN_DRAWS; d++)
        for (uint32_t r = 0; r < CHAIN_ROWS; r++)
            for (uint32_t i = 0; i < CHAIN_COLS / 32; i++)
                chain.masks[d][r][i] = (uint32_t)rng_next(&parity.rng) | 1;
    chain.pages = parity_host(halves * sizeof *chain.pages);
    for (size_t i = 0; i < halves; i++) /* 0.125 to 0.25, of both signs */
        chain.pages[i] = (uint16_t)(0x3000 | (rng_next(&parity.rng) & 0x8bff));
}

static void *chain_up(struct cuda_backend *backend, const void *from, size_t bytes)
{
    void *out;
    parity_must(cuda_backend_alloc(backend, &out, bytes, "the chain's data"), "chain");
    cuda_backend_upload(backend, out, from, bytes);
    return out;
}

static void chain_open(struct chain_side *side, const struct kernels_trial *trial)
{
    const struct cuda_backend_options options = {.rows_max = CHAIN_ROWS_MAX,
                                                 .cols_max = CHAIN_COLS,
                                                 .tables_max = CHAIN_PAGES,
                                                 .split_bytes = 1 << 20,
                                                 .trial = *trial};
    parity_must(cuda_backend_open(&side->backend, &options), "open");
    parity_must(cuda_draw_open(side->backend, &side->draw, CHAIN_COLS, 1), "draw");
    for (uint32_t i = 0; i < CHAIN_WEIGHTS; i++)
        parity_must(cuda_backend_weight_create(side->backend, &side->weights[i], &chain.tensors[i]),
                    "weight");
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        side->floats[b] = chain_up(side->backend, chain.floats[b], sizeof chain.floats[b]);
    side->norm = chain_up(side->backend, chain.norm, sizeof chain.norm);
    side->angles = chain_up(side->backend, chain.angles, sizeof chain.angles);
    side->order = chain_up(side->backend, chain.order, sizeof chain.order);
    side->pages = chain_up(side->backend, chain.pages, CHAIN_PAGES * chain.layout.page_bytes);
    side->kv = (struct kv_rows){.layout = &chain.layout,
                                .pages = side->pages,
                                .sequence = CHAIN_SEQUENCE,
                                .position = CHAIN_POSITION,
                                .page_tables = CHAIN_TABLES};
}

static void chain_close(struct chain_side *side)
{
    void *const memory[] = {side->norm, side->angles, side->order, side->pages};
    for (uint32_t i = 0; i < CHAIN_WEIGHTS; i++)
        cuda_backend_weight_destroy(side->backend, &side->weights[i]);
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        cuda_backend_free(side->backend, side->floats[b]);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        cuda_backend_free(side->backend, memory[i]);
    cuda_draw_close(side->draw);
    cuda_backend_close(side->backend);
}

/* Samples from the last buffer; every fourth row has no mask. */
static void chain_draw(const struct chain_side *side, uint32_t index, struct draw_result *out)
{
    struct draw draws[CHAIN_ROWS];
    for (uint32_t r = 0; r < CHAIN_ROWS; r++)
        draws[r] = (struct draw){.row = r,
                                 .temperature = (float)(r % 3),
                                 .top_p = r % 2 == 0 ? 1 : 0.9f,
                                 .top_count = 2,
                                 .stream = r,
                                 .mask = r % 4 == 3 ? NULL : chain.masks[index][r]};
    parity_must(
        cuda_draw_run(side->draw, &(struct draw_args){.logits = side->floats[CHAIN_BUFFERS - 1],
                                                      .draws = draws,
                                                      .count = CHAIN_ROWS,
                                                      .out = out}),
        "draw");
    for (uint32_t r = 0; r < CHAIN_ROWS; r++)
        if (draws[r].mask != NULL &&
            (draws[r].mask[out[r].token / 32] >> out[r].token % 32 & 1) == 0)
            parity_tell(INFINITY, "chain: row %u has forbidden token %u", r, out[r].token);
}

/* Runs the step, each time from the same initial data, and reads the buffers. */
static void chain_step(const struct chain_side *side, struct chain_result *out)
{
    const struct kernels_step step = {.rows = CHAIN_ROWS, .kv = side->kv, .heads = CHAIN_HEADS};
    const size_t bytes = sizeof chain.floats[0];
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        cuda_backend_upload(side->backend, side->floats[b], chain.floats[b], bytes);
    cuda_backend_upload(side->backend, side->pages, chain.pages,
                        CHAIN_PAGES * chain.layout.page_bytes);
    parity_must(cuda_step_run(side->backend, &step, chain_forward, (void *)(uintptr_t)side),
                "chain");
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < CHAIN_DRAWS; d++)
        chain_draw(side, d, out->draws[d]);
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        parity_must(cuda_backend_download(side->backend, out->floats[b], side->floats[b], bytes),
                    "chain");
}

/* Compares every step of a side with the first side's bits. */
static void chain_check(const struct kernels_trial *trial, const char *name,
                        const struct chain_result *want)
{
    static struct chain_result got;
    const uint32_t graphed = parity.is_large ? CHAIN_STEPS_LARGE : CHAIN_STEPS;
    const uint32_t steps = trial->no_graphs && !parity.is_large ? 1 : graphed;
    struct chain_side side;
    double worst = 0;
    chain_open(&side, trial);
    for (uint32_t i = 0; i < steps; i++) {
        chain_step(&side, &got);
        worst = fmax(worst, parity_same(&got, want, sizeof got));
    }
    chain_close(&side);
    parity_tell(worst, "chain of %d operations, %s: bits", CHAIN_OPS, name);
}

/* Values that are not finite would hide errors. */
static double chain_not_finite(const float (*values)[CHAIN_ROWS_MAX * CHAIN_COLS])
{
    for (uint32_t b = 0; b < CHAIN_BUFFERS; b++)
        for (uint32_t i = 0; i < CHAIN_ROWS_MAX * CHAIN_COLS; i++)
            if (!isfinite(values[b][i]))
                return INFINITY;
    return 0;
}

void gpu_parity_chain(void)
{
    static struct chain_result want;
    static const struct {
        const char *name;
        struct kernels_trial trial;
        bool is_large;
    } trials[] = {{"as graphs", {0}, false},
                  {"as graphs, no early launch", {.no_early = true}, true},
                  {"one by one", {.no_graphs = true}, true},
                  {"few stages, all carveout",
                   {.no_graphs = true, .few_stages = true, .all_carveout = true},
                   false}};
    const struct kernels_trial plain = {.no_early = true, .no_graphs = true};
    struct chain_side side;
    parity_must(
        cuda_kv_layout(KV_TYPE_F16, CHAIN_PAGE_TOKENS, 1, CHAIN_KV_HEADS, CHAIN_DIM, &chain.layout),
        "layout");
    chain_make();
    chain_open(&side, &plain);
    chain_step(&side, &want);
    chain_close(&side);
    parity_tell(chain_not_finite((const float(*)[CHAIN_ROWS_MAX * CHAIN_COLS]) want.floats),
                "chain of %d operations: numbers", CHAIN_OPS);
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        if (!trials[i].is_large || parity.is_large)
            chain_check(&trials[i].trial, trials[i].name, &want);
    for (uint32_t i = 0; i < CHAIN_WEIGHTS; i++)
        free((void *)(uintptr_t)chain.tensors[i].data);
    free(chain.pages);
}
