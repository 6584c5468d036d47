/* edge_kit_ring: the scripted engine's final records, which outlive it, and what the edge asks for
 * itself.
 *
 * Owns:     up to ENGINE_RECORDS_MAX records, what is acknowledged, the engine's instance.
 * Thread:   any.
 * Cost:     –
 * Not here: requests of clients (edge_kit_engine).
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/unit/edge_text_kit.h"

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool engine_is_sick; /* /metrics answers 500 */

static _Atomic int engine_protocol = 1;

static bool engine_send(int fd, const char *text)
{
    size_t length = strlen(text);
    return send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void engine_json(int fd, const char *status, const char *body)
{
    char head[256];
    snprintf(head, sizeof head,
             "HTTP/1.1 %s\r\ncontent-type: application/json\r\nx-banyan-protocol: %d\r\n"
             "content-length: %zu\r\n\r\n",
             status, atomic_load(&engine_protocol), strlen(body));
    engine_send(fd, head);
    engine_send(fd, body);
}

/* --- the ring of final records, kept over deaths --- */

struct engine_record {
    uint64_t record_seq;
    char request_id[64];
    char tenant[33];
    char key[33];
    int tokens;
    char finish[16];
};

enum { ENGINE_RECORDS_MAX = 4096 };
static struct engine_record engine_records[ENGINE_RECORDS_MAX]; /* under engine_lock, as the next */
static int engine_record_count;
static uint64_t engine_acked;
static _Atomic int engine_instance = 1;
static _Atomic(const char *) engine_model = "fake";

#include "tests/unit/edge_kit_prompts.h"

static _Atomic bool engine_is_draining;
static _Atomic int engine_pages_read;
static _Atomic int engine_acks;
static _Atomic int engine_dies_left;   /* so many requests more are cut before their head */
static _Atomic int engine_begins_left; /* 2: the next one too, but there is a record of it */
static _Atomic int engine_busy_left;   /* so many requests more are answered 503 */
static _Atomic bool engine_is_roomy;   /* "busy" is answered as "ok" */

static void engine_field(const char *head, const char *name, char *out, size_t capacity)
{
    const char *value = strstr(head, name);
    size_t length = value != NULL ? strcspn(value + strlen(name), "\r\n") : 0;
    if (length >= capacity)
        length = capacity - 1;
    if (value != NULL)
        memcpy(out, value + strlen(name), length);
    out[length] = '\0';
}

/* Of the request whose head it is; returns its number. */
static uint64_t engine_record_add(const char *head, int tokens, const char *finish)
{
    pthread_mutex_lock(&engine_lock);
    struct engine_record *record = &engine_records[engine_record_count];
    uint64_t previous =
        engine_record_count > 0 ? engine_records[engine_record_count - 1].record_seq : 0;
    if (engine_record_count < ENGINE_RECORDS_MAX)
        engine_record_count++;
    record->record_seq = previous + 1;
    engine_field(head, "x-banyan-request-id: ", record->request_id, sizeof record->request_id);
    engine_field(head, "x-banyan-tenant: ", record->tenant, sizeof record->tenant);
    engine_field(head, "x-banyan-key: ", record->key, sizeof record->key);
    record->tokens = tokens;
    snprintf(record->finish, sizeof record->finish, "%s", finish);
    uint64_t record_seq = record->record_seq;
    pthread_mutex_unlock(&engine_lock);
    return record_seq;
}

static void engine_stats(int fd)
{
    char text[256];
    uint64_t last = 0;
    uint64_t acked = 0;
    pthread_mutex_lock(&engine_lock);
    if (engine_record_count > 0)
        last = engine_records[engine_record_count - 1].record_seq;
    acked = engine_acked;
    pthread_mutex_unlock(&engine_lock);
    snprintf(text, sizeof text,
             "{\"protocol\":%d,\"instance\":\"i%d\",\"model\":\"%s\",\"created\":7,"
             "\"max_model_len\":512,\"is_draining\":%s,"
             "\"finals_waiting\":%llu}",
             atomic_load(&engine_protocol), atomic_load(&engine_instance),
             atomic_load(&engine_model), atomic_load(&engine_is_draining) ? "true" : "false",
             (unsigned long long)(last > acked ? last - acked : 0));
    engine_json(fd, "200 OK", text);
}

static void engine_finals(int fd, const char *head)
{
    static _Thread_local char text[128 * 1024];
    const char *after = strstr(head, "after=");
    const char *limit = strstr(head, "limit=");
    uint64_t from = after != NULL ? strtoull(after + 6, NULL, 10) : 0;
    uint64_t most = limit != NULL ? strtoull(limit + 6, NULL, 10) : 100;
    uint64_t count = 0;
    bool has_more = false;
    pthread_mutex_lock(&engine_lock);
    int length = snprintf(text, sizeof text,
                          "{\"object\":\"list\",\"instance\":\"i%d\",\"acked\":%llu,\"data\":[",
                          atomic_load(&engine_instance), (unsigned long long)engine_acked);
    for (int i = 0; i < engine_record_count; i++) {
        const struct engine_record *record = &engine_records[i];
        if (record->record_seq <= from || record->record_seq <= engine_acked)
            continue;
        has_more = count == most;
        if (has_more)
            break;
        length += snprintf(
            text + length, sizeof text - (size_t)length,
            "%s{\"protocol\":1,\"request_id\":\"%s\",\"record_seq\":%llu,\"tenant\":\"%s\",\"key\":"
            "\"%s\",\"route\":\"/v1/chat/completions\",\"class\":\"standard\",\"at_us\":1000,"
            "\"prompt_tokens\":5,\"cached_tokens\":2,\"completion_tokens\":%d,\"finish_reason\":"
            "\"%s\",\"estimated\":false,\"queue_us\":1,\"prefill_us\":2,\"decode_us\":3}",
            count++ == 0 ? "" : ",", record->request_id, (unsigned long long)record->record_seq,
            record->tenant, record->key, record->tokens, record->finish);
    }
    snprintf(text + length, sizeof text - (size_t)length, "],\"last\":0,\"has_more\":%s}",
             has_more ? "true" : "false");
    pthread_mutex_unlock(&engine_lock);
    atomic_fetch_add(&engine_pages_read, 1);
    engine_json(fd, "200 OK", text);
}

static void engine_ack(int fd, const char *body)
{
    const char *value = strstr(body, "\"record_seq\":");
    uint64_t record_seq = value != NULL ? strtoull(value + 13, NULL, 10) : 0;
    pthread_mutex_lock(&engine_lock);
    bool is_known =
        engine_record_count > 0 && record_seq <= engine_records[engine_record_count - 1].record_seq;
    if (is_known && record_seq > engine_acked)
        engine_acked = record_seq;
    pthread_mutex_unlock(&engine_lock);
    atomic_fetch_add(&engine_acks, 1);
    engine_json(fd, is_known ? "200 OK" : "400 Bad Request", "{}");
}

/* What the edge itself asks, not for a client. */
/* What it says of requests under way, under engine_lock: rows of "data"; "hang" is no answer. */
static char engine_listed[1024];

static void engine_list(int fd)
{
    char text[1100];
    char byte;
    pthread_mutex_lock(&engine_lock);
    snprintf(text, sizeof text, "{\"object\":\"list\",\"data\":[%s]}", engine_listed);
    bool hangs = strcmp(engine_listed, "hang") == 0;
    pthread_mutex_unlock(&engine_lock);
    if (hangs)
        while (recv(fd, &byte, 1, 0) > 0)
            ;
    else
        engine_json(fd, "200 OK", text);
}

static bool engine_answer_internal(int fd, const char *head, const char *body)
{
    if (strncmp(head, "GET /metrics ", 13) == 0)
        engine_json(fd, atomic_load(&engine_is_sick) ? "500 Sick" : "200 OK", "{}");
    else if (strncmp(head, "GET /internal/v1/stats ", 23) == 0)
        engine_stats(fd);
    else if (strncmp(head, "GET /internal/v1/finals", 23) == 0)
        engine_finals(fd, head);
    else if (strncmp(head, "GET /internal/v1/requests ", 26) == 0)
        engine_list(fd);
    else if (strncmp(head, "POST /internal/v1/ack ", 22) == 0)
        engine_ack(fd, body);
    else
        return engine_answer_prompts(fd, head, body, atomic_load(&engine_instance));
    return true;
}
