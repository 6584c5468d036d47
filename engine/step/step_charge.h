/* step_charge: charges what is done for a request to its client, at the time it is done.
 *
 * Owns:     nothing; it writes accounts (scheduler_fair), reports and figures.
 * Thread:   engine thread only.
 * Cost:     O(1) a part; for a prompt that others follow O(clients of the followers).
 * Not here: prices and accounts (scheduler_fair), money and quotas (auth).
 */
#pragma once

#include "engine/step/step_state.h"

/* A request comes and goes; in between ticket->client is its account. */
void step_charge_enter(struct step *step, uint32_t slot);
void step_charge_leave(struct step *step, uint32_t slot);

/* Charges what a choice has found in the cache at its first lookup. */
void step_charge_found(struct step *step, struct sequence *sequence);
/* Rows [from, end) of a sequence were computed. Prompt rows are divided among the clients that wait
 * for them. Rows computed again after a preemption are charged to nobody. Generated tokens are
 * charged by step_charge_token. */
void step_charge_rows(struct step *step, struct sequence *sequence, uint32_t from, uint32_t end);
/* Work of sampling the next token of a request after `generated` tokens (sampler_work). */
double step_charge_work(const struct step *step, uint32_t slot, uint32_t generated);
/* Charges one generated token, and the work of sampling it. */
void step_charge_token(struct step *step, const struct sequence *sequence);
/* Charges the rows of `drafts` draft tokens. A negative number takes the charge of accepted ones
 * back, which are charged as tokens instead. */
void step_charge_drafts(struct step *step, const struct sequence *sequence, int32_t drafts);
/* Charges each sequence for the units of KV memory that it holds during a step. */
void step_charge_pages(struct step *step);

/* In this step a request of `client` waits for the prompt that the sequence `leader` computes. */
void step_charge_follow(struct step *step, uint32_t leader, uint32_t client);
