/* engine: requests for tokens in, tokens out. This is the room's main front door; engine_show.h and
 * fleet.h are the others.
 *
 * Owns:     model, tokenizer, KV pages, sequences; the engine thread, prepare and compute threads.
 * Thread:   submit, cancel, lower, unpublish, acknowledge and the text services: any thread;
 *           engine_next_event: one consumer thread.
 * Cost:     engine_submit copies the request; the engine thread does not allocate after
 *           engine_open.
 * Not here: what a request and its report contain (engine_request), the modes of an engine
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

struct answer_model;
struct engine;
struct ranks;

struct engine_options {
    /* Path of the model file. With a descriptor it only names the model and may be NULL. */
    const char *model_path;
    int model_descriptor; /* open for reading, owned by the caller; -1 = open the path */
    /* ENGINE_SPECULATION_MODEL: the draft model's path, and its descriptor or 0 for the path. */
    const char *draft_path;
    int draft_descriptor;
    /* The text of a chat template in place of the model's own; empty: none; NULL: its own. */
    const struct slice *chat_template;
    uint32_t draft_layers;  /* ENGINE_SPECULATION_EXIT: fewer than the model has */
    const char *model_name; /* as requests give it; NULL = the file's base name, no ending */
    const char *isa;        /* as kernels_options.isa */
    uint32_t device;        /* as kernels_options.device */
    bool is_free;           /* as kernels_options.is_free */
    const char *kv_type;    /* a name of kernels/kv_types.def; NULL = "f16" */
    const char *weights;    /* as model_weights_find; NULL = "file". Not for a draft model */
    const char *embeddings; /* as engine_pooling_find; NULL = "auto" */
    bool has_whole_experts; /* ranks have whole experts in place of a part of each */
    uint32_t page_tokens;   /* tokens of a KV page, a multiple of 16; 0 = the backend decides */
    uint32_t threads;       /* compute threads of all ranks together; 0 = all processors */
    struct ranks *ranks;    /* this process is rank 0, rank_follow runs the others; NULL = none */
    uint32_t context;       /* tokens; 0 = the model's own context */
    uint64_t kv_bytes;      /* budget of the page pool, of all ranks together */
    uint32_t rows_max;      /* rows of one step, prefill chunk and decodes together */
    uint32_t sequences_max; /* that may compute; step.c says how many more slots there are */
    enum engine_batching batching;
    uint32_t step_ms;             /* predicted milliseconds a step may take; 0 = no limit */
    uint32_t urgent_step_ms;      /* the same while realtime requests are expected (step_view) */
    uint32_t shared_step_ms;      /* for decodes when several tenants compute; 0 = no limit */
    uint32_t class_floor_percent; /* of each second's tokens, for a lower class with work: 0-25 */
    uint32_t fair_quantum;        /* tokens by which a tenant of weight 100 may lead its class */
    enum engine_preemption preemption;
    enum engine_speculation speculation;
    enum engine_acceptance acceptance;
    bool no_prefix_cache;   /* every prompt is computed whole */
    uint64_t kv_host_bytes; /* host memory for cached pages and swapped-out sequences; 0 = none */
    uint64_t grammar_bytes; /* for compiled constraints that are kept; 0 = none is */
    uint32_t pin_percent;   /* largest share of the pool that published prompts may pin: 0 to 90 */
    const struct clock *clock;
    struct metrics *metrics;   /* may be NULL */
    const char *metrics_label; /* put on each of its series: engine="0"; NULL = none */
    uint32_t index;            /* number of the engine in its fleet, for its log and its pulse */
    struct pulse *pulse;       /* the engine thread beats at PULSE_ENGINE + index; may be NULL */
    /* Called from the engine's threads when events wait; must be cheap and thread-safe. */
    void (*wake)(void *context);
    void *wake_context;
};

/* Opens the model and starts the threads. On failure nothing stays open, and the error note says
 * what is wrong with the file or the options. The strings of `options` need to live until it
 * returns; clock, metrics, pulse and ranks until engine_close. */
enum status engine_open(struct engine **out, const struct engine_options *options);
/* Ends the threads at the next step, whatever runs, and frees the engine; it delivers no further
 * event. NULL does nothing. */
void engine_close(struct engine *engine);

struct engine_info {
    const char *model_name; /* valid while the engine is open, as isa */
    uint32_t context;       /* tokens */
    uint32_t vocab;         /* tokens */
    const char *isa;
    uint32_t threads;       /* compute threads of this rank */
    bool has_bf16_dots;     /* kernels_has_dots */
    int64_t created_wall_s; /* when the model file was last changed */
    uint64_t kv_pages;      /* units, where the model's layers have two kinds */
    uint32_t ranks;         /* processes that compute the model; 1 = this process alone */
    /* Of kv_pages, at most this many for published prompts; 0 without a cache. */
    uint32_t pin_pages;
    enum engine_pooling pooling; /* of its embeddings; NONE: it gives none */
    uint32_t width;              /* numbers of an embedding */
    uint32_t sequences;          /* that compute at once */
};
void engine_info(const struct engine *engine, struct engine_info *out);
/* Pages (units) that a published prompt of `tokens` tokens would pin. */
uint32_t engine_pages_pinned_by(const struct engine *engine, uint32_t tokens);

/* --- text services: pure, any thread --- */

/* Token ids of a text. The text of a special token becomes that token. `add_special` adds what the
 * model puts before a prompt. The caller frees `*ids` with mem_free. CONTEXT_LENGTH when there are
 * more than `ids_max` ids; UNSUPPORTED in a build without PCRE2. */
enum status engine_tokenize(struct engine *engine, struct slice text, bool add_special,
                            size_t ids_max, uint32_t **ids, size_t *count);
enum status engine_tokenize_chat(struct engine *engine, const struct engine_message *messages,
                                 size_t message_count, bool add_generation_prompt, size_t ids_max,
                                 uint32_t **ids, size_t *count);
/* Appends the text of the ids to `out`, decoded by text_decode. Control tokens appear as their
 * names if `shows_control`, else not at all. OUT_OF_RANGE (param "tokens[i]") for an id that the
 * model does not have. */
enum status engine_detokenize(struct engine *engine, const uint32_t *ids, size_t count,
                              bool shows_control, struct buffer *out);
/* How the model writes reasoning and calls of tools; valid while the engine is open. */
const struct answer_model *engine_answer(const struct engine *engine);
/* The bytes of one token, valid while the engine is open. `id` must be below engine_info.vocab. */
struct slice engine_token_bytes(struct engine *engine, uint32_t id);

/* --- requests --- */

/* Copies the request. A prepare thread tokenises a text prompt; the caller's thread checks a prompt
 * of token ids. Never waits: BUSY when no slot or no memory is left, ENGINE_SHARE when the tenant
 * has used its share. Whatever is wrong with the request itself arrives as an ERROR event. Events
 * may arrive before this returns. */
enum status engine_submit(struct engine *engine, const struct engine_request *request,
                          engine_request_id *out);

/* The request stops at the next step and its END event follows; if it had not started, an ERROR
 * event with status CANCELLED. (A deadline ends a request in the same way, with DEADLINE.) A stale
 * id does nothing. */
void engine_cancel(struct engine *engine, engine_request_id id);

/* From the next step on the request belongs to the lowest class. A stale id does nothing. */
void engine_lower(struct engine *engine, engine_request_id id);

/* At the next step the requests that publish `domain` are cancelled, and its pages lose their pins
 * and cannot be found any more; other sequences keep the pages they hold. BUSY when too many such
 * calls wait for a step. */
enum status engine_unpublish(struct engine *engine, const struct engine_domain *domain);

/* The consumer has delivered `tokens` more TOKEN events of choice `choice`. A sequence with
 * LIMIT_UNDELIVERED_TOKENS outstanding is throttled: it computes nothing, and its pages are the
 * first that others may take. */
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
    /* Text that may be shown now: whole UTF-8 characters, and no part of a stop string. Empty while
     * bytes are held back. Valid until the next call of engine_next_event. */
    struct slice text;
    /* Where the token's text begins (text_decode_offset): in the echo for a PROMPT event, in the
     * answer for a TOKEN event. The answer begins after the echo's last whole character. */
    uint64_t text_offset;
    /* The token is a control token that is a mark of the model's answer format (engine_answer). It
     * stands behind `text`, which then is everything that was held back. */
    bool is_mark;
    /* START of a chat that wants marks: the prompt ends with the mark that opens reasoning. */
    bool is_in_reasoning;
    /* START: bit i is 1 if the arguments of the request's tool i need not follow its schema, which
     * could not be compiled. */
    uint64_t unconstrained[LIMIT_TOOLS / 64];
    enum engine_finish finish;
    struct engine_report report;
    struct error_note note;
};

/* Whether the device has failed. All requests then get their last events, and the engine can only
 * be closed. Any thread. */
bool engine_has_failed(const struct engine *engine);

/* The next event of any request; false when none waits. Consumer thread only. */
bool engine_next_event(struct engine *engine, struct engine_event *out);
