/* price_types: a price of tokens.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: which price counts (price).
 */
#pragma once

#include "auth/ledger/ledger_types.h"
#include "auth/tenants/tenant_types.h"

enum { PRICE_CURRENCY_BYTES = 4 };

struct price {
    char id[LIMIT_ID_BYTES];        /* "prc_" and 20 base62 characters */
    char plan_id[LIMIT_ID_BYTES];   /* "": for tenants without a plan, or whose plan has no price */
    char model[LEDGER_MODEL_BYTES]; /* "": all */
    char service_class[LEDGER_WORD_BYTES]; /* "": all */
    char currency[PRICE_CURRENCY_BYTES];   /* three small letters */
    int64_t input_nano;                    /* of a token, in nano-units: 0 … LIMIT_PRICE_NANO */
    int64_t cached_input_nano;
    int64_t output_nano;
    int64_t effective_at_s;
    int64_t created_at_s;
};
