/* rank_wire: the messages between rank 0 and the ranks that follow it, in this order.
 *
 * Owns:     nothing.
 * Thread:   –
 * Cost:     –
 * Not here: the writer (rank_lead), the reader (rank_follow), the sockets (kernels/ranks).
 *
 *   rank_setup ─► … rank_answer ◄─ rank_memory ─► … rank_answer ◄─ rank_message ─► rank_message ─►
 *
 * All are processes of one binary, so structs are sent as they are in memory. The layouts of all
 * ranks are alike, since their shares of heads are, so an address is sent as area and offset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

enum { RANK_ISA_BYTES = 32 };

/* Sent before the weights are read. */
struct rank_setup {
    char isa[RANK_ISA_BYTES]; /* "" = auto */
    uint32_t device;          /* as kernels_options */
    uint32_t threads;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t kv_type;
    uint32_t weights; /* enum model_weights */
    uint32_t context; /* tokens that are served */
    uint32_t page_tokens;
    uint32_t tables_max;
    bool is_free;
    bool has_whole_experts; /* as in engine_options */
};

enum rank_area { RANK_POOL, RANK_HOST, RANK_OPEN, RANK_AREAS };

/* Sent when rank 0 has its pages. */
struct rank_memory {
    uint64_t bytes[RANK_AREAS];
    uint32_t sequences; /* in a batch, at most */
    uint64_t tables;    /* pages of all sequences of a batch together, at most */
};

/* Says that the weights are packed, or that the memory is ready; or what went wrong. */
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
    /* RANK_STEP: followed by uint32_t arrays: tokens, sequence, position [rows]; logit_row
     * [logit_rows]; open_of [rows] if has_open; order, shared [rows] if has_groups; pages of each
     * table [sequences]; then the tables, one after the other. Where the layout has window units:
     * first page of each window table [sequences]; then for each window unit the entries of all
     * sequences from there on. */
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t layers;
    uint32_t sequences;
    bool has_open;
    bool has_groups;
    /* Copies: of `count` tokens, or of `count` pages, followed by from [count] and to [count]. */
    struct rank_place to;
    struct rank_place from;
    uint32_t count;
};
