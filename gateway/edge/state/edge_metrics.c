#include "gateway/edge/state/edge_metrics.h"

#include <stdio.h>

#include "auth/ledger/ledger.h"
#include "config/base/log.h"
#include "gateway/edge/state/edge_heap.h"

static struct metric *init_plain(struct edge_metrics *metrics, enum metric_kind kind,
                                 const char *name, const char *labels, const char *help)
{
    bool is_histogram = kind == METRIC_HISTOGRAM;
    return metrics_get(metrics->registry, kind, name, help, labels,
                       is_histogram ? METRIC_SECONDS_BUCKETS : NULL,
                       is_histogram ? METRIC_SECONDS_BUCKET_COUNT : 0);
}

/* Requests that wait, that are sent or counted again, and that are cancelled. */
static void init_waiting(struct edge_metrics *metrics)
{
    static const char *const reasons[EDGE_CANCEL_COUNT] = {"client",   "slow_reader", "deadline",
                                                           "shutdown", "engine",      "too_long",
                                                           "memory",   "admin",       "tenant"};
    for (int i = 0; i < EDGE_CANCEL_COUNT; i++) {
        char labels[40];
        snprintf(labels, sizeof labels, "reason=\"%s\"", reasons[i]);
        metrics->cancelled[i] =
            init_plain(metrics, METRIC_COUNTER, "banyan_requests_cancelled_total", labels,
                       "Requests that were ended before their answer was whole.");
    }
    metrics->upstream_foreign =
        init_plain(metrics, METRIC_GAUGE, "banyan_upstream_foreign", "",
                   "1 while the engine speaks another protocol version and is not used.");
    metrics->sends_again =
        init_plain(metrics, METRIC_COUNTER, "banyan_requests_sent_again_total", "",
                   "Times that a request was sent once more because the engine had not taken it.");
    metrics->rows_replayed =
        init_plain(metrics, METRIC_COUNTER, "banyan_ledger_rows_replayed_total", "",
                   "Rows made from records that the engine had kept.");
    metrics->rows_awaited = init_plain(metrics, METRIC_GAUGE, "banyan_ledger_rows_awaited", "",
                                       "Rows of cut streams that wait for the engine's record.");
    metrics->readers_paused =
        init_plain(metrics, METRIC_GAUGE, "banyan_readers_paused", "",
                   "Streams that are held back because their client does not read.");
}

/* The metrics with a label for the class of service. */
static void init_classes(struct edge_metrics *metrics)
{
    static const char *const reasons[EDGE_REFUSAL_COUNT] = {"tenant", "all", "deadline"};
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        const char *name = service_class_name((enum service_class)i);
        char labels[64];
        for (unsigned why = 0; why < EDGE_REFUSAL_COUNT; why++) {
            snprintf(labels, sizeof labels, "class=\"%s\",why=\"%s\"", name, reasons[why]);
            metrics->queue_refusals[i][why] = init_plain(
                metrics, METRIC_COUNTER, "banyan_queue_refusals_total", labels,
                "Requests refused because a queue was full, or too long for their deadline.");
        }
        snprintf(labels, sizeof labels, "class=\"%s\"", name);
        metrics->jobs_waiting[i] =
            init_plain(metrics, METRIC_GAUGE, "banyan_requests_waiting", labels,
                       "Requests that wait at the edge while the engine is down or full.");
        metrics->first_token_seconds[i] =
            init_plain(metrics, METRIC_HISTOGRAM, "banyan_time_to_first_token_seconds", labels,
                       "From a request's arrival to its first token.");
    }
    metrics->downgrades =
        init_plain(metrics, METRIC_COUNTER, "banyan_downgrades_total", "",
                   "Requests that asked for a better class of service than their tenant's best.");
}

static void init_quotas(struct edge_metrics *metrics)
{
    char labels[80];
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        const char *limit = quota_limits_form((enum quota_limit)i)->member;
        for (int shadow = 0; shadow < 2; shadow++) {
            snprintf(labels, sizeof labels, "limit=\"%s\",mode=\"%s\"", limit,
                     shadow ? "shadow" : "enforce");
            metrics->quota_denials[i][shadow] =
                init_plain(metrics, METRIC_COUNTER, "banyan_quota_denials_total", labels,
                           "Requests refused because of a limit, or that it would have refused.");
            metrics->quota_stops[i][shadow] =
                init_plain(metrics, METRIC_COUNTER, "banyan_quota_stops_total", labels,
                           "Answers ended in the middle because a limit was met, or that it would "
                           "have ended.");
        }
        snprintf(labels, sizeof labels, "limit=\"%s\"", limit);
        metrics->quota_lowered[i] = init_plain(
            metrics, METRIC_COUNTER, "banyan_quota_lowered_total", labels,
            "Requests and answers that went on in the lowest class because a limit was met.");
    }
}

/* Refused credentials, and fetches of issuers' keys. */
static void init_identity(struct edge_metrics *metrics)
{
    static const char *const results[2] = {"failed", "ok"};
    char labels[80];
    for (int i = 1; i < AUTH_REFUSALS; i++) { /* 0 means no refusal */
        snprintf(labels, sizeof labels, "method=\"%s\",reason=\"%s\"",
                 auth_refusals_method((enum auth_refusal)i),
                 auth_refusals_word((enum auth_refusal)i));
        metrics->auth_refusals[i] =
            init_plain(metrics, METRIC_COUNTER, "banyan_auth_refusals_total", labels,
                       "Requests whose key or token did not open what they asked for.");
    }
    for (int i = 0; i < 2; i++) {
        snprintf(labels, sizeof labels, "result=\"%s\"", results[i]);
        metrics->key_fetches[i] =
            init_plain(metrics, METRIC_COUNTER, "banyan_issuer_key_fetches_total", labels,
                       "Key sets of issuers that were asked for at their URLs.");
    }
    metrics->keys_failing = init_plain(
        metrics, METRIC_GAUGE, "banyan_issuers_failing", "",
        "Issuers whose keys could not be fetched the last time; the last good ones stay.");
}

enum status edge_metrics_init(struct edge_metrics *metrics)
{
    *metrics = (struct edge_metrics){0};
    TRY(metrics_create(&metrics->registry));
    metrics->request_seconds =
        init_plain(metrics, METRIC_HISTOGRAM, "banyan_request_duration_seconds", "",
                   "From a request's arrival to its end at the client.");
    init_classes(metrics);
    metrics->overhead_seconds =
        init_plain(metrics, METRIC_HISTOGRAM, "banyan_gateway_overhead_seconds", "",
                   "The edge's own share: before the engine was asked, and after its last byte.");
    static const char tokens[] = "banyan_tokens_total";
    static const char tokens_help[] = "Tokens counted, as in the ledger.";
    metrics->tokens_prompt =
        init_plain(metrics, METRIC_COUNTER, tokens, "kind=\"prompt\"", tokens_help);
    metrics->tokens_cached =
        init_plain(metrics, METRIC_COUNTER, tokens, "kind=\"cached\"", tokens_help);
    metrics->tokens_generated =
        init_plain(metrics, METRIC_COUNTER, tokens, "kind=\"generated\"", tokens_help);
    metrics->estimated_total =
        init_plain(metrics, METRIC_COUNTER, "banyan_requests_estimated_total", "",
                   "Requests whose count is the edge's, because the engine's record never came.");
    metrics->upstream_up = init_plain(metrics, METRIC_GAUGE, "banyan_upstream_up", "",
                                      "1 when the engine answered its last health check.");
    metrics->ledger_lag_rows = init_plain(metrics, METRIC_GAUGE, "banyan_ledger_lag_rows", "",
                                          "Ledger rows that wait for their commit.");
    metrics->ledger_bytes = init_plain(metrics, METRIC_GAUGE, "banyan_ledger_bytes", "",
                                       "The ledger's file and its write-ahead log.");
    metrics->ledger_kept_since =
        init_plain(metrics, METRIC_GAUGE, "banyan_ledger_kept_since_seconds", "",
                   "Rows of requests that ended before it are deleted (Unix time); 0: none are.");
    metrics->ledger_deleted = init_plain(metrics, METRIC_COUNTER, "banyan_ledger_deleted_total", "",
                                         "Rows deleted because of their age.");
    metrics->log_dropped = init_plain(metrics, METRIC_COUNTER, "banyan_log_dropped_total", "",
                                      "Log lines that found no room because nobody read them.");
    metrics->memory_refused = init_plain(metrics, METRIC_COUNTER, "banyan_memory_refused_total", "",
                                         "Requests refused because of memory_limit.");
    metrics->memory_share_refused =
        init_plain(metrics, METRIC_COUNTER, "banyan_memory_share_refused_total", "",
                   "Requests and answers refused because their tenant's share of memory_limit is "
                   "used up.");
    metrics->requests_paced =
        init_plain(metrics, METRIC_COUNTER, "banyan_requests_paced_total", "",
                   "Small requests that waited for their tenant's turn (small_requests_s).");
    static const char held[] = "banyan_memory_held_bytes";
    static const char held_help[] = "Memory that requests and unread answers hold, by its owners.";
    metrics->memory_tenants =
        init_plain(metrics, METRIC_GAUGE, held, "owner=\"tenants\"", held_help);
    metrics->memory_unproven =
        init_plain(metrics, METRIC_GAUGE, held, "owner=\"unproven\"", held_help);
    metrics->heap_bytes = init_plain(metrics, METRIC_GAUGE, "banyan_heap_bytes", "",
                                     "Live heap of the edge (mallinfo2), which RSS does not show.");
    metrics->jobs_running = init_plain(metrics, METRIC_GAUGE, "banyan_requests_running", "",
                                       "Requests at the engine or waiting for their ledger row.");
    init_waiting(metrics);
    init_quotas(metrics);
    init_identity(metrics);
    return STATUS_OK;
}

void edge_metrics_deinit(struct edge_metrics *metrics)
{
    if (metrics->registry != NULL)
        metrics_destroy(metrics->registry);
    *metrics = (struct edge_metrics){0};
}

static void look_counter(struct metric *metric, uint64_t now)
{
    metric_add(metric, (int64_t)now - (int64_t)metric_value(metric));
}

void edge_metrics_look(struct edge_metrics *metrics, struct ledger *ledger, const struct auth *auth)
{
    struct ledger_totals totals;
    ledger_totals(ledger, &totals);
    metric_set(metrics->ledger_lag_rows, (double)totals.queued);
    metric_set(metrics->ledger_bytes, (double)totals.file_bytes);
    metric_set(metrics->ledger_kept_since, (double)(totals.kept_since_us / 1000000));
    look_counter(metrics->ledger_deleted, totals.deleted);
    look_counter(metrics->log_dropped, log_dropped());
    for (int i = 1; i < AUTH_REFUSALS && auth != NULL; i++)
        look_counter(metrics->auth_refusals[i], auth_refused_count(auth, (enum auth_refusal)i));
    metric_set(metrics->heap_bytes, (double)edge_heap_bytes());
    edge_deaths_look(metrics->deaths, metrics->registry);
}

static struct metric *request_total(struct edge_metrics *metrics, const char *route, int code)
{
    for (uint32_t i = 0; i < metrics->total_count; i++) {
        if (metrics->totals[i].route == route && metrics->totals[i].code == code)
            return metrics->totals[i].metric;
    }
    char labels[96];
    snprintf(labels, sizeof labels, "route=\"%s\",code=\"%d\"", route, code);
    struct metric *total = init_plain(metrics, METRIC_COUNTER, "banyan_http_requests_total", labels,
                                      "Requests that are over, by route and answer.");
    if (metrics->total_count < EDGE_METRICS_SERIES) {
        uint32_t at = metrics->total_count++;
        metrics->totals[at].route = route;
        metrics->totals[at].code = code;
        metrics->totals[at].metric = total;
    }
    return total;
}

void edge_metrics_request(struct edge_metrics *metrics, const char *route, int code,
                          int64_t total_us)
{
    metric_add(request_total(metrics, route, code), 1);
    metric_observe(metrics->request_seconds, (double)total_us / 1e6);
}
