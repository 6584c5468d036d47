/* kernels: arithmetic on buffers, one table of operations for every machine.
 *
 * Owns:     the chosen table, the compute threads, the scratch of operations.
 * Thread:   one caller at a time (the engine thread), which works as thread 0; an operation returns
 *           when all threads are done.
 * Cost:     operations never allocate; scratch is sized by kernels_options.rows_max.
 * Not here: what a model is, which rows go together (engine); operations on single rows
 *           (kernels_rows.h).
 *
 * Batch invariance, in every table: the bits of a row of any result depend on that row's inputs
 * alone. They never depend on the other rows, on how rows are divided into calls, or on the number
 * of threads. Tables with integer products (ref_int8, avx512, …) give the same bits as each other
 * in every operation. `ref` computes in plain float32 and is the reference for accuracy.
 *
 * All matrices are row-major float32, without padding, unless said otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"
#include "kernels/kernels_kv.h"
#include "kernels/kernels_rows.h"
#include "kernels/kernels_trial.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernels;
struct ranks;

struct kernels_options {
    const char *isa;   /* "cuda", "avx2", "ref", …; NULL or "auto": the best on this machine */
    uint32_t threads;  /* 0: one for each processor that this process may use */
    uint32_t rows_max; /* most rows of one call; sizes the scratch */
    uint32_t cols_max; /* widest input of a linear layer; sizes the scratch */
    uint32_t device;   /* for "cuda": number of the device */
    bool is_free;      /* for "cuda": faster sums whose bits may depend on what else is computed */
    uint32_t tables_max; /* for "cuda": most page numbers in one step; 0: 65536 */
    /* Borrowed. NULL: one process alone. Rank r uses `device` + r if there are so many devices. */
    struct ranks *ranks;
    struct kernels_trial trial; /* for "cuda": features to leave out, for tests and measurements */
};

/* UNSUPPORTED when `isa` cannot run here, OUT_OF_RANGE, NO_MEMORY; of a device also UNAVAILABLE. */
enum status kernels_create(struct kernels **out, const struct kernels_options *options);
/* Destroy all weights first. */
void kernels_destroy(struct kernels *kernels);

/* Makes the calling thread the caller of operations from here on. */
void kernels_attach(struct kernels *kernels);

const char *kernels_isa(const struct kernels *kernels);
/* Returns whether buffers are device memory, which only operations and copies may touch. */
bool kernels_is_device(const struct kernels *kernels);
/* Returns whether layers of BF16 weights use dot products of bfloat16, measured at the start if the
 * table and the processor have them. The bits are those of multiply-adds. */
bool kernels_has_dots(const struct kernels *kernels);
uint32_t kernels_threads(const struct kernels *kernels);
uint32_t kernels_processors(void); /* processors that this process may use */
/* Return the names of the tables in this build, best first, NULL-terminated; and whether processor
 * and operating system can run one. */
const char *const *kernels_built(void);
bool kernels_can_run(const char *isa);

/* --- memory: 64-byte aligned; leaves may read, never write, up to 64 bytes beyond a buffer --- */
void *kernels_buffer_create(struct kernels *kernels, size_t bytes);
void kernels_buffer_destroy(struct kernels *kernels, void *buffer);
/* Allocates host memory that a device can copy from and to while it works (kernels_pages_copy). */
void *kernels_host_create(struct kernels *kernels, size_t bytes);
void kernels_host_destroy(struct kernels *kernels, void *memory);
/* Returns the reason of a buffer's NULL: NO_MEMORY, with the wanted MiB of `what`, or UNAVAILABLE
 * for a lost device. */
enum status kernels_no_memory(struct kernels *kernels, size_t bytes, const char *what);
/* Copies from host memory to a buffer (or to memory of kernels_host_create), and back, after the
 * work queued before. The copy is complete on return. Download: UNAVAILABLE as kernels_step_end
 * (kernels_step.h). */
void kernels_upload(struct kernels *kernels, void *to, const void *from, size_t bytes);
enum status kernels_download(struct kernels *kernels, void *to, const void *from, size_t bytes);

/* --- weights: repacked once, at load, into the order in which the table reads them --- */
struct weight {
    const struct tensor_type_info *type; /* as in the file */
    uint32_t rows;                       /* outputs */
    uint32_t cols;                       /* inputs */
    uint32_t group;                      /* as in struct tensor */
    void *packed;
    size_t packed_bytes;
};

/* Packs a 2-d tensor into a weight. UNSUPPORTED when the table cannot compute its type or shape. */
enum status kernels_weight_create(struct kernels *kernels, struct weight *out,
                                  const struct tensor *tensor);
void kernels_weight_destroy(struct kernels *kernels, struct weight *weight);

/* --- operations --- */

enum { LINEAR_WEIGHTS_MAX = 3 };

/* y[i] = x · weights[i]ᵀ + bias[i] (or y[i] += …), for up to three matrices over the same input, so
 * that the input is quantised once (q, k, v; gate, up). The norm before it and the activation after
 * it can be part of the call, with the bits of the separate operations. */
struct linear_args {
    const float *x; /* [rows][cols of every weight] */
    uint32_t rows;
    uint32_t count;
    const struct weight *weights[LINEAR_WEIGHTS_MAX];
    const float *bias[LINEAR_WEIGHTS_MAX]; /* [weights[i]->rows]; NULL: none */
    float *y[LINEAR_WEIGHTS_MAX];          /* [rows][weights[i]->rows] */
    bool accumulate;
    /* Without `accumulate`. Of two matrices of one shape where the activation takes two: y[0] =
     * act(x · weights[0]ᵀ, x · weights[1]ᵀ), y[1] unused. Otherwise of each matrix. */
    enum act_kind act;
    const float *norm; /* [cols]; if not NULL, the input is kernels_norm of x */
    const float *norm_bias;
    enum norm_kind norm_kind;
    float epsilon; /* of the norm */
};
void kernels_linear(struct kernels *kernels, const struct linear_args *args);

enum { KV_WRITE_ROPES = 2 };

/* Rounds K and V of the batch's rows to the type of the pages and writes them into the pages. The
 * rotations in `rope` run first, in the same pass over the rows: those of the layer's k and q. */
struct kv_write_args {
    const float *k; /* [rows][kv_heads][head_dim], rotated unless `rope` rotates it */
    const float *v; /* [rows][kv_heads][head_dim] */
    uint32_t rows;
    uint32_t group; /* which of a page's units: 0, or a window unit 1 … layout->window_units */
    uint32_t layer; /* in the unit */
    struct kv_rows kv;
    const struct rope_args *rope[KV_WRITE_ROPES]; /* NULL: none */
};
void kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args);

enum { ATTENTION_DEVICE_HEADS = 64 }; /* most query heads over one KV head on a device */

/* Groups rows that read the same pages, so that a common block of keys is read once for all of
 * them. No bit changes: rows take the same blocks in the same order as without groups. */
struct attention_groups {
    const uint32_t *order; /* [rows] each row once; a sequence's rows adjacent, positions rising */
    /* [rows] the number of keys, from key 0 on, that row order[i] reads from the same pages as row
     * order[i - 1] of another sequence. It is a multiple of 64, and both rows see these keys. 0:
     * the two have no pages in common. */
    const uint32_t *shared;
};

/* Causal attention over pages. Row r reads keys 0 … position[r] of its own sequence from the pages,
 * its own key included, so kernels_kv_write comes first. Every row folds blocks of 64 keys into
 * segments of 256 keys, each from an empty state, and merges the segments in order. Blocks and
 * segments that lie wholly before a window are skipped; other keys before it have weight 0. */
struct attention_args {
    const float *q; /* [rows][heads][head_dim], rotated */
    float *out;     /* [rows][heads][head_dim] */
    uint32_t rows;
    uint32_t heads; /* a multiple of layout->kv_heads */
    uint32_t group; /* as in kv_write_args; a window unit's layer has a window */
    uint32_t layer; /* in the unit */
    float scale;    /* usually 1 ÷ sqrt(head_dim) */
    struct kv_rows kv;
    const struct attention_groups *groups; /* NULL: no two sequences have pages in common */
    bool is_wanted;  /* the rows are the step's rows that want logits (kernels_step.h) */
    uint32_t window; /* a row reads only its last `window` keys, its own included; 0: all */
    /* [heads] or NULL: a logit without a value, merged into the weights' sum after all segments */
    const float *sinks;
    float softcap; /* c: a score s counts as c × tanh(s ÷ c); 0: as it is */
};
void kernels_attention(struct kernels *kernels, const struct attention_args *args);

/* Opens the connections between the ranks. All ranks call it at the same time, before the first
 * sum. */
enum status kernels_ranks_open(struct kernels *kernels);

/* Replaces x by the sum of x over all ranks, added from rank 0 on, so that every rank gets the same
 * bits. Every rank makes the same calls with the same shapes. A rank that has ended counts as a
 * failed device: kernels_step_run reports it, and sums are left out from then on. */
struct all_reduce_args {
    float *x; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_all_reduce(struct kernels *kernels, const struct all_reduce_args *args);

/* Collects in rank 0 the columns that the ranks have in parts: rank r of n has columns cols × r ÷ n
 * to cols × (r + 1) ÷ n. Calls and failures as kernels_all_reduce. */
struct all_gather_args {
    const float *part; /* [rows][this rank's columns] */
    float *out;        /* [rows][cols]; undefined in ranks other than 0 */
    uint32_t rows;
    uint32_t cols;
};
void kernels_all_gather(struct kernels *kernels, const struct all_gather_args *args);

/* Runs `each` for `count` indexes on at most `threads_max` compute threads. Each thread runs a
 * contiguous range in order. Returns when all are done. */
void kernels_each(struct kernels *kernels, uint32_t threads_max, uint32_t count,
                  void (*each)(void *context, uint32_t index, uint32_t thread), void *context);

/* --- parts of sampling a token from one row of logits (engine/sampling/sampler) ---
 * They run on the calling thread, which may be any. Every table gives equal results. */
/* out[i] = e^((x[i] − max) × scale), where max is the greatest of x. Returns their sum. */
float kernels_row_exp(const struct kernels *kernels, const float *x, uint32_t count, float max,
                      float scale, float *out);
/* Writes the indexes i with x[i] ≥ least, rising, to ids [count + ROW_IDS_MORE]; returns their
 * number. */
enum { ROW_IDS_MORE = 16 };
uint32_t kernels_row_above(const struct kernels *kernels, const float *x, uint32_t count,
                           float least, uint32_t *ids);
/* Finds the indexes in [begin, end) that Gumbel noise might lift to a score. For u = rng_unit of
 * rng_of(stream, i) the noise −ln(−ln u) is at most −ln(1 − u). With k the upper 24 bits of 1 − u,
 * that is at most ln 2 × (24 − log2 k). The bits of a float, scaled, never exceed its log2. So
 * noise cannot lift x[i] to `score` where x[i] − bits(k) × step < floor. */
struct row_noise_args {
    const float *x;
    uint32_t begin, end;
    uint64_t stream;
    float step, floor;
};
/* Sets step and floor for a score of x ÷ temperature + noise. */
void kernels_row_noise_set(struct row_noise_args *args, double temperature, double score);
/* Returns false when x[i] is ruled out. */
bool kernels_row_noise_reaches(const struct row_noise_args *args, uint32_t i);
/* Writes the indexes that are not ruled out, as kernels_row_above. */
uint32_t kernels_row_noise(const struct kernels *kernels, const struct row_noise_args *args,
                           uint32_t *ids);

#ifdef __cplusplus
}
#endif
