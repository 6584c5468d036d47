/* edge_body: what the edge itself must know of a request's body; the bytes go on unchanged.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the bytes (json_scan), no allocation.
 * Not here: whether fields are right: the engine's face is the one validator.
 */
#pragma once

#include <stdbool.h>

#include "config/base/slice.h"

enum { EDGE_BODY_MODEL_BYTES = 128 };

struct edge_body {
    bool is_stream;
    bool includes_usage;               /* stream_options.include_usage */
    char model[EDGE_BODY_MODEL_BYTES]; /* for the ledger; cut at a character when longer, "" = none
                                        */
};

/* INVALID (with param where a field is at fault) when the body is not one JSON object within the
 * bounds of json_scan, and UNSUPPORTED when it sets what only the edge may say to an engine. */
enum status edge_body_read(struct slice body, struct edge_body *out);
