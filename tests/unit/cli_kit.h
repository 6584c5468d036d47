/* cli_kit: a TLS server that answers what it is told and keeps what it was asked, and `banyan
 * admin` run against it with its output in memory.
 *
 * Owns:     a directory under /tmp with certificates and a key file, the server's thread.
 * Thread:   the test's thread is the client.
 * Cost:     –
 * Not here: assertions about the product.
 */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/cli/cli.h"
#include "gateway/http/tls.h"

#define CLI_KIT_KEY "sk-by-test"

/* What the server does with the next request. */
enum cli_kit_end {
    CLI_KIT_KEEP, /* the connection goes on */
    CLI_KIT_SHUT, /* TLS's farewell, then closed */
    CLI_KIT_DROP, /* closed without one */
    CLI_KIT_HANG, /* nothing more until the client leaves */
};

struct cli_kit_step {
    char *bytes;
    enum cli_kit_end end;
};

enum { CLI_KIT_STEPS = 64, CLI_KIT_SEEN_BYTES = 256 * 1024 };

static struct {
    char dir[64];
    SSL_CTX *context;
    int listener;
    int port;
    pthread_t thread;
    pthread_mutex_t saying; /* nothing is forgotten or added while a step or a request is written */
    struct cli_kit_step steps[CLI_KIT_STEPS];
    _Atomic int step_count;
    _Atomic int steps_done;
    _Atomic int connections;
    char seen[CLI_KIT_SEEN_BYTES]; /* all requests, one after the other */
    size_t seen_length;
    char *out, *err; /* of the last cli_kit_run */
} cli_kit = {.saying = PTHREAD_MUTEX_INITIALIZER};

/* Whether `seen` has all of the request that begins at `start`. */
static bool cli_kit_is_whole(size_t start)
{
    const char *head = cli_kit.seen + start;
    const char *end = strstr(head, "\r\n\r\n");
    const char *length = strstr(head, "content-length: ");
    size_t body = length != NULL && length < end ? (size_t)strtoul(length + 16, NULL, 10) : 0;
    return end != NULL && cli_kit.seen_length - start >= (size_t)(end + 4 - head) + body;
}

/* Reads one request. False at the end. */
static bool cli_kit_read(SSL *ssl)
{
    char bytes[16384];
    int got;
    bool is_whole = false;
    pthread_mutex_lock(&cli_kit.saying);
    size_t start = cli_kit.seen_length;
    pthread_mutex_unlock(&cli_kit.saying);
    while (!is_whole && (got = SSL_read(ssl, bytes, sizeof bytes)) > 0) {
        pthread_mutex_lock(&cli_kit.saying);
        if (start > cli_kit.seen_length) /* forgotten since */
            start = cli_kit.seen_length;
        ASSERT(cli_kit.seen_length + (size_t)got < CLI_KIT_SEEN_BYTES);
        memcpy(cli_kit.seen + cli_kit.seen_length, bytes, (size_t)got);
        cli_kit.seen_length += (size_t)got;
        cli_kit.seen[cli_kit.seen_length] = '\0';
        is_whole = cli_kit_is_whole(start);
        pthread_mutex_unlock(&cli_kit.saying);
    }
    return is_whole;
}

/* Writes the next answer; what is to follow it, or that there was none. */
static enum cli_kit_end cli_kit_write_step(SSL *ssl)
{
    pthread_mutex_lock(&cli_kit.saying);
    enum cli_kit_end end = CLI_KIT_DROP;
    if (cli_kit.steps_done < cli_kit.step_count) {
        const struct cli_kit_step *step = &cli_kit.steps[cli_kit.steps_done++];
        end = step->end;
        size_t length = strlen(step->bytes);
        /* Two writes, so that a reader meets every border between them. */
        size_t half = length / 2;
        if (half > 0)
            SSL_write(ssl, step->bytes, (int)half);
        if (length > half)
            SSL_write(ssl, step->bytes + half, (int)(length - half));
    }
    pthread_mutex_unlock(&cli_kit.saying);
    return end;
}

static void cli_kit_serve(SSL *ssl)
{
    while (cli_kit_read(ssl)) {
        enum cli_kit_end end = cli_kit_write_step(ssl);
        char byte;
        if (end == CLI_KIT_HANG)
            SSL_read(ssl, &byte, 1);
        if (end == CLI_KIT_SHUT)
            SSL_shutdown(ssl);
        if (end != CLI_KIT_KEEP)
            return;
    }
}

static void *cli_kit_thread(void *context)
{
    (void)context;
    for (;;) {
        int descriptor = accept(cli_kit.listener, NULL, NULL);
        if (descriptor < 0)
            return NULL;
        cli_kit.connections++;
        SSL *ssl = SSL_new(cli_kit.context);
        SSL_set_fd(ssl, descriptor);
        if (SSL_accept(ssl) == 1)
            cli_kit_serve(ssl);
        SSL_free(ssl);
        close(descriptor);
    }
}

static void cli_kit_path(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", cli_kit.dir, name);
}

static void cli_kit_write(const char *name, const char *text, mode_t mode)
{
    char path[128];
    cli_kit_path(path, name);
    unlink(path);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    assert_true(descriptor >= 0);
    assert_int_equal(fchmod(descriptor, mode), 0);
    assert_int_equal(write(descriptor, text, strlen(text)), (ssize_t)strlen(text));
    close(descriptor);
}

static int cli_kit_setup(void **state)
{
    (void)state;
    char path[128];
    /* All of loopback: 127.0.0.2 is an address that the certificate does not name. */
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof name;
    signal(SIGPIPE, SIG_IGN);
    snprintf(cli_kit.dir, sizeof cli_kit.dir, "/tmp/cli_kit.XXXXXX");
    assert_non_null(mkdtemp(cli_kit.dir));
    cli_kit_path(path, "tls");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tls_make_self_signed(path), STATUS_OK);
    cli_kit_write("admin.key", CLI_KIT_KEY "\n", 0600);
    cli_kit.context = SSL_CTX_new(TLS_server_method());
    cli_kit_path(path, "tls/server.crt");
    assert_int_equal(SSL_CTX_use_certificate_chain_file(cli_kit.context, path), 1);
    cli_kit_path(path, "tls/server.key");
    assert_int_equal(SSL_CTX_use_PrivateKey_file(cli_kit.context, path, SSL_FILETYPE_PEM), 1);
    cli_kit.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(cli_kit.listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(cli_kit.listener, 16), 0);
    assert_int_equal(getsockname(cli_kit.listener, (struct sockaddr *)&name, &length), 0);
    cli_kit.port = ntohs(name.sin_port);
    assert_int_equal(pthread_create(&cli_kit.thread, NULL, cli_kit_thread, NULL), 0);
    return 0;
}

/* Forgets script, requests and output. */
static int cli_kit_clear(void **state)
{
    (void)state;
    pthread_mutex_lock(&cli_kit.saying);
    for (int i = 0; i < cli_kit.step_count; i++)
        free(cli_kit.steps[i].bytes);
    cli_kit.step_count = cli_kit.steps_done = cli_kit.connections = 0;
    cli_kit.seen_length = 0;
    cli_kit.seen[0] = '\0';
    pthread_mutex_unlock(&cli_kit.saying);
    free(cli_kit.out);
    free(cli_kit.err);
    cli_kit.out = cli_kit.err = NULL;
    return 0;
}

static int cli_kit_teardown(void **state)
{
    static const char *const files[] = {"tls/ca.crt",
                                        "tls/ca.key",
                                        "tls/server.crt",
                                        "tls/server.key",
                                        "admin.key",
                                        "other.key",
                                        "tls",
                                        ""};
    cli_kit_clear(state);
    shutdown(cli_kit.listener, SHUT_RDWR);
    pthread_join(cli_kit.thread, NULL);
    close(cli_kit.listener);
    SSL_CTX_free(cli_kit.context);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        cli_kit_path(path, files[i]);
        remove(path);
    }
    return 0;
}

/* The next answer, byte for byte. */
static void cli_kit_say(enum cli_kit_end end, const char *bytes)
{
    assert_true(cli_kit.step_count < CLI_KIT_STEPS);
    char *copy = strdup(bytes);
    assert_non_null(copy);
    cli_kit.steps[cli_kit.step_count] = (struct cli_kit_step){copy, end};
    cli_kit.step_count++;
}

/* The next answer: a code and a body, as the config API sends them. */
static __attribute__((unused)) void cli_kit_answer(int code, const char *body)
{
    size_t capacity = strlen(body) + 512;
    char *bytes = malloc(capacity);
    assert_non_null(bytes);
    snprintf(bytes, capacity,
             "HTTP/1.1 %d Said\r\nx-request-id: req_7\r\ncontent-type: application/json\r\n"
             "content-length: %zu\r\n\r\n%s",
             code, strlen(body), body);
    cli_kit_say(CLI_KIT_KEEP, bytes);
    free(bytes);
}

static __attribute__((unused)) const char *cli_kit_url(void)
{
    static char url[64];
    snprintf(url, sizeof url, "https://127.0.0.1:%d", cli_kit.port);
    return url;
}

/* Runs `banyan admin` with the kit's server, key and certificates; at most 24 words, NULL at the
 * end. */
static __attribute__((unused)) enum cli_exit cli_kit_run(size_t columns, const char *const *words)
{
    const char *argv[32] = {"--url", cli_kit_url(), "--data-dir", cli_kit.dir, "--timeout", "10"};
    int argc = 6;
    size_t out_length = 0;
    size_t err_length = 0;
    free(cli_kit.out);
    free(cli_kit.err);
    struct cli_options options = {.out = open_memstream(&cli_kit.out, &out_length),
                                  .err = open_memstream(&cli_kit.err, &err_length),
                                  .columns = columns};
    for (; *words != NULL; words++) {
        assert_true(argc < 31);
        argv[argc++] = *words;
    }
    enum cli_exit exit_code = cli_run(argc, argv, &options);
    fclose(options.out);
    fclose(options.err);
    return exit_code;
}

#define CLI_KIT_RUN(...) cli_kit_run(0, (const char *const[]){__VA_ARGS__, NULL})

static __attribute__((unused)) void cli_kit_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static __attribute__((unused)) void cli_kit_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("'%s' is in: %s", part, text);
}
