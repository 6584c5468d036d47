/* auth_refusals: the reasons for which a credential is refused, and how often each occurred.
 *
 * Owns:     nothing; auth owns the counts.
 * Thread:   any.
 * Cost:     an atomic addition.
 * Not here: answers to clients (http_error), metrics (edge_metrics).
 *
 * Each request on either listener whose credential is refused is counted once. The reasons of
 * auth_jwt_reasons.def come first, with the same values as in enum auth_jwt_reason; 0 is no
 * refusal.
 */
#pragma once

#include <stdint.h>

struct auth;

enum auth_refusal {
#define AUTH_JWT_REASON(name, word, text) AUTH_REFUSAL_TOKEN_##name,
#include "auth/credential/auth_jwt_reasons.def"
#undef AUTH_JWT_REASON
#define AUTH_REFUSAL(name, method, word) AUTH_REFUSAL_##name,
#include "auth/identity/auth_refusals.def"
#undef AUTH_REFUSAL
    AUTH_REFUSALS
};

const char *auth_refusals_method(enum auth_refusal refusal); /* "token" */
const char *auth_refusals_word(enum auth_refusal refusal);   /* "exp" */

/* Counts a refusal that happens outside auth, for example when the queue of tokens that are to be
 * checked is full. */
void auth_refused(struct auth *auth, enum auth_refusal refusal);
/* Returns how often the refusal has occurred since auth_open. */
uint64_t auth_refused_count(const struct auth *auth, enum auth_refusal refusal);
