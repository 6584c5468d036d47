#include "gateway/admin/admin_prices.h"

#include <stdio.h>

#include "auth/tenants/price.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* --- rendering --- */

static void render_word(const char *member, const char *word, struct buffer *out)
{
    buffer_printf(out, ",\"%s\":", member);
    if (word[0] != '\0')
        buffer_append_json_string(out, slice_of(word));
    else
        buffer_append_text(out, "null");
}

/* Appends the object without its closing brace. */
static void render_members(const struct price *price, struct buffer *out)
{
    buffer_printf(out, "{\"id\":\"%s\",\"object\":\"price\"", price->id);
    render_word("plan", price->plan_id, out);
    render_word("model", price->model, out);
    render_word("class", price->service_class, out);
    buffer_printf(out,
                  ",\"currency\":\"%s\",\"input_nano\":%lld,\"cached_input_nano\":%lld,"
                  "\"output_nano\":%lld,\"effective_at\":%lld,\"created_at\":%lld",
                  price->currency, (long long)price->input_nano,
                  (long long)price->cached_input_nano, (long long)price->output_nano,
                  (long long)price->effective_at_s, (long long)price->created_at_s);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    (void)context;
    render_members(row, out);
    buffer_append_char(out, '}');
}

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct price *price;
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    render_members(answer->price, &answer->call->out);
    TRY(admin_change_end(answer->call, answer->change, 1));
    *out = buffer_slice(&answer->call->out);
    return STATUS_OK;
}

/* --- creating --- */

enum { PLAN, MODEL, CLASS, CURRENCY, INPUT, CACHED_INPUT, OUTPUT, EFFECTIVE_AT, FIELDS };

static enum status copy_word(const struct admin_body_field *field, char *out, size_t capacity)
{
    size_t length = strlen(field->text);
    if (field->is_given && !field->is_null && (length == 0 || length >= capacity))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must have 1 to %zu bytes%s.", field->name,
                   capacity - 1, field->kind == ADMIN_BODY_TEXT_OR_NULL ? ", or be null" : "");
    memcpy(out, field->text, length + 1);
    return STATUS_OK;
}

static enum status create_read(struct admin_call *call, struct admin_body_field fields[FIELDS])
{
    struct price price;
    struct tenant_change change;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    struct price wanted = {
        .input_nano = fields[INPUT].number,
        .cached_input_nano = fields[fields[CACHED_INPUT].is_given ? CACHED_INPUT : INPUT].number,
        .output_nano = fields[OUTPUT].number,
        .effective_at_s = fields[EFFECTIVE_AT].is_given ? fields[EFFECTIVE_AT].number : -1};
    TRY(copy_word(&fields[PLAN], wanted.plan_id, sizeof wanted.plan_id));
    TRY(copy_word(&fields[MODEL], wanted.model, sizeof wanted.model));
    TRY(copy_word(&fields[CLASS], wanted.service_class, sizeof wanted.service_class));
    TRY(copy_word(&fields[CURRENCY], wanted.currency, sizeof wanted.currency));
    struct answer answer = {call, &change, &price};
    change.answer = answer_make;
    change.context = &answer;
    return price_create(auth_tenants(call->admin->auth), &change, &wanted, &price);
}

enum status admin_prices_create(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS] = {
        [PLAN] = {.name = "plan", .kind = ADMIN_BODY_TEXT_OR_NULL, .most = LIMIT_NAME_BYTES - 1},
        [MODEL] = {.name = "model",
                   .kind = ADMIN_BODY_TEXT_OR_NULL,
                   .most = LEDGER_MODEL_BYTES - 1},
        [CLASS] = {.name = "class", .kind = ADMIN_BODY_TEXT_OR_NULL, .most = LIMIT_NAME_BYTES - 1},
        [CURRENCY] = {.name = "currency",
                      .kind = ADMIN_BODY_TEXT,
                      .is_required = true,
                      .most = LIMIT_NAME_BYTES - 1},
        [INPUT] = {.name = "input_nano",
                   .kind = ADMIN_BODY_NUMBER,
                   .is_required = true,
                   .most = LIMIT_PRICE_NANO},
        [CACHED_INPUT] = {.name = "cached_input_nano",
                          .kind = ADMIN_BODY_NUMBER,
                          .most = LIMIT_PRICE_NANO},
        [OUTPUT] = {.name = "output_nano",
                    .kind = ADMIN_BODY_NUMBER,
                    .is_required = true,
                    .most = LIMIT_PRICE_NANO},
        [EFFECTIVE_AT] = {.name = "effective_at",
                          .kind = ADMIN_BODY_NUMBER,
                          .most = INT64_C(253402300799)}}; /* the end of year 9999 */
    enum status status = create_read(call, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

/* --- deleting and reading --- */

enum status admin_prices_delete(struct admin_call *call)
{
    struct price price;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(price_delete(auth_tenants(call->admin->auth), &change, call->arguments[0], &price));
    struct answer answer = {call, &change, &price};
    return answer_make(&answer, &answered);
}

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return price_list(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_prices_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct price), list_page, NULL, render_row,
                                             auth_tenants(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_prices_get(struct admin_call *call)
{
    struct admin_query query;
    struct price price;
    TRY(admin_query_read(call->query, 0, &query));
    TRY(price_get(auth_tenants(call->admin->auth), call->arguments[0], &price));
    call->revision = 1; /* a price never changes */
    render_row(NULL, &price, &call->out);
    return call->out.status;
}
