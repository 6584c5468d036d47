/* engine: the events of a request and engine_detokenize show one text, whatever ids a prompt has
 * and wherever characters are cut: echo and answer together are the text of all ids, and the text
 * from a token's offset on begins with that token. text_decode's own property has more cases; this
 * is the code that the server's routes call. */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/gguf_writer.h"
#include "tests/kit/llama_file.h"

enum {
    ROUNDS = 20,
    REQUESTS = 8, /* at once */
    CHOICES = 2,
    PROMPT = 12, /* at most, as of an answer */
    CONTROL_FIRST = 256,
    CONTROL_END = 259,
    NOTHING = UINT32_MAX,
};
static bool adds_blank; /* of the tokenizer at work */

static const char emojis[] = "\xf0\x9f\x98\x80\xc3\xa9\xe2\x82\xac";
static struct engine_run_transcript transcripts[REQUESTS];
static struct engine_request requests[REQUESTS];
static uint32_t prompts[REQUESTS][PROMPT];

static void request_make(struct rng *rng, uint32_t at, uint32_t vocab)
{
    uint32_t count = 1 + (uint32_t)rng_below(rng, PROMPT);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t way = rng_below(rng, 4);
        uint64_t place = (i + at) % (sizeof(emojis) - 1);
        prompts[at][i] = way < 2    ? (uint8_t)emojis[place]
                         : way == 2 ? (uint32_t)rng_below(rng, CONTROL_END)
                                    : (uint32_t)rng_below(rng, vocab);
    }
    requests[at] = (struct engine_request){.request_id = SLICE("req_text"),
                                           .prompt_kind = ENGINE_PROMPT_TOKENS,
                                           .tokens = prompts[at],
                                           .token_count = count,
                                           .choices = CHOICES,
                                           .tokens_max = 1 + (uint32_t)rng_below(rng, PROMPT),
                                           .sampling = {.temperature = 1,
                                                        .top_p = 1,
                                                        .seed = rng_below(rng, 1 << 30),
                                                        .bias_count = sizeof(emojis) - 1},
                                           .shows_control = rng_below(rng, 2) == 0,
                                           .ignore_end = true,
                                           .echo = true};
    /* The bytes of emojis are likely, so that answers have characters in several tokens. */
    for (size_t i = 0; i < sizeof(emojis) - 1; i++)
        requests[at].sampling.bias[i] = (struct engine_bias){(uint8_t)emojis[i], 8};
}

/* Where the character of that number begins. */
static size_t place_of(const struct buffer *text, uint64_t character)
{
    uint64_t begun = 0;
    for (size_t at = 0; at < text->length; at++) {
        if (((uint8_t)text->bytes[at] & 0xc0) == 0x80)
            continue;
        if (begun++ == character)
            return at;
    }
    return text->length;
}

static uint64_t characters_of(const char *bytes, size_t length)
{
    uint64_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((uint8_t)bytes[i] & 0xc0) != 0x80;
    return count;
}

/* How many tokens had bytes that are whole characters, and were found at their offset. A blank
 * at the beginning of a text or behind a control token may be the tokenizer's own; then the text
 * does not have it. */
static uint32_t check_tokens(struct engine *engine, const struct engine_request *request,
                             const struct engine_run_token *tokens, uint32_t count,
                             uint32_t previous, uint64_t from, const struct buffer *text)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct slice bytes = engine_token_bytes(engine, tokens[i].token);
        bool is_control = tokens[i].token >= CONTROL_FIRST && tokens[i].token < CONTROL_END;
        bool begins = previous == NOTHING || (previous >= CONTROL_FIRST && previous < CONTROL_END);
        previous = tokens[i].token;
        if (adds_blank && begins && tokens[i].token >= CONTROL_END && bytes.bytes[0] == ' ')
            bytes = (struct slice){bytes.bytes + 1, bytes.length - 1};
        assert_true(from + tokens[i].text_offset <= characters_of(text->bytes, text->length));
        if ((is_control && !request->shows_control) || bytes.length == 0 ||
            !utf8_is_valid(bytes.bytes, bytes.length))
            continue;
        size_t at = place_of(text, from + tokens[i].text_offset);
        assert_true(at + bytes.length <= text->length);
        assert_memory_equal(text->bytes + at, bytes.bytes, bytes.length);
        found++;
    }
    return found;
}

static uint32_t check_choice(struct engine *engine, const struct engine_request *request,
                             const struct engine_run_choice *choice)
{
    uint32_t ids[2 * PROMPT];
    uint32_t count = 0;
    struct buffer text;
    buffer_init(&text, 1 << 16);
    for (uint32_t i = 0; i < choice->prompt_count; i++)
        ids[count++] = choice->prompt[i].token;
    for (uint32_t i = 0; i < choice->count; i++)
        ids[count++] = choice->tokens[i].token;
    assert_int_equal(engine_detokenize(engine, ids, count, request->shows_control, &text),
                     STATUS_OK);
    assert_int_equal(choice->echo_bytes + choice->text_bytes, text.length);
    if (text.length > 0) {
        assert_memory_equal(text.bytes, choice->echo, choice->echo_bytes);
        assert_memory_equal(text.bytes + choice->echo_bytes, choice->text, choice->text_bytes);
    }
    uint64_t behind = characters_of(choice->echo, choice->echo_bytes);
    uint32_t found =
        check_tokens(engine, request, choice->prompt, choice->prompt_count, NOTHING, 0, &text) +
        check_tokens(engine, request, choice->tokens, choice->count, ids[choice->prompt_count - 1],
                     behind, &text);
    buffer_deinit(&text);
    return found;
}

/* The ids of llama_file_write_tokenizer, as pieces of SentencePiece. */
static void write_pieces(struct gguf_writer *writer, uint32_t vocab)
{
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    const char **texts = calloc(vocab, sizeof *texts);
    char(*words)[24] = calloc(vocab, sizeof *words);
    int32_t *kinds = calloc(vocab, sizeof *kinds);
    float *scores = calloc(vocab, sizeof *scores);
    assert_true(texts != NULL && words != NULL && kinds != NULL && scores != NULL);
    for (uint32_t i = 0; i < vocab; i++) {
        if (i < CONTROL_FIRST)
            snprintf(words[i], sizeof words[i], "<0x%02X>", i);
        else if (i >= CONTROL_END)
            snprintf(words[i], sizeof words[i], "%sword%u", i % 2 == 0 ? "\xe2\x96\x81" : "", i);
        texts[i] = i >= CONTROL_FIRST && i < CONTROL_END ? control[i - CONTROL_FIRST] : words[i];
        kinds[i] = i < CONTROL_FIRST ? 6 : i < CONTROL_END ? 3 : 1; /* byte, control, normal */
    }
    gguf_writer_string(writer, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", texts, vocab);
    gguf_writer_array(writer, "tokenizer.ggml.scores", GGUF_WRITER_F32, vocab, scores,
                      vocab * sizeof *scores);
    gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, vocab, kinds,
                      vocab * sizeof *kinds);
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 257);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 258);
    gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix", adds_blank);
    free(scores);
    free(kinds);
    free(words);
    free(texts);
}

static void open_pieces(struct engine **engine, struct engine_options *options, char path[64])
{
    const struct llama_shape shape = engine_run_shape();
    struct gguf_writer writer;
    struct buffer file;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    write_pieces(&writer, shape.vocab);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    snprintf(path, 64, "/tmp/banyan-test-XXXXXX");
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, file.bytes, file.length), file.length);
    close(descriptor);
    buffer_deinit(&file);
    options->model_path = path;
    *engine = engine_run_open(options);
}

static void check_engine(struct engine *engine, uint32_t round_count)
{
    struct rng rng = {.seed = 19};
    struct engine_run_transcript *all[REQUESTS];
    uint32_t vocab = engine_run_shape().vocab;
    uint32_t found = 0;
    for (uint32_t round = 0; round < round_count; round++) {
        for (uint32_t i = 0; i < REQUESTS; i++) {
            all[i] = &transcripts[i];
            request_make(&rng, i, vocab);
            engine_run_submit(engine, &requests[i], &transcripts[i]);
        }
        engine_run_finish(engine, all, REQUESTS);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            assert_false(transcripts[i].is_refused);
            for (uint32_t k = 0; k < CHOICES; k++)
                found += check_choice(engine, &requests[i], &transcripts[i].choices[k]);
        }
    }
    assert_true(found > round_count * REQUESTS); /* the property is not empty */
}

static void test_echo_and_answer_are_one_text(void **state)
{
    (void)state;
    const struct engine_options options = engine_run_options();
    struct engine *engine = engine_run_open(&options);
    check_engine(engine, ROUNDS);
    engine_run_close(engine);
}

static void test_the_same_with_pieces(void **state)
{
    (void)state;
    for (int adds = 0; adds <= 1; adds++) {
        struct engine_options options = engine_run_options();
        struct engine *engine;
        char path[64];
        adds_blank = adds != 0;
        open_pieces(&engine, &options, path);
        check_engine(engine, ROUNDS / 5);
        engine_run_close(engine);
        unlink(path);
    }
    adds_blank = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo_and_answer_are_one_text),
        cmocka_unit_test(test_the_same_with_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
