/* kernels_draw: tokens drawn where the logits are, so that tokens alone come back from a device.
 *
 * Owns:     a drawer: the memory on the device, and beside it, of the draws of one step, and what
 *           texts adjust, which stays from step to step.
 * Thread:   the caller of the kernels.
 * Cost:     all memory at create. A draw: three reads of its row by many blocks, each of which
 *           reads its adjusts; what of these is new goes to the device, no more. Where filters are
 *           asked, up to 16 more by one block, whatever the settings; 172 bytes come back.
 * Not here: what the distribution is: sampler.h defines it, and draws on processors.
 *
 * Equal logits give the token that the sampler draws from them: the same noise, order and filters.
 * The shares of top_p and min_p are sums that round elsewhere: a token whose share ends within
 * 1e-5 of the limit may be kept on one side alone.
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A token that is biased, or one that was generated, each time anew. The value drawn from is
 * (logit + bias) − (presence + frequency × times generated, where that is any). */
struct draw_adjust {
    uint32_t token;
    float bias; /* of those that are biased; each token once in a draw */
};

/* Adjusts stay where they are until they are changed. */
struct draw_change {
    uint32_t place;
    struct draw_adjust adjust;
};

enum draw_kind {
    DRAW_CHOOSE, /* as sampler_choose */
    DRAW_JUDGE,  /* as sampler_judge, of `token` */
    DRAW_TELL,   /* none is drawn: what is told is of `token` */
};

struct draw {
    uint32_t row; /* of the logits; each row at most once in a call */
    uint32_t kind;
    uint32_t token;
    float temperature; /* as engine_sampling has them */
    float top_p;
    float min_p;
    uint32_t top_k;
    uint32_t top_count; /* likeliest tokens told, ≤ LIMIT_LOGPROBS */
    uint64_t stream;    /* rng_stream of the seed, the choice and the position */
    float presence_penalty;
    float frequency_penalty;
    uint32_t adjust_first;    /* place of the first of its adjusts: those */
    uint32_t bias_count;      /* that are biased, then those */
    uint32_t generated_count; /* that were generated */
};

/* Log-probabilities are the model's own, before adjusting, temperature and filters. */
struct draw_logprob {
    uint32_t token;
    float logprob;
};

struct draw_result {
    uint32_t token;
    float logprob;
    uint32_t top_count;                      /* as asked, fewer when the vocabulary is smaller */
    struct draw_logprob top[LIMIT_LOGPROBS]; /* likeliest first, the lower id among equals */
};

struct draw_args {
    const float *logits; /* [rows][vocab] as model_forward leaves them: where the kernels work */
    const struct draw *draws;
    uint32_t count;
    const struct draw_change *changes; /* made first; of one place all alike */
    uint32_t change_count;             /* ≤ adjusts_max of the drawer */
    struct draw_result *out;           /* [rows], of the rows drawn from */
};

struct kernels_drawer;

/* *out is NULL where logits are the host's, and the sampler draws. There are `adjusts_max` places,
 * and no draw has more adjusts. UNAVAILABLE, NO_MEMORY. */
enum status kernels_drawer_create(struct kernels *kernels, struct kernels_drawer **out,
                                  uint32_t vocab, uint32_t adjusts_max);
void kernels_drawer_destroy(struct kernels *kernels, struct kernels_drawer *drawer);

/* Waits for the step whose logits these are, then `out` is written; UNAVAILABLE when it failed. */
enum status kernels_draw(struct kernels *kernels, struct kernels_drawer *drawer,
                         const struct draw_args *args);

#ifdef __cplusplus
}
#endif
