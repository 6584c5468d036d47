/* tenant_directory: the records in memory behind struct tenants, and the locks around them.
 *
 *   first ─► tenant ─► tenant ─► …        in the order in which they were made
 *              └─ keys.first ─► key ─► key ─► …
 *   admin.first ─► key ─► …
 *   used ─► key ─► key ─► …               used since the last flush, newest first
 *
 * Owns:     records, which live as long as the directory and are never moved, and three indexes.
 * Thread:   as said at each function. `change` is held from a change's checks to its place in
 *           memory; `memory` only for the moment in which readers could see half of it.
 * Cost:     O(1) but for tenant_directory_reserve, which copies a table that is full.
 * Not here: rows in the file (tenant_rows), rules (tenant_edit, tenant_key_edit).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_index.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_rows.h"
#include "auth/tenants/tenant_view.h"

struct quota_key_record;
struct quota_plan_record;
struct quota_tenant;
struct tenant_group_record;
struct tenant_prompt_record;
struct tenant_record;

struct tenant_key_record {
    struct tenant_rows_key row;   /* last_used_at_s in it is what the file had at the start */
    uint8_t name[16];             /* HMAC(domain secret, "key:" id); zeros for an admin key */
    struct tenant_record *tenant; /* NULL: an admin key */
    struct tenant_key_record *next;
    _Atomic int64_t used_at_s;
    atomic_bool is_used; /* it stands in the list `used` */
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
    struct quota_tenant *limits;    /* its own (quota_limits.c's); NULL = none were ever set */
    struct quota_plan_record *plan; /* that those name; NULL = none */
    struct tenant_key_list keys;
    struct tenant_record *next;
};

struct tenants {
    struct store *store;
    const struct clock *clock;
    uint8_t pepper[AUTH_CRYPTO_BYTES];
    uint8_t domain[AUTH_CRYPTO_BYTES];
    uint8_t answers[AUTH_CRYPTO_BYTES]; /* keys what is kept of answers */
    bool is_uncommitted; /* a copy (tenant_copy.c's) with a transaction that is open */
    pthread_mutex_t change;
    pthread_rwlock_t memory; /* all below; a writer holds `change` too */
    /* From here to limits_generation: what tenant_copy swaps. */
    struct auth_index by_id;
    struct auth_index keys_by_id;
    struct auth_index keys_by_name; /* tenants' keys only */
    struct tenant_record *first;
    struct tenant_record *last;
    struct tenant_key_list admin;
    struct tenant_view_row *grants; /* of published prompts that may be used now; under `change` */
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

int64_t tenant_directory_now_s(const struct tenants *tenants);

/* An opaque name: the first 16 bytes of HMAC(domain secret, kind text). Kinds end with a colon:
 * "tenant:", "key:", "domain:", "group:" (its name: whom a prompt is granted to), "members:" (its
 * id: what they share) and "prompt:". */
enum status tenant_directory_name(const struct tenants *tenants, const char *kind, const char *text,
                                  uint8_t out[16]);

/* New records with their opaque names; NULL and the note when they cannot be made. `metadata` may
 * be empty; `group` is the tenant's when it is not in the directory yet, or NULL. */
struct tenant_record *tenant_directory_make(const struct tenants *tenants,
                                            const struct tenant *tenant,
                                            const struct tenant_group_record *group,
                                            struct slice metadata);
struct tenant_key_record *tenant_directory_make_key(const struct tenants *tenants,
                                                    const struct tenant_rows_key *row,
                                                    struct tenant_record *owner);
void tenant_directory_free(struct tenant_record *record);
void tenant_directory_free_key(struct tenant_key_record *record);

/* Room for one more in an index, for a tenant, for a key. The caller holds `change`; readers wait
 * for O(1). */
enum status tenant_directory_reserve_in(struct tenants *tenants, struct auth_index *index);
enum status tenant_directory_reserve(struct tenants *tenants);
enum status tenant_directory_reserve_key(struct tenants *tenants);

/* Into lists and indexes, which have the room: cannot fail. They take `memory` themselves. */
void tenant_directory_add(struct tenants *tenants, struct tenant_record *record);
void tenant_directory_add_key(struct tenants *tenants, struct tenant_key_record *record);

/* The caller holds `change` or `memory`. NULL, or the record; a key only if it is the tenant's ("":
 * the admins'). */
struct tenant_record *tenant_directory_find(struct tenants *tenants, struct slice id);
struct tenant_key_record *tenant_directory_find_key(struct tenants *tenants, struct slice tenant_id,
                                                    struct slice key_id);
struct tenant_key_record *tenant_directory_find_name(struct tenants *tenants,
                                                     const uint8_t key_name[16]);

/* A key as others see it: with its last use. */
void tenant_directory_read_key(const struct tenant_key_record *record, struct tenant_key *out);

/* Whether it opens anything at that time, its tenant's state aside. */
bool tenant_directory_key_is_open(const struct tenant_key *key, int64_t now_s);

/* All records; nobody else uses the directory any more. */
void tenant_directory_deinit(struct tenants *tenants);
