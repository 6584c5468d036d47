#include "engine/request/ticket.h"

#include <stdio.h>
#include <string.h>

#include "config/base/byte_shares.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_class.h"

/* An id is generation << 32 | slot + 1; the generation starts at 1 and skips 0. */
static uint32_t id_slot(engine_request_id id)
{
    return (uint32_t)id - 1;
}

static uint32_t id_generation(engine_request_id id)
{
    return (uint32_t)(id >> 32);
}

static engine_request_id id_make(uint32_t generation, uint32_t slot)
{
    return (engine_request_id)generation << 32 | (slot + 1);
}

enum status ticket_table_init(struct ticket_table *table, uint32_t count, uint64_t bytes_max)
{
    ASSERT(count > 0);
    *table = (struct ticket_table){.count = count, .bytes_max = bytes_max};
    size_t capacity = 2;
    while (capacity < count)
        capacity *= 2;
    TRY(ring_init(&table->free_slots, capacity, sizeof(uint32_t)));
    table->slots = mem_zalloc(count, sizeof(*table->slots));
    if (table->slots == NULL) {
        ring_deinit(&table->free_slots);
        FAIL(STATUS_NO_MEMORY, "no memory for %u requests", count);
    }
    table->tenants = mem_zalloc(count, sizeof(*table->tenants));
    if (table->tenants == NULL) {
        mem_free(table->slots);
        table->slots = NULL;
        ring_deinit(&table->free_slots);
        FAIL(STATUS_NO_MEMORY, "no memory for %u requests", count);
    }
    pthread_mutex_init(&table->tenants_lock, NULL);
    for (uint32_t slot = 0; slot < count; slot++) {
        bool is_pushed = ring_push(&table->free_slots, &slot);
        ASSERT(is_pushed);
    }
    atomic_init(&table->free_count, count);
    atomic_init(&table->bytes, 0);
    return STATUS_OK;
}

static void release_memory(struct ticket_table *table, struct ticket *ticket)
{
    mem_free(ticket->copy);
    mem_free(ticket->prompt);
    mem_free(ticket->scores);
    for (uint32_t i = 0; ticket->guards != NULL && i < ticket->asked.choices; i++)
        guard_free(&ticket->guards[i]);
    mem_free(ticket->guards);
    ticket->guards = NULL;
    ticket->copy = NULL;
    ticket->prompt = NULL;
    ticket->scores = NULL;
    atomic_fetch_sub(&table->bytes, ticket->bytes);
    ticket->bytes = 0;
}

void ticket_table_deinit(struct ticket_table *table)
{
    if (table->slots == NULL)
        return;
    for (uint32_t slot = 0; slot < table->count; slot++)
        release_memory(table, &table->slots[slot]);
    mem_free(table->slots);
    mem_free(table->tenants);
    pthread_mutex_destroy(&table->tenants_lock);
    ring_deinit(&table->free_slots);
    table->slots = NULL;
}

/* --- tenants --- */

static bool tenant_is_nobody(const struct engine_domain *domain)
{
    static const struct engine_domain nobody;
    return memcmp(domain, &nobody, sizeof(nobody)) == 0;
}

/* The request's tenant, else its own domain, wherever its pages go; all zero when
 * neither is known. */
static const struct engine_domain *tenant_domain(const struct engine_request *asked)
{
    if (!tenant_is_nobody(&asked->tenant))
        return &asked->tenant;
    bool has_own = asked->visible_count > asked->visible_public + asked->visible_group;
    return has_own ? &asked->visible[asked->visible_count - 1] : &asked->domain;
}

static struct ticket_tenant *tenant_find(struct ticket_table *table,
                                         const struct engine_request *asked,
                                         enum service_class class)
{
    const struct engine_domain *domain = tenant_domain(asked);
    for (uint32_t i = 0; i < table->tenant_count; i++)
        if (table->tenants[i].service_class == class &&
            memcmp(&table->tenants[i].domain, domain, sizeof(*domain)) == 0)
            return &table->tenants[i];
    return NULL;
}

static bool tenant_is_counted(const struct ticket_table *table, const struct engine_request *asked)
{
    return table->tenant_max > 0 && !tenant_is_nobody(tenant_domain(asked));
}

/* Lower classes leave some slots free, so that an urgent request always finds one. */
static enum status acquire_class(const struct ticket_table *table, enum service_class class)
{
    static const uint32_t kept_parts[] = {
        [SERVICE_CLASS_REALTIME] = 0, [SERVICE_CLASS_STANDARD] = 16, [SERVICE_CLASS_BATCH] = 8};
    uint32_t kept = kept_parts[class] > 0 ? table->count / kept_parts[class] : 0;
    if (kept > 0 && atomic_load(&table->free_count) <= kept)
        FAIL(STATUS_BUSY, "the engine has as many requests as it takes of class %s (%u)",
             service_class_name(class), table->count - kept);
    return STATUS_OK;
}

static enum status tenant_acquire(struct ticket_table *table, const struct engine_request *asked)
{
    if (!tenant_is_counted(table, asked))
        return STATUS_OK;
    bool is_scarce = atomic_load(&table->free_count) < table->count / 4;
    uint32_t most = is_scarce ? table->tenant_max / 8 : table->tenant_max;
    pthread_mutex_lock(&table->tenants_lock);
    struct ticket_tenant *tenant = tenant_find(table, asked, asked->service_class);
    uint32_t requests = tenant != NULL ? tenant->requests : 0;
    if (requests < most && tenant == NULL) {
        ASSERT(table->tenant_count < table->count);
        tenant = &table->tenants[table->tenant_count++];
        *tenant = (struct ticket_tenant){.domain = *tenant_domain(asked),
                                         .service_class = asked->service_class};
    }
    if (requests < most)
        tenant->requests++;
    pthread_mutex_unlock(&table->tenants_lock);
    if (requests >= most)
        FAIL(STATUS_ENGINE_SHARE,
             "the engine has as many %s requests of this tenant as it takes (%u%s)",
             service_class_name(asked->service_class), most,
             is_scarce ? ", while it is nearly full" : "");
    return STATUS_OK;
}

static void tenant_release(struct ticket_table *table, const struct engine_request *asked,
                           enum service_class class, uint64_t bytes)
{
    if (!tenant_is_counted(table, asked))
        return;
    pthread_mutex_lock(&table->tenants_lock);
    struct ticket_tenant *tenant = tenant_find(table, asked, class);
    ASSERT(tenant != NULL);
    ASSERT(tenant->bytes >= bytes);
    tenant->bytes -= bytes;
    if (--tenant->requests == 0)
        *tenant = table->tenants[--table->tenant_count];
    pthread_mutex_unlock(&table->tenants_lock);
}

/* --- requests --- */

/* Whether a tenant may hold `bytes` more, of all classes together. Under tenants_lock. */
static bool acquire_bytes_allow(const struct ticket_table *table,
                                const struct engine_request *asked, uint64_t bytes)
{
    const struct byte_shares_rule rule = {.limit_bytes = table->bytes_max};
    const struct engine_domain *domain = tenant_domain(asked);
    uint64_t own = 0;
    for (uint32_t i = 0; i < table->tenant_count; i++) {
        if (memcmp(&table->tenants[i].domain, domain, sizeof(*domain)) == 0)
            own += table->tenants[i].bytes;
    }
    return byte_shares_allow(&rule, atomic_load(&table->bytes), own, bytes);
}

/* Adds to the sums of bytes, unless that would exceed the tenant's share. A request without a
 * tenant has no share: only the bound of the sum applies. */
static bool acquire_bytes(struct ticket_table *table, struct ticket *ticket,
                          const struct engine_request *asked, enum service_class class,
                          uint64_t bytes)
{
    bool is_counted = tenant_is_counted(table, asked);
    pthread_mutex_lock(&table->tenants_lock);
    uint64_t all = atomic_load(&table->bytes);
    bool has_room = is_counted ? acquire_bytes_allow(table, asked, bytes)
                               : bytes <= table->bytes_max && all <= table->bytes_max - bytes;
    if (has_room && is_counted)
        tenant_find(table, asked, class)->bytes += bytes;
    if (has_room)
        atomic_fetch_add(&table->bytes, bytes);
    pthread_mutex_unlock(&table->tenants_lock);
    ticket->bytes += has_room ? bytes : 0;
    return has_room;
}

/* Sets the error note: why acquire_bytes refused, or that there was no memory. */
static enum status acquire_bytes_fail(const struct ticket_table *table,
                                      const struct engine_request *asked, uint64_t bytes)
{
    uint64_t all = atomic_load(&table->bytes);
    if (tenant_is_counted(table, asked) && bytes <= table->bytes_max &&
        all <= table->bytes_max - bytes)
        FAIL(STATUS_ENGINE_SHARE, "requests of this tenant hold as much of the engine's memory for "
                                  "waiting requests as they may now");
    FAIL(STATUS_BUSY, "the engine's memory for waiting requests is used up");
}

static size_t acquire_copy_bytes(const struct engine_request *asked)
{
    size_t bytes = asked->token_count * sizeof(uint32_t) + asked->request_id.length +
                   asked->text.length + asked->message_count * sizeof(struct engine_message);
    for (size_t i = 0; i < asked->message_count; i++)
        bytes += asked->messages[i].role.length + asked->messages[i].content.length +
                 asked->messages[i].json.length;
    bytes +=
        asked->inputs.tools.length + asked->inputs.documents.length + asked->inputs.values.length;
    bytes += asked->constraint.source.length + asked->constraint.field.length;
    for (uint32_t i = 0; i < asked->stop_count; i++)
        bytes += asked->stop[i].length;
    return bytes;
}

static struct slice acquire_copy_slice(char **cursor, struct slice from)
{
    struct slice to = {*cursor, from.length};
    if (from.length > 0)
        memcpy(*cursor, from.bytes, from.length);
    *cursor += from.length;
    return to;
}

/* The copy has the aligned parts first: messages, tokens, then all bytes of text. */
static void acquire_copy(struct ticket *ticket, const struct engine_request *asked)
{
    struct engine_request *to = &ticket->asked;
    char *cursor = ticket->copy;
    *to = *asked;
    struct engine_message *messages = (void *)cursor;
    cursor += asked->message_count * sizeof(*messages);
    if (asked->token_count > 0)
        memcpy(cursor, asked->tokens, asked->token_count * sizeof(uint32_t));
    to->tokens = (const void *)cursor;
    cursor += asked->token_count * sizeof(uint32_t);
    to->request_id = acquire_copy_slice(&cursor, asked->request_id);
    to->text = acquire_copy_slice(&cursor, asked->text);
    for (size_t i = 0; i < asked->message_count; i++) {
        messages[i].role = acquire_copy_slice(&cursor, asked->messages[i].role);
        messages[i].content = acquire_copy_slice(&cursor, asked->messages[i].content);
        messages[i].json = acquire_copy_slice(&cursor, asked->messages[i].json);
    }
    to->messages = messages;
    to->inputs.tools = acquire_copy_slice(&cursor, asked->inputs.tools);
    to->inputs.documents = acquire_copy_slice(&cursor, asked->inputs.documents);
    to->inputs.values = acquire_copy_slice(&cursor, asked->inputs.values);
    to->constraint.source = acquire_copy_slice(&cursor, asked->constraint.source);
    to->constraint.field = acquire_copy_slice(&cursor, asked->constraint.field);
    for (uint32_t i = 0; i < asked->stop_count; i++)
        to->stop[i] = acquire_copy_slice(&cursor, asked->stop[i]);
}

enum status ticket_acquire(struct ticket_table *table, const struct engine_request *asked,
                           int64_t now_us, uint32_t *slot, engine_request_id *id)
{
    /* The arrays of fixed size are copied whole, so their counts are checked first. */
    ASSERT(asked->stop_count <= LIMIT_STOP_STRINGS);
    ASSERT(asked->visible_count <= LIMIT_DOMAINS_VISIBLE);
    ASSERT(asked->visible_public + asked->visible_group <= asked->visible_count);
    ASSERT(asked->sampling.bias_count <= LIMIT_LOGIT_BIAS);
    ASSERT((uint32_t)asked->service_class < SERVICE_CLASS_COUNT);
    TRY(acquire_class(table, asked->service_class));
    TRY(tenant_acquire(table, asked));
    if (!ring_pop(&table->free_slots, slot)) {
        tenant_release(table, asked, asked->service_class, 0);
        FAIL(STATUS_BUSY, "the engine has as many requests as it takes (%u)", table->count);
    }
    struct ticket *ticket = &table->slots[*slot];
    size_t copy_bytes = acquire_copy_bytes(asked);
    bool has_bytes = acquire_bytes(table, ticket, asked, asked->service_class, copy_bytes);
    if (has_bytes)
        ticket->copy = mem_alloc(copy_bytes > 0 ? copy_bytes : 1);
    if (ticket->copy == NULL) {
        tenant_release(table, asked, asked->service_class, ticket->bytes);
        release_memory(table, ticket);
        bool is_pushed = ring_push(&table->free_slots, slot);
        ASSERT(is_pushed);
        return acquire_bytes_fail(table, asked, copy_bytes);
    }
    atomic_fetch_sub(&table->free_count, 1);
    acquire_copy(ticket, asked);

    if (++ticket->generation == 0)
        ticket->generation = 1;
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++)
        atomic_store(&ticket->acknowledged[i], (uint64_t)ticket->generation << 32);
    atomic_store(&ticket->is_cancelled, false);
    ticket->prompt_count = 0;
    ticket->submitted_us = now_us;
    ticket->refusal = (struct error_note){.status = STATUS_OK};
    atomic_store(&ticket->shown_state, ENGINE_REQUEST_PREPARING);
    atomic_store(&ticket->shown_class, (uint32_t)asked->service_class);
    atomic_store(&ticket->shown_computed, 0);
    atomic_store(&ticket->shown_cached, 0);
    atomic_store(&ticket->shown_completion, 0);
    atomic_store(&ticket->shown_preempted_by, 0);
    atomic_store(&ticket->shown_deficit, 0);
    ticket->door_class = asked->service_class;
    ticket->is_waiting = false;
    ticket->passed = 0;
    ticket->choices_admitted = 0;
    ticket->choices_ended = 0;
    ticket->found = (struct ticket_found){0};
    ticket->is_start_told = false;
    ticket->is_in_reasoning = false;
    memset(ticket->unconstrained, 0, sizeof ticket->unconstrained);
    ticket->is_cache_counted = false;
    ticket->leader_serial = 0;
    ticket->followed_steps = 0;
    ticket->admitted_us = 0;
    ticket->first_token_us = 0;
    ticket->last_token_us = 0;
    ticket->report = (struct engine_report){.service_class = asked->service_class};
    *id = id_make(ticket->generation, *slot);
    atomic_store(&ticket->id, *id);
    return STATUS_OK;
}

void ticket_release(struct ticket_table *table, uint32_t slot)
{
    struct ticket *ticket = &table->slots[slot];
    atomic_store(&ticket->id, 0);
    tenant_release(table, &ticket->asked, ticket->door_class, ticket->bytes);
    release_memory(table, ticket);
    atomic_fetch_add(&table->free_count, 1);
    bool is_pushed = ring_push(&table->free_slots, &slot);
    ASSERT(is_pushed);
}

static enum status check_asked_sampling(const struct engine_sampling *sampling, uint32_t vocab)
{
    const struct {
        const char *name;
        float value;
        float least;
        float most;
    } ranges[] = {
        {"temperature", sampling->temperature, 0, 2},
        {"top_p", sampling->top_p, 0, 1},
        {"min_p", sampling->min_p, 0, 1},
        {"presence_penalty", sampling->presence_penalty, -2, 2},
        {"frequency_penalty", sampling->frequency_penalty, -2, 2},
        {"repetition_penalty", sampling->repetition_penalty, 0, 2},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most))
            FAIL_PARAM(STATUS_OUT_OF_RANGE, ranges[i].name, "%s must be from %g to %g",
                       ranges[i].name, (double)ranges[i].least, (double)ranges[i].most);
    if (sampling->top_p == 0)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "top_p", "top_p must be greater than 0");
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (sampling->bias[i].token >= vocab)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, "logit_bias",
                       "logit_bias names token %u, but the model has tokens 0 to %u",
                       sampling->bias[i].token, vocab - 1);
        if (!(sampling->bias[i].bias >= -100 && sampling->bias[i].bias <= 100))
            FAIL_PARAM(STATUS_OUT_OF_RANGE, "logit_bias",
                       "the logit_bias of token %u must be from -100 to 100",
                       sampling->bias[i].token);
    }
    return STATUS_OK;
}

static enum status check_asked_constraint(const struct engine_request *asked)
{
    const struct {
        const char *name;
        bool is_asked;
    } others[] = {
        {"echo", asked->echo},
        {"ignore_eos", asked->ignore_end},
    };
    for (size_t i = 0; asked->constraint.is_set && i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].is_asked)
            FAIL_PARAM(STATUS_INVALID, others[i].name,
                       "Invalid '%s': it cannot be used beside a constraint on the answer.",
                       others[i].name);
    return STATUS_OK;
}

enum status ticket_check_asked(const struct ticket *ticket, uint32_t vocab)
{
    const struct engine_request *asked = &ticket->asked;
    if (asked->choices < 1 || asked->choices > LIMIT_CHOICES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "n", "n must be from 1 to %d", LIMIT_CHOICES);
    if (asked->top_logprobs > LIMIT_LOGPROBS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "top_logprobs", "at most %d log-probabilities a token",
                   LIMIT_LOGPROBS);
    if (asked->is_scored && !asked->echo)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "max_tokens", "max_tokens must be at least 1 without echo");
    if ((asked->is_published || asked->pooling != ENGINE_POOLING_NONE) && asked->choices != 1)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "n", "n must be 1 for a published prompt or an embedding");
    for (uint32_t i = 0; i < asked->stop_count; i++)
        if (asked->stop[i].length < 1 || asked->stop[i].length > LIMIT_STOP_BYTES)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, "stop", "a stop string has from 1 to %d bytes",
                       LIMIT_STOP_BYTES);
    if (asked->stop_token_count > LIMIT_STOP_TOKENS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "stop_token_ids", "at most %d stop tokens",
                   LIMIT_STOP_TOKENS);
    for (uint32_t i = 0; i < asked->stop_token_count; i++)
        if (asked->stop_tokens[i] >= vocab)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, "stop_token_ids", "the model has no token %u",
                       asked->stop_tokens[i]);
    for (uint32_t i = 0; i < asked->stop_count; i++)
        if (!utf8_is_valid(asked->stop[i].bytes, asked->stop[i].length))
            FAIL_PARAM(STATUS_INVALID, "stop", "a stop string is not valid UTF-8");
    TRY(check_asked_constraint(asked));
    return check_asked_sampling(&asked->sampling, vocab);
}

static const char *take_prompt_param(const struct ticket *ticket)
{
    if (ticket->asked.pooling != ENGINE_POOLING_NONE)
        return "input";
    return ticket->asked.prompt_kind == ENGINE_PROMPT_CHAT ? "messages" : "prompt";
}

enum status ticket_fail_context(const struct ticket *ticket, uint32_t context)
{
    const char *param = take_prompt_param(ticket);
    if (ticket->asked.pooling != ENGINE_POOLING_NONE)
        FAIL_PARAM(STATUS_CONTEXT_LENGTH, param,
                   "This model's maximum input length is %u tokens, and the input has more. Please "
                   "reduce the length of the input.",
                   context - 1);
    FAIL_PARAM(STATUS_CONTEXT_LENGTH, param,
               "This model's maximum context length is %u tokens, but the prompt has more than %u "
               "tokens. Please reduce the length of the %s.",
               context, context, param);
}

/* The scheduler keeps room for one token behind the sequence, as behind a prompt. */
static enum status take_prompt_embedded(struct ticket_table *table, struct ticket *ticket,
                                        size_t prompt_count, uint32_t context)
{
    if (prompt_count >= context)
        return ticket_fail_context(ticket, context);
    ticket->prompt_count = (uint32_t)prompt_count;
    ticket->tokens_max = 0;
    if (!acquire_bytes(table, ticket, &ticket->asked, ticket->door_class,
                       prompt_count * sizeof(uint32_t)))
        return acquire_bytes_fail(table, &ticket->asked, prompt_count * sizeof(uint32_t));
    return STATUS_OK;
}

static enum status take_prompt_scores(struct ticket_table *table, struct ticket *ticket)
{
    const struct engine_request *asked = &ticket->asked;
    if (!asked->echo || !asked->want_logprobs)
        return STATUS_OK;
    size_t bytes =
        (size_t)ticket->prompt_count * asked->choices *
        (sizeof(struct ticket_score) + asked->top_logprobs * sizeof(struct engine_logprob));
    if (acquire_bytes(table, ticket, asked, ticket->door_class, bytes))
        ticket->scores = mem_zalloc(bytes, 1);
    if (ticket->scores == NULL)
        return acquire_bytes_fail(table, asked, bytes);
    return STATUS_OK;
}

enum status ticket_take_grammar(struct ticket_table *table, uint32_t slot, struct grammar *grammar,
                                struct token_classes *classes)
{
    const uint32_t words = token_trie_mask_words(token_classes_trie(classes));
    struct ticket *ticket = &table->slots[slot];
    const struct engine_request *asked = &ticket->asked;
    const size_t each = sizeof(struct guard) + GUARD_BYTES + words * sizeof(uint32_t);
    /* The grammar lives as long as the request, whatever the cache forgets meanwhile. Requests of
     * one schema share it, so each counts its part. */
    const size_t bytes = asked->choices * each + grammar_part_bytes(grammar);
    ASSERT(ticket->guards == NULL);
    if (acquire_bytes(table, ticket, asked, ticket->door_class, bytes))
        ticket->guards = mem_zalloc(asked->choices, sizeof(*ticket->guards));
    if (ticket->guards == NULL)
        return acquire_bytes_fail(table, asked, bytes);
    for (uint32_t i = 0; i < asked->choices; i++)
        TRY(guard_make(&ticket->guards[i], grammar, classes));
    return STATUS_OK;
}

enum status ticket_take_prompt(struct ticket_table *table, uint32_t slot, uint32_t *prompt,
                               size_t prompt_count, uint32_t context)
{
    struct ticket *ticket = &table->slots[slot];
    const char *param = take_prompt_param(ticket);
    ASSERT(ticket->prompt == NULL);
    ticket->prompt = prompt;
    if (prompt_count == 0)
        FAIL_PARAM(STATUS_INVALID, param, "the %s is empty: at least one token is needed",
                   ticket->asked.pooling != ENGINE_POOLING_NONE ? "input" : "prompt");
    if (ticket->asked.pooling != ENGINE_POOLING_NONE)
        return take_prompt_embedded(table, ticket, prompt_count, context);
    if (prompt_count >= context)
        FAIL_PARAM(STATUS_CONTEXT_LENGTH, param,
                   "This model's maximum context length is %u tokens, but the prompt has %zu "
                   "tokens and at least one more is needed for the completion. Please reduce the "
                   "length of the %s.",
                   context, prompt_count, param);
    ticket->prompt_count = (uint32_t)prompt_count;
    uint32_t left = context - ticket->prompt_count;
    uint32_t asked_max = ticket->asked.is_scored ? 1 : ticket->asked.tokens_max;
    if (asked_max > left)
        FAIL_PARAM(STATUS_CONTEXT_LENGTH, param,
                   "This model's maximum context length is %u tokens. However, you requested %llu "
                   "tokens (%u in the prompt, %u in the completion). Please reduce the length of "
                   "the %s or of the completion.",
                   context, (unsigned long long)asked_max + ticket->prompt_count,
                   ticket->prompt_count, asked_max, param);
    ticket->tokens_max = asked_max > 0 ? asked_max : left;
    if (ticket->asked.tokens_min > ticket->tokens_max)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "min_tokens",
                   "Invalid 'min_tokens': %u tokens are more than the %u that the answer may have.",
                   ticket->asked.tokens_min, ticket->tokens_max);
    if (!acquire_bytes(table, ticket, &ticket->asked, ticket->door_class,
                       prompt_count * sizeof(uint32_t)))
        return acquire_bytes_fail(table, &ticket->asked, prompt_count * sizeof(uint32_t));
    return take_prompt_scores(table, ticket);
}

enum status ticket_take_tokens(struct ticket_table *table, uint32_t slot, uint32_t vocab,
                               uint32_t context)
{
    const struct engine_request *asked = &table->slots[slot].asked;
    const char *name = take_prompt_param(&table->slots[slot]);
    for (size_t i = 0; i < asked->token_count; i++) {
        if (asked->tokens[i] < vocab)
            continue;
        char param[STATUS_PARAM_BYTES];
        snprintf(param, sizeof(param), "%s[%zu]", name, i);
        FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "token %u at %s: the model has tokens 0 to %u",
                   asked->tokens[i], param, vocab - 1);
    }
    size_t bytes = asked->token_count * sizeof(uint32_t);
    uint32_t *prompt = mem_alloc(bytes > 0 ? bytes : 1);
    if (prompt == NULL)
        FAIL(STATUS_BUSY, "the engine's memory for waiting requests is used up");
    if (bytes > 0)
        memcpy(prompt, asked->tokens, bytes);
    return ticket_take_prompt(table, slot, prompt, asked->token_count, context);
}

/* The ticket that an id may mean, or NULL when no id has that form. */
static struct ticket *cancel_find(struct ticket_table *table, engine_request_id id)
{
    uint32_t slot = id_slot(id);
    return slot < table->count ? &table->slots[slot] : NULL;
}

/* Writes `id` to `noted`; true when the id was alive. */
static bool cancel_note(struct ticket *ticket, _Atomic engine_request_id *noted,
                        engine_request_id id)
{
    if (atomic_load(&ticket->id) != id)
        return false;
    /* After the check above the slot may have passed to a later request that was cancelled too:
     * only a newer generation overwrites an older one. */
    engine_request_id old = atomic_load(noted);
    while ((int32_t)(id_generation(id) - id_generation(old)) > 0 &&
           !atomic_compare_exchange_weak(noted, &old, id)) {
    }
    return true;
}

bool ticket_cancel(struct ticket_table *table, engine_request_id id)
{
    struct ticket *ticket = cancel_find(table, id);
    if (ticket == NULL || !cancel_note(ticket, &ticket->cancelled_id, id))
        return false;
    atomic_store(&ticket->is_cancelled, true);
    atomic_fetch_add(&table->cancels, 1); /* last: a thread that sees the sum sees the id too */
    return true;
}

bool ticket_lower(struct ticket_table *table, engine_request_id id)
{
    struct ticket *ticket = cancel_find(table, id);
    if (ticket == NULL || !cancel_note(ticket, &ticket->lowered_id, id))
        return false;
    atomic_fetch_add(&table->lowers, 1); /* last, likewise */
    return true;
}

bool ticket_acknowledge(struct ticket_table *table, engine_request_id id, uint32_t choice,
                        uint32_t tokens)
{
    struct ticket *ticket = cancel_find(table, id);
    if (ticket == NULL || choice >= LIMIT_CHOICES)
        return false;
    uint64_t old = atomic_load(&ticket->acknowledged[choice]);
    for (;;) {
        if ((uint32_t)(old >> 32) != id_generation(id))
            return false;
        uint32_t room = UINT32_MAX - (uint32_t)old;
        if (atomic_compare_exchange_weak(&ticket->acknowledged[choice], &old,
                                         old + (tokens < room ? tokens : room)))
            return true;
    }
}

struct ticket_score *ticket_score_at(const struct ticket *ticket, uint32_t choice, uint32_t index)
{
    ASSERT(ticket->scores != NULL);
    ASSERT(index < ticket->prompt_count);
    size_t entry =
        sizeof(struct ticket_score) + ticket->asked.top_logprobs * sizeof(struct engine_logprob);
    return (void *)(ticket->scores + ((size_t)choice * ticket->prompt_count + index) * entry);
}
