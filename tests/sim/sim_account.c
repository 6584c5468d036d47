#include "tests/sim/sim_account.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/status.h"
#include "tests/sim/sim_order.h"

enum {
    SECOND_US = 1000000,
    ALONE_STEPS_MAX = 1,
    /* with pages: the quanta of one sequence that runs and of one that has come in */
    STILL_STEPS_MAX = 64,
    PAUSED_STEPS_MAX = SIM_CONTEXT, /* without pages: until a younger sequence has ended */
    /* that a resumed sequence computes before others of its class may preempt it */
    QUANTUM_STEPS = 32,
};

static const double price_cached = 0.1;
static const double price_generated = 2;
static const double price_guess = 0.5; /* a rejected draft token */
/* a token's room in all layers for one step, whatever the size of pages and units */
static const double price_room_step = 0.01 / 16;

__attribute__((format(printf, 2, 3))) static void wrong(struct sim_account *account,
                                                        const char *format, ...)
{
    va_list arguments;
    if (account->wrong[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(account->wrong, sizeof(account->wrong), format, arguments);
    va_end(arguments);
}

void sim_account_init(struct sim_account *account, const struct sim_knobs *knobs,
                      const struct step *step)
{
    *account = (struct sim_account){
        .knobs = knobs,
        .step = step,
        .pairs = mem_zalloc(SIM_CLIENTS_MAX * SIM_CLIENTS_MAX, sizeof(*account->pairs)),
        .asked = mem_zalloc(step->options.tickets->count, sizeof(*account->asked)),
        .places = mem_zalloc(step->places, sizeof(*account->places)),
        .seconds = mem_zalloc(SIM_SECOND_STEPS, sizeof(*account->seconds)),
    };
    ASSERT(account->pairs != NULL);
    ASSERT(account->asked != NULL);
    ASSERT(account->places != NULL);
    ASSERT(account->seconds != NULL);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        account->short_since_us[c] = -1;
}

void sim_account_deinit(struct sim_account *account)
{
    mem_free(account->pairs);
    mem_free(account->asked);
    mem_free(account->places);
    mem_free(account->seconds);
}

/* --- requests --- */

static uint32_t submit_client(struct sim_account *account, uint32_t tenant,
                              const struct engine_request *asked)
{
    for (uint32_t i = 0; i < account->client_count; i++)
        if (account->clients[i].tenant == tenant &&
            account->clients[i].service_class == asked->service_class)
            return i;
    ASSERT(account->client_count < SIM_CLIENTS_MAX);
    account->clients[account->client_count] = (struct sim_client){
        .tenant = tenant,
        .id = asked->tenant,
        .service_class = asked->service_class,
        .weight = asked->weight,
    };
    return account->client_count++;
}

void sim_account_submit(struct sim_account *account, uint32_t slot, uint32_t tenant,
                        const struct engine_request *asked)
{
    account->asked[slot] = (struct sim_asked){
        .client = submit_client(account, tenant, asked),
        .is_known = true,
        .is_waiting = true,
        .is_published = asked->is_published,
    };
}

void sim_account_release(struct sim_account *account, uint32_t slot)
{
    account->asked[slot] = (struct sim_asked){0};
}

static enum service_class class_of(const struct sim_account *account, uint32_t client)
{
    return account->clients[client].service_class;
}

/* --- what can be observed --- */

/* Records a sequence that was absent at the last look. */
static void look_new(struct sim_account *account, struct sim_place *place,
                     const struct sequence *sequence)
{
    struct sim_asked *asked = &account->asked[sequence->slot];
    *place = (struct sim_place){.serial = sequence->serial,
                                .slot = sequence->slot,
                                .client = asked->client,
                                .is_running = true};
    account->admitted[class_of(account, asked->client)]++;
    asked->is_waiting = false;
}

/* Records which of its tokens were in the cache: those before its first row. */
static void look_found(struct sim_account *account, struct sim_place *place,
                       const struct sequence *sequence)
{
    place->has_pages = true;
    place->high = sequence->computed;
    if (!account->asked[place->slot].is_published)
        account->clients[place->client].charge += price_cached * sequence->computed;
}

static void look(struct sim_account *account)
{
    const struct sequence_table *table = &account->step->sequences;
    for (uint32_t i = 0; i < table->count; i++)
        account->places[i].is_running = false;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct sim_place *place = &account->places[table->order[i]];
        if (place->serial != sequence->serial)
            look_new(account, place, sequence);
        place->is_running = true;
        if (!place->has_pages && sequence->page_count > 0)
            look_found(account, place, sequence);
        place->is_paused = place->has_pages && sequence->page_count == 0;
        place->is_throttled = sequence->is_throttled;
    }
}

/* Returns whether a request could be admitted now. */
static bool look_may_enter(const struct sim_account *account, uint32_t slot)
{
    struct ticket *ticket = &account->step->options.tickets->slots[slot];
    const struct sim_asked *asked = &account->asked[slot];
    return asked->is_known && asked->is_waiting && !asked->is_published &&
           ticket->refusal.status == STATUS_OK &&
           atomic_load(&ticket->shown_state) == ENGINE_REQUEST_WAITING;
}

bool sim_account_may_enter(const struct sim_account *account)
{
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++)
        if (look_may_enter(account, s) && account->clients[account->asked[s].client].throttled == 0)
            return true;
    return false;
}

/* Returns the most units that a text of so many tokens needs. */
static uint32_t look_units(const struct sim_account *account, uint32_t tokens)
{
    const struct kv_pool *pool = &account->step->pool;
    const uint32_t pages = kv_pool_pages_for(pool, tokens);
    const uint32_t most =
        kv_pool_window_pages(pool) + 1 + kv_pool_pages_for(pool, account->knobs->rows_max);
    return pages + (pages < most ? pages : most) * pool->layout.window_units;
}

/* Returns the units that sequences of more urgent classes may still grow by, and those of a page
 * for each sequence. */
static uint32_t look_growth(const struct sim_account *account, enum service_class service_class)
{
    const struct step *step = account->step;
    uint32_t growth = 0;
    for (uint32_t p = 0; p < step->places; p++) {
        const struct sequence *other = &step->sequences.slots[p];
        const struct sim_place *place = &account->places[p];
        if (!place->is_running || place->is_throttled || other->page_count == 0 ||
            class_of(account, place->client) >= service_class)
            continue;
        uint32_t whole = look_units(account, other->token_count + 1);
        uint32_t held = sequence_units(other, &step->pool);
        growth += kv_pool_page_units(&step->pool) + (whole > held ? whole - held : 0);
    }
    return growth;
}

/* Returns whether so many tokens have room beside what is kept for other classes, if the own class
 * gives its pages. Kept are what more urgent classes have held at once in the last second and what
 * they grow by, and the floors of less urgent classes with work. */
static bool look_has_room(const struct sim_account *account, enum service_class service_class,
                          uint32_t tokens)
{
    const struct step *step = account->step;
    uint32_t whole = look_units(account, tokens + 1);
    uint32_t all = step->pool.unit_count - step->cache.options.exchange;
    uint32_t left = all > whole ? all - whole : 0;
    uint32_t floor_pages = all * step->fair.options.floor_percent / 100;
    uint32_t peaks = 0;
    uint32_t floors = 0;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        if (c < (uint32_t)service_class)
            peaks += scheduler_fair_peak(&step->fair, (enum service_class)c);
        else if (c > (uint32_t)service_class && account->has_work[c])
            floors += floor_pages;
    }
    /* floors do not keep out a sequence that needs nearly all pages */
    floors = floors < left ? floors : left;
    return whole + peaks + floors + look_growth(account, service_class) <= all;
}

/* Returns whether the table has a slot for one more sequence of a class: one class may have half of
 * them, and an eighth stays for each other class. */
static bool look_has_place(const struct sim_account *account, enum service_class service_class)
{
    uint32_t places = account->step->places;
    uint32_t held[SERVICE_CLASS_COUNT] = {0};
    uint32_t taken = 0;
    for (uint32_t p = 0; p < places; p++)
        if (account->places[p].is_running)
            held[class_of(account, account->places[p].client)]++;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        taken += c != service_class && held[c] < places / 8 ? places / 8 : held[c];
    return taken < places && 2 * held[service_class] < places;
}

/* Determines which classes have a sequence that computes, is preempted, or may come in. */
static void look_work(struct sim_account *account)
{
    const struct step *step = account->step;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        account->has_work[c] = false;
    for (uint32_t s = 0; s < step->options.tickets->count; s++)
        if (look_may_enter(account, s))
            account->has_work[class_of(account, account->asked[s].client)] = true;
    for (uint32_t p = 0; p < step->places; p++)
        if (account->places[p].is_running && !account->places[p].is_throttled)
            account->has_work[class_of(account, account->places[p].client)] = true;
}

/* Determines which classes have a waiting sequence without room; others of its class may not pass
 * it. */
static void look_short(const struct sim_account *account, bool is_short[SERVICE_CLASS_COUNT])
{
    const struct step *step = account->step;
    for (uint32_t s = 0; s < step->options.tickets->count; s++) {
        enum service_class service_class = class_of(account, account->asked[s].client);
        if (look_may_enter(account, s) &&
            !look_has_room(account, service_class, step->options.tickets->slots[s].prompt_count))
            is_short[service_class] = true;
    }
}

/* Determines which clients have work that only others of their class keep waiting. */
static void look_clients(struct sim_account *account)
{
    const struct step *step = account->step;
    bool is_short[SERVICE_CLASS_COUNT] = {false};
    look_work(account);
    look_short(account, is_short);
    for (uint32_t c = 0; c < account->client_count; c++) {
        account->clients[c].is_waiting = account->clients[c].wants = false;
        account->clients[c].throttled = 0;
        account->clients[c].held = 0;
    }
    for (uint32_t s = 0; s < step->options.tickets->count; s++) {
        struct sim_client *client = &account->clients[account->asked[s].client];
        if (!look_may_enter(account, s))
            continue;
        client->wants = true;
        if (look_has_place(account, client->service_class) && !is_short[client->service_class])
            client->is_waiting = true;
    }
    for (uint32_t p = 0; p < step->places; p++) {
        const struct sim_place *place = &account->places[p];
        struct sim_client *client = &account->clients[place->client];
        if (!place->is_running)
            continue;
        client->throttled += place->is_throttled;
        client->held++;
        if (place->is_throttled || place->rows > 0)
            continue;
        client->wants = true;
        if (!place->is_paused ||
            look_has_room(account, client->service_class, step->sequences.slots[p].token_count))
            client->is_waiting = true;
    }
}

/* Returns the engine's account of a client, or NULL. */
static const struct scheduler_client *their_account(const struct sim_account *account,
                                                    const struct sim_client *client)
{
    const struct scheduler_fair *fair = &account->step->fair;
    for (uint32_t i = 0; i < fair->used; i++)
        if (fair->clients[i].service_class == client->service_class &&
            memcmp(&fair->clients[i].tenant, &client->id, sizeof(client->id)) == 0)
            return &fair->clients[i];
    return NULL;
}

/* Returns what the engine has charged a client; < 0 when it has no account. */
static double their_charge(const struct sim_account *account, const struct sim_client *client)
{
    const struct scheduler_client *theirs = their_account(account, client);
    return theirs != NULL ? theirs->charged : -1;
}

void sim_account_before(struct sim_account *account)
{
    look(account);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        account->rows[c] = account->admitted[c] = 0;
    for (uint32_t c = 0; c < account->client_count; c++) {
        struct sim_client *client = &account->clients[c];
        client->charge_before = client->charge;
        client->residency_before = client->residency;
        client->theirs = their_charge(account, client);
    }
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++) {
        account->asked[s].was_waiting = look_may_enter(account, s);
        const struct ticket *ticket = &account->step->options.tickets->slots[s];
        account->asked[s].followed_steps = ticket->followed_steps;
        account->asked[s].told_before = ticket->report.completion_tokens;
        account->asked[s].drawn = account->asked[s].guessed = 0;
    }
    for (uint32_t p = 0; p < account->step->places; p++) {
        struct sim_place *place = &account->places[p];
        place->rows = 0;
        place->left = 0;
    }
    sim_order_before(account);
}

/* --- the pass --- */

static uint32_t pass_place(const struct sim_account *account, const uint32_t *pages)
{
    const struct sequence_table *table = &account->step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (table->slots[table->order[i]].pages == pages)
            return table->order[i];
    ASSERT(false);
    return 0;
}

/* Each tenant that waits for this prompt is charged the same share as its own. */
static void pass_charge_fill(struct sim_account *account, uint32_t index, double charge)
{
    const struct sequence *sequence = &account->step->sequences.slots[index];
    uint32_t payers[SIM_CLIENTS_MAX];
    uint32_t count = 0;
    payers[count++] = account->places[index].client;
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++) {
        struct ticket *ticket = &account->step->options.tickets->slots[s];
        uint32_t client = account->asked[s].client;
        bool is_new = account->asked[s].is_known && ticket->is_waiting &&
                      ticket->followed_steps > account->asked[s].followed_steps &&
                      ticket->leader == index && ticket->leader_serial == sequence->serial &&
                      atomic_load(&ticket->shown_state) == ENGINE_REQUEST_FOLLOWING;
        for (uint32_t i = 0; i < count; i++)
            is_new = is_new && payers[i] != client;
        if (is_new)
            payers[count++] = client;
    }
    for (uint32_t i = 0; i < count; i++)
        account->clients[payers[i]].charge += charge / count;
}

/* Charges rows first … first + rows − 1 of a sequence. The row of its last token gives one more
 * token; the rows behind it are drafts. */
static void pass_charge(struct sim_account *account, uint32_t index, uint32_t first, uint32_t rows)
{
    const struct sequence *sequence = &account->step->sequences.slots[index];
    struct sim_place *place = &account->places[index];
    struct sim_asked *asked = &account->asked[place->slot];
    uint32_t end = first + rows;
    account->executed += rows;
    if (asked->is_published) {
        account->operators += rows;
        return;
    }
    if (end >= sequence->token_count) {
        asked->drawn++;
        asked->guessed += end - sequence->token_count;
        end = sequence->token_count;
    }
    uint32_t fresh_from = first > place->high ? first : place->high;
    uint32_t fresh_to = end < sequence->prompt_count ? end : sequence->prompt_count;
    uint32_t again_to = end < place->high ? end : place->high;
    account->overhead += again_to > first ? again_to - first : 0;
    if (fresh_to > fresh_from)
        pass_charge_fill(account, index, fresh_to - fresh_from);
    place->high = end > place->high ? end : place->high;
}

/* Units of KV memory that a sequence holds for itself: its pages, and of those that its window has
 * reached the window units too. */
static uint32_t pass_units(const struct sim_account *account, const struct sequence *sequence)
{
    const struct kv_layout *layout = &account->step->pool.layout;
    uint32_t units = 0;
    for (uint32_t p = 0; p < sequence->page_count; p++)
        units += p < sequence->window_page ? 1 : 1 + layout->window_units;
    return units;
}

void sim_account_pass(struct sim_account *account, const struct model_batch *batch)
{
    const struct kv_rows *kv = &batch->kv;
    look(account);
    for (uint32_t row = 0; row < batch->rows;) {
        uint32_t count = 1;
        while (row + count < batch->rows && kv->sequence[row + count] == kv->sequence[row])
            count++;
        uint32_t index = pass_place(account, kv->page_tables[kv->sequence[row]]);
        struct sim_place *place = &account->places[index];
        pass_charge(account, index, kv->position[row], count);
        place->rows = count;
        account->rows[class_of(account, place->client)] += count;
        row += count;
    }
    sim_order_pass(account);
    for (uint32_t p = 0; p < account->step->places; p++) {
        struct sim_place *place = &account->places[p];
        const struct sequence *sequence = &account->step->sequences.slots[p];
        if (!place->is_running)
            continue;
        const struct kv_layout *layout = &account->step->pool.layout;
        double residency = price_room_step * pass_units(account, sequence) * layout->page_tokens /
                           (1 + layout->window_units);
        account->clients[place->client].residency += residency;
        uint32_t could = sequence->token_count - sequence->computed;
        if (!place->is_throttled && place->rows < could)
            place->left = could - place->rows;
    }
}

/* --- charges --- */

/* Counts tokens and rejected drafts, which are known once the step is over. */
static void after_drawn(struct sim_account *account)
{
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++) {
        const struct sim_asked *asked = &account->asked[s];
        if (!asked->is_known || asked->drawn == 0)
            continue;
        const struct engine_report *report = &account->step->options.tickets->slots[s].report;
        uint32_t told = report->completion_tokens - asked->told_before;
        uint32_t right = told - asked->drawn;
        if (told < asked->drawn || right > asked->guessed)
            wrong(account, "slot %u tells %u tokens by %u rows and %u guesses", s, told,
                  asked->drawn, asked->guessed);
        account->clients[asked->client].charge +=
            told * price_generated + (asked->guessed - right) * price_guess;
    }
}

/* The engine charges exactly what was executed, to the client it was executed for. For pages it may
 * charge less: a client that others hold off is not to blame for the pages it holds. */
static void after_charges(struct sim_account *account)
{
    for (uint32_t c = 0; c < account->client_count; c++) {
        struct sim_client *client = &account->clients[c];
        double theirs = their_charge(account, client);
        if (client->theirs < 0 || theirs < client->theirs)
            continue;
        double least = client->charge - client->charge_before;
        double most = least + client->residency - client->residency_before;
        double charged = theirs - client->theirs;
        client->charge_pages += charged - least;
        if (charged > most + 1e-6 || charged < least - 1e-6)
            wrong(account, "tenant %u, %s, is charged %.3f for a step of %.3f to %.3f",
                  client->tenant, service_class_name(client->service_class), charged, least, most);
    }
}

/* --- sequences that may not stand still --- */

/* Returns the steps that other clients' first prompts may take first: a quantum of tokens for each.
 */
static uint32_t after_oldest_firsts(const struct sim_account *account)
{
    uint64_t tokens = 0;
    for (uint32_t c = 0; c < account->client_count; c++)
        tokens += account->knobs->fair_quantum * (uint64_t)account->clients[c].weight / 100;
    return (uint32_t)(tokens / account->knobs->rows_max);
}

/* The oldest sequence of the most urgent class advances, unless its client has had so much more
 * than others that it is held off. The bound limits how much that may be. */
static void after_oldest(struct sim_account *account)
{
    const struct sequence_table *table = &account->step->sequences;
    uint32_t oldest = SEQUENCE_NONE;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sim_place *place = &account->places[table->order[i]];
        const struct sim_client *client = &account->clients[place->client];
        if (place->is_throttled || their_account(account, client)->is_over)
            continue;
        if (oldest == SEQUENCE_NONE ||
            client->service_class < class_of(account, account->places[oldest].client))
            oldest = table->order[i];
    }
    if (oldest == SEQUENCE_NONE)
        return;
    const struct sim_place *place = &account->places[oldest];
    bool is_same = place->serial == account->oldest && place->rows == 0;
    account->steps_still = is_same ? account->steps_still + 1 : 0;
    account->was_paused = place->is_paused || (is_same && account->was_paused);
    account->oldest = place->serial;
    const struct sim_knobs *knobs = account->knobs;
    bool is_short_of_rows =
        knobs->sequences_max <= SERVICE_CLASS_COUNT || knobs->rows_max <= knobs->sequences_max;
    uint32_t most = account->was_paused || is_short_of_rows ? PAUSED_STEPS_MAX : STILL_STEPS_MAX;
    if (account->steps_still > most + after_oldest_firsts(account))
        wrong(account, "the oldest of class %s (slot %u) stands still",
              service_class_name(class_of(account, place->client)), place->slot);
}

/* A client with one sequence, which decodes, has a row in every step, whatever others have running.
 * This holds for the most urgent class with work, except when the client has had too much, when a
 * step has fewer slots than twice the clients (floors may take half of them) or few rows beside a
 * prompt, or when the sequence needs a page first or its pages are being copied. */
static void after_alone(struct sim_account *account)
{
    uint32_t running[SIM_CLIENTS_MAX] = {0};
    uint32_t first = SERVICE_CLASS_COUNT;
    uint32_t clients = 0;
    for (uint32_t c = SERVICE_CLASS_COUNT; c-- > 0;)
        first = account->rows[c] > 0 ? c : first;
    for (uint32_t p = 0; p < account->step->places; p++) {
        const struct sim_place *place = &account->places[p];
        if (!place->is_running || place->is_throttled)
            continue;
        clients += running[place->client]++ == 0;
        if (place->rows > 0 && (uint32_t)place->runs_in < first)
            first = place->runs_in; /* the class of the request that waits for its prompt */
        uint32_t class = class_of(account, place->client);
        first = class < first ? class : first;
    }
    for (uint32_t p = 0; p < account->step->places; p++) {
        struct sim_place *place = &account->places[p];
        const struct sim_client *client = &account->clients[place->client];
        bool is_still = place->is_running && !place->is_throttled && !place->was_throttled &&
                        place->pages_in > 0 && place->left == 1 && place->rows == 0 &&
                        place->high % account->knobs->machine.page_tokens > 0 &&
                        account->step->sequences.slots[p].arriving_steps == 0 &&
                        running[place->client] == 1 && client->service_class == first &&
                        !client->is_over && 2 * clients <= account->knobs->sequences_max &&
                        account->knobs->rows_max > SCHEDULER_CHUNK_MIN;
        place->alone_still = is_still ? place->alone_still + 1 : 0;
        if (place->alone_still > ALONE_STEPS_MAX)
            wrong(account, "the only stream of a client (slot %u) rests beside others' streams",
                  place->slot);
    }
}

/* --- the bound between two clients of a class --- */

/* U + Q of two clients: a step's rows, a cached prompt, what all sequences generate and hold in a
 * quantum. Clients that are held off or throttled are charged for pages too, which adds a
 * hundredth. */
static double bound_half(const struct sim_account *account, uint32_t least_weight)
{
    const struct sim_knobs *knobs = account->knobs;
    double step = price_generated + price_room_step * SIM_CONTEXT;
    double unit =
        knobs->rows_max + price_cached * SIM_CONTEXT + step * knobs->sequences_max * QUANTUM_STEPS;
    return unit * 100 / least_weight + knobs->fair_quantum;
}

static double bound_served(const struct sim_client *client)
{
    return (client->charge + client->charge_pages) * 100 / client->weight;
}

static void bound_pair(struct sim_account *account, uint32_t a, uint32_t b)
{
    const struct sim_client *one = &account->clients[a];
    const struct sim_client *other = &account->clients[b];
    struct sim_pair *pair = &account->pairs[a * SIM_CLIENTS_MAX + b];
    uint64_t since = one->since_step > other->since_step ? one->since_step : other->since_step;
    double ahead = bound_served(one) - bound_served(other);
    if (pair->since_step != since)
        *pair = (struct sim_pair){.since_step = since, .least = ahead, .most = ahead};
    pair->least = ahead < pair->least ? ahead : pair->least;
    pair->most = ahead > pair->most ? ahead : pair->most;
    uint32_t least_weight = one->weight < other->weight ? one->weight : other->weight;
    double limit = 2.02 * bound_half(account, least_weight);
    if (pair->most - pair->least > limit)
        wrong(account,
              "tenants %u and %u, %s, both waiting since step %llu: %.1f served more than the "
              "other, bound %.1f",
              one->tenant, other->tenant, service_class_name(one->service_class),
              (unsigned long long)since, pair->most - pair->least, limit);
    if (pair->most - pair->least > account->spread * limit)
        account->spread = (pair->most - pair->least) / limit;
}

/* Counts pairs that both want more, and how often the bound was checked, so that exceptions cannot
 * hide most cases. */
static void bound_of_two(struct sim_account *account, uint32_t a, uint32_t b)
{
    account->pairs_wanted++;
    if (account->clients[a].since_step == 0 || account->clients[b].since_step == 0)
        return;
    account->pairs_judged++;
    bound_pair(account, a, b);
}

/* A client that had something to admit or resume after the last step and after this one was kept
 * waiting during all of this one. A client with a stopped reader was not, because it waits for that
 * reader. Nothing bounds what running sequences may have when none may be preempted for another. */
static void after_bound(struct sim_account *account)
{
    if (account->knobs->preemption == ENGINE_PREEMPTION_OFF)
        return;
    for (uint32_t c = 0; c < account->client_count; c++) {
        struct sim_client *client = &account->clients[c];
        if (!client->is_waiting || client->throttled > 0)
            client->since_step = 0;
        else if (client->since_step == 0)
            client->since_step = account->steps;
    }
    for (uint32_t a = 0; a < account->client_count; a++)
        for (uint32_t b = a + 1; b < account->client_count && account->clients[a].wants; b++)
            if (account->clients[b].wants &&
                account->clients[a].service_class == account->clients[b].service_class)
                bound_of_two(account, a, b);
}

/* --- a light client beside a flood --- */

/* While a request of a client that has nothing else in the table waits to come in, the flood is
 * served at most 2·(U + Q): the bound of two clients, one of which gets nothing. Each step charges
 * at least a token, so this also bounds the number of steps. */
static void after_rush(struct sim_account *account)
{
    const struct sim_client *flood = &account->clients[0];
    double most = 2.02 * bound_half(account, 100);
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++) {
        struct sim_asked *asked = &account->asked[s];
        if (!asked->is_known || !asked->is_waiting || asked->client == 0 ||
            account->clients[asked->client].held > 0)
            continue;
        if (asked->waited++ == 0)
            asked->flood_served = flood->charge_before + flood->charge_pages;
        double served = flood->charge + flood->charge_pages - asked->flood_served;
        account->wait_steps =
            asked->waited > account->wait_steps ? asked->waited : account->wait_steps;
        account->wait_served =
            served / most > account->wait_served ? served / most : account->wait_served;
        if (served > most)
            wrong(account, "slot %u waits %u steps, the flood is served %.0f meanwhile, bound %.0f",
                  s, asked->waited, served, most);
    }
}

/* --- classes --- */

/* A class is short when it had work that this step gave no row, or fewer rows than it could use. */
static void after_short(struct sim_account *account)
{
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        account->is_short[c] = false;
    for (uint32_t s = 0; s < account->step->options.tickets->count; s++)
        if (account->asked[s].was_waiting && look_may_enter(account, s))
            account->is_short[class_of(account, account->asked[s].client)] = true;
    for (uint32_t p = 0; p < account->step->places; p++) {
        const struct sim_place *place = &account->places[p];
        if (place->is_running && !place->is_throttled && (place->rows == 0 || place->left > 0))
            account->is_short[class_of(account, place->client)] = true;
    }
}

static uint64_t second_all(const struct sim_account *account)
{
    uint64_t rows = 0;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        rows += account->second_rows[c];
    return rows;
}

static void second_add(struct sim_account *account, int64_t now_us)
{
    struct sim_second *entry = &account->seconds[account->second_next++ % SIM_SECOND_STEPS];
    ASSERT(account->second_next - account->second_first < SIM_SECOND_STEPS);
    entry->began_us = account->began_us;
    entry->end_us = now_us;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        entry->rows[c] = account->rows[c];
        account->second_rows[c] += account->rows[c];
    }
    for (; account->second_first < account->second_next; account->second_first++) {
        const struct sim_second *old = &account->seconds[account->second_first % SIM_SECOND_STEPS];
        if (old->end_us > now_us - SECOND_US)
            break;
        for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
            account->second_rows[c] -= old->rows[c];
    }
}

/* A class that wants more must have had three quarters of its floor in the last second. The quarter
 * allows for the ten parts of the engine's second, for the floors of the classes in between, which
 * are served as they come, and for two steps. */
static void after_floors(struct sim_account *account, int64_t now_us)
{
    second_add(account, now_us);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        if (!account->is_short[c])
            account->short_since_us[c] = -1;
        else if (account->short_since_us[c] < 0)
            account->short_since_us[c] = now_us;
        /* With few sequences or rows, one for a class is none for another. */
        bool is_second = account->knobs->sequences_max > SERVICE_CLASS_COUNT &&
                         account->knobs->rows_max >= SIM_PAGE && account->short_since_us[c] >= 0 &&
                         account->short_since_us[c] <= now_us - SECOND_US;
        double floor = 0.75 * (double)second_all(account) * account->knobs->floor_percent / 100 -
                       2.0 * account->knobs->rows_max;
        if (is_second && (double)account->second_rows[c] < floor)
            wrong(account, "class %s had %llu of %llu rows in the last second, its floor is %.0f",
                  service_class_name((enum service_class)c),
                  (unsigned long long)account->second_rows[c],
                  (unsigned long long)second_all(account), floor);
    }
}

static void after_order(struct sim_account *account)
{
    char sentence[sizeof(account->wrong)];
    for (uint32_t c = 0; c < account->client_count; c++) {
        const struct scheduler_client *theirs = their_account(account, &account->clients[c]);
        account->clients[c].is_over = theirs != NULL && theirs->is_over;
    }
    if (!sim_order_after(account, sentence, sizeof(sentence)) ||
        !sim_order_quantum(account, sentence, sizeof(sentence)) ||
        !sim_order_victims(account, sentence, sizeof(sentence)))
        wrong(account, "%s", sentence);
}

bool sim_account_after(struct sim_account *account, int64_t now_us, bool has_worked)
{
    account->steps++;
    look(account);
    after_drawn(account);
    if (has_worked && account->knobs->batching == ENGINE_BATCHING_CONTINUOUS) {
        look_clients(account);
        after_charges(account);
        after_short(account);
        after_floors(account, now_us);
        after_order(account);
        if (account->knobs->rush > 0 && account->knobs->sequences_max > 1)
            after_rush(account);
        after_bound(account);
        after_oldest(account);
        after_alone(account);
    }
    return account->wrong[0] == '\0';
}
