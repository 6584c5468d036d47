#include "gateway/http/address_table.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"

enum { SECOND_US = 1000000, PROVEN_FACTOR = 2 };

/* Rows are numbered from 1; 0 ends every list. `next` and `prev` link a row into the list of free
 * rows (singly linked) or into the list of idle rows (oldest first). A row with connections is in
 * neither. All rows that are not free are in the chain of their hash. */
struct row {
    uint64_t key[2];
    int64_t filled_us; /* when the bucket had `tokens_us` */
    int64_t tokens_us; /* the bucket: at most one second; a connection costs connect_us */
    uint32_t connections;
    bool is_proven; /* somebody was authenticated, since it has connections */
    uint32_t chain;
    uint32_t next;
    uint32_t prev;
};

struct address_table {
    struct address_table_limits limits;
    int64_t connect_us; /* what a new connection costs: 1 s ÷ the rate; 0 = nothing */
    struct row *rows;   /* [1 + limits.rows]; the first is not used */
    uint32_t *heads;    /* [head_mask + 1] */
    uint32_t head_mask;
    uint32_t free_first;
    uint32_t never_used; /* rows from here on were never used, so their memory is untouched */
    uint32_t idle_first;
    uint32_t idle_last;
    uint32_t count;
};

enum status address_table_create(struct address_table **out,
                                 const struct address_table_limits *limits)
{
    if (limits->rows == 0 || limits->rows > UINT32_MAX / 4)
        FAIL(STATUS_INVALID, "a table of addresses cannot have %u rows", limits->rows);
    struct address_table *table = mem_zalloc(1, sizeof(*table));
    if (table == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a table of addresses");
    uint32_t heads = 1;
    while (heads < limits->rows)
        heads *= 2;
    table->limits = *limits;
    table->connect_us = limits->connects_a_second > 0 ? SECOND_US / limits->connects_a_second : 0;
    table->head_mask = heads - 1;
    table->never_used = 1;
    table->rows = mem_zalloc((size_t)limits->rows + 1, sizeof(table->rows[0]));
    table->heads = mem_zalloc(heads, sizeof(table->heads[0]));
    if (table->rows == NULL || table->heads == NULL) {
        address_table_destroy(table);
        FAIL(STATUS_NO_MEMORY, "no memory for a table of addresses");
    }
    *out = table;
    return STATUS_OK;
}

void address_table_destroy(struct address_table *table)
{
    if (table == NULL)
        return;
    mem_free(table->rows);
    mem_free(table->heads);
    mem_free(table);
}

bool address_table_key(const struct sockaddr *peer, uint64_t key[2])
{
    key[0] = key[1] = 0;
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */
    if (peer->sa_family == AF_INET) {
        key[0] = AF_INET;
        key[1] = ((const struct sockaddr_in *)(const void *)peer)->sin_addr.s_addr;
        return true;
    }
    if (peer->sa_family != AF_INET6)
        return false;
    const uint8_t *bytes = ((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr.s6_addr;
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
        uint32_t v4;
        memcpy(&v4, bytes + sizeof(mapped), sizeof(v4));
        key[0] = AF_INET;
        key[1] = v4;
        return true;
    }
    key[0] = AF_INET6;
    memcpy(&key[1], bytes, sizeof(key[1]));
    return true;
}

static uint32_t *enter_head(struct address_table *table, const uint64_t key[2])
{
    uint64_t hash = hash_bytes(hash_process_key(), key, 2 * sizeof(key[0]));
    return &table->heads[hash & table->head_mask];
}

static void idle_remove(struct address_table *table, uint32_t at)
{
    struct row *row = &table->rows[at];
    *(row->prev != 0 ? &table->rows[row->prev].next : &table->idle_first) = row->next;
    *(row->next != 0 ? &table->rows[row->next].prev : &table->idle_last) = row->prev;
    row->next = row->prev = 0;
}

static void idle_append(struct address_table *table, uint32_t at)
{
    struct row *row = &table->rows[at];
    row->prev = table->idle_last;
    row->next = 0;
    *(table->idle_last != 0 ? &table->rows[table->idle_last].next : &table->idle_first) = at;
    table->idle_last = at;
}

static void forget(struct address_table *table, uint32_t at)
{
    struct row *row = &table->rows[at];
    idle_remove(table, at);
    uint32_t *link = enter_head(table, row->key);
    while (*link != at)
        link = &table->rows[*link].chain;
    *link = row->chain;
    *row = (struct row){.next = table->free_first};
    table->free_first = at;
    table->count--;
}

/* Forgets idle addresses whose buckets are full: at most two, so that the cost is bounded and the
 * list still gets shorter. */
static void enter_expire(struct address_table *table, int64_t now_us)
{
    for (int i = 0; i < 2 && table->idle_first != 0; i++) {
        if (now_us - table->rows[table->idle_first].filled_us < SECOND_US)
            return;
        forget(table, table->idle_first);
    }
}

static uint32_t enter_make(struct address_table *table, const uint64_t key[2], int64_t now_us)
{
    if (table->free_first == 0 && table->never_used > table->limits.rows) {
        ASSERT(table->idle_first != 0); /* because there are more rows than connections */
        forget(table, table->idle_first);
    }
    uint32_t at = table->free_first;
    if (at != 0)
        table->free_first = table->rows[at].next;
    else
        at = table->never_used++;
    uint32_t *head = enter_head(table, key);
    table->rows[at] = (struct row){
        .key = {key[0], key[1]}, .filled_us = now_us, .tokens_us = SECOND_US, .chain = *head};
    *head = at;
    idle_append(table, at);
    table->count++;
    return at;
}

/* Fills the bucket by the time that has passed, up to one second. */
static void enter_fill(struct row *row, int64_t now_us)
{
    int64_t factor = row->is_proven ? PROVEN_FACTOR : 1;
    row->tokens_us += (now_us - row->filled_us) * factor;
    if (row->tokens_us > SECOND_US * factor)
        row->tokens_us = SECOND_US * factor;
    row->filled_us = now_us;
}

enum address_verdict address_table_enter(struct address_table *table, const struct sockaddr *peer,
                                         int64_t now_us, uint32_t *row_out)
{
    uint64_t key[2];
    *row_out = ADDRESS_NONE;
    if (!address_table_key(peer, key))
        return ADDRESS_ADMITTED;
    enter_expire(table, now_us);
    uint32_t at = *enter_head(table, key);
    while (at != 0 && memcmp(table->rows[at].key, key, sizeof(key)) != 0)
        at = table->rows[at].chain;
    if (at == 0)
        at = enter_make(table, key, now_us);
    struct row *row = &table->rows[at];
    enter_fill(row, now_us);
    if (row->tokens_us < table->connect_us) {
        if (row->connections == 0) { /* the idle list is sorted by filled_us */
            idle_remove(table, at);
            idle_append(table, at);
        }
        return ADDRESS_IS_TOO_FAST;
    }
    if (table->limits.connections > 0 && row->connections >= table->limits.connections)
        return ADDRESS_HAS_TOO_MANY;
    row->tokens_us -= table->connect_us;
    if (row->connections++ == 0)
        idle_remove(table, at);
    *row_out = at;
    return ADDRESS_ADMITTED;
}

void address_table_prove(struct address_table *table, uint32_t at)
{
    if (at == ADDRESS_NONE)
        return;
    ASSERT(table->rows[at].connections > 0);
    table->rows[at].is_proven = true;
}

void address_table_leave(struct address_table *table, uint32_t at, int64_t now_us)
{
    if (at == ADDRESS_NONE)
        return;
    struct row *row = &table->rows[at];
    ASSERT(row->connections > 0);
    if (--row->connections > 0)
        return;
    enter_fill(row, now_us);
    row->is_proven = false;
    idle_append(table, at);
}

uint32_t address_table_count(const struct address_table *table)
{
    return table->count;
}

void address_table_check(const struct address_table *table)
{
    uint32_t chained = 0;
    uint32_t with_connections = 0;
    for (uint32_t head = 0; head <= table->head_mask; head++) {
        for (uint32_t at = table->heads[head]; at != 0; at = table->rows[at].chain) {
            ASSERT(at < table->never_used);
            with_connections += table->rows[at].connections > 0;
            chained++;
        }
    }
    uint32_t idle = 0;
    int64_t filled_us = INT64_MIN;
    for (uint32_t at = table->idle_first; at != 0; at = table->rows[at].next) {
        ASSERT(table->rows[at].connections == 0);
        ASSERT(table->rows[at].filled_us >= filled_us);
        filled_us = table->rows[at].filled_us;
        idle++;
    }
    uint32_t unused = 0;
    for (uint32_t at = table->free_first; at != 0; at = table->rows[at].next)
        unused++;
    ASSERT(chained == table->count);
    ASSERT(idle + with_connections == chained);
    ASSERT(table->never_used - 1 == chained + unused);
}
