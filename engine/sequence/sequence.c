#include "engine/sequence/sequence.h"

#include <string.h>

#include "config/base/mem.h"

enum status sequence_table_init(struct sequence_table *table, const struct kv_pool *pool,
                                uint32_t count, uint32_t context)
{
    *table = (struct sequence_table){.count = count, .context = context};
    size_t pages = kv_pool_pages_for(pool, context);
    table->slots = mem_zalloc(count, sizeof(*table->slots));
    table->order = mem_zalloc(count, sizeof(*table->order));
    table->tokens = mem_zalloc((size_t)count * context, sizeof(*table->tokens));
    table->pages = mem_zalloc(count * pages, sizeof(*table->pages));
    table->holders = mem_zalloc(pool->unit_count, sizeof(*table->holders));
    table->needs = mem_zalloc(pool->unit_count, sizeof(*table->needs));
    if (table->slots == NULL || table->order == NULL || table->tokens == NULL ||
        table->pages == NULL || table->holders == NULL || table->needs == NULL) {
        sequence_table_deinit(table);
        FAIL(STATUS_NO_MEMORY, "no memory for %u sequences of %u tokens", count, context);
    }
    for (uint32_t i = 0; i < count; i++) {
        table->slots[i].tokens = table->tokens + (size_t)i * context;
        table->slots[i].pages = table->pages + i * pages;
    }
    return STATUS_OK;
}

void sequence_table_deinit(struct sequence_table *table)
{
    mem_free(table->slots);
    mem_free(table->order);
    mem_free(table->tokens);
    mem_free(table->pages);
    mem_free(table->holders);
    mem_free(table->needs);
    *table = (struct sequence_table){0};
}

static bool acquire_is_free(struct sequence *sequence)
{
    return !sequence->is_running &&
           atomic_load_explicit(&sequence->records_taken, memory_order_acquire) ==
               sequence->records_pushed;
}

uint32_t sequence_free_count(struct sequence_table *table)
{
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < table->count; i++)
        free_count += acquire_is_free(&table->slots[i]);
    return free_count;
}

uint32_t sequence_throttled_count(const struct sequence_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->order_count; i++)
        count += table->slots[table->order[i]].is_throttled;
    return count;
}

uint32_t sequence_acquire(struct sequence_table *table, const struct ticket *ticket, uint32_t slot,
                          uint32_t choice)
{
    uint32_t index = 0;
    while (index < table->count && !acquire_is_free(&table->slots[index]))
        index++;
    if (index == table->count)
        return SEQUENCE_NONE;
    struct sequence *sequence = &table->slots[index];
    const struct engine_request *asked = &ticket->asked;
    ASSERT(ticket->prompt_count > 0);
    ASSERT(ticket->prompt_count + ticket->tokens_max <= table->context);
    sequence->is_running = true;
    sequence->slot = slot;
    sequence->choice = choice;
    memcpy(sequence->tokens, ticket->prompt, ticket->prompt_count * sizeof(uint32_t));
    sequence->token_count = ticket->prompt_count;
    sequence->prompt_count = ticket->prompt_count;
    sequence->forced = 0;
    sequence->computed = 0;
    sequence->scored = ticket_wants_all(ticket) ? 0 : UINT32_MAX;
    sequence->page_count = 0;
    sequence->window_page = 0;
    sequence->domain = asked->domain;
    sequence->serial = ++table->last_serial;
    sequence->inserted = 0;
    sequence->taken = 0;
    memset(sequence->forks, 0, sizeof(sequence->forks));
    sequence->found.is_known = false;
    sequence->client = ticket->client;
    sequence->reached = 0;
    sequence->is_found_charged = false;
    sequence->is_paused = false;
    sequence->is_pause_told = false;
    sequence->quantum_left = 0;
    sequence->row_turn = 0;
    sequence->idle_since_us = 0;
    sequence->followed_class = SERVICE_CLASS_COUNT;
    sequence->is_followed = false;
    memcpy(sequence->visible, asked->visible, asked->visible_count * sizeof(sequence->visible[0]));
    sequence->visible[asked->visible_count] = asked->domain;
    sequence->visible_count = asked->visible_count + 1;
    sequence->undelivered = 0;
    sequence->is_throttled = false;
    sequence->last_token_us = 0;
    sequence->budget = (struct reasoning_budget){0};
    sequence->is_reasoning = false;
    enum status status = text_stream_init(&sequence->text, asked->stop, asked->stop_count);
    sequence->text.shows_stop = asked->shows_stop;
    ASSERT(status == STATUS_OK); /* ticket_check_asked has checked the stop strings */
    table->order[table->order_count++] = index;
    return index;
}

static void release_from_order(struct sequence_table *table, uint32_t index)
{
    uint32_t place = 0;
    while (place < table->order_count && table->order[place] != index)
        place++;
    ASSERT(place < table->order_count);
    table->order_count--;
    memmove(&table->order[place], &table->order[place + 1],
            (table->order_count - place) * sizeof(table->order[0]));
}

void sequence_release(struct sequence_table *table, struct kv_pool *pool, uint32_t index)
{
    struct sequence *sequence = &table->slots[index];
    ASSERT(sequence->is_running);
    sequence_drop_pages(sequence, pool);
    release_from_order(table, index);
    sequence->is_running = false;
}

void sequence_grow(struct sequence *sequence, struct kv_pool *pool, uint32_t tokens)
{
    uint32_t wanted = kv_pool_pages_for(pool, tokens);
    while (sequence->page_count < wanted) {
        page_id page = kv_pool_acquire(pool, &sequence->domain);
        ASSERT(page != KV_POOL_NONE);
        kv_pool_add_window(pool, page);
        sequence->pages[sequence->page_count++] = page;
    }
}

void sequence_advance(struct sequence *sequence, struct kv_pool *pool)
{
    const uint32_t first = kv_pool_window_page(pool, sequence->computed);
    while (sequence->window_page < first)
        kv_pool_unneed_window(pool, sequence->pages[sequence->window_page++]);
}

void sequence_keep_tail(const struct sequence *sequence, struct kv_pool *pool, uint32_t tokens)
{
    const uint32_t first = tokens > 0 ? kv_pool_window_page(pool, tokens - 1) : 0;
    for (uint32_t i = first; i < kv_pool_pages_for(pool, tokens); i++)
        if (i >= sequence->window_page)
            kv_pool_keep_tail(pool, sequence->pages[i]);
}

void sequence_note_fork(struct sequence *sequence, uint32_t tokens)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < SEQUENCE_FORKS; i++) {
        if (sequence->forks[i] == tokens)
            return;
        if (sequence->forks[i] < sequence->forks[least])
            least = i;
    }
    if (sequence->forks[least] < tokens)
        sequence->forks[least] = tokens;
}

/* Gives up the last page of the table. */
static void drop_last(struct sequence *sequence, struct kv_pool *pool)
{
    const page_id page = sequence->pages[--sequence->page_count];
    if (sequence->page_count >= sequence->window_page)
        kv_pool_unneed_window(pool, page);
    kv_pool_release(pool, page);
}

void sequence_trim(struct sequence *sequence, struct kv_pool *pool)
{
    uint32_t wanted = kv_pool_pages_for(pool, sequence->computed);
    while (sequence->page_count > wanted)
        drop_last(sequence, pool);
}

void sequence_drop_pages(struct sequence *sequence, struct kv_pool *pool)
{
    while (sequence->page_count > 0)
        drop_last(sequence, pool);
    sequence->window_page = 0;
    sequence->computed = 0;
    sequence->inserted = 0;
    sequence->taken = 0;
}

void sequence_make_youngest(struct sequence_table *table, uint32_t index)
{
    release_from_order(table, index);
    table->order[table->order_count++] = index;
}

bool sequence_table_check(struct sequence_table *table, const struct kv_pool *pool,
                          const struct kv_swap *swap)
{
    memset(table->holders, 0, pool->unit_count * sizeof(*table->holders));
    memset(table->needs, 0, pool->unit_count * sizeof(*table->needs));
    uint32_t running = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct sequence *sequence = &table->slots[i];
        running += sequence->is_running;
        if (!sequence->is_running && sequence->page_count > 0)
            return false;
        if (sequence->is_running && sequence->computed > sequence->token_count)
            return false;
        if (kv_pool_pages_for(pool, sequence->is_running ? sequence->computed : 0) >
            sequence->page_count)
            return false;
        if (sequence->window_page > sequence->page_count ||
            (sequence->is_running &&
             sequence->window_page > kv_pool_window_page(pool, sequence->computed)))
            return false; /* a page inside its window is not among those that it needs */
        for (uint32_t p = 0; p < sequence->page_count; p++) {
            table->holders[sequence->pages[p]]++;
            table->needs[sequence->pages[p]] += pool->windows != NULL && p >= sequence->window_page;
        }
    }
    if (swap != NULL)
        kv_swap_count_holders(swap, table->holders, table->needs);
    return running == table->order_count && kv_pool_check(pool, table->holders, table->needs);
}
