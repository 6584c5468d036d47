/* edge_prompts: keeps the engine's published prompts what the directory says they are.
 *
 *   auth/tenants/tenant_prompt ── sync ──► items ── one exchange at a time ──► /internal/v1/prompts
 *                                    └─ state, tokens, pages, hits ──► config API
 *
 * Owns:     an item for each prompt that is published or on its way out, at most one exchange with
 *           the engine, what an administrator waits for.
 * Thread:   the loop's, but for edge_prompts_look.
 * Cost:     nothing while nothing changes but one small exchange with each check of the engine's
 *           health, when there are prompts: it brings the hits.
 * Not here: rows and grants (auth/tenants/tenant_prompt), computing (engine), the config API
 *           (admin_prompts).
 *
 * Another engine is asked first what it has: what nobody knows any more goes, what is missing is
 * published again, and until that is done nobody is told that the edge is ready. What the engine
 * refuses is kept as failed and tried again when another prompt has gone. When it dies in between,
 * the same is tried again after 0.1 s, doubled up to 5 s; a prompt with which that has happened
 * three times no longer holds up readiness.
 */
#pragma once

#include "auth/tenants/tenant_prompt.h"
#include "gateway/edge/engines/edge_probe.h"

struct edge_prompts;

enum edge_prompts_state {
    EDGE_PROMPTS_PUBLISHING, /* or waits for an engine */
    EDGE_PROMPTS_PUBLISHED,
    EDGE_PROMPTS_FAILED, /* the engine has refused it: `error` says why */
    EDGE_PROMPTS_LEAVING,
};

struct edge_prompts_figures {
    enum edge_prompts_state state;
    uint32_t tokens; /* 0 until it is published */
    uint32_t pages;
    uint64_t hits; /* requests that found it, and what they found, since this edge's start */
    uint64_t hit_tokens;
    char error[STATUS_MESSAGE_BYTES]; /* "" = none */
};

/* Somebody who waits for the engine's word on a prompt that is not in the directory yet. The
 * storage is theirs until `told`. */
struct edge_prompts_waiter {
    uint8_t domain[16];
    struct slice content; /* a JSON object */
    bool is_dry_run;      /* only what the tokens are */
    /* Once, from the loop or from within edge_prompts_publish; calls nothing of this file. OK;
     * CONTEXT_LENGTH, CONFLICT, … with the note when the engine refuses; UNAVAILABLE when there is
     * no engine now. */
    void (*told)(void *context, enum status status, uint32_t tokens, uint32_t pages);
    void *context;
};

/* `tenants` and `client` outlive it. */
enum status edge_prompts_create(struct edge_prompts **out, struct loop *loop,
                                struct http1_client *client, struct tenants *tenants);
/* Nobody is told any more. Before the client is destroyed. */
void edge_prompts_destroy(struct edge_prompts *prompts);

/* Behind each check of the engine's health. */
void edge_prompts_checked(struct edge_prompts *prompts, const struct edge_probe_engine *engine);
/* Everything that was published when the engine started is computed, or cannot be. */
bool edge_prompts_is_ready(const struct edge_prompts *prompts);

/* Has the prompt computed before its row is there; it stays until edge_prompts_sync, behind
 * edge_prompts_settle, finds no row of that domain. */
void edge_prompts_publish(struct edge_prompts *prompts, struct edge_prompts_waiter *waiter);
/* Whoever had it published has made its row, or has given up. */
void edge_prompts_settle(struct edge_prompts *prompts, const uint8_t domain[16]);
/* The directory has changed. */
void edge_prompts_sync(struct edge_prompts *prompts);

/* False when there is none of this domain. Any thread. */
bool edge_prompts_look(struct edge_prompts *prompts, const uint8_t domain[16],
                       struct edge_prompts_figures *out);
