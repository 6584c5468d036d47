#include "engine/step_tell.h"

static void init_cache(struct step_metrics *out, struct metrics *metrics)
{
    static const char evicted[] = "banyan_prefix_cache_evicted_pages_total";
    static const char evicted_help[] = "Cached pages that left the pool, by where they went.";
    out->cache_queries =
        metrics_get(metrics, METRIC_COUNTER, "banyan_prefix_cache_queries_tokens_total",
                    "Tokens of prompts that were looked up in the prefix cache.", "", NULL, 0);
    out->cache_hits = metrics_get(metrics, METRIC_COUNTER, "banyan_prefix_cache_hits_tokens_total",
                                  "Tokens of them that were found.", "", NULL, 0);
    out->evicted_host =
        metrics_get(metrics, METRIC_COUNTER, evicted, evicted_help, "to=\"host\"", NULL, 0);
    out->evicted_dropped =
        metrics_get(metrics, METRIC_COUNTER, evicted, evicted_help, "to=\"dropped\"", NULL, 0);
}

void step_tell_init(struct step *step, struct metrics *metrics)
{
    static const double rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    static const char sequences[] = "banyan_sequences";
    static const char sequences_help[] =
        "Sequences by state, and requests that wait to become some.";
    static const char tokens[] = "banyan_engine_tokens_total";
    static const char tokens_help[] = "Tokens: prompts admitted and tokens generated.";
    static const char pages[] = "banyan_kv_pages";
    static const char pages_help[] = "KV pages by state.";
    static const char preemptions[] = "banyan_preemptions_total";
    static const char preemptions_help[] =
        "Sequences that lost their pages to others, by how they come back.";
    struct step_metrics *out = &step->metrics;
    if (metrics == NULL)
        return;
    out->tokens_prompt =
        metrics_get(metrics, METRIC_COUNTER, tokens, tokens_help, "kind=\"prompt\"", NULL, 0);
    out->tokens_generated =
        metrics_get(metrics, METRIC_COUNTER, tokens, tokens_help, "kind=\"generated\"", NULL, 0);
    out->batch_rows = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_batch_rows", "Rows of a step.",
                                  "", rows, sizeof(rows) / sizeof(rows[0]));
    out->pages_free =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"free\"", NULL, 0);
    out->pages_held =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"active\"", NULL, 0);
    out->pages_cached =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"cached\"", NULL, 0);
    out->pages_pinned =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"pinned\"", NULL, 0);
    out->pages_host =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"host\"", NULL, 0);
    init_cache(out, metrics);
    out->sequences_computing = metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help,
                                           "state=\"computing\"", NULL, 0);
    out->sequences_throttled = metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help,
                                           "state=\"throttled\"", NULL, 0);
    out->requests_waiting =
        metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help, "state=\"waiting\"", NULL, 0);
    out->requests_following = metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help,
                                          "state=\"following\"", NULL, 0);
    out->preemptions_swap = metrics_get(metrics, METRIC_COUNTER, preemptions, preemptions_help,
                                        "way=\"swap\"", NULL, 0);
    out->preemptions_recompute = metrics_get(metrics, METRIC_COUNTER, preemptions, preemptions_help,
                                             "way=\"recompute\"", NULL, 0);
    out->queue_seconds = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_queue_seconds",
                                     "From submit to the first row of a request.", "",
                                     METRIC_SECONDS_BUCKETS, METRIC_SECONDS_BUCKET_COUNT);
    out->first_token_seconds =
        metrics_get(metrics, METRIC_HISTOGRAM, "banyan_engine_first_token_seconds",
                    "From submit to the first token of a request.", "", METRIC_SECONDS_BUCKETS,
                    METRIC_SECONDS_BUCKET_COUNT);
    out->inter_token_seconds = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_inter_token_seconds",
                                           "Between two tokens of a sequence.", "",
                                           METRIC_SECONDS_BUCKETS, METRIC_SECONDS_BUCKET_COUNT);
}

void step_tell(struct step *step, const struct outbox_record *record,
               const struct engine_logprob *top, struct slice text)
{
    if (record->sequence != SEQUENCE_NONE)
        step->sequences.slots[record->sequence].records_pushed++;
    bool is_pushed = outbox_push(&step->outbox, record, top, text);
    ASSERT(is_pushed); /* by the sum in init_outbox */
    step->has_emitted = true;
}

void step_tell_request(struct step *step, enum engine_event_kind kind, uint32_t slot)
{
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    const struct outbox_record record = {.kind = kind,
                                         .slot = slot,
                                         .sequence = SEQUENCE_NONE,
                                         .tokens_so_far = ticket->report.completion_tokens,
                                         .finish = ticket->report.finish};
    step_tell(step, &record, NULL, (struct slice){0});
}

struct outbox_record step_tell_record(struct step *step, enum engine_event_kind kind,
                                      uint32_t index)
{
    const struct sequence *sequence = &step->sequences.slots[index];
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    return (struct outbox_record){.kind = kind,
                                  .slot = sequence->slot,
                                  .sequence = index,
                                  .choice = sequence->choice,
                                  .tokens_so_far = ticket->report.completion_tokens};
}

static void requests_published(struct step *step)
{
    bool is_none = step->cache.published_count == 0 && step->published_count == 0;
    if (is_none || pthread_mutex_trylock(&step->published_lock) != 0)
        return;
    step->published_count = prefix_cache_published(&step->cache, step->published, LIMIT_PROMPTS);
    pthread_mutex_unlock(&step->published_lock);
}

void step_tell_requests(struct step *step)
{
    requests_published(step);
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
        atomic_store_explicit(&ticket->shown_computed, 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
        enum engine_request_state state = ENGINE_REQUEST_DECODE;
        if (sequence->is_throttled)
            state = ENGINE_REQUEST_THROTTLED;
        else if (sequence->is_paused)
            state = ENGINE_REQUEST_PAUSED;
        else if (sequence->computed < sequence->prompt_count)
            state = ENGINE_REQUEST_PREFILL;
        atomic_store_explicit(&ticket->shown_state, state, memory_order_relaxed);
        atomic_fetch_add_explicit(&ticket->shown_computed, sequence->computed,
                                  memory_order_relaxed);
        atomic_store_explicit(&ticket->shown_completion, ticket->report.completion_tokens,
                              memory_order_relaxed);
    }
}

static void figures_metrics(struct step *step, const struct prefix_figures *cache,
                            uint32_t throttled)
{
    const struct step_metrics *metrics = &step->metrics;
    struct prefix_figures *told = &step->figures_told;
    metric_set(metrics->sequences_throttled, throttled);
    metric_set(metrics->sequences_computing, step->sequences.order_count - throttled);
    metric_set(metrics->requests_waiting, step->queue.all.count - step->followers);
    metric_set(metrics->requests_following, step->followers);
    metric_set(metrics->pages_free, cache->pages_free);
    metric_set(metrics->pages_held, cache->pages_active);
    metric_set(metrics->pages_cached, cache->pages_idle);
    metric_set(metrics->pages_pinned, cache->pages_pinned);
    metric_set(metrics->pages_host, cache->pages_host);
    metric_add(metrics->cache_queries, (int64_t)(cache->query_tokens - told->query_tokens));
    metric_add(metrics->cache_hits, (int64_t)(cache->hit_tokens - told->hit_tokens));
    metric_add(metrics->evicted_host, (int64_t)(cache->evicted_to_host - told->evicted_to_host));
    metric_add(metrics->evicted_dropped, (int64_t)(cache->evicted_dropped - told->evicted_dropped));
    *told = *cache;
}

void step_tell_figures(struct step *step)
{
    struct step_figures *figures = &step->figures;
    uint32_t throttled = sequence_throttled_count(&step->sequences);
    struct prefix_figures cache;
    prefix_cache_figures(&step->cache, &cache);
    const struct {
        _Atomic uint32_t *to;
        uint32_t value;
    } counts[] = {
        {&figures->throttled, throttled},
        {&figures->running, step->sequences.order_count},
        {&figures->waiting, step->queue.all.count},
        {&figures->followers, step->followers},
        {&figures->pages_free, cache.pages_free},
        {&figures->pages_idle, cache.pages_idle},
        {&figures->pages_pinned, cache.pages_pinned},
        {&figures->pages_host, cache.pages_host},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        atomic_store_explicit(counts[i].to, counts[i].value, memory_order_relaxed);
    atomic_store_explicit(&figures->cache_query_tokens, cache.query_tokens, memory_order_relaxed);
    atomic_store_explicit(&figures->cache_hit_tokens, cache.hit_tokens, memory_order_relaxed);
    if (step->metrics.pages_free != NULL)
        figures_metrics(step, &cache, throttled);
}
