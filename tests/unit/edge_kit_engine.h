/* edge_kit_engine: an engine that fails as it is told, in ways that the real one cannot be made to.
 *
 * Owns:     a thread for each connection of one listener.
 * Thread:   its own.
 * Cost:     –
 * Not here: its final records (edge_kit_ring), the edge under test (edge_kit).
 *
 * It does what the request's "model" says:
 *
 *   ok       role frame, three tokens, the final record
 *   cut      two tokens, then the connection closes; its record has three
 *   half     two tokens, then a clean end without a record
 *   endless  tokens until half-closed, then the record
 *   brief    two tokens, and after 0.4 s the record
 *   deaf     two tokens, then nothing, whatever happens
 *   patient  tokens until it is lowered, then three more and the record
 *   slow     no head until half-closed, then the record
 *   standing two tokens, paused while engine_stands, then the rest
 *   error    an error frame, then the record
 *   garbage  a frame without a count
 *   flood    64 MiB as fast as it goes
 *   json200  200 that is no stream; busy: 503; late: 503 for good; refused: 400
 */
#pragma once

#include <errno.h>

#include "tests/unit/edge_kit_ring.h"

enum { EDGE_KIT_FLOOD_BYTES = 64 << 20 };

static char engine_head[8192]; /* of the last generation request */
static _Atomic int engine_requests;
static _Atomic int engine_lowered;      /* requests that were told to be of the lowest class */
static _Atomic bool engine_keeps_class; /* … and it says that it cannot */
static _Atomic int engine_half_closed;  /* half-closes that the engine has seen */
static _Atomic long engine_flooded;     /* bytes of the flood that were taken */
static _Atomic bool engine_is_gone;     /* kept connections die at their next request */
static _Atomic bool engine_forgets;     /* cut streams leave no record */
static _Atomic bool engine_stands;      /* so long does a standing stream stand */

/* One chunk of a chunked body. */
static bool engine_chunk(int fd, const char *text)
{
    char head[32];
    snprintf(head, sizeof head, "%zx\r\n", strlen(text));
    return engine_send(fd, head) && engine_send(fd, text) && engine_send(fd, "\r\n");
}

static bool engine_token(int fd, int n)
{
    char frame[512];
    snprintf(frame, sizeof frame,
             "data: {\"n\":%d,\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\","
             "\"created\":7,\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":"
             "\"%s\"},\"finish_reason\":null}]}\n\n",
             n, n == 0 ? "\"role\":\"assistant\"," : "", n == 0 ? "" : "tok ");
    return engine_chunk(fd, frame);
}

static _Thread_local const char *engine_request_head; /* of the connection's request */

static void engine_final(int fd, int tokens, const char *finish)
{
    char frame[512];
    uint64_t record_seq = engine_record_add(engine_request_head, tokens, finish);
    if (strcmp(finish, "cancelled") != 0) { /* a choice that is cancelled just ends */
        snprintf(frame, sizeof frame,
                 "data: {\"n\":%d,\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\","
                 "\"created\":7,\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{},"
                 "\"finish_reason\":\"%s\"}]}\n\n",
                 tokens, finish);
        engine_chunk(fd, frame);
    }
    snprintf(frame, sizeof frame,
             "event: banyan.final\ndata: {\"protocol\":1,\"request_id\":\"x\",\"record_seq\":%llu,"
             "\"prompt_tokens\":5,\"cached_tokens\":2,\"completion_tokens\":%d,\"finish_reason\":"
             "\"%s\",\"estimated\":false,\"queue_us\":1,\"prefill_us\":2,\"decode_us\":3,"
             "\"preemptions\":0,\"swapped_pages\":0,\"swap_us\":0}\n\n",
             (unsigned long long)record_seq, tokens, finish);
    engine_chunk(fd, frame);
    engine_send(fd, "0\r\n\r\n");
}

/* True once the edge has shut its side down; waits at most `ms`. */
static bool engine_is_half_closed(int fd, int ms)
{
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    if (got == 0)
        atomic_fetch_add(&engine_half_closed, 1);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void engine_flood(int fd)
{
    static char frame[65536];
    int length = snprintf(frame, 256,
                          "data: {\"n\":2,\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{"
                          "\"content\":\"");
    memset(frame + length, 'x', sizeof frame - 1 - (size_t)length);
    memcpy(frame + sizeof frame - 1 - 7, "\"}}]}\n\n", 7);
    for (long sent = 0; sent < EDGE_KIT_FLOOD_BYTES; sent += (long)sizeof frame) {
        if (!engine_chunk(fd, frame))
            return;
        atomic_store(&engine_flooded, sent);
    }
    engine_final(fd, 2, "length");
}

static bool engine_is(const char *body, const char *model)
{
    char text[64];
    snprintf(text, sizeof text, "\"model\":\"%s\"", model);
    return strstr(body, text) != NULL;
}

/* What happens behind the head of a stream. */
static void engine_stream(int fd, const char *body)
{
    engine_send(fd, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    "transfer-encoding: chunked\r\n\r\n");
    engine_token(fd, 0);
    engine_token(fd, 1);
    engine_token(fd, 2);
    if (engine_is(body, "cut")) {
        if (!atomic_load(&engine_forgets))
            engine_record_add(engine_request_head, 3, "error"); /* one more than was sent */
        return;
    }
    if (engine_is(body, "half")) {
        engine_send(fd, "0\r\n\r\n");
    } else if (engine_is(body, "garbage")) {
        engine_chunk(fd, "data: {\"id\":\"no count\"}\n\n");
        engine_is_half_closed(fd, 5000);
        engine_final(fd, 2, "cancelled");
    } else if (engine_is(body, "deaf")) {
        while (!engine_is_half_closed(fd, 5000))
            ;
        sleep(3);
    } else if (engine_is(body, "standing")) {
        engine_chunk(fd, "event: banyan.paused\ndata: {}\n\n");
        while (atomic_load(&engine_stands) && !engine_is_half_closed(fd, 20))
            ;
        engine_chunk(fd, "event: banyan.resumed\ndata: {}\n\n");
        engine_token(fd, 3);
        engine_final(fd, 3, "stop");
    } else if (engine_is(body, "error")) {
        engine_chunk(fd, "data: {\"n\":2,\"error\":{\"message\":\"it broke\",\"type\":"
                         "\"server_error\",\"param\":null,\"code\":null}}\n\n");
        engine_final(fd, 2, "error");
    } else if (engine_is(body, "flood")) {
        engine_flood(fd);
    } else if (engine_is(body, "brief")) {
        engine_is_half_closed(fd, 400);
        engine_final(fd, 2, "length");
    } else if (engine_is(body, "patient")) {
        int n = 3;
        while (atomic_load(&engine_lowered) == 0 && !engine_is_half_closed(fd, 10) &&
               engine_token(fd, n))
            n++;
        engine_final(fd, n - 1, "stop");
    } else if (engine_is(body, "endless")) {
        int n = 3;
        while (!engine_is_half_closed(fd, 10) && engine_token(fd, n))
            n++;
        engine_final(fd, n - 1, "cancelled");
    } else {
        engine_token(fd, 3);
        engine_final(fd, 3, "stop");
    }
}

/* True when the connection may serve another request. */
static bool engine_answer(int fd, const char *head, const char *body)
{
    if (engine_answer_internal(fd, head, body))
        return true;
    if (strncmp(head, "PATCH /internal/v1/requests/req_", 32) == 0) {
        bool is_lowest = strcmp(body, "{\"class\":\"batch\"}") == 0;
        atomic_fetch_add(&engine_lowered, is_lowest);
        engine_json(fd, atomic_load(&engine_keeps_class) ? "500 No" : "200 OK", "{}");
        return true;
    }
    if (atomic_load(&engine_dies_left) > 0) {
        atomic_fetch_sub(&engine_dies_left, 1);
        atomic_fetch_add(&engine_requests, 1);
        return false;
    }
    if (atomic_load(&engine_begins_left) > 0) {
        if (atomic_fetch_sub(&engine_begins_left, 1) == 2)
            engine_record_add(head, 1, "error");
        return false;
    }
    engine_request_head = head;
    atomic_fetch_add(&engine_requests, 1);
    pthread_mutex_lock(&engine_lock);
    size_t length = strnlen(head, sizeof engine_head - 1);
    memcpy(engine_head, head, length);
    engine_head[length] = '\0';
    pthread_mutex_unlock(&engine_lock);
    if (atomic_load(&engine_protocol) != 1) {
        engine_json(fd, "400 Bad Request",
                    "{\"error\":{\"message\":\"of another version\",\"type\":"
                    "\"invalid_request_error\",\"param\":null,\"code\":\"protocol_mismatch\"}}");
        return true;
    }
    bool is_own = engine_is(body, "greedy"); /* it is full for this tenant alone */
    bool is_busy = (is_own || engine_is(body, "busy")) && !atomic_load(&engine_is_roomy);
    if (atomic_load(&engine_busy_left) > 0 && !is_busy) {
        atomic_fetch_sub(&engine_busy_left, 1);
        is_busy = true;
    }
    if (is_busy) {
        engine_json(fd, "503 Busy\r\nretry-after-ms: 50",
                    is_own ? "{\"error\":{\"message\":\"full\",\"code\":\"engine_share_used\"}}"
                           : "{\"error\":{\"message\":\"full\",\"code\":\"engine_overloaded\"}}");
        return true;
    }
    if (engine_is(body, "late")) {
        engine_json(fd, "503 Late\r\nretry-after-ms: 2500",
                    "{\"error\":{\"message\":\"about 3 s\",\"code\":\"queue_timeout\"}}");
        return true;
    }
    if (engine_is(body, "refused")) {
        engine_json(fd, "400 Bad Request",
                    "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\","
                    "\"param\":\"max_tokens\",\"code\":null}}");
        return true;
    }
    if (engine_is(body, "json200")) {
        engine_json(fd, "200 OK", "{}");
        return true;
    }
    if (strstr(head, "tokenize") != NULL) { /* one answer; slow: it never comes */
        while (engine_is(body, "slow") && !engine_is_half_closed(fd, 1000))
            ;
        engine_json(fd, "200 OK", "{\"tokens\":[7],\"count\":1}");
        return !engine_is(body, "slow");
    }
    if (engine_is(body, "slow")) {
        while (!engine_is_half_closed(fd, 1000))
            ;
        engine_send(fd, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                        "transfer-encoding: chunked\r\n\r\n");
        engine_final(fd, 0, "cancelled");
        return false;
    }
    engine_stream(fd, body);
    return engine_is(body, "ok");
}

static void *engine_connection(void *context)
{
    int fd = (int)(intptr_t)context;
    static _Thread_local char text[262144];
    bool is_open = true;
    while (is_open) {
        size_t length = 0;
        char *end = NULL;
        size_t total = SIZE_MAX;
        struct timeval limit = {.tv_sec = 60};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        while (length < total) {
            ssize_t got = recv(fd, text + length, sizeof text - 1 - length, 0);
            if (got <= 0)
                goto out;
            length += (size_t)got;
            text[length] = '\0';
            end = strstr(text, "\r\n\r\n");
            const char *field = strstr(text, "content-length: ");
            if (end != NULL && field != NULL)
                total = (size_t)(end + 4 - text) + strtoul(field + 16, NULL, 10);
        }
        if (atomic_load(&engine_is_gone))
            break;
        end[2] = '\0';
        is_open = engine_answer(fd, text, end + 4);
    }
out:
    close(fd);
    return NULL;
}

static void *engine_accept(void *context)
{
    int listener = (int)(intptr_t)context;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        pthread_t thread;
        if (pthread_create(&thread, NULL, engine_connection, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
}
