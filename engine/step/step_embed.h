/* step_embed: makes one vector of the states of a text's rows.
 *
 * Owns:     sums over the rows of running sequences, the vector that is told.
 * Thread:   engine thread only.
 * Cost:     O(width) for a row; no allocation after step_embed_init. On a device, one copy of the
 *           step's states to host memory in steps that embed.
 * Not here: the states (engine/models), which rows are wanted (sequence_logits_from).
 *
 * A mean is a left fold over positions in float32, so chunks, preemption and neighbours change no
 * bit. Rows that are computed again after a preemption are not added again (sequence.scored).
 */
#pragma once

#include "engine/step/step_state.h"

/* Does nothing without pooling. NO_MEMORY. */
enum status step_embed_init(struct step *step);
void step_embed_deinit(struct step *step);

/* After the forward pass of a batch of `parts` parts: makes the states of its rows readable, if a
 * part is embedded. UNAVAILABLE when the device has failed. */
enum status step_embed_read(struct step *step, uint32_t parts);
/* Takes the states of logit row `row`, which is the token at `position` of a sequence. The rows of
 * a sequence come in order. */
void step_embed_row(struct step *step, uint32_t index, uint32_t position, uint32_t row);
/* Emits the vector of a sequence whose last row was taken, with the length 1 if they have that. */
void step_embed_tell(struct step *step, uint32_t index);
