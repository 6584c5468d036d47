#include "engine/step/step_metrics.h"

#include <stdio.h>

static const char pages_name[] = "banyan_kv_pages";
static const char pages_help[] =
    "KV memory by state, in pages; in units where some layers read only a window of tokens.";

/* The registry that an engine's series go to. */
struct series {
    struct metrics *metrics;
    const char *label; /* of all series; "" = none */
};

static struct metric *find(const struct series *to, enum metric_kind kind, const char *name,
                           const char *help, const char *labels, const double *buckets,
                           uint32_t bucket_count)
{
    char both[128];
    const char *comma = to->label[0] != '\0' && labels[0] != '\0' ? "," : "";
    snprintf(both, sizeof both, "%s%s%s", to->label, comma, labels);
    return metrics_get(to->metrics, kind, name, help, both, buckets, bucket_count);
}

static struct metric *plain(const struct series *to, enum metric_kind kind, const char *name,
                            const char *help, const char *labels)
{
    bool is_histogram = kind == METRIC_HISTOGRAM;
    return find(to, kind, name, help, labels, is_histogram ? METRIC_SECONDS_BUCKETS : NULL,
                is_histogram ? METRIC_SECONDS_BUCKET_COUNT : 0);
}

static struct metric *gauge(const struct series *to, const char *name, const char *help)
{
    return plain(to, METRIC_GAUGE, name, help, "");
}

static void init_cache(struct step_metrics *out, const struct series *to)
{
    static const char evicted[] = "banyan_prefix_cache_evicted_pages_total";
    static const char evicted_help[] = "Cached pages that left the pool, by where they went.";
    out->cache_queries = plain(to, METRIC_COUNTER, "banyan_prefix_cache_queries_tokens_total",
                               "Tokens of prompts that were looked up in the prefix cache.", "");
    out->cache_hits = plain(to, METRIC_COUNTER, "banyan_prefix_cache_hits_tokens_total",
                            "Tokens of prompts that were found in the prefix cache.", "");
    out->window_lost =
        plain(to, METRIC_COUNTER, "banyan_prefix_cache_window_lost_tokens_total",
              "Tokens of prompts that were in the prefix cache and not found, because the window "
              "behind them was gone.",
              "");
    out->windows_dropped =
        plain(to, METRIC_COUNTER, "banyan_kv_windows_dropped_total",
              "Cached pages that gave up what layers with a window need of them.", "");
    out->window_units = gauge(to, "banyan_kv_window_units",
                              "Units of KV memory that layers with a window use; 0 where all "
                              "layers read all tokens.");
    out->evicted_host = plain(to, METRIC_COUNTER, evicted, evicted_help, "to=\"host\"");
    out->evicted_dropped = plain(to, METRIC_COUNTER, evicted, evicted_help, "to=\"dropped\"");
    out->pages_free = plain(to, METRIC_GAUGE, pages_name, pages_help, "state=\"free\"");
    out->pages_held = plain(to, METRIC_GAUGE, pages_name, pages_help, "state=\"active\"");
    out->pages_cached = plain(to, METRIC_GAUGE, pages_name, pages_help, "state=\"cached\"");
    out->pages_pinned = plain(to, METRIC_GAUGE, pages_name, pages_help, "state=\"pinned\"");
    out->pages_host = plain(to, METRIC_GAUGE, pages_name, pages_help, "state=\"host\"");
    out->pages_host_total =
        gauge(to, "banyan_kv_host_pages", "Pages (units) that fit in host memory.");
    out->token_bytes = gauge(to, "banyan_kv_token_bytes",
                             "Bytes of KV memory for one token, without layers that have a "
                             "window where others have none.");
}

static void init_pauses(struct step_metrics *out, const struct series *to)
{
    static const char preemptions[] = "banyan_preemptions_total";
    static const char preemptions_help[] = "Sequences that were preempted, by how they resume.";
    static const char bytes[] = "banyan_swap_bytes_total";
    static const char bytes_help[] =
        "Bytes copied between the pool and host memory for preempted sequences.";
    out->preemptions_swap =
        plain(to, METRIC_COUNTER, preemptions, preemptions_help, "way=\"swap\"");
    out->preemptions_recompute =
        plain(to, METRIC_COUNTER, preemptions, preemptions_help, "way=\"recompute\"");
    out->swap_out = plain(to, METRIC_COUNTER, bytes, bytes_help, "direction=\"out\"");
    out->swap_in = plain(to, METRIC_COUNTER, bytes, bytes_help, "direction=\"in\"");
    out->swap_seconds = plain(to, METRIC_HISTOGRAM, "banyan_swap_seconds",
                              "Time of the copies that a swap out or a swap in took.", "");
    out->tokens_overhead = plain(to, METRIC_COUNTER, "banyan_overhead_tokens_total",
                                 "Tokens computed again after a preemption.", "");
    out->floor = gauge(to, "banyan_class_floor_ratio",
                       "Share of each second's tokens for each lower class that has work.");
    out->fair_pauses = plain(to, METRIC_COUNTER, "banyan_fair_pauses_total",
                             "Preemptions for the fairness of tenants of one class.", "");
}

static void init_masks(struct step_metrics *out, const struct series *to)
{
    static const char name[] = "banyan_masks_total";
    static const char help[] =
        "Masks of constrained rows, by whether their row had to skip a step.";
    out->masks_ready = plain(to, METRIC_COUNTER, name, help, "state=\"ready\"");
    out->masks_late = plain(to, METRIC_COUNTER, name, help, "state=\"late\"");
    out->reasoning_closed =
        plain(to, METRIC_COUNTER, "banyan_reasoning_closed_total",
              "Answers whose reasoning was ended because its budget was spent.", "");
    out->tokens_forced = plain(to, METRIC_COUNTER, "banyan_forced_tokens_total",
                               "Tokens of answers that a grammar forced: none was sampled.", "");
}

static void init_drafts(struct step_metrics *out, const struct series *to)
{
    static const double lengths[] = {0, 1, 2, 3};
    static const char tokens[] = "banyan_draft_tokens_total";
    static const char tokens_help[] = "Draft tokens (--speculation), by result of verification.";
    out->drafts_accepted = plain(to, METRIC_COUNTER, tokens, tokens_help, "result=\"accepted\"");
    out->drafts_rejected = plain(to, METRIC_COUNTER, tokens, tokens_help, "result=\"rejected\"");
    out->draft_length = find(to, METRIC_HISTOGRAM, "banyan_draft_accepted_length",
                             "Accepted draft tokens of a sequence with drafts in one step.", "",
                             lengths, sizeof(lengths) / sizeof(lengths[0]));
    static const char seconds[] = "banyan_draft_seconds";
    static const char seconds_help[] =
        "Time that drafts added to steps (spent), and time that accepted tokens saved (saved); "
        "saved / spent is the gain of speculation. Rows are counted by their fitted cost.";
    out->draft_spent = plain(to, METRIC_HISTOGRAM, seconds, seconds_help, "of=\"spent\"");
    out->draft_saved = plain(to, METRIC_HISTOGRAM, seconds, seconds_help, "of=\"saved\"");
}

static void init_times(struct step_metrics *out, const struct series *to)
{
    static const char *const labels[STEP_TIME_COUNT] = {
#define STEP_TIME(id, name) "part=\"" name "\"",
        STEP_TIMES(STEP_TIME)
#undef STEP_TIME
    };
    for (unsigned i = 0; i < STEP_TIME_COUNT; i++)
        out->seconds[i] = plain(to, METRIC_HISTOGRAM, "banyan_step_seconds",
                                "Time of the parts of steps with rows.", labels[i]);
}

static void init_class(struct step_class_metrics *out, const struct series *to, const char *name)
{
    static const char sequences[] = "banyan_sequences";
    static const char sequences_help[] =
        "Sequences by state, and requests that wait to become sequences.";
    const struct {
        struct metric **to;
        const char *state;
    } states[] = {
        {&out->computing, "computing"}, {&out->throttled, "throttled"}, {&out->paused, "paused"},
        {&out->waiting, "waiting"},     {&out->following, "following"},
    };
    char labels[64];
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        snprintf(labels, sizeof labels, "class=\"%s\",state=\"%s\"", name, states[i].state);
        *states[i].to = plain(to, METRIC_GAUGE, sequences, sequences_help, labels);
    }
    snprintf(labels, sizeof labels, "class=\"%s\"", name);
    out->rows = plain(to, METRIC_COUNTER, "banyan_class_tokens_total",
                      "Rows of steps: prompt tokens computed, and tokens generated.", labels);
    out->queue_seconds = plain(to, METRIC_HISTOGRAM, "banyan_queue_seconds",
                               "Time from submit to the admission of a request.", labels);
    out->first_token_seconds = plain(to, METRIC_HISTOGRAM, "banyan_engine_first_token_seconds",
                                     "Time from submit to the first token of a request.", labels);
    out->inter_token_seconds = plain(to, METRIC_HISTOGRAM, "banyan_inter_token_seconds",
                                     "Time between two tokens of a sequence.", labels);
    out->fair_spread =
        plain(to, METRIC_GAUGE, "banyan_fair_spread_tokens",
              "Largest difference of weighted service between tenants that have work.", labels);
    out->fair_bound =
        plain(to, METRIC_GAUGE, "banyan_fair_bound_tokens",
              "Upper bound of the spread, by the least weight among the tenants.", labels);
    out->fair_forgotten =
        plain(to, METRIC_COUNTER, "banyan_fair_forgotten_tokens_total",
              "Weighted service that a tenant with work lacks and is no longer owed.", labels);
}

void step_metrics_init(struct step_metrics *out, struct metrics *metrics, const char *label)
{
    static const double rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    static const char tokens[] = "banyan_engine_tokens_total";
    static const char tokens_help[] = "Tokens: prompts admitted and tokens generated.";
    const struct series series = {metrics, label != NULL ? label : ""};
    const struct series *to = &series;
    *out = (struct step_metrics){0};
    if (metrics == NULL)
        return;
    out->tokens_prompt = plain(to, METRIC_COUNTER, tokens, tokens_help, "kind=\"prompt\"");
    out->tokens_generated = plain(to, METRIC_COUNTER, tokens, tokens_help, "kind=\"generated\"");
    out->embeddings = plain(to, METRIC_COUNTER, "banyan_embeddings_total",
                            "Texts of which an embedding was made.", "");
    out->batch_rows = find(to, METRIC_HISTOGRAM, "banyan_batch_rows", "Rows of a step.", "", rows,
                           sizeof(rows) / sizeof(rows[0]));
    out->batch_utilization = gauge(to, "banyan_batch_utilization",
                                   "Sequences that compute, as a fraction of --sequences.");
    init_cache(out, to);
    init_pauses(out, to);
    init_masks(out, to);
    init_drafts(out, to);
    init_times(out, to);
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        init_class(&out->classes[i], to, service_class_name((enum service_class)i));
}

/* Sets the spread of service among the backlogged clients of a class, and its bound. */
static void figures_spread(const struct scheduler_fair *fair, enum service_class class,
                           const struct step_class_metrics *out)
{
    double least = 0, most = 0;
    uint32_t weight = 100;
    bool is_first = true;
    for (uint32_t i = 0; i < fair->used; i++) {
        const struct scheduler_client *client = &fair->clients[i];
        if (client->requests == 0 || client->service_class != class || !client->is_backlogged)
            continue;
        least = is_first || client->served < least ? client->served : least;
        most = is_first || client->served > most ? client->served : most;
        weight = is_first || client->weight < weight ? client->weight : weight;
        is_first = false;
    }
    metric_set(out->fair_spread, most - least);
    metric_set(out->fair_bound, 2 * scheduler_fair_slack(fair, weight));
}

/* The spread never exceeds U + Q (scheduler_fair): what goes beyond is forgotten at once
 * and counted here. */
static void figures_forgotten(struct step_metrics *metrics, const struct scheduler_fair *fair)
{
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        uint64_t now = (uint64_t)fair->forgotten[i];
        metric_add(metrics->classes[i].fair_forgotten, (int64_t)(now - metrics->forgotten_told[i]));
        metrics->forgotten_told[i] = now;
    }
}

static void figures_fair(struct step *step)
{
    struct step_metrics *metrics = &step->metrics;
    const struct scheduler_fair *fair = &step->fair;
    metric_set(metrics->floor, fair->options.floor_percent / 100.0);
    metric_add(metrics->fair_pauses, (int64_t)(fair->pauses - metrics->pauses_told));
    metrics->pauses_told = fair->pauses;
    figures_forgotten(metrics, fair);
    uint64_t overhead = atomic_load_explicit(&step->figures.tokens_overhead, memory_order_relaxed);
    metric_add(metrics->tokens_overhead, (int64_t)(overhead - metrics->overhead_told));
    metrics->overhead_told = overhead;
    if (metrics->spread_part == fair->now_part)
        return;
    metrics->spread_part = fair->now_part;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        figures_spread(fair, (enum service_class)i, &metrics->classes[i]);
}

void step_metrics_figures(struct step *step, const struct prefix_figures *now,
                          const struct step_class_count *classes)
{
    struct step_metrics *metrics = &step->metrics;
    struct prefix_figures *told = &metrics->cache_told;
    uint32_t computing = 0;
    if (metrics->pages_free == NULL)
        return;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        const struct step_class_metrics *out = &metrics->classes[i];
        metric_set(out->computing, classes[i].computing);
        metric_set(out->throttled, classes[i].throttled);
        metric_set(out->paused, classes[i].paused);
        metric_set(out->waiting, classes[i].waiting);
        metric_set(out->following, step->followers_by_class[i]);
        computing += classes[i].computing;
    }
    metric_set(metrics->batch_utilization, (double)computing / step->options.sequences_max);
    metric_set(metrics->pages_free, now->pages_free);
    metric_set(metrics->pages_held, now->pages_active);
    metric_set(metrics->pages_cached, now->pages_idle);
    metric_set(metrics->pages_pinned, now->pages_pinned);
    metric_set(metrics->pages_host, now->pages_host);
    metric_set(metrics->pages_host_total, step->cache.host.unit_count);
    metric_set(metrics->token_bytes, (double)step_unit_bytes(step) / step->pool.layout.page_tokens);
    metric_add(metrics->cache_queries, (int64_t)(now->query_tokens - told->query_tokens));
    metric_add(metrics->cache_hits, (int64_t)(now->hit_tokens - told->hit_tokens));
    metric_add(metrics->window_lost, (int64_t)(now->window_lost_tokens - told->window_lost_tokens));
    metric_add(metrics->windows_dropped, (int64_t)(now->windows_dropped - told->windows_dropped));
    metric_set(metrics->window_units, now->pages_windows);
    metric_add(metrics->evicted_host, (int64_t)(now->evicted_to_host - told->evicted_to_host));
    metric_add(metrics->evicted_dropped, (int64_t)(now->evicted_dropped - told->evicted_dropped));
    *told = *now;
    figures_fair(step);
}

void step_metrics_masks(struct step *step, uint32_t ready, uint32_t late)
{
    if (step->metrics.masks_ready == NULL || ready + late == 0)
        return;
    metric_add(step->metrics.masks_ready, ready);
    metric_add(step->metrics.masks_late, late);
}

void step_metrics_forced(struct step *step, uint32_t tokens)
{
    if (step->metrics.tokens_forced != NULL && tokens > 0)
        metric_add(step->metrics.tokens_forced, tokens);
}

void step_metrics_closed(struct step *step, bool is_closed)
{
    if (step->metrics.reasoning_closed != NULL && is_closed)
        metric_add(step->metrics.reasoning_closed, 1);
}

void step_metrics_rows(struct step *step, uint32_t parts)
{
    uint32_t rows[SERVICE_CLASS_COUNT] = {0};
    if (step->metrics.batch_rows == NULL)
        return;
    metric_observe(step->metrics.batch_rows, step->batch.model.rows);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t slot = step->sequences.slots[step->parts[i].sequence].slot;
        rows[step->options.tickets->slots[slot].asked.service_class] += step->parts[i].rows;
    }
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        metric_add(step->metrics.classes[i].rows, rows[i]);
}

void step_metrics_time(struct step *step, enum step_time part, int64_t ns)
{
    if (step->metrics.seconds[part] != NULL)
        metric_observe(step->metrics.seconds[part], (double)ns * 1e-9);
}
