#include "gateway/upstream/https_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/decimal.h"
#include "config/base/mem.h"
#include "gateway/http/tls.h"
#include "gateway/upstream/http1_response.h"

enum { HOST_BYTES = 256, PORT_BYTES = 8, READ_BYTES = 16384, LOOK_MS = 200 };

struct https_client {
    char host[HOST_BYTES]; /* without brackets */
    char port[PORT_BYTES];
    uint32_t timeout_ms;
    size_t answer_bytes;
    bool (*accepts)(const struct sockaddr *address);
    const struct sockaddr *address;
    const atomic_bool *is_over;
    bool is_plain;
    SSL_CTX *context;
    SSL *ssl;       /* NULL = not connected, or plain */
    int descriptor; /* -1 = not connected */
    bool is_secure; /* the handshake is over */
    int64_t deadline_us;
    struct buffer input;
};

/* --- open --- */

static enum status open_port(struct https_client *https, struct slice port)
{
    uint64_t number = 0;
    if (decimal_read(port, UINT16_MAX, &number) != DECIMAL_READ || number < 1)
        FAIL_PARAM(STATUS_INVALID, "url", "the URL's port must be a number from 1 to 65535");
    snprintf(https->port, sizeof https->port, "%u", (unsigned)number);
    return STATUS_OK;
}

static enum status open_url(struct https_client *https, const char *url, bool may_be_plain)
{
    struct slice rest = slice_of(url);
    struct slice scheme = SLICE("https://");
    https->is_plain = may_be_plain && slice_starts_with(rest, SLICE("http://"));
    if (https->is_plain)
        scheme = SLICE("http://");
    if (!slice_starts_with(rest, scheme))
        FAIL_PARAM(STATUS_INVALID, "url", "the URL must begin with https://");
    rest = (struct slice){rest.bytes + scheme.length, rest.length - scheme.length};
    if (rest.length > 0 && rest.bytes[rest.length - 1] == '/')
        rest.length--;
    bool is_bracketed = rest.length > 0 && rest.bytes[0] == '[';
    size_t start = is_bracketed ? 1 : 0;
    size_t end = start;
    while (end < rest.length && rest.bytes[end] != (is_bracketed ? ']' : ':'))
        end++;
    size_t after = end + (is_bracketed ? 1 : 0);
    if (end == start || end - start >= HOST_BYTES || after > rest.length)
        FAIL_PARAM(STATUS_INVALID, "url", "the URL needs a host: https://HOST:PORT");
    for (size_t i = start; i < end; i++) {
        char c = rest.bytes[i];
        if (c <= ' ' || c > '~' || strchr("/?#@\\", c) != NULL)
            FAIL_PARAM(STATUS_INVALID, "url", "the URL is https://HOST:PORT and nothing more");
    }
    memcpy(https->host, rest.bytes + start, end - start);
    if (after == rest.length)
        return open_port(https, https->is_plain ? SLICE("80") : SLICE("443"));
    if (rest.bytes[after] != ':')
        FAIL_PARAM(STATUS_INVALID, "url", "the URL is https://HOST:PORT and nothing more");
    return open_port(https, (struct slice){rest.bytes + after + 1, rest.length - after - 1});
}

static enum status open_context(struct https_client *https, const char *ca_file)
{
    https->context = SSL_CTX_new(TLS_client_method());
    if (https->context == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for TLS");
    SSL_CTX_set_min_proto_version(https->context, TLS1_2_VERSION);
    SSL_CTX_set_verify(https->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(https->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_AUTO_RETRY);
    ERR_clear_error();
    int loaded = ca_file != NULL ? SSL_CTX_load_verify_locations(https->context, ca_file, NULL)
                                 : SSL_CTX_set_default_verify_paths(https->context);
    if (loaded != 1)
        FAIL(STATUS_IO, "%s holds no certificates that could be read",
             ca_file != NULL ? ca_file : "the system");
    return STATUS_OK;
}

static enum status open_own(struct https_client *https, const char *cert_file, const char *key_file)
{
    if (cert_file == NULL)
        return STATUS_OK;
    SSL_CTX_set_default_passwd_cb(https->context, tls_no_password);
    if (SSL_CTX_use_certificate_chain_file(https->context, cert_file) != 1)
        FAIL(STATUS_IO, "%s holds no client certificate that could be read", cert_file);
    if (SSL_CTX_use_PrivateKey_file(https->context, key_file, SSL_FILETYPE_PEM) != 1)
        FAIL(STATUS_IO, "%s does not hold the private key of the client certificate", key_file);
    return STATUS_OK;
}

enum status https_client_open(struct https_client **out, const struct https_client_options *options)
{
    struct https_client *https = mem_zalloc(1, sizeof *https);
    if (https == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a client");
    https->descriptor = -1;
    https->timeout_ms = options->timeout_ms;
    https->answer_bytes =
        options->answer_bytes != 0 ? options->answer_bytes : LIMIT_HTTPS_ANSWER_BYTES;
    https->accepts = options->accepts;
    https->address = options->address;
    https->is_over = options->is_over;
    buffer_init(&https->input, https->answer_bytes + LIMIT_HEAD_BYTES);
    enum status status = open_url(https, options->url, options->may_be_plain);
    if (status == STATUS_OK && !https->is_plain)
        status = open_context(https, options->ca_file);
    if (status == STATUS_OK)
        status = open_own(https, options->cert_file, options->cert_key_file);
    if (status != STATUS_OK) {
        https_client_close(https);
        return status;
    }
    *out = https;
    return STATUS_OK;
}

static void disconnect(struct https_client *https)
{
    if (https->ssl != NULL)
        SSL_free(https->ssl);
    https->ssl = NULL;
    if (https->descriptor >= 0)
        close(https->descriptor);
    https->descriptor = -1;
    https->is_secure = false;
    buffer_clear(&https->input);
}

void https_client_close(struct https_client *https)
{
    if (https == NULL)
        return;
    disconnect(https);
    SSL_CTX_free(https->context);
    if (https->input.bytes != NULL)
        explicit_bzero(https->input.bytes, https->input.capacity); /* a key's value was in it */
    buffer_deinit(&https->input);
    mem_free(https);
}

void https_client_answer_init(struct https_client_answer *answer)
{
    *answer = (struct https_client_answer){0};
    buffer_init(&answer->body, LIMIT_HTTPS_ANSWER_BYTES);
}

void https_client_answer_deinit(struct https_client_answer *answer)
{
    if (answer->body.bytes != NULL)
        explicit_bzero(answer->body.bytes, answer->body.capacity);
    buffer_deinit(&answer->body);
}

/* --- connect --- */

static enum status wait_left(const struct https_client *https, int64_t *left_us)
{
    *left_us = https->deadline_us - clock_mono_us(clock_system());
    if (https->is_over != NULL && atomic_load(https->is_over))
        FAIL(STATUS_CANCELLED, "the call was given up");
    if (*left_us <= 0)
        FAIL(STATUS_DEADLINE, "%s port %s did not answer within %u s", https->host, https->port,
             (https->timeout_ms + 999) / 1000);
    return STATUS_OK;
}

/* Waits until the descriptor is ready, the call's time is over (DEADLINE) or is_over is set
 * (CANCELLED). */
static enum status wait_ready(const struct https_client *https, int descriptor, short events)
{
    for (;;) {
        int64_t left_us;
        TRY(wait_left(https, &left_us));
        struct pollfd entry = {.fd = descriptor, .events = events};
        int64_t wait_ms = left_us / 1000 + 1;
        if (https->is_over != NULL && wait_ms > LOOK_MS)
            wait_ms = LOOK_MS;
        int ready = poll(&entry, 1, (int)wait_ms);
        if (ready > 0)
            return STATUS_OK;
        if (ready < 0 && errno != EINTR)
            FAIL(STATUS_IO, "waiting for the network: %s", strerror(errno));
    }
}

/* Tries one address. OK with `*error` set (errno) when it did not accept the connection. */
static enum status connect_one(struct https_client *https, const struct addrinfo *address,
                               int *error)
{
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *error = errno;
    if (descriptor < 0)
        return STATUS_OK;
    *error = 0;
    enum status status = STATUS_OK;
    if (connect(descriptor, address->ai_addr, address->ai_addrlen) != 0) {
        *error = errno;
        if (*error == EINPROGRESS) {
            status = wait_ready(https, descriptor, POLLOUT);
            socklen_t length = sizeof *error;
            getsockopt(descriptor, SOL_SOCKET, SO_ERROR, error, &length);
        }
    }
    if (status == STATUS_OK && *error == 0) {
        int one = 1;
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        https->descriptor = descriptor;
    } else {
        close(descriptor);
    }
    return status;
}

/* An address that never answers must leave time for the addresses after it. With `left` addresses
 * to try, this one gets 1/left of the time that is left; the last one gets all of it. */
static enum status connect_share(struct https_client *https, const struct addrinfo *address,
                                 size_t left, int *error)
{
    int64_t deadline_us = https->deadline_us;
    int64_t now_us = clock_mono_us(clock_system());
    if (now_us < deadline_us)
        https->deadline_us = now_us + (deadline_us - now_us) / (int64_t)left;
    enum status status = connect_one(https, address, error);
    https->deadline_us = deadline_us;
    if (status != STATUS_DEADLINE || left == 1)
        return status;
    *error = ETIMEDOUT;
    return STATUS_OK;
}

static bool connect_may(const struct https_client *https, const struct addrinfo *address)
{
    return https->accepts == NULL || https->accepts(address->ai_addr);
}

static size_t connect_count(const struct https_client *https, const struct addrinfo *list)
{
    size_t count = 0;
    for (const struct addrinfo *one = list; one != NULL; one = one->ai_next)
        count += connect_may(https, one);
    return count;
}

static enum status connect_list(struct https_client *https, const struct addrinfo *list)
{
    int error = EADDRNOTAVAIL;
    size_t left = connect_count(https, list);
    for (const struct addrinfo *one = list; left > 0 && https->descriptor < 0; one = one->ai_next) {
        if (connect_may(https, one))
            TRY(connect_share(https, one, left--, &error));
    }
    if (https->descriptor < 0)
        FAIL(STATUS_UNAVAILABLE, "nobody answers at %s port %s: %s", https->host, https->port,
             strerror(error));
    return STATUS_OK;
}

/* Connects to the one address that the caller has given. */
static enum status connect_given(struct https_client *https)
{
    struct addrinfo one = {.ai_family = https->address->sa_family,
                           .ai_addr = (struct sockaddr *)(uintptr_t)https->address,
                           .ai_addrlen = https->address->sa_family == AF_INET6
                                             ? sizeof(struct sockaddr_in6)
                                             : sizeof(struct sockaddr_in)};
    return connect_list(https, &one);
}

static enum status connect_socket(struct https_client *https)
{
    if (https->address != NULL)
        return connect_given(https);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int found = getaddrinfo(https->host, https->port, &hints, &list);
    if (found != 0)
        FAIL(STATUS_UNAVAILABLE, "the host %s is not known: %s", https->host, gai_strerror(found));
    enum status status = connect_list(https, list);
    freeaddrinfo(list);
    return status;
}

/* The failure of a handshake, read or write, in words that tell an operator what to look at. */
static enum status tls_failed(const struct https_client *https, const char *doing)
{
    long verdict = https->is_plain ? X509_V_OK : SSL_get_verify_result(https->ssl);
    if (verdict != X509_V_OK)
        FAIL(STATUS_FORBIDDEN, "the certificate of %s port %s is not trusted: %s", https->host,
             https->port, X509_verify_cert_error_string(verdict));
    if (!https->is_plain && !https->is_secure)
        FAIL(STATUS_UNAVAILABLE, "what answers at %s port %s does not speak TLS", https->host,
             https->port);
    FAIL(STATUS_IO, "the connection to %s port %s ended %s", https->host, https->port, doing);
}

/* Waits until OpenSSL can go on; fails (tls_failed) when the connection is over. */
static enum status tls_wait(const struct https_client *https, int result, const char *doing)
{
    int error = SSL_get_error(https->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        return wait_ready(https, https->descriptor, POLLIN);
    if (error == SSL_ERROR_WANT_WRITE)
        return wait_ready(https, https->descriptor, POLLOUT);
    return tls_failed(https, doing);
}

static enum status connect_tls(struct https_client *https)
{
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address = inet_pton(AF_INET, https->host, address) == 1 ||
                      inet_pton(AF_INET6, https->host, address) == 1;
    https->ssl = SSL_new(https->context);
    if (https->ssl == NULL || SSL_set_fd(https->ssl, https->descriptor) != 1)
        FAIL(STATUS_NO_MEMORY, "no memory for TLS");
    X509_VERIFY_PARAM *param = SSL_get0_param(https->ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    int is_set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(param, https->host)
                            : X509_VERIFY_PARAM_set1_host(param, https->host, 0) == 1 &&
                                  SSL_set_tlsext_host_name(https->ssl, https->host) == 1;
    if (is_set != 1)
        FAIL_PARAM(STATUS_INVALID, "url", "the URL's host cannot stand in a certificate");
    for (;;) {
        ERR_clear_error();
        int result = SSL_connect(https->ssl);
        if (result == 1) {
            https->is_secure = true;
            return STATUS_OK;
        }
        TRY(tls_wait(https, result, "during the TLS handshake"));
    }
}

/* --- one exchange --- */

static enum status send_plain(struct https_client *https, struct slice bytes)
{
    size_t at = 0;
    while (at < bytes.length) {
        ssize_t sent = send(https->descriptor, bytes.bytes + at, bytes.length - at, MSG_NOSIGNAL);
        if (sent >= 0)
            at += (size_t)sent;
        else if (errno == EAGAIN || errno == EINTR)
            TRY(wait_ready(https, https->descriptor, POLLOUT));
        else
            FAIL(STATUS_IO, "the connection to %s port %s ended while the request was sent",
                 https->host, https->port);
    }
    return STATUS_OK;
}

static enum status send_all(struct https_client *https, struct slice bytes)
{
    size_t at = 0;
    if (https->is_plain)
        return send_plain(https, bytes);
    while (at < bytes.length) {
        size_t sent = 0;
        ERR_clear_error();
        int result = SSL_write_ex(https->ssl, bytes.bytes + at, bytes.length - at, &sent);
        if (result == 1)
            at += sent;
        else
            TRY(tls_wait(https, result, "while the request was sent"));
    }
    return STATUS_OK;
}

static enum status send_request(struct https_client *https,
                                const struct https_client_request *request)
{
    bool is_ipv6 = strchr(https->host, ':') != NULL;
    struct buffer text;
    buffer_init(&text, LIMIT_HEAD_BYTES + request->body.length);
    buffer_printf(&text, "%s %s HTTP/1.1\r\nhost: %s%s%s:%s\r\naccept: */*\r\n", request->method,
                  request->path, is_ipv6 ? "[" : "", https->host, is_ipv6 ? "]" : "", https->port);
    buffer_append_text(&text, request->headers);
    if (strcmp(request->method, "GET") != 0)
        buffer_printf(&text, "content-type: application/json\r\ncontent-length: %zu\r\n",
                      request->body.length);
    buffer_append_text(&text, "\r\n");
    buffer_append_slice(&text, request->body);
    enum status status = text.status;
    if (status == STATUS_OK)
        status = send_all(https, buffer_slice(&text));
    if (text.bytes != NULL)
        explicit_bzero(text.bytes, text.capacity); /* the admin key is in it */
    buffer_deinit(&text);
    return status;
}

static enum status read_plain(struct https_client *https, char bytes[READ_BYTES], size_t *got,
                              bool *is_end)
{
    ssize_t count;
    while ((count = recv(https->descriptor, bytes, READ_BYTES, 0)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            FAIL(STATUS_IO, "the connection to %s port %s ended before the answer was complete",
                 https->host, https->port);
        TRY(wait_ready(https, https->descriptor, POLLIN));
    }
    *got = (size_t)count;
    *is_end = count == 0;
    return STATUS_OK;
}

/* Reads what has come, at least one byte. `*is_end` is true when the server closed properly: over
 * TLS with close_notify. */
static enum status read_more(struct https_client *https, bool *is_end)
{
    char bytes[READ_BYTES];
    int64_t left_us;
    *is_end = false;
    /* A server that sends without a pause never makes us wait, so the time is checked here too. */
    TRY(wait_left(https, &left_us));
    for (;;) {
        size_t got = 0;
        int result = 0;
        ERR_clear_error();
        if (https->is_plain)
            TRY(read_plain(https, bytes, &got, is_end));
        else
            result = SSL_read_ex(https->ssl, bytes, sizeof bytes, &got);
        if (*is_end)
            return STATUS_OK;
        if (got > 0) {
            buffer_append(&https->input, bytes, got);
            explicit_bzero(bytes, got);
            if (https->input.status != STATUS_OK)
                FAIL(STATUS_PROTOCOL, "the answer is longer than %zu bytes", https->answer_bytes);
            return STATUS_OK;
        }
        if (SSL_get_error(https->ssl, result) == SSL_ERROR_ZERO_RETURN) {
            *is_end = true;
            return STATUS_OK;
        }
        TRY(tls_wait(https, result, "before the answer was complete"));
    }
}

static bool header_is_word(const struct phr_header *header)
{
    for (size_t i = 0; i < header->value_len; i++) {
        char c = header->value[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return true;
}

static void head_take(const struct phr_header *header, struct https_client_answer *answer)
{
    uint64_t number = 0;
    if (http1_response_is(header, "retry-after-ms")) {
        if (http1_response_number(header, 3600000, &number))
            answer->retry_after_ms = (uint32_t)number;
    } else if (http1_response_is(header, "retry-after")) {
        if (answer->retry_after_ms == 0 && http1_response_number(header, 3600, &number))
            answer->retry_after_ms = (uint32_t)number * 1000;
    } else if (http1_response_is(header, "x-next-page")) {
        if (header_is_word(header) && header->value_len < sizeof answer->next_page)
            snprintf(answer->next_page, sizeof answer->next_page, "%.*s", (int)header->value_len,
                     header->value);
    } else if (http1_response_is(header, "x-request-id")) {
        snprintf(answer->request_id, sizeof answer->request_id, "%.*s", (int)header->value_len,
                 header->value);
    }
}

/* Takes one head off the input; interim responses (1xx) are passed over. The headers of `response`
 * are not valid afterwards. */
static enum status read_head(struct https_client *https, struct http1_response *response,
                             struct https_client_answer *answer)
{
    for (;;) {
        enum http1_response_state state =
            http1_response_parse(response, buffer_slice(&https->input), 0);
        if (state == HTTP1_RESPONSE_FOREIGN)
            FAIL(STATUS_PROTOCOL, "what answers at %s port %s does not speak HTTP", https->host,
                 https->port);
        if (state == HTTP1_RESPONSE_PART) {
            bool is_end = false;
            TRY(read_more(https, &is_end));
            if (is_end)
                return tls_failed(https, "before the answer was complete");
            continue;
        }
        TRY(http1_response_frame(response));
        if (response->length > https->answer_bytes)
            FAIL(STATUS_PROTOCOL, "the answer's length cannot be right");
        for (size_t i = 0; i < response->header_count; i++)
            head_take(&response->headers[i], answer);
        buffer_consume(&https->input, response->head_bytes);
        answer->code = response->code;
        if (answer->code == 101)
            FAIL(STATUS_PROTOCOL, "the server wants to speak another protocol");
        if (answer->code >= 200)
            return STATUS_OK;
    }
}

/* Reads a body that ends after its length or with the connection; the latter closes it. */
static enum status read_sized(struct https_client *https, struct http1_response *response,
                              struct https_client_answer *answer)
{
    bool is_sized = response->framing == HTTP1_RESPONSE_LENGTH;
    size_t length = (size_t)response->length;
    bool is_end = false;
    while (!is_end && (!is_sized || https->input.length < length))
        TRY(read_more(https, &is_end));
    if (is_sized && https->input.length < length)
        return tls_failed(https, "before the answer was complete");
    if (!is_sized)
        length = https->input.length;
    response->is_keep_alive = response->is_keep_alive && !is_end;
    buffer_append(&answer->body, https->input.bytes, length);
    buffer_consume(&https->input, length);
    return answer->body.status;
}

static enum status read_chunked(struct https_client *https, struct https_client_answer *answer)
{
    struct phr_chunked_decoder decoder = {.consume_trailer = 1};
    for (;;) {
        size_t length = https->input.length;
        ssize_t left = phr_decode_chunked(&decoder, https->input.bytes, &length);
        if (left == -1)
            FAIL(STATUS_PROTOCOL, "the answer's chunks are malformed");
        buffer_append(&answer->body, https->input.bytes, length);
        if (answer->body.status != STATUS_OK)
            FAIL(STATUS_PROTOCOL, "the answer is longer than %zu bytes", https->answer_bytes);
        if (left >= 0) {
            /* The decoder has moved what is left behind the decoded bytes. */
            https->input.length = length + (size_t)left;
            buffer_consume(&https->input, length);
            return STATUS_OK;
        }
        buffer_clear(&https->input);
        bool is_end = false;
        TRY(read_more(https, &is_end));
        if (is_end)
            return tls_failed(https, "before the answer was complete");
    }
}

static enum status exchange(struct https_client *https, const struct https_client_request *request,
                            struct https_client_answer *answer)
{
    if (https->descriptor < 0) {
        TRY(connect_socket(https));
        if (!https->is_plain)
            TRY(connect_tls(https));
    }
    struct http1_response response;
    TRY(send_request(https, request));
    TRY(read_head(https, &response, answer));
    TRY(response.framing == HTTP1_RESPONSE_CHUNKED ? read_chunked(https, answer)
                                                   : read_sized(https, &response, answer));
    /* Bytes behind the answer belong to nothing that was asked. */
    if (!response.is_keep_alive || https->input.length != 0)
        disconnect(https);
    return STATUS_OK;
}

enum status https_client_call(struct https_client *https,
                              const struct https_client_request *request,
                              struct https_client_answer *answer)
{
    https->deadline_us = clock_mono_us(clock_system()) + https->timeout_ms * INT64_C(1000);
    enum status status = exchange(https, request, answer);
    if (status != STATUS_OK)
        disconnect(https);
    return status;
}
