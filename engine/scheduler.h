/* scheduler: who computes what in the next step; a pure function of the state it is shown.
 *
 * Owns:     nothing: the caller's arrays in, the caller's plan out.
 * Thread:   any; no clock, no allocation, no hidden state.
 * Cost:     O(sequences × pages taken), a few microseconds.
 * Not here: doing it (engine), pages themselves (kv_pool).
 *
 * First come, first served. In a step: running decodes, then partly prefilled prompts in chunks,
 * then new sequences, until the rows are used up. Tokens are the truth: a sequence that lacks a
 * page takes it from the throttled, else from the youngest that is younger than itself and has no
 * rows in this step; the victim loses all its pages and is computed again later ("paused" while it
 * has none). The oldest sequence that is not throttled can therefore always go on, so all finish.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct scheduler_sequence {
    uint32_t tokens;      /* known: prompt and generated */
    uint32_t computed;    /* of them, those whose K and V stand in pages; < tokens */
    uint32_t pages;       /* held; 0 = paused */
    uint32_t logits_from; /* rows at this position and later want logits; < tokens */
    bool is_throttled;    /* computes nothing, and its pages are the first to be taken */
};

struct scheduler_input {
    const struct scheduler_sequence *running; /* [running_count] oldest first */
    uint32_t running_count;
    const struct scheduler_sequence *waiting; /* [waiting_count] in order of arrival, no pages */
    uint32_t waiting_count;
    uint32_t sequences_free; /* most that may be admitted */
    uint32_t pages_free;
    uint32_t page_tokens;
    uint32_t rows_max;
    uint32_t logit_rows_max;
};

struct scheduler_grant {
    uint32_t rows;
    bool drop; /* give back all pages before the step; rows is 0 then */
};

struct scheduler_plan {
    uint32_t admitted; /* the first so many of `waiting`; each has at least one row */
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t dropped;
};

/* `grants` has room for running_count + min(waiting_count, sequences_free): those running, in
 * order, then those admitted. All drops come before all rows. */
void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants);
