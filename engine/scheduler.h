/* scheduler: who computes what in the next step; a pure function of the state it is shown.
 *
 * Owns:     nothing: the caller's arrays in, the caller's plan out.
 * Thread:   any; no clock, no allocation, no hidden state.
 * Cost:     O(sequences × pages taken), a few microseconds.
 * Not here: doing it (step), pages themselves (kv_pool), what a step costs (step_cost).
 *
 * First come, first served. In a step: running decodes, then partly prefilled prompts in chunks,
 * then new sequences, until the rows or the predicted time are used up. Tokens are the truth: a
 * sequence that lacks a page takes it from the throttled, else from the youngest that is younger
 * than itself and has no rows in this step; the victim loses all its pages and is computed again
 * later ("paused" while it has none). The oldest sequence that is not throttled can therefore
 * always go on, so all finish.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct scheduler_sequence {
    uint32_t tokens;   /* known: prompt and generated */
    uint32_t computed; /* of them, those whose K and V stand in pages; < tokens */
    uint32_t pages;    /* held; 0 = waiting or paused */
    /* Without pages, what the cache has for it: `computed` of its tokens, in so many pages; to take
     * them costs `found_cost` of the available ones. */
    uint32_t found_pages;
    uint32_t found_cost;
    uint32_t pages_back;  /* available again when it is dropped: those that nobody else holds */
    uint32_t logits_from; /* rows at this position and later want logits; < tokens */
    bool is_throttled;    /* computes nothing, and its pages are the first to be taken */
};

enum scheduler_mode {
    SCHEDULER_CONTINUOUS, /* new sequences at any step */
    SCHEDULER_WINDOW,     /* all that wait, when nobody who runs is in its prompt */
    SCHEDULER_STATIC,     /* all that wait, when nobody runs */
};

/* Predicted microseconds of a step: fixed + rows × row + (keys read by all rows) × key. */
struct scheduler_cost {
    double fixed_us;
    double row_us;
    double key_us;
};

struct scheduler_input {
    const struct scheduler_sequence *running; /* [running_count] oldest first */
    uint32_t running_count;
    const struct scheduler_sequence *waiting; /* [waiting_count] in order of arrival, no pages */
    uint32_t waiting_count;
    uint32_t sequences_free;  /* most that may be admitted */
    uint32_t pages_available; /* free, or in the cache and held by nobody */
    uint32_t page_tokens;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    enum scheduler_mode mode;
    struct scheduler_cost cost;
    /* Prompts are cut to this; 0 = any time. Decodes are never put off, and the first chunk of a
     * step has at least SCHEDULER_CHUNK_MIN rows. */
    double budget_us;
};

/* With fewer rows the weights are read for too little: SmolLM2-135M computes half as many rows a
 * second in steps of 32 as in steps of 512. */
enum { SCHEDULER_CHUNK_MIN = 32 };

struct scheduler_grant {
    uint32_t rows;
    bool drop;  /* give back all pages before the step; rows is 0 then */
    bool admit; /* of a waiting one; with rows, but in a window or static batch */
};

struct scheduler_plan {
    uint32_t admitted;
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t dropped;
};

/* `grants` has room for running_count + waiting_count: those running, in order, then those waiting.
 * All drops come before all rows; what the cache has is taken before any page is filled. */
void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants);
