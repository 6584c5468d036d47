/* fuzz_schema: any text is refused with a sentence, or becomes a grammar within the fuel, and texts
 * that its masks lead to are never cut short: some byte is allowed until the text may end. */
#include <stdint.h>
#include <stdlib.h>

#include "config/base/limits_grammar.h"
#include "config/base/rng.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/grammar_run.h"
#include "engine/grammar/token_trie.h"
#include "engine/schema/constraint.h"

enum { BYTES = 256, WALK = 200, STEPS = 2000000 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static char all_bytes[BYTES];

static struct slice byte_of(const void *context, uint32_t id)
{
    return (struct slice){(const char *)context + id, 1};
}

/* A trie of all bytes, made once. */
static const struct token_trie *bytes_trie(void)
{
    static struct token_trie *trie;
    if (trie != NULL)
        return trie;
    for (int byte = 0; byte < BYTES; byte++)
        all_bytes[byte] = (char)byte;
    const struct token_trie_source source = {
        .vocab = BYTES, .bytes = byte_of, .context = all_bytes};
    ASSERT(token_trie_new(&source, &trie) == STATUS_OK);
    return trie;
}

static void walk(struct grammar_run *run, uint64_t seed)
{
    struct rng rng = {.seed = seed};
    for (int i = 0; i < WALK; i++) {
        uint32_t mask[BYTES / 32];
        uint32_t allowed[BYTES];
        uint32_t count = 0;
        enum grammar_mask_result result;
        while ((result = grammar_mask_make(run, 1000, mask)) == GRAMMAR_MASK_SUSPENDED)
            ;
        if (result == GRAMMAR_MASK_TOO_COMPLEX)
            return;
        for (uint32_t byte = 0; byte < BYTES; byte++) {
            if ((mask[byte / 32] >> (byte % 32) & 1) != 0)
                allowed[count++] = byte;
        }
        ASSERT(count > 0 || grammar_run_accepts(run));
        if (count == 0)
            return;
        bool is_taken = grammar_run_commit(run, allowed[rng_below(&rng, count)]);
        ASSERT(is_taken || grammar_run_is_too_complex(run));
        if (!is_taken)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct constraint_options options = {.strict = length % 2 == 1};
    struct constraint_error error;
    struct grammar_fuel fuel;
    struct grammar *grammar;
    grammar_fuel_init(&fuel, STEPS, NULL);
    enum status status =
        constraint_compile(CONSTRAINT_JSON_SCHEMA, (struct slice){(const char *)bytes, length},
                           &options, &fuel, &grammar, &error);
    if (status != STATUS_OK) {
        ASSERT(grammar == NULL);
        ASSERT(error.message[0] != '\0');
        return 0;
    }
    struct grammar_run *run;
    if (grammar_run_new(grammar, bytes_trie(), &run) == STATUS_OK) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            walk(run, seed);
            grammar_run_reset(run);
        }
        grammar_run_free(run);
    }
    grammar_drop(grammar);
    return 0;
}
