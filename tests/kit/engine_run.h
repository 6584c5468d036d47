/* engine_run: an engine and a transcript of its events, for tests of the whole engine.
 *
 * Owns:     the engine, the small model's file, the transcripts.
 * Thread:   one, which submits requests and consumes events.
 * Cost:     transcripts are arrays of fixed size.
 * Not here: what is right (the tests).
 */
#pragma once

#include "engine/engine.h"
#include "tests/kit/llama_file.h"

enum {
    ENGINE_RUN_TOKENS = 512, /* most tokens of one choice */
    ENGINE_RUN_TEXT_BYTES = 16384,
    ENGINE_RUN_WIDTH = 64, /* of an embedding */
};

struct engine_run_token {
    uint32_t token;
    float logprob;
    uint64_t text_offset;
    uint32_t top_count;
    struct engine_logprob top[LIMIT_LOGPROBS];
};

struct engine_run_choice {
    uint32_t prompt_count; /* echo */
    struct engine_run_token prompt[ENGINE_RUN_TOKENS];
    uint32_t echo_bytes;
    char echo[ENGINE_RUN_TEXT_BYTES];
    uint32_t count;
    struct engine_run_token tokens[ENGINE_RUN_TOKENS];
    uint32_t text_bytes;
    char text[ENGINE_RUN_TEXT_BYTES];
    bool is_paused;
    enum engine_finish finish;
};

/* What one request produced. Zeroed by engine_run_submit. */
struct engine_run_transcript {
    engine_request_id id;
    bool is_started;
    bool is_over;                /* END or ERROR has come */
    bool is_refused;             /* ERROR has come */
    bool holds_acknowledgements; /* set by a test that wants a slow reader */
    uint32_t unacknowledged[LIMIT_CHOICES];
    uint32_t tokens_so_far;
    uint32_t embeddings; /* that have come */
    float embedding[ENGINE_RUN_WIDTH];
    struct engine_run_choice choices[LIMIT_CHOICES];
    struct engine_report report;
    struct error_note note;
};

/* Returns options for the small model: `ref_int8`, 1 thread, 512 tokens of context, 64 rows, 8
 * sequences, room for 4 full sequences. A test changes what it needs. */
struct engine_options engine_run_options(void);

/* Opens the options' model or, when model_path is NULL, a Llama-shaped one of 2 layers with random
 * weights and a tokenizer of bytes, made for the purpose. Aborts on failure. */
struct engine *engine_run_open(const struct engine_options *options);
/* Closes the engine and removes the file made for it. */
void engine_run_close(struct engine *engine);

/* Type of the matrices of models made from now on (tensor_types.def); F32 at first. */
extern uint32_t engine_run_type;
/* A row of tiny_models.def that models made from now on have; NULL, at first: the Llama-shaped
 * one. */
extern const char *engine_run_tiny;
/* Key-value heads of that model; 0, at first: those of its row. */
extern uint32_t engine_run_kv_heads;
/* The shape of that model; and a writer of a model file of any shape, with a tokenizer, whose path
 * it puts into `path` of `room` bytes. */
struct llama_shape engine_run_shape(void);
void engine_run_write_model(const struct llama_shape *shape, char *path, size_t room);
/* Returns the path of a file with the small model; engine_run_remove_model removes it. */
const char *engine_run_make_model(void);
void engine_run_remove_model(void);

/* Submits with the transcript as context; aborts when the engine answers BUSY. */
void engine_run_submit(struct engine *engine, const struct engine_request *request,
                       struct engine_run_transcript *transcript);
/* Takes all waiting events and checks their order; returns their number. */
uint32_t engine_run_take(struct engine *engine);
/* Takes events until all transcripts are over; aborts after a minute without an event. */
void engine_run_finish(struct engine *engine, struct engine_run_transcript *const *transcripts,
                       uint32_t count);
/* Acknowledges what a slow reader had held back. */
void engine_run_acknowledge(struct engine *engine, struct engine_run_transcript *transcript);

/* Compares tokens, log-probabilities (bits), texts and finish reasons. */
bool engine_run_same(const struct engine_run_transcript *a, const struct engine_run_transcript *b);
