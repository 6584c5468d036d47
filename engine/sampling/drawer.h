/* drawer: samples the tokens of all rows of logits of a pass, on the processor or on the device.
 *
 * Owns:     on the processor a sampler for each thread, on a device what sampling needs there; the
 *           asks of a pass and their results until the next; which tokens the device knows.
 * Thread:   the engine thread asks; the kernels' threads sample, and only read the asks.
 * Cost:     the samplers' work / threads (at most DRAWER_THREADS); 20 bytes for each token of the
 *           vocabulary and thread. On a device one wait for the whole pass; for a sequence with
 *           penalties or biases only what is new since its last draw is sent, on average three
 *           entries a token. No allocation after drawer_init.
 * Not here: sampling one row (sampler, kernels_draw), which rows are sampled (step_choose,
 *           draft_guess), what becomes of a token (step_token).
 *
 *     drawer_begin, drawer_ask …   before or after the forward pass, which returns `logits`
 *     drawer_read                  statistics of the rows; on a device all results
 *     drawer_run                   tokens; on a device nothing is left to do
 *     drawer_told                  log-probabilities
 */
#pragma once

#include "engine/sampling/sampler.h"
#include "kernels/kernels_draw.h"

/* More samplers at once would only wait for memory. */
enum { DRAWER_THREADS = 8 };

struct drawer_ask {
    struct sampler_args args; /* without logits and stats. DRAW_TELL needs none of them, nor: */
    uint32_t text;            /* slot of the sequence, below texts_max */
    uint64_t serial;          /* of the sequence in that slot; never 0 */
    uint32_t sure;            /* of args.generated the final ones; the others are drafts */
    uint32_t row;             /* of the logits, each at most once */
    enum draw_kind kind;
    uint32_t token;     /* DRAW_JUDGE: the draft token; DRAW_TELL: whose log-probability */
    uint32_t top_count; /* likeliest tokens that drawer_told will return */
};

/* Where the device has the adjusts of a sequence, in the order of struct draw. */
struct drawer_list {
    uint64_t serial; /* 0 = empty */
    uint32_t first;
    uint32_t room;
    uint32_t count; /* entries on the device that are final */
};

struct drawer {
    struct kernels *kernels;
    uint32_t vocab;
    uint32_t rows_max;
    struct drawer_ask *asks; /* [rows_max] */
    uint32_t ask_count;
    double work;                 /* sampler_work of all asks of the pass */
    uint32_t *tokens;            /* [rows_max] by row */
    struct draw_result *results; /* [rows_max] by row */

    /* On the processor. */
    struct sampler samplers[DRAWER_THREADS];
    uint32_t sampler_count;
    struct logits_stats *stats; /* [rows_max] */
    const float *logits;        /* of this pass */

    /* On a device; NULL on the processor, as what follows. */
    struct kernels_drawer *device;
    struct draw *draws;          /* [rows_max] */
    struct draw_change *changes; /* [adjusts_max] of this pass */
    uint32_t change_count;
    struct drawer_list *lists; /* [texts_max] */
    uint32_t texts_max;
    uint32_t adjusts_max;  /* entries on the device */
    uint32_t adjusts_used; /* entries below this index belong, or belonged, to a list */
};

/* `texts_max` sequence slots with at most `context` tokens each. NO_MEMORY, UNAVAILABLE. */
enum status drawer_init(struct drawer *drawer, struct kernels *kernels, uint32_t vocab,
                        uint32_t rows_max, uint32_t texts_max, uint32_t context);
void drawer_deinit(struct drawer *drawer);

/* Begins a pass without asks. */
void drawer_begin(struct drawer *drawer);
/* Asks for one row. What `ask` points to must not change until drawer_run. */
void drawer_ask(struct drawer *drawer, const struct drawer_ask *ask);
/* `logits` [rows][vocab] as model_forward returned them; they must stay until the last drawer_told.
 * UNAVAILABLE when they are NULL or the device has failed; the error note says how. */
enum status drawer_read(struct drawer *drawer, const float *logits, uint32_t rows);
/* Samples, so that drawer->tokens has the token of each row that was asked for. */
void drawer_run(struct drawer *drawer);

/* Sets `logprob` to the model's own log-probability of `token`, the one sampled or asked for in the
 * row, and `top` to those of the `top_count` likeliest tokens; returns how many there are. */
uint32_t drawer_told(struct drawer *drawer, uint32_t row, uint32_t token, uint32_t top_count,
                     float *logprob, struct engine_logprob *top);
