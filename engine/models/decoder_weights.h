/* decoder_weights: the packed tensors of a decoder, as its row of arch.def lists them.
 *
 * Owns:     the memory of the weights, from decoder_weights_open to decoder_weights_close.
 * Thread:   made at start; read by the engine thread.
 * Cost:     reads each weight of the share once; allocates at open only.
 * Not here: what is computed with them (decoder), which tensors a row has (arch_tensors.def).
 */
#pragma once

#include "engine/models/model_arch.h"

/* Shapes are [outputs][inputs], as in kernels_linear. Heads, kv_heads and hidden are those of this
 * rank's share. What the row does not have is NULL or empty. With experts, the matrices of the
 * feed-forward hold all experts of the share, one behind the other. */
struct decoder_layer {
    float *attn_norm;          /* [width] */
    float *attn_norm_bias;     /* [width] */
    struct weight q;           /* [heads × head_dim][width] */
    struct weight k;           /* [kv_heads × head_dim][width] */
    struct weight v;           /* [kv_heads × head_dim][width] */
    float *q_bias;             /* [heads × head_dim] */
    float *k_bias;             /* [kv_heads × head_dim] */
    float *v_bias;             /* [kv_heads × head_dim] */
    float *q_norm;             /* [head_dim], or [heads × head_dim] for norms of whole rows */
    float *k_norm;             /* [head_dim], or [kv_heads × head_dim] */
    float *sinks;              /* [heads] */
    struct weight attn_output; /* [width][heads × head_dim] */
    float *attn_output_bias;   /* [width] */
    float *attn_post_norm;     /* [width] */
    float *ffn_norm;           /* [width] */
    float *ffn_norm_bias;      /* [width] */
    struct weight gate;        /* [hidden][width] */
    struct weight up;          /* [hidden][width] */
    struct weight down;        /* [width][hidden] */
    float *gate_bias;          /* [hidden] */
    float *up_bias;            /* [hidden] */
    float *down_bias;          /* [width] */
    struct weight router;      /* [experts][width] */
    float *router_bias;        /* [experts] */
    float *ffn_post_norm;      /* [width] */
    float *attn_sum_norm;      /* [width] */
    float *attn_sum_norm_bias; /* [width] */
    float *ffn_sum_norm;       /* [width] */
    float *ffn_sum_norm_bias;  /* [width] */
};

struct decoder_weights {
    struct weight embedding;  /* [vocab][width] */
    struct weight own_output; /* [vocab of the share][width]; none when the embedding serves */
    const struct weight *output;
    float *positions;  /* [context][width] of an encoder, with the vector of the first type */
    float *embed_norm; /* [width] of an encoder */
    float *embed_norm_bias;
    float *output_norm;              /* [width] */
    float *output_norm_bias;         /* [width] */
    float *frequencies[MODEL_KINDS]; /* [rope_dims ÷ 2], radians a position; those in use */
    float rope_factors[MODEL_KINDS]; /* of cos and sin */
    struct decoder_layer *layers;    /* [layers] */
};

/* Refuses tensors that the row does not use, and packs the others. On failure the caller closes
 * what is there. CORRUPT, UNSUPPORTED or NOT_FOUND name the tensor; NO_MEMORY. */
enum status decoder_weights_open(struct decoder_weights *out, struct model *model,
                                 const struct model_source *source);
void decoder_weights_close(struct decoder_weights *weights, struct model *model);
