/* gateway_flood: sends bad tokens, each different, at a fixed rate and counts the answers; prints
 * one JSON line.
 *
 * usage: gateway_flood --to HOST:PORT --token TOKEN --rate N --seconds S --connections C
 *                      --sources K
 *
 * TOKEN must be one that the gateway accepts. Eight characters of its signature are overwritten
 * with a number, so that each token has to be verified in full. Connections come from K addresses
 * of 127.0.0.0/8 in turn. Prints "connected" when all are open, and starts at a line on standard
 * input. */
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
#include <time.h>
#include <unistd.h>

enum { HOST_BYTES = 64, REQUEST_BYTES = 12288, IN_BYTES = 8192, CODES = 600, CONNECTIONS = 4096 };

struct peer {
    SSL *ssl;
    bool is_asked;
    size_t length;
    char in[IN_BYTES + 1];
};

static struct {
    char host[HOST_BYTES];
    uint16_t port;
    const char *token;
    unsigned rate;
    unsigned seconds;
    unsigned connections;
    unsigned sources;
} options = {.rate = 10000, .seconds = 5, .connections = 64, .sources = 1};

static struct peer peers[CONNECTIONS];
static struct pollfd polls[CONNECTIONS];
static unsigned long codes[CODES];
static char request[REQUEST_BYTES];
static size_t request_length;
static char *request_number; /* eight characters inside `request` */

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

static void request_make(void)
{
    int length =
        snprintf(request, sizeof request,
                 "GET /v1/me HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\n\r\n",
                 options.token);
    char *end = strstr(request, "\r\n\r\n");
    if (length < 0 || (size_t)length >= sizeof request || strlen(options.token) < 40)
        fail("--token");
    request_length = (size_t)length;
    request_number = end - 20; /* inside the signature, which is longer */
}

static void peer_connect(unsigned i, SSL_CTX *tls)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    struct sockaddr_in source = {.sin_family = AF_INET};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, options.host, &address.sin_addr);
    source.sin_addr.s_addr = htonl(0x7f000101u + i % options.sources);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&source, sizeof source) != 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    peers[i].ssl = SSL_new(tls);
    SSL_set_fd(peers[i].ssl, fd);
    if (SSL_connect(peers[i].ssl) != 1)
        fail("handshake");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    polls[i] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void peer_ask(struct peer *peer, unsigned number)
{
    char text[9];
    snprintf(text, sizeof text, "%08x", number);
    memcpy(request_number, text, 8);
    if (SSL_write(peer->ssl, request, (int)request_length) != (int)request_length)
        fail("send");
    peer->is_asked = true;
    peer->length = 0;
}

static void peer_read(struct peer *peer)
{
    int got;
    while (peer->is_asked && (got = SSL_read(peer->ssl, peer->in + peer->length,
                                             (int)(IN_BYTES - peer->length))) > 0) {
        peer->length += (size_t)got;
        peer->in[peer->length] = '\0';
        const char *end = strstr(peer->in, "\r\n\r\n");
        const char *length = end != NULL ? strcasestr(peer->in, "\r\ncontent-length:") : NULL;
        if (length == NULL ||
            peer->length < (size_t)(end + 4 - peer->in) + strtoul(length + 17, NULL, 10))
            continue;
        codes[strtoul(peer->in + 9, NULL, 10) % CODES]++;
        peer->is_asked = false;
    }
}

static void flood(void)
{
    unsigned sent = 0;
    int64_t begin = now_ns();
    /* so that no run repeats the tokens of the one before */
    unsigned first = (unsigned)(begin / 1000);
    int64_t end = begin + options.seconds * INT64_C(1000000000);
    for (int64_t now = begin; now < end; now = now_ns()) {
        unsigned due = (unsigned)((now - begin) * options.rate / INT64_C(1000000000));
        for (unsigned i = 0; i < options.connections && sent < due; i++) {
            unsigned at = (sent + i) % options.connections;
            if (!peers[at].is_asked)
                peer_ask(&peers[at], first + sent++);
        }
        /* Sends evenly, not ten together in a millisecond: waits until the next is due or one is
         * answered. */
        int64_t wait_ns = begin + (sent + 1) * INT64_C(1000000000) / options.rate - now_ns();
        if (sent < due || wait_ns > 1000000)
            wait_ns = 1000000;
        struct timespec wait = {.tv_nsec = wait_ns > 0 ? wait_ns : 0};
        ppoll(polls, options.connections, &wait, NULL);
        for (unsigned i = 0; i < options.connections; i++)
            if (polls[i].revents != 0)
                peer_read(&peers[i]);
    }
    printf("{\"wanted_per_second\":%u,\"sources\":%u,\"sent\":%u,\"per_second\":%u,\"codes\":{",
           options.rate, options.sources, sent, sent / options.seconds);
    const char *comma = "";
    for (unsigned code = 0; code < CODES; code++) {
        if (codes[code] != 0) {
            printf("%s\"%u\":%lu", comma, code, codes[code]);
            comma = ",";
        }
    }
    printf("}}\n");
}

static void option_read(const char *name, const char *value)
{
    unsigned number = (unsigned)strtoul(value, NULL, 10);
    const char *colon = strrchr(value, ':');
    if (strcmp(name, "--to") == 0 && colon != NULL && colon - value < HOST_BYTES) {
        memcpy(options.host, value, (size_t)(colon - value));
        options.port = (uint16_t)strtoul(colon + 1, NULL, 10);
    } else if (strcmp(name, "--token") == 0) {
        options.token = value;
    } else if (strcmp(name, "--rate") == 0) {
        options.rate = number;
    } else if (strcmp(name, "--seconds") == 0 && number > 0) {
        options.seconds = number;
    } else if (strcmp(name, "--connections") == 0 && number > 0 && number <= CONNECTIONS) {
        options.connections = number;
    } else if (strcmp(name, "--sources") == 0 && number > 0) {
        options.sources = number;
    } else {
        fail(name);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        option_read(argv[i], argv[i + 1]);
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (options.token == NULL)
        return fputs("gateway_flood: needs --to and --token\n", stderr), 2;
    request_make();
    for (unsigned i = 0; i < options.connections; i++)
        peer_connect(i, tls);
    puts("connected");
    fflush(stdout);
    getchar();
    flood();
    return 0;
}
