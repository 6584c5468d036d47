/* parity_lark: which bytes Lark grammars allow, for tests/parity/grammars/compare.py.
 *
 * Each line of standard input is {"lark": grammar, "texts": [[byte, …], …]}. The answer is a line
 * {"error": sentence}, or {"walks": [[[mask in hex, accepts], …], …]} with a mask of 256 bits
 * before each byte of a text, and one behind it, as far as the grammar lets it go. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/grammar/grammar_mask.h"
#include "engine/schema/lark.h"

enum { BYTES = 256, WORDS = BYTES / 32, LINE_MAX_BYTES = 1 << 20 };

static char texts[BYTES];

static struct slice bytes_of(const void *context, uint32_t id)
{
    (void)context;
    return (struct slice){&texts[id], 1};
}

static enum status build(const char *source, struct grammar **out, struct lark_error *error)
{
    struct grammar_fuel fuel;
    struct grammar_builder *builder;
    grammar_symbol start;
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    TRY(grammar_builder_new(&fuel, &builder));
    const struct constraint_options options = {0};
    enum status status = lark_build(builder, slice_of(source), &options, &start, error);
    if (status == STATUS_OK) {
        status = grammar_finish(builder, start, out);
        if (status != STATUS_OK)
            (void)lark_read_fail(error, status, 0, "", "%s", status_note()->message);
    }
    grammar_builder_free(builder);
    return status;
}

static json_t *place_of(struct grammar_run *run)
{
    uint32_t mask[WORDS] = {0};
    char hex[BYTES / 4 + 1];
    if (grammar_mask_make(run, UINT32_MAX, mask) != GRAMMAR_MASK_DONE)
        return json_string("too complex");
    for (uint32_t i = 0; i < BYTES / 8; i++)
        (void)snprintf(hex + (size_t)2 * i, 3, "%02x", mask[i / 4] >> i % 4 * 8 & 0xff);
    return json_pack("[s, b]", hex, grammar_run_accepts(run));
}

static json_t *walk(struct grammar *grammar, const struct token_trie *trie, const json_t *text)
{
    struct grammar_run *run;
    json_t *places = json_array();
    ASSERT(grammar_run_new(grammar, trie, &run) == STATUS_OK);
    json_array_append_new(places, place_of(run));
    for (size_t i = 0; i < json_array_size(text); i++) {
        uint32_t byte = (uint32_t)json_integer_value(json_array_get(text, i));
        if (!grammar_run_commit(run, byte))
            break;
        json_array_append_new(places, place_of(run));
    }
    grammar_run_free(run);
    return places;
}

static json_t *answer(const json_t *line, const struct token_trie *trie)
{
    struct lark_error error = {0};
    struct grammar *grammar;
    if (build(json_string_value(json_object_get(line, "lark")), &grammar, &error) != STATUS_OK)
        return json_pack("{s:s}", "error", error.message);
    json_t *walks = json_array();
    const json_t *all = json_object_get(line, "texts");
    for (size_t i = 0; i < json_array_size(all); i++)
        json_array_append_new(walks, walk(grammar, trie, json_array_get(all, i)));
    grammar_drop(grammar);
    return json_pack("{s:o}", "walks", walks);
}

int main(void)
{
    static char line[LINE_MAX_BYTES];
    static const struct token_trie_source source = {.vocab = BYTES, .bytes = bytes_of};
    struct token_trie *trie;
    for (uint32_t i = 0; i < BYTES; i++)
        texts[i] = (char)i;
    ASSERT(token_trie_new(&source, &trie) == STATUS_OK);
    while (fgets(line, sizeof line, stdin) != NULL) {
        json_t *read = json_loads(line, 0, NULL);
        ASSERT(read != NULL);
        json_t *out = answer(read, trie);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(read);
    }
    token_trie_free(trie);
    return 0;
}
