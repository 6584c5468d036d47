/* fuzz_lark: any bytes as a Lark grammar. It is refused with a sentence, or it compiles within its
 * fuel, and then each token that a mask allows can be committed and no other one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/grammar/grammar_mask.h"
#include "engine/schema/lark.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { FUEL = 200000, MASK_FUEL = 5000, CALLS = 20, TOKENS = 256 + 2, CONTROL = 257, STEPS = 12 };

static char texts[TOKENS][2]; /* a token for each byte, "ab" and a control token */
static struct token_trie *trie;

static struct slice bytes_of(const void *context, uint32_t id)
{
    (void)context;
    return (struct slice){texts[id], id < 256 ? 1 : id == 256 ? 2 : 0};
}

static void make_trie(void)
{
    static const struct token_trie_source source = {.vocab = TOKENS, .bytes = bytes_of};
    for (uint32_t id = 0; id < 256; id++)
        texts[id][0] = (char)id;
    texts[256][0] = 'a';
    texts[256][1] = 'b';
    ASSERT(token_trie_new(&source, &trie) == STATUS_OK);
}

static bool find_token(const void *context, struct slice name, uint32_t *token)
{
    (void)context;
    *token = CONTROL;
    return slice_is(name, "<|call|>");
}

/* False when the run is too complex or has no way on. */
static bool step(struct grammar_run *run, uint32_t number)
{
    uint32_t mask[(TOKENS + 31) / 32];
    uint32_t allowed = 0;
    uint32_t chosen = 0;
    enum grammar_mask_result result = GRAMMAR_MASK_SUSPENDED;
    for (uint32_t calls = 0; result == GRAMMAR_MASK_SUSPENDED && calls < CALLS; calls++)
        result = grammar_mask_make(run, MASK_FUEL, mask);
    if (result != GRAMMAR_MASK_DONE)
        return false;
    for (uint32_t id = 0; id < TOKENS; id++) {
        bool is_allowed = (mask[id / 32] >> id % 32 & 1) != 0;
        bool is_taken = grammar_run_commit(run, id);
        if (grammar_run_is_too_complex(run))
            return false;
        ASSERT(is_taken == is_allowed);
        if (is_taken)
            grammar_run_back(run, 1);
        if (is_allowed && allowed++ <= number % 7)
            chosen = id;
    }
    ASSERT(!grammar_run_is_over(run) || allowed == 0);
    return allowed != 0 && grammar_run_commit(run, chosen);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const struct lark_tokens tokens = {find_token, NULL};
    static const struct constraint_options options = {.tokens = &tokens};
    struct grammar_fuel fuel;
    struct grammar_builder *builder;
    struct grammar *grammar = NULL;
    struct grammar_run *run = NULL;
    struct lark_error error = {0};
    grammar_symbol start;
    if (trie == NULL)
        make_trie();
    grammar_fuel_init(&fuel, FUEL, NULL);
    ASSERT(grammar_builder_new(&fuel, &builder) == STATUS_OK);
    enum status status =
        lark_build(builder, (struct slice){(const char *)bytes, length}, &options, &start, &error);
    ASSERT(status == STATUS_OK || error.message[0] != '\0');
    if (status == STATUS_OK)
        status = grammar_finish(builder, start, &grammar);
    grammar_builder_free(builder);
    if (status == STATUS_OK && grammar_run_new(grammar, trie, &run) == STATUS_OK)
        for (uint32_t i = 0; i < STEPS && step(run, (uint32_t)length + i); i++)
            ;
    grammar_run_free(run);
    grammar_drop(grammar);
    return 0;
}
