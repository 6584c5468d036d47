/* adapter: against a server on a thread of its own that answers as it is told. */
#include "gateway/adapter/adapter.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "config/base/clock.h"
#include "tests/unit/http_kit.h"

#define SSE_HEAD "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
#define TOKEN(text, n)                                                                             \
    "data: {\"choices\":[{\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null}],"          \
    "\"timings\":{\"cache_n\":0,\"prompt_n\":5,\"predicted_n\":" #n "}}\n\n"
#define END                                                                                        \
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"timings\":{\"cache_n\":0,"   \
    "\"prompt_n\":5,\"predicted_n\":3}}\n\ndata: [DONE]\n\n"

/* --- the server --- */

struct server {
    int listening;
    struct sockaddr_in address;
    pthread_t thread;
    const char *answer;  /* to requests for answers; NULL: hangs up */
    bool is_silent;      /* behind the answer it says nothing and waits for the client to leave */
    const char *models;  /* to /v1/models */
    _Atomic int answers; /* requests for answers so far */
    _Atomic int left;    /* clients that left while it was silent */
};

static void send_all(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void send_json(int fd, const char *json)
{
    char head[128];
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
             "content-length: %zu\r\n\r\n",
             strlen(json));
    send_all(fd, head);
    send_all(fd, json);
}

static void serve_one(struct server *server, int fd)
{
    char bytes[16384];
    size_t length = 0;
    const char *body = NULL;
    size_t wanted = 0;
    do {
        ssize_t got = recv(fd, bytes + length, sizeof bytes - 1 - length, 0);
        if (got <= 0)
            return;
        length += (size_t)got;
        bytes[length] = '\0';
        body = strstr(bytes, "\r\n\r\n");
        const char *field = strcasestr(bytes, "content-length: ");
        wanted = field != NULL ? strtoul(field + 16, NULL, 10) : 0;
    } while (body == NULL || length - (size_t)(body + 4 - bytes) < wanted);
    if (strncmp(bytes, "GET /props", 10) == 0) {
        send_json(fd, "{\"total_slots\":2,\"default_generation_settings\":{\"n_ctx\":512}}");
    } else if (strncmp(bytes, "GET /v1/models", 14) == 0) {
        send_json(fd, server->models);
    } else if (strncmp(bytes, "POST /v1/", 9) == 0) {
        server->answers++;
        if (server->answer != NULL)
            send_all(fd, server->answer);
        if (server->is_silent) {
            while (recv(fd, bytes, sizeof bytes, 0) > 0)
                continue;
            server->left++;
        }
    } else {
        send_all(fd, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
}

static void *server_thread(void *context)
{
    struct server *server = context;
    int fd;
    while ((fd = accept(server->listening, NULL, NULL)) >= 0) {
        serve_one(server, fd);
        close(fd);
    }
    return NULL;
}

static void server_start(struct server *server)
{
    socklen_t length = sizeof server->address;
    *server = (struct server){.models = "{\"data\":[{\"id\":\"/m/small.gguf\"}]}"};
    server->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    server->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listening, (struct sockaddr *)&server->address, length), 0);
    assert_int_equal(getsockname(server->listening, (struct sockaddr *)&server->address, &length),
                     0);
    assert_int_equal(listen(server->listening, 16), 0);
    pthread_create(&server->thread, NULL, server_thread, server);
}

static void server_stop(struct server *server)
{
    shutdown(server->listening, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listening);
}

/* --- the adapter, with the events of one request --- */

struct run {
    struct loop *loop;
    struct source *source;
    struct server server;
    struct buffer text;
    struct engine_report report;
    struct error_note note;
    enum engine_event_kind last;
    uint32_t starts, tokens, ends;
    uint32_t so_far; /* of the last event: the edge ends a stream whose count goes back */
    bool is_estimated;
    bool acknowledges;
    uint32_t cancels_at; /* tokens; 0 = never */
    bool is_posted;
};

static void run_pump(void *context)
{
    struct run *run = context;
    struct source_event event;
    run->is_posted = false;
    while (run->source->ops->next(run->source, &event)) {
        run->last = event.engine.kind;
        assert_true(event.engine.tokens_so_far >= run->so_far);
        run->so_far = event.engine.tokens_so_far;
        run->starts += event.engine.kind == ENGINE_EVENT_START;
        run->ends += event.engine.kind == ENGINE_EVENT_CHOICE_END;
        if (event.engine.kind == ENGINE_EVENT_TOKEN) {
            run->tokens++;
            buffer_append_slice(&run->text, event.engine.text);
            if (run->acknowledges)
                run->source->ops->acknowledge(run->source, event.engine.id, event.engine.choice, 1);
            if (run->tokens == run->cancels_at)
                run->source->ops->cancel(run->source, event.engine.id);
        }
        if (event.engine.kind != ENGINE_EVENT_END && event.engine.kind != ENGINE_EVENT_ERROR)
            continue;
        run->report = event.engine.report;
        run->note = event.engine.note;
        run->is_estimated = event.is_estimated;
        loop_stop(run->loop);
    }
}

static void run_wake(void *context)
{
    struct run *run = context;
    if (!run->is_posted)
        loop_post(run->loop, run_pump, run);
    run->is_posted = true;
}

static enum status run_open(struct run *run, const char *kind, bool accepts_shared)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1", ntohs(run->server.address.sin_port));
    const struct adapter_options options = {.loop = run->loop,
                                            .url = url,
                                            .address =
                                                (const struct sockaddr *)&run->server.address,
                                            .kind = kind,
                                            .key = "secret",
                                            .model_name = "",
                                            .idle_ms = 200,
                                            .accepts_shared = accepts_shared,
                                            .wake = run_wake,
                                            .wake_context = run};
    return adapter_open(&run->source, &options);
}

static void run_init(struct run *run)
{
    *run = (struct run){.acknowledges = true};
    server_start(&run->server);
    assert_int_equal(loop_create(&run->loop), STATUS_OK);
    buffer_init(&run->text, 1 << 20);
}

static void run_deinit(struct run *run)
{
    if (run->source != NULL)
        run->source->ops->close(run->source);
    server_stop(&run->server);
    loop_destroy(run->loop);
    buffer_deinit(&run->text);
}

static struct engine_request chat(void)
{
    static const struct engine_message message = {.role = {"user", 4}, .content = {"Hi", 2}};
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_CHAT,
                                   .messages = &message,
                                   .message_count = 1,
                                   .choices = 1,
                                   .tokens_max = 20,
                                   .sampling = {.temperature = 1, .top_p = 1}};
}

/* Runs one request against a server that answers so. */
static void run_answer(struct run *run, const char *answer, bool is_silent, uint32_t cancels_at,
                       int64_t deadline_ms)
{
    engine_request_id id;
    struct engine_request request = chat();
    run_init(run);
    run->server.answer = answer;
    run->server.is_silent = is_silent;
    run->cancels_at = cancels_at;
    assert_int_equal(run_open(run, "auto", false), STATUS_OK);
    if (deadline_ms > 0)
        request.deadline_us = clock_mono_us(clock_system()) + deadline_ms * 1000;
    assert_int_equal(run->source->ops->submit(run->source, &request, &id), STATUS_OK);
    loop_run(run->loop);
    buffer_append_char(&run->text, '\0');
}

static void test_facts(void **state)
{
    (void)state;
    struct run run;
    struct engine_info info;
    run_init(&run);
    assert_int_equal(run_open(&run, "none", false), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "vllm, llama, openai"));
    assert_int_equal(run_open(&run, "openai", false), STATUS_FORBIDDEN);
    assert_int_equal(run_open(&run, "openai", true), STATUS_OK);
    run.source->ops->close(run.source);
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK);
    run.source->ops->info(run.source, &info);
    assert_string_equal(info.model_name, "small");
    assert_string_equal(info.isa, "llama");
    assert_int_equal(info.context, 512);
    run.source->ops->close(run.source);
    run.source = NULL;
    static const char *const broken[] = {"{}",
                                         "[]",
                                         "<html>",
                                         "{\"data\":[{\"id\":7}]}",
                                         "{\"data\":[{\"id\":\"\"}]}",
                                         "{\"data\":[{\"id\":\"a\\u0000b\"}]}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        run.server.models = broken[i];
        assert_int_not_equal(run_open(&run, "llama", false), STATUS_OK);
    }
    run_deinit(&run);
}

static void test_a_whole_answer(void **state)
{
    (void)state;
    struct run run;
    run_answer(&run, SSE_HEAD TOKEN("H", 1) TOKEN("i", 3) END, false, 0, 0);
    assert_int_equal(run.last, ENGINE_EVENT_END);
    assert_string_equal(run.text.bytes, "Hi");
    assert_int_equal(run.starts, 1);
    assert_int_equal(run.ends, 1);
    assert_int_equal(run.report.finish, ENGINE_FINISH_STOP);
    assert_int_equal(run.report.prompt_tokens, 5);
    assert_int_equal(run.report.completion_tokens, 3);
    assert_false(run.is_estimated);
    run_deinit(&run);
}

/* The server's last word is the count; what was told of it before does not go back. */
static void test_a_count_that_goes_back(void **state)
{
    (void)state;
    struct run run;
    run_answer(&run, SSE_HEAD TOKEN("H", 9) TOKEN("i", 2) END, false, 0, 0);
    assert_int_equal(run.last, ENGINE_EVENT_END);
    assert_int_equal(run.so_far, 9);
    assert_int_equal(run.report.completion_tokens, 3);
    run_deinit(&run);
}

/* Ends that are none: what came is told and counted, and the finish is an error. */
static void test_cuts(void **state)
{
    (void)state;
    static const char *const cuts[] = {
        SSE_HEAD TOKEN("H", 1),
        SSE_HEAD TOKEN("H", 1) "data: {\"choices\":[{\"delta\":{\"content\":\"i",
        SSE_HEAD TOKEN("H", 1) "data: oops\n\n" TOKEN("i", 2) END,
        SSE_HEAD TOKEN("H", 1) "data: {\"error\":{\"message\":\"x\"}}\n\n" END,
        SSE_HEAD TOKEN("H", 1) "data: [DONE]\n\n",
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct run run;
        run_answer(&run, cuts[i], false, 0, 0);
        assert_int_equal(run.last, ENGINE_EVENT_END);
        assert_string_equal(run.text.bytes, "H");
        assert_int_equal(run.report.finish, ENGINE_FINISH_ERROR);
        assert_int_equal(run.report.completion_tokens, 1);
        assert_int_equal(run.report.prompt_tokens, 5);
        run_deinit(&run);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        enum status status;
    } rows[] = {
        {"HTTP/1.1 400 Bad\r\nconnection: close\r\n\r\n{\"error\":\"your prompt\"}",
         STATUS_INVALID},
        {"HTTP/1.1 400 Bad\r\nconnection: close\r\n\r\n{\"type\":\"exceed_context_size_error\"}",
         STATUS_CONTEXT_LENGTH},
        {"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", STATUS_BUSY},
        /* PROTOCOL is not sent again: a prompt that breaks the server breaks it once. */
        {"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", STATUS_PROTOCOL},
        {"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", STATUS_UNAVAILABLE},
        {"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>",
         STATUS_PROTOCOL},
        {"what is this\r\n\r\n", STATUS_PROTOCOL},
        {NULL, STATUS_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run run;
        run_answer(&run, rows[i].answer, false, 0, 0);
        assert_int_equal(run.last, ENGINE_EVENT_ERROR);
        assert_int_equal(run.note.status, rows[i].status);
        assert_null(strstr(run.note.message, "your prompt"));
        assert_int_equal(run.starts, 0);
        run_deinit(&run);
    }
}

/* The client leaves, the time is over, or the server falls silent: the server's side is closed. */
static void test_ends_from_here(void **state)
{
    (void)state;
    static const struct {
        uint32_t cancels_at;
        int64_t deadline_ms;
        enum engine_finish finish;
    } rows[] = {{2, 0, ENGINE_FINISH_CANCELLED},
                {0, 100, ENGINE_FINISH_DEADLINE},
                {0, 0, ENGINE_FINISH_ERROR}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run run;
        run_answer(&run, SSE_HEAD TOKEN("H", 1) TOKEN("i", 2), true, rows[i].cancels_at,
                   rows[i].deadline_ms);
        assert_int_equal(run.last, ENGINE_EVENT_END);
        assert_int_equal(run.report.finish, rows[i].finish);
        assert_int_equal(run.report.completion_tokens, 2);
        assert_string_equal(run.text.bytes, "Hi");
        run.source->ops->close(run.source);
        run.source = NULL;
        server_stop(&run.server);
        assert_int_equal(run.server.left, 1);
        loop_destroy(run.loop);
        buffer_deinit(&run.text);
    }
}

/* The last event came, but the server does not close: the answer is whole all the same. */
static void test_an_end_without_a_close(void **state)
{
    (void)state;
    struct run run;
    run_answer(&run, SSE_HEAD TOKEN("H", 1) END, true, 0, 0);
    assert_int_equal(run.last, ENGINE_EVENT_END);
    assert_int_equal(run.report.finish, ENGINE_FINISH_STOP);
    assert_int_equal(run.report.completion_tokens, 3);
    run_deinit(&run);
}

/* A client that leaves before the first token: the server had the prompt, so it counts. */
static void test_a_prompt_that_was_sent_counts(void **state)
{
    (void)state;
    struct run run;
    run_answer(&run, SSE_HEAD, true, 0, 100);
    assert_int_equal(run.last, ENGINE_EVENT_END);
    assert_int_equal(run.report.finish, ENGINE_FINISH_DEADLINE);
    assert_int_equal(run.report.prompt_tokens, 1); /* of the two bytes "Hi" */
    assert_int_equal(run.report.completion_tokens, 0);
    assert_true(run.is_estimated);
    run_deinit(&run);
}

/* A server that goes on behind what was asked for is cut. */
static void test_too_many_tokens(void **state)
{
    (void)state;
    struct run run;
    run_answer(&run, SSE_HEAD TOKEN("H", 1) TOKEN("i", 41) END, false, 0, 0);
    assert_int_equal(run.report.finish, ENGINE_FINISH_ERROR);
    run_deinit(&run);
}

/* As many as the server's slots; the rest is for the edge's queue. */
static void test_the_window(void **state)
{
    (void)state;
    struct run run;
    engine_request_id id;
    struct engine_request request = chat();
    run_init(&run);
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK);
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_OK);
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_OK);
    request.context = &run; /* another one */
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_BUSY);
    request.context = NULL; /* a prompt of one that runs */
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_OK);
    struct engine_stats stats;
    run.source->ops->stats(run.source, &stats);
    assert_int_equal(stats.requests, 3);
    run_deinit(&run); /* with both under way */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts),
                                       cmocka_unit_test(test_a_whole_answer),
                                       cmocka_unit_test(test_a_count_that_goes_back),
                                       cmocka_unit_test(test_an_end_without_a_close),
                                       cmocka_unit_test(test_a_prompt_that_was_sent_counts),
                                       cmocka_unit_test(test_too_many_tokens),
                                       cmocka_unit_test(test_cuts),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_ends_from_here),
                                       cmocka_unit_test(test_the_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
