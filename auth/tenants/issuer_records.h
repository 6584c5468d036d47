/* issuer_records: issuers in memory: what changes and looks share.
 *
 *   first ─► record ─► record ─► …   in the order in which the issuers were made
 *
 * Owns:     the list, its records and their references.
 * Thread:   `change` of the directory of tenants is held from a change's checks to its place in
 *           the list; `lock` only while the list is walked.
 * Cost:     making a record reads its keys, some milliseconds.
 * Not here: rules of changes (issuer_edit), rows (issuer_rows).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/credential/auth_jwks.h"
#include "auth/tenants/issuer_auth.h"
#include "auth/tenants/tenant_directory.h"

struct issuer_record {
    struct issuer issuer;   /* jwks_error under `lock` */
    char *json;             /* the key set as it came, terminated; NULL: none could be read yet */
    struct auth_jwks *jwks; /* what it holds; NULL: nothing */
    uint64_t prints[LIMIT_ISSUER_KEYS];
    uint8_t hash[16];
    _Atomic int64_t looked_at_s; /* at the file */
    int64_t due_s;               /* these four under `lock`: when its URL is asked again */
    int64_t asked_at_s;          /* when a token's unknown key had it asked */
    bool is_wanted;              /* tokens wait for it */
    bool is_fetched;             /* just now */
    atomic_uint references;
    struct issuer_record *next;
};

struct issuers {
    struct tenants *tenants;
    uint8_t seal[AUTH_CRYPTO_BYTES]; /* of key sets in the file; keys prints too */
    char *data_dir;
    pthread_mutex_t lock;
    struct issuer_record *first;
    atomic_uint_fast64_t epoch;
};

/* A record that is not in the list, with one reference. `json` bytes NULL: without keys. Fails as
 * auth_jwks_read does. */
enum status issuer_records_make(struct issuers *issuers, const struct issuer *issuer,
                                struct slice json, struct issuer_record **out);
/* `old` NULL: behind all others; `new` NULL: nothing in its place. Drops the list's reference. */
void issuer_records_replace(struct issuers *issuers, struct issuer_record *old,
                            struct issuer_record *new);
/* The issuers of `copy`, which gets the others in return; a record that is the same in both stays,
 * with the keys that were found for it. */
void issuer_records_adopt(struct issuers *issuers, struct issuers *copy);
/* The caller holds `change` or `lock`. */
struct issuer_record *issuer_records_find(struct issuers *issuers, struct slice id);

/* The bytes of D/jwks/`name`. INVALID with the param jwks_file. */
enum status issuer_records_read_file(struct issuers *issuers, const char *name, struct buffer *out);
