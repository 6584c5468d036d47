/* certificate: the rows in which admins say which tenant a client certificate belongs to.
 *
 * Owns:     rows of the table certificates (config/store), and their index in memory.
 * Thread:   any. A look-up takes a shared lock and never waits for a commit; a change waits
 *           (auth/tenants/tenant.h).
 * Cost:     a look-up is O(1); a change is one committed transaction with its audit row.
 * Not here: HTTP and JSON (gateway/admin), verifying a certificate (gateway/http/tls_client),
 *           authenticating by it (auth_certificate).
 *
 * A row matches one certificate by its fingerprint, or all certificates that carry one name (URI or
 * DNS), exactly. If the fingerprint has a row, that row decides; so one of many certificates with
 * the same name can be revoked by a row of its own. A revoked fingerprint stays revoked for ever,
 * while a revoked name may get a new row.
 */
#pragma once

#include "auth/tenants/certificate_types.h"

const char *certificate_match_name(enum certificate_match match); /* "fingerprint", "uri", "dns" */

/* Brings a value into the form of a row: a fingerprint as hex digits alone, a DNS name in lower
 * case. INVALID or OUT_OF_RANGE; the param is the kind of match. */
enum status certificate_value_read(enum certificate_match match, struct slice text,
                                   char out[LIMIT_PEER_NAME_BYTES]);

/* Loads all rows. */
enum status certificates_open(struct certificates **out, struct tenants *tenants);
void certificates_close(struct certificates *certificates);

/* Makes a row; with `tenant_id` "" the row is an admin's. A tenant's row without given scopes gets
 * AUTH_SCOPES_TENANT. INVALID or OUT_OF_RANGE with param. NOT_FOUND for an unknown tenant. EXISTS
 * when another row has the value, unless that row is for a name and is revoked. FORBIDDEN for an
 * admin's scopes that the actor lacks. CONFLICT for an archived tenant, or when there are
 * LIMIT_CERTIFICATES rows. */
enum status certificate_create(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               const struct certificate_fields *fields, struct certificate *out);
/* Changes label, scopes or expiry. NOT_FOUND for an unknown row, CONFLICT for a revoked one;
 * otherwise fails as certificate_create does. */
enum status certificate_update(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, const struct certificate_fields *fields,
                               struct certificate *out);
/* Revokes a row. Once this returns, its certificates are refused, on open connections too. Running
 * requests go on. A second call changes nothing. */
enum status certificate_revoke(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, struct certificate *out);
/* Writes the last use of all rows that were used since the last call, in batches. Call it about
 * every LIMIT_USED_S. After a failure, the next call writes the rest. */
enum status certificates_used_flush(struct certificates *certificates);
enum status certificate_get(struct certificates *certificates, struct slice tenant_id,
                            struct slice id, struct certificate *out);
/* Lists up to `capacity` rows of a tenant after id `after` ("": from the start), oldest first. */
enum status certificate_list(struct certificates *certificates, struct slice tenant_id,
                             struct slice after, struct certificate *out, size_t capacity,
                             size_t *count, bool *has_more);
/* Lists the rows of all tenants and of admins in the same way. */
enum status certificate_list_all(struct certificates *certificates, struct slice after,
                                 struct certificate *out, size_t capacity, size_t *count,
                                 bool *has_more);
