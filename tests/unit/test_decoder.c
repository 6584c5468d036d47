#include "engine/models/decoder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/pulse.h"
#include "config/base/rng.h"
#include "kernels/kernels_measure.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/model_run.h"
#include "tests/kit/rounds.h"

/* Grouping of heads 1 to 4, heads of 32, 64, 80 and 128, rows that are no multiple of a tile, tied
 * and own output layers, scaled and partly rotated positions, heads × head_dim ≠ width. */
static const struct llama_shape SHAPES[] = {
    {2, 64, 2, 2, 32, 96, 83, 512, 0, false, false, 0, 1, NULL},
    {2, 128, 4, 2, 32, 160, 96, 512, 0, true, false, 0, 2, NULL},
    {2, 192, 3, 1, 64, 224, 97, 512, 0, false, true, 0, 3, NULL},
    {2, 256, 4, 1, 64, 320, 128, 512, 0, true, true, 0, 4, NULL},
    {2, 256, 2, 1, 128, 288, 65, 512, 0, false, false, 64, 5, NULL},
    {2, 160, 2, 2, 80, 192, 64, 512, 0, true, false, 0, 6, NULL},
    {3, 64, 4, 2, 32, 96, 79, 512, 0, false, false, 16, 7, NULL},
    {2, 256, 4, 2, 64, 512, 97, 512, 0, true, false, 0, 8, NULL}, /* whole blocks of 256 */
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0], TOKENS = 83 };

static const uint32_t TYPES[] = {TENSOR_TYPE_f32,  TENSOR_TYPE_f16,  TENSOR_TYPE_q8_0,
                                 TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_1, TENSOR_TYPE_q5_0,
                                 TENSOR_TYPE_q5_1, TENSOR_TYPE_q4_k, TENSOR_TYPE_q5_k,
                                 TENSOR_TYPE_q6_k, TENSOR_TYPE_bf16};
enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0], TYPES_OF_ALL_SHAPES = 5 };

/* The first types with all shapes, the others with the last. */
static bool is_tried(size_t shape, size_t type)
{
    return type < TYPES_OF_ALL_SHAPES || shape + 1 == SHAPE_COUNT;
}

static void tokens_fill(uint32_t *tokens, uint32_t count, uint32_t vocab, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (uint32_t)(rng_at(seed, 7, i) % vocab);
}

/* --- the judge: the model as the papers write it, in double, one token after the other --- */

struct judge {
    const struct llama_shape *shape;
    const struct gguf *gguf;
    uint32_t count;
    uint32_t window; /* 0: none */
    double *k;       /* [layers][count][kv_heads × head_dim] */
    double *v;
};

/* out[r] = Σ row r of the tensor × x. */
static void judge_matrix(const struct judge *judge, const char *name, const double *x, double *out)
{
    struct tensor tensor;
    float row[1024];
    assert_int_equal(gguf_get_tensor(judge->gguf, name, &tensor), STATUS_OK);
    assert_true(tensor.dims[0] <= 1024);
    for (uint64_t r = 0; r < tensor.dims[1]; r++) {
        tensor_row_to_f32(&tensor, r, row);
        out[r] = 0;
        for (uint64_t c = 0; c < tensor.dims[0]; c++)
            out[r] += (double)row[c] * x[c];
    }
}

static void judge_layer_matrix(const struct judge *judge, uint32_t layer, const char *name,
                               const double *x, double *out)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    judge_matrix(judge, full, x, out);
}

static void judge_norm(const struct judge *judge, const char *name, const double *x, double *out)
{
    struct tensor tensor;
    float weight[1024];
    double sum = 0;
    uint32_t width = judge->shape->width;
    assert_int_equal(gguf_get_tensor(judge->gguf, name, &tensor), STATUS_OK);
    memcpy(weight, tensor.data, tensor.bytes);
    for (uint32_t i = 0; i < width; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < width; i++)
        out[i] = x[i] / sqrt(sum / width + 1e-5) * (double)weight[i];
}

static void judge_rope(const struct judge *judge, double *x, uint32_t heads, uint32_t position)
{
    const struct llama_shape *shape = judge->shape;
    uint32_t dims = shape->rope_dims != 0 ? shape->rope_dims : shape->head_dim;
    struct tensor tensor;
    float factors[256];
    bool has_factors = gguf_get_tensor(judge->gguf, "rope_freqs.weight", &tensor) == STATUS_OK;
    if (has_factors)
        memcpy(factors, tensor.data, tensor.bytes);
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t i = 0; i < dims / 2; i++) {
            double *pair = x + h * shape->head_dim + 2 * i;
            double angle = position * pow(10000.0, -2.0 * i / dims);
            angle /= has_factors ? (double)factors[i] : 1;
            double first = pair[0] * cos(angle) - pair[1] * sin(angle);
            pair[1] = pair[0] * sin(angle) + pair[1] * cos(angle);
            pair[0] = first;
        }
    }
}

static void judge_attention(const struct judge *judge, uint32_t layer, uint32_t position,
                            const double *q, double *out)
{
    const struct llama_shape *shape = judge->shape;
    uint32_t dim = shape->head_dim;
    uint32_t stride = shape->kv_heads * dim;
    double scores[TOKENS * 8];
    const uint32_t first =
        judge->window > 0 && position >= judge->window ? position + 1 - judge->window : 0;
    for (uint32_t h = 0; h < shape->heads; h++) {
        size_t base =
            ((size_t)layer * judge->count) * stride + h / (shape->heads / shape->kv_heads) * dim;
        double sum = 0;
        memset(out + h * dim, 0, dim * sizeof *out);
        for (uint32_t t = first; t <= position; t++) {
            double dot = 0;
            for (uint32_t d = 0; d < dim; d++)
                dot += q[h * dim + d] * judge->k[base + (size_t)t * stride + d];
            scores[t] = exp(dot / sqrt(dim));
            sum += scores[t];
        }
        for (uint32_t t = first; t <= position; t++)
            for (uint32_t d = 0; d < dim; d++)
                out[h * dim + d] += scores[t] / sum * judge->v[base + (size_t)t * stride + d];
    }
}

static void judge_layer(const struct judge *judge, uint32_t layer, uint32_t position, double *x)
{
    const struct llama_shape *shape = judge->shape;
    double normed[1024], q[1024], attended[1024], gate[1024], up[1024], added[1024];
    char name[64];
    size_t place = ((size_t)layer * judge->count + position) * shape->kv_heads * shape->head_dim;
    snprintf(name, sizeof name, "blk.%u.attn_norm.weight", layer);
    judge_norm(judge, name, x, normed);
    judge_layer_matrix(judge, layer, "attn_q", normed, q);
    judge_layer_matrix(judge, layer, "attn_k", normed, judge->k + place);
    judge_layer_matrix(judge, layer, "attn_v", normed, judge->v + place);
    judge_rope(judge, q, shape->heads, position);
    judge_rope(judge, judge->k + place, shape->kv_heads, position);
    judge_attention(judge, layer, position, q, attended);
    judge_layer_matrix(judge, layer, "attn_output", attended, added);
    for (uint32_t i = 0; i < shape->width; i++)
        x[i] += added[i];
    snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", layer);
    judge_norm(judge, name, x, normed);
    judge_layer_matrix(judge, layer, "ffn_gate", normed, gate);
    judge_layer_matrix(judge, layer, "ffn_up", normed, up);
    for (uint32_t i = 0; i < shape->hidden; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    judge_layer_matrix(judge, layer, "ffn_down", gate, added);
    for (uint32_t i = 0; i < shape->width; i++)
        x[i] += added[i];
}

/* Logits [count][vocab] of one sequence. */
static void judge_run(const struct llama_shape *shape, const struct gguf *gguf,
                      const uint32_t *tokens, uint32_t count, double *logits)
{
    size_t kv = (size_t)shape->layers * count * shape->kv_heads * shape->head_dim;
    struct judge judge = {
        shape, gguf, count, 0, calloc(kv, sizeof(double)), calloc(kv, sizeof(double))};
    if (gguf_has(gguf, "llama.attention.sliding_window"))
        assert_int_equal(gguf_get_u32(gguf, "llama.attention.sliding_window", &judge.window),
                         STATUS_OK);
    struct tensor table;
    assert_int_equal(gguf_get_tensor(gguf, "token_embd.weight", &table), STATUS_OK);
    for (uint32_t p = 0; p < count; p++) {
        float row[1024];
        double x[1024], normed[1024];
        tensor_row_to_f32(&table, tokens[p], row);
        for (uint32_t i = 0; i < shape->width; i++)
            x[i] = (double)row[i];
        for (uint32_t layer = 0; layer < shape->layers; layer++)
            judge_layer(&judge, layer, p, x);
        judge_norm(&judge, "output_norm.weight", x, normed);
        judge_matrix(&judge, shape->has_own_output ? "output.weight" : "token_embd.weight", normed,
                     logits + (size_t)p * shape->vocab);
    }
    free(judge.k);
    free(judge.v);
}

/* --- helpers --- */

struct opened {
    struct buffer file;
    struct gguf *gguf;
};

static void opened_init(struct opened *opened, const struct llama_shape *shape)
{
    llama_file_build(shape, &opened->file);
    assert_int_equal(gguf_parse(&opened->gguf, opened->file.bytes, opened->file.length), STATUS_OK);
}

static void opened_deinit(struct opened *opened)
{
    gguf_close(opened->gguf);
    buffer_deinit(&opened->file);
}

static void run_open(struct model_run *run, const struct gguf *gguf, const char *isa,
                     uint32_t threads, enum kv_type kv_type, uint32_t tokens_max)
{
    enum status status = model_run_open(run, gguf,
                                        &(struct model_run_options){.isa = isa,
                                                                    .threads = threads,
                                                                    .kv_type = kv_type,
                                                                    .rows_max = 128,
                                                                    .sequences = 3,
                                                                    .tokens_max = tokens_max});
    if (status != STATUS_OK)
        fail_msg("%s: %s: %s", isa, status_name(status), status_note()->message);
}

/* Root of the mean squared difference ÷ root mean square of `right`. */
static double relative_error(const float *left, const double *right, size_t count)
{
    double difference = 0;
    double square = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)left[i] - right[i]) * ((double)left[i] - right[i]);
        square += right[i] * right[i];
    }
    return sqrt(difference / square);
}

/* Mean of Σ p ln(p ÷ q) over positions; p are the softmax of `right`, q of `left`. */
static double mean_kl(const float *left, const double *right, uint32_t vocab, uint32_t rows)
{
    double kl = 0;
    for (size_t r = 0; r < rows; r++, left += vocab, right += vocab) {
        double sums[2] = {0, 0};
        for (uint32_t i = 0; i < vocab; i++) {
            sums[0] += exp((double)left[i]);
            sums[1] += exp(right[i]);
        }
        for (uint32_t i = 0; i < vocab; i++)
            kl += exp(right[i]) / sums[1] *
                  (right[i] - (double)left[i] + log(sums[0]) - log(sums[1]));
    }
    return kl / rows;
}

/* --- tests --- */

static void test_ref_is_the_model(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            if (!is_tried(s, t))
                continue;
            struct llama_shape shape = SHAPES[s];
            struct opened opened;
            struct model_run run;
            uint32_t tokens[TOKENS];
            shape.type = TYPES[t];
            opened_init(&opened, &shape);
            tokens_fill(tokens, TOKENS, shape.vocab, s);
            double *right = calloc((size_t)TOKENS * shape.vocab, sizeof *right);
            judge_run(&shape, opened.gguf, tokens, TOKENS, right);
            run_open(&run, opened.gguf, "ref", 1, KV_TYPE_F32, TOKENS);
            const float *logits = model_run_chunk(&run, 1, 0, tokens, TOKENS);
            double error = relative_error(logits, right, (size_t)TOKENS * shape.vocab);
            /* float32 sums of some hundred terms over six matrices: measured below 1e-6 */
            if (!(error < 1e-5))
                fail_msg("shape %zu, type %u: relative error %g", s, shape.type, error);
            model_run_close(&run);
            free(right);
            opened_deinit(&opened);
        }
    }
}

/* The bits that llama.c computed before the decoder took its place: FNV-1a over all logits of a
 * text of 83 tokens, integer products, F16 KV. */
static void test_bits_of_before(void **state)
{
    (void)state;
    static const uint64_t digests[SHAPE_COUNT] = {
        0x48a51f82d3c7bcf5, 0x4cf25409229e195f, 0xaba569e9d740e18c, 0xe4b6a92276aed594,
        0x6373d1ef9d5f310d, 0x0b1e99078d3d93b3, 0x29e71beccf31346c, 0x3ecb941148cfe14b};
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        struct llama_shape shape = SHAPES[s];
        struct opened opened;
        struct model_run run;
        uint32_t tokens[TOKENS];
        shape.type = TYPES[s % TYPES_OF_ALL_SHAPES];
        opened_init(&opened, &shape);
        tokens_fill(tokens, TOKENS, shape.vocab, s);
        run_open(&run, opened.gguf, "ref_int8", 1, KV_TYPE_F16, TOKENS);
        const unsigned char *logits = (const void *)model_run_chunk(&run, 0, 0, tokens, TOKENS);
        uint64_t digest = 0xcbf29ce484222325;
        for (size_t i = 0; i < (size_t)TOKENS * shape.vocab * sizeof(float); i++)
            digest = (digest ^ logits[i]) * 0x100000001b3;
        if (digest != digests[s])
            fail_msg("shape %zu: the bits are 0x%016llx", s, (unsigned long long)digest);
        model_run_close(&run);
        opened_deinit(&opened);
    }
}

/* More keys than a segment of 256, page boundaries and blocks of 64 on the way. */
static void check_long_context(uint32_t window)
{
    enum { LONG = 300 };
    struct llama_shape shape = SHAPES[0];
    struct opened opened;
    struct model_run run;
    uint32_t tokens[LONG];
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    if (window > 0)
        gguf_writer_u32(&writer, "llama.attention.sliding_window", window);
    gguf_writer_finish(&writer, &opened.file);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&opened.gguf, opened.file.bytes, opened.file.length), STATUS_OK);
    tokens_fill(tokens, LONG, shape.vocab, 11);
    double *right = calloc((size_t)LONG * shape.vocab, sizeof *right);
    judge_run(&shape, opened.gguf, tokens, LONG, right);
    run_open(&run, opened.gguf, "ref", 1, KV_TYPE_F32, LONG);
    for (uint32_t p = 0; p < LONG; p += 100) {
        const float *logits = model_run_chunk(&run, 2, p, tokens + p, 100);
        double error =
            relative_error(logits, right + (size_t)p * shape.vocab, (size_t)100 * shape.vocab);
        if (!(error < 1e-5))
            fail_msg("positions from %u: relative error %g", p, error);
    }
    model_run_close(&run);
    free(right);
    opened_deinit(&opened);
}

static void test_long_context(void **state)
{
    (void)state;
    check_long_context(0);
    check_long_context(70);
}

/* Every table that runs here against ref: int8 activations in blocks of 32 stay within some
 * percent of the logits' size and a mean KL of 0.005; tables with integer products have equal bits
 * among each other. */
static void compare_tables(const struct llama_shape *shape, enum kv_type type, size_t s)
{
    struct opened opened;
    struct model_run ref;
    uint32_t tokens[TOKENS];
    size_t count = (size_t)TOKENS * shape->vocab;
    float *int8 = NULL;
    double *right = calloc(count, sizeof *right);
    opened_init(&opened, shape);
    tokens_fill(tokens, TOKENS, shape->vocab, s);
    run_open(&ref, opened.gguf, "ref", 1, type, TOKENS);
    const float *logits = model_run_chunk(&ref, 0, 0, tokens, TOKENS);
    for (size_t i = 0; i < count; i++)
        right[i] = (double)logits[i];
    for (const char *const *isa = kernels_built(); *isa != NULL; isa++) {
        struct model_run run;
        if (strcmp(*isa, "ref") == 0 || strcmp(*isa, "cuda") == 0 || !kernels_can_run(*isa))
            continue;
        run_open(&run, opened.gguf, *isa, 2, type, TOKENS);
        logits = model_run_chunk(&run, 0, 0, tokens, TOKENS);
        double error = relative_error(logits, right, count);
        if (!(error < 0.05))
            fail_msg("shape %zu, type %u, %s: relative error %g", s, shape->type, *isa, error);
        double kl = mean_kl(logits, right, shape->vocab, TOKENS);
        if (!(kl < 0.005))
            fail_msg("shape %zu, type %u, %s: KL %g", s, shape->type, *isa, kl);
        if (int8 == NULL) {
            int8 = malloc(count * sizeof *int8);
            memcpy(int8, logits, count * sizeof *int8);
        } else if (memcmp(int8, logits, count * sizeof *int8) != 0) {
            fail_msg("shape %zu, type %u: %s has other bits", s, shape->type, *isa);
        }
        model_run_close(&run);
    }
    assert_non_null(int8);
    free(int8);
    free(right);
    model_run_close(&ref);
    opened_deinit(&opened);
}

static void test_tables_agree(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            if (!is_tried(s, t))
                continue;
            struct llama_shape shape = SHAPES[s];
            shape.type = TYPES[t];
            compare_tables(&shape, KV_TYPE_F16, s);
            if (t == s % TYPES_OF_ALL_SHAPES) {
                compare_tables(&shape, KV_TYPE_F16Q, s);
                compare_tables(&shape, KV_TYPE_I8, s);
                compare_tables(&shape, KV_TYPE_K4V8, s);
                compare_tables(&shape, KV_TYPE_K4V4, s);
            }
        }
    }
}

/* Three sequences, cut into random batches with random threads: the bits of each row are those of
 * the sequence run alone, one token at a time. */
enum { SHARED = ATTENTION_BLOCK_KEYS };

/* The first keys of sequences 1 and 2 are those of sequence 0, in its pages. */
static void share_pages(struct model_run *run)
{
    for (uint32_t s = 1; s < 3; s++)
        for (uint32_t p = 0; p < SHARED / run->layout.page_tokens; p++)
            run->page_ids[s * run->pages_each + p] = run->page_ids[p];
}

/* What neighbours of a batch read from the same pages, after share_pages. */
static void share_groups(const uint32_t *sequences, const uint32_t *positions, uint32_t rows,
                         uint32_t *order, uint32_t *shared)
{
    for (uint32_t r = 0; r < rows; r++) {
        order[r] = r;
        shared[r] = 0;
        if (r == 0 || sequences[r] == sequences[r - 1])
            continue;
        uint32_t first = r - 1;
        while (first > 0 && sequences[first - 1] == sequences[r - 1])
            first--;
        if (positions[first] + 1 >= SHARED && positions[r] + 1 >= SHARED)
            shared[r] = SHARED;
    }
}

/* Rows of a batch that want logits: all, none, the last alone, some in their order, or some in any
 * order and twice. */
static uint32_t wanted_fill(uint32_t *wanted, uint32_t rows, struct rng *rng)
{
    uint32_t count = 0;
    uint32_t kind = (uint32_t)rng_below(rng, 5);
    if (kind == 1)
        return 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (kind == 4)
            wanted[count++] = (uint32_t)rng_below(rng, rows);
        else if (kind == 0 || (kind == 2 && r + 1 == rows) || (kind == 3 && rng_below(rng, 3) == 0))
            wanted[count++] = r;
    }
    return count;
}

static void check_invariance(const struct llama_shape *shape, const char *isa, enum kv_type type,
                             bool is_shared, struct rng *rng)
{
    struct opened opened;
    struct model_run alone, mixed;
    uint32_t tokens[3][TOKENS];
    uint32_t done[3] = {0, 0, 0};
    size_t row_bytes = shape->vocab * sizeof(float);
    float *right = calloc(3 * (size_t)TOKENS, row_bytes);
    opened_init(&opened, shape);
    run_open(&alone, opened.gguf, isa, 1, type, TOKENS);
    for (uint32_t s = 0; s < 3; s++) {
        tokens_fill(tokens[s], TOKENS, shape->vocab, 100 + s);
        if (is_shared)
            memcpy(tokens[s], tokens[0], SHARED * sizeof tokens[0][0]);
        for (uint32_t p = 0; p < TOKENS; p++)
            memcpy(right + ((size_t)s * TOKENS + p) * shape->vocab,
                   model_run_chunk(&alone, s, p, tokens[s] + p, 1), row_bytes);
    }
    run_open(&mixed, opened.gguf, isa, 1 + (uint32_t)rng_below(rng, 3), type, TOKENS);
    if (is_shared) {
        share_pages(&mixed);
        model_run_chunk(&mixed, 0, 0, tokens[0], SHARED);
        done[0] = done[1] = done[2] = SHARED;
    }
    while (done[0] + done[1] + done[2] < 3 * TOKENS) {
        uint32_t sequences[128], positions[128], ids[128], order[128], shared[128], wanted[128];
        const struct attention_groups groups = {order, shared};
        uint32_t rows = 0;
        for (uint32_t s = 0; s < 3; s++) {
            uint32_t take = (uint32_t)rng_below(rng, 20);
            for (; take > 0 && done[s] < TOKENS; take--, rows++) {
                sequences[rows] = s;
                positions[rows] = done[s];
                ids[rows] = tokens[s][done[s]++];
            }
        }
        if (rows == 0)
            continue;
        share_groups(sequences, positions, rows, order, shared);
        mixed.groups = is_shared ? &groups : NULL;
        mixed.logit_rows = wanted_fill(wanted, rows, rng);
        mixed.logit_row = wanted;
        const float *logits = model_run_batch(&mixed, rows, sequences, positions, ids);
        for (uint32_t i = 0; i < mixed.logit_rows; i++) {
            uint32_t r = wanted[i];
            if (memcmp(logits + (size_t)i * shape->vocab,
                       right + ((size_t)sequences[r] * TOKENS + positions[r]) * shape->vocab,
                       row_bytes) != 0)
                fail_msg("%s: sequence %u, position %u has other bits in a batch of %u, %u wanted",
                         isa, sequences[r], positions[r], rows, mixed.logit_rows);
        }
    }
    model_run_close(&mixed);
    model_run_close(&alone);
    opened_deinit(&opened);
    free(right);
}

/* A chunk of which some rows want logits (NULL: all): what the linear layers did for it. */
static uint64_t run_counted(struct model_run *run, const uint32_t *tokens, uint32_t count,
                            const uint32_t *wanted, uint32_t wanted_count, const float **logits)
{
    struct kernels_time times[KERNELS_TIMES_MAX];
    uint64_t operations = 0;
    run->logit_row = wanted;
    run->logit_rows = wanted_count;
    kernels_times_begin(run->kernels);
    *logits = model_run_chunk(run, 0, 0, tokens, count);
    uint32_t ops = kernels_times_end(run->kernels, times);
    for (uint32_t i = 0; i < ops; i++)
        if (strcmp(times[i].name, "linear") == 0)
            operations += times[i].int8_operations + times[i].f32_operations;
    return operations;
}

/* The last layer computes K and V of all rows, and the rest for those alone that want logits: so
 * the multiply-adds say, and the bits are those of the batch in which all want them. */
static void test_last_layer_is_for_wanted_rows(void **state)
{
    (void)state;
    const struct llama_shape shape = SHAPES[1]; /* an output layer of its own */
    const uint32_t wanted[] = {0, 40, TOKENS - 1};
    const uint64_t kv = (uint64_t)2 * shape.kv_heads * shape.head_dim * shape.width;
    const uint64_t rest = (uint64_t)2 * shape.heads * shape.head_dim * shape.width +
                          (uint64_t)3 * shape.hidden * shape.width;
    const uint64_t output = (uint64_t)shape.vocab * shape.width;
    size_t row_bytes = shape.vocab * sizeof(float);
    struct opened opened;
    uint32_t tokens[TOKENS];
    opened_init(&opened, &shape);
    tokens_fill(tokens, TOKENS, shape.vocab, 5);
    for (const char *const *isa = kernels_built(); *isa != NULL; isa++) {
        struct model_run run;
        const float *logits;
        if (!kernels_can_run(*isa))
            continue;
        run_open(&run, opened.gguf, *isa, 2, KV_TYPE_F16, TOKENS);
        float *right = malloc(TOKENS * row_bytes);
        memcpy(right, model_run_chunk(&run, 0, 0, tokens, TOKENS), TOKENS * row_bytes);
        for (uint32_t count = 0; count <= 3; count++) {
            uint64_t layers = TOKENS * (2 * kv + rest); /* two layers without the last one's rest */
            assert_int_equal(run_counted(&run, tokens, TOKENS, wanted, count, &logits),
                             2 * (layers + count * (rest + output)));
            for (uint32_t i = 0; i < count; i++)
                assert_memory_equal(logits + (size_t)i * shape.vocab,
                                    right + (size_t)wanted[i] * shape.vocab, row_bytes);
        }
        assert_int_equal(run_counted(&run, tokens, TOKENS, NULL, 0, &logits),
                         2 * TOKENS * (2 * (kv + rest) + output));
        assert_memory_equal(logits, right, TOKENS * row_bytes);
        free(right);
        model_run_close(&run);
    }
    opened_deinit(&opened);
}

/* However long a step of a large model takes, each layer of it is a sign of life. */
/* The states are what the output layer reads: its product with them gives the logits. */
static void test_states_are_before_the_output_layer(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        const struct llama_shape *shape = &SHAPES[s];
        const char *name = shape->has_own_output ? "output.weight" : "token_embd.weight";
        const uint32_t wanted[] = {3, 4, 82};
        struct opened opened;
        struct model_run run;
        struct tensor output;
        uint32_t tokens[TOKENS];
        float row[1024];
        opened_init(&opened, shape);
        tokens_fill(tokens, TOKENS, shape->vocab, s);
        assert_int_equal(model_run_open(&run, opened.gguf,
                                        &(struct model_run_options){.isa = "ref",
                                                                    .threads = 1,
                                                                    .kv_type = KV_TYPE_F32,
                                                                    .rows_max = 128,
                                                                    .sequences = 1,
                                                                    .tokens_max = TOKENS,
                                                                    .has_states = true}),
                         STATUS_OK);
        run.logit_row = wanted;
        run.logit_rows = 3;
        const float *logits = model_run_chunk(&run, 0, 0, tokens, TOKENS);
        const float *states = model_states(run.model);
        assert_int_equal(gguf_get_tensor(opened.gguf, name, &output), STATUS_OK);
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t token = 0; token < shape->vocab; token++) {
                double sum = 0;
                tensor_row_to_f32(&output, token, row);
                for (uint32_t c = 0; c < shape->width; c++)
                    sum += (double)row[c] * states[(size_t)i * shape->width + c];
                assert_float_equal(sum, logits[(size_t)i * shape->vocab + token], 1e-4);
            }
        }
        model_run_close(&run);
        opened_deinit(&opened);
    }
}

static void test_each_layer_is_a_sign_of_life(void **state)
{
    (void)state;
    struct llama_shape shape = SHAPES[0];
    struct opened opened;
    struct model_run run;
    struct pulse *pulse;
    uint32_t tokens[TOKENS];
    shape.layers = 5;
    opened_init(&opened, &shape);
    tokens_fill(tokens, TOKENS, shape.vocab, 5);
    assert_int_equal(pulse_create(&pulse), STATUS_OK);
    run_open(&run, opened.gguf, "ref", 1, KV_TYPE_F16, TOKENS);
    model_watch(run.model, pulse, PULSE_ENGINE + 1);
    for (uint32_t step = 1; step <= 3; step++) {
        (void)model_run_chunk(&run, 0, 0, tokens, step == 1 ? TOKENS : 1);
        assert_int_equal(pulse_read(pulse, PULSE_ENGINE + 1), step * shape.layers);
        assert_int_equal(pulse_read(pulse, PULSE_ENGINE), 0); /* another engine's */
    }
    model_run_close(&run);
    pulse_destroy(pulse);
    opened_deinit(&opened);
}

static void test_batch_invariance(void **state)
{
    (void)state;
    enum { TRIED = 5 };
    static const enum kv_type kv_types[TRIED] = {KV_TYPE_F16, KV_TYPE_F16Q, KV_TYPE_I8,
                                                 KV_TYPE_K4V8, KV_TYPE_K4V4};
    struct rng rng = {2026, 0};
    uint32_t turn = 0;
    for (const char *const *isa = kernels_built(); *isa != NULL; isa++) {
        if (!kernels_can_run(*isa))
            continue;
        for (size_t s = 0; s < SHAPE_COUNT; s += 2) {
            struct llama_shape shape = SHAPES[s];
            shape.type = TYPES[s % TYPE_COUNT];
            for (int is_shared = 0; is_shared < 2; is_shared++)
                for (uint32_t i = rounds(1, TRIED); i > 0; i--, turn++)
                    check_invariance(&shape, *isa, kv_types[turn % TRIED], is_shared, &rng);
            turn++; /* so that few rounds see every type with and without shared pages */
        }
    }
}

static enum status open_with(const struct llama_shape *shape,
                             void (*change)(struct gguf_writer *writer))
{
    struct gguf_writer writer;
    struct buffer file;
    struct gguf *gguf;
    struct model_run run;
    gguf_writer_init(&writer);
    llama_file_write(&writer, shape);
    if (change != NULL)
        change(&writer);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    enum status status = model_run_open(&run, gguf,
                                        &(struct model_run_options){.isa = "ref",
                                                                    .threads = 1,
                                                                    .kv_type = KV_TYPE_F32,
                                                                    .rows_max = 4,
                                                                    .sequences = 1,
                                                                    .tokens_max = 16});
    model_run_close(&run);
    gguf_close(gguf);
    buffer_deinit(&file);
    return status;
}

static void add_vector(struct gguf_writer *writer, const char *name, uint64_t count, float value)
{
    float values[256];
    for (uint64_t i = 0; i < count; i++)
        values[i] = value;
    gguf_writer_tensor(writer, name, 1, &count, TENSOR_TYPE_f32, values, count * sizeof *values);
}

static void add_bias(struct gguf_writer *writer)
{
    add_vector(writer, "blk.0.attn_q.bias", 128, 0);
}

static void add_third_layer(struct gguf_writer *writer)
{
    add_vector(writer, "blk.2.attn_norm.weight", 64, 1);
}

static void add_odd_layer(struct gguf_writer *writer)
{
    add_vector(writer, "blk. 0.attn_norm.weight", 64, 1);
}

static void add_short_norm(struct gguf_writer *writer)
{
    add_vector(writer, "blk.1.ffn_norm.weight", 63, 1);
}

static void add_nan_norm(struct gguf_writer *writer)
{
    add_vector(writer, "blk.1.ffn_norm.weight", 64, __builtin_nanf(""));
}

static void add_half_norm(struct gguf_writer *writer)
{
    uint16_t values[64] = {0};
    gguf_writer_tensor(writer, "blk.1.ffn_norm.weight", 1, &(uint64_t){64}, TENSOR_TYPE_f16, values,
                       sizeof values);
}

static void add_zero_factors(struct gguf_writer *writer)
{
    add_vector(writer, "rope_freqs.weight", 16, 0);
}

static void add_few_factors(struct gguf_writer *writer)
{
    add_vector(writer, "rope_freqs.weight", 15, 1);
}

static void add_short_matrix(struct gguf_writer *writer)
{
    static float values[64 * 64];
    gguf_writer_tensor(writer, "blk.1.attn_k.weight", 2, (uint64_t[]){64, 63}, TENSOR_TYPE_f32,
                       values, sizeof(float) * 64 * 63);
}

static void test_wrong_tensors_are_refused(void **state)
{
    (void)state;
    const struct {
        void (*change)(struct gguf_writer *writer);
        const char *without;
        enum status status;
        const char *says;
    } cases[] = {
        {NULL, NULL, STATUS_OK, ""},
        {add_bias, NULL, STATUS_UNSUPPORTED, "blk.0.attn_q.bias"},
        {add_third_layer, NULL, STATUS_UNSUPPORTED, "blk.2.attn_norm.weight"},
        {add_odd_layer, NULL, STATUS_UNSUPPORTED, "blk. 0."},
        {NULL, "blk.1.ffn_norm.weight", STATUS_NOT_FOUND, "blk.1.ffn_norm.weight"},
        {NULL, "blk.1.attn_k.weight", STATUS_NOT_FOUND, "blk.1.attn_k.weight"},
        {NULL, "output_norm.weight", STATUS_NOT_FOUND, "output_norm.weight"},
        {add_short_norm, "blk.1.ffn_norm.weight", STATUS_CORRUPT, "63"},
        {add_nan_norm, "blk.1.ffn_norm.weight", STATUS_CORRUPT, "finite"},
        {add_half_norm, "blk.1.ffn_norm.weight", STATUS_UNSUPPORTED, "f16"},
        {add_zero_factors, NULL, STATUS_CORRUPT, "rope_freqs"},
        {add_few_factors, NULL, STATUS_CORRUPT, "rope_freqs"},
        {add_short_matrix, "blk.1.attn_k.weight", STATUS_CORRUPT, "64 x 63"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct llama_shape shape = llama_file_shape();
        shape.without = cases[i].without;
        enum status status = open_with(&shape, cases[i].change);
        if (status != cases[i].status ||
            (status != STATUS_OK && strstr(status_note()->message, cases[i].says) == NULL))
            fail_msg("case %zu: %s: %s", i, status_name(status), status_note()->message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_is_the_model),
        cmocka_unit_test(test_bits_of_before),
        cmocka_unit_test(test_long_context),
        cmocka_unit_test(test_tables_agree),
        cmocka_unit_test(test_each_layer_is_a_sign_of_life),
        cmocka_unit_test(test_batch_invariance),
        cmocka_unit_test(test_states_are_before_the_output_layer),
        cmocka_unit_test(test_last_layer_is_for_wanted_rows),
        cmocka_unit_test(test_wrong_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
