/* sim_model: a model that computes nothing but shows at once which KV content it was given.
 *
 * Owns:     model.h's functions in this program: the executable's definitions are linked instead
 *           of the library's, so that the step above is the real one.
 * Thread:   one.
 * Cost:     O(keys) a step, a few nanoseconds each.
 * Not here: what a right answer is for whom (sim_world).
 *
 * The KV entry of token t at position p is a link of a chain: chain(p) = mix(chain(p − 1), t, p).
 * A forward pass reads back every earlier entry of each sequence from its pages and follows the
 * chain: a page that is wrong, stale, foreign, unwritten or written by two breaks it on the spot.
 * Logits are a function of the last link alone, so a page of another text changes the output; a
 * model may be told to go on, most of the time, with the token that follows in a short circle: then
 * texts repeat themselves, and guesses at them are right. Asked for its first layer alone it writes
 * and reads pages as ever, and says always what follows in the circle: nobody watches that.
 */
#pragma once

#include "config/base/clock.h"
#include "engine/models/model.h"

enum { SIM_MODEL_VOCAB = 48, SIM_MODEL_END_TOKEN = SIM_MODEL_VOCAB - 1 };

/* What a pass costs on the virtual clock. */
struct sim_model_cost {
    int64_t fixed_us;
    int64_t row_us;
    int64_t keys_of_us; /* so many keys cost a microsecond */
};

/* `clock` is moved on by each pass. `circles` of 1000 tokens are the next of their circle. */
struct model *sim_model_create(struct clock *clock, const struct sim_model_cost *cost,
                               uint32_t rows_max, uint32_t logit_rows_max, uint32_t context,
                               uint32_t circles);
void sim_model_destroy(struct model *model);

/* `watch` sees every batch before it is computed. */
typedef void (*sim_model_watcher)(void *context, const struct model_batch *batch);
void sim_model_watch(struct model *model, sim_model_watcher watch, void *context);

/* Pages of this model: one layer, one head of two numbers. */
enum status sim_model_layout(struct kernels *kernels, uint32_t page_tokens, struct kv_layout *out);

/* The chain after one more token; it starts at 0. */
uint64_t sim_model_chain(uint64_t chain, uint32_t token, uint32_t position);
/* The logits [SIM_MODEL_VOCAB] that follow a chain whose last token is `token`. */
void sim_model_logits(uint64_t chain, uint32_t token, uint32_t circles, float *out);
