/* arch: what distinguishes the architectures that decoder runs: one row of arch.def each.
 *
 * Owns:     the constant rows.
 * Thread:   any.
 * Cost:     a look-up compares the name with each row's.
 * Not here: a model's own numbers (model_config), its tensors (arch_tensors.def), its keys
 *           (arch_keys.def), what is computed (decoder).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "kernels/kernels.h"

/* What a row has. Tensors and keys name the features that they belong to. */
enum arch_feature {
    ARCH_DENSE = 1 << 0,      /* layers without experts are possible */
    ARCH_EXPERTS = 1 << 1,    /* layers of experts are possible */
    ARCH_PRE_NORMS = 1 << 2,  /* the inputs of attention and feed-forward are normed */
    ARCH_POST_NORMS = 1 << 3, /* their results are normed */
    ARCH_RMS_NORM = 1 << 4,   /* norms have a weight */
    ARCH_LAYER_NORM = 1 << 5, /* norms subtract the mean, and have weight and bias */
    ARCH_HEAD_NORMS = 1 << 6, /* each head of q and k is normed */
    ARCH_ROW_NORMS = 1 << 7,  /* q and k are normed over all heads together */
    ARCH_QKV_BIAS = 1 << 8,
    ARCH_OUTPUT_BIAS = 1 << 9, /* of attention */
    ARCH_FEED_BIAS = 1 << 10,
    ARCH_SINKS = 1 << 11,
    ARCH_GATE = 1 << 12,       /* the feed-forward has a gate beside `up` */
    ARCH_NO_GATE = 1 << 13,    /* it has `up` alone */
    ARCH_FUSED_GATE = 1 << 14, /* ffn_up holds the gate, then `up` */
    /* The norm before the feed-forward is called ffn_norm; or the same, but in Hugging Face files
     * pre_feedforward_layernorm; or post_attention_norm. */
    ARCH_FEED_NORM = 1 << 15,
    ARCH_FEED_NORM_PRE = 1 << 16,
    ARCH_FEED_NORM_AS = 1 << 17,
    ARCH_ROPE_FREQS = 1 << 18,   /* the file may divide each frequency by a factor of its own */
    ARCH_ROPE_FACTORS = 1 << 19, /* it may have such factors for short and for long contexts */
    ARCH_WINDOW = 1 << 20,       /* it may have a window */
    ARCH_WINDOW_NEEDED = 1 << 21,
    ARCH_LOCAL_ROPE = 1 << 22, /* layers with a window have positions of their own, not scaled */
    ARCH_SCORE_CAP = 1 << 23,
    ARCH_LOGIT_CAP = 1 << 24,
    ARCH_EMBED_SCALE = 1 << 25,      /* embeddings are multiplied by √width */
    ARCH_NORMALISED = 1 << 26,       /* the weights of a row's experts are made to sum to 1 */
    ARCH_YARN_NOT_ROUNDED = 1 << 27, /* the range in which YaRN blends is used as computed */
    ARCH_NORM_OFFSET = 1 << 28,      /* weights of norms in Hugging Face files lack the 1 */
    /* Each row attends to all tokens of its text, positions and types of tokens are learned
     * vectors, and there is no output layer. */
    ARCH_ENCODER = 1 << 29,
    ARCH_SUM_NORMS = 1 << 30, /* what a part of a layer has been added to is normed */
};

struct arch {
    const char *name;    /* general.architecture */
    const char *classes; /* in config.json, with a blank behind each */
    uint32_t features;
    enum rope_pairing pairing;
    enum act_kind act;
    /* Of each such run of layers the last one attends to all keys, the others to the window; 0: all
     * layers have the window. */
    uint32_t window_period;
    uint32_t window;         /* when the file has no key for it */
    uint32_t nope_period;    /* the last layer of each such run has no rope; 0: all have rope */
    float local_base;        /* of ARCH_LOCAL_ROPE without a key; 0: the other layers' base */
    uint32_t wide_layers;    /* a model of so many layers scales scores by 1/√(width ÷ heads) */
    float attention_softcap; /* when the file has no key for it */
    float logit_softcap;     /* likewise; 0: none */
};

/* Returns NULL for an unknown name. */
const struct arch *arch_find(struct slice name);
/* Returns row `index`, or NULL behind the last one. */
const struct arch *arch_at(uint32_t index);
