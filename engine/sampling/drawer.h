/* drawer: the tokens of all rows of logits of a pass, wherever those are.
 *
 * Owns:     on the processor a sampler a thread, else what a device draws with; what is asked of a
 *           pass and what came of it, until the next; which tokens of texts the device knows.
 * Thread:   the engine thread asks; the kernels' threads draw, and only read what was asked.
 * Cost:     the samplers' work ÷ threads (at most DRAWER_THREADS); 20 bytes a token of the
 *           vocabulary and thread. On a device one wait, in which all of the pass is awaited; of a
 *           text with penalties or biases only what is new since its last draw is sent, in the
 *           mean three entries a token. No allocation after drawer_init.
 * Not here: drawing (sampler, kernels_draw), who draws (step_choose, draft_guess), what becomes of
 *           a token (step_token).
 *
 *     drawer_begin, drawer_ask …   before or behind the forward pass, which leaves `logits`
 *     drawer_read                  their statistics; on a device all that was asked
 *     drawer_run                   tokens; on a device they are there
 *     drawer_told                  log-probabilities
 */
#pragma once

#include "engine/sampling/sampler.h"
#include "kernels/kernels_draw.h"

/* More samplers would wait for memory. */
enum { DRAWER_THREADS = 8 };

struct drawer_ask {
    struct sampler_args args; /* but for logits and stats; of DRAW_TELL none are looked at, nor: */
    uint32_t text;            /* below texts_max */
    uint64_t serial;          /* of this use of the text's number; never 0 */
    uint32_t sure;            /* of args.generated: the others are guesses */
    uint32_t row;             /* of the logits, each at most once */
    enum draw_kind kind;
    uint32_t token;     /* judged, or told of */
    uint32_t top_count; /* that drawer_told will be asked for */
};

/* Where the device has what a text adjusts: its biases, then what it generated. */
struct drawer_list {
    uint64_t serial; /* 0: nothing is there */
    uint32_t first;
    uint32_t room;
    uint32_t count; /* that are there and stay */
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

    /* on the processor */
    struct sampler samplers[DRAWER_THREADS];
    uint32_t sampler_count;
    struct logits_stats *stats; /* [rows_max] */
    const float *logits;        /* of this pass */

    struct kernels_drawer *device; /* NULL on the processor; of the rest, on a device: */
    struct draw *draws;            /* [rows_max] */
    struct draw_change *changes;   /* [adjusts_max] of this pass */
    uint32_t change_count;
    struct drawer_list *lists; /* [texts_max] */
    uint32_t texts_max;
    uint32_t adjusts_max;  /* places on the device */
    uint32_t adjusts_used; /* the first so many have been some list's */
};

/* `context`: the most tokens of a text. NO_MEMORY, UNAVAILABLE. */
enum status drawer_init(struct drawer *drawer, struct kernels *kernels, uint32_t vocab,
                        uint32_t rows_max, uint32_t texts_max, uint32_t context);
void drawer_deinit(struct drawer *drawer);

/* Nothing is asked of the next pass yet. */
void drawer_begin(struct drawer *drawer);
/* What `ask` points to stays as it is until drawer_run. */
void drawer_ask(struct drawer *drawer, const struct drawer_ask *ask);
/* `logits` [rows][vocab] as model_forward returned them; they stay until the last drawer_told.
 * UNAVAILABLE when they are NULL or the device has failed; the note says how. */
enum status drawer_read(struct drawer *drawer, const float *logits, uint32_t rows);
void drawer_run(struct drawer *drawer);

/* The model's own log-probability of `token`, the one that was drawn or asked of in the row, and of
 * the `top_count` likeliest, to `top`; returns how many those are. */
uint32_t drawer_told(struct drawer *drawer, uint32_t row, uint32_t token, uint32_t top_count,
                     float *logprob, struct engine_logprob *top);
