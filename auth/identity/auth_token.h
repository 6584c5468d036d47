/* auth_token: tokens of issuers (JWT): the method that asks for them, and the check behind it.
 *
 *   loop   ─ authenticate ─► known? ─ yes ─► principal, or why it is refused
 *                              └ no ─► auth_check on a thread that may wait, then again
 *
 * Owns:     what is known of tokens: the good ones for LIMIT_TOKEN_S, no longer than they are
 *           valid and their key and its issuer's rules stay; the bad ones for LIMIT_TOKEN_BAD_S.
 * Thread:   any; a check takes up to a millisecond and may read a file.
 * Cost:     of a known token one HMAC over it and a look-up: 1 to 4 µs.
 * Not here: which thread checks, how many may wait (edge_proof), issuers (issuer).
 *
 * Nothing of a token is in a message or in the log; refusals are logged by their word.
 */
#pragma once

#include "auth/identity/auth_method.h"

struct auth_tokens;

enum status auth_token_open(struct auth_tokens **out);
void auth_token_close(struct auth_tokens *tokens);

/* Whether auth_token_authenticate would know an answer. */
bool auth_token_is_known(struct auth_method_context *context, struct slice credential);
/* Finds out, and keeps it. As auth_check; the reason is in the note. */
enum status auth_token_check(struct auth_method_context *context, struct slice credential,
                             bool may_wait);
