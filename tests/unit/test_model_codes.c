#include "engine/models/model_codes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/types/half.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/model_run.h"

enum { ROWS = 11, COLS_MAX = 416, BLOCK = 32, BLOCK_BYTES = 20, LEVELS = 15 };

static const uint32_t TYPES[] = {TENSOR_TYPE_f32, TENSOR_TYPE_f16, TENSOR_TYPE_bf16,
                                 TENSOR_TYPE_q8_0};
enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

static struct kernels *make_kernels(uint32_t threads)
{
    struct kernels *kernels;
    const struct kernels_options options = {
        .isa = "ref", .threads = threads, .rows_max = 4, .cols_max = COLS_MAX};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    return kernels;
}

/* About normally distributed, rows of several sizes, some beside 0, some with one value far out. */
static float value_at(uint32_t row, uint32_t col)
{
    float sum = 0;
    for (uint32_t i = 0; i < 12; i++)
        sum += (float)rng_unit(rng_at(row, i, col));
    sum = (sum - 6) * ldexpf(1, 2 - (int)row);
    if (row % 4 == 1)
        sum += 3;
    return row % 4 == 2 && col % 100 == 7 ? 6 * sum : sum;
}

/* [ROWS][cols] of the type, in `memory`. */
static struct tensor make_matrix(uint32_t type, uint32_t cols, unsigned char *memory)
{
    struct tensor tensor = {.type = tensor_type_info(type), .dim_count = 2, .data = memory};
    unsigned char *to = memory;
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t col = 0; col < cols; col++) {
            const float value = value_at(row, col);
            const uint16_t half =
                type == TENSOR_TYPE_f16 ? half_from_float(value) : half_bf16_from_float(value);
            const uint16_t scale = half_from_float(ldexpf(1, -3 - (int)row));
            const float code = roundf(value / half_to_float(scale));
            if (type == TENSOR_TYPE_q8_0 && col % BLOCK == 0) {
                memcpy(to, &scale, 2);
                to += 2;
            }
            if (type == TENSOR_TYPE_q8_0)
                *to++ = (unsigned char)(int8_t)fmaxf(-127, fminf(127, code));
            else if (type == TENSOR_TYPE_f32)
                to = (unsigned char *)memcpy(to, &value, 4) + 4;
            else
                to = (unsigned char *)memcpy(to, &half, 2) + 2;
        }
    memcpy(tensor.dims, (uint64_t[]){cols, ROWS, 1, 1}, sizeof tensor.dims);
    tensor.bytes = (uint64_t)(to - memory);
    return tensor;
}

/* Blocks have one d and m, which reach from the least value to the greatest; every value is within
 * half a step, but for the rounding of d and m to halves. */
static void check_group(const float *x, const unsigned char *codes, const float *values,
                        uint32_t count)
{
    uint16_t factors[2];
    float low = x[0];
    float high = x[0];
    memcpy(factors, codes, sizeof factors);
    for (uint32_t i = 0; i < count; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
        assert_memory_equal(codes + i / BLOCK * BLOCK_BYTES, factors, sizeof factors);
    }
    assert_int_equal(factors[0], half_from_float((high - low) / LEVELS));
    assert_int_equal(factors[1], half_from_float(low));
    const float rounded = (fabsf(low) + high - low) * 0x1p-10f;
    for (uint32_t i = 0; i < count; i++)
        assert_true(fabsf(values[i] - x[i]) <= (high - low) / LEVELS / 2 + rounded);
}

static void test_codes_are_near(void **state)
{
    (void)state;
    static const uint32_t widths[] = {32, 96, 128, 160, 256, COLS_MAX};
    static unsigned char memory[ROWS * COLS_MAX * 4];
    struct kernels *kernels = make_kernels(2);
    for (size_t t = 0; t < TYPE_COUNT; t++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            const uint32_t cols = widths[w];
            const struct tensor from = make_matrix(TYPES[t], cols, memory);
            struct tensor made = from;
            void *codes;
            assert_int_equal(model_codes_make(&made, "x", MODEL_WEIGHTS_INT4, kernels, &codes),
                             STATUS_OK);
            assert_ptr_equal(made.data, codes);
            assert_int_equal(made.type->id, TENSOR_TYPE_q4_1);
            assert_int_equal(made.group, MODEL_CODES_GROUP);
            assert_int_equal(made.bytes, ROWS * cols / BLOCK * BLOCK_BYTES);
            for (uint32_t row = 0; row < ROWS; row++) {
                float x[COLS_MAX];
                float values[COLS_MAX];
                tensor_row_to_f32(&from, row, x);
                tensor_row_to_f32(&made, row, values);
                for (uint32_t at = 0; at < cols; at += MODEL_CODES_GROUP)
                    check_group(
                        x + at,
                        (const unsigned char *)codes + (row * cols + at) / BLOCK * BLOCK_BYTES,
                        values + at, cols - at < MODEL_CODES_GROUP ? cols - at : MODEL_CODES_GROUP);
            }
            mem_free(codes);
        }
    kernels_destroy(kernels);
}

/* Groups of one value, if a half holds it, and of two, if 15 steps of a half lie between. */
static void test_exact_groups(void **state)
{
    (void)state;
    struct kernels *kernels = make_kernels(1);
    static const float pairs[][2] = {
        {0, 0},     {-3, -3},          {0.1f, 0.1f}, {65504, 65504}, {0x1p-20f, 0x1p-20f},
        {-1.5f, 6}, {0, 0x1p-10f * 15}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        float x[160];
        float values[160];
        void *codes;
        for (uint32_t c = 0; c < 160; c++)
            x[c] = half_to_float(half_from_float(pairs[i][c % 3 == 0]));
        struct tensor tensor = {.type = tensor_type_info(TENSOR_TYPE_f32),
                                .dim_count = 2,
                                .dims = {160, 1, 1, 1},
                                .data = x,
                                .bytes = sizeof x};
        assert_int_equal(model_codes_make(&tensor, "x", MODEL_WEIGHTS_INT4, kernels, &codes),
                         STATUS_OK);
        tensor_row_to_f32(&tensor, 0, values);
        assert_memory_equal(values, x, sizeof x);
        mem_free(codes);
    }
    kernels_destroy(kernels);
}

/* The same bytes by one thread and by several, and of each row alone. */
static void test_rows_hang_on_themselves(void **state)
{
    (void)state;
    static unsigned char memory[ROWS * COLS_MAX * 4];
    struct kernels *one = make_kernels(1);
    struct kernels *several = make_kernels(3);
    const struct tensor from = make_matrix(TENSOR_TYPE_f16, COLS_MAX, memory);
    const size_t row_bytes = COLS_MAX / BLOCK * BLOCK_BYTES;
    struct tensor made = from;
    void *codes;
    void *others;
    assert_int_equal(model_codes_make(&made, "x", MODEL_WEIGHTS_INT4, one, &codes), STATUS_OK);
    made = from;
    assert_int_equal(model_codes_make(&made, "x", MODEL_WEIGHTS_INT4, several, &others), STATUS_OK);
    assert_memory_equal(codes, others, made.bytes);
    mem_free(others);
    for (uint32_t row = 0; row < ROWS; row++) {
        made = from;
        made.data = memory + (size_t)row * COLS_MAX * 2;
        made.dims[1] = 1;
        made.bytes = COLS_MAX * 2;
        assert_int_equal(model_codes_make(&made, "x", MODEL_WEIGHTS_INT4, several, &others),
                         STATUS_OK);
        assert_memory_equal((char *)codes + row * row_bytes, others, row_bytes);
        mem_free(others);
    }
    mem_free(codes);
    kernels_destroy(several);
    kernels_destroy(one);
}

static int refuse_nth(void *context, size_t bytes)
{
    (void)bytes;
    uint32_t *left = context;
    return (*left)-- == 0;
}

static void test_refused(void **state)
{
    (void)state;
    struct kernels *kernels = make_kernels(2);
    float x[2 * 64] = {0};
    static const float bad[] = {NAN, INFINITY, -INFINITY, 65536, -65536};
    struct tensor tensor = {.type = tensor_type_info(TENSOR_TYPE_f32),
                            .dim_count = 2,
                            .dims = {48, 2, 1, 1},
                            .data = x,
                            .bytes = 48 * 2 * 4};
    const struct tensor *const whole = &tensor;
    void *codes = x;
    assert_int_equal(model_codes_make(&tensor, "blk.3.x", MODEL_WEIGHTS_INT4, kernels, &codes),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "'blk.3.x' have 48 inputs"));
    assert_null(codes);
    tensor.dims[0] = 64;
    tensor.bytes = sizeof x;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        x[90] = bad[i];
        codes = x;
        assert_int_equal(model_codes_make(&tensor, "blk.4.x", MODEL_WEIGHTS_INT4, kernels, &codes),
                         STATUS_UNSUPPORTED);
        assert_non_null(strstr(status_note()->message, "'blk.4.x' has a value"));
        assert_null(codes);
    }
    assert_int_equal(model_codes_make(&tensor, "x", MODEL_WEIGHTS_Q8, kernels, &codes), STATUS_OK);
    assert_int_equal(tensor.type->id, TENSOR_TYPE_q8_0);
    assert_int_equal(tensor.group, 0);
    mem_free(codes);
    tensor = (struct tensor){.type = tensor_type_info(TENSOR_TYPE_f32),
                             .dim_count = 2,
                             .dims = {64, 2, 1, 1},
                             .data = x,
                             .bytes = sizeof x};
    x[90] = NAN;
    assert_int_equal(model_codes_make(&tensor, "blk.5.x", MODEL_WEIGHTS_Q8, kernels, &codes),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "q8: tensor 'blk.5.x' has a value"));
    x[90] = 0;
    for (uint32_t n = 0; n < 2; n++) {
        uint32_t left = n;
        mem_hook_set(refuse_nth, &left);
        assert_int_equal(model_codes_make(&tensor, "x", MODEL_WEIGHTS_INT4, kernels, &codes),
                         STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(codes);
    }
    assert_ptr_equal(whole->data, x); /* as it was */
    assert_int_equal(whole->type->id, TENSOR_TYPE_f32);
    for (size_t t = 0; t < TYPE_COUNT; t++)
        assert_true(model_codes_takes(MODEL_WEIGHTS_INT4, tensor_type_info(TYPES[t])));
    assert_false(model_codes_takes(MODEL_WEIGHTS_INT4, tensor_type_info(TENSOR_TYPE_q4_1)));
    assert_false(model_codes_takes(MODEL_WEIGHTS_INT4, tensor_type_info(TENSOR_TYPE_q6_k)));
    for (size_t t = 0; t < TYPE_COUNT; t++)
        assert_true(model_codes_takes(MODEL_WEIGHTS_Q8, tensor_type_info(TYPES[t])) ==
                    (TYPES[t] != TENSOR_TYPE_q8_0));
    assert_false(model_codes_takes(MODEL_WEIGHTS_FILE, tensor_type_info(TENSOR_TYPE_f32)));
    kernels_destroy(kernels);
}

/* --- whole models --- */

enum { TOKENS = 24 };

static const struct llama_shape SHAPE = {.layers = 2,
                                         .width = 128,
                                         .heads = 5,
                                         .kv_heads = 5,
                                         .head_dim = 32,
                                         .hidden = 288,
                                         .vocab = 96,
                                         .context = 64,
                                         .has_own_output = true,
                                         .seed = 9};

/* Logits of a text, and what became of the matrices. */
static struct model_codes_sums run_text(const struct gguf *gguf, const char *isa,
                                        enum model_weights weights, float *logits)
{
    struct model_run run;
    uint32_t tokens[TOKENS];
    const struct model_run_options options = {.isa = isa,
                                              .threads = 2,
                                              .kv_type = KV_TYPE_F16,
                                              .weights = weights,
                                              .rows_max = TOKENS,
                                              .sequences = 1,
                                              .tokens_max = TOKENS};
    assert_int_equal(model_run_open(&run, gguf, &options), STATUS_OK);
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = (uint32_t)(rng_at(3, 0, i) % SHAPE.vocab);
    memcpy(logits, model_run_chunk(&run, 0, 0, tokens, TOKENS),
           TOKENS * SHAPE.vocab * sizeof *logits);
    const struct model_codes_sums sums = *model_codes_sums(run.model);
    model_run_close(&run);
    return sums;
}

/* The file with its matrices (int4: those of layers) as codes already. */
static struct gguf *open_made(const struct gguf *gguf, enum model_weights weights,
                              struct buffer *file)
{
    struct gguf_writer writer;
    struct gguf *out;
    struct kernels *kernels = make_kernels(1);
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"llama.block_count", SHAPE.layers},
                  {"llama.context_length", SHAPE.context},
                  {"llama.embedding_length", SHAPE.width},
                  {"llama.feed_forward_length", SHAPE.hidden},
                  {"llama.attention.head_count", SHAPE.heads},
                  {"llama.attention.key_length", SHAPE.head_dim},
                  {"llama.attention.value_length", SHAPE.head_dim}};
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.architecture", "llama");
    gguf_writer_f32(&writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        gguf_writer_u32(&writer, counts[i].name, counts[i].value);
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice found;
        struct tensor tensor;
        char name[64];
        void *codes = NULL;
        gguf_tensor_at(gguf, i, &found, &tensor);
        snprintf(name, sizeof name, "%.*s", (int)found.length, found.bytes);
        if (tensor.dim_count == 2 && model_codes_takes(weights, tensor.type) &&
            (weights == MODEL_WEIGHTS_Q8 || strncmp(name, "blk.", 4) == 0))
            assert_int_equal(model_codes_make(&tensor, name, weights, kernels, &codes), STATUS_OK);
        gguf_writer_tensor(&writer, name, tensor.dim_count, tensor.dims, tensor.type->id,
                           tensor.data, tensor.bytes);
        mem_free(codes);
    }
    gguf_writer_finish(&writer, file);
    gguf_writer_deinit(&writer);
    kernels_destroy(kernels);
    assert_int_equal(gguf_parse(&out, file->bytes, file->length), STATUS_OK);
    return out;
}

/* Root of the mean square of a − b ÷ that of b. */
static double relative_difference(const float *a, const float *b, size_t count)
{
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    return sqrt(difference / size);
}

/* Bit by bit those of a file with these codes, the embedding table and the output layer as they
 * were; near those of the file's own weights. */
static void test_whole_models(void **state)
{
    (void)state;
    static float logits[3][TOKENS * 96];
    static const char *const tables[] = {"ref", "ref_int8", "auto"};
    for (size_t t = 0; t < TYPE_COUNT; t++)
        for (size_t i = 0; i < 3; i++) {
            struct llama_shape shape = SHAPE;
            struct buffer file;
            struct buffer made_file;
            struct gguf *gguf;
            shape.type = TYPES[t];
            llama_file_build(&shape, &file);
            assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
            struct gguf *made = open_made(gguf, MODEL_WEIGHTS_INT4, &made_file);
            struct model_codes_sums sums = run_text(gguf, tables[i], MODEL_WEIGHTS_FILE, logits[0]);
            assert_int_equal(sums.matrices + sums.kept, 0);
            sums = run_text(gguf, tables[i], MODEL_WEIGHTS_INT4, logits[1]);
            assert_int_equal(sums.matrices, 2 * 7);
            assert_int_equal(sums.kept, 0);
            assert_true(sums.bytes > 0);
            if (TYPES[t] != TENSOR_TYPE_q8_0) /* `ref` packs it into 8 bits and more */
                assert_true(sums.bytes < sums.file_bytes);
            sums = run_text(made, tables[i], MODEL_WEIGHTS_INT4, logits[2]);
            assert_int_equal(sums.matrices, 0); /* nothing to do */
            assert_int_equal(sums.kept, 2 * 7);
            assert_memory_equal(logits[1], logits[2], sizeof logits[1]);
            const double off = relative_difference(logits[1], logits[0], TOKENS * SHAPE.vocab);
            print_message("%s, %s: logits differ by %.3f of their size\n", tables[i],
                          tensor_type_info(TYPES[t])->name, off);
            assert_true(off > 0.001);
            assert_true(off < 0.3);
            gguf_close(made);
            gguf_close(gguf);
            buffer_deinit(&made_file);
            buffer_deinit(&file);
        }
}

/* Bit by bit those of a Q8_0 file, the embedding table and the output layer included; of a file
 * that is Q8_0 already, its own. */
static void test_whole_models_of_8_bits(void **state)
{
    (void)state;
    static float logits[3][TOKENS * 96];
    static const char *const tables[] = {"ref", "ref_int8", "auto"};
    for (size_t t = 0; t < TYPE_COUNT; t++)
        for (size_t i = 0; i < 3; i++) {
            const bool is_done = TYPES[t] == TENSOR_TYPE_q8_0;
            struct llama_shape shape = SHAPE;
            struct buffer file;
            struct buffer made_file;
            struct gguf *gguf;
            shape.type = TYPES[t];
            shape.has_own_output = i != 1;
            llama_file_build(&shape, &file);
            assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
            struct gguf *made = open_made(gguf, MODEL_WEIGHTS_Q8, &made_file);
            struct model_codes_sums sums = run_text(gguf, tables[i], MODEL_WEIGHTS_FILE, logits[0]);
            assert_int_equal(sums.matrices + sums.kept, 0);
            sums = run_text(gguf, tables[i], MODEL_WEIGHTS_Q8, logits[1]);
            const uint32_t matrices = 2 * 7 + 1 + shape.has_own_output;
            assert_int_equal(sums.matrices, is_done ? 0 : matrices);
            assert_int_equal(sums.kept, is_done ? matrices : 0);
            run_text(made, tables[i], MODEL_WEIGHTS_FILE, logits[2]);
            assert_memory_equal(logits[1], logits[2], sizeof logits[1]);
            const double off = relative_difference(logits[1], logits[0], TOKENS * SHAPE.vocab);
            assert_true(is_done ? off == 0 : off > 0.0001);
            assert_true(off < 0.03);
            gguf_close(made);
            gguf_close(gguf);
            buffer_deinit(&made_file);
            buffer_deinit(&file);
        }
}

static const struct model_options INT4_OPTIONS = {
    .rows_max = 4, .logit_rows_max = 2, .weights = MODEL_WEIGHTS_INT4};

/* Everything is given back, whichever allocation fails (AddressSanitizer looks); a matrix over 48
 * inputs is refused by its name. */
static void test_open_fails_clean(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct kernels *kernels = make_kernels(1);
    struct model_config config;
    struct model_share whole;
    struct buffer file;
    struct gguf *gguf;
    enum status status = STATUS_NO_MEMORY;
    llama_file_build(&shape, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    assert_int_equal(model_config_read(&config, &(struct model_source){.gguf = gguf}), STATUS_OK);
    assert_int_equal(model_share_of(&whole, &config, 0, 1), STATUS_OK);
    for (uint32_t n = 0; status != STATUS_OK; n++) {
        uint32_t left = n;
        struct model *model = NULL;
        mem_hook_set(refuse_nth, &left);
        status = model_open_share(&model, kernels, &(struct model_source){.gguf = gguf},
                                  &INT4_OPTIONS, &whole);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        assert_true((model != NULL) == (status == STATUS_OK));
        model_close(model);
        assert_true(n < 1000);
    }
    gguf_close(gguf);
    buffer_deinit(&file);

    shape.hidden = 48;
    llama_file_build(&shape, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    assert_int_equal(model_config_read(&config, &(struct model_source){.gguf = gguf}), STATUS_OK);
    assert_int_equal(model_share_of(&whole, &config, 0, 1), STATUS_OK);
    struct model *model = NULL;
    assert_int_equal(model_open_share(&model, kernels, &(struct model_source){.gguf = gguf},
                                      &INT4_OPTIONS, &whole),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "'blk.0.ffn_down.weight' have 48 inputs"));
    assert_null(model);
    gguf_close(gguf);
    buffer_deinit(&file);
    kernels_destroy(kernels);
}

static void test_names(void **state)
{
    (void)state;
    enum model_weights weights = MODEL_WEIGHTS_FILE;
    assert_int_equal(model_weights_find(&weights, "int4"), STATUS_OK);
    assert_int_equal(weights, MODEL_WEIGHTS_INT4);
    assert_int_equal(model_weights_find(&weights, "int3"), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "int3 is not known: file, int4 or q8"));
    assert_int_equal(model_weights_find(&weights, "q8"), STATUS_OK);
    assert_int_equal(weights, MODEL_WEIGHTS_Q8);
    assert_string_equal(model_weights_name(MODEL_WEIGHTS_Q8), "q8");
    assert_int_equal(model_weights_find(&weights, "file"), STATUS_OK);
    assert_int_equal(weights, MODEL_WEIGHTS_FILE);
    assert_string_equal(model_weights_name(MODEL_WEIGHTS_INT4), "int4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_near),
        cmocka_unit_test(test_exact_groups),
        cmocka_unit_test(test_rows_hang_on_themselves),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_whole_models),
        cmocka_unit_test(test_whole_models_of_8_bits),
        cmocka_unit_test(test_open_fails_clean),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
