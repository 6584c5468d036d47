/* http_kit: a real loop with a real listener on a thread of its own, and a blocking client.
 *
 * Owns:     sockets and threads of one test.
 * Thread:   the test's thread is the client; handlers run on the loop's.
 * Cost:     –
 * Not here: assertions about the product.
 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/http/http_error.h"
#include "gateway/http/listener.h"

struct http_kit {
    struct loop *loop;
    struct listener *listener;
    struct tls_context *tls;
    struct listener_options options;
    pthread_t thread;
    _Atomic int is_ready;
    int port;
    char path[64];
};

/* Everything of the loop is made, used and taken down on this one thread: libh2o keeps buffers a
 * thread, so it must be. */
static void *http_kit_thread(void *context)
{
    struct http_kit *kit = context;
    ASSERT(loop_create(&kit->loop) == STATUS_OK);
    kit->options.loop = kit->loop;
    ASSERT(listener_open(&kit->listener, &kit->options) == STATUS_OK);
    atomic_store(&kit->is_ready, 1);
    loop_run(kit->loop);
    listener_close(kit->listener);
    loop_destroy(kit->loop);
    return NULL;
}

/* `options` without loop, descriptor and name. TCP on a free port, or a Unix socket when is_unix.
 */
static __attribute__((unused)) void http_kit_start(struct http_kit *kit, bool is_unix,
                                                   struct listener_options options)
{
    struct tls_context *tls = kit->tls;
    *kit = (struct http_kit){.tls = tls};
    options.name = "test";
    options.tls = tls;
    if (options.connections_max == 0)
        options.connections_max = 1000;
    if (options.body_bytes_max == 0)
        options.body_bytes_max = 1024;
    if (is_unix) {
        snprintf(kit->path, sizeof(kit->path), "/tmp/http_kit.%d.sock", (int)getpid());
        assert_int_equal(listener_bind_unix(&options.descriptor, kit->path), STATUS_OK);
    } else {
        char bound[64];
        assert_int_equal(
            listener_bind_tcp(&options.descriptor, "127.0.0.1:0", bound, sizeof(bound)), STATUS_OK);
        kit->port = (int)strtol(strrchr(bound, ':') + 1, NULL, 10);
    }
    kit->options = options;
    assert_int_equal(pthread_create(&kit->thread, NULL, http_kit_thread, kit), 0);
    while (atomic_load(&kit->is_ready) == 0)
        usleep(100);
}

static __attribute__((unused)) void http_kit_stop(struct http_kit *kit)
{
    loop_stop(kit->loop);
    pthread_join(kit->thread, NULL);
    if (kit->path[0] != '\0')
        unlink(kit->path);
}

/* A blocking socket with a time limit of 120 s on each read. */
static __attribute__((unused)) int http_kit_connect(const struct http_kit *kit)
{
    int fd;
    int result;
    if (kit->path[0] != '\0') {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        memcpy(name.sun_path, kit->path, strlen(kit->path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        result = connect(fd, (struct sockaddr *)&name, sizeof(name));
    } else {
        struct sockaddr_in name = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)kit->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        result = connect(fd, (struct sockaddr *)&name, sizeof(name));
        int on = 1; /* else each second small write waits 40 ms for the first one's receipt */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    assert_int_equal(result, 0);
    struct timeval limit = {.tv_sec = 120};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

static __attribute__((unused)) void http_kit_send(int fd, const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        ssize_t sent = send(fd, bytes + at, length - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

static __attribute__((unused)) void http_kit_send_text(int fd, const char *text)
{
    http_kit_send(fd, text, strlen(text));
}

/* Reads until `out` ends with `tail`, or to the connection's end when `tail` is NULL. Returns the
 * length; out is terminated. */
static __attribute__((unused)) size_t http_kit_read(int fd, char *out, size_t capacity,
                                                    const char *tail)
{
    size_t length = 0;
    out[0] = '\0';
    for (;;) {
        if (tail != NULL && length >= strlen(tail) &&
            strcmp(out + length - strlen(tail), tail) == 0)
            return length;
        assert_true(length + 1 < capacity);
        ssize_t got = recv(fd, out + length, capacity - 1 - length, 0);
        if (got < 0 && errno == ECONNRESET)
            got = 0;
        if (got < 0)
            fail_msg("nothing came within 120 s; so far: %s", out);
        if (got == 0 && tail != NULL)
            fail_msg("the connection ended before '%s' came: %s", tail, out);
        if (got == 0)
            return length;
        length += (size_t)got;
        out[length] = '\0';
    }
}

/* Waits up to 120 s for a counter that another thread moves. */
static __attribute__((unused)) void http_kit_wait(_Atomic int *counter, int at_least)
{
    for (int i = 0; i < 120000; i++) {
        if (atomic_load(counter) >= at_least)
            return;
        usleep(1000);
    }
    fail_msg("the counter stayed at %d, wanted %d", atomic_load(counter), at_least);
}

struct http_kit_counts {
    struct http_kit *kit;
    uint32_t connections;
    uint32_t requests;
    _Atomic int is_done;
};

static void http_kit_counts_post(void *context)
{
    struct http_kit_counts *counts = context;
    counts->connections = listener_connections(counts->kit->listener);
    counts->requests = listener_requests_running(counts->kit->listener);
    counts->is_done = 1;
}

/* The listener's counters, read on its own thread. */
static __attribute__((unused)) struct http_kit_counts http_kit_count(struct http_kit *kit)
{
    struct http_kit_counts counts = {.kit = kit};
    loop_post(kit->loop, http_kit_counts_post, &counts);
    http_kit_wait(&counts.is_done, 1);
    return counts;
}

/* Waits until there are at most / at least so many connections. */
static __attribute__((unused)) void http_kit_wait_connections(struct http_kit *kit, uint32_t least,
                                                              uint32_t most)
{
    uint32_t count = 0;
    for (int i = 0; i < 12000; i++) {
        count = http_kit_count(kit).connections;
        if (count >= least && count <= most)
            return;
        usleep(10000);
    }
    fail_msg("%u connections, wanted %u to %u", count, least, most);
}
