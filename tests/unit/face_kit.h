/* face_kit: a real engine process's face inside a test: own thread, own folder, the small model.
 *
 * Owns:     the thread, the folder, the parsed configuration.
 * Thread:   the test's; the face runs on its own.
 * Not here: what is asserted.
 */
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>

#include "config/config.h"
#include "gateway/engine_http/engine_http.h"

/* Sequences that may compute at once in kits started from here on. */
static const char *face_kit_sequences = "128";

struct face_kit {
    char folder[64];
    const struct config *config;
    struct engine_http_options options;
    pthread_t thread;
    enum status status;
};

static inline const char *face_kit_model(void)
{
    static char path[512];
    const char *model = getenv("BANYAN_TEST_MODEL");
    const char *cache = getenv("BANYAN_CACHE");
    if (model != NULL)
        return model;
    snprintf(path, sizeof path, "%s%s/SmolLM2-135M-Instruct.Q4_1.gguf",
             cache != NULL ? cache : getenv("HOME"), cache != NULL ? "" : "/.cache/banyan");
    return path;
}

static inline void *face_kit_main(void *context)
{
    struct face_kit *kit = context;
    kit->status = engine_http_run(&kit->options);
    if (kit->status != STATUS_OK)
        close(kit->options.ready_descriptor);
    return NULL;
}

static inline struct engine_http_options face_kit_options(void)
{
    return (struct engine_http_options){
        .descriptor = -1, .model_descriptor = -1, .state_descriptor = -1};
}

/* Starts with options of its own, but for the configuration and the ready descriptor. False when it
 * ended before it was ready (kit->status says why). */
static inline bool face_kit_start_with(struct face_kit *kit, const char *model,
                                       const struct engine_http_options *options)
{
    *kit = (struct face_kit){.options = *options};
    /* SIGTERM is for the face's signal thread; blocked here, before any thread is made. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0);
    snprintf(kit->folder, sizeof kit->folder, "/tmp/face_kit.XXXXXX");
    assert_non_null(mkdtemp(kit->folder));
    const char *const arguments[] = {"--model",      model, "--data-dir",   kit->folder,
                                     "--kv-memory",  "64M", "--threads",    "1",
                                     "--context",    "512", "--model-name", "small",
                                     "--batch-rows", "64",  "--sequences",  face_kit_sequences};
    assert_int_equal(config_load(&kit->config, CONFIG_ENGINE, 16, arguments, NULL), STATUS_OK);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    kit->options.ready_descriptor = ends[1];
    kit->options.config = kit->config;
    assert_int_equal(pthread_create(&kit->thread, NULL, face_kit_main, kit), 0);
    char byte;
    bool is_ready = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    if (!is_ready)
        pthread_join(kit->thread, NULL);
    return is_ready;
}

static inline bool face_kit_start(struct face_kit *kit, const char *model)
{
    const struct engine_http_options options = face_kit_options();
    return face_kit_start_with(kit, model, &options);
}

static inline void face_kit_remove(struct face_kit *kit)
{
    static const char *const names[] = {"finals.ring", "engine.sock"};
    char path[128];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", kit->folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(kit->folder), 0);
    config_release(kit->config);
}

/* SIGTERM, as the parent sends it; returns what engine_http_run said. */
static inline enum status face_kit_stop(struct face_kit *kit)
{
    kill(getpid(), SIGTERM);
    pthread_join(kit->thread, NULL);
    face_kit_remove(kit);
    return kit->status;
}

static inline int face_kit_connect(const struct face_kit *kit)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/engine.sock", kit->folder);
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    return descriptor;
}

/* Writes a request; `headers` are whole lines with CRLF, or "". */
static inline void face_kit_send(int descriptor, const char *method, const char *path,
                                 const char *headers, const char *body)
{
    struct buffer text;
    buffer_init(&text, 16 * 1024 * 1024);
    buffer_printf(&text, "%s %s HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n%s", method, path,
                  headers);
    if (body != NULL)
        buffer_printf(&text, "content-type: application/json\r\ncontent-length: %zu\r\n",
                      strlen(body));
    buffer_append_text(&text, "\r\n");
    if (body != NULL)
        buffer_append_text(&text, body);
    for (size_t at = 0; at < text.length;) {
        ssize_t sent = write(descriptor, text.bytes + at, text.length - at);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
    buffer_deinit(&text);
}

/* Reads to the end; the code. `out` holds head and body, chunk sizes and all. */
static inline int face_kit_receive(int descriptor, struct buffer *out)
{
    char bytes[4096];
    ssize_t got;
    buffer_init(out, 64 * 1024 * 1024);
    while ((got = read(descriptor, bytes, sizeof bytes)) > 0)
        buffer_append(out, bytes, (size_t)got);
    close(descriptor);
    int code = 0;
    assert_non_null(out->bytes);
    assert_int_equal(sscanf(out->bytes, "HTTP/1.1 %d", &code), 1);
    return code;
}

static inline int face_kit_ask(const struct face_kit *kit, const char *method, const char *path,
                               const char *headers, const char *body, struct buffer *out)
{
    int descriptor = face_kit_connect(kit);
    face_kit_send(descriptor, method, path, headers, body);
    return face_kit_receive(descriptor, out);
}

/* The body of an answer that is one JSON document, no name in it twice. */
static inline json_t *face_kit_json(const struct buffer *answer)
{
    const char *body = strstr(answer->bytes, "\r\n\r\n");
    assert_non_null(body);
    json_error_t error;
    json_t *json = json_loads(body + 4, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("%s: %s", error.text, body + 4);
    return json;
}

/* How often `part` stands in the answer. */
static inline size_t face_kit_count(const struct buffer *answer, const char *part)
{
    size_t count = 0;
    for (const char *at = answer->bytes; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* The final frame's object; NULL when there is none. */
static inline json_t *face_kit_final(const struct buffer *answer)
{
    const char *at = strstr(answer->bytes, "event: banyan.final\ndata: ");
    return at == NULL ? NULL : json_loads(strchr(at, '{'), JSON_DISABLE_EOF_CHECK, NULL);
}

static inline long long face_kit_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (long long)json_integer_value(value);
}
