/* tenant: tenants and their keys: the directory that authentication reads and admins change.
 *
 * Owns:     rows of the tables tenants, keys, audit and answers (config/store), and their index in
 *           memory.
 * Thread:   any; look-ups take a shared lock and never wait for a commit. A change waits for the
 *           ones before it and for its own commit: not for an event loop's thread.
 * Cost:     a look-up is O(1); a change is one committed transaction with its audit row.
 * Not here: HTTP shapes (gateway/admin), what a credential proves (auth).
 */
#pragma once

#include "auth/tenants/tenant_types.h"
#include "config/base/clock.h"
#include "config/store.h"

const char *tenant_share_name(enum tenant_share share); /* "private", "group" */

struct tenant_limits;

struct tenants_options {
    struct store *store;                /* outlives the directory */
    const uint8_t *pepper;              /* 32 bytes: keys the HMAC of stored secrets */
    const uint8_t *domain;              /* 32 bytes: keys the names that an engine may know */
    const struct clock *clock;          /* NULL = the system's */
    const struct tenant_limits *limits; /* quota_limits_hooks */
};

/* Loads all rows and computes the opaque names of all tenants and keys. */
enum status tenants_open(struct tenants **out, const struct tenants_options *options);
void tenants_close(struct tenants *tenants);

/* --- tenants --- */

/* A group that is not there is made with the tenant. EXISTS when the name is taken by one that is
 * not archived; INVALID or OUT_OF_RANGE with param, also when the default class would be above the
 * best. */
enum status tenants_create(struct tenants *tenants, const struct tenant_change *change,
                           const struct tenant_fields *fields, struct tenant *out);
/* NOT_FOUND; CONFLICT for an archived one; LIMIT for a group with which it would see more than
 * LIMIT_PROMPTS_VISIBLE published prompts. Fields that are as they were change nothing. */
enum status tenants_update(struct tenants *tenants, const struct tenant_change *change,
                           struct slice id, const struct tenant_fields *fields, struct tenant *out);
/* For ever: its keys open nothing, its name is free. Twice is fine. */
enum status tenants_archive(struct tenants *tenants, const struct tenant_change *change,
                            struct slice id, struct tenant *out);
enum status tenants_get(struct tenants *tenants, struct slice id, struct tenant *out);
/* Appends the JSON object; "{}" for nobody. */
void tenants_metadata(struct tenants *tenants, struct slice id, struct buffer *out);
bool tenant_allows_model(const struct tenant *tenant, struct slice model);
/* The JSON list of their names; "[]" means all. */
void tenant_models_append(const struct tenant *tenant, struct buffer *out);
/* Up to `capacity` tenants after id `after` ("" = from the start), oldest first. */
enum status tenants_list(struct tenants *tenants, struct slice after, struct tenant *out,
                         size_t capacity, size_t *count, bool *has_more);

/* Whether there is a group of this name (tenant_group). O(groups). */
bool tenants_has_group(struct tenants *tenants, struct slice group);

/* --- keys; `tenant_id` "" means the admins' --- */

enum { TENANT_OVERLAP_DEFAULT_S = 3600 };

/* `value` receives the key in full, this once ("" in a dry run). Without scopes a tenant's key gets
 * all of its kind. FORBIDDEN for scopes that the actor lacks. */
enum status tenants_key_create(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, const struct tenant_key_fields *fields,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES]);
/* CONFLICT for a revoked key, an archived tenant's, and for the last key with admin:keys that would
 * lose it. A rotated key may only end earlier. FORBIDDEN for scopes that the actor lacks: giving
 * them to an admin key, or a longer life to an admin key that has them. */
enum status tenants_key_update(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id,
                               const struct tenant_key_fields *fields, struct tenant_key *out);
/* A new key of the same name, scopes and length of life in `out` and `value`; the old one ends
 * after `overlap_s` seconds (below 0: TENANT_OVERLAP_DEFAULT_S, or what it has left when that is
 * less). CONFLICT for one that is revoked, expired or rotated already. */
enum status tenants_key_rotate(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, int64_t overlap_s,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES]);
/* From the moment this returns the key opens nothing; requests that run go on. Twice is fine. */
enum status tenants_key_revoke(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, struct tenant_key *out);
enum status tenants_key_get(struct tenants *tenants, struct slice tenant_id, struct slice key_id,
                            struct tenant_key *out);
enum status tenants_key_list(struct tenants *tenants, struct slice tenant_id, struct slice after,
                             struct tenant_key *out, size_t capacity, size_t *count,
                             bool *has_more);

/* Writes the last use of all keys that were used since, in batches, and forgets answers that are
 * too old. Called about every LIMIT_USED_S; what a failure leaves is written by the next call. */
enum status tenants_used_flush(struct tenants *tenants);

/* --- audit --- */

/* Something else that an admin did: an audit row of its own, and no other change. `detail` is JSON.
 */
enum status tenants_audit_add(struct tenants *tenants, const struct tenant_change *change,
                              const char *type, struct slice subject, struct slice detail);
/* The id of the last audit row: rises with each change of anything in the file; 0 without any. */
enum status tenants_audit_last(struct tenants *tenants, int64_t *out);
/* Up to `capacity` rows with ids above `after`, oldest first. */
enum status tenants_audit_list(struct tenants *tenants, const struct audit_filter *filter,
                               int64_t after, struct audit_row *out, size_t capacity, size_t *count,
                               bool *has_more);
