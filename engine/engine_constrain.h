/* engine_constrain: compiles the constraint of a request, and makes the guards of its choices.
 *
 *     constraint ── found in the cache of its domain, or compiled ──► grammar ──► a guard a choice
 *
 * Owns:     the token trie and the character classes of the vocabulary, which the first constraint
 *           makes; the cache of grammars.
 * Thread:   any prepare thread. These serve tenants in turn (config/base/turns), so a source
 *           delays other tenants' prompts by at most one compilation, which LIMIT_COMPILE_STEPS
 *           bounds.
 * Cost:     the first constraint takes 50 to 290 ms for the trie, each one a compilation or a
 *           look-up.
 * Not here: constraints of requests (gateway/dialect), compilation (engine/schema), masks
 *           (step_mask).
 */
#pragma once

#include "config/base/metrics.h"
#include "engine/answer/answer_format.h"
#include "engine/models/vocab.h"
#include "engine/request/ticket.h"

struct engine_constrain;

/* `answer` is how the model writes calls, or NULL if no request has calls. `grammar_bytes` bounds
 * the cache. `metrics` may be NULL, `label` too. NO_MEMORY. */
enum status engine_constrain_new(const struct vocab *vocab, const struct answer_model *answer,
                                 size_t grammar_bytes, struct metrics *metrics, const char *label,
                                 struct engine_constrain **out);
void engine_constrain_free(struct engine_constrain *constrain); /* NULL is allowed */

/* Makes the guards of a request with a constraint. With the request's field and the path in its
 * source as param: INVALID_SCHEMA or INVALID_GRAMMAR when it is broken or nothing can match,
 * UNSUPPORTED_SCHEMA or INVALID_GRAMMAR for what is not supported, SCHEMA_LIMIT when it is too
 * complex. CANCELLED, and as ticket_take_grammar. */
enum status engine_constrain_take(struct engine_constrain *constrain, struct ticket_table *tickets,
                                  uint32_t slot);
