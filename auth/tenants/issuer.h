/* issuer: who issues tokens (JWT) that open the tenants' API here, with which keys, and for whom.
 *
 * Owns:     rows of the table issuers (config/store), their keys in memory.
 * Thread:   any; looking takes a short lock and never waits for a commit, a change does
 *           (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; looking walks at most
 *           LIMIT_ISSUERS records.
 * Not here: HTTP shapes (gateway/admin), what a token proves (auth_token), keys (auth_jwks).
 *
 * Keys come with the issuer ("jwks"), kept sealed since a secret may be among them, or from a file
 * in D/jwks that is looked at once a minute and when a token names a key that is not known, or from
 * a URL (issuer_fetch). A file that cannot be read leaves the keys there were.
 *
 * An issuer may have a rule for admins beside: words of a claim stand for scopes of the config API.
 * Who changes such an issuer must have all of those scopes: whoever names its keys can make its
 * tokens.
 */
#pragma once

#include "auth/tenants/issuer_types.h"

/* Loads all rows; keys that cannot be read any more are logged, and their tokens refused.
 * `pepper` keys the seal of what is stored. */
enum status issuers_open(struct issuers **out, struct tenants *tenants, const uint8_t *pepper,
                         const char *data_dir);
void issuers_close(struct issuers *issuers);

/* INVALID, OUT_OF_RANGE or NOT_FOUND with param; EXISTS for a name or an iss that is taken; LIMIT
 * as CONFLICT; FORBIDDEN with the param admins when the actor lacks a scope of those before or
 * after. From the moment this returns its tokens are taken; keys of a URL come a moment later. */
enum status issuer_create(struct issuers *issuers, const struct tenant_change *change,
                          const struct issuer_fields *fields, struct issuer *out);
/* Tokens under a key that stays are not checked again; those under one that went are refused. */
enum status issuer_update(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, const struct issuer_fields *fields, struct issuer *out);
/* Its tokens open nothing from then on. NOT_FOUND, also the second time. */
enum status issuer_delete(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, struct issuer *out);
enum status issuer_get(struct issuers *issuers, struct slice id, struct issuer *out);
/* Up to `capacity` issuers after id `after` ("" = from the start), oldest first. */
enum status issuer_list(struct issuers *issuers, struct slice after, struct issuer *out,
                        size_t capacity, size_t *count, bool *has_more);

/* The object of `admins` as it was given. */
void issuer_append_admins(const struct issuer *issuer, struct buffer *out);
/* Appends the key set that came with the issuer; nothing when it has none, or when a secret is in
 * it. */
void issuer_append_keys(struct issuers *issuers, struct slice id, struct buffer *out);

/* Looks at all files of keys; reads disks. A change of them is logged. */
void issuers_refresh(struct issuers *issuers);
