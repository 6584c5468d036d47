/* The tokenizer against 200 texts of the reference, round trips, hostile texts by counted steps,
 * made-up files for what is refused. Includes the .c file to read the step counters. */
#include "engine/text/tokenizer.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/gguf_writer.h"
#include "tests/kit/model_path.h"
#include "tests/kit/text_file.h"

static struct gguf *model_file;
static struct vocab *model_vocab;
static struct tokenizer *model_tokenizer;

static int setup_model(void **state)
{
    (void)state;
    char path[1024];
    model_path(path, sizeof path);
    if (gguf_open(&model_file, path) != STATUS_OK ||
        vocab_create(&model_vocab, model_file) != STATUS_OK ||
        tokenizer_create(&model_tokenizer, model_vocab, model_file) != STATUS_OK) {
        print_error("%s: %s\n", path, status_note()->message);
        return -1;
    }
    return 0;
}

static int teardown_model(void **state)
{
    (void)state;
    tokenizer_destroy(model_tokenizer);
    vocab_destroy(model_vocab);
    gguf_close(model_file);
    return 0;
}

/* Encodes with specials everywhere; the ids are the caller's. */
static uint32_t *encode_all(struct slice text, size_t *count)
{
    uint32_t *ids = malloc((text.length + 1) * sizeof *ids);
    struct tokenizer_span all = tokenizer_everywhere(text);
    assert_non_null(ids);
    assert_int_equal(tokenizer_encode(model_tokenizer, text, &all, 1, ids, text.length + 1, count),
                     STATUS_OK);
    /* What is refused without being encoded is never what would have fitted. */
    assert_true(tokenizer_fewest(model_tokenizer, text) <= *count);
    return ids;
}

static void fixtures_agree(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file("tests/parity/smollm2/tokenizer.json", 0, &error);
    assert_non_null(root);
    json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 200);
    size_t right = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);
        json_t *text = json_object_get(one, "text");
        json_t *want = json_object_get(one, "ids_plain");
        struct slice bytes = {json_string_value(text), json_string_length(text)};
        size_t count;
        uint32_t *ids = encode_all(bytes, &count);
        bool equal = count == json_array_size(want);
        for (size_t k = 0; equal && k < count; k++)
            equal = (json_int_t)ids[k] == json_integer_value(json_array_get(want, k));
        if (!equal)
            print_error("case %zu differs: %s\n", i, bytes.bytes);
        right += equal;
        free(ids);
    }
    json_decref(root);
    assert_int_equal(right, 200);
}

/* --- round trips --- */

static bool has_token(unsigned char byte)
{
    return model_tokenizer->byte_ids[byte] != VOCAB_NONE;
}

static void expect_round_trip(struct slice text)
{
    size_t count;
    size_t at = 0;
    uint32_t *ids = encode_all(text, &count);
    for (size_t i = 0; i < count; i++) {
        struct slice token = vocab_bytes(model_vocab, ids[i]);
        for (size_t k = 0; k < token.length; k++, at++) {
            /* The model has no token for 21 bytes, among them some of ASCII: those are left out. */
            while (at < text.length && !has_token((unsigned char)text.bytes[at]))
                at++;
            assert_true(at < text.length);
            assert_int_equal(token.bytes[k], text.bytes[at]);
        }
    }
    while (at < text.length && !has_token((unsigned char)text.bytes[at]))
        at++;
    assert_int_equal(at, text.length);
    free(ids);
}

static void random_bytes_round_trip(void **state)
{
    (void)state;
    struct rng rng = {.seed = 7};
    char bytes[256];
    for (int round = 0; round < 3000; round++) {
        size_t length = rng_below(&rng, sizeof bytes + 1);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (char)rng_below(&rng, 256);
        expect_round_trip((struct slice){bytes, length});
    }
}

static void random_texts_round_trip(void **state)
{
    (void)state;
    static const char *const words[] = {" ",
                                        "\n",
                                        "a",
                                        "the",
                                        "1",
                                        "'s",
                                        "\xc3\xa9",
                                        "\xcc\x81",
                                        "\xf0\x9f\x99\x82",
                                        "\xc2\x85",
                                        "<|im_end|>",
                                        "<|",
                                        "\xe2\x80\x83",
                                        "\xed\xa0\x80"};
    struct rng rng = {.seed = 8};
    char bytes[1024];
    for (int round = 0; round < 3000; round++) {
        size_t length = 0;
        for (uint64_t n = rng_below(&rng, 60); n > 0; n--) {
            const char *word = words[rng_below(&rng, sizeof words / sizeof words[0])];
            memcpy(bytes + length, word, strlen(word));
            length += strlen(word);
        }
        expect_round_trip((struct slice){bytes, length});
    }
}

static void all_bytes_but_21_have_a_token(void **state)
{
    (void)state;
    int missing = 0;
    for (int byte = 0; byte < 256; byte++)
        missing += !has_token((unsigned char)byte);
    assert_int_equal(missing, 21);
    assert_false(has_token(TEXT_FILE_MISSING_BYTE));
    /* Left out before merging: what stood beside it may merge. */
    size_t count;
    uint32_t *ids = encode_all(SLICE("!\x04!"), &count);
    assert_int_equal(count, 1);
    assert_true(slice_is(vocab_bytes(model_vocab, ids[0]), "!!"));
    free(ids);
}

/* --- control tokens and spans --- */

static size_t count_of(const uint32_t *ids, size_t count, uint32_t id)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += ids[i] == id;
    return found;
}

static void expect_ends(const char *text, const struct tokenizer_span *spans, size_t span_count,
                        size_t want)
{
    uint32_t ids[128];
    size_t count;
    assert_int_equal(
        tokenizer_encode(model_tokenizer, slice_of(text), spans, span_count, ids, 128, &count),
        STATUS_OK);
    assert_int_equal(count_of(ids, count, 2), want);
}

static void control_tokens_are_matched_inside_spans_only(void **state)
{
    (void)state;
    const char *text = "<|im_end|>x<|im_end|>"; /* 10 + 1 + 10 bytes */
    expect_ends(text, NULL, 0, 0);
    expect_ends(text, (struct tokenizer_span[]){{0, 21}}, 1, 2);
    expect_ends(text, (struct tokenizer_span[]){{0, 10}}, 1, 1);
    expect_ends(text, (struct tokenizer_span[]){{0, 9}}, 1, 0);
    expect_ends(text, (struct tokenizer_span[]){{1, 20}}, 1, 1);
    expect_ends(text, (struct tokenizer_span[]){{0, 11}, {12, 9}}, 2, 1);
    expect_ends(text, (struct tokenizer_span[]){{0, 10}, {11, 10}}, 2, 2);
    expect_ends(text, (struct tokenizer_span[]){{0, 0}, {11, 10}}, 2, 1);
    /* A match over two spans that touch is not inside one: whoever means one joins them. */
    expect_ends(text, (struct tokenizer_span[]){{0, 5}, {5, 5}}, 2, 0);
}

/* --- made-up files --- */

struct made {
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    struct tokenizer *tokenizer;
};

static enum status make(struct made *made, const struct text_file *file)
{
    text_file_make(file, &made->bytes);
    assert_int_equal(gguf_parse(&made->gguf, made->bytes.bytes, made->bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&made->vocab, made->gguf), STATUS_OK);
    return tokenizer_create(&made->tokenizer, made->vocab, made->gguf);
}

static void unmake(struct made *made)
{
    tokenizer_destroy(made->tokenizer);
    vocab_destroy(made->vocab);
    gguf_close(made->gguf);
    buffer_deinit(&made->bytes);
}

/* Encodes and writes the tokens with | between them. */
static void expect_tokens(const struct made *made, const char *text, const char *want)
{
    uint32_t ids[128];
    size_t count;
    char got[1024];
    size_t length = 0;
    assert_int_equal(tokenizer_encode(made->tokenizer, slice_of(text), NULL, 0, ids, 128, &count),
                     STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        struct slice token = vocab_bytes(made->vocab, ids[i]);
        if (i > 0)
            got[length++] = '|';
        memcpy(got + length, token.bytes, token.length);
        length += token.length;
    }
    got[length] = '\0';
    assert_string_equal(got, want);
}

static void user_defined_tokens_are_matched_anywhere(void **state)
{
    (void)state;
    struct text_file file = {
        .merges = {"a b", "h i"},
        .extras = {{"  ", 4}, {"    ", 4}, {"<x>", 4}, {"<x>y", 3}, {"hidden", 5 /* unused */}}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "ab<x>ab", "ab|<x>|ab");
    expect_tokens(&made, "     ab", "    | |ab"); /* the longest first */
    expect_tokens(&made, "   ab", "  | |ab");
    expect_tokens(&made, "<x>y", "<x>|y"); /* the longer one is control: not here */
    expect_tokens(&made, "hidden", "hi|d|d|e|n");
    unmake(&made);
}

static void pre_splits_differ_in_digits(void **state)
{
    (void)state;
    /* U+0120 is the blank, U+00C2 U+00B2 the bytes of superscript two. */
    struct text_file file = {.merges = {"1 2", "\xc4\xa0 1", "\xc4\xa0 \xc4\xa0", "\xc4\xa0 a"}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "12", "12");
    expect_tokens(&made, " 1", " 1");
    expect_tokens(&made, "  1", " | 1"); /* the last blank goes with the number */
    expect_tokens(&made, "  a", " | a");
    expect_tokens(&made, "  ", "  ");
    unmake(&made);
    file.pre = "smollm";
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "12", "1|2");
    expect_tokens(&made, " 1", " |1");
    expect_tokens(&made, "  1", "  |1");
    expect_tokens(&made, "  a", " | a");
    expect_tokens(&made, "  ", "  ");
    unmake(&made);
}

static void invalid_bytes_are_pieces(void **state)
{
    (void)state;
    /* The alphabet's characters of the bytes 80 and 81 are U+0122 and U+0123. */
    struct text_file file = {.merges = {"\xc4\xa2 \xc4\xa3", "a \xc4\xa2"}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "a\x80\x81z", "a|\x80\x81|z");
    expect_tokens(&made, "a\x80", "a|\x80"); /* never merges with the valid text beside it */
    unmake(&made);
}

static void byte_tokens_fill_in(void **state)
{
    (void)state;
    struct text_file file = {.extras = {{"<0x04>", 6}}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "a\x04", "a|\x04");
    unmake(&made);
}

static void expect_refused(const struct text_file *file, enum status want, const char *message)
{
    struct made made;
    assert_int_equal(make(&made, file), want);
    assert_null(made.tokenizer);
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("'%s' does not say '%s'", status_note()->message, message);
    unmake(&made);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    expect_refused(&(struct text_file){.pre = "no-such"}, STATUS_UNSUPPORTED, "'no-such'");
    expect_refused(&(struct text_file){.merges = {"ab"}}, STATUS_CORRUPT, "merge 0");
    expect_refused(&(struct text_file){.merges = {"a b", "a"}}, STATUS_CORRUPT, "merge 1");
    expect_refused(&(struct text_file){.merges = {"ab c"}}, STATUS_CORRUPT, "vocabulary");
}

static void a_merge_twice_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"a b", "a b"};
    static const char *const tokens[] = {"a", "b", "ab"};
    for (uint64_t count = 1; count <= 2; count++) {
        struct gguf_writer writer;
        struct made made;
        gguf_writer_init(&writer);
        gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
        gguf_writer_string(&writer, "tokenizer.ggml.pre", "gpt-2");
        gguf_writer_strings(&writer, "tokenizer.ggml.tokens", tokens, 3);
        gguf_writer_strings(&writer, "tokenizer.ggml.merges", rows, count);
        gguf_writer_finish(&writer, &made.bytes);
        gguf_writer_deinit(&writer);
        assert_int_equal(gguf_parse(&made.gguf, made.bytes.bytes, made.bytes.length), STATUS_OK);
        assert_int_equal(vocab_create(&made.vocab, made.gguf), STATUS_OK);
        assert_int_equal(tokenizer_create(&made.tokenizer, made.vocab, made.gguf),
                         count == 1 ? STATUS_OK : STATUS_CORRUPT);
        unmake(&made);
    }
}

/* Of a pre-split that ignores merges, a piece that is a token is taken whole. */
static void a_whole_piece_needs_no_merges(void **state)
{
    (void)state;
    /* No merge makes "abc" of "ab" and "c". */
    struct text_file file = {.merges = {"a b"},
                             .extras = {{"abc", 1},
                                        {"\xc4\xa0"
                                         "abc",
                                         3}}};
    struct made made;
    file.pre = "llama-bpe";
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "abc", "abc");
    expect_tokens(&made, "abcd", "ab|c|d");
    expect_tokens(&made, " abc", " |ab|c"); /* a control token is not taken */
    unmake(&made);
    file.pre = "qwen2";
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "abc", "ab|c");
    unmake(&made);
}

static void a_normal_form_is_taken(void **state)
{
    (void)state;
    /* U+00C3 U+00A9 in the alphabet: the two bytes of U+00E9. */
    struct text_file file = {.pre = "qwen2", .merges = {"\xc3\x83 \xc2\xa9"}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "e\xcc\x81", "\xc3\xa9");
    expect_tokens(&made, "xe\xcc\x81\x80", "x|\xc3\xa9|\x80");
    assert_int_equal(tokenizer_fewest(made.tokenizer, SLICE("e\xcc\x81")), 0);
    assert_int_equal(tokenizer_fewest(made.tokenizer, SLICE("xxe\xcc\x81")), 2);
    /* U+0958 becomes two characters of three bytes, so six tokens. */
    expect_tokens(&made, "\xe0\xa5\x98", "\xe0|\xa4|\x95|\xe0|\xa4|\xbc");
    assert_true(tokenizer_most(made.tokenizer, SLICE("\xe0\xa5\x98")) >= 6);
    unmake(&made);
    file.pre = "llama-bpe";
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "e\xcc\x81", "e|\xcc|\x81");
    unmake(&made);
}

/* --- bounds --- */

static void capacity_is_kept(void **state)
{
    (void)state;
    uint32_t ids[4];
    size_t count;
    struct slice text = SLICE("Hello, world!"); /* 4 tokens */
    assert_int_equal(tokenizer_encode(model_tokenizer, text, NULL, 0, ids, 4, &count), STATUS_OK);
    assert_int_equal(count, 4);
    assert_int_equal(tokenizer_encode(model_tokenizer, text, NULL, 0, ids, 3, &count),
                     STATUS_LIMIT);
    assert_int_equal(count, 0);
    assert_int_equal(tokenizer_encode(model_tokenizer, (struct slice){0}, NULL, 0, NULL, 0, &count),
                     STATUS_OK);
    assert_int_equal(count, 0);
    struct tokenizer_span all = tokenizer_everywhere(SLICE("<|im_end|>"));
    assert_int_equal(
        tokenizer_encode(model_tokenizer, SLICE("<|im_end|>"), &all, 1, NULL, 0, &count),
        STATUS_LIMIT);
}

enum { HOSTILE_BYTES = 1 << 20 };

static struct slice hostile_text(const char *unit)
{
    static char bytes[HOSTILE_BYTES];
    size_t length = strlen(unit);
    for (size_t i = 0; i < HOSTILE_BYTES; i++)
        bytes[i] = unit[i % length];
    return (struct slice){bytes, HOSTILE_BYTES - HOSTILE_BYTES % length};
}

/* All steps of one text: bytes, matches, pieces, and the heap's. */
static uint64_t hostile_steps(struct slice text, size_t capacity, enum status want)
{
    struct tokenizer_span all = tokenizer_everywhere(text);
    struct tokenizer_encoding encoding = {.capacity = capacity};
    encoding.ids = malloc(capacity * sizeof *encoding.ids);
    assert_non_null(encoding.ids);
    assert_int_equal(encode_begin(&encoding, model_tokenizer, 0), STATUS_OK);
    assert_int_equal(encode_text(&encoding, text, &all, 1), want);
    uint64_t steps =
        encoding.steps + encoding.scratch.steps + tokenizer_presplit_steps(encoding.cut);
    encode_end(&encoding);
    free(encoding.ids);
    return steps;
}

static void hostile_texts_cost_n_log_n(void **state)
{
    (void)state;
    static const char *const units[] = {
        "a",   " ",          "\xcc\x81", "\x80",         "<",        "<|im_start|",
        "1",   "'",          "\n",       "\xe2\x80\x83", "\xf0\x9f", " a",
        "  1", "<|im_end|>", "ab\xc3",   "\t\r",         "'re",
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct slice text = hostile_text(units[i]);
        uint64_t steps = hostile_steps(text, HOSTILE_BYTES, STATUS_OK);
        /* Two candidates a byte, each up and down a heap of 21 floors; the longest special has 17
         * bytes; one look, one match and one piece a byte at most. */
        if (steps > (uint64_t)HOSTILE_BYTES * (2 * (2 * 21 + 2) + 17 + 4))
            fail_msg("'%s' repeated costs %llu steps", units[i], (unsigned long long)steps);
    }
}

/* In a long text the ids of pieces are remembered: the same ids as without. */
static void remembered_pieces_are_the_same(void **state)
{
    (void)state;
    static const char *const words[] = {" the", "\n", "page", " \xc3\xa9t\xc3\xa9",
                                        "4",    ".",  "\x04", "()"};
    enum { BYTES = 4 * TOKENIZER_CACHE_TEXT };
    struct rng rng = {.seed = 9};
    char *bytes = malloc(BYTES + 8);
    size_t length = 0;
    assert_non_null(bytes);
    while (length < BYTES) {
        const char *word = words[rng_below(&rng, sizeof words / sizeof words[0])];
        memcpy(bytes + length, word, strlen(word));
        length += strlen(word);
    }
    struct slice text = {bytes, length};
    size_t count;
    uint32_t *ids = encode_all(text, &count);
    struct tokenizer_encoding encoding = {.capacity = length};
    encoding.ids = malloc(length * sizeof *encoding.ids);
    assert_non_null(encoding.ids);
    assert_int_equal(encode_begin(&encoding, model_tokenizer, 0), STATUS_OK);
    assert_int_equal(encode_text(&encoding, text, NULL, 0), STATUS_OK);
    assert_int_equal(encoding.count, count);
    assert_memory_equal(encoding.ids, ids, count * sizeof *ids);
    encode_end(&encoding);
    free(encoding.ids);
    free(ids);
    free(bytes);
}

static void what_cannot_fit_is_not_merged(void **state)
{
    (void)state;
    struct slice text = hostile_text("a");
    uint64_t steps = hostile_steps(text, 64, STATUS_LIMIT);
    assert_true(steps <= 3 * (uint64_t)HOSTILE_BYTES);
}

/* --- failing memory --- */

/* One "word" of 200 kB is known to be too long for 8,192 tokens by one look at its bytes. */
static void what_cannot_fit_is_known_before(void **state)
{
    (void)state;
    static char word[200000];
    assert_int_equal(tokenizer_fewest(model_tokenizer, SLICE("")), 0);
    assert_int_equal(tokenizer_fewest(model_tokenizer, SLICE("a")), 1);
    assert_int_equal(tokenizer_fewest(model_tokenizer, SLICE("\x04")), 0); /* no token */
    for (size_t i = 0; i < sizeof word; i++)
        word[i] = (char)('a' + i * 7 % 26);
    assert_true(tokenizer_fewest(model_tokenizer, (struct slice){word, sizeof word}) > 8192);
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    struct text_file file = {.merges = {"a b"}, .extras = {{"<s>", 3}}};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    struct tokenizer *tokenizer = NULL;
    int n = 0;
    for (;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = tokenizer_create(&tokenizer, made.vocab, made.gguf);
        mem_hook_set(NULL, NULL);
        if (left >= 0)
            break; /* nothing failed any more */
        if (status == STATUS_OK) {
            /* Without memory for its compiler PCRE2 interprets. */
            tokenizer_destroy(tokenizer);
            continue;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(tokenizer);
    }
    assert_true(n >= 8);
    for (n = 0;; n++) {
        uint32_t ids[64];
        size_t count;
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status =
            tokenizer_encode(tokenizer, SLICE("abab <s>"), NULL, 0, ids, 64, &count);
        mem_hook_set(NULL, NULL);
        if (left >= 0)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_int_equal(count, 0);
    }
    assert_true(n >= 3);
    tokenizer_destroy(tokenizer);
    unmake(&made);
}

static int count_allocations(void *context, size_t bytes)
{
    (void)bytes;
    ++*(int *)context;
    return 0;
}

/* The same ids as alone, and no memory is taken for a text that is no longer than one before. */
static void work_is_used_again(void **state)
{
    (void)state;
    static const char *const texts[] = {("A longer text, with \"several\" words: 1234567890 and "
                                         "unbelievable-abcdefghijklmnopqrstuvw."),
                                        "\"name\": \"",
                                        "}, {\"identifier\": ",
                                        "\xff\xfe",
                                        "",
                                        "another of 12 words"};
    struct tokenizer_work *work;
    int allocations = 0;
    assert_int_equal(tokenizer_work_create(&work, model_tokenizer), STATUS_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint32_t ids[128], expected[128];
        size_t count, expected_count;
        const struct slice text = slice_of(texts[i]);
        assert_int_equal(
            tokenizer_encode(model_tokenizer, text, NULL, 0, expected, 128, &expected_count),
            STATUS_OK);
        mem_hook_set(count_allocations, &allocations);
        assert_int_equal(tokenizer_work_encode(work, text, ids, 128, &count), STATUS_OK);
        mem_hook_set(NULL, NULL);
        assert_int_equal(count, expected_count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        assert_true(i > 0 || allocations > 0);
        allocations = i == 0 ? 0 : allocations;
    }
    assert_int_equal(allocations, 0);
    tokenizer_work_destroy(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_agree),
        cmocka_unit_test(random_bytes_round_trip),
        cmocka_unit_test(random_texts_round_trip),
        cmocka_unit_test(all_bytes_but_21_have_a_token),
        cmocka_unit_test(control_tokens_are_matched_inside_spans_only),
        cmocka_unit_test(user_defined_tokens_are_matched_anywhere),
        cmocka_unit_test(pre_splits_differ_in_digits),
        cmocka_unit_test(invalid_bytes_are_pieces),
        cmocka_unit_test(byte_tokens_fill_in),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(a_merge_twice_is_refused),
        cmocka_unit_test(a_whole_piece_needs_no_merges),
        cmocka_unit_test(a_normal_form_is_taken),
        cmocka_unit_test(capacity_is_kept),
        cmocka_unit_test(hostile_texts_cost_n_log_n),
        cmocka_unit_test(remembered_pieces_are_the_same),
        cmocka_unit_test(what_cannot_fit_is_not_merged),
        cmocka_unit_test(what_cannot_fit_is_known_before),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(work_is_used_again),
    };
    return cmocka_run_group_tests(tests, setup_model, teardown_model);
}
