#include "engine/fleet.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "config/base/mem.h"
#include "engine/fleet_route.h"
#include "kernels/kernels.h"
#include "kernels/ranks.h"

/* An engine's id is generation << 32 | index + 1. A fleet's id has the engine's number in the eight
 * bits above the index. */
enum { ID_SHIFT = 24, ID_ALL = 0xff };
_Static_assert(LIMIT_REQUESTS_IN_ENGINE < 1 << ID_SHIFT, "an index + 1 fits below the engine");
_Static_assert(LIMIT_ENGINES <= ID_ALL, "an engine's number fits and differs from ID_ALL");

/* Prompts that may be under publication at once; an edge sends one after the other. */
enum { FLEET_PUBLICATIONS = 32 };

/* A prompt that is being published in all engines. */
struct fleet_publication {
    bool is_used;
    bool is_silent; /* its submit was refused: its events go to nobody */
    uint32_t generation;
    uint32_t left;                        /* engines that have not ended it */
    void *context;                        /* the caller's */
    engine_request_id ids[LIMIT_ENGINES]; /* 0 = not sent there */
    bool has_end;
    /* The last event of the first engine that failed, else of the last that ended, with sums. */
    struct engine_event end;
};

struct fleet {
    struct engine *engines[LIMIT_ENGINES];
    uint32_t count;
    uint32_t next; /* the engine that is asked first for an event */
    pthread_mutex_t lock;
    struct fleet_route route;      /* under the lock, as everything below */
    uint32_t loads[LIMIT_ENGINES]; /* requests that have not ended */
    struct fleet_publication publications[FLEET_PUBLICATIONS];
};

/* --- ids --- */

static uint32_t id_engine(engine_request_id id)
{
    return (uint32_t)id >> ID_SHIFT;
}

static engine_request_id id_own(engine_request_id id)
{
    return id & ~((engine_request_id)0xff << ID_SHIFT);
}

static engine_request_id id_of(uint32_t engine, engine_request_id own)
{
    return own | (engine_request_id)engine << ID_SHIFT;
}

static engine_request_id id_of_publication(const struct fleet *fleet,
                                           const struct fleet_publication *publication)
{
    const uint64_t place = (uint64_t)(publication - fleet->publications) + 1;
    return id_of(ID_ALL, (engine_request_id)publication->generation << 32 | place);
}

/* --- opening --- */

static enum status open_one(struct fleet *fleet, const struct engine_options *options,
                            struct ranks *ranks)
{
    struct engine_options own = *options;
    char label[32];
    const uint32_t index = fleet->count;
    snprintf(label, sizeof label, "engine=\"%u\"", index);
    own.metrics_label = label;
    own.index = index;
    own.ranks = ranks;
    own.device += index * ranks_count(ranks);
    enum status status = engine_open(&fleet->engines[index], &own);
    if (status == STATUS_OK) {
        fleet->count++;
        return STATUS_OK;
    }
    char message[STATUS_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", status_note()->message);
    return status_fail(status, __FILE__, __LINE__, NULL, "engine %u: %s", index, message);
}

static enum status open_several(struct fleet *fleet, const struct engine_options *options,
                                struct ranks *const *ranks, uint32_t engines)
{
    struct engine_options own = *options;
    const uint32_t processors = kernels_processors();
    if (own.threads == 0)
        own.threads = processors > engines ? processors / engines : 1;
    TRY(fleet_route_init(&fleet->route, engines));
    while (fleet->count < engines)
        TRY(open_one(fleet, &own, ranks != NULL ? ranks[fleet->count] : NULL));
    return STATUS_OK;
}

enum status fleet_open(struct fleet **out, const struct engine_options *options,
                       struct ranks *const *ranks, uint32_t engines)
{
    if (engines < 1 || engines > LIMIT_ENGINES)
        FAIL(STATUS_OUT_OF_RANGE, "%u engines; from 1 to %d are supported", engines, LIMIT_ENGINES);
    struct fleet *fleet = mem_zalloc(1, sizeof *fleet);
    if (fleet == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %u engines", engines);
    pthread_mutex_init(&fleet->lock, NULL);
    enum status status = STATUS_OK;
    if (engines == 1) {
        struct engine_options own = *options;
        own.ranks = ranks != NULL ? ranks[0] : NULL;
        status = engine_open(&fleet->engines[0], &own);
        fleet->count = status == STATUS_OK;
    } else {
        status = open_several(fleet, options, ranks, engines);
    }
    if (status != STATUS_OK) {
        fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return STATUS_OK;
}

void fleet_close(struct fleet *fleet)
{
    if (fleet == NULL)
        return;
    for (uint32_t i = 0; i < fleet->count; i++)
        engine_close(fleet->engines[i]);
    fleet_route_deinit(&fleet->route);
    pthread_mutex_destroy(&fleet->lock);
    mem_free(fleet);
}

uint32_t fleet_count(const struct fleet *fleet)
{
    return fleet->count;
}

struct engine *fleet_text(const struct fleet *fleet)
{
    return fleet->engines[0];
}

/* --- sums --- */

void fleet_info(const struct fleet *fleet, struct engine_info *out)
{
    engine_info(fleet->engines[0], out);
    for (uint32_t i = 1; i < fleet->count; i++) {
        struct engine_info one;
        engine_info(fleet->engines[i], &one);
        out->threads += one.threads;
        out->kv_pages += one.kv_pages;
        out->pin_pages += one.pin_pages;
    }
}

uint32_t fleet_pages_pinned_by(const struct fleet *fleet, uint32_t tokens)
{
    return fleet->count * engine_pages_pinned_by(fleet->engines[0], tokens);
}

static void stats_add(struct engine_stats *sum, const struct engine_stats *one)
{
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        sum->by_class[i].waiting += one->by_class[i].waiting;
        sum->by_class[i].running += one->by_class[i].running;
        sum->by_class[i].paused += one->by_class[i].paused;
        sum->by_class[i].throttled += one->by_class[i].throttled;
    }
    sum->preemptions_swap += one->preemptions_swap;
    sum->preemptions_recompute += one->preemptions_recompute;
    sum->swap_bytes_out += one->swap_bytes_out;
    sum->swap_bytes_in += one->swap_bytes_in;
    sum->swap_us += one->swap_us;
    sum->tokens_overhead += one->tokens_overhead;
    sum->requests += one->requests;
    sum->sequences_running += one->sequences_running;
    sum->sequences_waiting += one->sequences_waiting;
    sum->sequences_throttled += one->sequences_throttled;
    sum->pages_free += one->pages_free;
    sum->pages_cached += one->pages_cached;
    sum->pages_pinned += one->pages_pinned;
    sum->pages_host += one->pages_host;
    sum->pages_total += one->pages_total;
    sum->prefix_followers += one->prefix_followers;
    sum->cache_query_tokens += one->cache_query_tokens;
    sum->cache_hit_tokens += one->cache_hit_tokens;
    sum->steps += one->steps;
    sum->rows += one->rows;
    sum->tokens_prompt += one->tokens_prompt;
    sum->tokens_generated += one->tokens_generated;
}

void fleet_stats(const struct fleet *fleet, struct engine_stats *out)
{
    engine_stats(fleet->engines[0], out);
    for (uint32_t i = 1; i < fleet->count; i++) {
        struct engine_stats one;
        engine_stats(fleet->engines[i], &one);
        stats_add(out, &one);
    }
}

static void published_add(struct engine_published *out, size_t *found, size_t count,
                          const struct engine_published *one)
{
    size_t at = 0;
    while (at < *found && memcmp(&out[at].domain, &one->domain, sizeof one->domain) != 0)
        at++;
    if (at == *found && at < count)
        out[(*found)++] = *one;
    else if (at < *found) {
        out[at].pages += one->pages;
        out[at].hits += one->hits;
        out[at].hit_tokens += one->hit_tokens;
    }
}

size_t fleet_published(const struct fleet *fleet, struct engine_published *out, size_t count)
{
    size_t found = engine_published(fleet->engines[0], out, count);
    for (uint32_t i = 1; i < fleet->count; i++) {
        struct engine_published own[LIMIT_PROMPTS];
        const size_t own_count = engine_published(fleet->engines[i], own, LIMIT_PROMPTS);
        for (size_t k = 0; k < own_count; k++)
            published_add(out, &found, count, &own[k]);
    }
    return found;
}

size_t fleet_requests(const struct fleet *fleet, struct engine_request_info *out, size_t count)
{
    size_t found = 0;
    for (uint32_t i = 0; i < fleet->count; i++) {
        const size_t more = engine_requests(fleet->engines[i], out + found, count - found);
        for (size_t k = 0; k < more; k++)
            out[found + k].id = id_of(i, out[found + k].id);
        found += more;
    }
    return found;
}

/* --- requests of one engine --- */

static void load_add(struct fleet *fleet, uint32_t engine, uint32_t by)
{
    pthread_mutex_lock(&fleet->lock);
    fleet->loads[engine] += by;
    pthread_mutex_unlock(&fleet->lock);
}

/* The best engine that was not tried yet. The request counts as its load at once, because its
 * events may arrive before engine_submit returns. */
static uint32_t submit_choose(struct fleet *fleet, const struct fleet_route_keys *keys,
                              uint32_t tried)
{
    pthread_mutex_lock(&fleet->lock);
    uint32_t engine =
        tried == 0 ? fleet_route_choose(&fleet->route, keys, fleet->loads) : fleet->count;
    for (uint32_t i = 0; tried != 0 && i < fleet->count; i++)
        if ((tried >> i & 1) == 0 &&
            (engine == fleet->count || fleet->loads[i] < fleet->loads[engine]))
            engine = i;
    fleet->loads[engine]++;
    pthread_mutex_unlock(&fleet->lock);
    return engine;
}

static enum status submit_one(struct fleet *fleet, const struct engine_request *request,
                              engine_request_id *out)
{
    struct fleet_route_keys keys;
    enum status status = STATUS_BUSY;
    uint32_t tried = 0;
    fleet_route_keys(request, &keys);
    for (uint32_t left = fleet->count;
         left > 0 && (status == STATUS_BUSY || status == STATUS_ENGINE_SHARE); left--) {
        engine_request_id own = 0;
        const uint32_t engine = submit_choose(fleet, &keys, tried);
        tried |= UINT32_C(1) << engine;
        status = engine_submit(fleet->engines[engine], request, &own);
        if (status != STATUS_OK) {
            load_add(fleet, engine, UINT32_MAX); /* subtracts one, modulo 2^32 */
            continue;
        }
        *out = id_of(engine, own);
        pthread_mutex_lock(&fleet->lock);
        fleet_route_note(&fleet->route, &keys, engine);
        pthread_mutex_unlock(&fleet->lock);
    }
    return status;
}

/* --- published prompts: in all engines --- */

static struct fleet_publication *publication_begin(struct fleet *fleet, void *context)
{
    struct fleet_publication *publication = NULL;
    pthread_mutex_lock(&fleet->lock);
    for (uint32_t i = 0; i < FLEET_PUBLICATIONS && publication == NULL; i++)
        if (!fleet->publications[i].is_used)
            publication = &fleet->publications[i];
    if (publication != NULL) {
        const uint32_t generation = publication->generation + 1;
        *publication = (struct fleet_publication){.is_used = true,
                                                  .generation = generation != 0 ? generation : 1,
                                                  .left = fleet->count,
                                                  .context = context};
    }
    pthread_mutex_unlock(&fleet->lock);
    return publication;
}

/* Under the lock. `engines` more engines have ended the prompt, or were never sent it. */
static void publication_ended(struct fleet_publication *publication, uint32_t engines)
{
    ASSERT(publication->left >= engines);
    publication->left -= engines;
    if (publication->left == 0 && publication->is_silent)
        publication->is_used = false;
}

/* One engine has refused the prompt: the `sent` engines before it cancel it without an event. */
static void publication_refused(struct fleet *fleet, struct fleet_publication *publication,
                                uint32_t sent)
{
    engine_request_id ids[LIMIT_ENGINES];
    pthread_mutex_lock(&fleet->lock);
    memcpy(ids, publication->ids, sizeof ids);
    publication->is_silent = true;
    publication_ended(publication, fleet->count - sent);
    pthread_mutex_unlock(&fleet->lock);
    for (uint32_t i = 0; i < sent; i++)
        engine_cancel(fleet->engines[i], ids[i]);
}

static enum status submit_all(struct fleet *fleet, const struct engine_request *request,
                              engine_request_id *out)
{
    struct engine_request own = *request;
    struct fleet_publication *publication = publication_begin(fleet, request->context);
    if (publication == NULL)
        FAIL(STATUS_BUSY, "%d prompts are being published; try again shortly", FLEET_PUBLICATIONS);
    const uint32_t generation = publication->generation;
    own.context = publication;
    *out = id_of_publication(fleet, publication);
    for (uint32_t i = 0; i < fleet->count; i++) {
        engine_request_id id = 0;
        enum status status = engine_submit(fleet->engines[i], &own, &id);
        if (status != STATUS_OK) {
            struct error_note note = *status_note();
            publication_refused(fleet, publication, i);
            status_note_set(&note);
            return status;
        }
        pthread_mutex_lock(&fleet->lock);
        if (publication->generation ==
            generation) /* else it has ended already and the slot is reused */
            publication->ids[i] = id;
        pthread_mutex_unlock(&fleet->lock);
    }
    return STATUS_OK;
}

static bool publication_is(const struct fleet *fleet, const void *context)
{
    const char *at = context;
    return at >= (const char *)fleet->publications &&
           at < (const char *)(fleet->publications + FLEET_PUBLICATIONS);
}

static bool publication_has_failed(const struct engine_event *event)
{
    return event->kind == ENGINE_EVENT_ERROR || event->report.finish == ENGINE_FINISH_CANCELLED ||
           event->report.finish == ENGINE_FINISH_DEADLINE ||
           event->report.finish == ENGINE_FINISH_ERROR;
}

/* Takes an event of one engine; true when `event` is now the one event that the caller
 * of fleet_submit gets. */
static bool publication_take(struct fleet *fleet, struct engine_event *event)
{
    struct fleet_publication *publication = event->context;
    bool is_told = false;
    if (event->kind != ENGINE_EVENT_END && event->kind != ENGINE_EVENT_ERROR)
        return false;
    pthread_mutex_lock(&fleet->lock);
    const uint32_t pages = publication->has_end ? publication->end.report.pinned_pages : 0;
    if (!publication->has_end || !publication_has_failed(&publication->end)) {
        publication->end = *event;
        publication->end.report.pinned_pages += pages;
        publication->has_end = true;
    }
    publication_ended(publication, 1);
    if (publication->is_used && publication->left == 0) {
        *event = publication->end;
        event->id = id_of_publication(fleet, publication);
        event->context = publication->context;
        event->text = (struct slice){0};
        publication->is_used = false;
        is_told = true;
    }
    pthread_mutex_unlock(&fleet->lock);
    return is_told;
}

/* The ids of a published prompt in the engines; 0 for those that were never sent it. */
static void publication_ids(struct fleet *fleet, engine_request_id id,
                            engine_request_id ids[LIMIT_ENGINES])
{
    const uint32_t place = (uint32_t)id_own(id) - 1;
    memset(ids, 0, LIMIT_ENGINES * sizeof *ids);
    if (place >= FLEET_PUBLICATIONS)
        return;
    pthread_mutex_lock(&fleet->lock);
    const struct fleet_publication *publication = &fleet->publications[place];
    if (publication->is_used && publication->generation == (uint32_t)(id >> 32))
        memcpy(ids, publication->ids, sizeof publication->ids);
    pthread_mutex_unlock(&fleet->lock);
}

/* --- the door --- */

enum status fleet_submit(struct fleet *fleet, const struct engine_request *request,
                         engine_request_id *out)
{
    if (fleet->count == 1)
        return engine_submit(fleet->engines[0], request, out);
    return request->is_published ? submit_all(fleet, request, out)
                                 : submit_one(fleet, request, out);
}

static void fleet_each(struct fleet *fleet, engine_request_id id,
                       void (*each)(struct engine *engine, engine_request_id id))
{
    engine_request_id ids[LIMIT_ENGINES];
    if (id_engine(id) < fleet->count) {
        each(fleet->engines[id_engine(id)], id_own(id));
        return;
    }
    publication_ids(fleet, id, ids);
    for (uint32_t i = 0; i < fleet->count; i++)
        if (ids[i] != 0)
            each(fleet->engines[i], ids[i]);
}

void fleet_cancel(struct fleet *fleet, engine_request_id id)
{
    fleet_each(fleet, id, engine_cancel);
}

void fleet_lower(struct fleet *fleet, engine_request_id id)
{
    fleet_each(fleet, id, engine_lower);
}

enum status fleet_unpublish(struct fleet *fleet, const struct engine_domain *domain)
{
    enum status first = STATUS_OK;
    struct error_note note;
    for (uint32_t i = 0; i < fleet->count; i++)
        if (engine_unpublish(fleet->engines[i], domain) != STATUS_OK && first == STATUS_OK) {
            note = *status_note();
            first = note.status;
        }
    if (first != STATUS_OK)
        status_note_set(&note);
    return first;
}

void fleet_acknowledge(struct fleet *fleet, engine_request_id id, uint32_t choice, uint32_t tokens)
{
    const uint32_t engine = id_engine(id);
    if (engine < fleet->count)
        engine_acknowledge(fleet->engines[engine], id_own(id), choice, tokens);
}

static bool next_of(struct fleet *fleet, uint32_t engine, struct engine_event *out)
{
    while (engine_next_event(fleet->engines[engine], out)) {
        if (publication_is(fleet, out->context)) {
            if (publication_take(fleet, out))
                return true;
            continue;
        }
        out->id = id_of(engine, out->id);
        if (out->kind == ENGINE_EVENT_END || out->kind == ENGINE_EVENT_ERROR)
            load_add(fleet, engine, UINT32_MAX); /* subtracts one, modulo 2^32 */
        return true;
    }
    return false;
}

bool fleet_has_failed(const struct fleet *fleet)
{
    bool has_failed = false;
    for (uint32_t i = 0; i < fleet->count; i++)
        has_failed = has_failed || engine_has_failed(fleet->engines[i]);
    return has_failed;
}

/* Asks the engines in turn and takes one event from each. */
bool fleet_next_event(struct fleet *fleet, struct engine_event *out)
{
    if (fleet->count == 1)
        return engine_next_event(fleet->engines[0], out);
    for (uint32_t i = 0; i < fleet->count; i++) {
        const uint32_t engine = (fleet->next + i) % fleet->count;
        if (next_of(fleet, engine, out)) {
            fleet->next = (engine + 1) % fleet->count;
            return true;
        }
    }
    return false;
}
