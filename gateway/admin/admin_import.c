#include "gateway/admin/admin_import.h"

#include <stdio.h>
#include <stdlib.h>

#include "auth/tenants/certificate.h"
#include "config/base/clock.h"
#include "config/base/edit_distance.h"
#include "config/base/json_scan.h"
#include "gateway/admin/admin_certificates.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_export.h"
#include "gateway/admin/admin_limits.h"
#include "gateway/admin/admin_prompts.h"
#include "gateway/admin/admin_tenants.h"

struct import {
    struct admin_call call;            /* the admin's calls on the copy of the directory */
    json_t *document;                  /* the wanted configuration */
    json_t *kinds[ADMIN_EXPORT_KINDS]; /* the present rows, with those that were created */
    json_t *changes;                   /* [{"action","resource","name","fields"}] */
    int counts[3];                     /* [enum action] */
    bool has_prune;
};
enum action { ACTION_CREATE, ACTION_UPDATE, ACTION_DELETE };
static const char *const action_words[] = {"create", "update", "delete"};

/* Adds the position in the document to the note of a failed call. */
static enum status wrap(enum status status, enum admin_export_kind kind, size_t index,
                        const char *name)
{
    const struct error_note note = *status_note();
    char param[STATUS_PARAM_BYTES];
    snprintf(param, sizeof param, "%.32s[%zu]%s%.64s", admin_export_rows[kind].member, index,
             note.param[0] != '\0' ? "." : "", note.param);
    return status_fail(status, __FILE__, __LINE__, param, "%.20s \"%.64s\": %.300s",
                       admin_export_rows[kind].member, name, note.message);
}

/* FORBIDDEN unless the key has the scope that this change would need as a call of its own. */
static enum status allow(const struct import *import, enum admin_export_kind kind)
{
    if ((import->call.actor.scopes & admin_export_rows[kind].scope) == 0)
        FAIL(STATUS_FORBIDDEN, "This key does not have the scope that a change of %s needs.",
             admin_export_rows[kind].member);
    return STATUS_OK;
}

static void changed(struct import *import, enum admin_export_kind kind, enum action action,
                    const char *name, json_t *fields)
{
    json_t *change = json_pack("{s:s,s:s,s:s}", "action", action_words[action], "resource",
                               admin_export_rows[kind].member, "name", name);
    if (fields != NULL)
        json_object_set_new(change, "fields", fields);
    json_array_append_new(import->changes, change);
    import->counts[action]++;
}

/* --- replacing names by ids --- */

static enum status id_of(const struct import *import, enum admin_export_kind kind,
                         const char *param, const json_t *name, json_t **out)
{
    const char *text = json_string_value(name);
    const char *id = text != NULL ? admin_export_id(import->kinds[kind], text) : NULL;
    if (id == NULL)
        FAIL_PARAM(STATUS_NOT_FOUND, param, "There is no %.64s in %s.",
                   text != NULL ? text : "such name", admin_export_rows[kind].member);
    *out = json_string(id);
    return STATUS_OK;
}

static enum status map_member(const struct import *import, enum admin_export_kind kind,
                              json_t *body, const char *member)
{
    json_t *id = NULL;
    json_t *value = json_object_get(body, member);
    if (value == NULL || json_is_null(value))
        return STATUS_OK;
    TRY(id_of(import, kind, member, value, &id));
    json_object_set_new(body, member, id);
    return STATUS_OK;
}

static enum status map_list(const struct import *import, json_t *list)
{
    char where[STATUS_PARAM_BYTES];
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *id = NULL;
        snprintf(where, sizeof where, "tenants[%zu]", i);
        TRY(id_of(import, ADMIN_EXPORT_tenants, where, json_array_get(list, i), &id));
        json_array_set_new(list, i, id);
    }
    return STATUS_OK;
}

static enum status map_values(const struct import *import, json_t *object)
{
    const char *member;
    json_t *value;
    json_object_foreach(object, member, value)
    {
        json_t *id = NULL;
        TRY(id_of(import, ADMIN_EXPORT_tenants, "tenants", value, &id));
        json_object_set_new(object, member, id);
    }
    return STATUS_OK;
}

/* Replaces all names in `body`, a copy of an item, by ids. */
static enum status map_ids(const struct import *import, enum admin_export_kind kind, json_t *body)
{
    if (kind == ADMIN_EXPORT_prices)
        return map_member(import, ADMIN_EXPORT_plans, body, "plan");
    json_t *tenants = json_object_get(body, "tenants");
    if (kind == ADMIN_EXPORT_shared_prompts && json_is_array(tenants))
        return map_list(import, tenants);
    if (kind == ADMIN_EXPORT_issuers && json_is_object(tenants))
        return map_values(import, tenants);
    return STATUS_OK;
}

static void drop_nulls(json_t *body)
{
    const char *member;
    json_t *value;
    void *next;
    json_object_foreach_safe(body, next, member, value)
    {
        if (json_is_null(value))
            json_object_del(body, member);
    }
}

/* --- certificates --- */

/* Brings an item into the form that rows have, so that it can be compared with them: the normal
 * form of what the certificate matches, and null for a missing tenant (the admins'). A wrong value
 * stays; the creation refuses it. */
static void certificate_tidy(json_t *item)
{
    char value[LIMIT_PEER_NAME_BYTES];
    if (json_object_get(item, "tenant") == NULL)
        json_object_set_new(item, "tenant", json_null());
    for (int i = CERTIFICATE_FINGERPRINT; i <= CERTIFICATE_DNS; i++) {
        const char *member = certificate_match_name((enum certificate_match)i);
        const char *text = json_string_value(json_object_get(item, member));
        if (text != NULL &&
            certificate_value_read((enum certificate_match)i, slice_of(text), value) == STATUS_OK)
            json_object_set_new(item, member, json_string(value));
    }
}

/* Writes the id of the tenant, "" for the admins. */
static enum status certificate_owner(const struct import *import, const json_t *item,
                                     char out[LIMIT_ID_BYTES])
{
    json_t *id = NULL;
    const json_t *tenant = json_object_get(item, "tenant");
    out[0] = '\0';
    if (tenant == NULL || json_is_null(tenant))
        return STATUS_OK;
    TRY(id_of(import, ADMIN_EXPORT_tenants, "tenant", tenant, &id));
    snprintf(out, LIMIT_ID_BYTES, "%s", json_string_value(id));
    json_decref(id);
    return STATUS_OK;
}

static enum status certificate_revoked(const json_t *item, bool *out)
{
    const json_t *revoked = json_object_get(item, "revoked");
    if (revoked != NULL && !json_is_boolean(revoked) && !json_is_null(revoked))
        FAIL_PARAM(STATUS_INVALID, "revoked", "revoked must be true or false.");
    *out = json_is_true(revoked);
    return STATUS_OK;
}

static enum status certificate_call(struct import *import, admin_function function,
                                    const char *method, const char *owner, const char *id,
                                    const json_t *body, json_t **answer)
{
    return admin_export_call_owned(&import->call, function, method, owner, id, body, answer);
}

static enum status certificate_create_row(struct import *import, const json_t *item,
                                          const char *owner, bool is_revoked, json_t **answer)
{
    json_t *gone = NULL;
    json_t *body = json_deep_copy(item);
    json_object_del(body, "tenant");
    json_object_del(body, "revoked");
    drop_nulls(body);
    enum status status =
        certificate_call(import, admin_certificates_create, "POST", owner, NULL, body, answer);
    if (status == STATUS_OK && is_revoked)
        status = certificate_call(import, admin_certificates_revoke, "DELETE", owner,
                                  json_string_value(json_object_get(*answer, "id")), NULL, &gone);
    json_decref(gone);
    json_decref(body);
    return status;
}

/* Changes a certificate. Its owner cannot change, and a revoked one stays revoked. */
static enum status certificate_change(struct import *import, const json_t *item, const char *id,
                                      json_t *body)
{
    char owner[LIMIT_ID_BYTES];
    bool is_revoked;
    json_t *answer = NULL;
    if (json_object_get(body, "tenant") != NULL)
        FAIL_PARAM(STATUS_CONFLICT, "tenant", "The tenant of a certificate cannot be changed.");
    TRY(certificate_owner(import, item, owner));
    TRY(certificate_revoked(item, &is_revoked));
    if (json_object_get(body, "revoked") != NULL && !is_revoked)
        FAIL_PARAM(STATUS_CONFLICT, "revoked",
                   "The certificate is revoked and cannot be accepted again.");
    json_object_del(body, "revoked");
    if (json_object_size(body) > 0)
        TRY(certificate_call(import, admin_certificates_update, "PATCH", owner, id, body, &answer));
    json_decref(answer);
    answer = NULL;
    if (is_revoked)
        TRY(certificate_call(import, admin_certificates_revoke, "DELETE", owner, id, NULL,
                             &answer));
    json_decref(answer);
    return STATUS_OK;
}

/* --- one row --- */

/* Sets the limits of a tenant, which are an object of their own in the API. */
static enum status put_limits(struct import *import, const char *id, json_t *limits)
{
    json_t *answer = NULL;
    if (limits == NULL)
        return STATUS_OK;
    if (!json_is_object(limits))
        FAIL_PARAM(STATUS_INVALID, "limits", "limits must be an object.");
    json_t *body = json_deep_copy(limits);
    enum status status = map_member(import, ADMIN_EXPORT_plans, body, "plan");
    if (status == STATUS_OK)
        status = admin_export_call(&import->call, admin_limits_put, "PUT", id, body, &answer);
    json_decref(answer);
    json_decref(body);
    return status;
}

static enum status row_create_certificate(struct import *import, const json_t *item,
                                          const char *name)
{
    char owner[LIMIT_ID_BYTES];
    bool is_revoked;
    json_t *answer = NULL;
    TRY(certificate_owner(import, item, owner));
    TRY(certificate_revoked(item, &is_revoked));
    enum status status = certificate_create_row(import, item, owner, is_revoked, &answer);
    if (status == STATUS_OK)
        json_object_set_new(import->kinds[ADMIN_EXPORT_certificates], name,
                            json_pack("{s:O,s:{}}", "id", json_object_get(answer, "id"), "item"));
    json_decref(answer);
    return status;
}

static enum status row_create(struct import *import, enum admin_export_kind kind,
                              const json_t *item, const char *name)
{
    json_t *answer = NULL;
    TRY(allow(import, kind));
    if (kind == ADMIN_EXPORT_certificates)
        return row_create_certificate(import, item, name);
    json_t *body = json_deep_copy(item);
    json_t *limits = kind == ADMIN_EXPORT_tenants ? json_object_get(item, "limits") : NULL;
    if (kind == ADMIN_EXPORT_tenants)
        json_object_del(body, "limits");
    drop_nulls(body);
    enum status status = map_ids(import, kind, body);
    if (status == STATUS_OK)
        status = admin_export_call(&import->call, admin_export_rows[kind].create, "POST", NULL,
                                   body, &answer);
    const char *id = json_string_value(json_object_get(answer, "id"));
    if (status == STATUS_OK && (!json_is_object(limits) || json_object_size(limits) > 0))
        status = put_limits(import, id, limits);
    if (status == STATUS_OK)
        json_object_set_new(import->kinds[kind], name, json_pack("{s:s,s:{}}", "id", id, "item"));
    json_decref(answer);
    json_decref(body);
    return status;
}

static enum status row_delete(struct import *import, enum admin_export_kind kind,
                              const json_t *entry)
{
    json_t *answer = NULL;
    char owner[LIMIT_ID_BYTES] = "";
    const char *id = json_string_value(json_object_get(entry, "id"));
    TRY(allow(import, kind));
    if (kind == ADMIN_EXPORT_certificates)
        TRY(certificate_owner(import, json_object_get(entry, "item"), owner));
    enum status status = certificate_call(import, admin_export_rows[kind].remove, "DELETE", owner,
                                          id, NULL, &answer);
    json_decref(answer);
    return status;
}

/* Copies the members in which an item differs from the row to `body`, and their names to
 * `fields`. */
static void row_compare(const json_t *item, const json_t *there, json_t *body, json_t *fields)
{
    const char *member;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)item, member, value)
    {
        const json_t *now = json_object_get(there, member);
        if (json_equal(now, value) || (now == NULL && json_is_null(value)))
            continue;
        json_object_set_new(body, member, json_deep_copy(value));
        json_array_append_new(fields, json_string(member));
    }
}

/* Whether the content of a prompt changes. A prompt cannot change its content, so a new one
 * replaces it. */
static bool is_other_prompt(enum admin_export_kind kind, const json_t *body)
{
    return kind == ADMIN_EXPORT_shared_prompts &&
           (json_object_get(body, "messages") != NULL || json_object_get(body, "text") != NULL);
}

static enum status row_change(struct import *import, enum admin_export_kind kind,
                              const json_t *item, const char *name, const json_t *entry,
                              json_t *body)
{
    json_t *answer = NULL;
    const char *id = json_string_value(json_object_get(entry, "id"));
    json_t *limits = kind == ADMIN_EXPORT_tenants ? json_object_get(body, "limits") : NULL;
    TRY(allow(import, kind));
    if (kind == ADMIN_EXPORT_prices)
        FAIL(STATUS_CONFLICT, "A price is never changed: add one with a later effective_at.");
    if (kind == ADMIN_EXPORT_certificates)
        return certificate_change(import, item, id, body);
    if (is_other_prompt(kind, body)) {
        TRY(row_delete(import, kind, entry));
        return row_create(import, kind, item, name);
    }
    TRY(put_limits(import, id, limits));
    if (limits != NULL)
        json_object_del(body, "limits");
    if (json_object_size(body) == 0)
        return STATUS_OK;
    TRY(map_ids(import, kind, body));
    enum status status = admin_export_call(&import->call, admin_export_rows[kind].update, "PATCH",
                                           id, body, &answer);
    json_decref(answer);
    return status;
}

static enum status row_update(struct import *import, enum admin_export_kind kind,
                              const json_t *item, const char *name, const json_t *entry)
{
    json_t *body = json_object();
    json_t *fields = json_array();
    row_compare(item, json_object_get(entry, "item"), body, fields);
    enum status status = STATUS_OK;
    if (json_object_size(body) > 0)
        status = row_change(import, kind, item, name, entry, body);
    if (status == STATUS_OK && json_array_size(fields) > 0)
        changed(import, kind, ACTION_UPDATE, name, json_incref(fields));
    json_decref(fields);
    json_decref(body);
    return status;
}

static enum status row_import(struct import *import, enum admin_export_kind kind, size_t index,
                              const json_t *item, json_t *seen)
{
    char name[ADMIN_EXPORT_NAME_BYTES];
    char where[STATUS_PARAM_BYTES];
    bool is_price = kind == ADMIN_EXPORT_prices;
    snprintf(where, sizeof where, "%.32s[%zu]", admin_export_rows[kind].member, index);
    if (!json_is_object(item))
        FAIL_PARAM(STATUS_INVALID, where, "%s must be an object.", where);
    bool is_certificate = kind == ADMIN_EXPORT_certificates;
    if (is_certificate)
        certificate_tidy((json_t *)(uintptr_t)item);
    snprintf(where, sizeof where, "%.32s[%zu].%s", admin_export_rows[kind].member, index,
             is_price         ? "effective_at"
             : is_certificate ? "fingerprint"
                              : "name");
    if (!admin_export_name(kind, item, name))
        FAIL_PARAM(STATUS_INVALID, where, "%s must be %s.", where,
                   is_price         ? "Unix seconds"
                   : is_certificate ? "given, or instead of it either uri or dns"
                                    : "a string of 1 to 127 bytes");
    if (json_object_get(seen, name) != NULL)
        FAIL_PARAM(STATUS_INVALID, where, "%s is given twice.", where);
    json_object_set_new(seen, name, json_true());
    drop_nulls(json_object_get(item, "limits"));
    const json_t *entry = json_object_get(import->kinds[kind], name);
    if (entry != NULL)
        return row_update(import, kind, item, name, entry);
    if (is_certificate && admin_export_is_over(item) &&
        !json_is_true(json_object_get(item, "revoked")))
        return STATUS_OK; /* an expired certificate needs no row */
    TRY(row_create(import, kind, item, name));
    changed(import, kind, ACTION_CREATE, name, NULL);
    return STATUS_OK;
}

/* --- all rows --- */

static enum status kind_import(struct import *import, enum admin_export_kind kind, json_t *seen)
{
    const json_t *list = json_object_get(import->document, admin_export_rows[kind].member);
    enum status status = STATUS_OK;
    if (list != NULL && !json_is_array(list))
        FAIL_PARAM(STATUS_INVALID, admin_export_rows[kind].member, "%s must be a list.",
                   admin_export_rows[kind].member);
    for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++) {
        const json_t *item = json_array_get(list, i);
        char name[ADMIN_EXPORT_NAME_BYTES] = "";
        (void)admin_export_name(kind, item, name);
        size_t before = json_object_size(seen);
        status = row_import(import, kind, i, item, seen);
        if (status != STATUS_OK && json_object_size(seen) > before)
            status = wrap(status, kind, i, name);
    }
    return status;
}

/* Whether a price holds already. Requests were priced by it, so it is never deleted. */
static bool is_past_price(enum admin_export_kind kind, const json_t *item)
{
    json_int_t moment = json_integer_value(json_object_get(item, "effective_at"));
    return kind == ADMIN_EXPORT_prices && moment <= clock_wall_us(clock_system()) / 1000000;
}

/* Deletes the rows that the document does not have. A kind that it does not mention stays as it
 * is. */
static enum status kind_prune(struct import *import, enum admin_export_kind kind,
                              const json_t *seen)
{
    const char *name;
    json_t *entry;
    if (json_object_get(import->document, admin_export_rows[kind].member) == NULL)
        return STATUS_OK;
    json_object_foreach(import->kinds[kind], name, entry)
    {
        if (json_object_get(seen, name) != NULL)
            continue;
        const json_t *there = json_object_get(entry, "item");
        if (is_past_price(kind, there) || json_is_true(json_object_get(there, "revoked")) ||
            json_is_true(json_object_get(there, "expired")))
            continue;
        TRY(row_delete(import, kind, entry));
        changed(import, kind, ACTION_DELETE, name, NULL);
    }
    return STATUS_OK;
}

static enum status import_rows(struct import *import)
{
    json_t *seen[ADMIN_EXPORT_KINDS];
    enum status status = admin_export_read(&import->call, import->kinds);
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++)
        seen[i] = json_object();
    for (int i = 0; i < ADMIN_EXPORT_KINDS && status == STATUS_OK; i++)
        status = kind_import(import, (enum admin_export_kind)i, seen[i]);
    for (int i = ADMIN_EXPORT_KINDS - 1; i >= 0 && import->has_prune && status == STATUS_OK; i--)
        status = kind_prune(import, (enum admin_export_kind)i, seen[i]);
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++)
        json_decref(seen[i]);
    return status;
}

/* --- the document's own members --- */

static char same(char c)
{
    return c;
}

static enum status check_unknown(const char *name)
{
    static const char *const others[] = {"object", "version", "prune"};
    const char *nearest = NULL;
    size_t least = 4;
    for (int i = 0; i < ADMIN_EXPORT_KINDS + 3; i++) {
        const char *known =
            i < ADMIN_EXPORT_KINDS ? admin_export_rows[i].member : others[i - ADMIN_EXPORT_KINDS];
        if (strcmp(known, name) == 0)
            return STATUS_OK;
        size_t distance = strlen(name) < 64 ? edit_distance(known, slice_of(name), same) : least;
        if (distance < least) {
            least = distance;
            nearest = known;
        }
    }
    if (nearest != NULL)
        FAIL_PARAM(STATUS_UNSUPPORTED, name, "There is no %.64s here; did you mean %s?", name,
                   nearest);
    FAIL_PARAM(STATUS_UNSUPPORTED, name, "There is no field %.64s here.", name);
}

static enum status import_check(struct import *import)
{
    const char *name;
    json_t *value;
    const json_t *version = json_object_get(import->document, "version");
    const json_t *object = json_object_get(import->document, "object");
    const json_t *prune = json_object_get(import->document, "prune");
    json_object_foreach(import->document, name, value) TRY(check_unknown(name));
    if (object != NULL &&
        (!json_is_string(object) || strcmp(json_string_value(object), "config_export") != 0))
        FAIL_PARAM(STATUS_INVALID, "object", "object must be config_export.");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        FAIL_PARAM(STATUS_INVALID, "version", "version must be 1.");
    if (prune != NULL && !json_is_boolean(prune))
        FAIL_PARAM(STATUS_INVALID, "prune", "prune must be true or false.");
    import->has_prune = json_is_true(prune);
    return STATUS_OK;
}

static enum status import_parse(struct admin_call *call, struct import *import)
{
    json_error_t error;
    if (call->body.length > LIMIT_ADMIN_IMPORT_BYTES)
        FAIL(STATUS_LIMIT, "The body is longer than %d bytes.", LIMIT_ADMIN_IMPORT_BYTES);
    TRY(json_scan_most(call->body, NULL, 0, LIMIT_ADMIN_IMPORT_ELEMENTS));
    import->document =
        json_loadb(call->body.bytes, call->body.length, JSON_REJECT_DUPLICATES, &error);
    if (import->document == NULL)
        FAIL(STATUS_INVALID, "The body is not valid JSON (line %d, column %d).", error.line,
             error.column);
    if (!json_is_object(import->document))
        FAIL(STATUS_INVALID, "The body must be a JSON object.");
    return import_check(import);
}

/* --- the call --- */

struct answer {
    struct admin_call *call;
    const struct import *import;
    const struct tenant_change *change;
    int64_t revision;
};

/* Called inside the transaction of all changes, when the last audit row is written. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    const int *counts = answer->import->counts;
    char *changes = json_dumps(answer->import->changes, JSON_COMPACT);
    buffer_printf(&call->out,
                  "{\"object\":\"config_import\",\"created\":%d,\"updated\":%d,\"deleted\":%d,"
                  "\"changes\":",
                  counts[ACTION_CREATE], counts[ACTION_UPDATE], counts[ACTION_DELETE]);
    buffer_append_text(&call->out, changes != NULL ? changes : "null");
    bool is_whole = changes != NULL;
    free(changes);
    if (!is_whole)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer");
    TRY(admin_change_end(call, answer->change, answer->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

static enum status import_note(struct admin_call *call, struct import *import,
                               struct tenant_change *change)
{
    char detail[128];
    struct tenants *tenants = auth_tenants(import->call.admin->auth);
    struct answer answer = {call, import, change, 0};
    TRY(tenants_audit_last(tenants, &answer.revision));
    answer.revision++; /* the id of the audit row that is added below */
    change->answer_revision = answer.revision;
    change->answer = answer_make;
    change->context = &answer;
    change->answer_code = call->code = 200;
    snprintf(detail, sizeof detail, "{\"created\":%d,\"updated\":%d,\"deleted\":%d}",
             import->counts[ACTION_CREATE], import->counts[ACTION_UPDATE],
             import->counts[ACTION_DELETE]);
    return tenants_audit_add(tenants, change, "config.imported", SLICE("config"), slice_of(detail));
}

static enum status import_try(struct admin_call *call, struct import *import,
                              struct tenant_change *change)
{
    int64_t revision = 0;
    TRY(tenants_audit_last(auth_tenants(import->call.admin->auth), &revision));
    TRY(admin_change_check_revision(change, revision));
    TRY(import_rows(import));
    return import_note(call, import, change);
}

static enum status import_run(struct admin_call *call, struct import *import)
{
    struct tenant_change change;
    struct auth *copy = NULL;
    /* The members that the worker may read; the loop writes the others. */
    struct admin admin = {.jwks_hosts = call->admin->jwks_hosts,
                          .auth = call->admin->auth,
                          .prompts = call->admin->prompts};
    TRY(admin_change_begin(call, &change));
    TRY(import_parse(call, import));
    TRY(auth_copy_begin(admin.auth, &copy));
    admin.auth = copy;
    import->call = (struct admin_call){
        .admin = &admin, .principal = call->principal, .actor = call->actor, .model = call->model};
    import->changes = json_array();
    enum status status = import_try(call, import, &change);
    const struct error_note note = *status_note();
    enum status ended =
        auth_copy_end(call->admin->auth, copy, status == STATUS_OK && !change.is_dry_run);
    if (status == STATUS_OK)
        return ended;
    status_note_set(&note);
    return status;
}

static void import_over(struct admin_call *call)
{
    admin_prompts_over(call);
    admin_tenants_over(call);
}

enum status admin_import_post(struct admin_call *call)
{
    struct import import = {.document = NULL};
    call->over = import_over;
    enum status status = import_run(call, &import);
    admin_export_drop(import.kinds);
    json_decref(import.changes);
    json_decref(import.document);
    return status;
}
