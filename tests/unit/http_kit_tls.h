/* http_kit_tls: TLS for http_kit: a server context from a throw-away authority, a client that
 * checks it, and enough HTTP/2 to send requests and resets and to read frames.
 *
 * Owns:     the directory with the certificates, under /tmp.
 * Thread:   the test's thread.
 * Cost:     –
 * Not here: assertions about the product.
 */
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "gateway/http/tls.h"
#include "http_kit.h"

struct http_kit_tls {
    char directory[64];
    struct tls_context *server;
    SSL_CTX *client;
};

static __attribute__((unused)) void http_kit_tls_file(const struct http_kit_tls *tls,
                                                      const char *file, char out[128])
{
    snprintf(out, 128, "%s/%s", tls->directory, file);
}

static __attribute__((unused)) void http_kit_tls_start(struct http_kit_tls *tls)
{
    *tls = (struct http_kit_tls){0};
    snprintf(tls->directory, sizeof(tls->directory), "/tmp/http_kit.%d.XXXXXX", (int)getpid());
    assert_non_null(mkdtemp(tls->directory));
    assert_int_equal(tls_make_self_signed(tls->directory), STATUS_OK);
    char cert[128], key[128], ca[128];
    http_kit_tls_file(tls, "server.crt", cert);
    http_kit_tls_file(tls, "server.key", key);
    http_kit_tls_file(tls, "ca.crt", ca);
    assert_int_equal(tls_context_open(&tls->server, cert, key, "test"), STATUS_OK);
    tls->client = SSL_CTX_new(TLS_client_method());
    assert_non_null(tls->client);
    assert_int_equal(SSL_CTX_load_verify_locations(tls->client, ca, NULL), 1);
    SSL_CTX_set_verify(tls->client, SSL_VERIFY_PEER, NULL);
}

static __attribute__((unused)) void http_kit_tls_stop(struct http_kit_tls *tls)
{
    static const char *const files[] = {"ca.crt", "ca.key", "server.crt", "server.key"};
    tls_context_close(tls->server);
    SSL_CTX_free(tls->client);
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        http_kit_tls_file(tls, files[i], path);
        unlink(path);
    }
    rmdir(tls->directory);
}

/* A connection whose certificate was checked for "localhost"; NULL when the handshake failed. */
static __attribute__((unused)) SSL *http_kit_tls_connect(const struct http_kit_tls *tls,
                                                         const struct http_kit *kit, bool is_h2)
{
    SSL *ssl = SSL_new(tls->client);
    assert_non_null(ssl);
    SSL_set_fd(ssl, http_kit_connect(kit));
    SSL_set1_host(ssl, "localhost");
    SSL_set_tlsext_host_name(ssl, "localhost");
    const unsigned char *protocols = (const unsigned char *)(is_h2 ? "\x02h2" : "\x08http/1.1");
    SSL_set_alpn_protos(ssl, protocols, is_h2 ? 3 : 9);
    if (SSL_connect(ssl) == 1)
        return ssl;
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
    return NULL;
}

/* Closes without a farewell, as a client that dies does. */
static __attribute__((unused)) void http_kit_tls_drop(SSL *ssl)
{
    int fd = SSL_get_fd(ssl);
    SSL_free(ssl);
    close(fd);
}

static __attribute__((unused)) void http_kit_tls_send(SSL *ssl, const void *bytes, size_t length)
{
    assert_int_equal(SSL_write(ssl, bytes, (int)length), (int)length);
}

/* As http_kit_read. */
static __attribute__((unused)) size_t http_kit_tls_read(SSL *ssl, char *out, size_t capacity,
                                                        const char *tail)
{
    size_t length = 0;
    out[0] = '\0';
    for (;;) {
        if (tail != NULL && length >= strlen(tail) &&
            strcmp(out + length - strlen(tail), tail) == 0)
            return length;
        assert_true(length + 1 < capacity);
        int got = SSL_read(ssl, out + length, (int)(capacity - 1 - length));
        if (got <= 0 && SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ)
            fail_msg("nothing came within 10 s; so far: %s", out);
        if (got <= 0 && tail != NULL)
            fail_msg("the connection ended before '%s' came: %s", tail, out);
        if (got <= 0)
            return length;
        length += (size_t)got;
        out[length] = '\0';
    }
}

/* --- HTTP/2: frames are built into a buffer so that many can go out in one write ------------- */

enum {
    H2_DATA = 0,
    H2_HEADERS = 1,
    H2_RST_STREAM = 3,
    H2_SETTINGS = 4,
    H2_GOAWAY = 7,
    H2_WINDOW_UPDATE = 8,
    H2_CONTINUATION = 9,
    H2_END_STREAM = 1,
    H2_END_HEADERS = 4
};

static __attribute__((unused)) void http_kit_h2_frame(struct buffer *out, int type, int flags,
                                                      uint32_t stream, const void *payload,
                                                      size_t length)
{
    const char head[9] = {(char)(length >> 16), (char)(length >> 8), (char)length,
                          (char)type,           (char)flags,         (char)(stream >> 24),
                          (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    buffer_append(out, head, sizeof(head));
    buffer_append(out, payload, length);
}

static __attribute__((unused)) void http_kit_h2_preface(struct buffer *out)
{
    buffer_append_text(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    http_kit_h2_frame(out, H2_SETTINGS, 0, 0, "", 0);
}

static void http_kit_h2_field(struct buffer *out, const char *name, const char *value)
{
    buffer_append_char(out, 0); /* literal, not indexed, new name, no Huffman (RFC 7541, 6.2.2) */
    assert_true(strlen(name) < 127);
    buffer_append_char(out, (char)strlen(name));
    buffer_append_text(out, name);
    size_t length = strlen(value);
    if (length < 127) {
        buffer_append_char(out, (char)length);
    } else {
        buffer_append_char(out, 127);
        for (length -= 127; length >= 128; length /= 128)
            buffer_append_char(out, (char)(length % 128 + 128));
        buffer_append_char(out, (char)length);
    }
    buffer_append_text(out, value);
}

/* One request's HEADERS; `extra` (may be NULL) is the value of x-test. */
static __attribute__((unused)) void http_kit_h2_request(struct buffer *out, uint32_t stream,
                                                        const char *method, const char *path,
                                                        const char *extra, bool is_end)
{
    struct buffer block;
    buffer_init(&block, 1 << 16);
    http_kit_h2_field(&block, ":method", method);
    http_kit_h2_field(&block, ":scheme", "https");
    http_kit_h2_field(&block, ":authority", "localhost");
    http_kit_h2_field(&block, ":path", path);
    if (extra != NULL)
        http_kit_h2_field(&block, "x-test", extra);
    enum { PART = 16000 }; /* below the frame size that every server takes */
    for (size_t at = 0; at < block.length; at += PART) {
        size_t length = block.length - at < PART ? block.length - at : PART;
        int flags = at + length == block.length ? H2_END_HEADERS : 0;
        if (at == 0 && is_end)
            flags |= H2_END_STREAM;
        http_kit_h2_frame(out, at == 0 ? H2_HEADERS : H2_CONTINUATION, flags, stream,
                          block.bytes + at, length);
    }
    buffer_deinit(&block);
}

static __attribute__((unused)) void http_kit_h2_reset(struct buffer *out, uint32_t stream)
{
    http_kit_h2_frame(out, H2_RST_STREAM, 0, stream, "\0\0\0\x08", 4);
}

struct http_kit_h2_frame {
    int type;
    int flags;
    uint32_t stream;
    size_t length;
    unsigned char payload[1 << 15];
};

/* False at the connection's end; a silence of 10 s is a failure. */
static __attribute__((unused)) bool http_kit_h2_bytes(SSL *ssl, unsigned char *out, size_t length)
{
    for (size_t at = 0; at < length;) {
        int got = SSL_read(ssl, out + at, (int)(length - at));
        if (got <= 0 && SSL_get_error(ssl, got) == SSL_ERROR_WANT_READ)
            fail_msg("nothing came within 10 s");
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* Reads one frame; false at the connection's end. */
static __attribute__((unused)) bool http_kit_h2_read(SSL *ssl, struct http_kit_h2_frame *frame)
{
    unsigned char head[9];
    if (!http_kit_h2_bytes(ssl, head, sizeof(head)))
        return false;
    frame->length = ((size_t)head[0] << 16) | ((size_t)head[1] << 8) | head[2];
    frame->type = head[3];
    frame->flags = head[4];
    frame->stream =
        ((uint32_t)head[5] << 24) | ((uint32_t)head[6] << 16) | ((uint32_t)head[7] << 8) | head[8];
    assert_true(frame->length <= sizeof(frame->payload));
    return http_kit_h2_bytes(ssl, frame->payload, frame->length);
}
