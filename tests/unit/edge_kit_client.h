/* edge_kit_client: one test's view of its edge: ports and keys, and a blocking TLS client.
 *
 * Owns:     the last answer.
 * Thread:   the test's.
 * Cost:     –
 * Not here: starting the edge (edge_kit).
 */
#pragma once

#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "config/config.h"
#include "tests/unit/edge_text_kit.h"

enum { EDGE_KIT_ANSWER_BYTES = 1 << 20 };

struct edge_kit {
    char dir[64];
    const struct config *config;
    int port;
    int admin_port;
    pthread_t thread;
    enum status result;
    int log;             /* read end of the log's pipe is a file: D.log */
    int engine_listener; /* -1: no engine */
    pthread_t engine;
    char admin_key[128];
    char tenant_id[64];
    char key_id[64];
    char key[128];
    SSL_CTX *tls;
};

static struct edge_kit kit;
static char answer[EDGE_KIT_ANSWER_BYTES];

struct edge_kit_connection {
    int fd;
    SSL *tls;
};

static struct edge_kit_connection edge_kit_connect(int port)
{
    struct edge_kit_connection out;
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    out.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(out.fd, (struct sockaddr *)&name, sizeof name), 0);
    struct timeval limit = {.tv_sec = 120};
    setsockopt(out.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int one = 1; /* else each request waits 40 ms for the acknowledgement of the handshake */
    setsockopt(out.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    out.tls = SSL_new(kit.tls);
    SSL_set_fd(out.tls, out.fd);
    SSL_set1_host(out.tls, "localhost");
    assert_int_equal(SSL_connect(out.tls), 1);
    return out;
}

static void edge_kit_close(struct edge_kit_connection *connection)
{
    SSL_free(connection->tls);
    close(connection->fd);
}

static void edge_kit_write(struct edge_kit_connection *connection, const char *method,
                           const char *path, const char *headers, const char *body)
{
    static char text[262144];
    int length = snprintf(text, sizeof text,
                          "%s %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%s"
                          "content-length: %zu\r\n\r\n%s",
                          method, path, headers, strlen(body), body);
    assert_in_range(length, 1, (int)sizeof text - 1);
    assert_int_equal(SSL_write(connection->tls, text, length), length);
}

/* Reads into `answer` until `until` has come, or to the end when NULL. */
static void edge_kit_read(struct edge_kit_connection *connection, const char *until)
{
    size_t length = 0;
    answer[0] = '\0';
    for (;;) {
        if (until != NULL && strstr(answer, until) != NULL)
            return;
        assert_in_range(length, 0, sizeof answer - 2);
        int got = SSL_read(connection->tls, answer + length, (int)(sizeof answer - 1 - length));
        if (got <= 0 && until != NULL)
            fail_msg("'%s' did not come: %s", until, answer);
        if (got <= 0)
            return;
        length += (size_t)got;
        answer[length] = '\0';
    }
}

/* Takes the chunks' framing out of `answer`. */
static void edge_kit_dechunk(void)
{
    char *body = strstr(answer, "\r\n\r\n");
    if (body == NULL || strstr(answer, "transfer-encoding: chunked") == NULL)
        return;
    char *to = body + 4;
    const char *from = to;
    for (;;) {
        char *end;
        size_t length = strtoul(from, &end, 16);
        if (end == from || length == 0 || strlen(end) < length + 2)
            break;
        memmove(to, end + 2, length);
        to += length;
        from = end + 2 + length + 2;
    }
    *to = '\0';
}

/* One request, its answer in `answer`; returns the code. */
static int edge_kit_ask(int port, const char *method, const char *path, const char *headers,
                        const char *body)
{
    struct edge_kit_connection connection = edge_kit_connect(port);
    edge_kit_write(&connection, method, path, headers, body);
    edge_kit_read(&connection, NULL);
    edge_kit_close(&connection);
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0)
        fail_msg("no answer: '%s'", answer);
    edge_kit_dechunk();
    return (int)strtol(answer + 9, NULL, 10);
}

static const char *edge_kit_bearer(const char *key)
{
    static char header[256];
    snprintf(header, sizeof header, "authorization: Bearer %s\r\n", key);
    return header;
}

/* The tenant asks on the public port, the first admin key on the admin port. */
static __attribute__((unused)) int edge_kit_public(const char *method, const char *path,
                                                   const char *body)
{
    return edge_kit_ask(kit.port, method, path, edge_kit_bearer(kit.key), body);
}

static int edge_kit_admin(const char *method, const char *path, const char *body)
{
    return edge_kit_ask(kit.admin_port, method, path, edge_kit_bearer(kit.admin_key), body);
}

/* A string member of the last answer's body. */
static void edge_kit_member(const char *name, char *out, size_t capacity)
{
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    json_t *root = json_loads(body + 4, 0, NULL);
    if (!json_is_object(root))
        fail_msg("no JSON object: %s", answer);
    const char *value = json_string_value(json_object_get(root, name));
    if (value == NULL)
        fail_msg("no %s: %s", name, answer);
    snprintf(out, capacity, "%s", value != NULL ? value : "");
    json_decref(root);
}

static void edge_kit_file(const char *name, char *out, size_t capacity)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", kit.dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length + 1 < capacity) {
        got = read(fd, out + length, capacity - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    out[length] = '\0';
    close(fd);
}
