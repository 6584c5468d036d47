#include "engine/step/step_prefix.h"

#include <string.h>

#include "engine/step/step_charge.h"

static const struct engine_domain no_domain;

static bool domain_same(const struct engine_domain *a, const struct engine_domain *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool step_prefix_has_cache(const struct step *step, const struct engine_domain *domain)
{
    return !step->options.no_prefix_cache && !domain_same(domain, &no_domain);
}

static uint32_t page_tokens(const struct step *step)
{
    return step->pool.layout.page_tokens;
}

static struct prefix_view view_of_ticket(const struct ticket *ticket)
{
    const struct engine_request *asked = &ticket->asked;
    return (struct prefix_view){.domain = &asked->domain,
                                .weight = ticket_cache_share(ticket),
                                .visible = asked->visible,
                                .visible_count = asked->visible_count,
                                .visible_public = asked->visible_public,
                                .visible_group = asked->visible_group};
}

/* A preempted sequence may stay so for long: no request follows it. */
static bool follow_is_fill(const struct sequence *sequence)
{
    return sequence->is_running && !sequence->is_throttled && !sequence->is_paused &&
           sequence->computed < sequence->prompt_count;
}

/* --- finding --- */

void step_prefix_begin_finds(struct step *step)
{
    step->find_tokens_left = step->find_tokens_most;
    step->is_find_first = true;
}

void step_prefix_begin(struct step *step)
{
    step_prefix_begin_finds(step);
    step->followers = 0;
    memset(step->followers_by_class, 0, sizeof step->followers_by_class);
    step->fill_count = 0;
    step->follow_count = 0;
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        struct sequence *sequence = &step->sequences.slots[step->sequences.order[i]];
        sequence->is_followed = false;
        sequence->followed_class = SERVICE_CLASS_COUNT;
        if (follow_is_fill(sequence))
            step->fills[step->fill_count++] = step->sequences.order[i];
    }
}

/* Looks up at most the first `logits_from` tokens: the row there has to be computed. False when the
 * step may look up no more; otherwise `found` is valid. */
static bool find(struct step *step, const struct ticket *ticket, const uint32_t *tokens,
                 uint32_t logits_from, struct ticket_found *found)
{
    uint64_t version = prefix_cache_version(&step->cache);
    if (!step_prefix_has_cache(step, &ticket->asked.domain) || logits_from == 0) {
        *found = (struct ticket_found){0};
        return true;
    }
    if (found->is_known &&
        (found->version == version || step->turn - found->turn < STEP_PREFIX_FIND_STEPS))
        return true;
    if (!step->is_find_first && logits_from > step->find_tokens_left)
        return false;
    step->is_find_first = false;
    step->find_tokens_left -=
        logits_from < step->find_tokens_left ? logits_from : step->find_tokens_left;
    const struct prefix_view view = view_of_ticket(ticket);
    struct prefix_match match;
    prefix_cache_find(&step->cache, &view, tokens, logits_from + 1, &match);
    uint32_t rest = match.rest_tokens > 0 ? 1 : 0;
    *found = (struct ticket_found){.is_known = true,
                                   .version = version,
                                   .turn = step->turn,
                                   .tokens = match.tokens,
                                   .pages = match.pages + rest,
                                   .cost = match.cost,
                                   .is_shared = match.tokens_group > 0};
    return true;
}

bool step_prefix_find(struct step *step, struct ticket *ticket)
{
    uint32_t logits_from = ticket_wanted_from(ticket);
    return find(step, ticket, ticket->prompt, logits_from, &ticket->found);
}

void step_prefix_look_again(struct step *step, struct sequence *sequence)
{
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    uint32_t logits_from = sequence_logits_from(sequence);
    if (sequence->found.is_known && sequence->found.tokens > logits_from)
        sequence->found.is_known = false;
    if (!find(step, ticket, sequence->tokens, logits_from, &sequence->found))
        sequence->found = (struct ticket_found){0};
}

/* --- following --- */

/* Tokens that a request's prompt and `tokens` share, if they agree for a page or more beyond what
 * the request finds in the cache; else 0. */
static uint32_t follow_shared(const struct step *step, const struct ticket *ticket,
                              const uint32_t *tokens, uint32_t count)
{
    const uint32_t page = page_tokens(step);
    uint32_t most = ticket->prompt_count - 1 < count ? ticket->prompt_count - 1 : count;
    uint32_t shared = ticket->found.tokens;
    /* Compares the next page first: prompts of one domain agree in what is cached
     * and differ here. */
    if (most < shared + page ||
        memcmp(tokens + shared, ticket->prompt + shared, page * sizeof(*tokens)) != 0 ||
        memcmp(tokens, ticket->prompt, shared * sizeof(*tokens)) != 0)
        return 0;
    for (shared += page; shared < most && tokens[shared] == ticket->prompt[shared];)
        shared++;
    return shared;
}

/* Whether the request's leader is still computing what they share. */
static bool follow_goes_on(const struct step *step, const struct ticket *ticket)
{
    if (ticket->leader_serial == 0)
        return false;
    const struct sequence *leader = &step->sequences.slots[ticket->leader];
    return leader->serial == ticket->leader_serial && follow_is_fill(leader) &&
           leader->computed < ticket->leader_until;
}

/* Position that the leader must have computed: the end of the page of the last shared token, or the
 * end of the prompt, whose partial page the cache then holds. Whole pages only where the pool
 * cannot share a partial page. */
static uint32_t follow_until(const struct step *step, uint32_t shared, uint32_t prompt_count)
{
    const uint32_t page = page_tokens(step);
    if (!kv_pool_has_parts(&step->pool))
        return shared / page * page;
    const uint32_t until = (shared + page - 1) / page * page;
    return until < prompt_count ? until : prompt_count;
}

static bool follow_running(struct step *step, struct ticket *ticket)
{
    for (uint32_t i = 0; i < step->fill_count; i++) {
        const struct sequence *leader = &step->sequences.slots[step->fills[i]];
        if (!domain_same(&leader->domain, &ticket->asked.domain))
            continue;
        uint32_t shared = follow_shared(step, ticket, leader->tokens, leader->prompt_count);
        uint32_t until = follow_until(step, shared, leader->prompt_count);
        if (shared == 0 || leader->computed >= until)
            continue;
        sequence_note_fork(&step->sequences.slots[step->fills[i]], shared);
        ticket->leader = step->fills[i];
        ticket->leader_serial = leader->serial;
        ticket->leader_until = until;
        return true;
    }
    return false;
}

/* Whether a request earlier in this step's heads computes the prefix; it is admitted first,
 * or neither is. */
static bool follow_candidate(const struct step *step, const struct ticket *ticket)
{
    for (uint32_t i = 0; i < step->head_count; i++) {
        const struct ticket *before = &step->options.tickets->slots[step->heads[i]];
        if (before != ticket && domain_same(&before->asked.domain, &ticket->asked.domain) &&
            follow_shared(step, ticket, before->prompt, before->prompt_count) > 0)
            return true;
    }
    return false;
}

enum step_prefix_wait step_prefix_look(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    uint32_t logits_from = ticket_wanted_from(ticket);
    bool may_follow = step->options.mode == SCHEDULER_CONTINUOUS && logits_from > 0 &&
                      step_prefix_has_cache(step, &ticket->asked.domain) &&
                      ticket->followed_steps < LIMIT_FILL_STEPS;
    bool is_following = may_follow && follow_goes_on(step, ticket);
    if (!is_following && ticket->leader_serial != 0)
        ticket->found.is_known = false; /* what it waited for is in the cache, or will not be */
    if (!is_following && !find(step, ticket, ticket->prompt, logits_from, &ticket->found))
        return STEP_PREFIX_UNKNOWN;
    if (!is_following && may_follow) {
        ticket->leader_serial = 0;
        is_following = follow_running(step, ticket) || follow_candidate(step, ticket);
    }
    if (!is_following)
        return STEP_PREFIX_READY;
    ticket->followed_steps++;
    step->followers++;
    step->followers_by_class[ticket->asked.service_class]++;
    if (ticket->leader_serial == 0)
        return STEP_PREFIX_FOLLOWING;
    struct sequence *leader = &step->sequences.slots[ticket->leader];
    leader->is_followed = true;
    if (ticket->asked.service_class < leader->followed_class)
        leader->followed_class = ticket->asked.service_class;
    step_charge_follow(step, ticket->leader, ticket->client);
    return STEP_PREFIX_FOLLOWING;
}

bool step_prefix_follows_itself(const struct step *step, const struct ticket *ticket)
{
    return step->options.mode == SCHEDULER_CONTINUOUS && ticket->scores == NULL &&
           step_prefix_has_cache(step, &ticket->asked.domain) &&
           ticket->followed_steps < LIMIT_FILL_STEPS &&
           ticket->prompt_count - 1 >= ticket->found.tokens + page_tokens(step);
}

/* --- taking and inserting --- */

void step_prefix_take(struct step *step, struct sequence *sequence)
{
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    const struct prefix_view view = view_of_ticket(ticket);
    struct prefix_match match = {0};
    ASSERT(sequence->page_count == 0);
    if (step_prefix_has_cache(step, view.domain))
        sequence->computed = prefix_cache_take(&step->cache, &view, sequence->tokens,
                                               sequence_logits_from(sequence) + 1, sequence->pages,
                                               &sequence->page_count, &match);
    sequence->inserted = match.pages;
    sequence->taken = sequence->computed;
    sequence->window_page = kv_pool_window_page(&step->pool, sequence->computed);
    /* Others' texts may branch off here too. */
    sequence_keep_tail(sequence, &step->pool, match.pages * page_tokens(step));
    if (match.window_lost > 0)
        sequence_note_fork(sequence, match.tokens + match.window_lost);
    step_charge_found(step, sequence);
    if (ticket->is_cache_counted)
        return;
    ticket->is_cache_counted = true;
    struct engine_report *report = &ticket->report;
    report->cached_tokens = match.tokens;
    report->cached_public = match.tokens_public;
    report->cached_group = match.tokens_group;
    report->cached_own = match.tokens_own;
    report->cached_host_tokens = match.tokens_host;
    atomic_store_explicit(&ticket->shown_cached, match.tokens, memory_order_relaxed);
    if (step_prefix_has_cache(step, view.domain) && !ticket->asked.is_published)
        prefix_cache_count(&step->cache, &view, ticket->prompt_count, &match);
}

void step_prefix_insert(struct step *step, struct sequence *sequence)
{
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    if (!step_prefix_has_cache(step, &sequence->domain))
        return;
    const struct prefix_view view = view_of_ticket(ticket);
    uint32_t full = sequence->computed / page_tokens(step);
    if (full > sequence->inserted)
        prefix_cache_insert(&step->cache, &view, sequence->tokens, sequence->inserted,
                            full - sequence->inserted, sequence->pages);
    sequence->inserted = full > sequence->inserted ? full : sequence->inserted;
    /* The prompt's partial page is copied only when another sequence waits for it: otherwise the
     * page itself is soon full, or the sequence ends. */
    bool is_prompt = sequence->computed == sequence->prompt_count;
    bool is_waited_for = sequence->is_followed || ticket->choices_admitted < ticket->asked.choices;
    if (is_prompt && is_waited_for && sequence->computed % page_tokens(step) != 0)
        prefix_cache_insert_rest(&step->cache, &view, sequence->tokens, sequence->computed,
                                 sequence->pages[full], true);
}

/* Keeps the windows behind depths that the last rows have passed, where others may go on: the
 * prompt's end and the forks. */
static void keep_tails(struct step *step, const struct sequence *sequence, uint32_t before)
{
    const uint32_t now = sequence->computed;
    if (sequence->prompt_count > before && sequence->prompt_count <= now)
        sequence_keep_tail(sequence, &step->pool, sequence->prompt_count);
    for (uint32_t i = 0; i < SEQUENCE_FORKS; i++)
        if (sequence->forks[i] > before && sequence->forks[i] <= now)
            sequence_keep_tail(sequence, &step->pool, sequence->forks[i]);
}

void step_prefix_advance(struct step *step, struct sequence *sequence, uint32_t before)
{
    step_prefix_insert(step, sequence);
    keep_tails(step, sequence, before);
    sequence_advance(sequence, &step->pool);
}

void step_prefix_end(struct step *step, struct sequence *sequence)
{
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    sequence_keep_tail(sequence, &step->pool, sequence->computed);
    if (!step_prefix_has_cache(step, &sequence->domain) || sequence->computed == sequence->taken ||
        sequence->computed % page_tokens(step) == 0)
        return;
    const struct prefix_view view = view_of_ticket(ticket);
    prefix_cache_insert_rest(&step->cache, &view, sequence->tokens, sequence->computed,
                             sequence->pages[sequence->computed / page_tokens(step)], false);
}

/* --- published prompts --- */

enum status step_prefix_check_pin(struct step *step, const struct ticket *ticket)
{
    const struct sequence_table *table = &step->sequences;
    if (!ticket->asked.is_published || step->options.no_prefix_cache)
        return STATUS_OK;
    uint32_t units = kv_pool_units_kept(&step->pool, ticket->prompt_count);
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        if (step->options.tickets->slots[sequence->slot].asked.is_published)
            units += kv_pool_units_kept(&step->pool, sequence->prompt_count);
    }
    return prefix_cache_pin_check(&step->cache, units);
}

bool step_prefix_pin(struct step *step, struct sequence *sequence)
{
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    if (!step_prefix_has_cache(step, &sequence->domain))
        return true;
    const struct prefix_view view = view_of_ticket(ticket);
    step_prefix_end(step, sequence); /* its partial page, which nobody writes any more */
    sequence->taken = sequence->computed;
    uint32_t count = sequence->prompt_count;
    if (!kv_pool_has_parts(&step->pool))
        count -= count % page_tokens(step);
    return count == 0 || prefix_cache_pin(&step->cache, &view, sequence->tokens, count,
                                          &ticket->report.pinned_pages) == STATUS_OK;
}
