/* fuzz_regex: a text up to the first NUL → regex_parse, twice; the rest is a text to match. What a
 * search matches is what the whole regex matches between any texts, if it has no anchors. A regex,
 * its contrary and a lexer agree about every beginning of the text. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/lexer.h"
#include "engine/grammar/regex_parse.h"

enum { STEPS = 300000, TEXT_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Walks the text with a lexer of the regex alone. */
static void compare_lexer(struct regex_pool *pool, regex_node_id id, struct slice text)
{
    regex_node_id some = regex_and(pool, id, regex_not(pool, REGEX_EMPTY));
    regex_node_id contrary = regex_not(pool, some);
    bool is_match[TEXT_BYTES + 1];
    for (size_t i = 0; i <= text.length; i++) {
        struct slice part = {text.bytes, i};
        is_match[i] = regex_matches(pool, some, part);
        if (is_match[i] == regex_matches(pool, contrary, part) &&
            regex_pool_status(pool) == STATUS_OK)
            abort();
    }
    if (regex_pool_status(pool) != STATUS_OK)
        return;
    struct lexer_lexeme lexeme = {some, false};
    struct lexer *lexer;
    uint32_t which[] = {0}, state;
    if (lexer_new(pool, &lexeme, 1, &lexer) != STATUS_OK)
        return;
    if (lexer_start(lexer, which, 1, &state) != STATUS_OK)
        abort();
    for (size_t i = 0; i < text.length; i++) {
        state = lexer_step(lexer, state, (uint8_t)text.bytes[i]);
        if (state == LEXER_FULL)
            break;
        if (lexer_is_end(lexer, state) != is_match[i + 1])
            abort();
    }
    lexer_free(lexer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const uint8_t *cut = length != 0 ? memchr(bytes, 0, length) : NULL;
    struct slice source = {(const char *)bytes, cut != NULL ? (size_t)(cut - bytes) : length};
    struct slice text = {NULL, 0};
    if (cut != NULL)
        text = (struct slice){(const char *)cut + 1, length - source.length - 1};
    text.length = text.length < TEXT_BYTES ? text.length : TEXT_BYTES;
    struct grammar_fuel fuel;
    struct regex_pool *pool;
    struct regex_error error;
    regex_node_id search, whole;
    grammar_fuel_init(&fuel, STEPS, NULL);
    if (regex_pool_new(&fuel, &pool) != STATUS_OK)
        abort();
    enum status status = regex_parse(pool, source, REGEX_SEARCH, &search, &error);
    if (status != STATUS_OK && (error.message[0] == '\0' || error.offset > source.length))
        abort();
    if (status == STATUS_OK &&
        regex_parse(pool, source, REGEX_WHOLE, &whole, &error) == STATUS_OK) {
        bool is_found = regex_matches(pool, search, text);
        bool is_whole = regex_matches(pool, whole, text);
        if (is_whole && !is_found && regex_pool_status(pool) == STATUS_OK)
            abort();
        if (is_whole && regex_is_empty_language(pool, whole))
            abort();
        compare_lexer(pool, search, text);
    }
    regex_pool_free(pool);
    return 0;
}
