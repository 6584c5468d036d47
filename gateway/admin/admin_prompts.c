#include "gateway/admin/admin_prompts.h"

#include <jansson.h>

#include "config/base/mem.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* --- rendering --- */

enum { GRANT_TENANTS, GRANT_GROUPS, GRANT_KINDS };
static const char *const grant_members[GRANT_KINDS] = {"tenants", "groups"};

static void render_grants(const struct tenant_prompt_grant *grants, size_t count, int kind,
                          struct buffer *out)
{
    bool is_first = true;
    buffer_printf(out, ",\"%s\":[", grant_members[kind]);
    for (size_t i = 0; i < count; i++) {
        const char *name = kind == GRANT_TENANTS ? grants[i].tenant_id : grants[i].group;
        if (name[0] == '\0')
            continue;
        if (!is_first)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, slice_of(name));
        is_first = false;
    }
    buffer_append_char(out, ']');
}

static void render_number(const char *member, bool is_there, uint64_t number, struct buffer *out)
{
    if (is_there)
        buffer_printf(out, ",\"%s\":%llu", member, (unsigned long long)number);
    else
        buffer_printf(out, ",\"%s\":null", member);
}

static const char *render_state(struct admin *admin, const struct tenant_prompt *prompt,
                                struct edge_prompts_figures *figures)
{
    static const char *const words[] = {"publishing", "published", "failed", "publishing"};
    *figures = (struct edge_prompts_figures){0};
    if (tenant_prompt_is_expired(prompt, clock_wall_us(clock_system()) / 1000000))
        return "expired";
    (void)edge_prompts_look(admin->prompts, prompt->domain, figures);
    return words[figures->state];
}

/* Values that are not those of the directory and the engine. */
struct rendering {
    const struct tenant_prompt_grant *grants; /* NULL = those of the directory */
    size_t grant_count;
    uint32_t tokens; /* of a dry run, of which the engine keeps nothing; else 0 */
    uint32_t pages;  /* the same */
};

/* Appends the object without its closing brace. */
static void render_members(struct admin *admin, const struct tenant_prompt *prompt,
                           const struct rendering *rendering, struct buffer *out)
{
    const struct tenant_prompt_grant *grants = rendering->grants;
    size_t grant_count = rendering->grant_count;
    struct edge_prompts_figures figures;
    struct tenant_prompt_grant *own = mem_zalloc(LIMIT_PROMPT_GRANTS, sizeof *own);
    if (own == NULL) {
        out->status = STATUS_NO_MEMORY;
        return;
    }
    if (grants == NULL) {
        grant_count = tenant_prompt_grants(auth_tenants(admin->auth), slice_of(prompt->id), own);
        grants = own;
    }
    const char *state = render_state(admin, prompt, &figures);
    if (figures.tokens == 0) {
        figures.tokens = rendering->tokens;
        figures.pages = rendering->pages;
    }
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(prompt->id));
    buffer_append_text(out, ",\"object\":\"shared_prompt\",\"name\":");
    buffer_append_json_string(out, slice_of(prompt->name));
    buffer_printf(out, ",\"state\":\"%s\",\"error\":", state);
    if (figures.error[0] != '\0')
        buffer_append_json_string(out, slice_of(figures.error));
    else
        buffer_append_text(out, "null");
    render_number("tokens", figures.tokens != 0, figures.tokens, out);
    render_number("pages", figures.pages != 0, figures.pages, out);
    render_number("hits", true, figures.hits, out);
    render_number("hit_tokens", true, figures.hit_tokens, out);
    render_grants(grants, grant_count, GRANT_TENANTS, out);
    render_grants(grants, grant_count, GRANT_GROUPS, out);
    render_number("pin_until", prompt->pin_until_s != 0, (uint64_t)prompt->pin_until_s, out);
    buffer_printf(out, ",\"version\":%lld,\"created_at\":%lld,\"revision\":%lld",
                  (long long)prompt->version, (long long)prompt->created_at_s,
                  (long long)prompt->revision);
    mem_free(own);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    const struct rendering rendering = {0};
    render_members(context, row, &rendering, out);
    buffer_append_char(out, '}');
}

/* --- fields --- */

enum { FIELD_NAME, FIELD_PIN_UNTIL, FIELD_TENANTS, FIELD_GROUPS, FIELD_MESSAGES, FIELD_TEXT };
enum { FIELDS_CHANGE = FIELD_MESSAGES, FIELDS = FIELD_TEXT + 1 };

static void fields_init(struct admin_body_field fields[FIELDS], bool is_new)
{
    fields[FIELD_NAME] = (struct admin_body_field){.name = "name",
                                                   .kind = ADMIN_BODY_TEXT,
                                                   .is_required = is_new,
                                                   .most = LIMIT_NAME_BYTES - 1};
    fields[FIELD_PIN_UNTIL] = (struct admin_body_field){
        .name = "pin_until", .kind = ADMIN_BODY_NUMBER_OR_NULL, .least = 1, .most = LIMIT_TIME_S};
    fields[FIELD_TENANTS] = (struct admin_body_field){
        .name = "tenants", .kind = ADMIN_BODY_NAMES, .most = LIMIT_PROMPT_GRANTS};
    fields[FIELD_GROUPS] = (struct admin_body_field){
        .name = "groups", .kind = ADMIN_BODY_NAMES, .most = LIMIT_PROMPT_GRANTS};
    fields[FIELD_MESSAGES] =
        (struct admin_body_field){.name = "messages", .kind = ADMIN_BODY_MESSAGES};
    fields[FIELD_TEXT] = (struct admin_body_field){.name = "text", .kind = ADMIN_BODY_LONG_TEXT};
}

/* What a call gives. */
struct given {
    struct admin_body_field fields[FIELDS];
    struct tenant_prompt_fields prompt;
    struct tenant_prompt_grant grants[2 * LIMIT_PROMPT_GRANTS];
    struct buffer content; /* {"messages":…} or {"text":…} */
};

/* Appends the names in a field to the grants. */
static enum status given_grants(struct given *given, int field, int kind)
{
    struct buffer *json = &given->fields[field].json;
    json_t *list = json_loadb(json->bytes, json->length, 0, NULL);
    if (list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a body");
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        struct tenant_prompt_grant *grant = &given->grants[given->prompt.grant_count++];
        char *to = kind == GRANT_TENANTS ? grant->tenant_id : grant->group;
        if (kind == GRANT_TENANTS && strlen(name) >= sizeof grant->tenant_id) {
            status = status_fail(STATUS_NOT_FOUND, __FILE__, __LINE__, "tenants",
                                 "There is no tenant %s.", name);
            break;
        }
        memcpy(to, name, strlen(name) + 1);
    }
    json_decref(list);
    return status;
}

static enum status given_content(struct given *given)
{
    bool has_messages = given->fields[FIELD_MESSAGES].is_given;
    if (has_messages == given->fields[FIELD_TEXT].is_given)
        FAIL_PARAM(STATUS_INVALID, "messages", "Give either messages or text.");
    const struct buffer *json = &given->fields[has_messages ? FIELD_MESSAGES : FIELD_TEXT].json;
    buffer_append_text(&given->content, has_messages ? "{\"messages\":" : "{\"text\":");
    buffer_append_slice(&given->content, buffer_slice(json));
    buffer_append_char(&given->content, '}');
    given->prompt.content = buffer_slice(&given->content);
    return given->content.status;
}

static enum status given_read(struct given *given, struct slice body, bool is_new)
{
    static const unsigned bits[FIELDS_CHANGE] = {TENANT_PROMPT_NAME, TENANT_PROMPT_PIN_UNTIL,
                                                 TENANT_PROMPT_TENANTS, TENANT_PROMPT_GROUPS};
    fields_init(given->fields, is_new);
    buffer_init(&given->content, LIMIT_ADMIN_BODY_BYTES + 64);
    TRY(admin_body_read(body, given->fields, is_new ? FIELDS : FIELDS_CHANGE));
    for (int i = 0; i < FIELDS_CHANGE; i++)
        given->prompt.given |= given->fields[i].is_given ? bits[i] : 0;
    given->prompt.name = slice_of(given->fields[FIELD_NAME].text);
    given->prompt.pin_until_s = given->fields[FIELD_PIN_UNTIL].number;
    given->prompt.grants = given->grants;
    if (given->fields[FIELD_TENANTS].is_given)
        TRY(given_grants(given, FIELD_TENANTS, GRANT_TENANTS));
    if (given->fields[FIELD_GROUPS].is_given)
        TRY(given_grants(given, FIELD_GROUPS, GRANT_GROUPS));
    return is_new ? given_content(given) : STATUS_OK;
}

static void given_deinit(struct given *given)
{
    admin_body_free(given->fields, FIELDS);
    buffer_deinit(&given->content);
}

/* Calls `change` with a struct given, which is too large for the stack. */
static enum status given_call(struct admin_call *call,
                              enum status (*change)(struct admin_call *, struct given *))
{
    struct given *given = mem_zalloc(1, sizeof *given);
    if (given == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt");
    enum status status = change(call, given);
    given_deinit(given);
    mem_free(given);
    return status;
}

/* --- publishing --- */

struct publishing {
    struct given given;
    struct tenant_prompt prompt;
    struct edge_prompts_waiter waiter;
    struct admin_call *call;
    enum status status; /* the engine's answer */
    uint32_t tokens;
    uint32_t pages;
    struct error_note note;
    bool is_told; /* the engine has answered */
};

static void publishing_free(void *work)
{
    given_deinit(&((struct publishing *)work)->given);
}

static void publishing_resume(void *context)
{
    admin_resume(context);
}

static void publishing_told(void *context, enum status status, uint32_t tokens, uint32_t pages)
{
    struct publishing *publishing = context;
    publishing->tokens = tokens;
    publishing->pages = pages;
    publishing->is_told = true;
    publishing->status = status;
    if (status != STATUS_OK)
        publishing->note = *status_note();
    loop_post(publishing->call->admin->loop, publishing_resume, publishing->call);
}

static void publishing_wait(struct admin_call *call)
{
    struct publishing *publishing = call->work;
    edge_prompts_publish(call->admin->prompts, &publishing->waiter);
}

/* The call is over. If it has made no row, edge_prompts unpublishes what the engine has
 * computed. */
void admin_prompts_over(struct admin_call *call)
{
    const struct publishing *publishing = call->work;
    if (publishing != NULL && publishing->is_told)
        edge_prompts_settle(call->admin->prompts, publishing->prompt.domain);
    edge_prompts_sync(call->admin->prompts);
}

static enum status create_begin(struct admin_call *call, bool is_dry_run)
{
    struct publishing *publishing = mem_zalloc(1, sizeof *publishing);
    if (publishing == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt");
    call->work = publishing;
    call->free_work = publishing_free;
    TRY(given_read(&publishing->given, call->body, true));
    TRY(tenant_prompt_prepare(auth_tenants(call->admin->auth), &publishing->given.prompt,
                              &publishing->prompt));
    publishing->call = call;
    publishing->waiter = (struct edge_prompts_waiter){.content = publishing->given.prompt.content,
                                                      .is_dry_run = is_dry_run,
                                                      .told = publishing_told,
                                                      .context = publishing};
    memcpy(publishing->waiter.domain, publishing->prompt.domain, sizeof publishing->prompt.domain);
    call->wait = publishing_wait;
    call->over = admin_prompts_over;
    return STATUS_OK;
}

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct tenant_prompt *prompt;
    struct rendering rendering;
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    render_members(call->admin, answer->prompt, &answer->rendering, &call->out);
    TRY(admin_change_end(call, answer->change, answer->prompt->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

/* Runs after the engine's answer. Without an engine the row is made too, and the edge publishes the
 * prompt when there is an engine. */
static enum status create_end(struct admin_call *call, struct tenant_change *change)
{
    struct publishing *publishing = call->work;
    const struct tenant_prompt_fields *fields = &publishing->given.prompt;
    if (publishing->status != STATUS_OK && publishing->status != STATUS_UNAVAILABLE) {
        status_note_set(&publishing->note);
        return publishing->status;
    }
    if (publishing->status == STATUS_UNAVAILABLE && !change->is_dry_run)
        change->answer_code = call->code = 202;
    struct answer answer = {
        call, change, &publishing->prompt, {fields->grants, fields->grant_count, 0, 0}};
    if (change->is_dry_run) {
        answer.rendering.tokens = publishing->tokens;
        answer.rendering.pages = publishing->pages;
    }
    change->answer = answer_make;
    change->context = &answer;
    return tenant_prompt_create(auth_tenants(call->admin->auth), change, fields,
                                &publishing->prompt);
}

enum status admin_prompts_create(struct admin_call *call)
{
    struct tenant_change change;
    TRY(admin_change_begin(call, &change));
    return call->work == NULL ? create_begin(call, change.is_dry_run) : create_end(call, &change);
}

static enum status import_read(struct admin_call *call, struct given *given)
{
    struct tenant_prompt prompt;
    struct tenant_change change;
    struct slice answered;
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_change_begin(call, &change));
    TRY(given_read(given, call->body, true));
    TRY(tenant_prompt_prepare(tenants, &given->prompt, &prompt));
    TRY(tenant_prompt_create(tenants, &change, &given->prompt, &prompt));
    struct answer answer = {
        call, &change, &prompt, {given->prompt.grants, given->prompt.grant_count, 0, 0}};
    return answer_make(&answer, &answered);
}

enum status admin_prompts_import(struct admin_call *call)
{
    return given_call(call, import_read);
}

/* --- other changes --- */

/* The grants after an update: those that are given, and the present grants of a kind that is
 * not. */
static size_t update_grants(struct admin_call *call, const struct given *given,
                            const struct tenant_prompt *prompt, struct tenant_prompt_grant *out)
{
    size_t count = tenant_prompt_grants(auth_tenants(call->admin->auth), slice_of(prompt->id), out);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        int field = out[i].tenant_id[0] != '\0' ? FIELD_TENANTS : FIELD_GROUPS;
        if (!given->fields[field].is_given)
            out[kept++] = out[i];
    }
    memcpy(out + kept, given->grants, given->prompt.grant_count * sizeof *out);
    return kept + given->prompt.grant_count;
}

static enum status update_read(struct admin_call *call, struct given *given)
{
    struct tenant_prompt prompt;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(given_read(given, call->body, false));
    TRY(tenant_prompt_update(auth_tenants(call->admin->auth), &change, call->arguments[0],
                             &given->prompt, &prompt));
    struct tenant_prompt_grant *grants = mem_zalloc(3 * LIMIT_PROMPT_GRANTS, sizeof *grants);
    if (grants == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer");
    size_t count = update_grants(call, given, &prompt, grants);
    struct answer answer = {call, &change, &prompt, {grants, count, 0, 0}};
    enum status status = answer_make(&answer, &answered);
    mem_free(grants);
    return status;
}

enum status admin_prompts_update(struct admin_call *call)
{
    call->over = admin_prompts_over;
    return given_call(call, update_read);
}

enum status admin_prompts_delete(struct admin_call *call)
{
    struct tenant_prompt prompt;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    call->over = admin_prompts_over;
    TRY(tenant_prompt_delete(auth_tenants(call->admin->auth), &change, call->arguments[0],
                             &prompt));
    static const struct tenant_prompt_grant nobody[1];
    struct answer answer = {call, &change, &prompt, {change.is_dry_run ? NULL : nobody, 0, 0, 0}};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    const struct admin *admin = context;
    return tenant_prompt_list(auth_tenants(admin->auth), slice_of(after), rows, capacity, count,
                              has_more);
}

enum status admin_prompts_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct tenant_prompt), list_page, NULL,
                                             render_row, call->admin};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_prompts_get(struct admin_call *call)
{
    struct admin_query query;
    struct tenant_prompt prompt;
    struct buffer content;
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_query_read(call->query, 0, &query));
    TRY(tenant_prompt_get(tenants, call->arguments[0], &prompt));
    call->revision = prompt.revision; /* no 304: state and hits change without a new revision */
    const struct rendering rendering = {0};
    render_members(call->admin, &prompt, &rendering, &call->out);
    buffer_init(&content, LIMIT_ADMIN_BODY_BYTES + 64);
    tenant_prompt_content(tenants, slice_of(prompt.id), &content);
    if (content.length > 2) {
        buffer_append_char(&call->out, ',');
        buffer_append(&call->out, content.bytes + 1, content.length - 1);
    } else {
        buffer_append_char(&call->out, '}');
    }
    buffer_deinit(&content);
    return call->out.status;
}
