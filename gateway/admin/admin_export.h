/* admin_export: everything that admins configure as one JSON document, in a stable order, with
 * names in place of ids.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     reads all rows; the document has at most LIMIT_ADMIN_IMPORT_BYTES.
 * Not here: importing a document (admin_import).
 *
 * An export contains neither API keys nor the secret keys of an issuer, so a document may be kept
 * in a repository.
 *
 *   {"object":"config_export","version":1,"groups":[…],"plans":[…],"tenants":[{…,"limits":{…}}],…}
 */
#pragma once

#include <assert.h>
#include <jansson.h>

#include "gateway/admin/admin_call.h"

/* GET: the document. Its ETag is the id of the last audit row, which changes with every change. */
enum status admin_export_get(struct admin_call *call);

/* --- what admin_import works with --- */

enum admin_export_kind {
#define EXPORT(member, list, create, update, remove, scope, without) ADMIN_EXPORT_##member,
#include "gateway/admin/admin_export.def"
#undef EXPORT
    ADMIN_EXPORT_KINDS
};
enum { ADMIN_EXPORT_NAME_BYTES = 3 * LIMIT_NAME_BYTES + 32 };
static_assert(ADMIN_EXPORT_NAME_BYTES >= LIMIT_PEER_NAME_BYTES + 16, "certificates' names fit");
struct admin_export_row {
    const char *member;
    admin_function list;
    admin_function create;
    admin_function update;
    admin_function remove;
    uint32_t scope;      /* that changes of this kind need */
    const char *without; /* members that an export leaves out, with blanks between them */
};
extern const struct admin_export_row admin_export_rows[ADMIN_EXPORT_KINDS];

/* Runs `function` on this thread, as a call of the admin of `call`. `argument` and `body` may be
 * NULL; `*answer` is its answer, a reference of the caller's. Fails as the function does. */
enum status admin_export_call(struct admin_call *call, admin_function function, const char *method,
                              const char *argument, const json_t *body, json_t **answer);
/* The same for functions that use admin_call_owner(): for a tenant, or with "" for the admins. `id`
 * may be NULL. */
enum status admin_export_call_owned(struct admin_call *call, admin_function function,
                                    const char *method, const char *tenant_id, const char *id,
                                    const json_t *body, json_t **answer);
/* Reads all rows, by kind: {name: {"id":…,"item":{…}}} sorted by name, where "item" is what the
 * document shows. Archived tenants are left out. The caller drops `kinds`, also after a failure. */
enum status admin_export_read(struct admin_call *call, json_t *kinds[ADMIN_EXPORT_KINDS]);
void admin_export_drop(json_t *kinds[ADMIN_EXPORT_KINDS]);
/* Writes the name of a row or item to `out`; false when it has none. The name of a price is
 * "plan/model/class/time", that of a certificate is like "dns/a.example". */
bool admin_export_name(enum admin_export_kind kind, const json_t *item,
                       char out[ADMIN_EXPORT_NAME_BYTES]);
/* Whether a certificate has expired or expires within a minute. admin_export_read() marks it with
 * "expired": true, and no document shows it. */
bool admin_export_is_over(const json_t *certificate);
/* The id of the row with this name, borrowed; NULL when there is none. */
const char *admin_export_id(const json_t *kind, const char *name);
