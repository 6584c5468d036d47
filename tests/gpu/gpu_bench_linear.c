/* gpu_bench_linear: one linear layer of the 8B shape, by type of weight and number of rows. */
#include "tests/gpu/gpu_bench.h"

enum { COPIES = 8 /* of a weight, used in turn */ };

struct linear_case {
    struct weight weights[COPIES];
    float *x;
    float *y;
    uint32_t rows;
};

static void linear_once(const void *context, uint32_t index)
{
    const struct linear_case *linear = context;
    cuda_linear(gpu_bench.device,
                &(struct linear_args){.x = linear->x,
                                      .rows = linear->rows,
                                      .count = 1,
                                      .weights = {&linear->weights[index % COPIES]},
                                      .y = {linear->y}});
}

static void bench_type(uint32_t id)
{
    static const uint32_t rows[] = {1, 8, 32, 64, 512, 2048};
    const struct gpu_bench_shape shape = gpu_bench_shape();
    const char *name = id == TENSOR_TYPE_q4_1 ? "int4" : tensor_type_info(id)->name;
    struct linear_case linear = {
        .x = bench_alloc((size_t)shape.rows_max * shape.width * sizeof(float)),
        .y = bench_alloc((size_t)shape.rows_max * shape.hidden * sizeof(float))};
    for (int i = 0; i < COPIES; i++)
        linear.weights[i] = bench_weight(id, shape.hidden, shape.width);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && rows[i] <= shape.rows_max; i++) {
        linear.rows = rows[i];
        const double seconds = bench_time(linear_once, &linear);
        const double gbps = (double)linear.weights[0].packed_bytes / seconds / 1e9;
        bench_figure(seconds * 1e6, "us", "linear_%s_%u_us", name, rows[i]);
        if (rows[i] <= 64)
            bench_figure(100 * gbps / gpu_bench.copy_gbps, "% of copying", "linear_%s_%u_read",
                         name, rows[i]);
        else
            bench_figure(2.0 * rows[i] * shape.width * shape.hidden / seconds / 1e12, "TFLOP/s",
                         "linear_%s_%u_tflops", name, rows[i]);
    }
    for (int i = 0; i < COPIES; i++)
        cuda_backend_weight_destroy(gpu_bench.device, &linear.weights[i]);
    bench_drop(linear.x);
    bench_drop(linear.y);
}

void gpu_bench_linear(void)
{
    static const uint32_t types[] = {TENSOR_TYPE_bf16, TENSOR_TYPE_f16,  TENSOR_TYPE_q8_0,
                                     TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_1, TENSOR_TYPE_q4_k,
                                     TENSOR_TYPE_q6_k};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) /* tiny widths do not hold k-blocks */
        if (gpu_bench_shape().width % tensor_type_info(types[i])->block_elements == 0)
            bench_type(types[i]);
}
