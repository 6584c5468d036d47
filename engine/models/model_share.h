/* model_share: what one of several processes has of a model's layers (tensor parallel).
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a share by columns is copied once, while its matrix is packed.
 * Not here: how ranks meet (kernels/ranks), which tensor is cut how (models/<name>.c).
 *
 * Heads are cut in equal runs, with the K, V and pages of theirs; the feed-forward layer in runs of
 * whole blocks. So q, k, v, gate and up are cut by rows (outputs), attn_output and down by columns
 * (inputs): each rank has a part of the sum, and one sum over all ranks behind each of these two
 * gives the whole. Embedding and norms are whole in every rank. The output layer is cut by rows of
 * the vocabulary, and rank 0 gathers the logits: of an 8B model it is 525M of the 7.5G weights that
 * a step reads, so whole in one rank it would take 13 % of the step of two ranks and 38 % of that
 * of eight; instead a row sends rank 0 4 bytes for each 8 KiB of weights that it does not read.
 * Where it is tied to the embedding, its part is there beside the whole table.
 */
#pragma once

#include <stdint.h>

#include "kernels/tensor.h"

struct model_config;

struct model_share {
    uint32_t rank;
    uint32_t count; /* of ranks; 1 = the whole model */
    uint32_t head_begin;
    uint32_t heads;
    uint32_t kv_head_begin;
    uint32_t kv_heads;
    uint32_t hidden_begin;
    uint32_t hidden;
    uint32_t vocab_begin;
    uint32_t vocab; /* of the output layer */
};

/* UNSUPPORTED names what cannot be cut so. */
enum status model_share_of(struct model_share *out, const struct model_config *config,
                           uint32_t rank, uint32_t count);

/* Rows or columns [begin, begin + count) of a matrix. */
struct model_part {
    uint32_t begin;
    uint32_t count;
};

/* The tensor becomes these rows of it: no copy. */
void model_share_rows(struct tensor *tensor, struct model_part part);

/* The tensor becomes these columns of it, copied to `*memory` (mem_free). UNSUPPORTED, with `name`,
 * when that cuts a block of its type; NO_MEMORY. */
enum status model_share_cols(struct tensor *tensor, const char *name, struct model_part part,
                             void **memory);
