/* engine_request: what a request asks for, and what its events and report say.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: submitting a request, taking its events (engine), what the engine keeps of it (ticket).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/limits_tools.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"
#include "engine/request/engine_mode.h"
#include "engine/schema/constraint.h"

/* Has a generation, so that a stale id is noticed and ignored. Never 0. */
typedef uint64_t engine_request_id;

/* A message of a role and a text; or any other one, as a JSON object and with its role. */
struct engine_message {
    struct slice role;
    struct slice content;
    struct slice json; /* empty: role and content are all */
};

/* What a chat brings for its template beside messages, as JSON; empty: it does not. */
struct engine_inputs {
    struct slice tools;
    struct slice documents;
    struct slice values; /* an object: variables of the template */
    /* For a server that renders and constrains by itself (gateway/adapter). An engine ignores
     * them. */
    struct slice tool_choice; /* as the request has it, JSON */
    bool is_single_call;      /* at most one call of a tool */
    struct slice effort;      /* reasoning_effort */
};

struct engine_sampling {
    float temperature;       /* 0 = greedy, else (0, 2] */
    float top_p;             /* (0, 1] */
    float min_p;             /* [0, 1] */
    uint32_t top_k;          /* 0 = off */
    float presence_penalty;  /* [-2, 2] */
    float frequency_penalty; /* [-2, 2] */
    /* (0, 2]; 0 and 1 = off. Of tokens of the prompt or of the answer so far, logits above 0 are
     * divided by it, and others multiplied, before anything else (Keskar et al. 2019). */
    float repetition_penalty;
    uint64_t seed;       /* of the request; each choice uses its own stream of random numbers */
    uint32_t bias_count; /* ≤ LIMIT_LOGIT_BIAS */
    struct engine_bias {
        uint32_t token;
        float bias; /* [-100, 100] */
    } bias[LIMIT_LOGIT_BIAS];
};

/* What the whole answer must be. */
struct engine_constraint {
    bool is_set;
    bool is_calls; /* `source` is of answer_grammar, and there is no kind */
    enum constraint_kind kind;
    struct constraint_options options; /* without missing_bytes, which the engine knows */
    struct slice source;
    struct slice field; /* JSON path of the request's field, for errors */
};

enum engine_prompt_kind { ENGINE_PROMPT_TEXT, ENGINE_PROMPT_TOKENS, ENGINE_PROMPT_CHAT };

/* A domain of shared pages: an HMAC made by the edge. The engine knows no names. */
struct engine_domain {
    uint8_t bytes[16];
};

struct engine_request {
    struct slice request_id; /* for reports; ≤ LIMIT_REQUEST_ID_BYTES */
    struct slice model;      /* for a source with several; an engine has one and ignores it */
    enum engine_prompt_kind prompt_kind;
    struct slice text;
    const uint32_t *tokens;
    size_t token_count;
    const struct engine_message *messages;
    size_t message_count;
    struct engine_inputs inputs; /* of a chat */

    uint32_t choices;    /* n: 1 to LIMIT_CHOICES */
    uint32_t tokens_max; /* completion tokens; 0 = until the context is full */
    /* Of each choice, at most tokens_max. Until so many are made no end token and none of
     * stop_tokens is sampled, and stop strings are passed over. An answer whose grammar allows
     * nothing more ends all the same. */
    uint32_t tokens_min;
    struct engine_sampling sampling;
    bool limits_reasoning;  /* a chat whose answer is split: behind reasoning_max tokens of */
    uint32_t reasoning_max; /* reasoning the mark that ends it is forced */
    struct engine_constraint constraint;
    struct slice stop[LIMIT_STOP_STRINGS];
    uint32_t stop_count;
    bool shows_stop;                         /* the text ends with the stop string, not before it */
    uint32_t stop_tokens[LIMIT_STOP_TOKENS]; /* end the answer as end tokens do */
    uint32_t stop_token_count;
    bool ignore_end;       /* continue after an end token (bench, tests) */
    bool shows_control;    /* control tokens by name, in echo and answer; never the end token */
    bool wants_marks;      /* engine_event.is_mark for control tokens that are marks */
    bool want_logprobs;    /* of the sampled token */
    uint32_t top_logprobs; /* 0 to LIMIT_LOGPROBS */
    bool wants_ids;        /* the consumer shows ids of tokens; an engine always gives them */
    bool echo;             /* the prompt comes back first, with log-probabilities if wanted */
    bool is_scored;        /* echo only: no token is generated, whatever tokens_max says */
    /* The prompt becomes one vector and no token is generated; NONE: an answer is generated. It
     * must be the engine's own pooling (engine_info). */
    enum engine_pooling pooling;

    struct engine_domain domain; /* where its pages go; all zero = it does not use the cache */
    /* Domains that it may read, in the order of matching: published prompts, groups, its own.
     * `domain` is readable whether or not it is among them. */
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE];
    uint32_t visible_count;
    uint32_t visible_public; /* of `visible` this many come first and are published prompts */
    uint32_t visible_group;  /* then this many are groups */
    uint32_t cache_share;    /* weight of `domain` in the cache: 1 to 1000; 0 = 100 */
    /* Computes the prompt into `domain`, generates nothing, and pins its pages there until
     * engine_unpublish. ERROR with LIMIT, and the numbers, when that would exceed pin_percent. */
    bool is_published;
    enum service_class service_class;
    uint32_t weight;             /* of `tenant` in its class: 1 to LIMIT_WEIGHT; 0 = 100 */
    struct engine_domain tenant; /* client of fairness, opaque; all zero ones are one client */
    int64_t deadline_us;         /* by the engine's clock; 0 = none */

    void *context; /* is in every event */
};

enum engine_finish {
    ENGINE_FINISH_NONE,
    ENGINE_FINISH_STOP,   /* end token or stop string */
    ENGINE_FINISH_LENGTH, /* tokens_max or context */
    ENGINE_FINISH_CANCELLED,
    ENGINE_FINISH_DEADLINE,
    ENGINE_FINISH_ERROR,
    ENGINE_FINISH_GRAMMAR, /* the grammar of its constraint became too complex */
};

struct engine_logprob {
    uint32_t token;
    float logprob; /* natural logarithm, before temperature */
};

struct engine_report {
    uint32_t prompt_tokens; /* once, for all choices */
    /* Tokens found at the admission of the first choice; by owner, and those in host memory. */
    uint32_t cached_tokens;
    uint32_t cached_public;
    uint32_t cached_group;
    uint32_t cached_own;
    uint32_t cached_host_tokens;
    uint32_t pinned_pages;      /* by a published prompt */
    uint32_t completion_tokens; /* of all choices */
    uint32_t reasoning_tokens;  /* of these; set by the consumer, who splits answers */
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    enum service_class service_class; /* as it was served at the end */
    uint32_t preemptions;             /* of its choices */
    uint32_t swapped_pages;           /* copied to host memory for them */
    int64_t swap_us;                  /* for copies out and in */
    int64_t paused_us;                /* time that choices were preempted, summed */
    uint32_t recomputed_tokens;       /* after preemptions; not charged */
    uint32_t drafts_accepted;         /* draft tokens that became tokens of the answer */
    uint32_t drafts_rejected;         /* draft tokens that were wrong */
    enum engine_finish finish;        /* of the last choice that ended */
};

enum engine_event_kind {
    ENGINE_EVENT_START, /* admitted: report.prompt_tokens, cached_tokens and queue_us are set */
    /* Echo, before the first TOKEN of a choice: one prompt token with its text and, from the second
     * token on, its log-probability. A character that is cut at the prompt's end comes with the
     * answer. Not acknowledged. */
    ENGINE_EVENT_PROMPT,
    ENGINE_EVENT_TOKEN, /* one generated token of one choice */
    /* The embedding of the prompt: `text` holds engine_info.width float32 values of this machine's
     * byte order, of length 1 unless the model's modules say otherwise. It comes once, before
     * CHOICE_END, and is not acknowledged. */
    ENGINE_EVENT_EMBEDDING,
    ENGINE_EVENT_PAUSED,     /* a choice that has generated tokens computes nothing for now */
    ENGINE_EVENT_RESUMED,    /* it goes on; its next TOKEN follows */
    ENGINE_EVENT_CHOICE_END, /* the choice has ended; text may hold what was held back */
    ENGINE_EVENT_END,        /* last event of a request that has started: the report is complete */
    ENGINE_EVENT_ERROR,      /* last event of a request that never started: the note says why */
};

/* State of a request that has not ended. */
enum engine_request_state {
    ENGINE_REQUEST_PREPARING, /* its text is being tokenised */
    ENGINE_REQUEST_WAITING,
    ENGINE_REQUEST_FOLLOWING, /* waits for another request to compute their common prefix */
    ENGINE_REQUEST_PREFILL,
    ENGINE_REQUEST_DECODE,
    ENGINE_REQUEST_THROTTLED,
    ENGINE_REQUEST_PAUSED, /* preempted */
};
