/* kv_open: the open groups of sequences and of a step, for types of KV that pack keys.
 *
 * Owns:     their memory, beside the pool; which group of a sequence lies where.
 * Thread:   engine thread only.
 * Cost:     O(rows) a step; no allocation after kv_open_init.
 * Not here: what lies inside (kernels), that a sequence begins or goes on where a group does
 *           (step_pause, prefix_cache: nobody keeps or copies a part of a group).
 *
 *     memory  [place 0: two groups][place 1: two groups] … [groups in the middle of chunks]
 *
 * The first group that a sequence's rows are in goes on in one of its two, the last one lies in the
 * other. Rows of guesses cross at most one group's end: whether they were true or not, the group
 * that the next step goes on with is one of the two. Groups between are full when the step is over.
 */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

struct kv_open_place {
    uint64_t serial;   /* of the sequence that both are of */
    uint32_t group[2]; /* number of the group in its sequence that lies there */
};

struct kv_open {
    struct kernels *kernels;
    void *memory; /* NULL for a type without open groups */
    struct kv_open_place *places;
    uint32_t places_count;
    uint32_t groups; /* of 16 tokens; in the middle of chunks, all of a step together */
    uint32_t groups_used;
};

/* For `places` sequences and steps of `rows_max` rows. NO_MEMORY. */
enum status kv_open_init(struct kv_open *open, struct kernels *kernels,
                         const struct kv_layout *layout, uint32_t places, uint32_t rows_max);
void kv_open_deinit(struct kv_open *open);
/* Of its memory. */
size_t kv_open_bytes(const struct kv_open *open, const struct kv_layout *layout);

/* The groups of the step before are forgotten but for those that lie at places. */
void kv_open_begin(struct kv_open *open);
/* Where rows at positions first, first + 1, … of sequence `serial` at `place` find their own group.
 * Asserts that they go on with a group in which the sequence's own rows are, or begin one: nobody
 * reads what another sequence has left at the place. */
void kv_open_find(struct kv_open *open, uint32_t place, uint64_t serial, uint32_t first,
                  uint32_t rows, uint32_t *open_of);
