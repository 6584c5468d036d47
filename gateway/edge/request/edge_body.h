/* edge_body: what the edge itself must know of a request's body; the bytes go on unchanged.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the bytes (json_scan), no allocation.
 * Not here: whether fields are right: the engine's face is the one validator.
 */
#pragma once

#include <stdbool.h>

#include "auth/auth.h"

enum { EDGE_BODY_MODEL_BYTES = 128 };

struct edge_body {
    bool is_stream;
    bool names_tier; /* service_tier says "priority" or "flex", which is `tier` */
    enum service_class tier;
    bool has_priority;
    uint32_t priority;
    int64_t output_most;               /* tokens of all choices that were asked for; 0 = not said */
    bool includes_usage;               /* stream_options.include_usage */
    char model[EDGE_BODY_MODEL_BYTES]; /* for the ledger; cut at a character when longer, "" = none
                                        */
};

/* How urgently a request is served. */
struct edge_class {
    enum service_class service_class;
    bool is_downgraded; /* it asked for more than its tenant may have */
};
/* What the body asks for, else the tenant's default; never above the tenant's best, and by
 * `priority` so many classes lower. UNSUPPORTED (param "priority") when the key lacks the scope. */
enum status edge_body_class(const struct edge_body *body, const struct principal *principal,
                            struct edge_class *out);

/* INVALID (with param where a field is at fault) when the body is not one JSON object within the
 * bounds of json_scan, and UNSUPPORTED when it sets what only the edge may say to an engine. */
enum status edge_body_read(struct slice body, struct edge_body *out);
