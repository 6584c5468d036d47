/* tenant_records: the records of the directory of tenants, and their opaque names.
 *
 *   first ─► tenant ─► tenant ─► …        in the order in which they were made
 *              └─ keys.first ─► key ─► key ─► …
 *   admin.first ─► key ─► …
 *   used ─► key ─► key ─► …               used since the last flush, newest first
 *
 * Owns:     nothing. tenant.c opens the directory, tenant_directory fills it.
 * Thread:   a change holds `change` from its checks until it is in memory. It holds `memory` for
 *           writing only while readers could see half of the change.
 * Cost:     an opaque name is one HMAC.
 * Not here: making, finding and adding records (tenant_directory).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_index.h"
#include "auth/tenants/tenant_rows.h"
#include "auth/tenants/tenant_types.h"
#include "config/base/clock.h"
#include "config/store.h"

struct tenant_view {
    uint8_t group[16]; /* its group's domain */
    bool has_group;
    uint32_t published_count;
    uint8_t (*published)[16]; /* NULL when there are none */
};

struct tenant_view_row {
    uint8_t who[16]; /* the tenant's own domain, or the group's name */
    uint8_t domain[16];
};

struct quota_key_record;
struct quota_plan_record;
struct quota_tenant;
struct tenant_group_record;
struct tenant_prompt_record;
struct tenant_limits;
struct tenant_record;

struct tenant_key_record {
    struct tenant_rows_key row;   /* its last_used_at_s is what the database had at the start */
    uint8_t name[16];             /* HMAC(domain secret, "key:" id); zeros for an admin key */
    struct tenant_record *tenant; /* NULL: an admin key */
    struct tenant_key_record *next;
    _Atomic int64_t used_at_s;
    atomic_bool is_used; /* it is in the list `used` */
    struct tenant_key_record *used_next;
};

struct tenant_key_list {
    struct tenant_key_record *first;
    struct tenant_key_record *last;
};

struct tenant_record {
    struct tenant tenant;
    char *metadata;     /* JSON; NULL = {} */
    uint8_t name[16];   /* HMAC(domain secret, "tenant:" id) */
    uint8_t domain[16]; /* HMAC(domain secret, "domain:" id) */
    struct tenant_view view;
    struct quota_tenant *limits;    /* its own limits (quota_limits.c); NULL = never set */
    struct quota_plan_record *plan; /* the plan that `limits` names; NULL = none */
    struct tenant_key_list keys;
    struct tenant_record *next;
};

struct tenants {
    struct store *store;
    const struct clock *clock;
    const struct tenant_limits *limits; /* the functions of auth/limits that the directory calls */
    uint8_t pepper[AUTH_CRYPTO_BYTES];
    uint8_t domain[AUTH_CRYPTO_BYTES];
    uint8_t answers[AUTH_CRYPTO_BYTES]; /* the key for kept answers: prints of calls, seals */
    bool is_uncommitted;                /* a copy (tenant_copy.c) whose transaction is open */
    pthread_mutex_t change;
    pthread_rwlock_t memory; /* guards all below; a writer holds `change` too */
    /* tenant_copy swaps the members from here to limits_generation. */
    struct auth_index by_id;
    struct auth_index keys_by_id;
    struct auth_index keys_by_name; /* tenants' keys only */
    struct tenant_record *first;
    struct tenant_record *last;
    struct tenant_key_list admin;
    struct tenant_view_row *grants; /* grants of prompts that are in use now; guarded by `change` */
    size_t grant_count;
    struct tenant_prompt_record *prompts;     /* oldest first; tenant_prompt.c's */
    struct tenant_group_record *groups;       /* oldest first; tenant_group.c's */
    struct tenant_group_record *groups_last;  /* … */
    struct auth_index groups_by_id;           /* … */
    struct auth_index groups_by_name;         /* … */
    struct quota_plan_record *plans;          /* oldest first; quota_limits.c's */
    struct quota_key_record *key_limits;      /* quota_limits_key.c's */
    struct auth_index limits_by_key;          /* … */
    struct price_book *prices;                /* price.c's; NULL: none were ever made */
    _Atomic uint64_t limits_generation;       /* no lock */
    atomic_bool has_key_limits;               /* no lock */
    atomic_bool has_prices;                   /* no lock */
    _Atomic(struct tenant_key_record *) used; /* no lock */
};

/* Computes an opaque name: the first 16 bytes of HMAC(domain secret, kind text). A kind ends with a
 * colon: "tenant:", "key:", "domain:", "prompt:", "group:" (of a group's name, for grants) and
 * "members:" (of a group's id, for the domain that its members share). */
enum status tenant_records_name(const struct tenants *tenants, const char *kind, const char *text,
                                uint8_t out[16]);
