/* issuer_records: the issuers in memory, for the files that change them and look them up.
 *
 *   first ─► record ─► record ─► …   in the order in which the issuers were made
 *
 * Owns:     the list, its records and their references.
 * Thread:   a change holds `change` of the directory of tenants from its checks until its record is
 *           in the list. `lock` is held while the list is walked or changed, and while a field that
 *           it guards is read or written.
 * Cost:     making a record parses its keys, which takes some milliseconds.
 * Not here: rules of changes (issuer_edit), rows (issuer_rows).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/credential/auth_jwks.h"
#include "auth/tenants/issuer_auth.h"
#include "auth/tenants/tenant_directory.h"

struct issuer_record {
    struct issuer issuer; /* `lock` guards jwks_error and jwks_fetched_at_s */
    /* The key set as text that ends with NUL, as it was given or read. Of a URL, as
     * auth_jwks_overlap joined it. NULL: no key set could be read yet. */
    char *json;
    struct auth_jwks *jwks;             /* the keys in `json`; NULL without `json` */
    uint64_t prints[LIMIT_ISSUER_KEYS]; /* for each key, a hash of the key and the issuer's rules */
    uint8_t hash[16];                   /* HMAC(domain secret, "key:" id) */
    _Atomic int64_t looked_at_s;        /* when the file was last read */
    /* `lock` guards this field and the next three: when the URL is fetched again */
    int64_t due_s;
    int64_t asked_at_s; /* when a token with an unknown key last made a fetch due */
    bool is_wanted;     /* tokens wait for a fetch */
    bool is_fetched;    /* a fetch is in progress */
    atomic_uint references;
    struct issuer_record *next;
};

struct issuers {
    struct tenants *tenants;
    /* the key that seals key sets in the database, and that `prints` are made with */
    uint8_t seal[AUTH_CRYPTO_BYTES];
    char *data_dir;
    pthread_mutex_t lock;
    struct issuer_record *first;
    atomic_uint_fast64_t epoch;
};

/* Makes a record that is not in the list and has one reference. With `json` bytes NULL the record
 * has no keys. Fails as auth_jwks_read does. */
enum status issuer_records_make(struct issuers *issuers, const struct issuer *issuer,
                                struct slice json, struct issuer_record **out);
/* Puts `new` in the place of `old`, and drops the list's reference to `old`. With `old` NULL,
 * appends `new`. With `new` NULL, removes `old`. */
void issuer_records_replace(struct issuers *issuers, struct issuer_record *old,
                            struct issuer_record *new);
/* Exchanges the lists of `issuers` and `copy`. A record that has the same id and revision in both
 * stays in `issuers`, with the keys that were read for it. */
void issuer_records_adopt(struct issuers *issuers, struct issuers *copy);
/* Finds the record of an id; NULL when there is none. The caller holds `change` or `lock`. */
struct issuer_record *issuer_records_find(struct issuers *issuers, struct slice id);

/* Reads the file jwks/`name` in the data directory. INVALID with the param jwks_file. */
enum status issuer_records_read_file(struct issuers *issuers, const char *name, struct buffer *out);
