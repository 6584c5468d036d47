/* certificate_records: the rows of certificates in memory, for the files that change them and look
 * them up.
 *
 *   first ─► record ─► record ─► …   in the order in which the rows were made
 *
 * Owns:     the list and its indexes. Records live as long as the list and are never moved.
 * Thread:   a change holds `change` of the directory of tenants from its checks until it is in
 *           memory. `lock` guards the members below it; a writer holds `change` too.
 * Cost:     O(1).
 * Not here: rules of changes (certificate_edit), rows (certificate_rows).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/credential/auth_index.h"
#include "auth/tenants/certificate_auth.h"
#include "auth/tenants/tenant_directory.h"

struct certificate_record {
    struct certificate row; /* except last_used_at_s, which is in used_at_s */
    int64_t written_s;      /* the last use as the database has it; guarded by `change` */
    _Atomic int64_t used_at_s;
    uint8_t hash[16];                     /* HMAC(domain secret, "key:" id) */
    char key[LIMIT_PEER_NAME_BYTES + 16]; /* the key in by_value: "uri:spiffe://…" */
    /* the next row of the same name, made after this one was revoked */
    struct certificate_record *later;
    struct certificate_record *next;
};

struct certificates {
    struct tenants *tenants;
    pthread_rwlock_t lock;
    struct auth_index by_id;    /* an import exchanges this member and all that follow */
    struct auth_index by_value; /* the first record of each value */
    struct auth_index by_hash;
    struct certificate_record *first;
    struct certificate_record *last;
};

/* Finds the last record of a value; NULL when no record has it. The caller holds `change` or
 * `lock`. */
struct certificate_record *certificate_records_find(struct certificates *certificates,
                                                    enum certificate_match match,
                                                    struct slice value);
/* Copies a record's row, with its last use. */
void certificate_records_row(const struct certificate_record *record, struct certificate *out);
/* Makes a record that is in no list. mem_free frees it. */
enum status certificate_records_make(struct certificates *certificates,
                                     const struct certificate *row,
                                     struct certificate_record **out);
/* Makes room for one more record, so that certificate_records_add cannot fail. The caller holds
 * `change`. */
enum status certificate_records_reserve(struct certificates *certificates);
/* Exchanges the rows of `certificates` and of a copy. auth_copy_end frees the old rows with the
 * copy. */
void certificate_records_adopt(struct certificates *certificates, struct certificates *copy);
void certificate_records_add(struct certificates *certificates, struct certificate_record *record);
