/* issuer: the issuers whose tokens (JWT) are accepted: their keys, their rules, their tenants.
 *
 * Owns:     rows of the table issuers (config/store), their keys in memory.
 * Thread:   any. A look-up takes a short lock and never waits for a commit; a change waits
 *           (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; a look-up walks at most
 *           LIMIT_ISSUERS records.
 * Not here: HTTP and JSON (gateway/admin), checking a token (auth_token), keys (auth_jwks).
 *
 * An issuer's keys have one of three sources: a key set that is given with the issuer ("jwks"),
 * which is kept sealed because it may contain a secret; a file in the folder `jwks` of the data
 * directory, which is looked at once a minute and when a token names an unknown key; or a URL
 * (issuer_fetch). When a file cannot be read, the old keys stay.
 *
 * An issuer may also have a table for admins, in which words of a claim stand for scopes of the
 * config API. The actor that changes such an issuer must have all of those scopes, because whoever
 * sets the keys of an issuer can make its tokens.
 */
#pragma once

#include "auth/tenants/issuer_types.h"

/* Loads all rows. The key for sealing is derived from `pepper`. An issuer whose key set or file is
 * invalid is loaded without keys: its tokens are refused, and a warning says why. CORRUPT when a
 * sealed key set cannot be opened, for example because `pepper` is another one. */
enum status issuers_open(struct issuers **out, struct tenants *tenants, const uint8_t *pepper,
                         const char *data_dir);
void issuers_close(struct issuers *issuers);

/* Makes an issuer. Once this returns, its tokens are accepted; the keys of a URL come a moment
 * later. It fails with:
 *
 *   INVALID, OUT_OF_RANGE   a field is wrong; the param names it
 *   NOT_FOUND               the table of tenants names an unknown tenant (with param)
 *   EXISTS                  another issuer has the name or the iss (with param)
 *   CONFLICT                there are LIMIT_ISSUERS issuers, or the table of tenants names an
 *                           archived tenant
 *   FORBIDDEN               the actor lacks a scope of the table of admins (param "admins") */
enum status issuer_create(struct issuers *issuers, const struct tenant_change *change,
                          const struct issuer_fields *fields, struct issuer *out);
/* Changes an issuer. Fails as issuer_create does, and with NOT_FOUND for an unknown issuer.
 * FORBIDDEN also when the actor lacks a scope of the old table of admins. Tokens of a key that was
 * removed are refused at once. */
enum status issuer_update(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, const struct issuer_fields *fields, struct issuer *out);
/* Deletes an issuer. Once this returns, its tokens are refused. NOT_FOUND for an unknown issuer,
 * also on a second call. */
enum status issuer_delete(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, struct issuer *out);
enum status issuer_get(struct issuers *issuers, struct slice id, struct issuer *out);
/* Lists up to `capacity` issuers after id `after` ("": from the start), oldest first. */
enum status issuer_list(struct issuers *issuers, struct slice after, struct issuer *out,
                        size_t capacity, size_t *count, bool *has_more);

/* Appends the issuer's `admins` as a JSON object. */
void issuer_append_admins(const struct issuer *issuer, struct buffer *out);
/* Appends the key set that was given with the issuer. Appends nothing when no set was given, or
 * when the set contains a secret. */
void issuer_append_keys(struct issuers *issuers, struct slice id, struct buffer *out);

/* Reads the files of all issuers again, and logs changes. It waits for the disk. */
void issuers_refresh(struct issuers *issuers);
