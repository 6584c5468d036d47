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
    ENGINE_BATCHING_WINDOW,     /* all that wait join when every running one has its whole prompt */
    ENGINE_BATCHING_STATIC,     /* all that wait join when none runs */
};

/* What becomes of a sequence whose pages a more urgent one takes. */
enum engine_preemption {
    ENGINE_PREEMPTION_AUTO,      /* swapped out or recomputed, by predicted cost */
    ENGINE_PREEMPTION_SWAP,      /* swapped out while host memory has room, else recomputed */
    ENGINE_PREEMPTION_RECOMPUTE, /* recomputed from its tokens */
    /* no preemption for another class or tenant, unless no sequence can go on otherwise */
    ENGINE_PREEMPTION_OFF,
};

/* How the states of a text's tokens, behind the model's last norm, become its embedding. */
enum engine_pooling {
    ENGINE_POOLING_NONE,  /* the model gives no embeddings */
    ENGINE_POOLING_LAST,  /* the state of the last token */
    ENGINE_POOLING_MEAN,  /* the mean over all tokens */
    ENGINE_POOLING_FIRST, /* the state of the first token, "cls"; of encoders alone */
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
    /* It is accepted when the model samples that token there. The text is the same, bit by bit, as
     * without drafts. */
    ENGINE_ACCEPTANCE_NOISE,
    /* It is accepted by rejection sampling (sampler_judge). The text differs from the text without
     * drafts, but its probabilities are the same. */
    ENGINE_ACCEPTANCE_REJECTION,
};
