/* tenant_types: the structures of a tenant, a key, a change and an audit row.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing them (tenant).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"

struct tenants;

enum tenant_state { TENANT_ACTIVE, TENANT_SUSPENDED, TENANT_ARCHIVED };
/* Which cached prompts a tenant's requests find. PRIVATE: the tenant's own. GROUP: those of all
 * tenants of its group that share with the group, and these find the tenant's in turn. Without a
 * group both mean the same. */
enum tenant_share { TENANT_SHARE_PRIVATE, TENANT_SHARE_GROUP };

struct tenant {
    char id[LIMIT_ID_BYTES]; /* "tnt_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    enum tenant_state state; /* only an active tenant's keys open anything */
    uint32_t weight;         /* 1 … LIMIT_WEIGHT, default 100 */
    int64_t created_at_s;
    int64_t revision;             /* 1, and one more with each change */
    char group[LIMIT_NAME_BYTES]; /* the name of a group (tenant_group); "": none */
    enum tenant_share share;
    uint32_t cache_share; /* weight for its part of the cached pages: 1 … LIMIT_CACHE_SHARE */
    enum service_class default_class; /* of a request that names none; not better than best_class */
    enum service_class best_class;    /* the best class that a request may have */
    char models[LIMIT_TENANT_MODELS_BYTES]; /* that it may use, each ended by '\n'; "": all */
};

struct tenant_key {
    char id[LIMIT_ID_BYTES];        /* "key_" and the 12 public characters */
    char tenant_id[LIMIT_ID_BYTES]; /* "" for an admin key */
    char name[LIMIT_NAME_BYTES];
    char redacted[LIMIT_ID_BYTES];   /* "sk-by-AbC…xyz" */
    char rotated_to[LIMIT_ID_BYTES]; /* the key that replaces it; "": none */
    uint32_t scopes;                 /* enum auth_scope bits of its kind, at least one */
    int64_t created_at_s;
    int64_t expires_at_s;   /* 0: never */
    int64_t revoked_at_s;   /* 0: it is not revoked */
    int64_t last_used_at_s; /* 0: never; written up to LIMIT_USED_S later, without a new revision */
    int64_t revision;
};

/* Who makes a change, for the audit row in the same transaction. */
struct audit_actor {
    char key_id[LIMIT_ID_BYTES];
    char subject[LIMIT_SUBJECT_BYTES]; /* "sub" of a token, whose issuer is key_id; else "" */
    char peer[64];
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint32_t scopes; /* the actor can give an admin key no others */
};

/* A call with an idempotency key, which may be repeated: its answer is kept for
 * LIMIT_IDEMPOTENCY_S, sealed, in the transaction of its change. */
struct tenant_request {
    char actor_key_id[LIMIT_ID_BYTES];
    char name[LIMIT_IDEMPOTENCY_KEY_BYTES + 1]; /* visible ASCII */
    uint8_t print[32];                          /* tenants_answer_print */
};

struct tenant_change {
    const struct audit_actor *actor;
    bool is_dry_run;       /* checks and does everything, then rolls back */
    size_t revision_count; /* 0: changes any revision; else CHANGED unless it is one of these */
    int64_t revisions[LIMIT_REVISIONS];
    /* Makes the answer of the call, inside the transaction, after the call has filled in its
     * result. A failure rolls the change back. NULL: no answer is made. */
    enum status (*answer)(void *context, struct slice *out);
    void *context;
    const struct tenant_request *request; /* NULL: the answer is not kept */
    int answer_code;
    int64_t answer_revision; /* the revision for the ETag; 0 means 1, that of a new record */
};

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
    unsigned given; /* TENANT_… bits: the members that are given */
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

enum { TENANT_KEY_NAME = 1u << 0, TENANT_KEY_SCOPES = 1u << 1, TENANT_KEY_EXPIRES = 1u << 2 };
struct tenant_key_fields {
    unsigned given;
    struct slice name;
    uint32_t scopes;
    int64_t expires_at_s; /* 0 = never */
};

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

/* Which rows are wanted; "" and 0 select all. */
struct audit_filter {
    char actor_key_id[LIMIT_ID_BYTES];
    char subject[LIMIT_ID_BYTES];
    char type[48]; /* "tenant.created", or "tenant" for all that begin so */
    int64_t since_s;
    int64_t until_s; /* before it */
};
