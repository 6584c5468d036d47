#include "engine/answer/answer_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "tests/kit/rounds.h"

/* What a splitter gave, in one text: each change of kind is written once. */
struct seen {
    struct buffer text;
    int kind;
    uint32_t pieces;
};

static void seen_take(void *context, const struct answer_part *part)
{
    struct seen *seen = context;
    static const char *const names[] = {"[content]", "[reasoning]", "[call",
                                        "[name]",    "[arguments]", "[end]"};
    if (part->kind == ANSWER_CALL_BEGIN)
        buffer_printf(&seen->text, "[call%u]", part->call);
    else if ((int)part->kind != seen->kind)
        buffer_append_text(&seen->text, names[part->kind]);
    buffer_append_slice(&seen->text, part->text);
    seen->kind = (int)part->kind;
    seen->pieces++;
}

struct stream {
    const char *format;
    const char *text;
    const char *wanted;
    bool no_calls;
    bool in_reasoning;
};

#define CALL_F "[call0][name]f[arguments]"

static const struct stream streams[] = {
    {"hermes", "plain\n\ntext\n", "[content]plain\n\ntext\n", false, false},
    {"hermes",
     "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "[content]Let me see." CALL_F "{\"a\": 1}[end]", false, false},
    {"hermes",
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"arguments\":"
     "{\"b\":[1,2.5e3]},\"name\":\"g\"}</tool_call>\n\n",
     CALL_F "{}[end][call1][name]g[arguments]{\"b\":[1,2.5e3]}[end]", false, false},
    {"hermes",
     "<think>\nhm </think\n</think>\n\nHi <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":"
     "\"</tool_call>}{\\\"\"}}</tool_call> bye",
     "[reasoning]hm </think[content]Hi " CALL_F "{\"a\":\"</tool_call>}{\\\"\"}[end][content] bye",
     false, false},
    {"hermes", "x</think>\n<tool_call>no JSON</tool_call> \xe4\xbd\xa0",
     "[reasoning]x[content]<tool_call>no JSON</tool_call> \xe4\xbd\xa0", false, true},
    {"hermes", "<tool_call>\n{\"name\": 5}</tool_call><tool_ca",
     "[content]<tool_call>\n{\"name\": 5}</tool_call><tool_ca", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\xe4\xbd",
     CALL_F "{\"a\":\"\xe4\xbd[end]", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{a:1}}</tool_call>.",
     CALL_F "{a:1}}[end][content].", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\",\"id\":7,\"arguments\":null</tool_call>",
     CALL_F "null[end]", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\"}</tool_call>", CALL_F "{}[end]", false, false},
    {"hermes", "a<tool_call>{\"name\":\"f\"}</tool_call>",
     "[content]a<tool_call>{\"name\":\"f\"}</tool_call>", true, false},
    {"hermes", "<tool_call>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
     "[content]<tool_call>\n" CALL_F "{}[end]", false, false},
    {"hermes", "{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"name\":\"g\"}",
     CALL_F "{\"a\": 1}[end][call1][name]g[arguments]{}[end]", false, false},
    {"hermes", "{\"name\": \"Bob\", \"arguments\": 1}",
     "[content]{\"name\": \"Bob\", \"arguments\": 1}", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{},\"name\":\"g\"}</tool_call>",
     CALL_F "{}[end][content]\":\"g\"}</tool_call>", false, false},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{},\"arguments\":[]}</tool_call>",
     CALL_F "{}[end][content]\":[]}</tool_call>", false, false},
    {"generic", "Sure\n\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":-0.5}}</tool_call>",
     "[content]Sure" CALL_F "{\"a\":-0.5}[end]", false, false},
    {"qwen_xml",
     "<tool_call>\n<function=f>\n<parameter=s>\n</param\n\"q\"\n</parameter>\n<parameter=n>\n"
     "[1, 2]\n</parameter>\n</function>\n</tool_call>",
     CALL_F "{\"s\":\"</param\\n\\\"q\\\"\",\"n\":[1, 2]}[end]", false, false},
    {"qwen_xml", "<tool_call><function=f></function></tool_call><tool_call><function=g><x",
     CALL_F "{}[end][call1][name]g[arguments]{}[end][content]<x", false, false},
    {"qwen_xml", "<tool_call><function=f><parameter=t>a</para", CALL_F "{\"t\":\"a[end]", false,
     false},
    {"qwen_xml",
     "<tool_call><function=f><parameter=n>1x</parameter><parameter=t>7</parameter></tool_call>!",
     CALL_F "{\"n\":\"1x\",\"t\":\"7\"}[end][content]!", false, false},
    {"llama3",
     "{\"name\": \"f\", \"parameters\": {\"a\": true}}; {\"name\":\"g\",\"parameters\":{}}",
     CALL_F "{\"a\": true}[end][call1][name]g[arguments]{}[end]", false, false},
    {"llama3", "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}", CALL_F "{}[end]", false, false},
    {"llama3", "{\"answer\": 42} {\"name\"", "[content]{\"answer\": 42} {\"name\"", false, false},
    {"llama3", "I {\"name\":\"f\"}", "[content]I {\"name\":\"f\"}", false, false},
    {"mistral",
     "[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{\"a\":\"]\"},\"id\":\"abcdefghi\"}, "
     "{\"name\":\"g\",\"arguments\":{}}]",
     CALL_F "{\"a\":\"]\"}[end][call1][name]g[arguments]{}[end]", false, false},
    {"mistral", "[TOOL_CALLS][{\"x\":1}]", "[content][TOOL_CALLS][{\"x\":1}]", false, false},
    {"mistral_args", "[THINK]so[/THINK][TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
     "[reasoning]so" CALL_F "{\"a\": 1}[end][call1][name]g[arguments]{}[end]", false, false},
    {"deepseek_v3",
     "ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "[content]ok" CALL_F "{\"a\":1}[end]", false, false},
    {"deepseek_v3",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     CALL_F "{}[end][call1][name]g[arguments]{}[end]", false, false},
    {"harmony",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
     "[reasoning]hm" CALL_F "{\"a\":1}[end]", false, false},
    {"harmony", "<|channel|>final<|message|>Hello\n", "[content]Hello\n", false, false},
    {"harmony", " to=functions.f<|channel|>commentary json<|message|>{}", CALL_F "{}[end]", false,
     false},
    {"harmony", "<|channel|>commentary to=functions.f<|message|>{}<|call|>", "[content]{}", true,
     false},
    {"harmony", "no channel", "[content]no channel", false, false},
    {"gemma4",
     "<|channel>thought\nhm\n<channel|>Yes\n<|tool_call>call:f{city:<|\"|>Pa\"ris<|\"|>,n:[1,-2],"
     "o:{k:true}}<tool_call|>",
     "[reasoning]hm[content]Yes" CALL_F
     "{\"city\":\"Pa\\\"ris\",\"n\":[1,-2],\"o\":{\"k\":true}}[end]",
     false, false},
    {"gemma4", "<|tool_call>f{}<tool_call|>", "[content]<|tool_call>f{}<tool_call|>", false, false},
};

enum { STREAMS = sizeof streams / sizeof streams[0] };

static bool is_text(void *context, struct slice tool, struct slice parameter)
{
    (void)context;
    return slice_is(tool, "f") && slice_is(parameter, "t");
}

static bool is_tool(void *context, struct slice tool)
{
    (void)context;
    return slice_is(tool, "f") || slice_is(tool, "g");
}

/* Every mark is found in the text, or each is a control token when `has_tokens`. */
static struct answer_model model_of(const struct stream *stream, bool has_tokens)
{
    struct answer_model model = {.format = answer_format_named(stream->format),
                                 .has_reasoning = true};
    assert_non_null(model.format);
    for (uint32_t i = 0; i < ANSWER_MARKS; i++)
        model.tokens[i] = has_tokens && model.format->marks[i] != NULL ? i : VOCAB_NONE;
    return model;
}

static void run_begin(struct answer_split *split, const struct stream *stream,
                      const struct answer_model *model, struct seen *seen)
{
    buffer_clear(&seen->text);
    seen->kind = -1;
    const struct answer_split_options options = {.model = model,
                                                 .has_calls = !stream->no_calls,
                                                 .begins_in_reasoning = stream->in_reasoning,
                                                 .tools = {is_tool, is_text, NULL},
                                                 .take = seen_take,
                                                 .context = seen};
    answer_split_init(split, &options);
}

static void run_end(struct answer_split *split, const struct stream *stream, struct seen *seen,
                    const char *how)
{
    answer_split_end(split);
    assert_int_equal(answer_split_status(split), STATUS_OK);
    answer_split_deinit(split);
    if (!slice_is(buffer_slice(&seen->text), stream->wanted))
        fail_msg("%s, %s, %s:\n  gave   %.*s\n  wanted %s", stream->format, stream->text, how,
                 (int)seen->text.length, seen->text.bytes, stream->wanted);
}

/* The stream in pieces that end at `cuts`. */
static void run_cut(const struct stream *stream, const size_t *cuts, size_t count,
                    struct seen *seen)
{
    const struct answer_model model = model_of(stream, false);
    const size_t length = strlen(stream->text);
    struct answer_split split;
    run_begin(&split, stream, &model, seen);
    for (size_t i = 0, from = 0; i <= count; i++) {
        size_t to = i < count ? cuts[i] : length;
        answer_split_text(&split, (struct slice){stream->text + from, to - from});
        from = to;
    }
    char how[64];
    snprintf(how, sizeof how, "cut at %zu and %zu", count > 0 ? cuts[0] : 0,
             count > 1 ? cuts[1] : 0);
    run_end(&split, stream, seen, how);
}

static void run_bytes(const struct stream *stream, struct seen *seen)
{
    const struct answer_model model = model_of(stream, false);
    struct answer_split split;
    run_begin(&split, stream, &model, seen);
    for (size_t i = 0; stream->text[i] != '\0'; i++)
        answer_split_text(&split, (struct slice){stream->text + i, 1});
    run_end(&split, stream, seen, "byte by byte");
}

static void test_all_cuts(void **state)
{
    (void)state;
    struct seen seen;
    uint64_t twos = 0;
    uint64_t threes = 0;
    buffer_init(&seen.text, 65536);
    seen.pieces = 0;
    for (size_t i = 0; i < STREAMS; i++) {
        const size_t length = strlen(streams[i].text);
        run_cut(&streams[i], NULL, 0, &seen);
        run_bytes(&streams[i], &seen);
        for (size_t first = 1; first < length; first++) {
            run_cut(&streams[i], &first, 1, &seen);
            twos++;
            for (size_t second = first + 1; second < length; second++) {
                const size_t cuts[] = {first, second};
                run_cut(&streams[i], cuts, 2, &seen);
                threes++;
            }
        }
    }
    buffer_deinit(&seen.text);
    printf("[ %u streams whole and byte by byte, %llu in two pieces, %llu in three: 0 differ ]\n",
           (unsigned)STREAMS, (unsigned long long)twos, (unsigned long long)threes);
}

/* The mark with which a text begins, or ANSWER_MARKS. */
static enum answer_mark mark_at(const struct answer_model *model, const char *text, size_t *length)
{
    for (uint32_t i = 0; i < ANSWER_MARKS; i++) {
        const char *mark = model->format->marks[i];
        *length = mark != NULL ? strlen(mark) : 0;
        if (mark != NULL && i != ANSWER_REASON_TITLE && strncmp(text, mark, *length) == 0)
            return (enum answer_mark)i;
    }
    return ANSWER_MARKS;
}

/* Whether a stream has the text of a mark inside an argument, which no control token writes. */
static bool has_mark_in_text(const struct stream *stream)
{
    return strstr(stream->text, "\"</tool_call>}") != NULL || stream->no_calls;
}

/* Marks come as control tokens: the same parts. */
static void test_marks_as_tokens(void **state)
{
    (void)state;
    struct seen seen;
    uint32_t runs = 0;
    buffer_init(&seen.text, 65536);
    for (size_t i = 0; i < STREAMS; i++) {
        if (has_mark_in_text(&streams[i]))
            continue;
        const struct answer_model model = model_of(&streams[i], true);
        struct answer_split split;
        run_begin(&split, &streams[i], &model, &seen);
        for (const char *at = streams[i].text; *at != '\0';) {
            size_t length;
            enum answer_mark mark = mark_at(&model, at, &length);
            if (mark != ANSWER_MARKS)
                answer_split_mark(&split, mark);
            else
                answer_split_text(&split, (struct slice){at, length = 1});
            at += length;
        }
        run_end(&split, &streams[i], &seen, "marks as tokens");
        runs++;
    }
    buffer_deinit(&seen.text);
    assert_true(runs > STREAMS / 2);
}

/* If marks are control tokens, their text is no mark. */
static void test_the_text_of_a_control_token_is_no_mark(void **state)
{
    (void)state;
    const struct stream stream = {"mistral_args", "[TOOL_CALLS]f[ARGS]{}",
                                  "[content][TOOL_CALLS]f[ARGS]{}", false, false};
    const struct answer_model model = model_of(&stream, true);
    struct answer_split split;
    struct seen seen;
    buffer_init(&seen.text, 65536);
    run_begin(&split, &stream, &model, &seen);
    answer_split_text(&split, slice_of(stream.text));
    run_end(&split, &stream, &seen, "text of tokens");
    buffer_deinit(&seen.text);
}

/* A second separator inside of arguments, or the closing mark inside of a parameter, ends a call
 * that has begun. Only control tokens can stand there. */
static void test_marks_inside_of_arguments(void **state)
{
    (void)state;
    static const struct stream named = {"mistral_args", "", CALL_F "{\"a\":[end][content]1}", false,
                                        false};
    static const struct stream tags = {"qwen_xml", "", CALL_F "{\"t\":\"</pa\"}[end]", false,
                                       false};
    struct answer_model model = model_of(&named, true);
    struct answer_split split;
    struct seen seen;
    buffer_init(&seen.text, 65536);
    run_begin(&split, &named, &model, &seen);
    answer_split_mark(&split, ANSWER_CALL_OPEN);
    answer_split_text(&split, SLICE("f"));
    answer_split_mark(&split, ANSWER_SEPARATOR);
    answer_split_text(&split, SLICE("{\"a\":"));
    answer_split_mark(&split, ANSWER_SEPARATOR);
    answer_split_text(&split, SLICE("1}"));
    run_end(&split, &named, &seen, "separator");
    model = model_of(&tags, true);
    run_begin(&split, &tags, &model, &seen);
    answer_split_mark(&split, ANSWER_CALL_OPEN);
    answer_split_text(&split, SLICE("<function=f><parameter=t></pa"));
    answer_split_mark(&split, ANSWER_CALL_CLOSE);
    run_end(&split, &tags, &seen, "closing mark");
    buffer_deinit(&seen.text);
}

/* Newlines are held back without a bound, and given out in parts. */
static void test_newlines_without_end(void **state)
{
    (void)state;
    enum { LINES = 1 << 20 };
    const struct stream stream = {"hermes", "", "", false, false};
    const struct answer_model model = model_of(&stream, false);
    struct answer_split split;
    struct seen seen;
    buffer_init(&seen.text, 2 * LINES);
    run_begin(&split, &stream, &model, &seen);
    answer_split_text(&split, SLICE("a"));
    for (int i = 0; i < LINES / 16; i++)
        answer_split_text(&split, SLICE("\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"));
    answer_split_text(&split, SLICE("b"));
    answer_split_end(&split);
    assert_int_equal(answer_split_status(&split), STATUS_OK);
    assert_int_equal(seen.text.length, strlen("[content]ab") + LINES);
    answer_split_deinit(&split);
    buffer_deinit(&seen.text);
}

/* --- random answers --- */

/* The first BEGINNINGS of them begin a call. */
static const char *const fragments[] = {"{\"name\":\"f\",\"arguments\":",
                                        "call:f{",
                                        "<function=f>",
                                        "f",
                                        "{\"name\":\"f\",",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"",
                                        "\\",
                                        "\"name\"",
                                        "\"arguments\"",
                                        "\"f\"",
                                        "{\"a\":1}",
                                        "a:",
                                        "</function>",
                                        "<parameter=t>",
                                        "<parameter=n>",
                                        "</parameter>",
                                        "</param",
                                        "to=functions.f",
                                        "analysis",
                                        "thought",
                                        "\n",
                                        " ",
                                        "`",
                                        ";",
                                        "\xe4\xbd\xa0",
                                        "7",
                                        "null",
                                        "function",
                                        "\n```json\n"};

enum { FRAGMENTS = sizeof fragments / sizeof fragments[0], BEGINNINGS = 5, PIECES = 24 };

/* What must be true of parts in any answer. */
struct nesting {
    struct seen seen; /* first: seen_take gets it */
    enum { OUTSIDE, BEGUN, INSIDE } where;
    uint32_t calls;
};

static void nesting_take(void *context, const struct answer_part *part)
{
    struct nesting *nesting = context;
    const bool is_call = part->kind >= ANSWER_CALL_BEGIN;
    assert_true(utf8_is_valid(part->text.bytes, part->text.length));
    assert_int_equal(nesting->where == OUTSIDE, !is_call || part->kind == ANSWER_CALL_BEGIN);
    assert_int_equal(nesting->where == BEGUN, part->kind == ANSWER_CALL_NAME);
    if (part->kind == ANSWER_CALL_BEGIN)
        assert_int_equal(part->call, nesting->calls++);
    nesting->where = part->kind == ANSWER_CALL_BEGIN            ? BEGUN
                     : is_call && part->kind != ANSWER_CALL_END ? INSIDE
                                                                : OUTSIDE;
    seen_take(&nesting->seen, part);
}

/* One answer: pieces are fragments or marks (from FRAGMENTS on). Texts come in cuts of `rng`. */
static void random_run(const struct answer_model *model, const struct stream *stream,
                       const uint32_t *pieces, struct rng *rng, struct nesting *nesting)
{
    struct answer_split split;
    nesting->where = OUTSIDE;
    nesting->calls = 0;
    run_begin(&split, stream, model, &nesting->seen);
    split.options.take = split.emit.take = nesting_take;
    for (uint32_t i = 0; i < PIECES; i++) {
        const uint32_t mark = pieces[i] - FRAGMENTS;
        const char *text =
            pieces[i] < FRAGMENTS ? fragments[pieces[i]] : model->format->marks[mark];
        if (text == NULL)
            continue;
        if (pieces[i] >= FRAGMENTS && model->tokens[mark] != VOCAB_NONE) {
            answer_split_mark(&split, (enum answer_mark)mark);
            continue;
        }
        for (size_t from = 0, to; text[from] != '\0'; from = to) {
            to = from + 1 + rng_below(rng, strlen(text) - from);
            while (((unsigned char)text[to] & 0xc0) == 0x80)
                to++;
            answer_split_text(&split, (struct slice){text + from, to - from});
        }
    }
    answer_split_end(&split);
    assert_int_equal(answer_split_status(&split), STATUS_OK);
    assert_int_equal(nesting->where, OUTSIDE);
    assert_int_equal(nesting->calls, answer_split_calls(&split));
    answer_split_deinit(&split);
}

/* Whatever a model writes: calls begin, have a name and end; characters are whole; and the parts
 * do not depend on cuts. */
static void test_random_answers(void **state)
{
    (void)state;
    static const char *const formats[] = {"hermes",      "qwen_xml", "llama3",
                                          "mistral",     "generic",  "mistral_args",
                                          "deepseek_v3", "harmony",  "gemma4"};
    const uint32_t count = rounds(20000, 1000000);
    struct rng rng = {23, 0};
    struct nesting nesting = {.calls = 0};
    struct buffer first;
    uint64_t calls = 0;
    buffer_init(&nesting.seen.text, 1 << 20);
    buffer_init(&first, 1 << 20);
    for (uint32_t i = 0; i < count; i++) {
        const struct stream stream = {formats[i % 9], "", "", i % 7 == 0, i % 5 == 0};
        const struct answer_model model = model_of(&stream, rng_below(&rng, 2) == 0);
        uint32_t pieces[PIECES];
        for (uint32_t k = 0; k < PIECES; k++)
            pieces[k] = (uint32_t)rng_below(&rng, FRAGMENTS + ANSWER_MARKS);
        if (i % 2 == 0) { /* the opening mark, and one of the ways in which a call begins */
            pieces[0] = FRAGMENTS + ANSWER_CALL_OPEN;
            pieces[1] = (uint32_t)rng_below(&rng, BEGINNINGS);
        }
        random_run(&model, &stream, pieces, &rng, &nesting);
        buffer_clear(&first);
        buffer_append_slice(&first, buffer_slice(&nesting.seen.text));
        calls += nesting.calls;
        random_run(&model, &stream, pieces, &rng, &nesting);
        if (!slice_equals(buffer_slice(&first), buffer_slice(&nesting.seen.text)))
            fail_msg("%s, answer %u:\n  %.*s\n  %.*s", stream.format, i, (int)first.length,
                     first.bytes, (int)nesting.seen.text.length, nesting.seen.text.bytes);
    }
    buffer_deinit(&first);
    buffer_deinit(&nesting.seen.text);
    assert_true(calls > count / 100);
    printf("[ %u random answers with %llu calls: 0 differ ]\n", count, (unsigned long long)calls);
}

/* A call without a name is held up to the limit, and then it is content. */
static void test_what_is_held_is_bounded(void **state)
{
    (void)state;
    const struct stream stream = {"hermes", "", "", false, false};
    const struct answer_model model = model_of(&stream, false);
    struct answer_split split;
    struct seen seen;
    size_t given = 0;
    buffer_init(&seen.text, 1 << 20);
    run_begin(&split, &stream, &model, &seen);
    answer_split_text(&split, SLICE("<tool_call>{\"arguments\":{\"a\":\""));
    while (seen.text.length == 0 && given < (1 << 20)) {
        answer_split_text(&split, SLICE("0123456789"));
        given += 10;
    }
    assert_in_range(given, 65000, 65546);
    answer_split_end(&split);
    assert_int_equal(answer_split_status(&split), STATUS_OK);
    assert_true(slice_starts_with(buffer_slice(&seen.text), SLICE("[content]<tool_call>{\"arg")));
    assert_int_equal(seen.text.length,
                     strlen("[content]<tool_call>{\"arguments\":{\"a\":\"") + given);
    answer_split_deinit(&split);
    buffer_deinit(&seen.text);
}

/* Only so many calls; the next one is content. */
static void test_calls_are_bounded(void **state)
{
    (void)state;
    const struct stream stream = {"hermes", "", "", false, false};
    const struct answer_model model = model_of(&stream, false);
    struct answer_split split;
    struct seen seen;
    buffer_init(&seen.text, 1 << 20);
    run_begin(&split, &stream, &model, &seen);
    for (int i = 0; i < 129; i++)
        answer_split_text(&split,
                          SLICE("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"));
    answer_split_end(&split);
    assert_int_equal(answer_split_calls(&split), 128);
    assert_non_null(strstr(seen.text.bytes, "[content]<tool_call>{\"name\":\"f\""));
    answer_split_deinit(&split);
    buffer_deinit(&seen.text);
}

static void test_reasoning_is_told(void **state)
{
    (void)state;
    const struct stream stream = {"hermes", "", "", false, false};
    const struct answer_model model = model_of(&stream, false);
    struct answer_split split;
    struct seen seen;
    buffer_init(&seen.text, 65536);
    run_begin(&split, &stream, &model, &seen);
    assert_false(answer_split_is_reasoning(&split));
    answer_split_text(&split, SLICE("<think>a"));
    assert_true(answer_split_is_reasoning(&split));
    answer_split_text(&split, SLICE("</think>"));
    assert_false(answer_split_is_reasoning(&split));
    answer_split_end(&split);
    answer_split_deinit(&split);
    buffer_deinit(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_cuts),
        cmocka_unit_test(test_marks_as_tokens),
        cmocka_unit_test(test_the_text_of_a_control_token_is_no_mark),
        cmocka_unit_test(test_marks_inside_of_arguments),
        cmocka_unit_test(test_newlines_without_end),
        cmocka_unit_test(test_random_answers),
        cmocka_unit_test(test_what_is_held_is_bounded),
        cmocka_unit_test(test_calls_are_bounded),
        cmocka_unit_test(test_reasoning_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
