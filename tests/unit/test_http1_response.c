#include "gateway/upstream/http1_response.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

static enum status frame(const char *text, struct http1_response *out)
{
    struct slice input = slice_of(text);
    assert_int_equal(http1_response_parse(out, input, 0), HTTP1_RESPONSE_WHOLE);
    assert_int_equal(out->head_bytes, input.length);
    return http1_response_frame(out);
}

static void test_framing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        enum http1_response_framing framing;
        uint64_t length;
        bool is_keep_alive;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", 200, HTTP1_RESPONSE_LENGTH, 12, true},
        {"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", 200, HTTP1_RESPONSE_LENGTH, 0, false},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", 200, HTTP1_RESPONSE_CHUNKED, 0,
         true},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: Close\r\n\r\n", 200,
         HTTP1_RESPONSE_CHUNKED, 0, false},
        {"HTTP/1.1 500 \r\n\r\n", 500, HTTP1_RESPONSE_CLOSE, 0, false},
        {"HTTP/1.1 204 \r\n\r\n", 204, HTTP1_RESPONSE_LENGTH, 0, true},
        {"HTTP/1.1 304 \r\ncontent-length: 9\r\n\r\n", 304, HTTP1_RESPONSE_LENGTH, 0, true},
        {"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n", 200,
         HTTP1_RESPONSE_LENGTH, UINT64_MAX, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct http1_response response;
        assert_int_equal(frame(rows[i].text, &response), STATUS_OK);
        assert_int_equal(response.code, rows[i].code);
        assert_int_equal(response.framing, rows[i].framing);
        assert_true(response.length == rows[i].length);
        assert_int_equal(response.is_keep_alive, rows[i].is_keep_alive);
    }
}

static void test_ambiguous_framing_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct http1_response response;
        assert_int_equal(frame(texts[i], &response), STATUS_PROTOCOL);
    }
}

/* A head that comes byte by byte is whole with its last byte. */
static void test_parts(void **state)
{
    (void)state;
    struct slice text = SLICE("HTTP/1.1 200 OK\r\na: b\r\n\r\nbody");
    size_t head = text.length - 4;
    struct http1_response response;
    for (size_t length = 0; length < head; length++)
        assert_int_equal(http1_response_parse(&response, (struct slice){text.bytes, length},
                                              length > 0 ? length - 1 : 0),
                         HTTP1_RESPONSE_PART);
    assert_int_equal(http1_response_parse(&response, text, head - 1), HTTP1_RESPONSE_WHOLE);
    assert_int_equal(response.head_bytes, head);
    assert_int_equal(response.header_count, 1);
    assert_true(http1_response_is(&response.headers[0], "A"));
    assert_false(http1_response_is(&response.headers[0], "ab"));
    edge_text_same(http1_response_value(&response.headers[0]), "b");
    assert_int_equal(http1_response_parse(&response, SLICE("SSH-2.0-x\r\n"), 0),
                     HTTP1_RESPONSE_FOREIGN);
}

/* A head has LIMIT_HEAD_BYTES at most, whether its end has come or not. */
static void test_longest_head(void **state)
{
    (void)state;
    static char text[LIMIT_HEAD_BYTES + 64];
    int start = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\na: ");
    struct http1_response response;
    memset(text + start, 'x', sizeof text - (size_t)start);
    struct slice input = {text, LIMIT_HEAD_BYTES};
    assert_int_equal(http1_response_parse(&response, input, 0), HTTP1_RESPONSE_PART);
    input.length++;
    assert_int_equal(http1_response_parse(&response, input, 0), HTTP1_RESPONSE_FOREIGN);
    memcpy(text + LIMIT_HEAD_BYTES - 4, "\r\n\r\n", 4);
    assert_int_equal(http1_response_parse(&response, input, 0), HTTP1_RESPONSE_WHOLE);
    memcpy(text + LIMIT_HEAD_BYTES - 4, "x\r\n\r\n", 5);
    assert_int_equal(http1_response_parse(&response, input, 0), HTTP1_RESPONSE_FOREIGN);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_number;
    } rows[] = {{"0", true},    {"007", true}, {"100", true},
                {"101", false}, {"", false},   {"1x", false},
                {" 1", false},  {"+1", false}, {"18446744073709551617", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct phr_header header = {"n", 1, rows[i].text, strlen(rows[i].text)};
        uint64_t number = 0;
        if (http1_response_number(&header, 100, &number) != rows[i].is_number)
            fail_msg("'%s'", rows[i].text);
        if (rows[i].is_number)
            assert_int_equal(number, strtoull(rows[i].text, NULL, 10));
    }
    /* The continuation of a folded line has no name, so that it is no header that is asked for. */
    const struct phr_header folded = {NULL, 0, "x", 1};
    assert_false(http1_response_is(&folded, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing), cmocka_unit_test(test_ambiguous_framing_is_refused),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_longest_head),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
