/* admin_call: one call of the config API: who makes it, with what, and its answer on the way.
 *
 * Owns:     nothing; lives on the handler's stack.
 * Thread:   the loop's thread.
 * Cost:     –
 * Not here: routes (admin), shapes of lists (admin_list).
 */
#pragma once

#include "auth/auth.h"
#include "auth/ledger.h"
#include "config/config.h"
#include "gateway/edge/edge_metrics.h"
#include "gateway/edge/edge_probe.h"
#include "gateway/http/request.h"

/* What the config API works on; edge.c fills it. */
struct admin {
    const struct config *config;
    struct auth *auth;
    struct ledger *ledger;
    struct edge_metrics *metrics;
    struct edge_probe *probe; /* may be NULL: no engine's metrics then */
};

struct admin_call {
    struct admin *admin;
    struct http_request *request; /* not answered by the functions: they fill `out` */
    struct principal principal;
    struct audit_actor actor;
    struct buffer out; /* the answer's body */
    int code;          /* 200 unless the function says otherwise */
    const char *content_type;
};

/* What a route does: fills the call's answer, or fails with the note that is the answer. */
typedef enum status (*admin_function)(struct admin_call *call);
