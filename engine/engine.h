/* engine: requests for tokens in, tokens out. The room's main front door; engine_show.h and fleet.h
 * are the others.
 *
 * Owns:     model, tokenizer, KV pages, sequences; the engine thread, prepare and compute threads.
 * Thread:   submit, cancel, acknowledge, text services: any; engine_next_event: one consumer's.
 * Cost:     a submit copies the request; the engine thread does not allocate after engine_open.
 * Not here: what a request and its report are made of (engine_request), how an engine may work
 *           (engine_mode); HTTP, API keys, tenants' names (gateway, auth).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "config/base/slice.h"
#include "engine/request/engine_mode.h"
#include "engine/request/engine_request.h"

struct engine;
struct ranks;

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

const char *engine_finish_name(enum engine_finish finish); /* "stop", "length", … */

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
