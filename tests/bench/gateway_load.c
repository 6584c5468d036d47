/* gateway_load: sends requests to a gateway and times them; prints one JSON line.
 *
 * usage: gateway_load latency --to HOST:PORT --key KEY [--plain] --requests N [--pause-us N]
 *                     (--unix PATH | --beside KEY [--beside-to HOST:PORT])
 *        gateway_load events  --to HOST:PORT --key KEY [--plain] --streams S --tokens T
 *
 * latency: one connection to the gateway and one to the upstream's own Unix socket get a request
 * each in turn, back to back (or with a pause), so that both see the same machine. With --beside
 * the second connection goes to the gateway too (or to another one), with that other key: this
 * compares two keys or two gateways. events: S streams of T tokens at once. Prints "connected" when
 * all connections are open and waits for a line on standard input, so that a measurement of CPU
 * time can leave the handshakes out. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { IN_BYTES = 1 << 16, WARM = 200, HOST_BYTES = 64 };

struct peer {
    int fd;
    SSL *ssl; /* NULL: without TLS */
    size_t length;
    char in[IN_BYTES + 1];
};

struct place {
    char host[HOST_BYTES];
    uint16_t port; /* 0: not given */
};

static struct {
    struct place to;
    struct place beside_to;
    const char *key;
    const char *unix_path;
    const char *beside; /* NULL: compare with the upstream */
    bool is_plain;
    unsigned requests;
    unsigned pause_us;
    unsigned streams;
    unsigned tokens;
} options = {.key = "", .requests = 10000, .streams = 64, .tokens = 200};

static SSL_CTX *tls;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void peer_send(struct peer *peer, const char *bytes, size_t length)
{
    ssize_t n = peer->ssl != NULL ? SSL_write(peer->ssl, bytes, (int)length)
                                  : send(peer->fd, bytes, length, MSG_NOSIGNAL);
    if (n != (ssize_t)length)
        fail("send");
}

/* Reads more bytes. Returns 0 when there are none now (sockets that do not block). */
static size_t peer_read(struct peer *peer)
{
    size_t room = IN_BYTES - peer->length;
    ssize_t n = peer->ssl != NULL ? SSL_read(peer->ssl, peer->in + peer->length, (int)room)
                                  : recv(peer->fd, peer->in + peer->length, room, 0);
    if (n <= 0) {
        bool is_later = peer->ssl != NULL ? SSL_get_error(peer->ssl, (int)n) == SSL_ERROR_WANT_READ
                                          : n < 0 && errno == EAGAIN;
        if (is_later)
            return 0;
        fail("the gateway closed the connection");
    }
    peer->length += (size_t)n;
    peer->in[peer->length] = '\0';
    return (size_t)n;
}

static struct peer *peer_connect_tcp(const struct place *to)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        fail("calloc");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    inet_pton(AF_INET, to->host, &address.sin_addr);
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    if (options.is_plain)
        return peer;
    peer->ssl = SSL_new(tls);
    SSL_set_fd(peer->ssl, peer->fd);
    if (SSL_connect(peer->ssl) != 1)
        fail("handshake");
    return peer;
}

static struct peer *peer_connect_unix(void)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        fail("calloc");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", options.unix_path);
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail(options.unix_path);
    return peer;
}

static size_t request_make(char *out, size_t capacity, const char *key, bool is_stream,
                           unsigned tokens)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"model\":\"bench\",\"messages\":[{\"role\":\"system\",\"content\":\"You answer in "
             "one word.\"},{\"role\":\"user\",\"content\":\"What is the capital of France, and "
             "what do people there eat for breakfast on Sundays?\"}],\"max_tokens\":%u,"
             "\"temperature\":0.7,\"stream\":%s}",
             tokens, is_stream ? "true" : "false");
    return (size_t)snprintf(out, capacity,
                            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                            "authorization: Bearer %s\r\ncontent-type: application/json\r\n"
                            "content-length: %zu\r\n\r\n%s",
                            key, strlen(body), body);
}

/* Returns whether the input holds one whole answer, by content-length or the last chunk. */
static bool answer_is_whole(const struct peer *peer)
{
    const char *end = strstr(peer->in, "\r\n\r\n");
    if (end == NULL)
        return false;
    if (strncmp(peer->in, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "%s\n", peer->in);
        exit(1);
    }
    const char *length = strcasestr(peer->in, "\r\ncontent-length:");
    if (length != NULL && length < end)
        return peer->length == (size_t)(end + 4 - peer->in) + strtoul(length + 17, NULL, 10);
    return peer->length >= 5 && memcmp(peer->in + peer->length - 5, "0\r\n\r\n", 5) == 0;
}

static int64_t request_time(struct peer *peer, const char *request, size_t length)
{
    int64_t start = now_ns();
    peer->length = 0;
    peer_send(peer, request, length);
    do {
        peer_read(peer);
    } while (!answer_is_whole(peer));
    return now_ns() - start;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const int64_t *sorted, unsigned count, double part)
{
    unsigned index = (unsigned)(part * (count - 1));
    return (double)sorted[index] / 1000;
}

static void latency(void)
{
    const struct place *beside_to = options.beside_to.port != 0 ? &options.beside_to : &options.to;
    struct peer *gateway = peer_connect_tcp(&options.to);
    struct peer *bare = options.beside != NULL ? peer_connect_tcp(beside_to) : peer_connect_unix();
    const char *bare_key = options.beside != NULL ? options.beside : options.key;
    char request[4096], bare_request[4096];
    size_t length = request_make(request, sizeof request, options.key, false, 1);
    size_t bare_length = request_make(bare_request, sizeof bare_request, bare_key, false, 1);
    unsigned count = options.requests;
    int64_t *times[3]; /* of the gateway, of the other, and the difference of each pair */
    for (int i = 0; i < 3; i++) {
        times[i] = calloc(count, sizeof(int64_t));
        if (times[i] == NULL)
            fail("calloc");
    }
    for (unsigned i = 0; i < count + WARM; i++) {
        int64_t bare_ns = request_time(bare, bare_request, bare_length);
        int64_t gateway_ns = request_time(gateway, request, length);
        if (options.pause_us != 0)
            usleep(options.pause_us);
        if (i < WARM)
            continue;
        times[0][i - WARM] = gateway_ns;
        times[1][i - WARM] = bare_ns;
        times[2][i - WARM] = gateway_ns - bare_ns;
    }
    for (int i = 0; i < 3; i++)
        qsort(times[i], count, sizeof(int64_t), compare);
    printf("{\"requests\":%u,\"gateway_us\":{\"p50\":%.1f,\"p99\":%.1f},\"bare_us\":{\"p50\":%.1f,"
           "\"p99\":%.1f},\"added_us\":{\"p10\":%.1f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f}}\n",
           count, percentile_us(times[0], count, 0.5), percentile_us(times[0], count, 0.99),
           percentile_us(times[1], count, 0.5), percentile_us(times[1], count, 0.99),
           percentile_us(times[2], count, 0.1), percentile_us(times[2], count, 0.5),
           percentile_us(times[2], count, 0.99), percentile_us(times[2], count, 0.999));
}

/* Counts "data: " in what has arrived, and keeps the few bytes that may begin the next one. */
static unsigned events_count(struct peer *peer, bool *is_done)
{
    unsigned count = 0;
    const char *at = peer->in;
    for (const char *found; (found = strstr(at, "data: ")) != NULL; at = found + 6) {
        if (strlen(found) < 12) /* "data: [DONE]" must be whole to be recognised */
            break;
        count++;
        *is_done |= strncmp(found + 6, "[DONE]", 6) == 0;
    }
    size_t rest = strlen(at) < 12 ? strlen(at) : 11;
    memmove(peer->in, peer->in + peer->length - rest, rest + 1);
    peer->length = rest;
    return count;
}

static void events(void)
{
    unsigned streams = options.streams;
    struct peer **peers = calloc(streams, sizeof *peers);
    struct pollfd *polls = calloc(streams, sizeof *polls);
    if (peers == NULL || polls == NULL)
        fail("calloc");
    for (unsigned i = 0; i < streams; i++) {
        peers[i] = peer_connect_tcp(&options.to);
        fcntl(peers[i]->fd, F_SETFL, O_NONBLOCK);
        polls[i] = (struct pollfd){.fd = peers[i]->fd, .events = POLLIN};
    }
    puts("connected");
    fflush(stdout);
    getchar();
    char request[2048];
    size_t length = request_make(request, sizeof request, options.key, true, options.tokens);
    int64_t start = now_ns();
    for (unsigned i = 0; i < streams; i++)
        peer_send(peers[i], request, length);
    uint64_t count = 0;
    for (unsigned open = streams; open > 0;) {
        poll(polls, streams, -1);
        for (unsigned i = 0; i < streams; i++) {
            bool is_done = false;
            if (polls[i].revents == 0)
                continue;
            while (!is_done && peer_read(peers[i]) > 0)
                count += events_count(peers[i], &is_done);
            if (is_done) {
                polls[i].fd = -1;
                open--;
            }
        }
    }
    printf("{\"streams\":%u,\"tokens\":%u,\"events\":%llu,\"seconds\":%.3f}\n", streams,
           options.tokens, (unsigned long long)count, (double)(now_ns() - start) / 1e9);
}

static void place_read(const char *name, const char *value, struct place *out)
{
    const char *colon = strrchr(value, ':');
    if (colon == NULL || (size_t)(colon - value) >= HOST_BYTES)
        fail(name);
    memcpy(out->host, value, (size_t)(colon - value));
    out->port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

static void option_read(const char *name, const char *value)
{
    if (strcmp(name, "--to") == 0) {
        place_read(name, value, &options.to);
    } else if (strcmp(name, "--beside-to") == 0) {
        place_read(name, value, &options.beside_to);
    } else if (strcmp(name, "--key") == 0) {
        options.key = value;
    } else if (strcmp(name, "--beside") == 0) {
        options.beside = value;
    } else if (strcmp(name, "--unix") == 0) {
        options.unix_path = value;
    } else {
        unsigned number = (unsigned)strtoul(value, NULL, 10);
        if (strcmp(name, "--requests") == 0)
            options.requests = number;
        else if (strcmp(name, "--pause-us") == 0)
            options.pause_us = number;
        else if (strcmp(name, "--streams") == 0)
            options.streams = number;
        else if (strcmp(name, "--tokens") == 0)
            options.tokens = number;
        else
            fail(name);
    }
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--plain") == 0)
            options.is_plain = true;
        else if (i + 1 < argc) {
            option_read(argv[i], argv[i + 1]);
            i++;
        }
    }
    tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE);
    if (argc > 1 && strcmp(argv[1], "latency") == 0)
        latency();
    else if (argc > 1 && strcmp(argv[1], "events") == 0)
        events();
    else
        return fputs("gateway_load: the first argument must be latency or events\n", stderr), 2;
    return 0;
}
