/* tenant: tenants and their keys: the directory that authentication reads and admins change.
 *
 * Owns:     rows of the tables tenants and keys (config/store), and their index in memory.
 * Thread:   any; look-ups take a shared lock, changes an exclusive one and one transaction.
 * Cost:     a look-up is O(1); a change is one committed transaction with its audit row.
 * Not here: HTTP shapes (gateway/admin), what a credential proves (auth).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/slice.h"
#include "config/store.h"

struct tenants;

enum tenant_state { TENANT_ACTIVE, TENANT_SUSPENDED, TENANT_ARCHIVED };

struct tenant {
    char id[LIMIT_ID_BYTES]; /* "tnt_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    enum tenant_state state;
    uint32_t weight; /* 1 … 1000, default 100 */
    int64_t created_at_s;
};

struct tenant_key {
    char id[LIMIT_ID_BYTES];        /* "key_" and the 12 public characters */
    char tenant_id[LIMIT_ID_BYTES]; /* "" for an admin key */
    char name[LIMIT_NAME_BYTES];
    char redacted[LIMIT_ID_BYTES]; /* "sk-by-AbC…xyz" */
    uint32_t scopes;               /* enum auth_scope bits; admin keys only */
    int64_t created_at_s;
    int64_t expires_at_s; /* 0 = never */
    int64_t revoked_at_s; /* 0 = not */
};

/* Who makes a change, for the audit row written in the same transaction. */
struct audit_actor {
    char key_id[LIMIT_ID_BYTES];
    char peer[64];
    char request_id[LIMIT_REQUEST_ID_BYTES];
};

struct tenants_options {
    struct store *store;       /* outlives the directory */
    const uint8_t *pepper;     /* 32 bytes: keys the HMAC of stored secrets */
    const uint8_t *domain;     /* 32 bytes: keys the names that an engine may know */
    const struct clock *clock; /* NULL = the system's */
};

/* Loads all rows and computes the opaque names of all tenants and keys. */
enum status tenants_open(struct tenants **out, const struct tenants_options *options);
void tenants_close(struct tenants *tenants);

/* EXISTS when the name is taken by one that is not archived; INVALID with param. */
enum status tenants_create(struct tenants *tenants, const struct audit_actor *actor,
                           struct slice name, uint32_t weight, struct tenant *out);
enum status tenants_get(struct tenants *tenants, struct slice id, struct tenant *out);
/* Up to `capacity` tenants after id `after` ("" = from the start), oldest first. */
enum status tenants_list(struct tenants *tenants, struct slice after, struct tenant *out,
                         size_t capacity, size_t *count, bool *has_more);

/* Makes a key; `value` receives it in full, this once. `tenant_id` "" makes an admin key. */
enum status tenants_key_create(struct tenants *tenants, const struct audit_actor *actor,
                               struct slice tenant_id, struct slice name, uint32_t scopes,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES]);
enum status tenants_key_list(struct tenants *tenants, struct slice tenant_id, struct slice after,
                             struct tenant_key *out, size_t capacity, size_t *count,
                             bool *has_more);
/* From the moment this returns the key opens nothing. NOT_FOUND; revoking twice is fine. */
enum status tenants_key_revoke(struct tenants *tenants, const struct audit_actor *actor,
                               struct slice tenant_id, struct slice key_id, struct tenant_key *out);

struct audit_row {
    int64_t id;
    int64_t at_us;
    char type[48]; /* "tenant.created", "key.created", "key.revoked" */
    char actor_key_id[LIMIT_ID_BYTES];
    char peer[64];
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char subject[LIMIT_ID_BYTES];
    char detail[512]; /* JSON */
};
enum status tenants_audit_list(struct tenants *tenants, int64_t after, struct audit_row *out,
                               size_t capacity, size_t *count, bool *has_more);
