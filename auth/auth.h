/* auth: turns a credential into a principal: who is calling and what they may do.
 *
 * Owns:     the list of methods (methods.def: API keys, tokens of issuers, client certificates),
 *           the pepper and the domain secret.
 * Thread:   any, except where a function says otherwise.
 * Cost:     an API key: one CRC, one look-up, one HMAC-SHA-256, well under 1 µs in all; a known
 *           token: an HMAC over it, 1 to 4 µs; a certificate: a look-up of its fingerprint, and one
 *           of each of its names.
 * Not here: HTTP headers (edge_credential), limits (quota).
 */
#pragma once

#include "auth/credential/auth_credential.h"
#include "auth/credential/auth_scope.h"
#include "auth/credential/principal.h"
#include "auth/tenants/tenant.h"

struct auth;
struct certificates;
struct issuers;

/* Reads the file `secrets` in `data_dir`, or makes it (mode 0600). CORRUPT when the file is missing
 * although the store holds keys, which no new secrets could open. Other failures are those of
 * auth_secrets_read and of the store. `store` must outlive the auth. */
enum status auth_open(struct auth **out, const char *data_dir, struct store *store);
void auth_close(struct auth *auth);
struct tenants *auth_tenants(struct auth *auth);
struct issuers *auth_issuers(struct auth *auth);
struct certificates *auth_certificates(struct auth *auth);

/* Makes many changes as one. auth_copy_begin gives a copy of tenants, issuers and certificates,
 * which the caller changes. auth_copy_end puts all changes into the file and into memory at once;
 * with `is_kept` false, or when it fails, nothing has changed. It frees the copy in any case. The
 * copy is for changing alone, not for authenticating, and for one thread; other changes wait
 * meanwhile. */
enum status auth_copy_begin(struct auth *auth, struct auth **copy);
enum status auth_copy_end(struct auth *auth, struct auth *copy, bool is_kept);

/* Authenticates a credential and fills in the principal. Failures, which are counted by reason
 * (auth_refusals):
 * - KEY_MISSING: the credential is empty.
 * - KEY_INVALID: it is malformed, unknown, revoked or expired, or it belongs to the other listener
 *   (`want_admin`). For an API key the message tells a typing error from the rest, and no more.
 * - FORBIDDEN: the tenant is suspended, or key and certificate must agree and do not.
 * - UNAVAILABLE: the token was not checked yet (auth_wants_check), or its issuer's keys could not
 *   be read yet. */
enum status auth_authenticate(struct auth *auth, const struct auth_credential *credential,
                              bool want_admin, struct principal *out);

/* The same, without counting refusals. For a request whose body is still on its way: it will be
 * authenticated again when it is complete. */
enum status auth_look(const struct auth *auth, const struct auth_credential *credential,
                      bool want_admin, struct principal *out);

/* Whether the credential is a token that must be checked first. Checking a signature takes too long
 * for an event loop, so auth_authenticate answers UNAVAILABLE for such a token. */
bool auth_wants_check(struct auth *auth, struct slice credential);
/* Checks a token, on a thread that may wait, and remembers the result for auth_authenticate for a
 * while. OK; KEY_INVALID; UNAVAILABLE when its issuer's keys could not be read yet. With
 * `may_wait`, BUSY when the issuer's keys are being fetched (issuer_fetch): check again when they
 * have come. */
enum status auth_check(struct auth *auth, struct slice credential, bool may_wait);

/* Fills in the key behind a principal as its owner sees it. For a token it has the issuer's name,
 * for a certificate its label. NOT_FOUND when it was deleted since. */
enum status auth_key_about(struct auth *auth, const struct principal *principal,
                           struct tenant_key *out);

/* Checks a principal again, later, perhaps on another thread, and updates its scopes: its key may
 * have been revoked or have lost scopes. KEY_INVALID or FORBIDDEN as above. */
enum status auth_refresh(struct auth *auth, struct principal *principal);

/* Finds the ids behind the opaque names in a final record, so that its row can be written, also
 * when the key was revoked or the tenant archived since. NOT_FOUND. O(1) for a key, O(tenants) for
 * tokens and certificates. */
enum status auth_find_account(struct auth *auth, const uint8_t tenant_hash[16],
                              const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                              char key_id[LIMIT_ID_BYTES]);

/* Makes a new admin key with all scopes and writes its value as one line into `admin.key` in
 * `data_dir` (mode 0600), replacing the old file. `peer` is what the audit says. For commands of
 * the operator, who owns the data directory. */
enum status auth_admin_key_make(struct auth *auth, const char *data_dir, struct slice name,
                                const char *peer, struct tenant_key *out);

/* Makes such a key when no open admin key has one of the admin scopes, as on the first start,
 * because then nobody could grant that scope. `made` tells whether it did. */
enum status auth_bootstrap(struct auth *auth, const char *data_dir, bool *made);
