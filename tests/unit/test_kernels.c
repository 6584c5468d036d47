#include "kernels/kernels_step.h"

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "tests/unit/kernels_kit.h"

/* Linear layer of each type in `isa` against plain double sums over exact weights. */
static void check_linear(const char *isa, float tolerance)
{
    struct rng rng = {.seed = 1};
    struct kernels *kernels = kit_kernels(isa, 2, 8, 256);
    for (size_t t = 0; t < KIT_TYPES; t++) {
        enum { ROWS = 5, OUT = 37, COLS = 256 };
        struct tensor tensor = kit_tensor(&rng, kit_types[t], OUT, COLS);
        struct weight weight;
        assert_int_equal(kernels_weight_create(kernels, &weight, &tensor), STATUS_OK);
        float *x = kit_floats(&rng, ROWS * COLS, 1);
        float *y = kit_floats(&rng, ROWS * OUT, 1);
        float *want = malloc(ROWS * OUT * sizeof *want);
        for (uint32_t o = 0; o < OUT; o++) {
            float w[COLS];
            tensor_row_to_f32(&tensor, o, w);
            for (uint32_t r = 0; r < ROWS; r++) {
                double sum = (double)y[r * OUT + o];
                for (uint32_t i = 0; i < COLS; i++)
                    sum += (double)w[i] * (double)x[r * COLS + i];
                want[r * OUT + o] = (float)sum;
            }
        }
        struct linear_args args = {
            .x = x, .rows = ROWS, .count = 1, .weights = {&weight}, .y = {y}, .accumulate = true};
        kernels_linear(kernels, &args);
        kit_assert_close(y, want, ROWS * OUT, tolerance);
        kernels_weight_destroy(kernels, &weight);
        free(x);
        free(y);
        free(want);
        free((void *)(uintptr_t)tensor.data);
    }
    kernels_destroy(kernels);
}

static void test_linear_ref(void **state)
{
    (void)state;
    check_linear("ref", 1e-6f);
}

/* Rounding inputs of ±1 to 127 steps: error of a sum of 256 products with weights below 0.5. */
static void test_linear_ref_int8(void **state)
{
    (void)state;
    check_linear("ref_int8", 0.08f);
}

static void test_options(void **state)
{
    (void)state;
    struct kernels *kernels;
    struct kernels_options options = {.isa = "ref", .threads = 1, .rows_max = 1, .cols_max = 1};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    assert_string_equal(kernels_isa(kernels), "ref");
    assert_int_equal(kernels_threads(kernels), 1);
    kernels_destroy(kernels);
    kernels_destroy(NULL);
    options.threads = 0; /* one for each processor */
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    assert_int_equal(kernels_threads(kernels), kernels_processors());
    kernels_destroy(kernels);
    options.threads = 1;
    options.rows_max = 0;
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OUT_OF_RANGE);
    options.rows_max = LIMIT_BATCH_ROWS + 1;
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OUT_OF_RANGE);
    options.rows_max = LIMIT_BATCH_ROWS;
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    kernels_destroy(kernels);
    options = (struct kernels_options){.isa = "ref", .threads = 1, .rows_max = 1, .cols_max = 0};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OUT_OF_RANGE);
    options.cols_max = LIMIT_WEIGHT_COLS + 1;
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OUT_OF_RANGE);
    options = (struct kernels_options){
        .isa = "ref", .threads = LIMIT_THREADS + 1, .rows_max = 1, .cols_max = 1};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OUT_OF_RANGE);
    assert_null(kernels);
    options =
        (struct kernels_options){.isa = "nothing", .threads = 1, .rows_max = 1, .cols_max = 1};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_UNSUPPORTED);
    assert_false(kernels_can_run("nothing"));
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void test_kv_type_names(void **state)
{
    (void)state;
    enum kv_type found = KV_TYPES;
    for (int type = 0; type < KV_TYPES; type++) {
        assert_int_equal(kernels_kv_type_find(&found, kernels_kv_type_name((enum kv_type)type)),
                         STATUS_OK);
        assert_int_equal(found, type);
    }
    assert_int_equal(kernels_kv_type_find(&found, "I8"), STATUS_UNSUPPORTED);
    assert_non_null(
        strstr(status_note()->message, "'I8' is unknown; known types are f32 f16 f16q i8"));
}

/* The n-th allocation fails, for every n until creation succeeds; nothing is left behind. */
static void test_no_memory(void **state)
{
    (void)state;
    struct kernels *kernels = NULL;
    struct kernels_options options = {.isa = NULL, .threads = 3, .rows_max = 16, .cols_max = 64};
    enum status status = STATUS_NO_MEMORY;
    int n = 0;
    for (; n < 100 && status == STATUS_NO_MEMORY; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        status = kernels_create(&kernels, &options);
        mem_hook_set(NULL, NULL);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(n > 4);
    kernels_destroy(kernels);
}

static void test_buffers(void **state)
{
    (void)state;
    struct kernels *kernels = kit_kernels("ref", 1, 1, 1);
    for (size_t bytes = 0; bytes < 200; bytes += 13) {
        char *buffer = kernels_buffer_create(kernels, bytes);
        assert_non_null(buffer);
        assert_int_equal((uintptr_t)buffer % 64, 0);
        char sum = 0;
        for (size_t i = 0; i < 64; i++) /* may be read */
            sum = (char)(sum | buffer[bytes + i]);
        assert_int_equal(sum, 0);
        kernels_buffer_destroy(kernels, buffer);
    }
    char *large = kernels_buffer_create(kernels, (size_t)5 << 20);
    assert_non_null(large);
    assert_int_equal((uintptr_t)large % ((size_t)2 << 20), 0); /* for the system's huge pages */
    kernels_buffer_destroy(kernels, large);
    assert_null(kernels_buffer_create(kernels, SIZE_MAX));
    assert_int_equal(kernels_no_memory(kernels, (3 << 20) + 1, "tests"), STATUS_NO_MEMORY);
    assert_string_equal(status_note()->message, "no memory for 4 MiB of tests");
    kernels_buffer_destroy(kernels, NULL);
    kernels_destroy(kernels);
}

/* What the processor does at once: memory of others is its own. */
static void test_memory(void **state)
{
    (void)state;
    static const uint32_t order[] = {2, 0, 2};
    const float from[] = {1, 2, 3, 4, 5, 6};
    float back[6] = {0};
    struct kernels *kernels = kit_kernels("ref", 1, 4, 4);
    float *buffer = kernels_host_create(kernels, sizeof from);
    float *gathered = kernels_buffer_create(kernels, sizeof from);
    assert_false(kernels_is_device(kernels));
    assert_int_equal(kernels_page_tokens(kernels), 16);
    kernels_attach(kernels);
    kernels_upload(kernels, buffer, from, sizeof from);
    kernels_gather(kernels,
                   &(struct gather_args){
                       .to = gathered, .from = buffer, .order = order, .rows = 3, .cols = 2});
    assert_int_equal(kernels_download(kernels, back, gathered, sizeof back), STATUS_OK);
    kit_assert_same_bits(back, (const float[]){5, 6, 1, 2, 5, 6}, 6);
    kernels_host_destroy(kernels, buffer);
    kernels_buffer_destroy(kernels, gathered);
    kernels_destroy(kernels);
}

static void count_forward(void *context)
{
    ++*(int *)context;
}

static void test_step(void **state)
{
    (void)state;
    const uint32_t pages[] = {0};
    char from[64] = "a page";
    char to[64] = "";
    int forwards = 0;
    const struct pages_copy_args copy = {.to = to,
                                         .from = from,
                                         .to_pages = pages,
                                         .from_pages = pages,
                                         .count = 1,
                                         .page_bytes = sizeof to};
    struct kernels *kernels = kit_kernels("ref", 1, 4, 4);
    assert_int_equal(kernels_step_run(kernels, &(struct kernels_step){0}, count_forward, &forwards),
                     STATUS_OK);
    assert_int_equal(kernels_step_end(kernels), STATUS_OK);
    assert_int_equal(forwards, 1);
    assert_int_equal(kernels_pages_ended(kernels), 0);
    for (uint64_t batch = 1; batch < 4; batch++) {
        assert_int_equal(kernels_pages_copy(kernels, &copy), batch);
        assert_int_equal(kernels_pages_ended(kernels), batch);
        kernels_pages_wait(kernels, batch);
    }
    assert_int_equal(kernels_pages_end(kernels), STATUS_OK);
    assert_string_equal(to, "a page");
    kernels_destroy(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_ref), cmocka_unit_test(test_linear_ref_int8),
        cmocka_unit_test(test_options),    cmocka_unit_test(test_kv_type_names),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
