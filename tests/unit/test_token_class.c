#include "engine/grammar/token_class.h"

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "engine/grammar/lexer.h"
#include "engine/models/vocab.h"
#include "tests/kit/model_path.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

enum { VOCAB = 700, BYTES = 24, RANGES = 4, NOT_OF_CLASS = 0 };

struct words {
    char bytes[VOCAB][BYTES];
    uint32_t length[VOCAB];
};

static struct words words;

static struct slice word_of(const void *context, uint32_t id)
{
    (void)context;
    return (struct slice){words.bytes[id], words.length[id]};
}

/* Tokens of letters, marks, characters of several bytes and halves of them. */
static struct token_trie *make_trie(uint64_t seed)
{
    static const char *const pieces[] = {"a", "b",  "Z",  "7", " ",        "\"",   "\\",
                                         "é", "あ", "\n", "x", "\xf0\x9f", "\xa9", "\xc3"};
    struct rng rng = {seed, 0};
    for (uint32_t id = 0; id < VOCAB; id++) {
        words.length[id] = 0;
        for (uint64_t n = rng_below(&rng, 6); n > 0; n--) {
            const char *piece = pieces[rng_below(&rng, rng_below(&rng, 2) == 0 ? 5 : 14)];
            memcpy(words.bytes[id] + words.length[id], piece, strlen(piece));
            words.length[id] += (uint32_t)strlen(piece);
        }
    }
    struct token_trie *trie;
    struct token_trie_source source = {VOCAB, word_of, NULL};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    return trie;
}

/* Characters of a token, or NOT_OF_CLASS. */
static uint32_t chars_of(struct slice token, const struct regex_range *ranges, uint32_t count)
{
    uint32_t chars = 0;
    for (size_t at = 0; at < token.length; chars++) {
        size_t length = utf8_sequence_length(token.bytes + at, token.length - at);
        bool is_in = false;
        for (uint32_t i = 0; length != 0 && i < count; i++) {
            uint32_t code = utf8_decode(token.bytes + at, length);
            is_in = is_in || (code >= ranges[i].first && code <= ranges[i].last);
        }
        if (!is_in)
            return NOT_OF_CLASS;
        at += length;
    }
    return chars;
}

static bool has_bit(const uint32_t *mask, uint32_t id)
{
    return (mask[id / 32] >> id % 32 & 1) != 0;
}

/* Each token is in the masks of its length and above, or in the tree of the rest. */
static void check_class(const struct token_trie *trie, const struct token_class *class,
                        const struct regex_range *ranges, uint32_t count)
{
    uint32_t vocab = token_trie_vocab(trie), longest = 0;
    bool *is_rest = calloc(vocab, sizeof *is_rest);
    for (uint32_t i = 0; i < class->rest.count; i++)
        for (uint32_t id = (uint32_t) class->rest.nodes[i].token; id != TOKEN_TRIE_NONE;
             id = token_trie_next(trie, id))
            is_rest[id] = true;
    for (uint32_t id = 0; id < vocab; id++) {
        struct slice token = token_trie_bytes(trie, id);
        uint32_t chars = chars_of(token, ranges, count);
        if (chars > LIMIT_TOKEN_CLASS_CHARS)
            chars = NOT_OF_CLASS;
        longest = chars > longest ? chars : longest;
        assert_int_equal(is_rest[id], token.length != 0 && chars == NOT_OF_CLASS);
        for (uint32_t n = 0; n <= class->longest; n++)
            if (has_bit(class->masks[n], id) != (chars != NOT_OF_CLASS && chars <= n))
                fail_msg("token %u with %u characters in mask %u", id, chars, n);
    }
    assert_int_equal(class->longest, longest);
    assert_ptr_equal(token_class_mask(class, REGEX_UNBOUNDED), class->masks[longest]);
    free(is_rest);
}

static void test_random(void **state)
{
    (void)state;
    static const uint32_t edges[] = {0,   '\n', ' ',  '"',  'Z',  '\\',   'a',
                                     'b', 'x',  0x7f, 0x80, 0xe9, 0x3042, 0x10ffff};
    for (uint32_t round = 0; round < rounds(60, 3000); round++) {
        struct rng rng = {round, 0};
        struct token_trie *trie = make_trie(round);
        struct token_classes *classes;
        assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
        struct regex_range ranges[RANGES];
        uint32_t count = 0, from = 0;
        while (count < RANGES && from < 14) { /* sorted and apart */
            uint32_t first = from + (uint32_t)rng_below(&rng, 14 - from);
            uint32_t last = first + (uint32_t)rng_below(&rng, 14 - first);
            ranges[count++] = (struct regex_range){edges[first], edges[last]};
            from = last + 1;
        }
        const struct token_class *class = token_classes_make(classes, ranges, count);
        assert_non_null(class);
        check_class(trie, class, ranges, count);
        token_classes_release(classes, class);
        token_classes_free(classes);
        token_trie_free(trie);
    }
}

/* --- masks of lexer states --- */

static bool is_allowed(struct lexer *lexer, uint32_t state, struct slice token)
{
    for (size_t i = 0; i < token.length && state != LEXER_DEAD; i++)
        state = lexer_step(lexer, state, (uint8_t)token.bytes[i]);
    return token.length != 0 && state != LEXER_DEAD;
}

/* The mask by class: its tokens, and a walk of the rest. */
static void make_mask(struct lexer *lexer, uint32_t state, const struct token_trie *trie,
                      const struct token_class *class, uint32_t *mask)
{
    uint32_t states[TOKEN_TRIE_DEPTH + 1] = {state};
    memcpy(mask, token_class_mask(class, lexer_run(lexer, state).max),
           token_trie_mask_words(trie) * sizeof *mask);
    for (uint32_t i = 1; i < class->rest.count;) {
        const struct token_trie_node *node = &class->rest.nodes[i];
        uint32_t next = lexer_step(lexer, states[node->depth - 1], (uint8_t)node->byte);
        states[node->depth] = next;
        if (next == LEXER_DEAD) {
            i += (uint32_t)node->size;
            continue;
        }
        for (uint32_t id = (uint32_t)node->token; id != TOKEN_TRIE_NONE;
             id = token_trie_next(trie, id))
            mask[id / 32] |= 1u << id % 32;
        i++;
    }
}

/* Returns whether the state has a class that fits; then its mask must be that of trying each token.
 * */
static bool check_state(struct lexer *lexer, uint32_t state, struct token_classes *classes,
                        uint32_t *mask)
{
    struct regex_run run = lexer_run(lexer, state);
    uint32_t count;
    if (run.chars == REGEX_RUN_NONE)
        return false;
    const struct token_trie *trie = token_classes_trie(classes);
    const struct regex_range *ranges = lexer_chars(lexer, run.chars, &count);
    const struct token_class *class = token_classes_make(classes, ranges, count);
    assert_non_null(class);
    bool fits = token_class_fits(class, run);
    if (fits)
        make_mask(lexer, state, trie, class, mask);
    for (uint32_t id = 0; fits && id < token_trie_vocab(trie); id++)
        if (has_bit(mask, id) != is_allowed(lexer, state, token_trie_bytes(trie, id)))
            fail_msg("token %u should %sbe allowed", id, has_bit(mask, id) ? "not " : "");
    token_classes_release(classes, class);
    return fits;
}

static regex_node_id text_of(struct regex_pool *pool, const char *text)
{
    return regex_text(pool, slice_of(text));
}

/* A string with counts, alone or beside a fixed one, whose end may look like its characters. */
static regex_node_id make_string(struct regex_pool *pool, struct rng *rng)
{
    static const struct regex_range sets[][3] = {{{'a', 'z'}, {'A', 'Z'}, {' ', ' '}},
                                                 {{' ', '!'}, {'#', '['}, {']', 0x10ffff}},
                                                 {{'a', 'z'}, {0x80, 0x3fff}, {'0', '9'}}};
    static const char *const tails[] = {"\"", "a\"", "7", "\\\"", "é"};
    uint32_t min = (uint32_t)rng_below(rng, 3), max = min + (uint32_t)rng_below(rng, 8);
    regex_node_id set = regex_chars(pool, sets[rng_below(rng, 3)], 3);
    regex_node_id many =
        regex_repeat(pool, set, min, rng_below(rng, 3) == 0 ? REGEX_UNBOUNDED : max + 1);
    return regex_cat(pool, many, text_of(pool, tails[rng_below(rng, 5)]));
}

static void test_states(void **state)
{
    (void)state;
    uint32_t checked = 0, mask[(VOCAB + 31) / 32];
    for (uint32_t round = 0; round < rounds(40, 4000); round++) {
        struct rng rng = {round, 0};
        struct token_trie *trie = make_trie(round);
        struct token_classes *classes;
        struct regex_pool *pool;
        struct lexer *lexer;
        assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
        assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
        struct lexer_lexeme lexemes[] = {{make_string(pool, &rng), false},
                                         {make_string(pool, &rng), false},
                                         {text_of(pool, "ab7"), rng_below(&rng, 2) == 0}};
        assert_int_equal(lexer_new(pool, lexemes, 3, &lexer), STATUS_OK);
        uint32_t which[] = {0, 1, 2}, at;
        assert_int_equal(lexer_start(lexer, which, 1 + (uint32_t)rng_below(&rng, 3), &at),
                         STATUS_OK);
        for (uint32_t i = 0; i < 6 && at != LEXER_DEAD; i++) {
            checked += check_state(lexer, at, classes, mask);
            at = lexer_step(lexer, at, (uint8_t) "abxZ 7"[rng_below(&rng, 6)]);
        }
        lexer_free(lexer);
        regex_pool_free(pool);
        token_classes_free(classes);
        token_trie_free(trie);
    }
    printf("%u states\n", checked);
    assert_true(checked > 50);
}

/* --- the real vocabulary --- */

static struct slice vocab_word(const void *context, uint32_t id)
{
    enum vocab_kind kind = vocab_kind(context, id);
    bool is_text = kind == VOCAB_NORMAL || kind == VOCAB_USER_DEFINED || kind == VOCAB_BYTE;
    return is_text ? vocab_bytes(context, id) : (struct slice){NULL, 0};
}

/* Strings of JSON with and without a length, with SmolLM2's tokens. */
static void test_real_vocabulary(void **state)
{
    (void)state;
    char path[1024];
    model_path(path, sizeof path);
    struct gguf *gguf;
    struct vocab *vocab;
    struct token_trie *trie;
    struct token_classes *classes;
    struct regex_pool *pool;
    struct lexer *lexer;
    assert_int_equal(gguf_open(&gguf, path), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    struct token_trie_source source = {vocab_size(vocab), vocab_word, vocab};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct byte_set missing = token_trie_missing(trie);
    regex_pool_cut(pool, &missing);

    const struct regex_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0xd7ff}, {0xe000, 0x10ffff}};
    regex_node_id set = regex_chars(pool, plain, 4), quote = text_of(pool, "\"");
    struct lexer_lexeme lexemes[] = {
        {regex_cat(pool, quote,
                   regex_cat(pool, regex_repeat(pool, set, 0, REGEX_UNBOUNDED), quote)),
         false},
        {regex_cat(pool, quote, regex_cat(pool, regex_repeat(pool, set, 2, 6), quote)), false}};
    assert_int_equal(lexer_new(pool, lexemes, 2, &lexer), STATUS_OK);
    uint32_t *mask = calloc(token_trie_mask_words(trie), sizeof *mask);
    for (uint32_t which = 0; which < 2; which++) {
        uint32_t at;
        assert_int_equal(lexer_start(lexer, &which, 1, &at), STATUS_OK);
        assert_false(check_state(lexer, at, classes, mask)); /* before the quote */
        for (uint32_t i = 0; i < 3; i++) {
            at = lexer_step(lexer, at, (uint8_t) "\"ab"[i]);
            assert_true(check_state(lexer, at, classes, mask));
        }
    }
    const struct token_class *class = token_classes_find(classes, plain, 4);
    assert_non_null(class);
    check_class(trie, class, plain, 4);
    uint32_t rest = 0;
    for (uint32_t i = 0; i < class->rest.count; i++)
        rest += class->rest.nodes[i].token != TOKEN_TRIE_NONE;
    printf("%u nodes; the rest has %u, with %u tokens; %zu bytes\n", token_trie_node_count(trie),
           class->rest.count, rest, token_classes_bytes(classes));
    assert_true(rest * 25 < token_trie_vocab(trie));
    token_classes_release(classes, class);
    free(mask);
    lexer_free(lexer);
    regex_pool_free(pool);
    token_classes_free(classes);
    token_trie_free(trie);
    vocab_destroy(vocab);
    gguf_close(gguf);
}

/* --- the classes of a model --- */

static void test_places(void **state)
{
    (void)state;
    struct token_trie *trie = make_trie(1);
    struct token_classes *classes;
    assert_int_equal(token_classes_new(trie, &classes), STATUS_OK);
    struct regex_range range = {'a', 'z'};
    assert_null(token_classes_find(classes, &range, 1));
    const struct token_class *first = token_classes_make(classes, &range, 1);
    assert_ptr_equal(token_classes_find(classes, &range, 1), first);
    token_classes_release(classes, first);
    assert_true(token_classes_bytes(classes) > sizeof(struct token_class));

    /* The first one is held; the others push each other out, the least recently used one first. */
    enum { LAST = 3 * LIMIT_TOKEN_CLASSES, OLDEST = LAST - LIMIT_TOKEN_CLASSES + 1 };
    for (uint32_t i = 0; i < LAST; i++) {
        struct regex_range other = {1000 + i, 2000};
        const struct token_class *class = token_classes_make(classes, &other, 1);
        assert_non_null(class);
        token_classes_release(classes, class);
    }
    for (uint32_t i = 0; i < LAST; i++) {
        struct regex_range other = {1000 + i, 2000};
        const struct token_class *class = token_classes_find(classes, &other, 1);
        assert_int_equal(class != NULL, i >= OLDEST);
        if (class != NULL)
            token_classes_release(classes, class);
    }

    /* When all are held, a new one has no place. */
    const struct token_class *held[LIMIT_TOKEN_CLASSES - 1];
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES - 1; i++) {
        struct regex_range other = {3000 + i, 4000};
        held[i] = token_classes_make(classes, &other, 1);
        assert_non_null(held[i]);
    }
    struct regex_range last = {5000, 6000};
    assert_null(token_classes_make(classes, &last, 1));
    assert_ptr_equal(token_classes_find(classes, &range, 1), first);
    token_classes_release(classes, first);
    for (uint32_t i = 0; i < LIMIT_TOKEN_CLASSES - 1; i++)
        token_classes_release(classes, held[i]);
    const struct token_class *now = token_classes_make(classes, &last, 1);
    assert_non_null(now);
    token_classes_release(classes, now);
    token_classes_release(classes, first);
    token_classes_free(classes);
    token_trie_free(trie);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct token_trie *trie = make_trie(2);
    struct regex_range range = {'a', 'z'};
    bool is_made = false;
    uint32_t failures = 0;
    for (int n = 1; !is_made; n++, failures++) {
        struct token_classes *classes;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = token_classes_new(trie, &classes);
        const struct token_class *class =
            status == STATUS_OK ? token_classes_make(classes, &range, 1) : NULL;
        mem_hook_set(NULL, NULL);
        is_made = class != NULL && left > 0;
        if (class != NULL)
            token_classes_release(classes, class);
        token_classes_free(classes);
    }
    assert_true(failures > 5);
    token_trie_free(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),          cmocka_unit_test(test_states),
        cmocka_unit_test(test_real_vocabulary), cmocka_unit_test(test_places),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
