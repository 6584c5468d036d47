/* ledger_usage_types: the filter of a query for rows or sums of the ledger.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: reading sums (ledger_usage) and rows (ledger_requests).
 */
#pragma once

#include "auth/ledger/ledger_types.h"

/* A row passes when it has one of the words; an empty list lets all rows pass. */
struct ledger_usage_words {
    uint32_t count;
    char words[LIMIT_USAGE_WORDS][LEDGER_MODEL_BYTES];
};

struct ledger_usage_filter {
    struct ledger_usage_words tenants;
    struct ledger_usage_words keys;
    struct ledger_usage_words models;
    struct ledger_usage_words classes;
};
