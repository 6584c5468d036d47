/* rank_lead: rank 0 of a model that several processes compute tells the other ranks what to
 * compute.
 *
 * Owns:     the order of its messages: batches, and copies of pages, as the engine asks for them.
 * Thread:   rank_lead_open on the thread that opens the engine; then the engine thread.
 * Cost:     a batch is some hundred bytes and its page tables, written to each rank.
 * Not here: what the other ranks do with it (rank_follow), their sums (kernels/ranks).
 */
#pragma once

#include "engine/models/model.h"
#include "engine/ranks/rank_wire.h"

struct ranks;
struct rank_lead;

/* Sends `setup`; the other ranks then read their weights while rank 0 reads its own. */
enum status rank_lead_open(struct rank_lead **out, struct ranks *ranks,
                           const struct rank_setup *setup);

/* Memory of rank 0 of which every other rank has as much: NULL and 0 for an area that
 * is not used. */
struct rank_areas {
    const void *memory[RANK_AREAS];
    uint64_t bytes[RANK_AREAS];
};

/* Waits until the other ranks have their weights and memory; fails when one of them does. From then
 * on they are told batches of `model` and copies between the areas. */
enum status rank_lead_begin(struct rank_lead *lead, struct kernels *kernels, struct model *model,
                            const struct rank_areas *areas, uint32_t sequences, uint64_t tables);

/* Ends the messages. Call it before model and kernels are freed. NULL does nothing. */
void rank_lead_close(struct rank_lead *lead);
