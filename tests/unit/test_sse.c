/* sse: frames as the specification reads them, however the bytes are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "gateway/http/sse.h"

static enum status collect(void *context, const struct sse_event *event)
{
    struct buffer *out = context;
    buffer_append_char(out, '[');
    buffer_append_slice(out, event->event);
    buffer_append_char(out, '|');
    buffer_append_slice(out, event->data);
    buffer_append_char(out, ']');
    return STATUS_OK;
}

static const struct {
    const char *stream;
    const char *events;
} rows[] = {
    {"data: a\n\n", "[|a]"},
    {"data: a\r\n\r\n", "[|a]"},
    {"data: a\r\r", "[|a]"},
    {"data:a\n\n", "[|a]"},
    {"data:  a\n\n", "[| a]"},
    {"data: a\ndata: b\n\n", "[|a\nb]"},
    {"data\n\n", "[|]"},
    {"data:\ndata:\n\n", "[|\n]"},
    {"\n\n\n", ""},
    {"event: x\ndata: a\n\n", "[x|a]"},
    {"event: x\n\ndata: a\n\n", "[|a]"},
    {"event: x\nevent: y\ndata: a\n\n", "[y|a]"},
    {"data: a\nevent: x\n\ndata: b\n\n", "[x|a][|b]"},
    {": comment\nid: 1\nretry: 5\nunknown: z\ndata: a\n\n", "[|a]"},
    {"data: a\n\ndata: unfinished", "[|a]"},
    {"data: a: b\n\n", "[|a: b]"},
    {"event: banyan.final\r\ndata: {\"n\":1}\r\n\r\ndata: c\n\r\n", "[banyan.final|{\"n\":1}][|c]"},
    {"Data: a\n\ndatas: b\n\n", ""},
};

static void test_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t length = strlen(rows[i].stream);
        for (size_t first = 0; first <= length; first++) {
            for (size_t second = first; second <= length; second++) {
                struct sse_reader reader;
                struct buffer out;
                buffer_init(&out, 1024);
                sse_reader_init(&reader, 256);
                const size_t cuts[] = {0, first, second, length};
                for (size_t part = 0; part < 3; part++) {
                    struct slice bytes = {rows[i].stream + cuts[part], cuts[part + 1] - cuts[part]};
                    assert_int_equal(sse_reader_feed(&reader, bytes, collect, &out), STATUS_OK);
                }
                buffer_append_char(&out, '\0');
                if (strcmp(out.bytes, rows[i].events) != 0)
                    fail_msg("row %zu cut at %zu and %zu: %s", i, first, second, out.bytes);
                sse_reader_deinit(&reader);
                buffer_deinit(&out);
            }
        }
    }
}

static void test_limit(void **state)
{
    (void)state;
    enum { MAX = 64 };
    for (size_t length = MAX - 7; length <= MAX + 1; length++) {
        for (int is_split = 0; is_split < 2; is_split++) {
            struct sse_reader reader;
            struct buffer out, stream;
            buffer_init(&out, 1024);
            buffer_init(&stream, 1024);
            sse_reader_init(&reader, MAX);
            buffer_append_text(&stream, "data: ");
            while (stream.length < length)
                buffer_append_char(&stream, 'd');
            buffer_append_text(&stream, "\n\n");
            enum status status = STATUS_OK;
            if (is_split) {
                for (size_t at = 0; at < stream.length && status == STATUS_OK; at++) {
                    struct slice byte = {stream.bytes + at, 1};
                    status = sse_reader_feed(&reader, byte, collect, &out);
                }
                assert_int_equal(status, length <= MAX ? STATUS_OK : STATUS_LIMIT);
            } else { /* a line that came whole is bounded by what data holds, its break counted */
                status = sse_reader_feed(&reader, buffer_slice(&stream), collect, &out);
                assert_int_equal(status, length - 6 + 1 <= MAX ? STATUS_OK : STATUS_LIMIT);
            }
            sse_reader_deinit(&reader);
            buffer_deinit(&out);
            buffer_deinit(&stream);
        }
    }
    struct sse_reader reader;
    struct buffer out;
    buffer_init(&out, 1024);
    sse_reader_init(&reader, MAX); /* many short lines of one frame */
    enum status status = STATUS_OK;
    int lines = 0;
    for (; status == STATUS_OK && lines < 100; lines++)
        status = sse_reader_feed(&reader, SLICE("data: 123\n"), collect, &out);
    assert_int_equal(status, STATUS_LIMIT);
    assert_int_equal(lines, MAX / 4 + 1);
    sse_reader_deinit(&reader);
    buffer_deinit(&out);
}

static enum status refuse(void *context, const struct sse_event *event)
{
    (void)event;
    ++*(int *)context;
    return STATUS_CANCELLED;
}

static void test_callback_stops(void **state)
{
    (void)state;
    struct sse_reader reader;
    int calls = 0;
    sse_reader_init(&reader, 256);
    assert_int_equal(sse_reader_feed(&reader, SLICE("data: a\n\ndata: b\n\n"), refuse, &calls),
                     STATUS_CANCELLED);
    assert_int_equal(calls, 1);
    sse_reader_deinit(&reader);
}

/* What sse_append writes, the reader reads. */
static void test_round_trip(void **state)
{
    (void)state;
    struct rng rng = {.seed = 7};
    for (int i = 0; i < 3000; i++) {
        char text[24];
        size_t length = rng_below(&rng, sizeof(text));
        for (size_t at = 0; at < length; at++)
            text[at] = "ab:\n \r"[rng_below(&rng, 6)];
        struct buffer stream, got, wanted;
        buffer_init(&stream, 1024);
        buffer_init(&got, 1024);
        buffer_init(&wanted, 1024);
        const char *event = i % 2 ? "name" : NULL;
        sse_append(&stream, event, (struct slice){text, length});
        buffer_printf(&wanted, "[%s|", i % 2 ? "name" : "");
        for (size_t at = 0; at < length; at++) { /* every line break arrives as \n */
            if (text[at] == '\r' && at + 1 < length && text[at + 1] == '\n')
                continue;
            buffer_append_char(&wanted, text[at] == '\r' ? '\n' : text[at]);
        }
        buffer_append_char(&wanted, ']');
        struct sse_reader reader;
        sse_reader_init(&reader, 256);
        size_t cut = rng_below(&rng, stream.length + 1);
        struct slice first = {stream.bytes, cut};
        struct slice second = {stream.bytes + cut, stream.length - cut};
        assert_int_equal(sse_reader_feed(&reader, first, collect, &got), STATUS_OK);
        assert_int_equal(sse_reader_feed(&reader, second, collect, &got), STATUS_OK);
        assert_int_equal(got.length, wanted.length);
        assert_memory_equal(got.bytes, wanted.bytes, got.length);
        sse_reader_deinit(&reader);
        buffer_deinit(&stream);
        buffer_deinit(&got);
        buffer_deinit(&wanted);
    }
}

static int fail_after;

static int fail_hook(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return fail_after-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 1024);
    buffer_append_char(&out, '>'); /* has its memory */
    bool is_done = false;
    for (int n = 0; !is_done; n++) {
        struct sse_reader reader;
        sse_reader_init(&reader, 256);
        fail_after = n;
        mem_hook_set(fail_hook, NULL);
        enum status status = sse_reader_feed(&reader, SLICE("event: e\nda"), collect, &out);
        if (status == STATUS_OK)
            status = sse_reader_feed(&reader, SLICE("ta: d\n\n"), collect, &out);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        is_done = status == STATUS_OK;
        assert_true(n < 20);
        sse_reader_deinit(&reader);
    }
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split),    cmocka_unit_test(test_limit),
        cmocka_unit_test(test_callback_stops), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
