/* tenant: the directory of tenants and their keys, which authentication reads and admins change.
 *
 * Owns:     rows of the tables tenants, keys, audit and answers (config/store), and their records
 *           in memory.
 * Thread:   any. A look-up takes a shared lock and never waits for a commit. A change waits for
 *           earlier changes and for its own commit, so it must not run on an event loop's thread.
 * Cost:     a look-up is O(1); a change is one committed transaction with its audit row.
 * Not here: HTTP and JSON (gateway/admin), authentication (auth).
 */
#pragma once

#include "auth/tenants/tenant_types.h"
#include "config/base/clock.h"
#include "config/store.h"

const char *tenant_share_name(enum tenant_share share); /* "private", "group" */

struct tenant_limits;

struct tenants_options {
    struct store *store;                /* must outlive the directory */
    const uint8_t *pepper;              /* 32 bytes: the key for the HMAC of stored keys */
    const uint8_t *domain;              /* 32 bytes: the key for names that an engine may know */
    const struct clock *clock;          /* NULL: the system's clock */
    const struct tenant_limits *limits; /* quota_limits_hooks */
};

/* Loads all rows and computes the opaque names of all tenants and keys. CORRUPT for a row out of
 * its bounds; NO_MEMORY; otherwise fails as the store does. */
enum status tenants_open(struct tenants **out, const struct tenants_options *options);
void tenants_close(struct tenants *tenants);

/* --- tenants --- */

/* Makes a tenant, and its group if that does not exist yet. EXISTS when a tenant that is not
 * archived has the name. INVALID or OUT_OF_RANGE with param, also when the default class is better
 * than the best class. */
enum status tenants_create(struct tenants *tenants, const struct tenant_change *change,
                           const struct tenant_fields *fields, struct tenant *out);
/* Changes the given fields; a field that has its old value changes nothing. NOT_FOUND; CONFLICT for
 * an archived tenant; LIMIT for a group with which the tenant would see more than
 * LIMIT_PROMPTS_VISIBLE published prompts. */
enum status tenants_update(struct tenants *tenants, const struct tenant_change *change,
                           struct slice id, const struct tenant_fields *fields, struct tenant *out);
/* Archives a tenant for ever: its keys open nothing, and its name is free. A second call changes
 * nothing. NOT_FOUND. */
enum status tenants_archive(struct tenants *tenants, const struct tenant_change *change,
                            struct slice id, struct tenant *out);
enum status tenants_get(struct tenants *tenants, struct slice id, struct tenant *out);
/* Appends the tenant's metadata as a JSON object; "{}" when there is no such tenant. */
void tenants_metadata(struct tenants *tenants, struct slice id, struct buffer *out);
/* Whether the tenant may use a model of that name. */
bool tenant_allows_model(const struct tenant *tenant, struct slice model);
/* Appends the JSON list of the models that the tenant may use; "[]" means all models. */
void tenant_models_append(const struct tenant *tenant, struct buffer *out);
/* Lists up to `capacity` tenants after id `after` ("": from the start), oldest first. */
enum status tenants_list(struct tenants *tenants, struct slice after, struct tenant *out,
                         size_t capacity, size_t *count, bool *has_more);

/* Whether there is a group of this name (tenant_group). O(groups). */
bool tenants_has_group(struct tenants *tenants, struct slice group);

/* --- keys; `tenant_id` "" means admin keys --- */

enum { TENANT_OVERLAP_DEFAULT_S = 3600 };

/* Makes a key. `value` receives the complete key, which is not stored ("" in a dry run). A tenant's
 * key without given scopes gets AUTH_SCOPES_TENANT. FORBIDDEN for scopes of an admin key that the
 * actor lacks; CONFLICT for an archived tenant, and for one key too many. */
enum status tenants_key_create(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, const struct tenant_key_fields *fields,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES]);
/* Changes a key. CONFLICT for a revoked key, for a key of an archived tenant, and when no other
 * open admin key that lasts as long would have a scope that this one loses. The expiry of a rotated
 * key can only be moved to an earlier time. FORBIDDEN when the actor lacks a scope that an admin
 * key is given, or that an admin key has whose life would be made longer. */
enum status tenants_key_update(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id,
                               const struct tenant_key_fields *fields, struct tenant_key *out);
/* Makes a new key with the name, scopes and length of life of the old one, in `out` and `value`.
 * The old key ends after `overlap_s` seconds; below 0 means TENANT_OVERLAP_DEFAULT_S, or the time
 * that it has left when that is less. CONFLICT when the old key is revoked, expired or rotated
 * already. FORBIDDEN for an admin key with scopes that the actor lacks. */
enum status tenants_key_rotate(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, int64_t overlap_s,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES]);
/* Revokes a key. Once this returns, the key opens nothing; running requests go on. A second call
 * changes nothing. */
enum status tenants_key_revoke(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, struct tenant_key *out);
enum status tenants_key_get(struct tenants *tenants, struct slice tenant_id, struct slice key_id,
                            struct tenant_key *out);
enum status tenants_key_list(struct tenants *tenants, struct slice tenant_id, struct slice after,
                             struct tenant_key *out, size_t capacity, size_t *count,
                             bool *has_more);

/* Writes the last use of all keys that were used since the last call, in batches, and deletes kept
 * answers that are too old. Call it about every LIMIT_USED_S. After a failure, the next call writes
 * the rest. */
enum status tenants_used_flush(struct tenants *tenants);

/* --- audit --- */

/* Adds an audit row for something that changes no record. `detail` is JSON. */
enum status tenants_audit_add(struct tenants *tenants, const struct tenant_change *change,
                              const char *type, struct slice subject, struct slice detail);
/* The id of the last audit row, which rises with each change of a record; 0 when there is none. */
enum status tenants_audit_last(struct tenants *tenants, int64_t *out);
/* Lists up to `capacity` audit rows with ids above `after`, oldest first. */
enum status tenants_audit_list(struct tenants *tenants, const struct audit_filter *filter,
                               int64_t after, struct audit_row *out, size_t capacity, size_t *count,
                               bool *has_more);
