/* kv_open: the open groups of sequences and of a step, for KV types that pack keys by groups.
 *
 * Owns:     their memory, beside the pool; the record of which group of a sequence is where.
 * Thread:   engine thread only.
 * Cost:     O(rows) a step; no allocation after kv_open_init.
 * Not here: the content of a group (kernels); that a sequence begins or goes on at a group's start
 *           (step_pause, prefix_cache: a part of a group is never kept or copied).
 *
 *     memory  [slot 0: two groups][slot 1: two groups] … [groups in the middle of chunks]
 *
 * The first group that a sequence's rows are in continues in one of its two open groups; the last
 * group is in the other one. Draft rows cross the end of at most one group: whether or not they are
 * accepted, the group that the next step continues is one of the two. The groups in between are
 * full at the end of the step.
 */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

struct kv_open_place {
    uint64_t serial;   /* of the sequence that both groups belong to */
    uint32_t group[2]; /* which group of the sequence is there, counted from its start */
};

struct kv_open {
    struct kernels *kernels;
    void *memory;                 /* NULL for a type without open groups */
    struct kv_open_place *places; /* [places_count] slots of sequences */
    uint32_t places_count;
    uint32_t groups; /* of 16 tokens, for the middle of chunks of all sequences in a step */
    uint32_t groups_used;
};

/* Makes room for `places` sequence slots and steps of `rows_max` rows. NO_MEMORY. */
enum status kv_open_init(struct kv_open *open, struct kernels *kernels,
                         const struct kv_layout *layout, uint32_t places, uint32_t rows_max);
void kv_open_deinit(struct kv_open *open);
/* Bytes of its memory. */
size_t kv_open_bytes(const struct kv_open *open, const struct kv_layout *layout);

/* Begins a step: forgets the groups in the middle of chunks, which are full. */
void kv_open_begin(struct kv_open *open);
/* Sets open_of[i] to the open group of the row at position first + i of sequence `serial` in slot
 * `place`. Asserts that the rows continue an open group of the same sequence or begin a new one, so
 * that no sequence reads what another has left in the slot. */
void kv_open_find(struct kv_open *open, uint32_t place, uint64_t serial, uint32_t first,
                  uint32_t rows, uint32_t *open_of);
