/* rank_wire: what rank 0 writes to the ranks that follow it, and they to it, in this order.
 *
 * Owns:     nothing.
 * Thread:   –
 * Cost:     –
 * Not here: who writes (rank_lead), who reads (rank_follow), the sockets (kernels/ranks).
 *
 *   rank_setup ─► … rank_answer ◄─ rank_memory ─► … rank_answer ◄─ rank_message ─► rank_message ─►
 *
 * Processes of one binary: structs go as they lie in memory. All ranks' layouts are alike, since
 * their shares of heads are, so a place in memory is told as area and offset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

enum { RANK_ISA_BYTES = 32 };

/* Before the weights are read. */
struct rank_setup {
    char isa[RANK_ISA_BYTES]; /* "" = auto */
    uint32_t device;          /* as kernels_options */
    uint32_t threads;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t kv_type;
    uint32_t weights; /* enum model_weights */
    uint32_t page_tokens;
    uint32_t tables_max;
    bool is_free;
};

enum rank_area { RANK_POOL, RANK_HOST, RANK_OPEN, RANK_AREAS };

/* When rank 0 has its pages. */
struct rank_memory {
    uint64_t bytes[RANK_AREAS];
    uint32_t sequences; /* of a batch, at most */
    uint64_t tables;    /* pages of all of them together, at most */
};

/* The weights are packed, the memory is there; or what is wrong. */
struct rank_answer {
    enum status status;
    char message[STATUS_MESSAGE_BYTES];
};

enum rank_kind { RANK_STEP, RANK_KV_COPY, RANK_PAGES_COPY };

struct rank_place {
    uint32_t area;
    uint64_t offset;
};

struct rank_message {
    enum rank_kind kind;
    /* RANK_STEP: then u32 arrays tokens, sequence, position [rows], logit_row [logit_rows], open_of
     * [rows] (has_open), order, shared [rows] (has_groups), pages of each table [sequences], and
     * the tables one behind another. */
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t layers;
    uint32_t sequences;
    bool has_open;
    bool has_groups;
    /* Copies: tokens, or pages, then from [count] and to [count]. */
    struct rank_place to;
    struct rank_place from;
    uint32_t count;
};
