/* arrival: over HTTP/1, a head whose body is not there yet is looked at: strangers are answered at
 * once, known owners' bodies are booked and waited for, and what others hold is bounded. */
#include "arrival_kit.h"

static SSL *connect_h1(void)
{
    SSL *ssl = http_kit_tls_connect(&kit_tls, &kit_server, false);
    assert_non_null(ssl);
    return ssl;
}

static void send_text(SSL *ssl, const char *text)
{
    http_kit_tls_send(ssl, text, strlen(text));
}

static void send_body(SSL *ssl, size_t bytes)
{
    for (size_t left = bytes, length; left > 0; left -= length) {
        length = left < sizeof(kit_piece) ? left : sizeof(kit_piece);
        http_kit_tls_send(ssl, kit_piece, length);
    }
}

/* Whole answers, up to the connection's end. */
static void read_to_end(SSL *ssl)
{
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), NULL);
    http_kit_tls_drop(ssl);
}

/* However a stranger announces a body, it is answered without it; and the connection stays until
 * the client has sent what it announced, so that no reset overtakes the answer. */
static void test_strangers_are_answered_at_once(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: wrong\r\ncontent-LENGTH:100000 \r\n\r\nbbb",
        ("GET /first HTTP/1.1\r\nHost: x\r\n\r\n"
         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nbbb"),
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.0\r\nContent-Length: 100000\r\n\r\n",
        "\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nb",
        "HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nb",
    };
    int starts = 0;
    kit_start((struct listener_options){0});
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        SSL *ssl = connect_h1();
        send_text(ssl, heads[i]);
        http_kit_wait(&kit_starts, ++starts);
        if (strstr(heads[i], "/first") != NULL) {
            http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right");
            http_kit_wait(&kit_starts, ++starts);
        }
        send_body(ssl, 100000); /* nobody waits for it, and no error comes of it */
        read_to_end(ssl);
        assert_non_null(strstr(kit_answer, heads[i][0] == 'H' ? " 401 " : "body 0 right"));
        assert_null(strstr(kit_answer, "HTTP/1.1 100"));
    }
    assert_int_equal(kit_claims, sizeof(heads) / sizeof(heads[0]));
    kit_stop();
}

/* A handler can tell a body that was cut off from one that is empty. */
static void test_handlers_know_what_is_cut(void **state)
{
    (void)state;
    kit_start((struct listener_options){0});
    SSL *ssl = connect_h1();
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: late\r\nContent-Length: 0\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right");
    assert_non_null(strstr(kit_answer, " 200 "));
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: late\r\nContent-Length: 3\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right");
    assert_non_null(strstr(kit_answer, " 503 "));
    http_kit_tls_drop(ssl);
    kit_stop();
}

/* Of a chunked body nobody knows the end: the connection ends after a while, or with the client. */
static void test_stranger_with_chunks(void **state)
{
    (void)state;
    kit_start((struct listener_options){0});
    SSL *ssl = connect_h1();
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nbbb");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right");
    assert_non_null(strstr(kit_answer, "HTTP/1.1 401"));
    send_body(ssl, 100000);
    SSL_shutdown(ssl);
    shutdown(SSL_get_fd(ssl), SHUT_WR);
    http_kit_wait_connections(&kit_server, 0, 0);
    http_kit_tls_drop(ssl);
    kit_stop();
}

/* A head that two readers could read differently is 400 as ever. */
static void test_stranger_with_a_doubtful_head(void **state)
{
    (void)state;
    kit_start((struct listener_options){0});
    SSL *ssl = connect_h1();
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "}}");
    assert_non_null(strstr(kit_answer, "HTTP/1.1 400"));
    assert_non_null(strstr(kit_answer, "both a Content-Length and a Transfer-Encoding"));
    assert_int_equal(kit_starts, 0);
    http_kit_tls_drop(ssl);
    kit_stop();
}

/* Bodies of a known owner come whole, small and as large as the limit, in pieces, in chunks, one
 * behind the other, and with a 100 for who waits for it. */
static void test_known_bodies_come_whole(void **state)
{
    (void)state;
    kit_start((struct listener_options){0});
    SSL *ssl = connect_h1();
    static const size_t sizes[] = {1, 5000, 100000, KIT_BODY_MAX};
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof(text),
                 "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: known\r\nContent-Length: %zu\r\n"
                 "Expect: 100-continue\r\n\r\n",
                 sizes[i]);
        send_text(ssl, text);
        http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "\r\n\r\n");
        assert_string_equal(kit_answer, "HTTP/1.1 100 Continue\r\n\r\n");
        send_body(ssl, sizes[i]);
        snprintf(text, sizeof(text), "key known body %zu right", sizes[i]);
        http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), text);
    }
    /* Two at once: the second one's head lies behind the first one's body. */
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: known\r\nContent-Length: 3\r\n\r\nbbb"
                   "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: known\r\nContent-Length: 90000\r\n"
                   "\r\nb");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "key known body 3 right");
    send_body(ssl, 89999);
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "key known body 90000 right");
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: known\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n10000\r\n");
    send_body(ssl, 0x10000);
    send_text(ssl, "\r\n0\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "key known body 65536 right");
    http_kit_tls_drop(ssl);
    kit_stop();
}

/* A request that is there whole, or that has no body, asks nobody whose it is. */
static void test_whole_requests_ask_nobody(void **state)
{
    (void)state;
    kit_start((struct listener_options){0});
    SSL *ssl = connect_h1();
    send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nbbb");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 3 right");
    send_text(ssl, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right");
    send_text(ssl, "GET / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n");
    http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "body 0 right"); /* nothing is coded */
    assert_int_equal(kit_claims, 0);
    http_kit_tls_drop(ssl);
    kit_stop();
}

/* What is too large for anybody is said before it has come; so is that there is no room. */
static void test_refused_before_it_comes(void **state)
{
    (void)state;
    char text[256];
    kit_start((struct listener_options){.known_bytes_max = 100000});
    for (int i = 0; i < 2; i++) {
        SSL *ssl = connect_h1();
        size_t bytes = i == 0 ? KIT_BODY_MAX + 1 : 200000;
        snprintf(text, sizeof(text),
                 "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: known\r\nContent-Length: %zu\r\n\r\n",
                 bytes);
        send_text(ssl, text);
        http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "}}");
        assert_non_null(strstr(kit_answer, i == 0 ? "HTTP/1.1 413" : "HTTP/1.1 503"));
        assert_non_null(strstr(kit_answer, i == 0 ? "request_too_large" : "retry-after: 1"));
        send_body(ssl, bytes);
        read_to_end(ssl);
    }
    assert_int_equal(kit_starts, 0);
    kit_stop();
}

/* One that nobody knows yet is booked to its address; when it is known, to its owner: then the
 * address's limit counts no more. */
static void test_unproved_becomes_known(void **state)
{
    (void)state;
    for (int is_proved = 0; is_proved < 2; is_proved++) {
        kit_start((struct listener_options){.unfinished_bytes_max = 4 * KIT_BODY_MAX,
                                            .unfinished_address_bytes_max = 64 * 1024});
        SSL *ssl = connect_h1();
        send_text(ssl, "POST / HTTP/1.1\r\nHost: x\r\nX-Api-Key: maybe\r\n"
                       "Content-Length: 200000\r\n\r\n");
        http_kit_wait(&kit_claims, 1);
        kit_proved = is_proved;
        if (is_proved) {
            send_body(ssl, 200000);
            http_kit_tls_read(ssl, kit_answer, sizeof(kit_answer), "key maybe body 200000 right");
        } else {
            for (int i = 0; i < 20 && SSL_write(ssl, kit_piece, 10000) > 0; i++)
                usleep(1000);
            http_kit_wait_connections(&kit_server, 0, 0);
            assert_int_equal(kit_starts, 0);
        }
        http_kit_tls_drop(ssl);
        kit_stop();
    }
}

/* Heads that do not end fill the strangers' share; whoever holds little stays. */
static void test_heads_without_end(void **state)
{
    (void)state;
    enum { GREEDY = 10 };
    SSL *greedy[GREEDY];
    kit_start((struct listener_options){.unfinished_bytes_max = 256 * 1024});
    SSL *small = connect_h1();
    send_text(small, "GET / HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < GREEDY; i++) {
        greedy[i] = connect_h1();
        send_text(greedy[i], "GET / HTTP/1.1\r\nHost: x\r\nX-A: ");
        send_body(greedy[i], 40000);
    }
    http_kit_wait_connections(&kit_server, 2, GREEDY - 1);
    send_text(small, "\r\n");
    http_kit_tls_read(small, kit_answer, sizeof(kit_answer), "body 0 right");
    for (int i = 0; i < GREEDY; i++)
        http_kit_tls_drop(greedy[i]);
    http_kit_tls_drop(small);
    kit_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_answered_at_once),
        cmocka_unit_test(test_handlers_know_what_is_cut),
        cmocka_unit_test(test_stranger_with_chunks),
        cmocka_unit_test(test_stranger_with_a_doubtful_head),
        cmocka_unit_test(test_known_bodies_come_whole),
        cmocka_unit_test(test_whole_requests_ask_nobody),
        cmocka_unit_test(test_refused_before_it_comes),
        cmocka_unit_test(test_unproved_becomes_known),
        cmocka_unit_test(test_heads_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
