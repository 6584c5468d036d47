#include "tests/sim/sim_order.h"

#include <stdio.h>
#include <string.h>

#include "engine/step/step.h"

enum { PARTS = 10, PART_US = 100000, QUANTUM_STEPS = 32 };

static const char *class_name(enum service_class service_class)
{
    return service_class_name(service_class);
}

static enum service_class runs_in(const struct sim_account *account, uint32_t p)
{
    return account->places[p].runs_in;
}

static bool is_waiting_request(const struct sim_account *account, uint32_t slot)
{
    const struct sim_asked *asked = &account->asked[slot];
    const struct ticket *ticket = &account->step->options.tickets->slots[slot];
    return asked->is_known && asked->is_waiting && !asked->is_published &&
           ticket->refusal.status == STATUS_OK &&
           atomic_load(&ticket->shown_state) == ENGINE_REQUEST_WAITING;
}

/* Returns whether a running request has a further choice that waits. */
static bool is_waiting_choice(const struct sim_account *account, uint32_t slot)
{
    const struct ticket *ticket = &account->step->options.tickets->slots[slot];
    return account->asked[slot].is_known && ticket->is_waiting && ticket->choices_admitted > 0;
}

void sim_order_before(struct sim_account *account)
{
    const struct sequence_table *table = &account->step->sequences;
    for (uint32_t p = 0; p < account->step->places; p++) {
        account->places[p].pages_before = 0;
        account->places[p].was_throttled = true;
        account->places[p].is_in = false;
    }
    account->has_pass = false;
    account->last_us = account->began_us;
    account->began_us = clock_mono_us(account->step->options.clock);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        account->owed_before[c] = scheduler_fair_owed(&account->step->fair, (enum service_class)c);
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct sim_place *place = &account->places[table->order[i]];
        place->serial_before = sequence->serial;
        place->pages_before = sequence_units(sequence, &account->step->pool);
        place->was_throttled = sequence->is_throttled;
    }
}

void sim_order_pass(struct sim_account *account)
{
    const struct sequence_table *table = &account->step->sequences;
    account->has_pass = true;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct sim_place *place = &account->places[table->order[i]];
        enum service_class own = account->clients[place->client].service_class;
        place->is_in = true;
        place->pages_in = sequence_units(sequence, &account->step->pool);
        place->runs_in = sequence->followed_class < own ? sequence->followed_class : own;
    }
}

/* --- exceptions for floors --- */

/* Returns the most that a class may have lacked of its floor when the step began: of all rows in
 * the ten tenths of a second until the step before, minus its own. Each tenth counts for two floors
 * of the steps in which it has rows. */
static uint64_t owed_most(const struct sim_account *account, enum service_class service_class)
{
    const uint64_t percent = account->knobs->floor_percent;
    uint64_t all = 0;
    uint64_t had[PARTS] = {0};
    uint64_t beside[PARTS] = {0};
    uint64_t this = account->second_next - 1;
    for (uint64_t s = this; s-- > 0 && this - s < SIM_SECOND_STEPS - 1;) {
        const struct sim_second *second = &account->seconds[s % SIM_SECOND_STEPS];
        int64_t part = second->began_us / PART_US;
        uint64_t rows = 0;
        if (part <= account->last_us / PART_US - PARTS)
            break;
        for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
            rows += second->rows[c];
        all += rows;
        had[part % PARTS] += second->rows[service_class];
        beside[part % PARTS] += second->rows[service_class] > 0 ? rows : 0;
    }
    uint64_t counted = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        uint64_t most = (2 * beside[i] * percent + 99) / 100;
        counted += had[i] < most ? had[i] : most;
    }
    uint64_t floor_rows = (all * percent + 99) / 100;
    return floor_rows > counted ? floor_rows - counted : 0;
}

static bool is_owed(const struct sim_account *account, enum service_class service_class)
{
    uint32_t owed = account->owed_before[service_class];
    return owed > 0 && owed <= owed_most(account, service_class);
}

/* Returns whether the class's floor asked for what a slot got in this step, as the engine counts it
 * and within what is possible. */
static bool is_floor(const struct sim_account *account, uint32_t place)
{
    enum service_class own = account->clients[account->places[place].client].service_class;
    return is_owed(account, runs_in(account, place)) || is_owed(account, own);
}

/* --- who is present --- */

/* The slot held the same sequence before the step and in it, running all the time. */
static bool is_same(const struct sim_account *account, uint32_t p)
{
    const struct sim_place *place = &account->places[p];
    return place->is_in && place->serial == place->serial_before && !place->is_throttled &&
           !place->was_throttled;
}

static uint32_t pages_now(const struct sim_account *account, uint32_t p)
{
    return account->places[p].is_in ? account->places[p].pages_in : 0;
}

static uint32_t pages_then(const struct sim_account *account, uint32_t p)
{
    const struct sim_place *place = &account->places[p];
    return place->serial == place->serial_before ? place->pages_before : 0;
}

/* The sequence came in, or resumed. */
static bool is_new(const struct sim_account *account, uint32_t p)
{
    return account->places[p].rows > 0 && pages_then(account, p) == 0 && pages_now(account, p) > 0;
}

static bool is_paused_now(const struct sim_account *account, uint32_t p)
{
    return is_same(account, p) && pages_then(account, p) > 0 && pages_now(account, p) == 0;
}

/* The oldest sequence of its class with pages, as long as those are within the floor's part or an
 * eighth. */
static bool is_exempt(const struct sim_account *account, uint32_t p)
{
    const struct step *step = account->step;
    for (uint32_t older = 0; older < step->places; older++) {
        if (account->places[older].serial < account->places[p].serial && is_same(account, older) &&
            pages_then(account, older) > 0 && runs_in(account, older) == runs_in(account, p))
            return false;
    }
    uint32_t all = step->pool.unit_count - step->cache.options.exchange;
    uint32_t floor_pages = all * account->knobs->floor_percent / 100;
    uint32_t one = all / 8;
    return pages_then(account, p) <= (one > floor_pages ? one : floor_pages);
}

/* --- no sequence comes in past a more urgent one that waits for pages --- */

/* Returns whether a client's next sequence is kept waiting by its own state, or by fairness. */
static bool is_held_off(const struct sim_account *account, uint32_t client)
{
    const struct sim_client *own = &account->clients[client];
    uint32_t held = 0;
    if (own->throttled > 0 || own->is_over)
        return true;
    for (uint32_t p = 0; p < account->step->places; p++) {
        const struct sim_place *place = &account->places[p];
        const struct sim_client *other = &account->clients[place->client];
        if (!place->is_running)
            continue;
        held += other->service_class == own->service_class;
        if (place->client == client && !place->is_throttled && !place->is_paused &&
            place->rows == 0)
            return true;
    }
    return 2 * held + 1 >= account->step->places;
}

/* Returns the tokens of the shortest waiting sequence of a class more urgent than `service_class`
 * for which the pages do not suffice; 0 if there is none. */
static uint32_t waits_for_pages(const struct sim_account *account, enum service_class service_class)
{
    const struct step *step = account->step;
    uint32_t available = prefix_cache_available(&step->cache);
    for (uint32_t s = 0; s < step->options.tickets->count; s++) {
        const struct ticket *ticket = &step->options.tickets->slots[s];
        if (account->asked[s].was_waiting && is_waiting_request(account, s) &&
            account->clients[account->asked[s].client].service_class < service_class &&
            !is_held_off(account, account->asked[s].client) &&
            kv_pool_pages_for(&step->pool, ticket->prompt_count + 1) > available)
            return ticket->prompt_count;
    }
    for (uint32_t p = 0; p < step->places; p++) {
        const struct sequence *sequence = &step->sequences.slots[p];
        if (is_same(account, p) && pages_then(account, p) == 0 && pages_now(account, p) == 0 &&
            account->clients[account->places[p].client].service_class < service_class &&
            !is_held_off(account, account->places[p].client) &&
            kv_pool_pages_for(&step->pool, sequence->token_count + 1) > available)
            return sequence->token_count;
    }
    return 0;
}

static bool after_entries(const struct sim_account *account, char *wrong, size_t room)
{
    bool has_others = false;
    for (uint32_t p = 0; p < account->step->places; p++)
        has_others = has_others || (account->places[p].rows > 0 && !is_new(account, p));
    for (uint32_t p = 0; p < account->step->places && has_others; p++) {
        if (!is_new(account, p) || runs_in(account, p) == 0)
            continue;
        uint32_t tokens = waits_for_pages(account, runs_in(account, p));
        if (tokens == 0 || is_floor(account, p))
            continue;
        snprintf(wrong, room,
                 "slot %u of class %s, above its floor, comes in while one of %u tokens of a more "
                 "urgent class waits for pages",
                 account->places[p].slot, class_name(runs_in(account, p)), tokens);

        return false;
    }
    return true;
}

/* --- the lowest class gives first --- */

bool sim_order_victims(const struct sim_account *account, char *wrong, size_t room)
{
    if (account->knobs->preemption == ENGINE_PREEMPTION_OFF)
        return true;
    for (uint32_t p = 0; p < account->step->places; p++) {
        if (!is_paused_now(account, p))
            continue;
        for (uint32_t q = 0; q < account->step->places; q++) {
            bool is_spared = pages_now(account, q) > 0 &&
                             runs_in(account, q) > runs_in(account, p) &&
                             (is_same(account, q) || is_new(account, q));
            if (!is_spared || (pages_then(account, q) > 0 && is_exempt(account, q)) ||
                is_floor(account, q))
                continue;
            snprintf(wrong, room, "slot %u of class %s loses its pages, slot %u of class %s %s",
                     account->places[p].slot, class_name(runs_in(account, p)),
                     account->places[q].slot, class_name(runs_in(account, q)),
                     pages_then(account, q) > 0 ? "keeps its own" : "comes in");
            return false;
        }
    }
    return true;
}

/* --- no sequence is preempted before its quantum is over --- */

/* Returns whether its request was told that a more urgent class has its pages. Of several choices
 * the one preempted last is told. */
static bool is_for_urgent(const struct sim_account *account, uint32_t p)
{
    struct ticket *ticket = &account->step->options.tickets->slots[account->places[p].slot];
    uint32_t told = atomic_load(&ticket->shown_preempted_by);
    return ticket->asked.choices > 1 || (told > 0 && told - 1 < runs_in(account, p));
}

/* Returns whether a more urgent sequence has got pages, or waits for some. */
static bool is_urgent_there(const struct sim_account *account, enum service_class service_class)
{
    for (uint32_t p = 0; p < account->step->places; p++) {
        bool has_grown = pages_now(account, p) > pages_then(account, p);
        bool is_without = is_same(account, p) && pages_now(account, p) == 0;
        if ((has_grown || is_without) && runs_in(account, p) < service_class)
            return true;
    }
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++)
        if ((is_waiting_request(account, s) || is_waiting_choice(account, s)) &&
            account->clients[account->asked[s].client].service_class < service_class)
            return true;
    return false;
}

/* Returns whether the pages went to a more urgent sequence, or will when it comes in, or to one
 * that is the only one able to run. */
static bool is_needed(const struct sim_account *account, uint32_t victim)
{
    bool has_computed = false;
    if (is_for_urgent(account, victim) && is_urgent_there(account, runs_in(account, victim)))
        return true;
    for (uint32_t p = 0; p < account->step->places; p++)
        has_computed = has_computed || (account->places[p].rows > 0 &&
                                        pages_now(account, p) <= pages_then(account, p));
    return !has_computed;
}

bool sim_order_quantum(struct sim_account *account, char *wrong, size_t room)
{
    for (uint32_t p = 0; p < account->step->places; p++) {
        struct sim_place *place = &account->places[p];
        if (is_new(account, p))
            place->quantum = QUANTUM_STEPS;
        if (is_paused_now(account, p) && place->quantum > 0 &&
            !account->clients[place->client].is_over && !is_needed(account, p)) {
            snprintf(wrong, room,
                     "slot %u of class %s loses its pages to its equals, %u steps before its "
                     "quantum is over",
                     place->slot, class_name(runs_in(account, p)), place->quantum);
            return false;
        }
        place->quantum -= place->rows > 0 && place->quantum > 0;
    }
    return true;
}

bool sim_order_after(struct sim_account *account, char *wrong, size_t room)
{
    if (!account->has_pass)
        sim_order_pass(account);
    return after_entries(account, wrong, room);
}
