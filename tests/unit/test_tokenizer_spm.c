/* SentencePiece's BPE: ids of the library over a small vocabulary that it trained, a slow search
 * for the best pair over random vocabularies, memory and steps of long texts, and what is refused.
 * Includes the .c file to read the counters. */
#include "engine/text/tokenizer_spm.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/text/tokenizer.h"
#include "tests/kit/piece_file.h"
#include "tests/kit/rounds.h"

#define MARK "\xe2\x96\x81" /* U+2581 */

struct made {
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    struct tokenizer *tokenizer;
};

static enum status make_from(struct made *made, struct gguf_writer *writer)
{
    gguf_writer_finish(writer, &made->bytes);
    gguf_writer_deinit(writer);
    made->tokenizer = NULL;
    assert_int_equal(gguf_parse(&made->gguf, made->bytes.bytes, made->bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&made->vocab, made->gguf), STATUS_OK);
    return tokenizer_create(&made->tokenizer, made->vocab, made->gguf);
}

static enum status make(struct made *made, const struct piece_file *file)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    piece_file_keys(&writer, file);
    return make_from(made, &writer);
}

static void unmake(struct made *made)
{
    tokenizer_destroy(made->tokenizer);
    vocab_destroy(made->vocab);
    gguf_close(made->gguf);
    buffer_deinit(&made->bytes);
}

/* Encodes and writes the tokens with | between them. Control tokens are matched if asked for. */
static void expect_tokens(const struct made *made, const char *text, bool with_control,
                          const char *want)
{
    uint32_t ids[128];
    size_t count;
    char got[1024];
    size_t length = 0;
    struct tokenizer_span all = tokenizer_everywhere(slice_of(text));
    assert_int_equal(tokenizer_encode(made->tokenizer, slice_of(text), &all, with_control ? 1 : 0,
                                      ids, 128, &count),
                     STATUS_OK);
    assert_true(tokenizer_fewest(made->tokenizer, slice_of(text)) <= count);
    assert_true(tokenizer_most(made->tokenizer, slice_of(text)) >= count);
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

/* --- the library's ids --- */

/* The vocabulary of the fixture, as a file. */
static void library_keys(struct gguf_writer *writer, json_t *pieces)
{
    size_t count = json_array_size(pieces);
    const char **texts = calloc(count, sizeof *texts);
    float *scores = calloc(count, sizeof *scores);
    int32_t *kinds = calloc(count, sizeof *kinds);
    assert_true(texts != NULL && scores != NULL && kinds != NULL);
    for (size_t i = 0; i < count; i++) {
        json_t *piece = json_array_get(pieces, i);
        texts[i] = json_string_value(json_array_get(piece, 0));
        scores[i] = (float)json_number_value(json_array_get(piece, 1));
        kinds[i] = (int32_t)json_integer_value(json_array_get(piece, 2));
    }
    gguf_writer_string(writer, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", texts, count);
    gguf_writer_array(writer, "tokenizer.ggml.scores", GGUF_WRITER_F32, count, scores,
                      count * sizeof *scores);
    gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, count, kinds,
                      count * sizeof *kinds);
    free(kinds);
    free(scores);
    free(texts);
}

static size_t library_case(json_t *model, json_t *texts)
{
    struct gguf_writer writer;
    struct made made;
    size_t wrong = 0;
    gguf_writer_init(&writer);
    library_keys(&writer, json_object_get(model, "pieces"));
    gguf_writer_bool(&writer, "tokenizer.ggml.add_space_prefix",
                     json_is_true(json_object_get(model, "adds_blank")));
    assert_int_equal(make_from(&made, &writer), STATUS_OK);
    json_t *all_ids = json_object_get(model, "ids");
    assert_int_equal(json_array_size(all_ids), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        static uint32_t ids[4096];
        size_t count;
        json_t *text = json_array_get(texts, i);
        json_t *want = json_array_get(all_ids, i);
        struct slice bytes = {json_string_value(text), json_string_length(text)};
        assert_int_equal(tokenizer_encode(made.tokenizer, bytes, NULL, 0, ids, 4096, &count),
                         STATUS_OK);
        bool equal = count == json_array_size(want);
        for (size_t k = 0; equal && k < count; k++)
            equal = (json_int_t)ids[k] == json_integer_value(json_array_get(want, k));
        if (!equal)
            print_error("%s: text %zu differs: %s\n",
                        json_string_value(json_object_get(model, "name")), i, bytes.bytes);
        wrong += !equal;
    }
    unmake(&made);
    return wrong;
}

static void the_library_agrees(void **state)
{
    (void)state;
    json_t *root = json_load_file("tests/parity/tokenizers/pieces.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    json_t *models = json_object_get(root, "models");
    size_t wrong = 0;
    assert_true(json_array_size(models) >= 2);
    assert_true(json_array_size(json_object_get(root, "texts")) >= 100);
    for (size_t i = 0; i < json_array_size(models); i++)
        wrong += library_case(json_array_get(models, i), json_object_get(root, "texts"));
    json_decref(root);
    assert_int_equal(wrong, 0);
}

/* --- a slow search --- */

enum { SLOW_PIECES = 60, SLOW_SYMBOLS = 64, SLOW_TEXT = 256 };

struct slow {
    struct piece_file_piece pieces[SLOW_PIECES];
    char texts[SLOW_PIECES][32];
    uint32_t count;
    bool has_bytes;
};

static const char *const slow_letters[] = {"a", "b", "c", MARK, "\xc3\xa9", ">"};
enum { SLOW_LETTERS = sizeof slow_letters / sizeof slow_letters[0] };

static void slow_append(char text[SLOW_TEXT], const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, SLOW_TEXT - length, "%s", more);
}

static bool slow_find(const struct slow *slow, const char *text, size_t length, uint32_t *out)
{
    for (uint32_t i = 0; i < slow->count; i++) {
        if (strlen(slow->texts[i]) == length && memcmp(slow->texts[i], text, length) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* Pieces of one to four letters, some of them missing; scores repeat. */
static void slow_fill(struct slow *slow, struct rng *rng)
{
    slow->count = 0;
    slow->has_bytes = rng_below(rng, 2) == 0;
    for (uint32_t n = 0; n < SLOW_PIECES; n++) {
        char text[SLOW_TEXT] = "";
        uint32_t known;
        for (uint64_t k = 1 + rng_below(rng, 4); k > 0; k--)
            slow_append(text, slow_letters[rng_below(rng, SLOW_LETTERS)]);
        if (slow_find(slow, text, strlen(text), &known))
            continue;
        snprintf(slow->texts[slow->count], sizeof slow->texts[0], "%.31s", text);
        slow->pieces[slow->count] = (struct piece_file_piece){
            slow->texts[slow->count], -(float)rng_below(rng, 12), VOCAB_NORMAL};
        slow->count++;
    }
}

/* Merges the best pair of all, again and again, and writes the ids. */
static size_t slow_encode(const struct slow *slow, const char *text, uint32_t *ids)
{
    size_t begins[SLOW_SYMBOLS + 1];
    size_t count = 0;
    for (size_t at = 0; at < strlen(text); count++) {
        begins[count] = at;
        at += utf8_sequence_length(text + at, strlen(text) - at);
    }
    begins[count] = strlen(text);
    for (;;) {
        size_t best = SIZE_MAX;
        float score = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            uint32_t piece;
            if (!slow_find(slow, text + begins[i], begins[i + 2] - begins[i], &piece))
                continue;
            if (best == SIZE_MAX || slow->pieces[piece].score > score) {
                best = i;
                score = slow->pieces[piece].score;
            }
        }
        if (best == SIZE_MAX)
            break;
        memmove(begins + best + 1, begins + best + 2, (count - best - 1) * sizeof begins[0]);
        count--;
    }
    size_t written = 0;
    bool is_unknown = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t piece;
        bool found = slow_find(slow, text + begins[i], begins[i + 1] - begins[i], &piece);
        if (found)
            ids[written++] = 3 + (slow->has_bytes ? 256u : 0u) + piece;
        for (size_t k = begins[i]; !found && slow->has_bytes && k < begins[i + 1]; k++)
            ids[written++] = 3 + (uint32_t)(unsigned char)text[k];
        if (!found && !slow->has_bytes && !is_unknown)
            ids[written++] = 0;
        is_unknown = !found;
    }
    return written;
}

static void the_slow_search_agrees(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    static struct slow slow;
    for (uint32_t round = 0; round < rounds(60, 2000); round++) {
        struct made made;
        slow_fill(&slow, &rng);
        const struct piece_file file = {.pieces = slow.pieces,
                                        .piece_count = slow.count,
                                        .has_bytes = slow.has_bytes,
                                        .adds_no_blank = true};
        assert_int_equal(make(&made, &file), STATUS_OK);
        for (int n = 0; n < 100; n++) {
            char text[SLOW_TEXT] = "";
            char marked[SLOW_TEXT] = "";
            uint32_t want[256];
            uint32_t got[256];
            size_t count;
            for (uint64_t k = rng_below(&rng, SLOW_SYMBOLS); k > 0; k--) {
                const char *letter = slow_letters[rng_below(&rng, SLOW_LETTERS)];
                bool is_mark = strcmp(letter, MARK) == 0;
                slow_append(marked, letter);
                /* A text may have the mark itself. */
                slow_append(text, is_mark && rng_below(&rng, 8) > 0 ? " " : letter);
            }
            size_t want_count = slow_encode(&slow, marked, want);
            assert_int_equal(
                tokenizer_encode(made.tokenizer, slice_of(text), NULL, 0, got, 256, &count),
                STATUS_OK);
            if (count != want_count || memcmp(got, want, count * sizeof got[0]) != 0)
                fail_msg("round %u: '%s' has %zu tokens, not %zu, or others", round, text, count,
                         want_count);
        }
        unmake(&made);
    }
}

/* --- kinds of pieces --- */

static void kinds_have_their_meaning(void **state)
{
    (void)state;
    static const struct piece_file_piece pieces[] = {
        {"a", -9, VOCAB_NORMAL},       {"b", -9, VOCAB_NORMAL},
        {MARK, -9, VOCAB_NORMAL},      {"ab", -1, VOCAB_NORMAL},
        {MARK "ab", -2, VOCAB_NORMAL}, {"<x>", 0, VOCAB_USER_DEFINED},
        {"<x>ab", 0, VOCAB_CONTROL},   {"aa", -3, VOCAB_UNUSED},
        {"aaa", -4, VOCAB_UNUSED},     {"bb" MARK, -5, VOCAB_NORMAL},
        {"bb", -6, VOCAB_NORMAL},
    };
    struct piece_file file = {
        .pieces = pieces, .piece_count = sizeof pieces / sizeof pieces[0], .has_bytes = true};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_UNSUPPORTED); /* "aaa" is a, aa or aa, a */
    assert_non_null(strstr(status_note()->message, "unused token"));
    unmake(&made);
    struct piece_file_piece fewer[sizeof pieces / sizeof pieces[0]];
    memcpy(fewer, pieces, sizeof pieces);
    fewer[8].text = "zz";
    file.pieces = fewer;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "", true, "");
    expect_tokens(&made, "ab", true, " ab");
    expect_tokens(&made, "ab ab", true, " ab| ab");
    expect_tokens(&made, " ab", true, " | ab"); /* the text's own blank is kept */
    expect_tokens(&made, "ab" MARK "ab", true, " ab| ab");
    /* A special takes no blank; the text behind it has one. */
    expect_tokens(&made, "<x>ab", false, "<x>| ab");
    expect_tokens(&made, "<x>ab", true, "<x>ab");
    expect_tokens(&made, "<s>ab", true, "<s>| ab");
    expect_tokens(&made, "<s>", true, "<s>");
    expect_tokens(&made, "bb b", true, " |bb |b"); /* "bb" goes with a blank: no cut there */
    /* An unused piece is merged, and then divided again. */
    expect_tokens(&made, "baa", true, " |b|a|a");
    expect_tokens(&made, "\xff", true, " |\xff");
    expect_tokens(&made, "<0x0A>", true, " |<|0|x|0|A|>");
    unmake(&made);
    file.adds_no_blank = true;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "ab ab", true, "ab| ab");
    expect_tokens(&made, "<s>ab", true, "<s>|ab");
    unmake(&made);
}

static void runs_of_strange_characters_are_one_unknown_token(void **state)
{
    (void)state;
    static const struct piece_file_piece pieces[] = {{"a", -1, VOCAB_NORMAL},
                                                     {MARK, -2, VOCAB_NORMAL}};
    const struct piece_file file = {.pieces = pieces, .piece_count = 2, .adds_no_blank = true};
    struct made made;
    assert_int_equal(make(&made, &file), STATUS_OK);
    expect_tokens(&made, "axyza\xc3\xa9 x", true, "a|<unk>|a|<unk>| |<unk>");
    unmake(&made);
}

/* --- bounds --- */

/* Encodes a text, and once more with words remembered: the same ids. */
static uint64_t encode_steps(const struct tokenizer_spm *spm, struct slice text, size_t *room)
{
    struct tokenizer_spm_work again;
    size_t again_count = 0;
    uint32_t *again_ids = malloc((2 * text.length + 1) * sizeof *again_ids);
    struct tokenizer_spm_work work;
    size_t count = 0;
    uint32_t *ids = malloc((2 * text.length + 1) * sizeof *ids);
    assert_non_null(ids);
    tokenizer_spm_work_init(&work, 0);
    assert_int_equal(tokenizer_spm_encode(spm, &work, text, ids, 2 * text.length + 1, &count),
                     STATUS_OK);
    uint64_t steps = work.scratch.steps;
    *room = work.capacity;
    assert_non_null(again_ids);
    tokenizer_spm_work_init(&again, text.length);
    assert_non_null(again.cache.slots);
    assert_int_equal(
        tokenizer_spm_encode(spm, &again, text, again_ids, 2 * text.length + 1, &again_count),
        STATUS_OK);
    assert_int_equal(again_count, count);
    assert_memory_equal(again_ids, ids, count * sizeof *ids);
    tokenizer_spm_work_deinit(&again);
    free(again_ids);
    tokenizer_spm_work_deinit(&work);
    free(ids);
    return steps;
}

static void long_texts_need_little_memory(void **state)
{
    (void)state;
    enum { BYTES = 200000 };
    static const struct piece_file_piece pieces[] = {
        {"a", -9, VOCAB_NORMAL},      {MARK, -9, VOCAB_NORMAL},     {"aa", -1, VOCAB_NORMAL},
        {MARK "a", -2, VOCAB_NORMAL}, {"aaaa", -3, VOCAB_NORMAL},   {MARK MARK, -4, VOCAB_NORMAL},
        {">", -5, VOCAB_NORMAL},      {">" MARK, -6, VOCAB_NORMAL},
    };
    const struct piece_file file = {.pieces = pieces, .piece_count = 8, .has_bytes = true};
    static const char *const units[] = {"aaaaa ", "aa\n ", "\xe4\xb8\xad ", "a", " ", "> ", "\x80"};
    struct gguf_writer writer;
    struct made made;
    struct tokenizer_spm *spm;
    gguf_writer_init(&writer);
    piece_file_keys(&writer, &file);
    assert_int_equal(make_from(&made, &writer), STATUS_OK);
    assert_int_equal(tokenizer_spm_create(&spm, made.vocab, made.gguf), STATUS_OK);
    char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t room;
        for (size_t k = 0; k < BYTES; k++)
            bytes[k] = units[i][k % strlen(units[i])];
        uint64_t steps = encode_steps(spm, (struct slice){bytes, BYTES}, &room);
        /* Two candidates a character, each up and down a heap of 18 floors. */
        assert_true(steps <= (uint64_t)BYTES * 2 * (2 * 18 + 2));
        if (i < 3)
            assert_true(room <= 128); /* a part is one word */
    }
    free(bytes);
    tokenizer_spm_destroy(spm);
    unmake(&made);
}

static void capacity_is_kept(void **state)
{
    (void)state;
    static const struct piece_file_piece pieces[] = {{"a", -1, VOCAB_NORMAL},
                                                     {MARK, -2, VOCAB_NORMAL}};
    const struct piece_file file = {.pieces = pieces, .piece_count = 2, .has_bytes = true};
    struct made made;
    uint32_t ids[4];
    size_t count;
    assert_int_equal(make(&made, &file), STATUS_OK);
    struct slice text = SLICE("aaa"); /* with the blank 4 tokens */
    assert_int_equal(tokenizer_encode(made.tokenizer, text, NULL, 0, ids, 4, &count), STATUS_OK);
    assert_int_equal(count, 4);
    assert_int_equal(tokenizer_encode(made.tokenizer, text, NULL, 0, ids, 3, &count), STATUS_LIMIT);
    assert_int_equal(count, 0);
    unmake(&made);
}

/* --- what is refused --- */

typedef void (*change)(struct gguf_writer *writer);

static void expect_refused(const struct piece_file *file, change change_keys, enum status want,
                           const char *message)
{
    struct gguf_writer writer;
    struct made made;
    gguf_writer_init(&writer);
    piece_file_keys(&writer, file);
    if (change_keys != NULL)
        change_keys(&writer);
    enum status status = make_from(&made, &writer);
    assert_int_equal(status, want);
    assert_null(made.tokenizer);
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("'%s' does not say '%s'", status_note()->message, message);
    unmake(&made);
}

static void extra_blanks_are_removed(struct gguf_writer *writer)
{
    gguf_writer_bool(writer, "tokenizer.ggml.remove_extra_whitespaces", 1);
}

static void characters_are_mapped(struct gguf_writer *writer)
{
    gguf_writer_string(writer, "tokenizer.ggml.precompiled_charsmap", "x");
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    const struct piece_file_piece piece = {"a", 0, VOCAB_NORMAL};
    const struct piece_file_piece no_number = {"a", NAN, VOCAB_NORMAL};
    struct piece_file file = {.pieces = &piece, .piece_count = 1, .has_bytes = true};
    expect_refused(&file, extra_blanks_are_removed, STATUS_UNSUPPORTED, "remove_extra_whitespaces");
    expect_refused(&file, characters_are_mapped, STATUS_UNSUPPORTED, "precompiled_charsmap");
    file.scores_less = 1;
    expect_refused(&file, NULL, STATUS_CORRUPT,
                   "tokenizer.ggml.scores has 259 entries for 260 tokens");
    file.scores_less = 0;
    file.without_scores = true;
    expect_refused(&file, NULL, STATUS_NOT_FOUND, "tokenizer.ggml.scores");
    file.without_scores = false;
    file.pieces = &no_number;
    expect_refused(&file, NULL, STATUS_CORRUPT, "the score of token 259 is not a number");
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
    static const struct piece_file_piece pieces[] = {
        {"a", -1, VOCAB_NORMAL}, {"aa", -2, VOCAB_UNUSED}, {MARK, -2, VOCAB_NORMAL}};
    const struct piece_file file = {.pieces = pieces, .piece_count = 3, .has_bytes = true};
    struct made made;
    struct tokenizer *tokenizer = NULL;
    int n = 0;
    assert_int_equal(make(&made, &file), STATUS_OK);
    for (;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = tokenizer_create(&tokenizer, made.vocab, made.gguf);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            break;
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
            tokenizer_encode(tokenizer, SLICE("aaa" MARK "a"), NULL, 0, ids, 64, &count);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_int_equal(count, 0);
    }
    assert_true(n >= 3);
    tokenizer_destroy(tokenizer);
    unmake(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_agrees),
        cmocka_unit_test(the_slow_search_agrees),
        cmocka_unit_test(kinds_have_their_meaning),
        cmocka_unit_test(runs_of_strange_characters_are_one_unknown_token),
        cmocka_unit_test(long_texts_need_little_memory),
        cmocka_unit_test(capacity_is_kept),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
