/* rank_lead: rank 0 of a model that several processes compute tells the others what to compute.
 *
 * Owns:     the order of what it tells: batches, and copies of pages, as the engine asks for them.
 * Thread:   rank_lead_open where the engine is opened; then the engine thread.
 * Cost:     a batch is some hundred bytes and its page tables, written to each rank.
 * Not here: what the others do with it (rank_follow), their meetings within it (kernels/ranks).
 */
#pragma once

#include "engine/models/model.h"
#include "engine/ranks/rank_wire.h"

struct ranks;
struct rank_lead;

/* Tells `setup`, from when on the others read their weights beside rank 0. */
enum status rank_lead_open(struct rank_lead **out, struct ranks *ranks,
                           const struct rank_setup *setup);

/* Where rank 0 has what the others shall have as much of: NULL and 0, where it has none. */
struct rank_areas {
    const void *memory[RANK_AREAS];
    uint64_t bytes[RANK_AREAS];
};

/* Waits until the others have weights and memory; their failure is this one's. From then on batches
 * of `model` and copies between the areas are told. */
enum status rank_lead_begin(struct rank_lead *lead, struct kernels *kernels, struct model *model,
                            const struct rank_areas *areas, uint32_t sequences, uint64_t tables);

/* Nothing is told any more; before model and kernels go. NULL is fine. */
void rank_lead_close(struct rank_lead *lead);
