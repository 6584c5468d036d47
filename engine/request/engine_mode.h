/* engine_mode: the ways in which an engine can be told to work.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the other options of an engine (engine), what each way does (scheduler, step).
 */
#pragma once

/* How sequences share steps: `continuous` is for use, the others are there to be compared with. */
enum engine_batching {
    ENGINE_BATCHING_CONTINUOUS, /* they join and leave at every step */
    ENGINE_BATCHING_WINDOW,     /* they join when no running one is in its prompt, all at once */
    ENGINE_BATCHING_STATIC,     /* they join when none runs */
};

/* What becomes of a sequence whose pages a more urgent one takes. */
enum engine_preemption {
    ENGINE_PREEMPTION_AUTO,      /* whichever way is predicted to cost less */
    ENGINE_PREEMPTION_SWAP,      /* to host memory while there is room, else recomputed */
    ENGINE_PREEMPTION_RECOMPUTE, /* given back, and computed again from its tokens */
    ENGINE_PREEMPTION_OFF,       /* no class takes pages or rows of another that runs */
};

/* Tokens guessed ahead and judged in one step, with the same text, bit by bit. */
enum engine_speculation {
    ENGINE_SPECULATION_OFF,
    ENGINE_SPECULATION_LOOKUP, /* what came behind the same words earlier in its own text */
    ENGINE_SPECULATION_MODEL,  /* what a smaller model says */
    ENGINE_SPECULATION_EXIT,   /* what the model's own first layers say: one trained for it */
};

/* When a guess is right. Greedy answers are the same in both. */
enum engine_acceptance {
    ENGINE_ACCEPTANCE_NOISE,     /* when it is the token that is drawn: the same text, bit by bit */
    ENGINE_ACCEPTANCE_REJECTION, /* by sampler_judge: another text, distributed as that */
};
