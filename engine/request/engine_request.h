/* engine_request: what a request asks for, and what is told of it.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: submitting a request, its events (engine), what the engine keeps of it (ticket).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"

/* Carries a generation: a stale id is noticed and ignored. 0 is never one. */
typedef uint64_t engine_request_id;

struct engine_message {
    struct slice role;
    struct slice content;
};

struct engine_sampling {
    float temperature;       /* 0 = greedy, else (0, 2] */
    float top_p;             /* (0, 1] */
    float min_p;             /* [0, 1] */
    uint32_t top_k;          /* 0 = off */
    float presence_penalty;  /* [-2, 2] */
    float frequency_penalty; /* [-2, 2] */
    uint64_t seed;           /* of the request; choice i uses a stream of its own */
    uint32_t bias_count;     /* ≤ LIMIT_LOGIT_BIAS */
    struct engine_bias {
        uint32_t token;
        float bias; /* [-100, 100] */
    } bias[LIMIT_LOGIT_BIAS];
};

enum engine_prompt_kind { ENGINE_PROMPT_TEXT, ENGINE_PROMPT_TOKENS, ENGINE_PROMPT_CHAT };

/* A share domain: an HMAC made by the edge; the engine knows no names. */
struct engine_domain {
    uint8_t bytes[16];
};

struct engine_request {
    struct slice request_id; /* for reports; ≤ LIMIT_REQUEST_ID_BYTES */
    enum engine_prompt_kind prompt_kind;
    struct slice text;
    const uint32_t *tokens;
    size_t token_count;
    const struct engine_message *messages;
    size_t message_count;

    uint32_t choices;    /* n, 1 … LIMIT_CHOICES */
    uint32_t tokens_max; /* 0 = until the context is full */
    struct engine_sampling sampling;
    struct slice stop[LIMIT_STOP_STRINGS];
    uint32_t stop_count;
    bool ignore_end;       /* go on after an end token (bench, tests) */
    bool shows_control;    /* by their names, in echo and answer; not the token that ends it */
    bool want_logprobs;    /* of the chosen token */
    uint32_t top_logprobs; /* 0 … LIMIT_LOGPROBS */
    bool echo;             /* the prompt comes back first, with its log-probabilities if wanted */
    bool is_scored;        /* the echo is all: no token is generated, whatever tokens_max says */

    struct engine_domain domain; /* where its pages go; all zero = no cache at all */
    /* What it may read, in the order of the match: published, groups', own. `domain` is readable
     * whether it stands there or not. */
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE];
    uint32_t visible_count;
    uint32_t visible_public; /* the first so many of `visible` are published */
    uint32_t visible_group;  /* the next so many are groups' */
    uint32_t cache_share;    /* weight of `domain` in the cache, 1 … 1000; 0 = 100 */
    /* Computes the prompt into `domain`, generates nothing, and pins its pages there until
     * engine_unpublish. ERROR with LIMIT, and the numbers, when that goes over the pin cap. */
    bool is_published;
    enum service_class service_class;
    uint32_t weight; /* of `tenant` among those of its class, 1 … LIMIT_WEIGHT; 0 = 100 */
    struct engine_domain tenant; /* client of fairness, opaque; all such with zero are one */
    int64_t deadline_us;         /* of the engine's clock; 0 = none */

    void *context; /* comes back in every event */
};

enum engine_finish {
    ENGINE_FINISH_NONE,
    ENGINE_FINISH_STOP,   /* end token or stop string */
    ENGINE_FINISH_LENGTH, /* tokens_max or context */
    ENGINE_FINISH_CANCELLED,
    ENGINE_FINISH_DEADLINE,
    ENGINE_FINISH_ERROR,
};

struct engine_logprob {
    uint32_t token;
    float logprob; /* natural logarithm, before temperature */
};

struct engine_report {
    uint32_t prompt_tokens; /* once, for all choices */
    /* Found at admission of its first choice; of them by whose they were, and from the host. */
    uint32_t cached_tokens;
    uint32_t cached_public;
    uint32_t cached_group;
    uint32_t cached_own;
    uint32_t cached_host_tokens;
    uint32_t pinned_pages;      /* by a published prompt */
    uint32_t completion_tokens; /* of all choices */
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    enum service_class service_class; /* as it was served */
    uint32_t preemptions;             /* times that a choice lost its pages to others */
    uint32_t swapped_pages;           /* to host memory because of that */
    int64_t swap_us;                  /* there and back */
    int64_t paused_us;                /* without pages, of all choices */
    uint32_t recomputed_tokens;       /* computed again because of it: nobody is charged for them */
    uint32_t drafts_accepted;         /* tokens that were guessed ahead (engine_speculation) … */
    uint32_t drafts_rejected;         /* … and guesses that were wrong: nobody's tokens */
    enum engine_finish finish;        /* of the last choice that ended */
};

enum engine_event_kind {
    ENGINE_EVENT_START, /* admitted: report.prompt_tokens, cached_tokens and queue_us are set */
    /* Echo, before the choice's first TOKEN: a prompt token, its text (a character that the prompt
     * cuts comes with the answer) and, from the second, its logprob. Not acknowledged. */
    ENGINE_EVENT_PROMPT,
    ENGINE_EVENT_TOKEN,      /* one generated token of one choice */
    ENGINE_EVENT_PAUSED,     /* a choice that has generated something stands still … */
    ENGINE_EVENT_RESUMED,    /* … and goes on */
    ENGINE_EVENT_CHOICE_END, /* this choice is finished; text may hold what was held back */
    ENGINE_EVENT_END,        /* last event of a request that started: report is complete */
    ENGINE_EVENT_ERROR,      /* last event of a request that was refused: note says why */
};

/* A request that has not ended, without anything of its text. */
enum engine_request_state {
    ENGINE_REQUEST_PREPARING, /* its text becomes tokens */
    ENGINE_REQUEST_WAITING,
    ENGINE_REQUEST_FOLLOWING, /* for another to compute their common prefix */
    ENGINE_REQUEST_PREFILL,
    ENGINE_REQUEST_DECODE,
    ENGINE_REQUEST_THROTTLED,
    ENGINE_REQUEST_PAUSED, /* others have its pages */
};
