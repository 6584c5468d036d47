#include "engine/step/step_tell.h"

#include "engine/step/step_metrics.h"

void step_tell(struct step *step, const struct outbox_record *record,
               const struct engine_logprob *top, struct slice text)
{
    if (record->sequence != SEQUENCE_NONE)
        step->sequences.slots[record->sequence].records_pushed++;
    bool is_pushed = outbox_push(&step->outbox, record, top, text);
    ASSERT(is_pushed); /* init_outbox has made room for all of them */
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
    if (is_none)
        return;
    if (pthread_mutex_trylock(&step->published_lock) != 0) {
        inbox_ring(&step->inbox); /* another thread reads: the next step comes soon and retries */
        return;
    }
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

static void figures_classes(struct step *step, struct step_class_count *classes)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct step_class_count *count =
            &classes[step->options.tickets->slots[sequence->slot].asked.service_class];
        uint32_t *state = sequence->is_throttled ? &count->throttled
                          : sequence->is_paused  ? &count->paused
                                                 : &count->computing;
        ++*state;
    }
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        struct step_figures_class *out = &step->figures.by_class[i];
        classes[i].waiting = step->queue.by_class[i] - step->followers_by_class[i];
        atomic_store_explicit(&out->waiting, classes[i].waiting, memory_order_relaxed);
        atomic_store_explicit(&out->running, classes[i].computing, memory_order_relaxed);
        atomic_store_explicit(&out->paused, classes[i].paused, memory_order_relaxed);
        atomic_store_explicit(&out->throttled, classes[i].throttled, memory_order_relaxed);
    }
}

static void figures_swap(struct step *step)
{
    struct step_figures *figures = &step->figures;
    const struct kv_swap_figures *swap = &step->swap.figures;
    const uint64_t unit_bytes = step_unit_bytes(step);
    atomic_store_explicit(&figures->swap_bytes_out, swap->units_out * unit_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&figures->swap_bytes_in, swap->units_in * unit_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&figures->swap_us, (uint64_t)(swap->out_us + swap->in_us),
                          memory_order_relaxed);
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
    figures_swap(step);
    struct step_class_count classes[SERVICE_CLASS_COUNT] = {0};
    figures_classes(step, classes);
    step_metrics_figures(step, &cache, classes);
}
