/* pool_row: reads what --upstream says of each engine.
 *
 *   http://127.0.0.1:8000
 *   url=http://127.0.0.1:8000,model=small,name=left,kind=vllm,key_file=F,requests=8,weight=200
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the text.
 * Not here: looking names up (adapter_address), asking an engine what it is (adapter).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits_upstream.h"
#include "config/base/status.h"

enum { POOL_ROW_URL_BYTES = 512, POOL_ROW_KIND_BYTES = 16, POOL_ROW_WEIGHT = 100 };

struct pool_row {
    char name[LIMIT_NAME_BYTES];  /* of the engine, for metrics and logs: [a-zA-Z0-9.:_-]+ */
    char model[LIMIT_NAME_BYTES]; /* the model's name for clients; "" = as the engine calls it */
    char url[POOL_ROW_URL_BYTES];
    char kind[POOL_ROW_KIND_BYTES];
    char key_file[POOL_ROW_URL_BYTES]; /* "" = none */
    uint32_t requests;                 /* 0 = as many as it says */
    uint32_t weight;                   /* 1 to 1000 */
    bool accepts_shared;
};

/* Reads a list, separated by spaces, into `out`[LIMIT_POOL_ENGINES]. What an element does not say
 * is as in `defaults`; its name is the host and port of its URL. INVALID for an unknown member or
 * a wrong value, EXISTS when two elements have one name or one URL, LIMIT for too many. */
enum status pool_rows_read(const char *list, const struct pool_row *defaults, struct pool_row *out,
                           uint32_t *count);
