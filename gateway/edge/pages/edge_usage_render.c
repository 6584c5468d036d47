#include "gateway/edge/pages/edge_usage_render.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config/base/service_class.h"

static const int64_t NANO = 1000000000;

/* --- JSON --- */

static void render_text(const char *name, bool is_there, const char *value, struct buffer *out)
{
    buffer_printf(out, ",\"%s\":", name);
    if (is_there)
        buffer_append_json_string(out, slice_of(value));
    else
        buffer_append_text(out, "null");
}

static void render_currency(const char *currency, struct buffer *out)
{
    render_text("currency", currency[0] != '\0', currency, out);
}

static void render_own(const struct edge_usage_form *form, const struct ledger_usage_row *row,
                       const char *currency, struct buffer *out)
{
    uint32_t group_by = form->group_by;
    buffer_printf(out,
                  "{\"object\":\"usage.result\",\"num_model_requests\":%lld,\"input_tokens\":%lld,"
                  "\"input_cached_tokens\":%lld,\"output_tokens\":%lld,\"cost_nano\":%lld",
                  (long long)row->requests, (long long)row->prompt_tokens,
                  (long long)row->cached_tokens, (long long)row->completion_tokens,
                  (long long)row->cost_nano);
    render_currency(currency, out);
    if (form->kind == EDGE_USAGE_ALL)
        render_text("tenant_id", (group_by & LEDGER_USAGE_TENANT) != 0, row->tenant_id, out);
    render_text("key_id", (group_by & LEDGER_USAGE_KEY) != 0, row->key_id, out);
    render_text("model", (group_by & LEDGER_USAGE_MODEL) != 0, row->model, out);
    render_text("class", (group_by & LEDGER_USAGE_CLASS) != 0, row->service_class, out);
    buffer_append_char(out, '}');
}

/* The service_tier of a class, such as "priority" for realtime: the word that the tenants' own
 * answers carry. */
static const char *organization_tier(const char *name)
{
    enum service_class class;
    return service_class_from_name(slice_of(name), &class) ? service_class_tier(class) : name;
}

static void render_organization(const struct edge_usage_form *form,
                                const struct ledger_usage_row *row, struct buffer *out)
{
    uint32_t group_by = form->group_by;
    bool is_by_class = (group_by & LEDGER_USAGE_CLASS) != 0;
    buffer_printf(out,
                  "{\"object\":\"organization.usage.completions.result\",\"input_tokens\":%lld,"
                  "\"input_cached_tokens\":%lld,\"input_cache_write_tokens\":0,"
                  "\"input_uncached_tokens\":%lld,"
                  "\"output_tokens\":%lld,\"input_audio_tokens\":0,\"output_audio_tokens\":0,"
                  "\"num_model_requests\":%lld",
                  (long long)row->prompt_tokens, (long long)row->cached_tokens,
                  (long long)(row->prompt_tokens - row->cached_tokens),
                  (long long)row->completion_tokens, (long long)row->requests);
    render_text("project_id", (group_by & LEDGER_USAGE_TENANT) != 0, row->tenant_id, out);
    buffer_append_text(out, ",\"user_id\":null");
    render_text("api_key_id", (group_by & LEDGER_USAGE_KEY) != 0, row->key_id, out);
    render_text("model", (group_by & LEDGER_USAGE_MODEL) != 0, row->model, out);
    buffer_append_text(out, ",\"batch\":null");
    render_text("service_tier", is_by_class, organization_tier(row->service_class), out);
    buffer_append_char(out, '}');
}

/* Writes the amount with nine decimals. It is exact, because only integers are used. */
static void render_costs(const struct edge_usage_form *form, const struct ledger_usage_row *row,
                         const char *currency, struct buffer *out)
{
    buffer_printf(out,
                  "{\"object\":\"organization.costs.result\",\"amount\":{\"value\":%lld.%09lld",
                  (long long)(row->cost_nano / NANO), (long long)(row->cost_nano % NANO));
    render_currency(currency, out);
    buffer_append_text(out, "},\"line_item\":null");
    render_text("project_id", (form->group_by & LEDGER_USAGE_TENANT) != 0, row->tenant_id, out);
    render_text("api_key_id", (form->group_by & LEDGER_USAGE_KEY) != 0, row->key_id, out);
    buffer_append_char(out, '}');
}

static void render_result(const struct edge_usage_form *form, const struct ledger_usage_row *row,
                          const char *currency, struct buffer *out)
{
    if (form->kind == EDGE_USAGE_ORGANIZATION)
        render_organization(form, row, out);
    else if (form->kind == EDGE_USAGE_COSTS)
        render_costs(form, row, currency, out);
    else
        render_own(form, row, currency, out);
}

void edge_usage_render_next(const struct edge_usage_form *form,
                            const struct ledger_usage_page *page, char out[EDGE_USAGE_PAGE_BYTES])
{
    out[0] = '\0';
    if (page->end_s < form->end_s)
        snprintf(out, EDGE_USAGE_PAGE_BYTES, "page_%lld", (long long)page->end_s);
}

static void render_json(const struct edge_usage_form *form, const struct ledger_usage_page *page,
                        const char *currency, struct buffer *out)
{
    char next[EDGE_USAGE_PAGE_BYTES];
    size_t at = 0;
    buffer_append_text(out, "{\"object\":\"page\",\"data\":[");
    for (int64_t start = form->start_s; start < page->end_s; start += form->width_s) {
        buffer_printf(out,
                      "%s{\"object\":\"bucket\",\"start_time\":%lld,\"end_time\":%lld,"
                      "\"results\":[",
                      start != form->start_s ? "," : "", (long long)start,
                      (long long)(start + form->width_s));
        for (size_t first = at; at < page->count && page->rows[at].start_s == start; at++) {
            if (at != first)
                buffer_append_char(out, ',');
            render_result(form, &page->rows[at], currency, out);
        }
        buffer_append_text(out, "]}");
    }
    edge_usage_render_next(form, page, next);
    buffer_printf(out, "],\"has_more\":%s", next[0] != '\0' ? "true" : "false");
    render_text("next_page", next[0] != '\0', next, out);
    buffer_append_char(out, '}');
}

/* --- CSV --- */

static void csv_text(const char *text, struct buffer *out)
{
    bool is_formula = text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL;
    bool is_quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (is_quoted)
        buffer_append_char(out, '"');
    if (is_formula)
        buffer_append_char(out, '\'');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            buffer_append_char(out, '"');
        buffer_append_char(out, *at);
    }
    if (is_quoted)
        buffer_append_char(out, '"');
    buffer_append_char(out, ',');
}

static void csv_time(int64_t time_s, struct buffer *out)
{
    time_t seconds = (time_t)time_s;
    struct tm utc;
    char text[32];
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    buffer_append_text(out, text);
}

static void render_csv(const struct edge_usage_form *form, const struct ledger_usage_page *page,
                       const char *currency, struct buffer *out)
{
    buffer_append_text(out, "start_time,end_time,tenant_id,key_id,model,class,num_model_requests,"
                            "input_tokens,input_cached_tokens,output_tokens,cost_nano,currency"
                            "\r\n");
    for (size_t i = 0; i < page->count; i++) {
        const struct ledger_usage_row *row = &page->rows[i];
        csv_time(row->start_s, out);
        buffer_append_text(out, "Z,");
        csv_time(row->start_s + form->width_s, out);
        buffer_append_text(out, "Z,");
        csv_text(row->tenant_id, out);
        csv_text(row->key_id, out);
        csv_text(row->model, out);
        csv_text(row->service_class, out);
        buffer_printf(out, "%lld,%lld,%lld,%lld,%lld,%s\r\n", (long long)row->requests,
                      (long long)row->prompt_tokens, (long long)row->cached_tokens,
                      (long long)row->completion_tokens, (long long)row->cost_nano, currency);
    }
}

void edge_usage_render(const struct edge_usage_form *form, const struct ledger_usage_page *page,
                       const char *currency, struct buffer *out)
{
    if (form->is_csv)
        render_csv(form, page, currency, out);
    else
        render_json(form, page, currency, out);
}

/* --- single rows --- */

static void requests_csv(const struct ledger_requests *requests, const char *currency,
                         struct buffer *out)
{
    buffer_append_text(out, "id,time,request_id,tenant_id,key_id,model,route,class,finish,"
                            "http_code,input_tokens,input_cached_tokens,output_tokens,is_estimated,"
                            "queue_us,prefill_us,decode_us,total_us,cost_nano,currency\r\n");
    for (size_t i = 0; i < requests->count; i++) {
        const struct ledger_row *row = &requests->rows[i];
        const char *const texts[] = {row->request_id, row->tenant_id,     row->key_id, row->model,
                                     row->route,      row->service_class, row->finish};
        buffer_printf(out, "row_%lld,", (long long)row->sequence);
        csv_time(row->at_us / 1000000, out);
        buffer_printf(out, ".%06lldZ,", (long long)(row->at_us % 1000000));
        for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++)
            csv_text(texts[j], out);
        buffer_printf(out, "%d,%u,%u,%u,%s,%lld,%lld,%lld,%lld,%lld,%s\r\n", row->http_code,
                      row->prompt_tokens, row->cached_tokens, row->completion_tokens,
                      row->is_estimated ? "true" : "false", (long long)row->queue_us,
                      (long long)row->prefill_us, (long long)row->decode_us,
                      (long long)row->total_us, (long long)row->cost_nano, currency);
    }
}

static void requests_row(const struct ledger_row *row, const char *currency, struct buffer *out)
{
    buffer_printf(out, "{\"id\":\"row_%lld\",\"object\":\"usage.request\",\"time\":%lld.%06lld",
                  (long long)row->sequence, (long long)(row->at_us / 1000000),
                  (long long)(row->at_us % 1000000));
    render_text("request_id", true, row->request_id, out);
    render_text("tenant_id", true, row->tenant_id, out);
    render_text("key_id", true, row->key_id, out);
    render_text("model", true, row->model, out);
    render_text("route", true, row->route, out);
    render_text("class", true, row->service_class, out);
    render_text("finish", true, row->finish, out);
    buffer_printf(out,
                  ",\"http_code\":%d,\"input_tokens\":%u,\"input_cached_tokens\":%u,"
                  "\"output_tokens\":%u,\"output_reasoning_tokens\":%u,\"is_estimated\":%s,"
                  "\"queue_us\":%lld,\"prefill_us\":%lld,\"decode_us\":%lld,\"total_us\":%lld,"
                  "\"cost_nano\":%lld",
                  row->http_code, row->prompt_tokens, row->cached_tokens, row->completion_tokens,
                  row->reasoning_tokens, row->is_estimated ? "true" : "false",
                  (long long)row->queue_us, (long long)row->prefill_us, (long long)row->decode_us,
                  (long long)row->total_us, (long long)row->cost_nano);
    render_currency(currency, out);
    buffer_append_char(out, '}');
}

static void requests_json(const struct ledger_requests *requests, const char *currency,
                          struct buffer *out)
{
    char first[32] = "";
    char last[32] = "";
    if (requests->count > 0)
        snprintf(first, sizeof first, "row_%lld", (long long)requests->rows[0].sequence);
    if (requests->last != 0)
        snprintf(last, sizeof last, "row_%lld", (long long)requests->last);
    buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < requests->count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        requests_row(&requests->rows[i], currency, out);
    }
    buffer_append_char(out, ']');
    render_text("first_id", first[0] != '\0', first, out);
    render_text("last_id", last[0] != '\0', last, out);
    buffer_printf(out, ",\"has_more\":%s}", requests->has_more ? "true" : "false");
}

void edge_usage_render_requests(const struct edge_usage_form *form,
                                const struct ledger_requests *requests, const char *currency,
                                struct buffer *out)
{
    if (form->is_csv)
        requests_csv(requests, currency, out);
    else
        requests_json(requests, currency, out);
}
