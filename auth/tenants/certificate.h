/* certificate: whose a client's certificate is: rows that admins make.
 *
 * Owns:     rows of the table certificates (config/store), and their index in memory.
 * Thread:   any; looking takes a shared lock and never waits for a commit, a change does
 *           (auth/tenants/tenant.h).
 * Cost:     a look-up is O(1); a change is one committed transaction with its audit row.
 * Not here: HTTP shapes (gateway/admin), what a certificate proves (gateway/http/tls_client checks
 *           it, auth_certificate asks here whose it is).
 *
 * A row fits one certificate by its fingerprint, or all that carry one name (URI or DNS), exactly.
 * The fingerprint's row decides where there is one: so one certificate of many with a name can be
 * revoked alone, by a row of its own. A revoked fingerprint is so for ever; a name is free again.
 */
#pragma once

#include "auth/tenants/certificate_types.h"

const char *certificate_match_name(enum certificate_match match); /* "fingerprint", "uri", "dns" */

/* A value as a row has it: hex digits alone, DNS in lower case. INVALID, OUT_OF_RANGE (param: what
 * it is matched by). */
enum status certificate_value_read(enum certificate_match match, struct slice text,
                                   char out[LIMIT_PEER_NAME_BYTES]);

/* Loads all rows. */
enum status certificates_open(struct certificates **out, struct tenants *tenants);
void certificates_close(struct certificates *certificates);

/* `tenant_id` "" means the admins'. INVALID or OUT_OF_RANGE with param; EXISTS for a value that
 * another row has, unless that is a revoked name's; FORBIDDEN for scopes that the actor lacks;
 * LIMIT as CONFLICT. Without scopes a tenant's gets those of a key. */
enum status certificate_create(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               const struct certificate_fields *fields, struct certificate *out);
/* Label, scopes and expiry. CONFLICT for a revoked one; NOT_FOUND. */
enum status certificate_update(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, const struct certificate_fields *fields,
                               struct certificate *out);
/* From the moment this returns it opens nothing, on open connections too; requests that run go on.
 * Twice is fine. */
enum status certificate_revoke(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, struct certificate *out);
/* Writes the last use of all that were used since, in batches. Called about every LIMIT_USED_S;
 * what a failure leaves is written by the next call. */
enum status certificates_used_flush(struct certificates *certificates);
enum status certificate_get(struct certificates *certificates, struct slice tenant_id,
                            struct slice id, struct certificate *out);
/* Up to `capacity` of a tenant's after id `after` ("" = from the start), oldest first. */
enum status certificate_list(struct certificates *certificates, struct slice tenant_id,
                             struct slice after, struct certificate *out, size_t capacity,
                             size_t *count, bool *has_more);
/* The same of all tenants' and the admins'. */
enum status certificate_list_all(struct certificates *certificates, struct slice after,
                                 struct certificate *out, size_t capacity, size_t *count,
                                 bool *has_more);
