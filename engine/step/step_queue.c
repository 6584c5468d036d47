#include "engine/step/step_queue.h"

#include "config/base/mem.h"

static const struct step_queue_list empty = {TICKET_NONE, TICKET_NONE, 0};

enum status step_queue_init(struct step_queue *queue, struct ticket_table *tickets)
{
    *queue = (struct step_queue){.tickets = tickets, .all = empty, .deadline_us = INT64_MAX};
    queue->clients = mem_zalloc(tickets->count, sizeof(*queue->clients));
    queue->place = mem_zalloc(tickets->count, sizeof(*queue->place));
    bool is_whole = queue->clients != NULL && queue->place != NULL;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        queue->active[c] = mem_zalloc(tickets->count, sizeof(*queue->active[c]));
        is_whole = is_whole && queue->active[c] != NULL;
    }
    if (!is_whole) {
        step_queue_deinit(queue);
        FAIL(STATUS_NO_MEMORY, "no memory for a queue of %u requests", tickets->count);
    }
    for (uint32_t i = 0; i < tickets->count; i++)
        queue->clients[i] = empty;
    return STATUS_OK;
}

void step_queue_deinit(struct step_queue *queue)
{
    mem_free(queue->clients);
    mem_free(queue->place);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        mem_free(queue->active[c]);
    *queue = (struct step_queue){0};
}

static struct ticket_links *links_of(struct step_queue *queue, uint32_t slot, bool is_all)
{
    struct ticket *ticket = &queue->tickets->slots[slot];
    return is_all ? &ticket->in_all : &ticket->in_client;
}

static void list_push(struct step_queue *queue, struct step_queue_list *list, uint32_t slot,
                      bool is_all)
{
    *links_of(queue, slot, is_all) =
        (struct ticket_links){.before = list->last, .after = TICKET_NONE};
    if (list->last == TICKET_NONE)
        list->first = slot;
    else
        links_of(queue, list->last, is_all)->after = slot;
    list->last = slot;
    list->count++;
}

static void list_remove(struct step_queue *queue, struct step_queue_list *list, uint32_t slot,
                        bool is_all)
{
    struct ticket_links links = *links_of(queue, slot, is_all);
    if (links.before == TICKET_NONE)
        list->first = links.after;
    else
        links_of(queue, links.before, is_all)->after = links.after;
    if (links.after == TICKET_NONE)
        list->last = links.before;
    else
        links_of(queue, links.after, is_all)->before = links.before;
    list->count--;
}

void step_queue_enter(struct step_queue *queue, uint32_t slot)
{
    struct ticket *ticket = &queue->tickets->slots[slot];
    enum service_class class = ticket->asked.service_class;
    struct step_queue_list *client = &queue->clients[ticket->client];
    ASSERT(!ticket->is_waiting);
    ticket->is_waiting = true;
    ticket->arrival = ++queue->arrivals;
    if (client->count == 0) {
        queue->place[ticket->client] = queue->active_count[class];
        queue->active[class][queue->active_count[class]++] = ticket->client;
    }
    list_push(queue, &queue->all, slot, true);
    list_push(queue, client, slot, false);
    queue->by_class[class]++;
    int64_t deadline_us = ticket->asked.deadline_us;
    if (deadline_us > 0 && deadline_us < queue->deadline_us)
        queue->deadline_us = deadline_us;
}

void step_queue_leave(struct step_queue *queue, uint32_t slot)
{
    struct ticket *ticket = &queue->tickets->slots[slot];
    enum service_class class = ticket->asked.service_class;
    struct step_queue_list *client = &queue->clients[ticket->client];
    if (!ticket->is_waiting)
        return;
    ticket->is_waiting = false;
    list_remove(queue, &queue->all, slot, true);
    list_remove(queue, client, slot, false);
    queue->by_class[class]--;
    if (client->count == 0) {
        uint32_t place = queue->place[ticket->client];
        uint32_t last = queue->active[class][--queue->active_count[class]];
        queue->active[class][place] = last;
        queue->place[last] = place;
    }
}

void step_queue_find_deadline(struct step_queue *queue)
{
    queue->deadline_us = INT64_MAX;
    for (uint32_t slot = queue->all.first; slot != TICKET_NONE;
         slot = queue->tickets->slots[slot].in_all.after) {
        int64_t deadline_us = queue->tickets->slots[slot].asked.deadline_us;
        if (deadline_us > 0 && deadline_us < queue->deadline_us)
            queue->deadline_us = deadline_us;
    }
}

/* Compares the links of one list with its ends and its count. */
static bool check_list(const struct step_queue *queue, const struct step_queue_list *list,
                       bool is_all)
{
    uint32_t before = TICKET_NONE;
    uint32_t count = 0;
    for (uint32_t slot = list->first; slot != TICKET_NONE && count <= list->count; count++) {
        const struct ticket *ticket = &queue->tickets->slots[slot];
        const struct ticket_links *links = is_all ? &ticket->in_all : &ticket->in_client;
        if (!ticket->is_waiting || links->before != before)
            return false;
        before = slot;
        slot = links->after;
    }
    return count == list->count && list->last == before;
}

bool step_queue_check(const struct step_queue *queue)
{
    uint32_t waiting = 0;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        uint32_t of_class = 0;
        for (uint32_t i = 0; i < queue->active_count[c]; i++) {
            uint32_t client = queue->active[c][i];
            if (queue->place[client] != i || queue->clients[client].count == 0 ||
                !check_list(queue, &queue->clients[client], false))
                return false;
            of_class += queue->clients[client].count;
        }
        if (of_class != queue->by_class[c])
            return false;
        waiting += of_class;
    }
    return waiting == queue->all.count && check_list(queue, &queue->all, true);
}
