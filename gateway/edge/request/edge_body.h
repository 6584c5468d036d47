/* edge_body: reads the members of a request's body that the edge needs. The engine gets the body
 * unchanged.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the bytes (json_scan), no allocation.
 * Not here: whether the other fields are valid; the engine checks them.
 */
#pragma once

#include <stdbool.h>

#include "auth/auth.h"

enum { EDGE_BODY_MODEL_BYTES = 128 };

struct edge_body {
    bool is_stream;
    bool names_tier;         /* service_tier is "priority" or "flex" */
    enum service_class tier; /* the class of that word */
    bool has_priority;
    uint32_t priority;
    int64_t output_most;               /* most tokens of all choices together; 0: not given */
    bool includes_usage;               /* stream_options.include_usage */
    char model[EDGE_BODY_MODEL_BYTES]; /* a longer name is cut between characters; "": none */
    bool has_default_model;            /* `model` is the edge's word, for a body that names none */
};

/* The class of service of a request. */
struct edge_class {
    enum service_class service_class;
    bool is_downgraded; /* the request asked for a better class than its tenant's best */
};
/* The class is what service_tier asks for, or else the tenant's default. It is never better than
 * the tenant's best, and `priority` lowers it by so many classes. UNSUPPORTED (param "priority")
 * when the body has a priority and the key lacks the scope. */
enum status edge_body_class(const struct edge_body *body, const struct principal *principal,
                            struct edge_class *out);

/* Reads a body. INVALID when it is not one JSON object within the bounds of json_scan, or when a
 * field that is read here is wrong (the field is the param). UNSUPPORTED when the body sets a field
 * that only the edge may set. */
enum status edge_body_read(struct slice body, struct edge_body *out);
