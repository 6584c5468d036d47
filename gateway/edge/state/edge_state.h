/* edge_state: the members that all parts of one running edge share.
 *
 * Owns:     nothing by itself; edge.c opens and closes every member.
 * Thread:   the loop's thread, except for metrics, `told`, and what auth and ledger allow.
 * Cost:     –
 * Not here: any behaviour.
 */
#pragma once

#include <stdatomic.h>

#include "auth/auth.h"
#include "auth/ledger/ledger.h"
#include "auth/ledger/ledger_usage.h"
#include "auth/ledger/usage_redis.h"
#include "auth/limits/quota.h"
#include "config/config.h"
#include "gateway/edge/state/edge_metrics.h"
#include "gateway/http/listener.h"
#include "gateway/upstream/http1_client.h"

struct cors;
struct edge_job;
struct edge_keys;
struct edge_memory;
struct edge_pace;
struct edge_probe;
struct edge_prompts;
struct edge_proof;
struct edge_replay;
struct edge_settle;
struct edge_usage_call;
struct edge_wait;
struct forward_scan;

struct edge {
    const struct config *config;
    struct loop *loop;
    struct store *store;
    struct auth *auth;
    struct ledger *ledger;
    struct ledger_usage *usage;
    struct quota *quota;
    struct usage_redis *redis;           /* NULL: no Redis is configured */
    struct edge_usage_call *usage_calls; /* all that are not freed yet */
    struct http1_client *client;
    struct edge_probe *probe;
    struct edge_prompts *prompts;
    struct edge_wait *wait;
    struct edge_memory *memory;
    struct edge_pace *pace;
    uint32_t paced_unbooked;  /* requests that wait for their pace and are booked to no tenant */
    struct edge_proof *proof; /* of the public listener */
    struct edge_proof *admin_proof; /* of the admin listener */
    struct edge_keys *keys;
    struct loop_worker *scanner;     /* checks large bodies */
    struct loop_worker *sums_worker; /* checks bodies after reading the sums of a budget */
    struct forward_scan *scans;      /* all requests that are with one of the two workers */
    struct edge_replay *replay;
    struct edge_metrics metrics;
    struct tls_context *public_tls;
    struct tls_context *admin_tls;
    struct cors *cors; /* of the public listener; NULL: no origins are allowed */
    struct listener *public_listener;
    struct listener *admin_listener;
    struct edge_job *jobs; /* all that are not freed yet, newest first */
    /* Rows that the ledger has reported on and the loop has not seen yet, newest first. */
    _Atomic(struct edge_settle *) told;
    struct loop_timer *settle_timer; /* due at the end of a turn in which rows were queued */
    bool has_queued;                 /* rows were queued in this turn */
    uint32_t jobs_running;
    uint32_t readers_paused;
    struct buffer scratch;    /* one frame on its way to a client */
    uint32_t connections_max; /* of the public listener, bounded by the descriptors */
    bool is_leaving;          /* SIGTERM has come: /ready answers "not ready" */
    bool is_draining;         /* new requests are refused */
    const char *sandbox;      /* what /ready says about the sandbox */
};
