#include "gateway/admin/admin_export.h"

#include <stdio.h>
#include <stdlib.h>

#include "auth/tenants/certificate.h"
#include "auth/tenants/issuer.h"
#include "config/base/clock.h"
#include "config/base/mem.h"
#include "gateway/admin/admin_certificates.h"
#include "gateway/admin/admin_groups.h"
#include "gateway/admin/admin_issuers.h"
#include "gateway/admin/admin_limits.h"
#include "gateway/admin/admin_prices.h"
#include "gateway/admin/admin_prompts.h"
#include "gateway/admin/admin_query.h"
#include "gateway/admin/admin_tenants.h"

/* A certificate that expires during an import would make the import fail. */
enum { EXPIRES_SOON_S = 60 };

const struct admin_export_row admin_export_rows[ADMIN_EXPORT_KINDS] = {
#define EXPORT(member, list, create, update, remove, scope, without)                               \
    {#member, list, create, update, remove, scope, without},
#include "gateway/admin/admin_export.def"
#undef EXPORT
};

static enum status no_memory(void)
{
    FAIL(STATUS_NO_MEMORY, "no memory for an export");
}

/* --- calls within a call --- */

static enum status call_run(struct admin_call *call, admin_function function, json_t **answer)
{
    TRY(function(call));
    TRY(call->out.status);
    *answer = json_loadb(call->out.bytes, call->out.length, 0, NULL);
    return *answer != NULL ? STATUS_OK : no_memory();
}

static enum status call_make(struct admin_call *call, admin_function function, const char *method,
                             const struct admin_owner *about, const char *query, const json_t *body,
                             json_t **answer)
{
    bool is_owned = about->tenant_id.length > 0;
    struct admin_call inner = {
        .admin = call->admin,
        .principal = call->principal,
        .actor = call->actor,
        .model = call->model,
        .method = slice_of(method),
        .path = is_owned ? SLICE("/admin/v1/tenants/") : SLICE("/admin/v1/certificates"),
        .arguments = {is_owned ? about->tenant_id : about->id, is_owned ? about->id : SLICE("")},
        .query = slice_of(query),
        .code = 200};
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    *answer = NULL;
    if (body != NULL && text == NULL)
        return no_memory();
    if (text != NULL)
        inner.body = slice_of(text);
    buffer_init(&inner.out, LIMIT_ADMIN_ANSWER_BYTES);
    enum status status = call_run(&inner, function, answer);
    buffer_deinit(&inner.out);
    if (text != NULL) /* a key set may be in it */
        explicit_bzero(text, strlen(text));
    free(text);
    return status;
}

enum status admin_export_call(struct admin_call *call, admin_function function, const char *method,
                              const char *argument, const json_t *body, json_t **answer)
{
    return admin_export_call_owned(call, function, method, "", argument, body, answer);
}

enum status admin_export_call_owned(struct admin_call *call, admin_function function,
                                    const char *method, const char *tenant_id, const char *id,
                                    const json_t *body, json_t **answer)
{
    const struct admin_owner about = {slice_of(tenant_id), slice_of(id != NULL ? id : "")};
    return call_make(call, function, method, &about, "", body, answer);
}

/* --- rows --- */

static const char *text_of(const json_t *row, const char *member)
{
    const char *text = json_string_value(json_object_get(row, member));
    return text != NULL ? text : "";
}

const char *admin_export_id(const json_t *kind, const char *name)
{
    return json_string_value(json_object_get(json_object_get(kind, name), "id"));
}

/* Writes a name such as "uri/spiffe://…"; false unless the certificate has exactly one such
 * member. */
static bool certificate_name(const json_t *item, char out[ADMIN_EXPORT_NAME_BYTES])
{
    size_t found = 0;
    for (int i = CERTIFICATE_FINGERPRINT; i <= CERTIFICATE_DNS; i++) {
        const char *member = certificate_match_name((enum certificate_match)i);
        const char *value = json_string_value(json_object_get(item, member));
        if (value == NULL || strlen(value) >= LIMIT_PEER_NAME_BYTES)
            continue;
        snprintf(out, ADMIN_EXPORT_NAME_BYTES, "%s/%s", member, value);
        found++;
    }
    return found == 1;
}

bool admin_export_name(enum admin_export_kind kind, const json_t *item,
                       char out[ADMIN_EXPORT_NAME_BYTES])
{
    const json_t *moment = json_object_get(item, "effective_at");
    const char *name = json_string_value(json_object_get(item, "name"));
    if (kind == ADMIN_EXPORT_certificates)
        return certificate_name(item, out);
    if (kind == ADMIN_EXPORT_prices && json_is_integer(moment))
        snprintf(out, ADMIN_EXPORT_NAME_BYTES, "%.127s/%.127s/%.127s/%012lld",
                 text_of(item, "plan"), text_of(item, "model"), text_of(item, "class"),
                 (long long)json_integer_value(moment));
    else if (kind != ADMIN_EXPORT_prices && name != NULL)
        snprintf(out, ADMIN_EXPORT_NAME_BYTES, "%s", name);
    else
        return false;
    return kind == ADMIN_EXPORT_prices || strlen(name) < LIMIT_NAME_BYTES;
}

static void drop_words(json_t *item, const char *words)
{
    char word[32];
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        json_object_del(item, word);
        words += length + strspn(words + length, " ");
    }
}

/* Makes {id: name} for the rows of a kind. */
static json_t *names_of(json_t *kind)
{
    json_t *names = json_object();
    const char *name;
    json_t *entry;
    json_object_foreach(kind, name, entry)
        json_object_set_new(names, text_of(entry, "id"), json_string(name));
    return names;
}

/* Replaces ids of plans by names, and gives each price a name. Prices of deleted plans are
 * removed. */
static void name_prices(json_t *rows, json_t *plans)
{
    char key[ADMIN_EXPORT_NAME_BYTES];
    json_t *names = names_of(plans);
    for (size_t i = json_array_size(rows); i-- > 0;) {
        json_t *row = json_array_get(rows, i);
        const char *id = json_string_value(json_object_get(row, "plan"));
        json_t *name = id != NULL ? json_object_get(names, id) : NULL;
        if (id != NULL && name == NULL) {
            json_array_remove(rows, i);
            continue;
        }
        if (name != NULL)
            json_object_set(row, "plan", name);
        (void)admin_export_name(ADMIN_EXPORT_prices, row, key);
        json_object_set_new(row, "name", json_string(key));
    }
    json_decref(names);
}

bool admin_export_is_over(const json_t *certificate)
{
    json_int_t expires_s = json_integer_value(json_object_get(certificate, "expires_at"));
    return expires_s > 0 && expires_s <= clock_wall_us(clock_system()) / 1000000 + EXPIRES_SOON_S;
}

/* Gives a certificate its name and its tenant's name; false when the export leaves it out. A
 * revoked fingerprint is exported with "revoked": true, because it can never be accepted again.
 * Other revoked rows are left out. */
static bool name_certificate(json_t *row, const json_t *names)
{
    char key[ADMIN_EXPORT_NAME_BYTES];
    const char *id = json_string_value(json_object_get(row, "tenant_id"));
    json_t *name = id != NULL ? json_object_get(names, id) : json_null();
    bool is_revoked = !json_is_null(json_object_get(row, "revoked_at"));
    if (name == NULL || !certificate_name(row, key) ||
        (is_revoked && json_is_null(json_object_get(row, "fingerprint"))))
        return false;
    json_object_set(row, "tenant", name);
    json_object_set_new(row, "name", json_string(key));
    if (is_revoked) {
        json_object_set_new(row, "revoked", json_true());
        json_object_del(row, "expires_at");
    } else if (admin_export_is_over(row)) {
        json_object_set_new(row, "expired", json_true());
    }
    drop_words(row, "tenant_id revoked_at");
    for (int i = CERTIFICATE_FINGERPRINT; i <= CERTIFICATE_DNS; i++) {
        const char *member = certificate_match_name((enum certificate_match)i);
        if (json_is_null(json_object_get(row, member)))
            json_object_del(row, member);
    }
    return true;
}

static void name_certificates(json_t *rows, json_t *tenants)
{
    json_t *names = names_of(tenants);
    for (size_t i = json_array_size(rows); i-- > 0;) {
        if (!name_certificate(json_array_get(rows, i), names))
            json_array_remove(rows, i);
    }
    json_decref(names);
}

/* Reads all pages of a list into `rows`, archived rows too. */
static enum status rows_read(struct admin_call *call, admin_function list, json_t *rows)
{
    char query[64 + LIMIT_ID_BYTES] = "limit=100";
    bool has_more = true;
    while (has_more) {
        json_t *page = NULL;
        TRY(call_make(call, list, "GET", &(struct admin_owner){{0}, {0}}, query, NULL, &page));
        has_more = json_is_true(json_object_get(page, "has_more"));
        snprintf(query, sizeof query, "limit=100&after=%.40s", text_of(page, "last_id"));
        int failed = json_array_extend(rows, json_object_get(page, "data"));
        json_decref(page);
        if (failed != 0)
            return no_memory();
    }
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(text_of(*(json_t *const *)a, "name"), text_of(*(json_t *const *)b, "name"));
}

/* Fills `kind` with {name: {"id":…,"item":row}}, sorted by name, without archived rows. */
static enum status rows_sort(const json_t *rows, const char *without, json_t *kind)
{
    size_t count = json_array_size(rows);
    json_t **order = mem_zalloc(count + 1, sizeof(json_t *));
    if (order == NULL)
        return no_memory();
    for (size_t i = 0; i < count; i++)
        order[i] = json_array_get(rows, i);
    qsort(order, count, sizeof(json_t *), compare_names);
    int failed = 0;
    for (size_t i = 0; i < count && failed == 0; i++) {
        json_t *row = order[i];
        json_t *id = json_incref(json_object_get(row, "id"));
        if (strcmp(text_of(row, "state"), "archived") != 0) {
            failed = json_object_set_new(kind, text_of(row, "name"),
                                         json_pack("{s:O,s:O}", "id", id, "item", row));
            drop_words(row, "id object created_at revision");
            drop_words(row, without);
        }
        json_decref(id);
    }
    mem_free(order);
    return failed == 0 ? STATUS_OK : no_memory();
}

/* --- what items have beside their rows --- */

static enum status fill_limits(struct admin_call *call, json_t *entry, json_t *const names[])
{
    json_t *limits = NULL;
    TRY(admin_export_call(call, admin_limits_get, "GET", text_of(entry, "id"), NULL, &limits));
    json_t *plan = json_object_get(names[ADMIN_EXPORT_plans], text_of(limits, "plan"));
    const char *member;
    json_t *value;
    void *next;
    if (plan != NULL)
        json_object_set(limits, "plan", plan);
    drop_words(limits, "object tenant_id revision effective");
    json_object_foreach_safe(limits, next, member, value)
    {
        if (json_is_null(value))
            json_object_del(limits, member);
    }
    json_object_set_new(json_object_get(entry, "item"), "limits", limits);
    return STATUS_OK;
}

/* Replaces tenants' ids by names and adds the key set. Archived tenants, which have no name, are
 * left out. */
static enum status fill_issuer(struct admin_call *call, json_t *entry, json_t *const names[])
{
    json_t *item = json_object_get(entry, "item");
    json_t *tenants = json_object_get(item, "tenants");
    const char *member;
    json_t *value;
    void *next;
    json_object_foreach_safe(tenants, next, member, value)
    {
        json_t *name = json_object_get(names[ADMIN_EXPORT_tenants], json_string_value(value));
        if (name != NULL)
            json_object_set(tenants, member, name);
        else
            json_object_del(tenants, member);
    }
    json_object_foreach_safe(item, next, member, value)
    {
        if (json_is_null(value))
            json_object_del(item, member);
    }
    struct buffer keys;
    buffer_init(&keys, LIMIT_JWKS_BYTES + 1024);
    issuer_append_keys(auth_issuers(call->admin->auth), slice_of(text_of(entry, "id")), &keys);
    if (keys.length > 0)
        json_object_set_new(item, "jwks", json_loadb(keys.bytes, keys.length, 0, NULL));
    buffer_deinit(&keys);
    return keys.status;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

static enum status fill_prompt(struct admin_call *call, json_t *entry, json_t *const names[])
{
    json_t *item = json_object_get(entry, "item");
    json_t *whole = NULL;
    json_t *sorted[LIMIT_PROMPT_GRANTS];
    const json_t *ids = json_object_get(item, "tenants");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(ids) && count < LIMIT_PROMPT_GRANTS; i++) {
        json_t *name =
            json_object_get(names[ADMIN_EXPORT_tenants], json_string_value(json_array_get(ids, i)));
        if (name != NULL)
            sorted[count++] = name;
    }
    qsort(sorted, count, sizeof sorted[0], compare_texts);
    json_t *tenants = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append(tenants, sorted[i]);
    json_object_set_new(item, "tenants", tenants);
    TRY(admin_export_call(call, admin_prompts_get, "GET", text_of(entry, "id"), NULL, &whole));
    json_t *messages = json_object_get(whole, "messages");
    if (messages != NULL)
        json_object_set(item, "messages", messages);
    else
        json_object_set(item, "text", json_object_get(whole, "text"));
    json_decref(whole);
    return STATUS_OK;
}

static enum status fill_kind(struct admin_call *call, json_t *const kinds[],
                             enum admin_export_kind kind, json_t *const names[])
{
    static enum status (*const fill[ADMIN_EXPORT_KINDS])(struct admin_call *, json_t *,
                                                         json_t *const[]) = {
        [ADMIN_EXPORT_tenants] = fill_limits,
        [ADMIN_EXPORT_issuers] = fill_issuer,
        [ADMIN_EXPORT_shared_prompts] = fill_prompt};
    const char *name;
    json_t *entry;
    if (fill[kind] == NULL)
        return STATUS_OK;
    json_object_foreach(kinds[kind], name, entry) TRY(fill[kind](call, entry, names));
    return STATUS_OK;
}

enum status admin_export_read(struct admin_call *call, json_t *kinds[ADMIN_EXPORT_KINDS])
{
    enum status status = STATUS_OK;
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++)
        kinds[i] = json_object();
    for (int i = 0; i < ADMIN_EXPORT_KINDS && status == STATUS_OK; i++) {
        json_t *rows = json_array();
        status = rows_read(call, admin_export_rows[i].list, rows);
        if (status == STATUS_OK && i == ADMIN_EXPORT_prices)
            name_prices(rows, kinds[ADMIN_EXPORT_plans]);
        if (status == STATUS_OK && i == ADMIN_EXPORT_certificates)
            name_certificates(rows, kinds[ADMIN_EXPORT_tenants]);
        if (status == STATUS_OK)
            status = rows_sort(rows, admin_export_rows[i].without, kinds[i]);
        json_decref(rows);
    }
    json_t *names[ADMIN_EXPORT_KINDS];
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++)
        names[i] = names_of(kinds[i]);
    for (int i = 0; i < ADMIN_EXPORT_KINDS && status == STATUS_OK; i++)
        status = fill_kind(call, kinds, (enum admin_export_kind)i, names);
    admin_export_drop(names);
    return status;
}

void admin_export_drop(json_t *kinds[ADMIN_EXPORT_KINDS])
{
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++)
        json_decref(kinds[i]);
}

/* --- the document --- */

static json_t *document_make(json_t *const kinds[ADMIN_EXPORT_KINDS])
{
    json_t *document = json_pack("{s:s,s:i}", "object", "config_export", "version", 1);
    for (int i = 0; i < ADMIN_EXPORT_KINDS; i++) {
        json_t *list = json_array();
        const char *name;
        json_t *entry;
        json_object_foreach(kinds[i], name, entry)
        {
            json_t *item = json_object_get(entry, "item");
            if (!json_is_true(json_object_get(item, "expired")))
                json_array_append(list, item);
        }
        json_object_set_new(document, admin_export_rows[i].member, list);
    }
    return document;
}

enum status admin_export_get(struct admin_call *call)
{
    struct admin_query query;
    json_t *kinds[ADMIN_EXPORT_KINDS] = {NULL};
    json_t *document = NULL;
    char *text = NULL;
    TRY(admin_query_read(call->query, 0, &query));
    enum status status = tenants_audit_last(auth_tenants(call->admin->auth), &call->revision);
    if (status == STATUS_OK)
        status = admin_export_read(call, kinds);
    if (status == STATUS_OK) {
        document = document_make(kinds);
        text = json_dumps(document, JSON_INDENT(2));
        status = text != NULL ? STATUS_OK : no_memory();
    }
    buffer_deinit(&call->out);
    buffer_init(&call->out, LIMIT_ADMIN_IMPORT_BYTES);
    if (status == STATUS_OK) {
        buffer_append_text(&call->out, text);
        buffer_append_char(&call->out, '\n');
        status = call->out.status;
    }
    free(text);
    json_decref(document);
    admin_export_drop(kinds);
    return status;
}
