/* gpu_model: a small llama of seeded weights, all of its layers, computed by kernels/cuda and by
 * `ref`: the operations as an engine calls them, in order, in device memory.
 *
 * usage: gpu_model [--large]   --large: two layers of 1B and 8B dimensions too Shows that logits
 * are within a bound, and that greedy tokens are equal wherever ref's two best differ by more than
 * that bound. A text whose pages went to pinned memory and came back to other pages continues with
 * equal bits; so does one computed in other chunks, beside other texts. Ends with 0, 1, or
 * 77 without a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/kernels.h"
#include "tests/gpu/gpu_device.h"

enum { LAYERS = 2, PAGE_TOKENS = 64, ROWS_MAX = 128, PAGES = 16, PAGES_EACH = 3 };
enum { PROMPT = 70, STEPS = 8, TEXTS = 3 };

struct shape {
    uint32_t width, hidden, heads, kv_heads, head_dim, vocab;
    uint32_t type; /* of all matrices */
    double bound;  /* of a logit of a few units: rounding to 11 bits in each of some layers */
};

enum { MATRIX_QKV, MATRIX_OUT = 3, MATRIX_GATE, MATRIX_UP, MATRIX_DOWN, MATRICES };

/* One model on one side. */
struct side {
    struct weight embedding;
    struct weight matrices[LAYERS][MATRICES]; /* q, k, v, output, gate, up, down */
    float *norm;
    float *frequencies;
    uint32_t *tokens;
    uint32_t *positions;
    uint32_t *last;
    float *x, *q, *k, *v, *attended, *gate, *table, *wanted, *logits;
    struct kv_layout layout;
    char *pages;
};

/* The rows of a batch, on the host. */
struct batch {
    uint32_t rows;
    uint32_t tokens[ROWS_MAX];
    uint32_t positions[ROWS_MAX];
    uint32_t sequences[ROWS_MAX];
};

static struct cuda_backend *device;
static struct kernels *ref;
static const struct shape *shape;
static struct rng rng = {.seed = 21};
static uint32_t table[TEXTS][PAGES_EACH];
static const uint32_t *tables[TEXTS];

static void must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "gpu_model: %s\n", status_note()->message);
    exit(1);
}

static void *host(size_t bytes)
{
    void *out = calloc(1, bytes + 64);
    if (out == NULL)
        exit(1);
    return out;
}

static void *there(size_t bytes)
{
    void *out;
    must(cuda_backend_alloc(device, &out, bytes, "a model"));
    return out;
}

/* --- a model on both sides --- */

static void make_weight(uint32_t rows, uint32_t cols, struct weight *judge, struct weight *mine)
{
    const struct tensor_type_info *type = tensor_type_info(shape->type);
    const size_t blocks = (size_t)rows * (cols / type->block_elements);
    unsigned char *data = host(blocks * type->block_bytes);
    struct tensor tensor = {.type = type,
                            .dim_count = 2,
                            .dims = {cols, rows, 1, 1},
                            .data = data,
                            .bytes = blocks * type->block_bytes};
    for (size_t i = 0; i < tensor.bytes; i++)
        data[i] = (unsigned char)rng_next(&rng);
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *block = data + b * type->block_bytes;
        /* Exponents that give weights of up to 2 ÷ √cols; random signs and mantissas. */
        const uint32_t exponent = 14 - (uint32_t)(log2(cols) / 2);
        const uint16_t bits = (uint16_t)(rng_next(&rng) & 0x83ff);
        if (shape->type == TENSOR_TYPE_bf16) {
            const uint16_t wide = (uint16_t)((bits & 0x807f) | (112 + exponent) << 7);
            memcpy(block, &wide, sizeof wide);
        } else if (shape->type == TENSOR_TYPE_f16) {
            const uint16_t half = (uint16_t)(bits | exponent << 10);
            memcpy(block, &half, sizeof half);
        } else { /* q8_0, q4_0: codes of up to 127 or 8 */
            const uint32_t less = shape->type == TENSOR_TYPE_q8_0 ? 6 : 2;
            const uint16_t half = (uint16_t)(bits | (exponent - less) << 10);
            memcpy(block, &half, sizeof half);
        }
    }
    must(kernels_weight_create(ref, judge, &tensor));
    must(cuda_backend_weight_create(device, mine, &tensor));
    free(data);
}

static void make_floats(struct side *judge, struct side *mine)
{
    const uint32_t pairs = shape->head_dim / 2;
    judge->norm = host(shape->width * sizeof(float));
    judge->frequencies = host(pairs * sizeof(float));
    for (uint32_t i = 0; i < shape->width; i++)
        judge->norm[i] = 1 + (float)(rng_unit(rng_next(&rng)) - 0.5) / 4;
    for (uint32_t i = 0; i < pairs; i++)
        judge->frequencies[i] = (float)pow(10000, -2.0 * i / shape->head_dim);
    mine->norm = there(shape->width * sizeof(float));
    mine->frequencies = there(pairs * sizeof(float));
    cuda_backend_upload(device, mine->norm, judge->norm, shape->width * sizeof(float));
    cuda_backend_upload(device, mine->frequencies, judge->frequencies, pairs * sizeof(float));
}

static void make_buffers(struct side *side, void *(*alloc)(size_t bytes))
{
    const size_t attention = (size_t)shape->heads * shape->head_dim;
    const size_t kv = (size_t)shape->kv_heads * shape->head_dim;
    const size_t row = ROWS_MAX * sizeof(float);
    side->x = alloc(row * shape->width);
    side->q = alloc(row * attention);
    side->k = alloc(row * kv);
    side->v = alloc(row * kv);
    side->attended = alloc(row * attention);
    side->gate = alloc(row * shape->hidden);
    side->table = alloc(row * shape->head_dim);
    side->wanted = alloc(TEXTS * sizeof(float) * shape->width);
    side->logits = alloc(TEXTS * sizeof(float) * shape->vocab);
    side->tokens = alloc(row);
    side->positions = alloc(row);
    side->last = alloc(row);
    side->pages = alloc(PAGES * side->layout.page_bytes);
}

static void make_model(struct side *judge, struct side *mine)
{
    const uint32_t attention = shape->heads * shape->head_dim;
    const uint32_t kv = shape->kv_heads * shape->head_dim;
    const uint32_t sizes[MATRICES][2] = {{kv, shape->width},
                                         {kv, shape->width},
                                         {attention, shape->width},
                                         {shape->width, attention},
                                         {shape->hidden, shape->width},
                                         {shape->hidden, shape->width},
                                         {shape->width, shape->hidden}};
    make_weight(shape->vocab, shape->width, &judge->embedding, &mine->embedding);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int m = 0; m < MATRICES; m++)
            make_weight(sizes[m][0], sizes[m][1], &judge->matrices[layer][m],
                        &mine->matrices[layer][m]);
    make_floats(judge, mine);
    must(kernels_kv_layout(ref, KV_TYPE_F16, PAGE_TOKENS, LAYERS, shape->kv_heads, shape->head_dim,
                           &judge->layout));
    must(cuda_kv_layout(KV_TYPE_F16, PAGE_TOKENS, LAYERS, shape->kv_heads, shape->head_dim,
                        &mine->layout));
    make_buffers(judge, host);
    make_buffers(mine, there);
}

static void drop_model(struct side *judge, struct side *mine)
{
    void *const mine_all[] = {mine->norm,  mine->frequencies, mine->tokens, mine->positions,
                              mine->last,  mine->x,           mine->q,      mine->k,
                              mine->v,     mine->attended,    mine->gate,   mine->table,
                              mine->pages, mine->wanted,      mine->logits};
    void *const judge_all[] = {judge->norm,  judge->frequencies, judge->tokens, judge->positions,
                               judge->last,  judge->x,           judge->q,      judge->k,
                               judge->v,     judge->attended,    judge->gate,   judge->table,
                               judge->pages, judge->wanted,      judge->logits};
    for (size_t i = 0; i < sizeof mine_all / sizeof *mine_all; i++) {
        cuda_backend_free(device, mine_all[i]);
        free(judge_all[i]);
    }
    for (int layer = 0; layer < LAYERS; layer++)
        for (int m = 0; m < MATRICES; m++) {
            kernels_weight_destroy(ref, &judge->matrices[layer][m]);
            cuda_backend_weight_destroy(device, &mine->matrices[layer][m]);
        }
    kernels_weight_destroy(ref, &judge->embedding);
    cuda_backend_weight_destroy(device, &mine->embedding);
}

/* --- a step: the same calls on both sides --- */

static void run_linear(bool is_device, const struct linear_args *args)
{
    if (is_device)
        cuda_linear(device, args);
    else
        kernels_linear(ref, args);
}

static void run_layer(bool is_device, struct side *side, const struct kv_rows *kv, uint32_t layer,
                      uint32_t rows)
{
    const struct weight *matrices = side->matrices[layer];
    struct rope_args rope = {.x = side->k,
                             .table = side->table,
                             .rows = rows,
                             .heads = shape->kv_heads,
                             .head_dim = shape->head_dim,
                             .pairs = shape->head_dim / 2,
                             .pairing = ROPE_INTERLEAVED};
    struct rope_args rope_q = rope;
    rope_q.x = side->q;
    rope_q.heads = shape->heads;
    run_linear(is_device,
               &(struct linear_args){.x = side->x,
                                     .rows = rows,
                                     .count = 3,
                                     .weights = {&matrices[0], &matrices[1], &matrices[2]},
                                     .y = {side->k, side->v, side->q},
                                     .norm = side->norm,
                                     .epsilon = 1e-5f});
    const struct kv_write_args write = {.k = side->k,
                                        .v = side->v,
                                        .rows = rows,
                                        .layer = layer,
                                        .kv = *kv,
                                        .rope = {&rope, &rope_q}};
    const struct attention_args attention = {.q = side->q,
                                             .out = side->attended,
                                             .rows = rows,
                                             .heads = shape->heads,
                                             .layer = layer,
                                             .scale = 1 / sqrtf((float)shape->head_dim),
                                             .kv = *kv};
    if (is_device) {
        cuda_kv_write(device, &write);
        cuda_attention(device, &attention);
    } else {
        kernels_kv_write(ref, &write);
        kernels_attention(ref, &attention);
    }
    run_linear(is_device, &(struct linear_args){.x = side->attended,
                                                .rows = rows,
                                                .count = 1,
                                                .weights = {&matrices[MATRIX_OUT]},
                                                .y = {side->x},
                                                .accumulate = true});
    run_linear(is_device,
               &(struct linear_args){.x = side->x,
                                     .rows = rows,
                                     .count = 2,
                                     .weights = {&matrices[MATRIX_GATE], &matrices[MATRIX_UP]},
                                     .y = {side->gate},
                                     .act = ACT_SILU_MUL,
                                     .norm = side->norm,
                                     .epsilon = 1e-5f});
    run_linear(is_device, &(struct linear_args){.x = side->gate,
                                                .rows = rows,
                                                .count = 1,
                                                .weights = {&matrices[MATRIX_DOWN]},
                                                .y = {side->x},
                                                .accumulate = true});
}

/* Finds the rows that texts continue from: the last of each run. Returns their number. */
static uint32_t last_rows(const struct batch *batch, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < batch->rows; r++)
        if (r + 1 == batch->rows || batch->sequences[r + 1] != batch->sequences[r])
            out[count++] = r;
    return count;
}

/* Writes the logits of each text's last row to `out` [texts of the batch][vocab] on the host. */
static void run_step(bool is_device, struct side *side, const struct batch *batch, float *out)
{
    const uint32_t rows = batch->rows;
    const struct kv_rows kv = {
        &side->layout, side->pages, batch->sequences, batch->positions, tables, NULL, NULL, 0};
    uint32_t last[ROWS_MAX];
    const uint32_t count = last_rows(batch, last);
    struct embed_args embed = {
        .table = &side->embedding, .tokens = batch->tokens, .rows = rows, .out = side->x};
    struct rope_table_args angles = {.positions = batch->positions,
                                     .frequencies = side->frequencies,
                                     .rows = rows,
                                     .pairs = shape->head_dim / 2,
                                     .table = side->table};
    if (is_device) {
        cuda_backend_upload(device, side->tokens, batch->tokens, rows * sizeof *last);
        cuda_backend_upload(device, side->positions, batch->positions, rows * sizeof *last);
        cuda_backend_upload(device, side->last, last, count * sizeof *last);
        must(cuda_backend_batch(device, &kv, rows, shape->heads, 0, NULL));
        embed.tokens = side->tokens;
        angles.positions = side->positions;
        cuda_embed(device, &embed);
        cuda_rope_table(device, &angles);
    } else {
        kernels_embed(ref, &embed);
        kernels_rope_table(ref, &angles);
    }
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        run_layer(is_device, side, &kv, layer, rows);
    if (is_device)
        cuda_gather(device,
                    &(struct gather_args){side->wanted, side->x, side->last, count, shape->width});
    for (uint32_t i = 0; !is_device && i < count; i++)
        memcpy(side->wanted + (size_t)i * shape->width, side->x + (size_t)last[i] * shape->width,
               shape->width * sizeof(float));
    run_linear(is_device, &(struct linear_args){.x = side->wanted,
                                                .rows = count,
                                                .count = 1,
                                                .weights = {&side->embedding},
                                                .y = {side->logits},
                                                .norm = side->norm,
                                                .epsilon = 1e-5f});
    const size_t bytes = (size_t)count * shape->vocab * sizeof(float);
    if (is_device)
        must(cuda_backend_download(device, out, side->logits, bytes));
    else
        memcpy(out, side->logits, bytes);
}

/* --- the checks --- */

static uint32_t prompt_token(uint32_t text, uint32_t position)
{
    return (uint32_t)(rng_of(text, position) % shape->vocab);
}

static void batch_add(struct batch *batch, uint32_t text, uint32_t position, uint32_t token)
{
    batch->sequences[batch->rows] = text;
    batch->positions[batch->rows] = position;
    batch->tokens[batch->rows++] = token;
}

static uint32_t greatest(const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < shape->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static uint32_t greedy; /* tokens that had to equal ref's */

/* Returns how far a text's logits differ; tokens must be equal where ref's two best differ by more
 * than the bound. */
static double compare(const float *got, const float *want)
{
    const uint32_t best = greatest(want);
    double worst = 0;
    double second = -INFINITY;
    for (uint32_t i = 0; i < shape->vocab; i++) {
        const double error = fabs((double)got[i] - (double)want[i]) / shape->bound;
        worst = error <= worst ? worst : error >= 0 ? error : INFINITY;
        if (i != best)
            second = fmax(second, (double)want[i]);
    }
    const bool is_clear = (double)want[best] - second > 2 * shape->bound;
    greedy += is_clear;
    if (is_clear && greatest(got) != best)
        worst = INFINITY;
    return worst;
}

static void place_pages(uint32_t from)
{
    for (uint32_t t = 0; t < TEXTS; t++) {
        tables[t] = table[t];
        for (uint32_t p = 0; p < PAGES_EACH; p++)
            table[t][p] = (from + p * TEXTS + t) % PAGES;
    }
}

/* Runs all texts together on both sides; tokens are ref's. `history` [STEPS][TEXTS][vocab] receives
 * the device's logits. */
static double run_together(struct side *judge, struct side *mine, float *history, uint32_t *chosen)
{
    const size_t each = (size_t)TEXTS * shape->vocab;
    float *want = host(each * sizeof *want);
    double worst = 0;
    for (uint32_t t = 0; t < TEXTS; t++) { /* prompts of 70, 35 and 23 tokens, alone */
        struct batch batch = {0};
        for (uint32_t p = 0; p < PROMPT / (t + 1); p++)
            batch_add(&batch, t, p, prompt_token(t, p));
        run_step(false, judge, &batch, want + t * shape->vocab);
        run_step(true, mine, &batch, history + t * shape->vocab);
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        float *got = history + step * each;
        struct batch batch = {0};
        for (uint32_t t = 0; t < TEXTS; t++) {
            worst = fmax(worst, compare(got + t * shape->vocab, want + t * shape->vocab));
            chosen[step * TEXTS + t] = greatest(want + t * shape->vocab);
            batch_add(&batch, t, PROMPT / (t + 1) + step, chosen[step * TEXTS + t]);
        }
        if (step + 1 == STEPS)
            break;
        run_step(false, judge, &batch, want);
        run_step(true, mine, &batch, got + each);
    }
    free(want);
    return worst;
}

/* Runs text 0 again, alone, its prompt in chunks, with its pages swapped out and in half way. */
static bool run_alone(struct side *mine, const float *history, const uint32_t *chosen)
{
    static const uint32_t chunks[] = {1, 40, 9, 20};
    const size_t bytes = PAGES_EACH * mine->layout.page_bytes;
    const uint32_t host_pages[PAGES_EACH] = {2, 0, 1};
    float *got = host(shape->vocab * sizeof *got);
    uint32_t position = 0;
    void *pinned;
    bool is_same = true;
    place_pages(5);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        struct batch batch = {0};
        for (uint32_t i = 0; i < chunks[c]; i++, position++)
            batch_add(&batch, 0, position, prompt_token(0, position));
        run_step(true, mine, &batch, got);
    }
    must(cuda_backend_alloc_host(device, &pinned, bytes, "pages"));
    for (uint32_t step = 0; step < STEPS; step++) {
        const float *before = history + (size_t)step * TEXTS * shape->vocab;
        struct batch batch = {0};
        is_same = is_same && memcmp(got, before, shape->vocab * sizeof *got) == 0;
        if (step == STEPS / 2) {
            uint32_t old[PAGES_EACH];
            memcpy(old, table[0], sizeof old);
            cuda_pages_copy(device, &(struct pages_copy_args){pinned, mine->pages, host_pages, old,
                                                              PAGES_EACH, mine->layout.page_bytes});
            place_pages(12);
            cuda_pages_copy(device,
                            &(struct pages_copy_args){mine->pages, pinned, table[0], host_pages,
                                                      PAGES_EACH, mine->layout.page_bytes});
            cuda_pages_wait(device);
        }
        batch_add(&batch, 0, PROMPT + step, chosen[step * TEXTS]);
        run_step(true, mine, &batch, got);
    }
    cuda_backend_free_host(device, pinned);
    free(got);
    return is_same;
}

static bool check_shape(const struct shape *of)
{
    struct side judge = {0};
    struct side mine = {0};
    uint32_t chosen[STEPS * TEXTS];
    shape = of;
    greedy = 0;
    float *history = host((size_t)STEPS * TEXTS * shape->vocab * sizeof *history);
    place_pages(0);
    make_model(&judge, &mine);
    const double worst = run_together(&judge, &mine, history, chosen);
    const bool is_same = run_alone(&mine, history, chosen);
    printf("%u × %u, %u/%u heads of %u, %s: logits at %.3f of their bound; %u of %d greedy "
           "tokens clear; alone, in chunks, swapped: %s\n",
           shape->width, shape->hidden, shape->heads, shape->kv_heads, shape->head_dim,
           tensor_type_info(shape->type)->name, worst, greedy, STEPS * TEXTS,
           is_same ? "equal bits" : "OTHER BITS");
    drop_model(&judge, &mine);
    free(history);
    return worst <= 1 && is_same;
}

int main(int argc, char **argv)
{
    static const struct shape small[] = {
        {96, 160, 6, 2, 16, 200, TENSOR_TYPE_f16, 0.02},
        {128, 96, 4, 4, 32, 300, TENSOR_TYPE_bf16, 0.15},
        {64, 192, 2, 1, 64, 100, TENSOR_TYPE_q8_0, 0.02},
        {160, 128, 4, 1, 48, 77, TENSOR_TYPE_q4_0, 0.02},
    };
    static const struct shape large[] = {
        {2048, 8192, 32, 8, 64, 4096, TENSOR_TYPE_bf16, 0.15},
        {4096, 14336, 32, 8, 128, 4096, TENSOR_TYPE_q4_0, 0.02},
    };
    const bool is_large = argc > 1 && strcmp(argv[1], "--large") == 0;
    bool is_well = true;
    if (cuda_device_count() == 0)
        return gpu_device_missing();
    must(cuda_backend_open(&device, &(struct cuda_backend_options){.rows_max = ROWS_MAX,
                                                                   .cols_max = 14336,
                                                                   .tables_max = 64,
                                                                   .split_bytes = 8 << 20}));
    must(kernels_create(
        &ref, &(struct kernels_options){.isa = "ref", .rows_max = ROWS_MAX, .cols_max = 14336}));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        is_well = check_shape(&small[i]) && is_well;
    for (size_t i = 0; is_large && i < sizeof large / sizeof *large; i++)
        is_well = check_shape(&large[i]) && is_well;
    kernels_destroy(ref);
    cuda_backend_close(device);
    return is_well ? 0 : 1;
}
