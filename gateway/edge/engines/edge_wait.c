#include "gateway/edge/engines/edge_wait.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

enum {
    BUCKETS = 256,
    RESERVE_PARTS = 8,        /* a class may not use this part of the total for each better class */
    RATE_PARTS = 8,           /* weight of the newest time in the mean: one in so many */
    ESTIMATE_MS_MAX = 600000, /* no request may wait longer */
    BUSY_MS = 1000,           /* the pause when a busy engine does not say how long */
    BUSY_MS_MAX = 30000,
};

/* A tenant with requests that wait in a class. It is in a ring of the class and in a hash bucket.
 * */
struct edge_wait_client {
    struct edge_wait_client *previous, *next;
    struct edge_wait_client *chain;
    uint8_t hash[16];
    enum service_class service_class;
    struct edge_wait_entry *first, *last;
    uint32_t count;
    uint64_t bytes;
    int64_t held_until_us; /* valid while it is held */
    bool is_held;          /* it is in the lane's ring of held tenants and has no turns */
};

/* One class of service. */
struct lane {
    struct edge_wait *wait;
    struct edge_wait_client *ring; /* the tenant whose turn is next */
    struct edge_wait_client *held; /* a ring of tenants that have no turns for a while */
    struct loop_timer *pause;      /* runs while is_paused, because the engine is full */
    uint32_t count;                /* entries */
    uint32_t clients;              /* tenants */
    uint32_t held_clients;         /* of these, those that are held */
    uint32_t passed;               /* turns of other classes while a request waited here */
    uint32_t busy_row;             /* busy answers since a request was taken */
    bool is_paused;
};

struct edge_wait {
    struct edge_wait_options options;
    struct loop_timer *turn; /* the next turn; armed with 0 ms for the first one */
    struct loop_timer *held; /* runs while a tenant is held */
    struct edge_wait_client *buckets[BUCKETS];
    struct lane lanes[SERVICE_CLASS_COUNT];
    uint32_t count;
    uint64_t bytes;
    uint64_t order;
    uint32_t window;
    int64_t taken_us;      /* when the engine last took a request while others waited; 0: never */
    int64_t taken_mean_us; /* the mean time between two of them */
    uint32_t taken_count;  /* times measured so far, at most RATE_PARTS */
    bool is_open;
    bool is_settled;  /* since the gate opened, the queue was empty once or the engine was full */
    bool is_turn_due; /* the timer of turns runs */
    bool is_held_due; /* the timer of held tenants runs */
};

/* --- clients --- */

static struct edge_wait_client **client_slot(struct edge_wait *wait,
                                             const struct edge_wait_who *who)
{
    uint64_t key = hash_bytes(hash_process_key(), who->tenant_hash, 16) + who->service_class;
    struct edge_wait_client **slot = &wait->buckets[key % BUCKETS];
    while (*slot != NULL && ((*slot)->service_class != who->service_class ||
                             memcmp((*slot)->hash, who->tenant_hash, 16) != 0))
        slot = &(*slot)->chain;
    return slot;
}

static const struct edge_wait_client *client_find(const struct edge_wait *wait,
                                                  const struct edge_wait_who *who)
{
    return *client_slot((struct edge_wait *)(uintptr_t)wait, who);
}

/* Adds a tenant to a ring, as the last one of the round. */
static void ring_add(struct edge_wait_client **ring, struct edge_wait_client *client)
{
    if (*ring == NULL) {
        client->previous = client->next = client;
        *ring = client;
    } else {
        client->next = *ring;
        client->previous = (*ring)->previous;
        client->previous->next = client;
        client->next->previous = client;
    }
}

static void ring_remove(struct edge_wait_client **ring, struct edge_wait_client *client)
{
    if (*ring == client)
        *ring = client->next != client ? client->next : NULL;
    client->previous->next = client->next;
    client->next->previous = client->previous;
}

static void client_hold(struct lane *lane, struct edge_wait_client *client, bool is_held)
{
    if (client->is_held == is_held)
        return;
    ring_remove(is_held ? &lane->ring : &lane->held, client);
    ring_add(is_held ? &lane->held : &lane->ring, client);
    lane->held_clients += is_held ? 1 : UINT32_MAX; /* one less */
    client->is_held = is_held;
}

static struct edge_wait_client *client_make(struct edge_wait *wait, const struct edge_wait_who *who)
{
    struct edge_wait_client **slot = client_slot(wait, who);
    struct lane *lane = &wait->lanes[who->service_class];
    if (*slot != NULL)
        return *slot;
    struct edge_wait_client *client = mem_zalloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    memcpy(client->hash, who->tenant_hash, 16);
    client->service_class = who->service_class;
    *slot = client;
    lane->clients++;
    ring_add(&lane->ring, client);
    return client;
}

static void client_drop_if_empty(struct edge_wait *wait, struct edge_wait_client *client)
{
    if (client->count != 0)
        return;
    struct lane *lane = &wait->lanes[client->service_class];
    struct edge_wait_client **slot =
        client_slot(wait, &(struct edge_wait_who){client->hash, client->service_class});
    *slot = client->chain;
    client_hold(lane, client, false);
    lane->clients--;
    ring_remove(&lane->ring, client);
    mem_free(client);
}

/* --- entries --- */

static void count_changed(struct edge_wait *wait, enum service_class service_class)
{
    struct lane *lane = &wait->lanes[service_class];
    if (lane->count == 0)
        lane->passed = 0;
    if (wait->count == 0) {
        wait->taken_us = 0;
        wait->is_settled = wait->is_settled || wait->is_open;
    }
    if (wait->options.gauges[service_class] != NULL)
        metric_set(wait->options.gauges[service_class], lane->count);
}

static void entry_take(struct edge_wait *wait, struct edge_wait_entry *entry)
{
    struct edge_wait_client *client = entry->client;
    enum service_class service_class = client->service_class;
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        client->first = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
    else
        client->last = entry->previous;
    entry->previous = entry->next = NULL;
    entry->client = NULL;
    client->count--;
    client->bytes -= entry->bytes;
    wait->lanes[service_class].count--;
    wait->count--;
    wait->bytes -= entry->bytes;
    client_drop_if_empty(wait, client);
    count_changed(wait, service_class);
}

/* --- turns --- */

static bool lane_is_ready(const struct lane *lane)
{
    return lane->ring != NULL && !lane->is_paused;
}

/* The class that has the next turn: the most urgent one that may go, unless another one was passed
 * EDGE_WAIT_FLOOR times. NULL: no class may go. */
static struct lane *turn_pick(struct edge_wait *wait)
{
    struct lane *pick = NULL;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        struct lane *lane = &wait->lanes[i];
        if (lane_is_ready(lane) &&
            (pick == NULL || (lane->passed >= EDGE_WAIT_FLOOR && lane->passed > pick->passed)))
            pick = lane;
    }
    return pick;
}

static void turn_arm(struct edge_wait *wait, uint32_t delay_ms)
{
    if (wait->is_turn_due || !wait->is_open || turn_pick(wait) == NULL)
        return;
    wait->is_turn_due = true;
    loop_timer_arm(wait->turn, delay_ms);
}

static void turn_note(struct edge_wait *wait, struct lane *picked)
{
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        if (lane_is_ready(&wait->lanes[i]))
            wait->lanes[i].passed++;
    picked->passed = 0;
}

/* One turn: sends at most `window` requests. A request that goes may enter again, make others
 * leave, or shut the gate. */
static void turn(void *context)
{
    struct edge_wait *wait = context;
    struct lane *lane;
    for (uint32_t left = wait->window;
         left > 0 && wait->is_open && (lane = turn_pick(wait)) != NULL; left--) {
        turn_note(wait, lane);
        struct edge_wait_entry *entry = lane->ring->first;
        lane->ring = lane->ring->next;
        entry_take(wait, entry);
        entry->go(entry->context);
    }
    wait->window *= 2;
    if (wait->window > EDGE_WAIT_WINDOW_MOST)
        wait->window = EDGE_WAIT_WINDOW_MOST;
    wait->is_turn_due = false;
    turn_arm(wait, EDGE_WAIT_TURN_MS);
}

/* Gives turns again to tenants whose hold is over. */
static void held_over(void *context)
{
    struct edge_wait *wait = context;
    int64_t now_us = loop_now_us(wait->options.loop);
    int64_t next_us = INT64_MAX;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        struct lane *lane = &wait->lanes[i];
        struct edge_wait_client *client = lane->held;
        for (uint32_t left = lane->held_clients; left > 0; left--) {
            struct edge_wait_client *next = client->next;
            if (client->held_until_us <= now_us)
                client_hold(lane, client, false);
            else if (client->held_until_us < next_us)
                next_us = client->held_until_us;
            client = next;
        }
    }
    wait->is_held_due = next_us != INT64_MAX;
    if (wait->is_held_due)
        loop_timer_arm(wait->held, (uint32_t)((next_us - now_us + 999) / 1000));
    turn_arm(wait, 0);
}

static void pause_over(void *context)
{
    struct lane *lane = context;
    lane->is_paused = false;
    lane->busy_row = 0;
    lane->wait->window = EDGE_WAIT_WINDOW_LEAST;
    turn_arm(lane->wait, 0);
}

/* --- what callers see --- */

enum status edge_wait_create(struct edge_wait **out, const struct edge_wait_options *options)
{
    struct edge_wait *wait = mem_zalloc(1, sizeof *wait);
    if (wait == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the queue before the engine");
    wait->options = *options;
    wait->window = EDGE_WAIT_WINDOW_LEAST;
    wait->turn = loop_timer_create(options->loop, turn, wait);
    wait->held = loop_timer_create(options->loop, held_over, wait);
    bool is_made = wait->turn != NULL && wait->held != NULL;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        wait->lanes[i].wait = wait;
        wait->lanes[i].pause = loop_timer_create(options->loop, pause_over, &wait->lanes[i]);
        is_made = is_made && wait->lanes[i].pause != NULL;
    }
    if (!is_made) {
        edge_wait_destroy(wait);
        FAIL(STATUS_NO_MEMORY, "no memory for the queue before the engine");
    }
    *out = wait;
    return STATUS_OK;
}

static struct edge_wait_entry *first_of_all(const struct edge_wait *wait)
{
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        if (wait->lanes[i].ring != NULL)
            return wait->lanes[i].ring->first;
        else if (wait->lanes[i].held != NULL)
            return wait->lanes[i].held->first;
    return NULL;
}

void edge_wait_destroy(struct edge_wait *wait)
{
    struct edge_wait_entry *entry;
    if (wait == NULL)
        return;
    while ((entry = first_of_all(wait)) != NULL)
        entry_take(wait, entry);
    if (wait->turn != NULL)
        loop_timer_destroy(wait->turn);
    if (wait->held != NULL)
        loop_timer_destroy(wait->held);
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++)
        if (wait->lanes[i].pause != NULL)
            loop_timer_destroy(wait->lanes[i].pause);
    mem_free(wait);
}

bool edge_wait_is_needed(const struct edge_wait *wait, const struct edge_wait_who *who)
{
    if (!wait->is_open)
        return true;
    for (unsigned i = 0; i < who->service_class; i++)
        if (lane_is_ready(&wait->lanes[i]))
            return true;
    const struct lane *own = &wait->lanes[who->service_class];
    if (!own->is_paused && own->count == 0)
        return false;
    return !wait->is_settled || client_find(wait, who) != NULL;
}

static uint32_t estimate(const struct edge_wait *wait, uint64_t before)
{
    if (wait->taken_count < RATE_PARTS)
        return 0;
    uint64_t most = ESTIMATE_MS_MAX * UINT64_C(1000) / (uint64_t)wait->taken_mean_us;
    return 1 + (uint32_t)((before < most ? before : most) * (uint64_t)wait->taken_mean_us / 1000);
}

/* Before a new request go all requests of more urgent classes and, in its own class, as many
 * requests of each tenant as its tenant has waiting. The turns of less urgent classes
 * (EDGE_WAIT_FLOOR) make the wait a little longer and are left out. */
uint32_t edge_wait_estimate_ms(const struct edge_wait *wait, const struct edge_wait_who *who)
{
    const struct lane *own = &wait->lanes[who->service_class];
    const struct edge_wait_client *client = client_find(wait, who);
    uint64_t before = client != NULL ? (uint64_t)client->count * own->clients : own->clients;
    before = before < own->count ? before : own->count;
    for (unsigned i = 0; i < who->service_class; i++)
        before += wait->lanes[i].count;
    return estimate(wait, before + 1);
}

static enum status enter_fail(const struct edge_wait *wait, const struct edge_wait_who *who,
                              bool is_own)
{
    if (!wait->is_open && wait->options.requests_max == 0) /* there is no queue: it is down */
        FAIL(STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    uint32_t ms = edge_wait_estimate_ms(wait, who);
    enum status status =
        is_own ? status_fail(STATUS_QUEUE_FULL, __FILE__, __LINE__, NULL,
                             "Too many requests of yours wait in the class %s; send fewer at once, "
                             "or try again when some have ended.",
                             service_class_name(who->service_class))
               : status_fail(STATUS_BUSY, __FILE__, __LINE__, NULL,
                             "The server has no room for another request of the class %s; try "
                             "again later.",
                             service_class_name(who->service_class));
    status_note_retry(ms);
    return status;
}

static enum status enter_check(const struct edge_wait *wait, const struct edge_wait_client *client,
                               const struct edge_wait_who *who, size_t bytes)
{
    const struct edge_wait_options *most = &wait->options;
    uint32_t requests =
        most->requests_max - most->requests_max / RESERVE_PARTS * (uint32_t)who->service_class;
    uint64_t all = most->bytes_max - most->bytes_max / RESERVE_PARTS * who->service_class;
    if (client == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant that waits");
    if (wait->count < most->requests_max && /* else the total is the bound that is met */
        (client->count >= most->tenant_requests_max || bytes > most->tenant_bytes_max ||
         client->bytes > most->tenant_bytes_max - bytes))
        return enter_fail(wait, who, true);
    if (wait->count >= requests || bytes > all || wait->bytes > all - bytes)
        return enter_fail(wait, who, false);
    return STATUS_OK;
}

/* Links an entry in the order in which entries first waited. Entries that wait again are the
 * oldest, so their place is found from the front. */
static void enter_link(struct edge_wait_client *client, struct edge_wait_entry *entry)
{
    struct edge_wait_entry *next = client->last;
    if (next != NULL && next->order < entry->order) {
        next = NULL;
    } else {
        next = client->first;
        while (next != NULL && next->order < entry->order)
            next = next->next;
    }
    entry->client = client;
    entry->next = next;
    entry->previous = next != NULL ? next->previous : client->last;
    if (entry->previous != NULL)
        entry->previous->next = entry;
    else
        client->first = entry;
    if (entry->next != NULL)
        entry->next->previous = entry;
    else
        client->last = entry;
}

enum status edge_wait_enter(struct edge_wait *wait, struct edge_wait_entry *entry,
                            const struct edge_wait_who *who, size_t bytes)
{
    ASSERT(entry->client == NULL);
    struct edge_wait_client *client = client_make(wait, who);
    enum status status = enter_check(wait, client, who, bytes);
    if (status != STATUS_OK) {
        if (client != NULL)
            client_drop_if_empty(wait, client);
        return status;
    }
    entry->bytes = bytes;
    if (entry->order == 0)
        entry->order = ++wait->order;
    enter_link(client, entry);
    client->count++;
    client->bytes += bytes;
    wait->lanes[who->service_class].count++;
    wait->count++;
    wait->bytes += bytes;
    count_changed(wait, who->service_class);
    turn_arm(wait, 0);
    return STATUS_OK;
}

void edge_wait_leave(struct edge_wait *wait, struct edge_wait_entry *entry)
{
    if (entry->client != NULL)
        entry_take(wait, entry);
}

void edge_wait_taken(struct edge_wait *wait, enum service_class service_class)
{
    int64_t now_us = loop_now_us(wait->options.loop);
    wait->lanes[service_class].busy_row = 0;
    if (wait->taken_us != 0 && wait->count != 0) {
        /* never 0, because `estimate` divides by it */
        int64_t took_us = now_us - wait->taken_us + 1;
        wait->taken_count += wait->taken_count < RATE_PARTS ? 1 : 0;
        wait->taken_mean_us += (took_us - wait->taken_mean_us) / (int64_t)wait->taken_count;
    }
    wait->taken_us = wait->count != 0 ? now_us : 0;
}

void edge_wait_open(struct edge_wait *wait)
{
    if (!wait->is_open) {
        wait->window = EDGE_WAIT_WINDOW_LEAST;
        wait->is_settled = wait->count == 0;
    }
    wait->is_open = true;
    turn_arm(wait, 0);
}

void edge_wait_shut(struct edge_wait *wait)
{
    wait->is_open = false;
    wait->taken_us = 0; /* the time while it is shut says nothing about the engine's rate */
}

static uint32_t busy_time(uint32_t ms)
{
    if (ms == 0)
        return BUSY_MS;
    return ms < BUSY_MS_MAX ? ms : BUSY_MS_MAX;
}

void edge_wait_busy(struct edge_wait *wait, enum service_class service_class, uint32_t ms)
{
    struct lane *lane = &wait->lanes[service_class];
    if (lane->is_paused || ++lane->busy_row < EDGE_WAIT_BUSY_ROW)
        return;
    lane->is_paused = true;
    wait->is_settled = true;
    loop_timer_arm(lane->pause, busy_time(ms));
}

void edge_wait_hold(struct edge_wait *wait, const struct edge_wait_entry *entry, uint32_t ms)
{
    struct edge_wait_client *client = entry->client;
    if (client == NULL)
        return;
    ms = busy_time(ms);
    client->held_until_us = loop_now_us(wait->options.loop) + ms * INT64_C(1000);
    client_hold(&wait->lanes[client->service_class], client, true);
    wait->is_settled = true;
    if (wait->is_held_due)
        return;
    wait->is_held_due = true;
    loop_timer_arm(wait->held, ms);
}

void edge_wait_refuse_all(struct edge_wait *wait)
{
    struct edge_wait_entry *entry;
    while ((entry = first_of_all(wait)) != NULL) {
        entry_take(wait, entry);
        entry->refused(entry->context);
    }
}

uint32_t edge_wait_count(const struct edge_wait *wait)
{
    return wait->count;
}
