/* kernels_draw: sampling of tokens where the logits are, so that a device returns tokens only.
 *
 * Owns:     a drawer: the device memory of one step's draws, and of the adjustments, which stay
 *           from step to step.
 * Thread:   the caller of the kernels.
 * Cost:     all memory at create. A draw reads its row three times with many blocks, each of which
 *           reads the row's adjustments. With filters, one block reads it up to 16 more times,
 *           whatever the settings. New adjustments and a row's mask go to the device; 172 bytes
 *           come back.
 * Not here: the distribution (engine/sampler.h defines it, and samples on processors).
 *
 * Equal logits give the token that the sampler takes: the noise, the order and the filters are the
 * same. The sums behind top_p and min_p round differently: a token whose share ends within 1e-5 of
 * the limit may be kept by one side alone.
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The adjustment of a token: a ban, a bias, or one token of the prompt or of those generated (one
 * entry for each occurrence). The value sampled from is −∞ for a banned token, else
 * (repeat(logit) + bias) − (presence + frequency × count), where the penalty applies to tokens with
 * count > 0, generated ones alone. repeat divides the logit of a token of the prompt or a generated
 * one by the repetition penalty if it is above 0, and else multiplies it. */
struct draw_adjust {
    uint32_t token;
    float bias; /* of a biased token; each biased token occurs once in a draw */
};

/* Writes an adjustment at a place. Adjustments stay in their places until they are changed. */
struct draw_change {
    uint32_t place;
    struct draw_adjust adjust;
};

enum draw_kind {
    DRAW_CHOOSE, /* as sampler_choose */
    DRAW_JUDGE,  /* as sampler_judge, of `token` */
    DRAW_TELL,   /* samples nothing; reports on `token` */
};

struct draw {
    uint32_t row; /* of the logits; a call has each row at most once */
    uint32_t kind;
    uint32_t token;
    float temperature; /* the settings of engine_sampling */
    float top_p;
    float min_p;
    uint32_t top_k;
    uint32_t top_count; /* number of likeliest tokens to report, ≤ LIMIT_LOGPROBS */
    uint64_t stream;    /* rng_stream of the seed, the choice and the position */
    float presence_penalty;
    float frequency_penalty;
    float repetition_penalty; /* 0 and 1: none */
    uint32_t adjust_first;    /* place of its first adjustment: first those of */
    uint32_t ban_count;       /* banned tokens, then of */
    uint32_t bias_count;      /* biased ones, then of */
    uint32_t prompt_count;    /* the prompt's, 0 without a repetition penalty, and at last of */
    uint32_t generated_count; /* generated ones */
    /* In host memory, as in sampler_args: a bit for each token, 1 if it is allowed; the others
     * count as −∞ after adjustments. NULL: all are allowed. */
    const uint32_t *mask;
};

/* Log-probabilities are the model's own, before adjustments, temperature and filters. */
struct draw_logprob {
    uint32_t token;
    float logprob;
};

struct draw_result {
    uint32_t token;
    float logprob;
    uint32_t top_count;                      /* as requested, or the size of a smaller vocabulary */
    struct draw_logprob top[LIMIT_LOGPROBS]; /* likeliest first; the lower id among equals */
};

struct draw_args {
    const float *logits; /* [rows][vocab] as model_forward leaves them, in the kernels' memory */
    const struct draw *draws;
    uint32_t count;
    const struct draw_change *changes; /* applied first; entries for the same place must be equal */
    uint32_t change_count;             /* ≤ adjusts_max of the drawer */
    struct draw_result *out;           /* [rows]; written for the rows of `draws` */
};

struct kernels_drawer;

/* Creates a drawer with `adjusts_max` places, which is also the most adjustments of one draw. *out
 * is NULL where logits are in host memory and the sampler works there. UNAVAILABLE, NO_MEMORY. */
enum status kernels_drawer_create(struct kernels *kernels, struct kernels_drawer **out,
                                  uint32_t vocab, uint32_t adjusts_max);
void kernels_drawer_destroy(struct kernels *kernels, struct kernels_drawer *drawer);

/* Waits for the step that computes these logits, samples, and writes `out`. UNAVAILABLE when it
 * failed. */
enum status kernels_draw(struct kernels *kernels, struct kernels_drawer *drawer,
                         const struct draw_args *args);

#ifdef __cplusplus
}
#endif
