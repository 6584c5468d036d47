#include "gateway/edge/edge_wait.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

enum { BUCKETS = 256 };

/* A tenant that has somebody waiting: in a ring with the others, and in its bucket. */
struct edge_wait_tenant {
    struct edge_wait_tenant *previous, *next;
    struct edge_wait_tenant *chain;
    uint8_t hash[16];
    struct edge_wait_entry *first, *last;
    uint32_t count;
    uint64_t bytes;
};

struct edge_wait {
    struct edge_wait_options options;
    struct loop_timer *turn;  /* zero: entries go from the loop */
    struct loop_timer *pause; /* runs while a busy engine is left alone */
    struct edge_wait_tenant *buckets[BUCKETS];
    struct edge_wait_tenant *ring; /* whose turn is next */
    uint32_t count;
    uint64_t bytes;
    uint64_t order;
    uint32_t window;
    uint32_t busy_row; /* busy answers since one was taken */
    bool is_open;
    bool is_paused;
    bool is_turn_due; /* the timer of turns runs */
};

/* --- tenants --- */

static struct edge_wait_tenant **tenant_slot(struct edge_wait *wait, const uint8_t hash[16])
{
    uint64_t key = hash_bytes(hash_process_key(), hash, 16);
    struct edge_wait_tenant **slot = &wait->buckets[key % BUCKETS];
    while (*slot != NULL && memcmp((*slot)->hash, hash, 16) != 0)
        slot = &(*slot)->chain;
    return slot;
}

/* The newest tenant comes last in the round. */
static struct edge_wait_tenant *tenant_make(struct edge_wait *wait, const uint8_t hash[16])
{
    struct edge_wait_tenant **slot = tenant_slot(wait, hash);
    if (*slot != NULL)
        return *slot;
    struct edge_wait_tenant *tenant = mem_zalloc(1, sizeof *tenant);
    if (tenant == NULL)
        return NULL;
    memcpy(tenant->hash, hash, 16);
    *slot = tenant;
    if (wait->ring == NULL) {
        tenant->previous = tenant->next = tenant;
        wait->ring = tenant;
    } else {
        tenant->next = wait->ring;
        tenant->previous = wait->ring->previous;
        tenant->previous->next = tenant;
        tenant->next->previous = tenant;
    }
    return tenant;
}

static void tenant_drop_if_empty(struct edge_wait *wait, struct edge_wait_tenant *tenant)
{
    if (tenant->count != 0)
        return;
    struct edge_wait_tenant **slot = tenant_slot(wait, tenant->hash);
    *slot = tenant->chain;
    if (wait->ring == tenant)
        wait->ring = tenant->next != tenant ? tenant->next : NULL;
    tenant->previous->next = tenant->next;
    tenant->next->previous = tenant->previous;
    mem_free(tenant);
}

/* --- entries --- */

static void count_changed(struct edge_wait *wait)
{
    if (wait->options.gauge != NULL)
        metric_set(wait->options.gauge, wait->count);
}

static void entry_take(struct edge_wait *wait, struct edge_wait_entry *entry)
{
    struct edge_wait_tenant *tenant = entry->tenant;
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        tenant->first = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
    else
        tenant->last = entry->previous;
    entry->previous = entry->next = NULL;
    entry->tenant = NULL;
    tenant->count--;
    tenant->bytes -= entry->bytes;
    wait->count--;
    wait->bytes -= entry->bytes;
    tenant_drop_if_empty(wait, tenant);
    count_changed(wait);
}

static void turn_arm(struct edge_wait *wait, uint32_t delay_ms)
{
    if (wait->is_turn_due || !wait->is_open || wait->is_paused || wait->count == 0)
        return;
    wait->is_turn_due = true;
    loop_timer_arm(wait->turn, delay_ms);
}

/* One of each tenant in its turn. Whoever goes may wait again, leave, or shut the gate. */
static void turn(void *context)
{
    struct edge_wait *wait = context;
    for (uint32_t left = wait->window;
         left > 0 && wait->is_open && !wait->is_paused && wait->ring != NULL; left--) {
        struct edge_wait_tenant *tenant = wait->ring;
        struct edge_wait_entry *entry = tenant->first;
        wait->ring = tenant->next;
        entry_take(wait, entry);
        entry->go(entry->context);
    }
    wait->window *= 2;
    if (wait->window > EDGE_WAIT_WINDOW_MOST)
        wait->window = EDGE_WAIT_WINDOW_MOST;
    wait->is_turn_due = false;
    turn_arm(wait, EDGE_WAIT_TURN_MS);
}

static void pause_over(void *context)
{
    struct edge_wait *wait = context;
    wait->is_paused = false;
    wait->busy_row = 0;
    wait->window = EDGE_WAIT_WINDOW_LEAST;
    turn_arm(wait, 0);
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
    wait->pause = loop_timer_create(options->loop, pause_over, wait);
    if (wait->turn == NULL || wait->pause == NULL) {
        edge_wait_destroy(wait);
        FAIL(STATUS_NO_MEMORY, "no memory for the queue before the engine");
    }
    *out = wait;
    return STATUS_OK;
}

void edge_wait_destroy(struct edge_wait *wait)
{
    if (wait == NULL)
        return;
    while (wait->ring != NULL)
        entry_take(wait, wait->ring->first);
    if (wait->turn != NULL)
        loop_timer_destroy(wait->turn);
    if (wait->pause != NULL)
        loop_timer_destroy(wait->pause);
    mem_free(wait);
}

bool edge_wait_is_needed(const struct edge_wait *wait)
{
    return !wait->is_open || wait->is_paused || wait->count != 0;
}

static enum status enter_check(const struct edge_wait *wait, const struct edge_wait_tenant *tenant,
                               size_t bytes)
{
    const struct edge_wait_options *most = &wait->options;
    if (wait->count >= most->requests_max || bytes > most->bytes_max - wait->bytes)
        FAIL(STATUS_BUSY, "The server has no room for another request; try again shortly.");
    if (tenant == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant that waits");
    if (tenant->count >= most->tenant_requests_max ||
        bytes > most->tenant_bytes_max - tenant->bytes)
        FAIL(STATUS_BUSY, "Too many requests of yours wait for the model; try again shortly.");
    return STATUS_OK;
}

/* In the order of their first waiting: those that wait again are the oldest, near the front. */
static void enter_link(struct edge_wait_tenant *tenant, struct edge_wait_entry *entry)
{
    struct edge_wait_entry *next = tenant->last;
    if (next != NULL && next->order < entry->order) {
        next = NULL;
    } else {
        next = tenant->first;
        while (next != NULL && next->order < entry->order)
            next = next->next;
    }
    entry->tenant = tenant;
    entry->next = next;
    entry->previous = next != NULL ? next->previous : tenant->last;
    if (entry->previous != NULL)
        entry->previous->next = entry;
    else
        tenant->first = entry;
    if (entry->next != NULL)
        entry->next->previous = entry;
    else
        tenant->last = entry;
}

enum status edge_wait_enter(struct edge_wait *wait, struct edge_wait_entry *entry,
                            const uint8_t tenant_hash[16], size_t bytes)
{
    ASSERT(entry->tenant == NULL);
    struct edge_wait_tenant *tenant = tenant_make(wait, tenant_hash);
    enum status status = enter_check(wait, tenant, bytes);
    if (status != STATUS_OK) {
        if (tenant != NULL)
            tenant_drop_if_empty(wait, tenant);
        return status;
    }
    entry->bytes = bytes;
    if (entry->order == 0)
        entry->order = ++wait->order;
    enter_link(tenant, entry);
    tenant->count++;
    tenant->bytes += bytes;
    wait->count++;
    wait->bytes += bytes;
    count_changed(wait);
    turn_arm(wait, 0);
    return STATUS_OK;
}

void edge_wait_leave(struct edge_wait *wait, struct edge_wait_entry *entry)
{
    if (entry->tenant != NULL)
        entry_take(wait, entry);
}

void edge_wait_taken(struct edge_wait *wait)
{
    wait->busy_row = 0;
}

void edge_wait_open(struct edge_wait *wait)
{
    if (!wait->is_open)
        wait->window = EDGE_WAIT_WINDOW_LEAST;
    wait->is_open = true;
    turn_arm(wait, 0);
}

void edge_wait_shut(struct edge_wait *wait)
{
    wait->is_open = false;
}

void edge_wait_busy(struct edge_wait *wait, uint32_t ms)
{
    if (wait->is_paused || ++wait->busy_row < EDGE_WAIT_BUSY_ROW)
        return;
    wait->is_paused = true;
    loop_timer_arm(wait->pause, ms);
}

void edge_wait_refuse_all(struct edge_wait *wait)
{
    while (wait->ring != NULL) {
        struct edge_wait_entry *entry = wait->ring->first;
        entry_take(wait, entry);
        entry->refused(entry->context);
    }
}

uint32_t edge_wait_count(const struct edge_wait *wait)
{
    return wait->count;
}
