/* schema_kit: what tests of engine/schema share: a schema, and the texts that its grammar accepts.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Not here: the sample of schemas (tests/e2e/test_schemas.py).
 */
#pragma once

#include "config/base/limits_grammar.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_run.h"
#include "engine/grammar/token_trie.h"
#include "engine/schema/constraint.h"
#include "tests/unit/base_kit.h"

enum { KIT_TEXTS = 12, KIT_BYTES = 256 };

/* A schema with texts that are accepted and texts that are not. */
struct kit_case {
    const char *schema;
    const char *accepted[KIT_TEXTS];
    const char *refused[KIT_TEXTS];
};

/* A schema that does not compile. */
struct kit_refusal {
    const char *schema;
    enum status status;
    const char *path;
    const char *keyword;
};

static inline struct slice kit_byte(const void *context, uint32_t id)
{
    return (struct slice){(const char *)context + id, 1};
}

/* A trie with a token for each byte. */
static inline struct token_trie *kit_bytes(void)
{
    static char bytes[KIT_BYTES];
    struct token_trie *trie;
    for (int byte = 0; byte < KIT_BYTES; byte++)
        bytes[byte] = (char)byte;
    const struct token_trie_source source = {
        .vocab = KIT_BYTES, .bytes = kit_byte, .context = bytes};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    return trie;
}

static inline enum status kit_compile(enum constraint_kind kind, const char *source,
                                      const struct constraint_options *options,
                                      struct grammar **out, struct constraint_error *error)
{
    struct grammar_fuel fuel;
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    return constraint_compile(kind, slice_of(source), options, &fuel, out, error);
}

static inline bool kit_accepts(struct grammar *grammar, const struct token_trie *trie,
                               const char *text)
{
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    bool is_allowed = true;
    for (; *text != '\0' && is_allowed; text++)
        is_allowed = grammar_run_commit(run, (uint8_t)*text);
    is_allowed = is_allowed && grammar_run_accepts(run);
    grammar_run_free(run);
    return is_allowed;
}

/* Compiles each schema with these options and tries its texts. */
static inline void kit_try(const struct constraint_options *options, const struct kit_case *cases,
                           size_t count)
{
    struct token_trie *trie = kit_bytes();
    for (size_t i = 0; i < count; i++) {
        struct grammar *grammar;
        struct constraint_error error;
        if (kit_compile(CONSTRAINT_JSON_SCHEMA, cases[i].schema, options, &grammar, &error) !=
            STATUS_OK)
            fail_msg("%s: %s (%s)", cases[i].schema, error.message, error.path);
        for (size_t j = 0; j < KIT_TEXTS && cases[i].accepted[j] != NULL; j++) {
            if (!kit_accepts(grammar, trie, cases[i].accepted[j]))
                fail_msg("%s does not accept %s", cases[i].schema, cases[i].accepted[j]);
        }
        for (size_t j = 0; j < KIT_TEXTS && cases[i].refused[j] != NULL; j++) {
            if (kit_accepts(grammar, trie, cases[i].refused[j]))
                fail_msg("%s accepts %s", cases[i].schema, cases[i].refused[j]);
        }
        grammar_drop(grammar);
    }
    token_trie_free(trie);
}

static inline void kit_try_refusals(const struct constraint_options *options,
                                    const struct kit_refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct grammar *grammar;
        struct constraint_error error;
        enum status status =
            kit_compile(CONSTRAINT_JSON_SCHEMA, cases[i].schema, options, &grammar, &error);
        if (status != cases[i].status || strcmp(error.path, cases[i].path) != 0 ||
            strcmp(error.keyword, cases[i].keyword) != 0)
            fail_msg("%s: %s at '%s', keyword '%s': %s", cases[i].schema, status_name(status),
                     error.path, error.keyword, error.message);
        assert_null(grammar);
        assert_int_not_equal(error.message[0], '\0');
    }
}

#define KIT_TRY(cases)         kit_try(&kit_loose, cases, sizeof(cases) / sizeof((cases)[0]))
#define KIT_TRY_STRICT(cases)  kit_try(&kit_strict, cases, sizeof(cases) / sizeof((cases)[0]))
#define KIT_TRY_REFUSALS(list) kit_try_refusals(&kit_loose, list, sizeof(list) / sizeof((list)[0]))

static const struct constraint_options kit_loose = {0};
static const struct constraint_options kit_strict __attribute__((unused)) = {.strict = true};
