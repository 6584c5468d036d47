/* admin_export: all that admins change as one JSON document, in a stable order, names for ids.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     walks all rows; the document has LIMIT_ADMIN_IMPORT_BYTES at most.
 * Not here: making it so (admin_import). Keys and secrets are in no export: what is in the document
 *           may stand in a repository.
 *
 *   {"object":"config_export","version":1,"groups":[…],"plans":[…],"tenants":[{…,"limits":{…}}],…}
 */
#pragma once

#include <assert.h>
#include <jansson.h>

#include "gateway/admin/admin_call.h"

/* GET: the document; its etag is the revision of all rows: the last audit row's id. */
enum status admin_export_get(struct admin_call *call);

/* --- what admin_import works with --- */

enum admin_export_kind {
#define EXPORT(member, list, create, update, remove, scope, without) ADMIN_EXPORT_##member,
#include "gateway/admin/admin_export.def"
#undef EXPORT
    ADMIN_EXPORT_KINDS
};
enum { ADMIN_EXPORT_NAME_BYTES = 3 * LIMIT_NAME_BYTES + 32 };
static_assert(ADMIN_EXPORT_NAME_BYTES >= LIMIT_PEER_NAME_BYTES + 16, "a certificate's fits too");
struct admin_export_row {
    const char *member;
    admin_function list;
    admin_function create;
    admin_function update;
    admin_function remove;
    uint32_t scope; /* that its changes need */
    const char *without;
};
extern const struct admin_export_row admin_export_rows[ADMIN_EXPORT_KINDS];

/* A call of `function` as `call`'s admin makes it, on this thread. `argument` and `body` may be
 * NULL; `*answer` is its JSON, the caller's. */
enum status admin_export_call(struct admin_call *call, admin_function function, const char *method,
                              const char *argument, const json_t *body, json_t **answer);
/* The same of a certificate (its limits): a tenant's, or with "" the admins'. `id` may be NULL. */
enum status admin_export_call_owned(struct admin_call *call, admin_function function,
                                    const char *method, const char *tenant_id, const char *id,
                                    const json_t *body, json_t **answer);
/* Everything there is, by kind: {name: {"id":…,"item":{…}}} sorted by name; an item is what stands
 * in the document. Tenants that are archived are left out. The caller drops them. */
enum status admin_export_read(struct admin_call *call, json_t *kinds[ADMIN_EXPORT_KINDS]);
void admin_export_drop(json_t *kinds[ADMIN_EXPORT_KINDS]);
/* The name of a row or of a document's item, in `out`; false: it has none. A price's is
 * "plan/model/class/moment", a certificate's "dns/a.example". */
bool admin_export_name(enum admin_export_kind kind, const json_t *item,
                       char out[ADMIN_EXPORT_NAME_BYTES]);
/* Of a certificate: its end has come, or is about to. Such ones are read, with "expired": true,
 * and stand in no document. */
bool admin_export_is_over(const json_t *certificate);
/* The id of a name; NULL. */
const char *admin_export_id(const json_t *kind, const char *name);
