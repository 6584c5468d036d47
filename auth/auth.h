/* auth: a credential → who is calling and what they may do.
 *
 * Owns:     the list of methods (methods.def: API keys, tokens of issuers, certificates), the
 *           pepper and the domain secret, the scopes' words.
 * Thread:   any.
 * Cost:     an API key: one CRC, one look-up, one HMAC-SHA-256 (well under 1 µs in all); a token
 *           that is known: an HMAC over all of it, 1 to 4 µs; a certificate: a look-up for its
 *           fingerprint and one for each of its names.
 * Not here: HTTP headers (edge, admin), quotas (quota).
 */
#pragma once

#include "auth/credential/auth_credential.h"
#include "auth/credential/auth_scope.h"
#include "auth/credential/principal.h"
#include "auth/tenants/tenant.h"

struct auth;
struct certificates;
struct issuers;

/* Makes or reads D/secrets (0600). CORRUPT when the file is gone though the store holds keys: new
 * secrets would make every one of them worthless. The store outlives the auth. */
enum status auth_open(struct auth **out, const char *data_dir, struct store *store);
void auth_close(struct auth *auth);
struct tenants *auth_tenants(struct auth *auth);
struct issuers *auth_issuers(struct auth *auth);
struct certificates *auth_certificates(struct auth *auth);

/* Many changes as one: `*copy` has tenants and issuers of its own, which changes may be made to;
 * with auth_copy_end they are all there at once, in the file and in memory, or (`is_kept` false, or
 * it fails) nothing has happened. For auth_tenants and auth_issuers alone, on one thread; other
 * changes wait meanwhile. */
enum status auth_copy_begin(struct auth *auth, struct auth **copy);
enum status auth_copy_end(struct auth *auth, struct auth *copy, bool is_kept);

/* KEY_MISSING for an empty credential; KEY_INVALID for every other reason (check digits wrong,
 * unknown, revoked, expired: the message tells a typo from the rest, and no more). FORBIDDEN when
 * the tenant is suspended, or when text and certificate do not agree and must. An admin's key or
 * certificate never opens the tenants' face, nor the other way. */
enum status auth_authenticate(struct auth *auth, const struct auth_credential *credential,
                              bool want_admin, struct principal *out);

/* The same, of a request whose body is still on its way and which will be authenticated when it is
 * whole: no refusal is counted. */
enum status auth_look(const struct auth *auth, const struct auth_credential *credential,
                      bool want_admin, struct principal *out);

/* A token that was not seen lately is UNAVAILABLE to auth_authenticate: its signature takes too
 * long for an event loop. Whether a credential is one; then auth_check, on a thread that may
 * wait, finds out what it proves (KEY_INVALID, UNAVAILABLE when its issuer's keys could never be
 * read, or OK), and auth_authenticate knows it for a while. With `may_wait` BUSY: the issuer's
 * keys are being fetched (issuer_fetch); ask again when they have come. */
bool auth_wants_check(struct auth *auth, struct slice credential);
enum status auth_check(struct auth *auth, struct slice credential, bool may_wait);

/* The key behind a principal as its owner sees it; of a token the issuer's name, of a certificate
 * its label; and its scopes. */
enum status auth_key_about(struct auth *auth, const struct principal *principal,
                           struct tenant_key *out);

/* A principal again, later, on another thread: its key may have been revoked or have lost scopes
 * since it was authenticated. KEY_INVALID or FORBIDDEN as above. */
enum status auth_refresh(struct auth *auth, struct principal *principal);

/* Whose names these are: a final record's row is written under the ids, also when the key has been
 * revoked or the tenant archived since. NOT_FOUND; O(1) for a key, O(tenants) for others. */
enum status auth_find_account(struct auth *auth, const uint8_t tenant_hash[16],
                              const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                              char key_id[LIMIT_ID_BYTES]);

/* A new admin key of all scopes; its value and a line's end in D/admin.key (0600), in place of what
 * was there. The audit says `peer`. For who has the data directory. */
enum status auth_admin_key_make(struct auth *auth, const char *data_dir, struct slice name,
                                const char *peer, struct tenant_key *out);

/* Makes such a key when there is an admin scope that no open key has, as on the first start: nobody
 * could give that scope to anybody. `made` tells if it did. */
enum status auth_bootstrap(struct auth *auth, const char *data_dir, bool *made);
