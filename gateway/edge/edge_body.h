/* edge_body: what the edge itself must know of a request's body; the bytes go on unchanged.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass that bounds depth and elements, then one jansson tree, freed at once.
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

/* INVALID (with param where a field is at fault) when the body is not one JSON object, when it is
 * nested deeper than LIMIT_JSON_DEPTH, or has more than LIMIT_JSON_ELEMENTS values. */
enum status edge_body_read(struct slice body, struct edge_body *out);
