#include "gateway/admin/admin_limits.h"

#include "auth/limits/quota_limits_key.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* --- rendering: objects without their closing brace --- */

static void render_limits(struct admin *admin, const struct quota_tenant *limits,
                          struct buffer *out)
{
    struct quota_plan plan = {0};
    struct quota_limits_set effective = {0};
    buffer_printf(out, "{\"object\":\"limits\",\"tenant_id\":\"%s\",\"plan\":", limits->tenant_id);
    if (limits->plan_id[0] != '\0')
        buffer_append_json_string(out, slice_of(limits->plan_id));
    else
        buffer_append_text(out, "null");
    quota_limits_append(&limits->set, false, out);
    quota_limits_append_class(&limits->set, false, out);
    if (limits->plan_id[0] != '\0' &&
        quota_limits_plan_get(auth_tenants(admin->auth), slice_of(limits->plan_id), &plan) ==
            STATUS_OK)
        quota_limits_over(&effective, &plan.set);
    quota_limits_over(&effective, &limits->set);
    buffer_printf(out, ",\"revision\":%lld,\"effective\":{\"object\":\"limits.effective\"",
                  (long long)limits->revision);
    quota_limits_append(&effective, true, out);
    quota_limits_append_class(&effective, true, out);
    buffer_append_char(out, '}');
}

static void render_plan(const struct quota_plan *plan, struct buffer *out)
{
    buffer_printf(out, "{\"id\":\"%s\",\"object\":\"plan\",\"name\":", plan->id);
    buffer_append_json_string(out, slice_of(plan->name));
    quota_limits_append(&plan->set, false, out);
    quota_limits_append_class(&plan->set, false, out);
    buffer_printf(out, ",\"tenants\":%u,\"created_at\":%lld,\"revision\":%lld", plan->tenants,
                  (long long)plan->created_at_s, (long long)plan->revision);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    (void)context;
    render_plan(row, out);
    buffer_append_char(out, '}');
}

/* --- fields --- */

/* One field for each limit, then these. A key has the fields before the weight. */
enum {
    FIELD_PERCENT = QUOTA_LIMITS,
    FIELD_ON_LIMIT,
    FIELD_DEFAULT_CLASS,
    FIELD_BEST_CLASS,
    FIELD_WEIGHT,
    FIELDS_OF_KEY = FIELD_WEIGHT,
    FIELD_NAME_OR_PLAN,
    FIELDS
};

/* The class plus 1, as in quota_limits_set; 0 for an unknown word. */
static uint32_t find_class(struct slice word)
{
    enum service_class found;
    return service_class_from_name(word, &found) ? (uint32_t)found + 1 : 0;
}

static void fields_init(struct admin_body_field fields[FIELDS])
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        const struct quota_limits_form *form = quota_limits_form((enum quota_limit)i);
        fields[i] = (struct admin_body_field){
            .name = form->member, .kind = ADMIN_BODY_LIMIT, .least = 1, .most = form->most};
    }
    fields[FIELD_PERCENT] = (struct admin_body_field){
        .name = "cached_input_percent", .kind = ADMIN_BODY_NUMBER_OR_NULL, .most = 100};
    fields[FIELD_ON_LIMIT] = (struct admin_body_field){.name = "on_limit",
                                                       .kind = ADMIN_BODY_WORD_OR_NULL,
                                                       .find = quota_limits_find_on_limit,
                                                       .words = "stop, lower_class"};
    fields[FIELD_WEIGHT] = (struct admin_body_field){
        .name = "weight", .kind = ADMIN_BODY_NUMBER_OR_NULL, .least = 1, .most = LIMIT_WEIGHT};
    fields[FIELD_DEFAULT_CLASS] = (struct admin_body_field){.name = "default_class",
                                                            .kind = ADMIN_BODY_WORD_OR_NULL,
                                                            .find = find_class,
                                                            .words = "realtime, standard, batch"};
    fields[FIELD_BEST_CLASS] = fields[FIELD_DEFAULT_CLASS];
    fields[FIELD_BEST_CLASS].name = "best_class";
}

static struct quota_limits_set fields_set(const struct admin_body_field fields[FIELDS])
{
    const struct admin_body_field *percent = &fields[FIELD_PERCENT];
    struct quota_limits_set set = {
        .cached_percent = percent->is_given && !percent->is_null ? (int32_t)percent->number : -1,
        .on_limit = (enum quota_on_limit)fields[FIELD_ON_LIMIT].number,
        .weight = (uint32_t)fields[FIELD_WEIGHT].number,
        .default_class = (uint8_t)fields[FIELD_DEFAULT_CLASS].number,
        .best_class = (uint8_t)fields[FIELD_BEST_CLASS].number};
    for (int i = 0; i < QUOTA_LIMITS; i++)
        set.values[i] = (struct quota_limits_value){fields[i].number, fields[i].is_shadow};
    return set;
}

/* --- limits of a tenant --- */

static enum status put_read(struct admin_call *call, struct admin_body_field fields[FIELDS])
{
    struct tenant_change change;
    struct quota_tenant out;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    const struct admin_body_field *plan = &fields[FIELD_NAME_OR_PLAN];
    struct quota_tenant wanted = {.set = fields_set(fields)};
    size_t length = strlen(plan->text);
    bool is_none = !plan->is_given || plan->is_null;
    if (length >= sizeof wanted.plan_id || (length == 0) != is_none)
        FAIL_PARAM(STATUS_NOT_FOUND, "plan", "There is no plan with this id.");
    memcpy(wanted.plan_id, plan->text, length + 1);
    TRY(quota_limits_put(auth_tenants(call->admin->auth), &change, call->arguments[0], &wanted,
                         &out));
    render_limits(call->admin, &out, &call->out);
    return admin_change_end(call, &change, out.revision);
}

enum status admin_limits_put(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS];
    fields_init(fields);
    fields[FIELD_NAME_OR_PLAN] = (struct admin_body_field){
        .name = "plan", .kind = ADMIN_BODY_TEXT_OR_NULL, .most = LIMIT_NAME_BYTES - 1};
    enum status status = put_read(call, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_limits_get(struct admin_call *call)
{
    struct admin_query query;
    struct quota_tenant limits;
    TRY(admin_query_read(call->query, 0, &query));
    TRY(quota_limits_get(auth_tenants(call->admin->auth), call->arguments[0], &limits));
    call->revision = limits.revision; /* no 304: the plan changes without a new revision here */
    render_limits(call->admin, &limits, &call->out);
    buffer_append_char(&call->out, '}');
    return call->out.status;
}

/* --- limits of a key --- */

static void render_key(const struct quota_key_limits *limits, struct buffer *out)
{
    buffer_printf(out, "{\"object\":\"key.limits\",\"tenant_id\":\"%s\",\"key_id\":\"%s\"",
                  limits->tenant_id, limits->key_id);
    quota_limits_append(&limits->set, false, out);
    quota_limits_append_classes(&limits->set, false, out);
    buffer_printf(out, ",\"revision\":%lld", (long long)limits->revision);
}

/* NOT_FOUND unless requests of the tenant can come with this key, or with tokens of this issuer. */
static enum status key_check(struct admin_call *call)
{
    struct principal principal = {0};
    struct tenant_key key;
    if (call->arguments[0].length >= sizeof principal.tenant_id ||
        call->arguments[1].length >= sizeof principal.key_id || call->arguments[0].length == 0)
        FAIL(STATUS_NOT_FOUND, "There is no key with this id.");
    memcpy(principal.tenant_id, call->arguments[0].bytes, call->arguments[0].length);
    memcpy(principal.key_id, call->arguments[1].bytes, call->arguments[1].length);
    return auth_key_about(call->admin->auth, &principal, &key);
}

static enum status key_put_read(struct admin_call *call, struct admin_body_field *fields)
{
    struct tenant_change change;
    struct quota_key_limits out;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS_OF_KEY));
    TRY(key_check(call));
    const struct quota_limits_set set = fields_set(fields);
    TRY(quota_limits_key_put(auth_tenants(call->admin->auth), &change, call->arguments[0],
                             call->arguments[1], &set, &out));
    render_key(&out, &call->out);
    return admin_change_end(call, &change, out.revision);
}

enum status admin_limits_key_put(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS];
    fields_init(fields);
    enum status status = key_put_read(call, fields);
    admin_body_free(fields, FIELDS_OF_KEY);
    return status;
}

enum status admin_limits_key_get(struct admin_call *call)
{
    struct admin_query query;
    struct quota_key_limits limits;
    TRY(admin_query_read(call->query, 0, &query));
    TRY(key_check(call));
    TRY(quota_limits_key_get(auth_tenants(call->admin->auth), call->arguments[0],
                             call->arguments[1], &limits));
    call->revision = limits.revision;
    render_key(&limits, &call->out);
    buffer_append_char(&call->out, '}');
    return call->out.status;
}

/* --- plans --- */

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct quota_plan *plan;
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    render_plan(answer->plan, &answer->call->out);
    TRY(admin_change_end(answer->call, answer->change, answer->plan->revision));
    *out = buffer_slice(&answer->call->out);
    return STATUS_OK;
}

static enum status plan_read(struct admin_call *call, struct admin_body_field fields[FIELDS],
                             bool is_new)
{
    struct quota_plan plan;
    struct tenant_change change;
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    struct quota_plan_fields given = {.has_percent = fields[FIELD_PERCENT].is_given,
                                      .has_on_limit = fields[FIELD_ON_LIMIT].is_given,
                                      .has_weight = fields[FIELD_WEIGHT].is_given,
                                      .has_default_class = fields[FIELD_DEFAULT_CLASS].is_given,
                                      .has_best_class = fields[FIELD_BEST_CLASS].is_given,
                                      .set = fields_set(fields)};
    if (fields[FIELD_NAME_OR_PLAN].is_given)
        given.name = slice_of(fields[FIELD_NAME_OR_PLAN].text);
    for (int i = 0; i < QUOTA_LIMITS; i++)
        given.given |= fields[i].is_given ? 1u << i : 0;
    struct answer answer = {call, &change, &plan};
    struct slice answered;
    if (!is_new) {
        TRY(quota_limits_plan_update(tenants, &change, call->arguments[0], &given, &plan));
        return answer_make(&answer, &answered);
    }
    change.answer = answer_make;
    change.context = &answer;
    return quota_limits_plan_create(tenants, &change, &given, &plan);
}

static enum status plan_change(struct admin_call *call, bool is_new)
{
    struct admin_body_field fields[FIELDS];
    fields_init(fields);
    fields[FIELD_NAME_OR_PLAN] = (struct admin_body_field){.name = "name",
                                                           .kind = ADMIN_BODY_TEXT,
                                                           .is_required = is_new,
                                                           .most = LIMIT_NAME_BYTES - 1};
    enum status status = plan_read(call, fields, is_new);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_limits_plan_create(struct admin_call *call)
{
    return plan_change(call, true);
}

enum status admin_limits_plan_update(struct admin_call *call)
{
    return plan_change(call, false);
}

enum status admin_limits_plan_delete(struct admin_call *call)
{
    struct quota_plan plan;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(quota_limits_plan_delete(auth_tenants(call->admin->auth), &change, call->arguments[0],
                                 &plan));
    struct answer answer = {call, &change, &plan};
    return answer_make(&answer, &answered);
}

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return quota_limits_plan_list(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_limits_plan_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct quota_plan), list_page, NULL, render_row,
                                             auth_tenants(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_limits_plan_get(struct admin_call *call)
{
    struct admin_query query;
    struct quota_plan plan;
    TRY(admin_query_read(call->query, 0, &query));
    TRY(quota_limits_plan_get(auth_tenants(call->admin->auth), call->arguments[0], &plan));
    call->revision = plan.revision; /* no 304: "tenants" changes without a new revision */
    render_row(NULL, &plan, &call->out);
    return call->out.status;
}
