#include "engine/engine_constrain.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/mem.h"
#include "config/base/turns.h"
#include "engine/answer/answer_grammar.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/token_class.h"
#include "engine/grammar/token_trie.h"

/* Steps of a compilation that take as long as a byte of text: 25 ns a step, 50 ns a byte. */
enum { CONSTRAIN_STEPS_BYTE = 2 };

struct engine_constrain {
    const struct vocab *vocab;
    const struct answer_model *answer;
    struct grammar_cache *cache;
    pthread_mutex_t lock; /* of the two below, while they are made */
    struct token_trie *trie;
    struct token_classes *classes;
    struct metric *compiled;
    struct metric *refused;
    struct metric *cancelled;
    struct metric *found;
    struct metric *bytes;
    struct metric *seconds;
};

static void constrain_metrics(struct engine_constrain *out, struct metrics *metrics,
                              const char *label)
{
    static const char grammars[] = "banyan_grammars_total";
    static const char help[] = "Constraints of requests, by what became of them.";
    const char *own = label != NULL ? label : "";
    const char *comma = own[0] != '\0' ? "," : "";
    const struct {
        struct metric **to;
        const char *result;
    } results[] = {{&out->compiled, "compiled"},
                   {&out->refused, "refused"},
                   {&out->cancelled, "cancelled"},
                   {&out->found, "cached"}};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        char labels[128];
        snprintf(labels, sizeof labels, "%s%sresult=\"%s\"", own, comma, results[i].result);
        *results[i].to = metrics_get(metrics, METRIC_COUNTER, grammars, help, labels, NULL, 0);
    }
    out->bytes = metrics_get(metrics, METRIC_GAUGE, "banyan_grammar_cache_bytes",
                             "Memory of cached grammars and their sources.", own, NULL, 0);
    out->seconds = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_grammar_compile_seconds",
                               "Time that compiling a constraint took.", own,
                               METRIC_SECONDS_BUCKETS, METRIC_SECONDS_BUCKET_COUNT);
}

enum status engine_constrain_new(const struct vocab *vocab, const struct answer_model *answer,
                                 size_t grammar_bytes, struct metrics *metrics, const char *label,
                                 struct engine_constrain **out)
{
    struct engine_constrain *constrain = mem_zalloc(1, sizeof *constrain);
    if (constrain == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for constraints");
    constrain->vocab = vocab;
    constrain->answer = answer;
    enum status status = grammar_cache_new(grammar_bytes, &constrain->cache);
    if (status != STATUS_OK) {
        mem_free(constrain);
        return status;
    }
    pthread_mutex_init(&constrain->lock, NULL);
    if (metrics != NULL)
        constrain_metrics(constrain, metrics, label);
    *out = constrain;
    return STATUS_OK;
}

void engine_constrain_free(struct engine_constrain *constrain)
{
    if (constrain == NULL)
        return;
    grammar_cache_free(constrain->cache);
    token_classes_free(constrain->classes);
    token_trie_free(constrain->trie);
    pthread_mutex_destroy(&constrain->lock);
    mem_free(constrain);
}

/* --- the vocabulary --- */

static struct slice constrain_bytes(const void *context, uint32_t id)
{
    const struct vocab *vocab = context;
    const enum vocab_kind kind = vocab_kind(vocab, id);
    if (kind == VOCAB_CONTROL || kind == VOCAB_UNUSED || kind == VOCAB_UNKNOWN ||
        vocab_is_end(vocab, id))
        return (struct slice){0};
    return vocab_bytes(vocab, id);
}

/* The first constraint makes trie and classes; others that come meanwhile wait for it. */
static enum status constrain_open(struct engine_constrain *constrain)
{
    enum status status = STATUS_OK;
    const struct token_trie_source source = {.vocab = vocab_size(constrain->vocab),
                                             .bytes = constrain_bytes,
                                             .context = constrain->vocab};
    pthread_mutex_lock(&constrain->lock);
    if (constrain->trie == NULL)
        status = token_trie_new(&source, &constrain->trie);
    if (status == STATUS_OK && constrain->classes == NULL)
        status = token_classes_new(constrain->trie, &constrain->classes);
    pthread_mutex_unlock(&constrain->lock);
    return status;
}

/* --- compilation --- */

static bool constrain_has_domain(const struct engine_request *asked)
{
    static const struct engine_domain nobody;
    return memcmp(&asked->domain, &nobody, sizeof nobody) != 0;
}

static struct grammar_cache_domain constrain_domain(const struct engine_request *asked)
{
    struct grammar_cache_domain domain;
    _Static_assert(sizeof domain.bytes == sizeof asked->domain.bytes, "both are share domains");
    memcpy(domain.bytes, asked->domain.bytes, sizeof domain.bytes);
    return domain;
}

/* Kinds of sources in the cache. */
static uint32_t constrain_kind(const struct engine_constraint *constraint)
{
    enum { CALLS = 1 << 8 };
    return constraint->is_calls ? CALLS : (uint32_t)constraint->kind;
}

static uint32_t constrain_options(const struct constraint_options *options)
{
    return (uint32_t)options->strict | (uint32_t)options->disable_any_whitespace << 1 |
           (uint32_t)options->disable_additional_properties << 2;
}

/* Names what is wrong, and where. */
static enum status constrain_fail(const struct engine_constraint *asked, enum status status,
                                  const struct constraint_error *error)
{
    const bool is_schema = (asked->is_calls || asked->kind == CONSTRAINT_JSON_SCHEMA);
    char param[STATUS_PARAM_BYTES];
    const int room = (int)sizeof param - 1 - (int)asked->field.length;   /* a long path is cut */
    const bool is_path = error->path[0] == '.' || error->path[0] == '['; /* else a line */
    snprintf(param, sizeof param, "%.*s%.*s", (int)asked->field.length, asked->field.bytes,
             is_path && room > 0 ? room : 0, error->path);
    if (status == STATUS_LIMIT)
        status = STATUS_SCHEMA_LIMIT;
    else if (status == STATUS_INVALID)
        status = is_schema ? STATUS_INVALID_SCHEMA : STATUS_INVALID_GRAMMAR;
    else if (status == STATUS_UNSUPPORTED)
        status = is_schema ? STATUS_UNSUPPORTED_SCHEMA : STATUS_INVALID_GRAMMAR;
    else
        return status; /* CANCELLED, NO_MEMORY */
    if (!is_path && error->path[0] != '\0')
        FAIL_PARAM(status, param, "%s: %s", error->path, error->message);
    if (error->keyword[0] == '\0')
        FAIL_PARAM(status, param, "%s", error->message);
    FAIL_PARAM(status, param, "'%s': %s", error->keyword, error->message);
}

/* The counter of compilations that ended so. */
static struct metric *constrain_result(const struct engine_constrain *constrain, enum status status)
{
    if (status == STATUS_CANCELLED)
        return constrain->cancelled;
    return status == STATUS_OK ? constrain->compiled : constrain->refused;
}

static enum status constrain_compile(struct engine_constrain *constrain, struct ticket *ticket,
                                     struct grammar **out)
{
    const struct engine_constraint *asked = &ticket->asked.constraint;
    struct constraint_options options = asked->options;
    struct constraint_error error = {0};
    struct grammar_fuel fuel;
    enum status status;
    const struct byte_set missing = token_trie_missing(constrain->trie);
    _Static_assert(sizeof options.missing_bytes == sizeof missing, "a bit for each byte");
    memcpy(options.missing_bytes, &missing, sizeof options.missing_bytes);
    const int64_t began_us = clock_mono_us(clock_system());
    /* A cancel of the slot's previous request may set the flag late. Then it is cleared, and the
     * source is compiled again. A cancel of this request has set its id before the flag. */
    do {
        atomic_store(&ticket->is_cancelled, false);
        grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, &ticket->is_cancelled);
        if (ticket_is_cancelled(ticket)) {
            status = status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL,
                                 "the request was cancelled while its constraint was compiled");
            break;
        }
        status = asked->is_calls
                     ? answer_grammar_compile(constrain->answer, asked->source, &options, &fuel,
                                              out, &error)
                     : constraint_compile(asked->kind, asked->source, &options, &fuel, out, &error);
    } while (status == STATUS_CANCELLED && !ticket_is_cancelled(ticket));
    /* The tenant pays for the compilation as for that much text: others go first next time. */
    turns_spend((LIMIT_COMPILE_STEPS - fuel.left) / CONSTRAIN_STEPS_BYTE);
    if (constrain->seconds != NULL) {
        metric_observe(constrain->seconds,
                       (double)(clock_mono_us(clock_system()) - began_us) * 1e-6);
        metric_add(constrain_result(constrain, status), 1);
    }
    if (status != STATUS_OK)
        return constrain_fail(asked, status, &error);
    grammar_mask_classes(*out, constrain->classes);
    return STATUS_OK;
}

enum status engine_constrain_take(struct engine_constrain *constrain, struct ticket_table *tickets,
                                  uint32_t slot)
{
    struct ticket *ticket = &tickets->slots[slot];
    const struct engine_request *asked = &ticket->asked;
    const struct engine_constraint *constraint = &asked->constraint;
    const uint32_t options = constrain_options(&constraint->options);
    const bool is_kept = constrain_has_domain(asked);
    struct grammar *grammar = NULL;
    TRY(constrain_open(constrain));
    if (is_kept)
        grammar = grammar_cache_find(constrain->cache, constrain_domain(asked),
                                     constrain_kind(constraint), options, constraint->source);
    if (grammar != NULL && constrain->found != NULL)
        metric_add(constrain->found, 1);
    if (grammar == NULL) {
        TRY(constrain_compile(constrain, ticket, &grammar));
        if (is_kept)
            grammar_cache_keep(constrain->cache, constrain_domain(asked),
                               constrain_kind(constraint), options, constraint->source, grammar);
    }
    enum status status = ticket_take_grammar(tickets, slot, grammar, constrain->classes);
    if (status == STATUS_LIMIT)
        status = status_fail(STATUS_SCHEMA_LIMIT, __FILE__, __LINE__, NULL,
                             "the constraint has too many ways to begin");
    _Static_assert(sizeof ticket->unconstrained == GRAMMAR_NOTES * sizeof(uint64_t),
                   "a bit a tool");
    if (constraint->is_calls)
        memcpy(ticket->unconstrained, grammar_notes(grammar), sizeof ticket->unconstrained);
    grammar_drop(grammar);
    if (constrain->bytes != NULL) {
        struct grammar_cache_counts counts;
        grammar_cache_count(constrain->cache, &counts);
        metric_set(constrain->bytes, (double)counts.bytes);
    }
    return status;
}
