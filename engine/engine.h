/* engine: requests for tokens in, tokens out. The room's main front door; engine_show.h and fleet.h
 * are the others.
 *
 * Owns:     model, tokenizer, KV pages, sequences; the engine thread, prepare and compute threads.
 * Thread:   submit, cancel, acknowledge, text services: any; engine_next_event: one consumer's.
 * Cost:     a submit copies the request; the engine thread does not allocate after engine_open.
 * Not here: HTTP, API keys, tenants' names (gateway, auth).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"

struct engine;
struct ranks;

/* Carries a generation: a stale id is noticed and ignored. 0 is never one. */
typedef uint64_t engine_request_id;

/* How sequences share steps: `continuous` is for use, the others are there to be compared with. */
enum engine_batching {
    ENGINE_BATCHING_CONTINUOUS, /* they join and leave at every step */
    ENGINE_BATCHING_WINDOW,     /* they join when no running one is in its prompt, all at once */
    ENGINE_BATCHING_STATIC,     /* they join when none runs */
};

/* What becomes of a sequence whose pages a more urgent one takes. */
enum engine_preemption {
    ENGINE_PREEMPTION_AUTO,      /* whichever way is predicted to cost less */
    ENGINE_PREEMPTION_SWAP,      /* to host memory while there is room, else recomputed */
    ENGINE_PREEMPTION_RECOMPUTE, /* given back, and computed again from its tokens */
    ENGINE_PREEMPTION_OFF,       /* no class takes pages or rows of another that runs */
};

/* Tokens guessed ahead and judged in one step, with the same text, bit by bit. */
enum engine_speculation {
    ENGINE_SPECULATION_OFF,
    ENGINE_SPECULATION_LOOKUP, /* what came behind the same words earlier in its own text */
    ENGINE_SPECULATION_MODEL,  /* what a smaller model says */
    ENGINE_SPECULATION_EXIT,   /* what the model's own first layers say: one trained for it */
};

/* When a guess is right. Greedy answers are the same in both. */
enum engine_acceptance {
    ENGINE_ACCEPTANCE_NOISE,     /* when it is the token that is drawn: the same text, bit by bit */
    ENGINE_ACCEPTANCE_REJECTION, /* by sampler_judge: another text, distributed as that */
};

struct engine_options {
    const char *model_path; /* with a descriptor: only for the name; may then be NULL */
    int model_descriptor; /* the file, opened for reading, stays the caller's; -1 = open the path */
    const char *draft_path; /* ENGINE_SPECULATION_MODEL: the smaller model, and its descriptor … */
    int draft_descriptor;   /* … or 0 */
    uint32_t draft_layers;  /* ENGINE_SPECULATION_EXIT: fewer than the model has */
    const char *model_name; /* what requests call it; NULL = the file's base name, no ending */
    const char *isa;        /* as kernels_options.isa */
    uint32_t device;        /* … and its device */
    bool is_free;           /* kernels_options.is_free */
    const char *kv_type;    /* NULL: "f16"; kernels/kv_types.def */
    const char *weights;    /* NULL: "file"; model_weights_find. A draft model's stay as they are */
    uint32_t page_tokens;   /* of a KV page, a multiple of 16; 0 = as the machine likes them */
    uint32_t threads;       /* compute threads, of all ranks together; 0 = all processors */
    struct ranks *ranks;    /* this is rank 0 of them (rank_follow runs the others); NULL = alone */
    uint32_t context;       /* tokens; 0 = the model's own */
    uint64_t kv_bytes;      /* budget of the page pool, of all ranks together */
    uint32_t rows_max;      /* rows of one step, prefill chunk and decode together */
    uint32_t sequences_max; /* computing at once; step.c says how many may be throttled or paused */
    enum engine_batching batching;
    uint32_t step_ms;             /* budget of a step in predicted milliseconds; 0 = rows alone */
    uint32_t urgent_step_ms;      /* the same without a realtime row, where such work may arrive */
    uint32_t shared_step_ms;      /* of decodes where several tenants compute; 0 = any time */
    uint32_t class_floor_percent; /* of each second's tokens, for a lower class with work: 0 … 25 */
    uint32_t fair_quantum;        /* tokens that a tenant of weight 100 is ahead of its class */
    enum engine_preemption preemption;
    enum engine_speculation speculation;
    enum engine_acceptance acceptance;
    bool no_prefix_cache;   /* every prompt is computed whole */
    uint64_t kv_host_bytes; /* for pages of what is cached or paused; 0 = none */
    uint32_t pin_percent;   /* of the pool at most, for published prompts: 0 … 90 */
    const struct clock *clock;
    struct metrics *metrics;   /* may be NULL */
    const char *metrics_label; /* of all its series: engine="0"; NULL = none */
    uint32_t index;            /* among several of one fleet: for its log, and its place in … */
    struct pulse *pulse;       /* … where its thread beats (PULSE_ENGINE + index); may be NULL */
    /* Called from the engine's threads when events wait; cheap and thread-safe. */
    void (*wake)(void *context);
    void *wake_context;
};

/* Opens the model and starts the threads. The message says what is wrong with a bad file. */
enum status engine_open(struct engine **out, const struct engine_options *options);
/* Cancels what runs and joins the threads. */
void engine_close(struct engine *engine);

struct engine_info {
    const char *model_name;
    uint32_t context;
    uint32_t vocab;
    const char *isa;
    uint32_t threads;
    bool has_bf16_dots;     /* kernels_has_dots */
    int64_t created_wall_s; /* the model file's time of change */
    uint64_t kv_pages;
    uint32_t ranks;     /* processes that compute it; 1 = this one alone */
    uint32_t pin_pages; /* of them at most, for published prompts; 0 without a cache */
};
void engine_info(const struct engine *engine, struct engine_info *out);
/* Pages that a published prompt of so many tokens would pin. */
uint32_t engine_pages_pinned_by(const struct engine *engine, uint32_t tokens);

/* --- text services: pure, any thread --- */

struct engine_message {
    struct slice role;
    struct slice content;
};

/* Ids of a text; special-token text is matched. `add_special` adds what the model puts before a
 * prompt. The array is the caller's, freed with mem_free. CONTEXT_LENGTH beyond `ids_max`. */
enum status engine_tokenize(struct engine *engine, struct slice text, bool add_special,
                            size_t ids_max, uint32_t **ids, size_t *count);
enum status engine_tokenize_chat(struct engine *engine, const struct engine_message *messages,
                                 size_t message_count, bool add_generation_prompt, size_t ids_max,
                                 uint32_t **ids, size_t *count);
/* The text of ids as text_decode makes it, control tokens as their names or left out. OUT_OF_RANGE
 * (param "tokens[i]") for an id the model does not have. */
enum status engine_detokenize(struct engine *engine, const uint32_t *ids, size_t count,
                              bool shows_control, struct buffer *out);
/* The bytes of one token; valid while the engine is open. */
struct slice engine_token_bytes(struct engine *engine, uint32_t id);

/* --- requests --- */

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

/* Copies the request and hands it to a prepare thread. BUSY when there is no room: never a wait.
 * What is wrong with the request itself is an ERROR event. Events may come before this returns. */
enum status engine_submit(struct engine *engine, const struct engine_request *request,
                          engine_request_id *out);

/* The sequence stops at the next step and its END event follows (ERROR with status CANCELLED when
 * it had not started, as with DEADLINE); a stale id does nothing. */
void engine_cancel(struct engine *engine, engine_request_id id);

/* From the next step on the request is of the lowest class; a stale id does nothing. */
void engine_lower(struct engine *engine, engine_request_id id);

/* At the next step the pages of `domain` lose their pins and are found by nobody; sequences that
 * run keep what they hold. BUSY when too many such calls wait for a step. */
enum status engine_unpublish(struct engine *engine, const struct engine_domain *domain);

/* The consumer has delivered `tokens` more TOKEN events of choice `choice`. A sequence with
 * LIMIT_UNDELIVERED_TOKENS outstanding is throttled: it keeps its pages and computes nothing. */
void engine_acknowledge(struct engine *engine, engine_request_id id, uint32_t choice,
                        uint32_t tokens);

enum engine_finish {
    ENGINE_FINISH_NONE,
    ENGINE_FINISH_STOP,   /* end token or stop string */
    ENGINE_FINISH_LENGTH, /* tokens_max or context */
    ENGINE_FINISH_CANCELLED,
    ENGINE_FINISH_DEADLINE,
    ENGINE_FINISH_ERROR,
};
const char *engine_finish_name(enum engine_finish finish); /* "stop", "length", … */

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

struct engine_event {
    enum engine_event_kind kind;
    engine_request_id id;
    void *context;
    uint32_t choice;
    uint32_t tokens_so_far; /* completion tokens of the whole request, this one included */
    uint32_t token;
    float logprob;
    uint32_t top_count;
    struct engine_logprob top[LIMIT_LOGPROBS];
    /* Text that may be shown now: whole UTF-8 sequences only, nothing of a stop string. Empty while
     * bytes are held back. Valid until the next call of engine_next_event. */
    struct slice text;
    /* Where the token's text begins (text_decode_offset): of a PROMPT event in the echo, of a TOKEN
     * event in the answer, which begins behind the echo's last whole character. */
    uint64_t text_offset;
    enum engine_finish finish;
    struct engine_report report;
    struct error_note note;
};

/* Its device has failed: requests get their last events, it can only be closed. Any thread. */
bool engine_has_failed(const struct engine *engine);

/* The next event of any request; false when none waits. */
bool engine_next_event(struct engine *engine, struct engine_event *out);
