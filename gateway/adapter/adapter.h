/* adapter: a foreign server as a source of answers: vLLM, llama.cpp, any server with OpenAI's API.
 *
 *   engine_request ── adapter_body ──► one HTTP request for each choice ──► the server
 *   source_event ◄─── adapter_stream ◄───────────────────── its events ◄───
 *
 * Owns:     the connections to the server, its requests, the events that nobody has taken yet.
 * Thread:   the loop's, except the opening, which blocks while it asks the server what it is.
 * Cost:     one parse and one allocation for an event of the server.
 * Not here: the HTTP of the edge, final records, limits (gateway/engine_http). The order of tenants
 *           (gateway/edge).
 *
 * The server gets at most as many requests as it can run at once; the rest waits in the edge.
 *
 * Counts are the server's own. When an answer is cut before the server has told them, those that
 * are missing are estimated from the bytes, and the record says so.
 */
#pragma once

#include <stdatomic.h>

#include "config/base/metrics.h"
#include "gateway/adapter/adapter_address.h"
#include "gateway/adapter/adapter_kind.h"
#include "gateway/http/loop.h"
#include "gateway/source/source.h"

/* What a server is, and at which of its addresses it answered. */
struct adapter_found {
    struct adapter_facts facts;
    struct sockaddr_storage address;
};

struct adapter_options {
    struct loop *loop;
    const char *url; /* "http://HOST:PORT[/PREFIX]" */
    /* Of the URL's host: names are looked up before the sandbox. The first that answers is used. */
    const struct adapter_addresses *addresses;
    const char *kind;       /* a name of kinds.def, or "auto" */
    const char *key;        /* an API key, or "" */
    const char *model_name; /* as requests give it; "" = the server's own name */
    uint32_t requests_max;  /* at the server at a time; 0 = what it says, or 64 */
    uint32_t idle_ms;       /* longest silence of an answer that has begun */
    bool accepts_shared;    /* the operator accepts that tenants share a cache */
    struct metrics *metrics;
    const char *labels;          /* of its series; "": none */
    void (*wake)(void *context); /* events wait; called on the loop's thread */
    void *wake_context;
};

/* Asks the server what it is, and blocks meanwhile; it may be called on any thread. UNAVAILABLE,
 * IO or DEADLINE when it does not answer, FORBIDDEN when its cache would be shared by tenants and
 * nobody has accepted that, INVALID, PROTOCOL, NO_MEMORY. */
enum status adapter_look(struct adapter_found *out, const struct adapter_options *options);
/* Asks a server that was found before once more, at the address where its requests go. `known` is
 * what it was. `out` says whether it is still that: a server with several models is, as long as it
 * has the known one. Each question has `timeout_ms`. Another thread may set *is_over, which ends
 * the call within 200 ms: CANCELLED. Else as adapter_look. */
enum status adapter_look_again(struct adapter_found *out, const struct adapter_options *options,
                               const struct adapter_found *known, uint32_t timeout_ms,
                               const atomic_bool *is_over);
/* Makes the source of a server that has been found. The strings need to live until it returns.
 * NO_MEMORY, INVALID. */
enum status adapter_open(struct source **out, const struct adapter_options *options,
                         const struct adapter_found *found);
