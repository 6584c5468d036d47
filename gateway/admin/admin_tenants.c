#include "gateway/admin/admin_tenants.h"

#include <jansson.h>
#include <stdio.h>

#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"
#include "gateway/edge/request/edge_job.h"

/* Appends the object without its closing brace. `metadata` is JSON. */
static void render_members(const struct tenant *tenant, struct slice metadata, struct buffer *out)
{
    static const char *const states[] = {"active", "suspended", "archived"};
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(tenant->id));
    buffer_append_text(out, ",\"object\":\"tenant\",\"name\":");
    buffer_append_json_string(out, slice_of(tenant->name));
    buffer_printf(out, ",\"state\":\"%s\",\"weight\":%u,\"group\":", states[tenant->state],
                  tenant->weight);
    buffer_append_json_string(out, slice_of(tenant->group));
    buffer_printf(out,
                  ",\"share\":\"%s\",\"cache_share\":%u,\"default_class\":\"%s\","
                  "\"best_class\":\"%s\",\"models\":",
                  tenant_share_name(tenant->share), tenant->cache_share,
                  service_class_name(tenant->default_class),
                  service_class_name(tenant->best_class));
    tenant_models_append(tenant, out);
    buffer_append_text(out, ",\"metadata\":");
    buffer_append_slice(out, metadata);
    buffer_printf(out, ",\"created_at\":%lld,\"revision\":%lld", (long long)tenant->created_at_s,
                  (long long)tenant->revision);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    const struct tenant *tenant = row;
    struct buffer metadata;
    buffer_init(&metadata, LIMIT_METADATA_BYTES);
    tenants_metadata(context, slice_of(tenant->id), &metadata);
    if (metadata.status != STATUS_OK)
        out->status = metadata.status;
    render_members(tenant, buffer_slice(&metadata), out);
    buffer_append_char(out, '}');
    buffer_deinit(&metadata);
}

/* --- fields --- */

enum {
    FIELD_NAME,
    FIELD_WEIGHT,
    FIELD_STATE,
    FIELD_METADATA,
    FIELD_GROUP,
    FIELD_SHARE,
    FIELD_CACHE_SHARE,
    FIELD_DEFAULT_CLASS,
    FIELD_BEST_CLASS,
    FIELD_MODELS,
    FIELDS
};

/* The find functions return one bit for each word, as admin_body_field needs them. */
static uint32_t find_state(struct slice word)
{
    if (slice_is(word, "active"))
        return 1u << TENANT_ACTIVE;
    return slice_is(word, "suspended") ? 1u << TENANT_SUSPENDED : 0;
}

static uint32_t find_share(struct slice word)
{
    if (slice_is(word, "private"))
        return 1u << TENANT_SHARE_PRIVATE;
    return slice_is(word, "group") ? 1u << TENANT_SHARE_GROUP : 0;
}

static uint32_t find_class(struct slice word)
{
    enum service_class found;
    return service_class_from_name(word, &found) ? 1u << found : 0;
}

/* The class of a field; any class when it is not given. */
static enum service_class class_given(const struct admin_body_field *field)
{
    enum service_class at = SERVICE_CLASS_REALTIME;
    while (at + 1 < SERVICE_CLASS_COUNT && field->number != 1u << at)
        at++;
    return at;
}

static void fields_init(struct admin_body_field fields[FIELDS], bool is_new)
{
    fields[FIELD_NAME] = (struct admin_body_field){.name = "name",
                                                   .kind = ADMIN_BODY_TEXT,
                                                   .is_required = is_new,
                                                   .most = LIMIT_NAME_BYTES - 1};
    fields[FIELD_WEIGHT] = (struct admin_body_field){
        .name = "weight", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = LIMIT_WEIGHT};
    fields[FIELD_STATE] = (struct admin_body_field){
        .name = "state", .kind = ADMIN_BODY_WORD, .find = find_state, .words = "active, suspended"};
    fields[FIELD_METADATA] =
        (struct admin_body_field){.name = "metadata", .kind = ADMIN_BODY_PAIRS};
    fields[FIELD_GROUP] = (struct admin_body_field){
        .name = "group", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1};
    fields[FIELD_SHARE] = (struct admin_body_field){
        .name = "share", .kind = ADMIN_BODY_WORD, .find = find_share, .words = "private, group"};
    fields[FIELD_CACHE_SHARE] = (struct admin_body_field){
        .name = "cache_share", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = LIMIT_CACHE_SHARE};
    fields[FIELD_DEFAULT_CLASS] = (struct admin_body_field){.name = "default_class",
                                                            .kind = ADMIN_BODY_WORD,
                                                            .find = find_class,
                                                            .words = "realtime, standard, batch"};
    fields[FIELD_BEST_CLASS] = fields[FIELD_DEFAULT_CLASS];
    fields[FIELD_BEST_CLASS].name = "best_class";
    fields[FIELD_MODELS] = (struct admin_body_field){
        .name = "models", .kind = ADMIN_BODY_NAMES, .most = LIMIT_TENANT_MODELS};
}

static struct tenant_fields fields_given(const struct admin_body_field fields[FIELDS])
{
    static const unsigned bits[FIELDS] = {
        TENANT_NAME,  TENANT_WEIGHT,      TENANT_STATE,         TENANT_METADATA,   TENANT_GROUP,
        TENANT_SHARE, TENANT_CACHE_SHARE, TENANT_DEFAULT_CLASS, TENANT_BEST_CLASS, TENANT_MODELS};
    struct tenant_fields out = {
        .name = slice_of(fields[FIELD_NAME].text),
        .weight = (uint32_t)fields[FIELD_WEIGHT].number,
        .state =
            fields[FIELD_STATE].number == 1u << TENANT_SUSPENDED ? TENANT_SUSPENDED : TENANT_ACTIVE,
        .metadata = buffer_slice(&fields[FIELD_METADATA].json),
        .group = slice_of(fields[FIELD_GROUP].text),
        .share = fields[FIELD_SHARE].number == 1u << TENANT_SHARE_GROUP ? TENANT_SHARE_GROUP
                                                                        : TENANT_SHARE_PRIVATE,
        .cache_share = (uint32_t)fields[FIELD_CACHE_SHARE].number,
        .default_class = class_given(&fields[FIELD_DEFAULT_CLASS]),
        .best_class = class_given(&fields[FIELD_BEST_CLASS]),
        .models = buffer_slice(&fields[FIELD_MODELS].json)};
    for (size_t i = 0; i < FIELDS; i++)
        out.given |= fields[i].is_given ? bits[i] : 0;
    return out;
}

static bool models_has(struct slice models, const char *name)
{
    const size_t length = strlen(name);
    for (size_t at = 0; at < models.length;) {
        const char *end = memchr(models.bytes + at, '\n', models.length - at);
        const size_t line = end != NULL ? (size_t)(end - models.bytes) - at : models.length - at;
        if (line == length && memcmp(models.bytes + at, name, length) == 0)
            return true;
        at += line + 1;
    }
    return false;
}

/* Appends the name of a model as a line, the form that a tenant stores. A name that no engine
 * serves is refused; without an engine (`models` is empty) every name is accepted. */
static enum status models_add(struct slice models, size_t index, const char *name,
                              struct buffer *out)
{
    char where[STATUS_PARAM_BYTES];
    snprintf(where, sizeof where, "models[%zu]", index);
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            FAIL_PARAM(STATUS_INVALID, where, "%s has control characters.", where);
    }
    if (models.length > 0 && !models_has(models, name))
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, where, "No engine serves a model with this name.");
    buffer_append_text(out, name);
    buffer_append_char(out, '\n');
    return STATUS_OK;
}

/* Replaces the JSON of a given list by lines. */
static enum status models_read(const struct admin_call *call, struct admin_body_field *field)
{
    enum status status = STATUS_OK;
    if (!field->is_given)
        return STATUS_OK;
    json_t *list = json_loadb(field->json.bytes, field->json.length, 0, NULL);
    if (list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a body");
    buffer_clear(&field->json);
    for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++)
        status =
            models_add(call->model, i, json_string_value(json_array_get(list, i)), &field->json);
    json_decref(list);
    return status != STATUS_OK ? status : field->json.status;
}

/* --- changes --- */

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct tenant *tenant;
    struct slice metadata; /* bytes NULL = the stored one */
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    struct slice metadata = answer->metadata;
    struct buffer present;
    buffer_init(&present, LIMIT_METADATA_BYTES);
    if (metadata.bytes == NULL) {
        tenants_metadata(auth_tenants(call->admin->auth), slice_of(answer->tenant->id), &present);
        metadata = buffer_slice(&present);
    }
    render_members(answer->tenant, metadata, &call->out);
    if (present.status != STATUS_OK)
        call->out.status = present.status;
    buffer_deinit(&present);
    TRY(admin_change_end(call, answer->change, answer->tenant->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

static enum status create_read(struct admin_call *call, struct admin_body_field fields[FIELDS])
{
    struct tenant tenant;
    struct tenant_change change;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    TRY(models_read(call, &fields[FIELD_MODELS]));
    struct tenant_fields given = fields_given(fields);
    struct answer answer = {call, &change, &tenant, given.metadata};
    change.answer = answer_make;
    change.context = &answer;
    return tenants_create(auth_tenants(call->admin->auth), &change, &given, &tenant);
}

enum status admin_tenants_create(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS];
    fields_init(fields, true);
    enum status status = create_read(call, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

static enum status update_read(struct admin_call *call, struct admin_body_field fields[FIELDS])
{
    struct tenant tenant;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    TRY(models_read(call, &fields[FIELD_MODELS]));
    struct tenant_fields given = fields_given(fields);
    TRY(tenants_update(auth_tenants(call->admin->auth), &change, call->arguments[0], &given,
                       &tenant));
    struct answer answer = {call, &change, &tenant, given.metadata};
    return answer_make(&answer, &answered);
}

void admin_tenants_over(struct admin_call *call)
{
    if (call->admin->edge != NULL)
        edge_job_stop_closed(call->admin->edge);
}

enum status admin_tenants_update(struct admin_call *call)
{
    call->over = admin_tenants_over;
    struct admin_body_field fields[FIELDS];
    fields_init(fields, false);
    enum status status = update_read(call, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_tenants_archive(struct admin_call *call)
{
    struct tenant tenant;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    call->over = admin_tenants_over;
    TRY(tenants_archive(auth_tenants(call->admin->auth), &change, call->arguments[0], &tenant));
    struct answer answer = {call, &change, &tenant, {0}};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return tenants_list(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_tenants_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct tenant), list_page, NULL, render_row,
                                             auth_tenants(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_tenants_get(struct admin_call *call)
{
    struct admin_query query;
    struct tenant tenant;
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_query_read(call->query, 0, &query));
    TRY(tenants_get(tenants, call->arguments[0], &tenant));
    if (!admin_change_is_known(call, tenant.revision))
        render_row(tenants, &tenant, &call->out);
    return call->out.status;
}
