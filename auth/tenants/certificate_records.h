/* certificate_records: certificates' rows in memory: what changes and looks share.
 *
 *   first ─► record ─► record ─► …   in the order in which they were made
 *
 * Owns:     the list and its indexes; records live as long as it and are never moved.
 * Thread:   `change` of the directory of tenants is held from a change's checks to its place in
 *           memory; `lock` is for all below it, a writer holds `change` too.
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
    struct certificate row; /* but for last_used_at_s: */
    int64_t written_s;      /* what the file has of it; `change` guards this */
    _Atomic int64_t used_at_s;
    uint8_t hash[16];                     /* HMAC(domain secret, "key:" id) */
    char key[LIMIT_PEER_NAME_BYTES + 16]; /* "uri:spiffe://…": of by_value */
    struct certificate_record *later;     /* of the same name, made when this one was revoked */
    struct certificate_record *next;
};

struct certificates {
    struct tenants *tenants;
    pthread_rwlock_t lock;
    struct auth_index by_id;    /* from here on it is what an import exchanges */
    struct auth_index by_value; /* the first of each value */
    struct auth_index by_hash;
    struct certificate_record *first;
    struct certificate_record *last;
};

/* The last record of a value, NULL: none has it. The caller holds `change` or `lock`. */
struct certificate_record *certificate_records_find(struct certificates *certificates,
                                                    enum certificate_match match,
                                                    struct slice value);
/* Its row as others see it. */
void certificate_records_row(const struct certificate_record *record, struct certificate *out);
/* A record that is in no list; frees with mem_free. */
enum status certificate_records_make(struct certificates *certificates,
                                     const struct certificate *row,
                                     struct certificate_record **out);
/* Room for one more; then adding cannot fail. The caller holds `change`. */
enum status certificate_records_reserve(struct certificates *certificates);
/* The rows of a copy take the place of those there are, which go with the copy (auth_copy_end). */
void certificate_records_adopt(struct certificates *certificates, struct certificates *copy);
void certificate_records_add(struct certificates *certificates, struct certificate_record *record);
