/* auth_token: authenticates by tokens of issuers (JWT, RFC 7519): the method and the check behind
 * it.
 *
 *   loop   ─ authenticate ─► known? ─ yes ─► principal, or why it is refused
 *                              └ no ─► auth_check on a thread that may wait, then again
 *
 * Owns:     the results of checks. A good token is remembered for LIMIT_TOKEN_S, but no longer than
 *           it is valid and its key and its issuer's rules stay the same; a bad one for
 *           LIMIT_TOKEN_BAD_S.
 * Thread:   any; a check takes up to a millisecond and may read a file.
 * Cost:     for a known token, one HMAC over it and a look-up: 1 to 4 µs.
 * Not here: the thread that checks and its queue (edge_proof), issuers (issuer).
 *
 * No message and no log line holds any part of a token; a refusal is logged by its word.
 */
#pragma once

#include "auth/identity/auth_method.h"

struct auth_tokens;

enum status auth_token_open(struct auth_tokens **out);
void auth_token_close(struct auth_tokens *tokens);

/* Whether the token's result is remembered, so that auth_token_authenticate can decide. */
bool auth_token_is_known(struct auth_method_context *context, struct slice credential);
/* Checks a token and remembers the result. Returns what auth_check returns; the error note has the
 * reason. */
enum status auth_token_check(struct auth_method_context *context, struct slice credential,
                             bool may_wait);
