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

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"
#include "config/store.h"

struct tenants;

enum tenant_state { TENANT_ACTIVE, TENANT_SUSPENDED, TENANT_ARCHIVED };
/* Whose cached prompts its requests find: its own; or those of all in its group that share with the
 * group, who find its own too. Without a group both mean the same. */
enum tenant_share { TENANT_SHARE_PRIVATE, TENANT_SHARE_GROUP };
const char *tenant_share_name(enum tenant_share share); /* "private", "group" */

struct tenant {
    char id[LIMIT_ID_BYTES]; /* "tnt_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    enum tenant_state state; /* only an active tenant's keys open anything */
    uint32_t weight;         /* 1 … LIMIT_WEIGHT, default 100 */
    int64_t created_at_s;
    int64_t revision;             /* 1, and one more with each change */
    char group[LIMIT_NAME_BYTES]; /* "" = none; else a name of tenant_group's */
    enum tenant_share share;
    uint32_t cache_share; /* of the cached pages, beside others': 1 … LIMIT_CACHE_SHARE */
    enum service_class default_class;       /* of a request that names none; not above the best */
    enum service_class best_class;          /* what a request may ask for at most */
    char models[LIMIT_TENANT_MODELS_BYTES]; /* that it may ask, each ended by '\n'; "" = all */
};

struct tenant_key {
    char id[LIMIT_ID_BYTES];        /* "key_" and the 12 public characters */
    char tenant_id[LIMIT_ID_BYTES]; /* "" for an admin key */
    char name[LIMIT_NAME_BYTES];
    char redacted[LIMIT_ID_BYTES];   /* "sk-by-AbC…xyz" */
    char rotated_to[LIMIT_ID_BYTES]; /* the key that took its place; "" = none */
    uint32_t scopes;                 /* enum auth_scope bits of its kind, at least one */
    int64_t created_at_s;
    int64_t expires_at_s;   /* 0 = never */
    int64_t revoked_at_s;   /* 0 = not */
    int64_t last_used_at_s; /* 0 = never; in the file up to LIMIT_USED_S later, no change of it */
    int64_t revision;
};

/* Who makes a change, for the audit row written in the same transaction. */
struct audit_actor {
    char key_id[LIMIT_ID_BYTES];
    char subject[LIMIT_SUBJECT_BYTES]; /* the person of a token, whose issuer is key_id; else "" */
    char peer[64];
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint32_t scopes; /* nobody gives an admin key more than these */
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

/* --- how a change is made --- */

/* A call that may be sent again: its first answer is kept, sealed, in the transaction of its change
 * for LIMIT_IDEMPOTENCY_S. */
struct tenant_request {
    char actor_key_id[LIMIT_ID_BYTES];
    char name[LIMIT_IDEMPOTENCY_KEY_BYTES + 1]; /* visible ASCII */
    uint8_t print[32];                          /* tenants_answer_print */
};

struct tenant_change {
    const struct audit_actor *actor;
    bool is_dry_run;       /* everything but the commit; no audit row, no memory */
    size_t revision_count; /* 0: of whatever revision, else CHANGED unless it is one of these */
    int64_t revisions[LIMIT_REVISIONS];
    /* Runs inside the transaction when `out` of the call is filled: the answer that the request is
     * given. A failure takes the change back. NULL: none. */
    enum status (*answer)(void *context, struct slice *out);
    void *context;
    const struct tenant_request *request; /* NULL: the answer is not kept */
    int answer_code;
    int64_t answer_revision; /* of the ETag; 0 means 1, the first revision of what is made */
};

/* --- tenants --- */

enum {
    TENANT_NAME = 1u << 0,
    TENANT_WEIGHT = 1u << 1,
    TENANT_STATE = 1u << 2,
    TENANT_METADATA = 1u << 3,
    TENANT_GROUP = 1u << 4,
    TENANT_SHARE = 1u << 5,
    TENANT_CACHE_SHARE = 1u << 6,
    TENANT_DEFAULT_CLASS = 1u << 7,
    TENANT_BEST_CLASS = 1u << 8,
    TENANT_MODELS = 1u << 9,
};
struct tenant_fields {
    unsigned given; /* TENANT_… bits: which of the others mean something */
    struct slice name;
    uint32_t weight;
    enum tenant_state state; /* not TENANT_ARCHIVED */
    struct slice metadata;   /* a JSON object as text, below LIMIT_METADATA_BYTES; the caller has
                              * checked its form */
    struct slice group;      /* may be empty */
    enum tenant_share share;
    uint32_t cache_share;
    enum service_class default_class;
    enum service_class best_class;
    struct slice models; /* as a tenant has them */
};

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

enum { TENANT_KEY_NAME = 1u << 0, TENANT_KEY_SCOPES = 1u << 1, TENANT_KEY_EXPIRES = 1u << 2 };
struct tenant_key_fields {
    unsigned given;
    struct slice name;
    uint32_t scopes;
    int64_t expires_at_s; /* 0 = never */
};
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

/* --- answers that are kept --- */

/* What makes two calls the same: a keyed print of method, path, who asks (of those that one
 * actor_key_id stands for; without line ends, "" = it is one) and body. */
enum status tenants_answer_print(struct tenants *tenants, struct slice method, struct slice path,
                                 struct slice who, struct slice body, uint8_t out[32]);
struct tenant_answer {
    struct buffer body; /* initialised by the caller; wipe it: it may hold a key's value */
    int code;
    int64_t revision;
};
/* NOT_FOUND: the call is new. REUSED: the name stands for another call. */
enum status tenants_answer_find(struct tenants *tenants, const struct tenant_request *request,
                                struct tenant_answer *out);

/* --- audit --- */

struct audit_row {
    int64_t id;
    int64_t at_us;
    char type[48]; /* "tenant.created", "key.rotated", … */
    char actor_key_id[LIMIT_ID_BYTES];
    char actor_subject[LIMIT_SUBJECT_BYTES];
    char peer[64];
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char subject[LIMIT_ID_BYTES];
    char detail[1024]; /* JSON: two names, each byte written as two, and figures */
};
/* Something else that an admin did: an audit row of its own, and no other change. `detail` is JSON.
 */
enum status tenants_audit_add(struct tenants *tenants, const struct tenant_change *change,
                              const char *type, struct slice subject, struct slice detail);
/* The id of the last audit row: rises with each change of anything in the file; 0 without any. */
enum status tenants_audit_last(struct tenants *tenants, int64_t *out);
/* Which rows are wanted; "" and 0: whatever they say. */
struct audit_filter {
    char actor_key_id[LIMIT_ID_BYTES];
    char subject[LIMIT_ID_BYTES];
    char type[48]; /* "tenant.created", or "tenant" for all that begin so */
    int64_t since_s;
    int64_t until_s; /* before it */
};
/* Up to `capacity` rows with ids above `after`, oldest first. */
enum status tenants_audit_list(struct tenants *tenants, const struct audit_filter *filter,
                               int64_t after, struct audit_row *out, size_t capacity, size_t *count,
                               bool *has_more);
