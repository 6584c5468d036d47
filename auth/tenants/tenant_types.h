/* tenant_types: what a tenant, a key, a change and an audit row are.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: looking for them and changing them (tenant).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"

struct tenants;

enum tenant_state { TENANT_ACTIVE, TENANT_SUSPENDED, TENANT_ARCHIVED };
/* Whose cached prompts its requests find: its own; or those of all in its group that share with the
 * group, who find its own too. Without a group both mean the same. */
enum tenant_share { TENANT_SHARE_PRIVATE, TENANT_SHARE_GROUP };

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

/* Which rows are wanted; "" and 0: whatever they say. */
struct audit_filter {
    char actor_key_id[LIMIT_ID_BYTES];
    char subject[LIMIT_ID_BYTES];
    char type[48]; /* "tenant.created", or "tenant" for all that begin so */
    int64_t since_s;
    int64_t until_s; /* before it */
};
