/* auth_refusals: the words of why a request was not let in, and how often each was.
 *
 * Owns:     nothing; the counts are auth's.
 * Thread:   any.
 * Cost:     an atomic addition.
 * Not here: answers (http_error), series (edge_metrics).
 *
 * One count for each request on either listener whose key or token did not open it. The reasons of
 * auth_jwt_reasons.def come first, so that 0 is no refusal and each reason is its own refusal.
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

/* Counts one that auth does not see itself. */
void auth_refused(struct auth *auth, enum auth_refusal refusal);
uint64_t auth_refused_count(const struct auth *auth, enum auth_refusal refusal);
