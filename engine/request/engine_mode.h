/* engine_mode: the modes of an engine that its options choose.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the other options of an engine (engine), what each mode does (scheduler, step).
 */
#pragma once

/* How sequences share steps. `continuous` is for use; the others exist for comparison. */
enum engine_batching {
    ENGINE_BATCHING_CONTINUOUS, /* sequences join and leave at every step */
    ENGINE_BATCHING_WINDOW,     /* they join together, when no running one is in its prompt */
    ENGINE_BATCHING_STATIC,     /* they join together, when none runs */
};

/* What becomes of a sequence whose pages a more urgent one takes. */
enum engine_preemption {
    ENGINE_PREEMPTION_AUTO,      /* swapped out or recomputed, by predicted cost */
    ENGINE_PREEMPTION_SWAP,      /* swapped out while host memory has room, else recomputed */
    ENGINE_PREEMPTION_RECOMPUTE, /* recomputed from its tokens */
    ENGINE_PREEMPTION_OFF,       /* no class takes pages or rows of another's running sequence */
};

/* Which drafter proposes tokens that the model then verifies in one step. */
enum engine_speculation {
    ENGINE_SPECULATION_OFF,
    ENGINE_SPECULATION_LOOKUP, /* the tokens after the same words earlier in the sequence */
    ENGINE_SPECULATION_MODEL,  /* a smaller model */
    ENGINE_SPECULATION_EXIT,   /* the model's own first layers, if it was trained for that */
};

/* When a draft token is accepted. Greedy answers are the same with both. */
enum engine_acceptance {
    ENGINE_ACCEPTANCE_NOISE,     /* when it is the token sampled there: the same text bit by bit */
    ENGINE_ACCEPTANCE_REJECTION, /* by sampler_judge: another text of the same distribution */
};
