/* sim_model: a model that computes nothing, but shows at once which KV content it was given.
 *
 * Owns:     model.h's functions in this program: the executable's definitions are linked instead of
 *           the library's, so that the step above is the real one.
 * Thread:   one.
 * Cost:     O(keys) a step, a few nanoseconds each.
 * Not here: which answer is right for which request (sim_world).
 *
 * The KV entry of token t at position p is a link of a chain: chain(p) = mix(chain(p − 1), t, p). A
 * forward pass reads back every earlier entry of each sequence from its pages and follows the
 * chain. A page that is wrong, stale, of another domain, unwritten or written twice breaks it at
 * once. Logits depend on the last link alone, so a page of another text changes the output. The
 * model can be told to continue, most of the time, with the next token of a short circle: texts
 * then repeat themselves, and drafts of them are right. When it is asked for its first layer only,
 * it writes and reads pages as usual and always gives the next token of the circle, without the
 * watcher.
 */
#pragma once

#include "config/base/clock.h"
#include "engine/models/model.h"

enum { SIM_MODEL_VOCAB = 48, SIM_MODEL_END_TOKEN = SIM_MODEL_VOCAB - 1 };

/* The cost of a pass on the virtual clock. */
struct sim_model_cost {
    int64_t fixed_us;
    int64_t row_us;
    int64_t keys_of_us; /* this many keys cost a microsecond */
};

/* Each pass advances `clock`. `circles` of 1000 tokens are the next of their circle. */
struct model *sim_model_create(struct clock *clock, const struct sim_model_cost *cost,
                               uint32_t rows_max, uint32_t logit_rows_max, uint32_t context,
                               uint32_t circles);
void sim_model_destroy(struct model *model);

/* `watch` is called with every batch before it is computed. */
typedef void (*sim_model_watcher)(void *context, const struct model_batch *batch);
void sim_model_watch(struct model *model, sim_model_watcher watch, void *context);

/* The pages of this model: one layer, one head of two numbers; and as many window units of the same
 * form. An entry is in each unit of its page that the window asks for. */
enum status sim_model_layout(struct kernels *kernels, uint32_t page_tokens, uint32_t window_units,
                             uint32_t window, struct kv_layout *out);

/* Returns the chain after one more token; it starts at 0. */
uint64_t sim_model_chain(uint64_t chain, uint32_t token, uint32_t position);
/* Computes the logits [SIM_MODEL_VOCAB] after a chain whose last token is `token`. */
void sim_model_logits(uint64_t chain, uint32_t token, uint32_t circles, float *out);
