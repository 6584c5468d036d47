/* step_world: the step loop without its thread: the test is engine thread, submitter and consumer.
 *
 * Owns:     the small model, tickets, a step under a manual clock, what each request received.
 * Thread:   one.
 * Cost:     after each step all invariants are checked, O(pool).
 * Not here: what is right (the tests).
 */
#pragma once

#include "engine/step/step.h"

enum {
    STEP_WORLD_PAGE = 16, /* tokens, unless step_world_page_tokens says otherwise */
    STEP_WORLD_CONTEXT = 512,
    STEP_WORLD_REQUESTS = 64,
    STEP_WORLD_TOKENS = 128, /* most tokens of an answer */
};

struct step_world_options {
    const char *isa;  /* NULL: step_world_isa */
    uint32_t threads; /* 0: one thread */
    uint32_t rows_max;
    uint32_t sequences_max;
    uint32_t pages; /* where layers have two kinds, as many units, and those of one full context */
    uint32_t host_pages;
    bool is_whole; /* pages hold all layers, of whatever kind */
    uint32_t exchange_pages;
    uint32_t late_steps; /* steps that page copies take (late_pages); 0: none */
    uint32_t pin_percent;
    bool no_prefix_cache;
    enum scheduler_mode mode;
    enum engine_preemption preemption;
    enum engine_speculation speculation;
    enum engine_acceptance acceptance;
    uint32_t class_floor_percent;
    uint32_t mask_fuel; /* of a mask in one step; 0: the limit */
};

struct step_world_told {
    uint32_t slot; /* valid until it has ended */
    engine_request_id id;
    bool is_started;
    bool is_over;
    struct error_note refusal; /* status OK unless refused */
    struct engine_report report;
    struct step_world_answer {
        uint32_t count;
        uint32_t tokens[STEP_WORLD_TOKENS];
        float logprobs[STEP_WORLD_TOKENS];
        enum engine_finish finish;
        uint32_t pauses; /* PAUSED events received */
        bool is_paused;
    } answers[LIMIT_CHOICES];
};

struct step_world {
    struct gguf *gguf;
    struct vocab *vocab;
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    struct ticket_table tickets;
    struct clock clock;
    struct engine_constrain *constrain; /* compiles the constraints of requests */
    struct step step;
    bool holds_acknowledgements; /* the readers have stopped */
    uint32_t told_count;
    bool is_late;
    struct step_world_told told[STEP_WORLD_REQUESTS];
};

/* For worlds opened from now on that name no table; ref_int8 at first. */
extern const char *step_world_isa;
/* For the pages of worlds opened from now on; f16 of 16 tokens at first. */
extern enum kv_type step_world_kv_type;
extern uint32_t step_world_page_tokens;
/* Where the model has one kind of layers: > 0 gives every second layer a window of so many tokens.
 * */
extern uint32_t step_world_window;

struct step_world *step_world_open(const struct step_world_options *options);
void step_world_close(struct step_world *world);

/* Returns a greedy request for `tokens_max` tokens after a prompt, in domain `domain` (0: none). */
struct engine_request step_world_request(const uint32_t *tokens, uint32_t count,
                                         uint32_t tokens_max, uint8_t domain);
struct engine_domain step_world_domain(uint8_t domain);

/* Returns the request's index in world->told. */
uint32_t step_world_submit(struct step_world *world, const struct engine_request *request);
void step_world_cancel(struct step_world *world, uint32_t told);

/* Runs one step, checks all invariants, takes and acknowledges its events. False when there was
 * nothing to do. */
bool step_world_step(struct step_world *world);
/* Runs steps until there is nothing to do; returns their number. */
uint32_t step_world_run(struct step_world *world);

/* Compares tokens, log-probabilities (bits) and finish reasons. */
bool step_world_same(const struct step_world_told *a, const struct step_world_told *b);
