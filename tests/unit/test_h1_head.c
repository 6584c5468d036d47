/* h1_head: what counts as beyond doubt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/http/h1_head.h"

static void test_rows(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool is_whole;
        bool is_clear11;
        bool is_clear10;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, true, true},
        {"GET / HTTP/1.1\nHost: x\n\n", true, false, false},
        {"GET / HTTP/1.1\r\nHost: x\n\r\n", true, false, false},
        {"GET / HTTP/1.1\r\nHost: x\r\n\n", true, false, false},
        {"\r\n\r\nGET / HTTP/1.1\r\nhOsT: x\r\n\r\nbody\r\n\n", true, true, true},
        {"\r\n\nGET / HTTP/1.1\r\nhOsT: x\r\n\r\nbody\r\n", true, false, false},
        {"GET / HTTP/1.0\r\n\r\n", true, false, true},
        {"GET / HTTP/1.1\r\nHost: x\r\nHOST: x\r\n\r\n", true, false, false},
        {"POST / HTTP/1.1\r\nHost: x\r\ncontent-length: 1\r\n\r\n", true, true, true},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:1\r\nContent-length: 1\r\n\r\n", true, false,
         false},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", true, true, false},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: a\r\nTransfer-Encoding: b\r\n\r\n", true,
         false, false},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: a\r\nContent-Length: 1\r\n\r\n", true,
         false, false},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Lengthy: 1\r\nX-Content-Length: 2\r\n\r\n", true,
         true, true},
        {"GET / HTTP/1.1\r\nHost: x\r\na: b\r\n c\r\n\r\n", true, false, false},
        {"GET / HTTP/1.1\r\nHost: x\r\na: b\r\n\tc\r\n\r\n", true, false, false},
        /* the body is not the head */
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nContent-Length: 1\r\n\r\n", true,
         true, true},
        {"GET / HTTP/1.1\r\nHost: x\r\n", false, false, false},
        {"GET / HTTP/1.1\r\nHost: x\r\n\r", false, false, false},
        {"\r\n\r\n", false, false, false},
        {"", false, false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct h1_head head;
        bool is_whole = h1_head_scan((struct slice){rows[i].text, strlen(rows[i].text)}, &head);
        if (is_whole != rows[i].is_whole)
            fail_msg("row %zu: whole is %d", i, is_whole);
        if (!is_whole)
            continue;
        if ((h1_head_fault(&head, true) == NULL) != rows[i].is_clear11)
            fail_msg("row %zu: HTTP/1.1", i);
        if ((h1_head_fault(&head, false) == NULL) != rows[i].is_clear10)
            fail_msg("row %zu: HTTP/1.0", i);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    static const char text[] = "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    char with_body[128];
    size_t length = sizeof(text) - 1;
    memcpy(with_body, text, length);
    memset(with_body + length, '\n', sizeof(with_body) - length);
    struct h1_head head;
    for (size_t cut = 0; cut < length; cut++)
        assert_false(h1_head_scan((struct slice){with_body, cut}, &head));
    for (size_t more = length; more <= sizeof(with_body); more++) {
        assert_true(h1_head_scan((struct slice){with_body, more}, &head));
        assert_int_equal(head.bytes, length);
    }
}

/* Whose the request is and how long its body, and the same head once the body is taken off. */
static void test_body_and_owner(void **state)
{
    (void)state;
    const struct {
        const char *line;
        size_t length;
    } rows[] = {
        {"Content-Length: 12", 12},
        {"content-length:\t0012 ", 12},
        {"Content-Length: ", SIZE_MAX},
        {"Content-Length: 1,1", SIZE_MAX},
        {"Content-Length: 99999999999999999999", SIZE_MAX},
        {"Content-Length: 18446744073709551617", SIZE_MAX},
        {"Transfer-Encoding: chunked", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct h1_head head;
        int length = snprintf(text, sizeof text,
                              "POST / HTTP/1.1\r\n%s\r\nEXPECT: 100-continue\r\nX-Api-Key:  k \r\n"
                              "Authorization: a\r\nauthorization: b\r\n\r\n",
                              rows[i].line);
        struct slice input = {text, (size_t)length};
        assert_true(h1_head_scan(input, &head));
        assert_int_equal(head.content_length, rows[i].length);
        assert_int_equal(head.api_keys, 1);
        assert_true(slice_is(head.api_key, "k"));
        assert_int_equal(head.authorizations, 2);
        assert_true(slice_is(head.authorization, "b"));
        h1_head_strip_body(text, head.bytes);
        assert_true(h1_head_scan(input, &head));
        assert_int_equal(head.content_lengths + head.transfer_encodings, 0);
        assert_int_equal(head.content_length, SIZE_MAX);
        assert_null(strstr(text, "EXPECT"));
        assert_int_equal(head.bytes, (size_t)length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body_and_owner),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
