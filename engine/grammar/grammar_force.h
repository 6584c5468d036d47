/* grammar_force: text that the grammar forces, as the tokens that the tokenizer would write.
 *
 * Owns:     nothing.
 * Thread:   that of the run.
 * Cost:     a look at each byte class for every forced byte, at most GRAMMAR_FORCE_BYTES and
 *           LIMIT_GRAMMAR_FORCED_STEPS, then one call of the tokenizer.
 * Not here: the tokenizer (a callback), the rows that compute forced tokens (step_force).
 *
 * Where the grammar leaves one byte, the text is forced whatever the sampler would do. The forced
 * bytes are tokenised together with the tokens before them. Tokens at the end that could merge with
 * what may follow are given up, because the model would have written one longer token there. So the
 * result depends on the tokens so far alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/grammar/grammar_run.h"

enum {
    GRAMMAR_FORCE_BEFORE = 4, /* tokens before that are tokenised again, and tokens given up */
    GRAMMAR_FORCE_BYTES = 256,
};

/* Writes the bytes that must follow, at most `capacity`, and returns their number. It is 0 where
 * the text may end. The run stays where it is. */
size_t grammar_force_bytes(struct grammar_run *run, char *bytes, size_t capacity);

/* Turns bytes into ids as the tokenizer does in the middle of a text. LIMIT when there are more
 * than `capacity` ids. */
typedef enum status (*grammar_force_encode)(void *context, struct slice text, uint32_t *ids,
                                            size_t capacity, size_t *count);

/* Writes the tokens that must follow, at most `capacity`, and returns their number. `before` are
 * the last tokens of the sequence, at most GRAMMAR_FORCE_BEFORE, oldest first; those that are no
 * plain text are left out together with all before them. The run stays where it is; each token is
 * one that grammar_run_commit takes. 0 also when `encode` fails. */
size_t grammar_force_tokens(struct grammar_run *run, const uint32_t *before, size_t before_count,
                            grammar_force_encode encode, void *context, uint32_t *tokens,
                            size_t capacity);
