#include "gateway/edge/engines/edge_ack.h"

#include <string.h>

static uint64_t bit_word(uint64_t record_seq)
{
    return record_seq % LIMIT_FINAL_RECORDS / 64;
}

static uint64_t bit_mask(uint64_t record_seq)
{
    return UINT64_C(1) << (record_seq % 64);
}

static bool is_in_window(const struct edge_ack *ack, uint64_t record_seq)
{
    return record_seq > ack->prefix && record_seq - ack->prefix <= LIMIT_FINAL_RECORDS;
}

void edge_ack_reset(struct edge_ack *ack, uint64_t prefix)
{
    memset(ack->bits, 0, sizeof ack->bits);
    ack->prefix = prefix;
    ack->last = prefix;
}

bool edge_ack_is_marked(const struct edge_ack *ack, uint64_t record_seq)
{
    if (!is_in_window(ack, record_seq))
        return record_seq <= ack->prefix;
    return (ack->bits[bit_word(record_seq)] & bit_mask(record_seq)) != 0;
}

uint64_t edge_ack_run_end(const struct edge_ack *ack, uint64_t record_seq)
{
    while (record_seq < ack->last && edge_ack_is_marked(ack, record_seq + 1))
        record_seq++;
    return record_seq;
}

/* Moves the prefix over marked records and clears their bits, whose places later records need. */
static void mark_advance(struct edge_ack *ack)
{
    while (ack->prefix < ack->last && edge_ack_is_marked(ack, ack->prefix + 1)) {
        ack->prefix++;
        ack->bits[bit_word(ack->prefix)] &= ~bit_mask(ack->prefix);
    }
}

static void mark_set(struct edge_ack *ack, uint64_t record_seq)
{
    if (!is_in_window(ack, record_seq))
        return;
    ack->bits[bit_word(record_seq)] |= bit_mask(record_seq);
    if (record_seq > ack->last)
        ack->last = record_seq;
}

void edge_ack_mark(struct edge_ack *ack, uint64_t record_seq)
{
    mark_set(ack, record_seq);
    mark_advance(ack);
}

void edge_ack_skip(struct edge_ack *ack, uint64_t first, uint64_t last)
{
    if (first <= ack->prefix + 1 && last > ack->prefix &&
        last - ack->prefix > LIMIT_FINAL_RECORDS) {
        edge_ack_reset(ack, last); /* all marks lie before `last` */
        return;
    }
    uint64_t from = first > ack->prefix ? first : ack->prefix + 1;
    uint64_t most = ack->prefix + LIMIT_FINAL_RECORDS;
    for (uint64_t seq = from; seq <= last && seq <= most; seq++)
        mark_set(ack, seq);
    mark_advance(ack);
}

bool edge_ack_has_gap(const struct edge_ack *ack)
{
    return ack->last > ack->prefix;
}
