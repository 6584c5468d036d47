/* model_share: which part of a model's layers each rank has (tensor parallel).
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a share by columns is copied once, while its matrix is packed.
 * Not here: communication between ranks (kernels/ranks), how each tensor is cut (models/<name>.c).
 *
 * Heads are divided into equal runs, with their K, V and pages; the feed-forward layer into runs of
 * whole blocks. So q, k, v, gate and up are cut by rows (outputs), and attn_output and down by
 * columns (inputs): each rank has a part of a sum, and one all-reduce after each of these two gives
 * the whole. Embedding and norms are whole in every rank.
 *
 * The output layer is cut by rows of the vocabulary, and rank 0 gathers the logits. In an 8B model
 * it has 525M of the 7.5G weights that a step reads: whole in one rank it would take 13 % of the
 * step with two ranks and 38 % with eight. Instead each row sends rank 0 4 bytes for each 8 KiB of
 * weights that rank 0 does not read. When the output layer is tied to the embedding, a rank holds
 * its part in addition to the whole table.
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
    uint32_t vocab;        /* of the output layer */
    uint32_t expert_every; /* the rank has whole experts: each of so many; 0 = a part of each one */
};

/* Computes the share of `rank` of `count`. UNSUPPORTED names what cannot be divided so. */
enum status model_share_of(struct model_share *out, const struct model_config *config,
                           uint32_t rank, uint32_t count);

/* Gives whole experts to ranks, expert e to rank e mod count, in place of a part of each. Does
 * nothing for dense models. UNSUPPORTED when there are more ranks than experts. */
enum status model_share_whole_experts(struct model_share *share, const struct model_config *config);

/* Rows or columns [begin, begin + count) of a matrix. */
struct model_part {
    uint32_t begin;
    uint32_t count;
};

/* Reduces the tensor to these rows, without a copy. */
void model_share_rows(struct tensor *tensor, struct model_part part);

/* Reduces the tensor to these columns, copied to `*memory` (the caller frees it with mem_free).
 * UNSUPPORTED, with `name`, when that cuts a block of its type; NO_MEMORY. */
enum status model_share_cols(struct tensor *tensor, const char *name, struct model_part part,
                             void **memory);

/* The same for rows of each matrix of a tensor {columns, rows, experts}. Without UNSUPPORTED. */
enum status model_share_expert_rows(struct tensor *tensor, const char *name, struct model_part part,
                                    void **memory);
/* Reduces such a tensor to the experts e with e mod `every` = `own`, copied likewise. */
enum status model_share_experts(struct tensor *tensor, const char *name, uint32_t every,
                                uint32_t own, void **memory);
