/* step_charge: what is done for a request is charged to its client, when it is done.
 *
 * Owns:     nothing; it writes accounts (scheduler_fair), reports and figures.
 * Thread:   engine thread only.
 * Cost:     O(1) a part; rows of a prompt that others follow O(followers' tenants).
 * Not here: prices and accounts (scheduler_fair), money and quotas (auth).
 */
#pragma once

#include "engine/step/step_state.h"

/* The request comes in and goes; between the two it has an account. */
void step_charge_enter(struct step *step, uint32_t slot);
void step_charge_leave(struct step *step, uint32_t slot);

/* At its first look into the cache a choice has found so much. */
void step_charge_found(struct step *step, struct sequence *sequence);
/* Rows [from, end) of its text were computed: those of its prompt are divided among all tenants
 * that wait for them; those computed before, until others took their pages, are nobody's. */
void step_charge_rows(struct step *step, struct sequence *sequence, uint32_t from, uint32_t end);
/* What a token of a request takes to draw, after so many (sampler_work). */
double step_charge_work(const struct step *step, uint32_t slot, uint32_t generated);
/* One token was generated: the more it took to draw, the more is charged. */
void step_charge_token(struct step *step, const struct sequence *sequence);
/* So many of its guesses were computed; < 0: were right, and are charged as tokens. */
void step_charge_drafts(struct step *step, const struct sequence *sequence, int32_t guesses);
/* Pages held during a step, of everybody. */
void step_charge_pages(struct step *step);

/* In this step a client's request waits for what a sequence computes. */
void step_charge_follow(struct step *step, uint32_t leader, uint32_t client);
