/* gpu_parity: what the themes of gpu_parity share: both sides, data on them, one line for each
 * check.
 *
 * A theme is a file gpu_parity_THEME.c with `void gpu_parity_THEME(void)` and a line of
 * gpu_parity.def. Each begins with the same random numbers, whatever ran before it. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/kernels.h"

enum { PARITY_ROWS_MAX = 512, PARITY_COLS_MAX = 14336, PARITY_TABLES_MAX = 4096 };

struct parity {
    struct cuda_backend *device;
    struct kernels *ref;
    struct rng rng;
    struct kernels_trial trial; /* of `device` */
    bool is_large;              /* layers of an 8B model too, and more steps of the chain */
};
extern struct parity parity;

#define PARITY(theme) void gpu_parity_##theme(void);
#include "tests/gpu/gpu_parity.def"
#undef PARITY

/* Ends the program if `status` is a failure. */
void parity_must(enum status status, const char *what);
/* Reports one check: its worst error ÷ bound, which must not exceed 1; 0 for equal bits. */
__attribute__((format(printf, 2, 3))) void parity_tell(double worst, const char *format, ...);
/* Returns the greatest |a − b| ÷ bound; INFINITY when one is not a number. */
double parity_worst(const float *a, const float *b, size_t n, double bound);
/* Returns 0 for equal bytes, else INFINITY. */
double parity_same(const void *a, const void *b, size_t bytes);

/* Return host memory of zeros; of numbers uniform in ± scale; a copy. free frees it. */
void *parity_host(size_t bytes);
float *parity_randoms(size_t n, float scale);
float *parity_copy(const float *from, size_t n);
/* Returns blocks of random codes whose factors give weights of about ± 0.3; free frees `data`. */
struct tensor parity_tensor(uint32_t type_id, uint32_t rows, uint32_t cols);

/* Return device memory, which parity_drop frees: a copy of host memory; bytes 0xff for results,
 * which are not numbers, so that unwritten ones are noticed; numbers uniform in ± scale. */
void *parity_up(const void *from, size_t bytes);
void *parity_poison(size_t bytes);
float *parity_up_randoms(size_t n, float scale);
/* Copies to host memory, after all work queued before. */
void parity_down(void *to, void *from, size_t bytes);
void parity_drop(const void *memory);
