/* kernels: arithmetic on buffers, one table of operations for every machine.
 *
 * Owns:     the chosen table, the compute threads, the scratch of operations.
 * Thread:   one caller at a time (the engine thread), which works as thread 0; an operation returns
 *           when all threads are done.
 * Cost:     operations never allocate; scratch is sized by kernels_options.rows_max.
 * Not here: what a model is, which rows go together (engine).
 *
 * Batch invariance, in every table: the bits of a row of any result depend on that row's inputs
 * alone, never on the other rows, on how rows were cut into calls, or on the number of threads.
 * Tables with integer products (ref_int8, avx512, …) give the same bits as each other in every
 * operation; `ref` computes in plain float32 and is the judge of accuracy.
 *
 * All matrices are row-major float32, without padding, unless said otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"
#include "kernels/kernels_kv.h"
#include "kernels/kernels_trial.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernels;
struct ranks;

struct kernels_options {
    const char *isa;     /* "cuda", "avx2", "ref", …; NULL or "auto" = the best here */
    uint32_t threads;    /* 0 = one for each processor this process may use */
    uint32_t rows_max;   /* most rows of one call, for the scratch */
    uint32_t cols_max;   /* widest input of a linear layer, for the scratch */
    uint32_t device;     /* which one, of "cuda" */
    bool is_free;        /* … where sums may hang on what is computed beside, for speed */
    uint32_t tables_max; /* … page numbers of a step's sequences, all together; 0 = 65536 */
    struct ranks *ranks; /* kernels_all_reduce is over these, borrowed; NULL = none. Rank r takes
                            device `device` + r, if all of them are there */
    struct kernels_trial trial; /* … of "cuda"; for tests and measurements */
};

/* Fails with UNSUPPORTED (naming what is missing) when `isa` cannot run here, NO_MEMORY; of a
 * device UNAVAILABLE too. */
enum status kernels_create(struct kernels **out, const struct kernels_options *options);
/* After all weights have been destroyed. */
void kernels_destroy(struct kernels *kernels);

/* Another thread is the caller from here on. */
void kernels_attach(struct kernels *kernels);

const char *kernels_isa(const struct kernels *kernels);
/* Whether buffers are a device's memory, for operations, uploads and downloads alone. */
bool kernels_is_device(const struct kernels *kernels);
/* Whether layers of BF16 weights use dot products of bfloat16: measured at the start, where the
 * table and the processor have them; the bits are those of multiply-adds. */
bool kernels_has_dots(const struct kernels *kernels);
uint32_t kernels_threads(const struct kernels *kernels);
uint32_t kernels_processors(void); /* those that this process may use */
/* Names of the tables in this build, best first, NULL-terminated; and whether this machine can run
 * one (processor and operating system both asked). */
const char *const *kernels_built(void);
bool kernels_can_run(const char *isa);

/* --- memory: 64-byte aligned, padded so that leaves may read (never write) 64 bytes beyond --- */
void *kernels_buffer_create(struct kernels *kernels, size_t bytes);
void kernels_buffer_destroy(struct kernels *kernels, void *buffer);
/* Host memory that a device copies from and to beside its work (kernels_pages_copy). */
void *kernels_host_create(struct kernels *kernels, size_t bytes);
void kernels_host_destroy(struct kernels *kernels, void *memory);
/* What a buffer's NULL means: NO_MEMORY, how much of `what`; UNAVAILABLE: a device that is lost. */
enum status kernels_no_memory(struct kernels *kernels, size_t bytes, const char *what);
/* From host memory to a buffer (or kernels_host_create's), and back, behind the work asked before;
 * both are over on return. Download: UNAVAILABLE as kernels_step_end (kernels_step.h). */
void kernels_upload(struct kernels *kernels, void *to, const void *from, size_t bytes);
enum status kernels_download(struct kernels *kernels, void *to, const void *from, size_t bytes);

/* --- weights: repacked once, at load, into the order in which the table reads them --- */
struct weight {
    const struct tensor_type_info *type; /* as in the file */
    uint32_t rows;                       /* outputs */
    uint32_t cols;                       /* inputs */
    uint32_t group;                      /* as the tensor's */
    void *packed;
    size_t packed_bytes;
};

/* A 2-d tensor becomes a weight; UNSUPPORTED when the table has no path for its type or shape. */
enum status kernels_weight_create(struct kernels *kernels, struct weight *out,
                                  const struct tensor *tensor);
void kernels_weight_destroy(struct kernels *kernels, struct weight *weight);

/* --- operations --- */

/* out[r] = row tokens[r] of the embedding table, as float32. */
struct embed_args {
    const struct weight *table; /* rows = vocabulary, cols = width */
    const uint32_t *tokens;     /* [rows] */
    uint32_t rows;
    float *out; /* [rows][table->cols] */
};
void kernels_embed(struct kernels *kernels, const struct embed_args *args);

/* y = x ÷ sqrt(mean(x²) + epsilon) × weight (Zhang and Sennrich 2019). y may be x. */
struct rmsnorm_args {
    const float *x;      /* [rows][cols] */
    const float *weight; /* [cols] */
    float *y;            /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    float epsilon;
};
void kernels_rmsnorm(struct kernels *kernels, const struct rmsnorm_args *args);

enum { LINEAR_WEIGHTS_MAX = 3 };

/* y[i] = x · weights[i]ᵀ (or y[i] += …), for up to three matrices over the same input, so that
 * the input is quantised once (q, k, v; gate, up). What stands before and behind it is done on the
 * way, with the bits of the operation alone: */
struct linear_args {
    const float *x; /* [rows][cols of every weight] */
    uint32_t rows;
    uint32_t count;
    const struct weight *weights[LINEAR_WEIGHTS_MAX];
    float *y[LINEAR_WEIGHTS_MAX]; /* [rows][weights[i]->rows] */
    bool accumulate;
    bool is_gated; /* y[0] = silu(x · weights[0]ᵀ) × (x · weights[1]ᵀ), kernels_silu_mul; y[1] is
                          not written. Two matrices of one shape. */
    const float *norm; /* [cols] unless NULL: kernels_rmsnorm of x is the input */
    float epsilon;     /* of the norm */
};
void kernels_linear(struct kernels *kernels, const struct linear_args *args);

/* cos and sin of position × frequency, once a step for all layers: table[r][i] = {cos, sin}. */
struct rope_table_args {
    const uint32_t *positions; /* [rows] */
    const float *frequencies;  /* [pairs] */
    uint32_t rows;
    uint32_t pairs; /* rotated dimensions ÷ 2 */
    float *table;   /* [rows][pairs][2] */
};
void kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args);

/* Rotary position embedding in place (Su et al. 2021). Interleaved pairs are (0,1)(2,3)…, as GGUF
 * files of the llama architecture have them; halves are (0,n/2)(1,n/2+1)…. */
enum rope_pairing { ROPE_INTERLEAVED, ROPE_HALVES };
struct rope_args {
    float *x; /* [rows][heads][head_dim] */
    const float *table;
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t pairs;
    enum rope_pairing pairing;
};
void kernels_rope(struct kernels *kernels, const struct rope_args *args);

enum { KV_WRITE_ROPES = 2 };

/* Rounds K and V of the batch's rows to the pages' type and writes them to their places. `rope` is
 * done first, in the same pass over the rows: the layer's k and q, of the same rows. */
struct kv_write_args {
    const float *k; /* [rows][kv_heads][head_dim], rotated, if not by `rope` */
    const float *v; /* [rows][kv_heads][head_dim] */
    uint32_t rows;
    uint32_t layer;
    struct kv_rows kv;
    const struct rope_args *rope[KV_WRITE_ROPES]; /* NULL: none */
};
void kernels_kv_write(struct kernels *kernels, const struct kv_write_args *args);

enum {
    ATTENTION_BLOCK_KEYS = 64,
    ATTENTION_DEVICE_HEADS = 64, /* over one KV head, that a device has */
};

/* Rows that read the same pages, side by side, so that each block of keys which they have in common
 * is read once for all of them. It changes the time, never a bit: rows take the same blocks in the
 * same order as without it. */
struct attention_groups {
    const uint32_t *order; /* [rows] every row once; those of a sequence together and rising */
    /* [rows] keys, from 0 on, that row order[i] reads from the same pages as row order[i - 1] of
     * another sequence: a multiple of 64 that both of them see. 0 between strangers. */
    const uint32_t *shared;
};

/* Causal attention over pages: row r reads keys 0 … position[r] of its own sequence, from the pages
 * alone (its own key too, so kernels_kv_write comes first). Blocks of 64 keys, absolute segments
 * of 256 keys from an empty state, merged as a left fold; blocks and segments that lie wholly
 * before a window are left out, other keys before it weigh nothing. */
struct attention_args {
    const float *q; /* [rows][heads][head_dim], rotated */
    float *out;     /* [rows][heads][head_dim] */
    uint32_t rows;
    uint32_t heads; /* a multiple of layout->kv_heads */
    uint32_t layer;
    float scale; /* usually 1 ÷ sqrt(head_dim) */
    struct kv_rows kv;
    const struct attention_groups *groups; /* NULL = no two sequences have pages in common */
    bool is_wanted;     /* the rows are those of a step that want logits (kernels_step.h) */
    uint32_t window;    /* 0 = none: row r reads its last so many keys alone, its own among them */
    const float *sinks; /* [heads], or NULL: a logit of each head that has no value: it takes part
                           in the sum of weights, behind all segments */
};
void kernels_attention(struct kernels *kernels, const struct attention_args *args);

/* gate = silu(gate) × up, silu(x) = x ÷ (1 + e^-x) (Shazeer 2020, SwiGLU). */
struct silu_mul_args {
    float *gate;     /* [rows][cols] */
    const float *up; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_silu_mul(struct kernels *kernels, const struct silu_mul_args *args);

/* to[i] = from[order[i]]: rows of `cols` floats. The areas do not overlap. */
struct gather_args {
    float *to;
    const float *from;
    const uint32_t *order; /* [rows] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_gather(struct kernels *kernels, const struct gather_args *args);

/* The ways between the ranks: all of them call it at the same time, before the first sum. */
enum status kernels_ranks_open(struct kernels *kernels);

/* x becomes the sum of x over all ranks, added from rank 0 on: the same bits in each. Every rank
 * asks for it equally often, of the same shape. A rank that has ended is a failure as a device's
 * is: kernels_step_run tells, and sums are left out from then on. */
struct all_reduce_args {
    float *x; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_all_reduce(struct kernels *kernels, const struct all_reduce_args *args);

/* Columns that the ranks have in parts, rank r of n those from cols × r ÷ n to cols × (r + 1) ÷ n,
 * become whole in rank 0. Asked for, and failing, as kernels_all_reduce. */
struct all_gather_args {
    const float *part; /* [rows][this rank's columns] */
    float *out;        /* [rows][cols]; in other ranks than 0 what is left there is of no use */
    uint32_t rows;
    uint32_t cols;
};
void kernels_all_gather(struct kernels *kernels, const struct all_gather_args *args);

/* Of one row of logits: greatest value, its first index, and log Σ e^x in one fixed fold. */
struct logits_stats {
    float max;
    uint32_t argmax;
    float log_sum_exp;
};
void kernels_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out /* [rows] */);

/* The caller's own work on `count` things, on at most `threads_max` of the compute threads: thing
 * `index` on thread `thread`, each thread its run of them in order. Returns when all are done. */
void kernels_each(struct kernels *kernels, uint32_t threads_max, uint32_t count,
                  void (*each)(void *context, uint32_t index, uint32_t thread), void *context);

/* --- parts of drawing a token from one row of logits (sampler): on the calling thread,
 * which may be any; equal results in every table --- */
/* out[i] = e^((x[i] − max) × scale), max the greatest of x; returns their sum. */
float kernels_row_exp(const struct kernels *kernels, const float *x, uint32_t count, float max,
                      float scale, float *out);
/* Indexes i of x[i] ≥ least, rising, to ids [count + ROW_IDS_MORE]; returns how many. */
enum { ROW_IDS_MORE = 16 };
uint32_t kernels_row_above(const struct kernels *kernels, const float *x, uint32_t count,
                           float least, uint32_t *ids);
/* Of i in [begin, end): those that Gumbel noise might lift to a score. For u = rng_unit of
 * rng_of(stream, i) the noise −ln(−ln u) is at most −ln(1 − u), and that, k being the upper 24 bits
 * of 1 − u, at most ln 2 × (24 − log2 k). The bits of a float are no more than its log2: so noise
 * cannot lift x[i] to `score` where x[i] − bits(k) × step < floor. */
struct row_noise_args {
    const float *x;
    uint32_t begin, end;
    uint64_t stream;
    float step, floor;
};
/* For a score of x ÷ temperature + noise. */
void kernels_row_noise_set(struct row_noise_args *args, double temperature, double score);
/* False when x[i] is ruled out. */
bool kernels_row_noise_reaches(const struct row_noise_args *args, uint32_t i);
/* Indexes that are not ruled out, as kernels_row_above. */
uint32_t kernels_row_noise(const struct kernels *kernels, const struct row_noise_args *args,
                           uint32_t *ids);

#ifdef __cplusplus
}
#endif
