/* ledger_types: the row of the ledger.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: writing rows (ledger), their SQL (ledger_rows).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/status.h"

enum { LEDGER_ROUTE_BYTES = 40, LEDGER_MODEL_BYTES = 128, LEDGER_WORD_BYTES = 16 };

/* The class of rows of work on text alone (/v1/tokenize, /v1/detokenize). They have no tokens and
 * cost nothing, and sums by class keep them apart from generations. */
#define LEDGER_CLASS_TEXT "text"

struct ledger_row {
    int64_t sequence; /* set when the row is written; rises in the order of commits */
    int64_t at_us;    /* wall clock at the end of the request */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    char model[LEDGER_MODEL_BYTES];
    char route[LEDGER_ROUTE_BYTES];
    char service_class[LEDGER_WORD_BYTES];
    char finish[LEDGER_WORD_BYTES];
    int32_t http_code;
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens; /* of these */
    int64_t cost_nano;         /* set when the row is written, by the prices of that moment */
    bool is_estimated;
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    int64_t total_us;
};
