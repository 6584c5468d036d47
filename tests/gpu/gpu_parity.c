/* gpu_parity: every operation of kernels/cuda against the table `ref` on the processor, within a
 * bound stated beside it, and bits that must not depend on what else is computed.
 *
 * usage: gpu_parity [--large] [--only THEME] [--TRIAL…] [--cut PLACES]
 *     --large  layers of an 8B model too, which take `ref` minutes; the chain more often
 *     --only   one theme of gpu_parity.def
 *     --TRIAL  a word of kernels_trial: --no-early, --no-graphs, --few-stages, --carveout
 *     --cut    simulated kernels only: sums inside a matrix instruction are truncated at this many
 *              binary places below their greatest term, as a device truncates them
 * Prints one line for each operation and shape: worst error ÷ bound. Ends with 0, with 1 when one
 * is above its bound, or with 77 without a device. Linked with kernels/cuda for a device, or with
 * tests/kit/simt, which runs the same kernels on the processor. */
#include "tests/gpu/gpu_parity.h"

#include <stdarg.h>

#include "tests/gpu/gpu_data.h"
#include "tests/gpu/gpu_device.h"
#if BANYAN_SIMT
#include "tests/kit/simt/simt.h"
#endif

enum { SPLIT_BYTES = 64 << 20, RESULTS_MAX = 2048 };

static struct result {
    char name[64];
    double worst; /* error ÷ bound; 0 for equal bits */
} results[RESULTS_MAX];
static uint32_t result_count;

struct parity parity;

void parity_must(enum status status, const char *what)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "gpu_parity: %s: %s\n", what, status_note()->message);
    exit(1);
}

void parity_tell(double worst, const char *format, ...)
{
    struct result *result = &results[result_count];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->name, sizeof result->name, format, arguments);
    va_end(arguments);
    result->worst = worst;
    printf("%-56s %8.3f %s\n", result->name, worst, worst <= 1 ? "ok" : "ABOVE ITS BOUND");
    fflush(stdout);
    if (++result_count == RESULTS_MAX)
        exit(1);
}

void *parity_host(size_t bytes)
{
    void *out = calloc(1, bytes + 64);
    if (out == NULL)
        exit(1);
    return out;
}

float *parity_randoms(size_t n, float scale)
{
    float *out = parity_host(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(rng_unit(rng_next(&parity.rng)) * 2 - 1) * scale;
    return out;
}

float *parity_copy(const float *from, size_t n)
{
    return memcpy(parity_host(n * sizeof(float)), from, n * sizeof(float));
}

void *parity_up(const void *from, size_t bytes)
{
    void *out;
    parity_must(cuda_backend_alloc(parity.device, &out, bytes, "a test's data"), "alloc");
    cuda_backend_upload(parity.device, out, from, bytes);
    return out;
}

void *parity_poison(size_t bytes)
{
    char *stale = memset(parity_host(bytes), 0xff, bytes);
    void *out = parity_up(stale, bytes);
    free(stale);
    return out;
}

float *parity_up_randoms(size_t n, float scale)
{
    float *data = parity_randoms(n, scale);
    float *out = parity_up(data, n * sizeof *data);
    free(data);
    return out;
}

void parity_down(void *to, void *from, size_t bytes)
{
    parity_must(cuda_backend_download(parity.device, to, from, bytes), "download");
}

void parity_drop(const void *memory)
{
    cuda_backend_free(parity.device, (void *)(uintptr_t)memory);
}

/* A NaN never agrees. */
double parity_worst(const float *a, const float *b, size_t n, double bound)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)a[i] - (double)b[i]) / bound;
        if (!(error <= worst))
            worst = error >= 0 ? error : INFINITY;
    }
    return worst;
}

double parity_same(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0 ? 0 : INFINITY;
}

struct tensor parity_tensor(uint32_t type_id, uint32_t rows, uint32_t cols)
{
    const struct tensor_type_info *type = tensor_type_info(type_id);
    const size_t blocks = (size_t)rows * (cols / type->block_elements);
    void *data = parity_host(blocks * type->block_bytes);
    gpu_data_fill(&parity.rng, type, 0.3f, blocks, data);
    return (struct tensor){.type = type,
                           .dim_count = 2,
                           .dims = {cols, rows, 1, 1},
                           .data = data,
                           .bytes = blocks * type->block_bytes};
}

static const struct theme {
    const char *name;
    void (*run)(void);
} THEMES[] = {
#define PARITY(theme) {#theme, gpu_parity_##theme},
#include "tests/gpu/gpu_parity.def"
#undef PARITY
};

static void run(const char *only)
{
    parity_must(cuda_backend_open(&parity.device,
                                  &(struct cuda_backend_options){.rows_max = PARITY_ROWS_MAX,
                                                                 .cols_max = PARITY_COLS_MAX,
                                                                 .tables_max = PARITY_TABLES_MAX,
                                                                 .split_bytes = SPLIT_BYTES,
                                                                 .trial = parity.trial}),
                "open");
    parity_must(kernels_create(&parity.ref, &(struct kernels_options){.isa = "ref",
                                                                      .rows_max = PARITY_ROWS_MAX,
                                                                      .cols_max = PARITY_COLS_MAX}),
                "ref");
    for (size_t i = 0; i < sizeof THEMES / sizeof *THEMES; i++) {
        parity.rng = (struct rng){.seed = 9};
        if (only == NULL || strcmp(only, THEMES[i].name) == 0)
            THEMES[i].run();
    }
    kernels_destroy(parity.ref);
    cuda_backend_close(parity.device);
}

/* Sets the truncation of matrix instructions' sums; false on a device, which has its own. */
static bool cut(const char *places)
{
#if BANYAN_SIMT
    char *end;
    simt_cut_places = (int)strtol(places, &end, 10);
    return *end == '\0' && simt_cut_places > 0;
#else
    (void)places;
    return false;
#endif
}

/* Returns how many words the option takes; 0 for an unknown option. */
static int option(int left, char **words, const char **only)
{
    if (strcmp(words[0], "--large") == 0)
        return parity.is_large = true, 1;
    if (strncmp(words[0], "--", 2) == 0 && kernels_trial_set(&parity.trial, words[0] + 2))
        return 1;
    if (strcmp(words[0], "--only") == 0 && left > 1)
        return *only = words[1], 2;
    return strcmp(words[0], "--cut") == 0 && left > 1 && cut(words[1]) ? 2 : 0;
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    uint32_t above = 0;
    for (int i = 1, taken; i < argc; i += taken) {
        taken = option(argc - i, argv + i, &only);
        if (taken == 0)
            return fprintf(stderr, "usage: gpu_parity [--large] [--only THEME] [--no-early] "
                                   "[--no-graphs] [--few-stages] [--carveout] [--cut PLACES]\n"),
                   2;
    }
    if (cuda_device_count() == 0)
        return gpu_device_missing();
    run(only);
    for (uint32_t i = 0; i < result_count; i++)
        above += !(results[i].worst <= 1);
    printf("%u checks, %u above their bound\n", result_count, above);
    return result_count > 0 && above == 0 ? 0 : 1; /* an unknown theme checks nothing */
}
