/* edge_prompts: keeps the engine's published prompts equal to those of the directory of tenants.
 *
 *   auth/tenants/tenant_prompt ── sync ──► items ── one exchange at a time ──► /internal/v1/prompts
 *                                    └─ state, tokens, pages, hits ──► config API
 *
 * Owns:     an item for each prompt that is published, or that is being published or removed; at
 *           most one exchange with the engine.
 * Thread:   the loop's, except for edge_prompts_look.
 * Cost:     while nothing changes, one small exchange with each health check, which brings the
 *           hits; none when there are no prompts.
 * Not here: rows and grants (auth/tenants/tenant_prompt), computing (engine), the config API
 *           (admin_prompts).
 *
 * A new engine is first asked for its list. Prompts that the directory does not have are removed,
 * missing ones are published again, and until that is done the edge is not ready. A prompt that the
 * engine refuses is kept as failed and tried again when another prompt was removed. When the
 * exchange breaks, it is tried again after 0.1 s, then after twice as long each time, up to 5 s. A
 * prompt with which that happened three times no longer delays readiness.
 */
#pragma once

#include "auth/tenants/tenant_prompt.h"
#include "gateway/edge/engines/edge_probe.h"

struct edge_prompts;

enum edge_prompts_state {
    EDGE_PROMPTS_PUBLISHING, /* it is being published, or waits for that */
    EDGE_PROMPTS_PUBLISHED,
    EDGE_PROMPTS_FAILED,  /* the engine has refused it: `error` says why */
    EDGE_PROMPTS_LEAVING, /* it is being removed, or waits for that */
};

struct edge_prompts_figures {
    enum edge_prompts_state state;
    uint32_t tokens; /* 0 until it is published */
    uint32_t pages;
    uint64_t hits;                    /* requests that used it since this edge started */
    uint64_t hit_tokens;              /* the tokens that they did not have to compute */
    char error[STATUS_MESSAGE_BYTES]; /* "": none */
};

/* A caller that waits until the engine has computed a prompt that is not in the directory yet. The
 * caller owns the storage and keeps it until `told` is called. */
struct edge_prompts_waiter {
    uint8_t domain[16];
    struct slice content; /* a JSON object */
    bool is_dry_run;      /* only count tokens and pages, publish nothing */
    /* Called once, from the loop or inside edge_prompts_publish; it must not call functions of this
     * file. OK; CONFLICT, LIMIT, CONTEXT_LENGTH or INVALID, with the error note, when the engine
     * refuses; UNAVAILABLE when there is no engine now. */
    void (*told)(void *context, enum status status, uint32_t tokens, uint32_t pages);
    void *context;
};

/* `tenants` and `client` must outlive it. NO_MEMORY. */
enum status edge_prompts_create(struct edge_prompts **out, struct loop *loop,
                                struct http1_client *client, struct tenants *tenants);
/* Ends the exchange without calling waiters. Call it before the client is destroyed. */
void edge_prompts_destroy(struct edge_prompts *prompts);

/* Call it after each check of the engine's health. */
void edge_prompts_checked(struct edge_prompts *prompts, const struct edge_probe_engine *engine);
/* Whether every prompt that was published when the engine started is computed, has been refused, or
 * has failed too often. */
bool edge_prompts_is_ready(const struct edge_prompts *prompts);

/* Publishes a prompt before its row is in the directory. The caller then makes the row or gives up,
 * and calls edge_prompts_settle; after that, edge_prompts_sync removes the prompt if it has no row.
 * No prompt of that domain may exist yet. */
void edge_prompts_publish(struct edge_prompts *prompts, struct edge_prompts_waiter *waiter);
/* The caller of edge_prompts_publish has made the row, or has given up. */
void edge_prompts_settle(struct edge_prompts *prompts, const uint8_t domain[16]);
/* The directory has changed: publishes and removes prompts accordingly. */
void edge_prompts_sync(struct edge_prompts *prompts);

/* Copies the figures of the prompt of that domain; false when there is none. Any thread. */
bool edge_prompts_look(struct edge_prompts *prompts, const uint8_t domain[16],
                       struct edge_prompts_figures *out);
