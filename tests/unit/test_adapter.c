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
    const char *slots;   /* to /slots; NULL: 501 */
    char host[64];       /* of the last question */
    _Atomic int props;   /* questions at /props so far */
    _Atomic int looks;   /* questions at /slots so far */
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
    char bytes[131072];
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
    const char *host = strcasestr(bytes, "\r\nhost: ");
    if (host != NULL)
        snprintf(server->host, sizeof server->host, "%.*s", (int)strcspn(host + 8, "\r"), host + 8);
    if (strncmp(bytes, "GET /props", 10) == 0) {
        server->props++;
        send_json(fd, "{\"total_slots\":2,\"default_generation_settings\":{\"n_ctx\":512}}");
    } else if (strncmp(bytes, "GET /v1/models", 14) == 0) {
        send_json(fd, server->models);
    } else if (strncmp(bytes, "GET /slots", 10) == 0 && server->slots != NULL) {
        send_json(fd, server->slots);
        server->looks++;
    } else if (strncmp(bytes, "GET /slots", 10) == 0) {
        server->looks++;
        send_all(fd, "HTTP/1.1 501 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
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
    struct metrics *metrics;
    struct adapter_addresses addresses;
    const char *path;     /* of the URL behind host and port; NULL: "/v1" */
    const char *host;     /* of the URL; NULL: 127.0.0.1 */
    struct buffer pieces; /* "id:bytes:logprob[top=logprob]@offset " of each token that is known */
    uint32_t starts, tokens, ends;
    uint32_t so_far; /* of the last event: the edge ends a stream whose count goes back */
    bool is_estimated;
    bool acknowledges;
    uint32_t cancels_at; /* tokens; 0 = never */
    bool is_posted;
};

static void run_piece(struct run *run, const struct source_event *event)
{
    if (!event->has_logprob)
        return;
    buffer_printf(&run->pieces, "%u:%.*s:%g[", event->engine.token, (int)event->bytes.length,
                  event->bytes.bytes, (double)event->engine.logprob);
    for (uint32_t i = 0; i < event->engine.top_count; i++)
        buffer_printf(&run->pieces, "%.*s=%g ", (int)event->top_bytes[i].length,
                      event->top_bytes[i].bytes, (double)event->engine.top[i].logprob);
    buffer_printf(&run->pieces, "]@%llu ", (unsigned long long)event->engine.text_offset);
}

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
        if (event.engine.kind == ENGINE_EVENT_PROMPT) {
            assert_false(event.has_id || event.has_logprob);
            buffer_append_slice(&run->text, event.engine.text);
        }
        if (event.engine.kind == ENGINE_EVENT_TOKEN) {
            run_piece(run, &event);
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

static void turn_over(void *context)
{
    loop_stop(((struct run *)context)->loop);
}

/* Runs the loop for so long. */
static void run_turn(struct run *run, uint32_t ms)
{
    struct loop_timer *timer = loop_timer_create(run->loop, turn_over, run);
    loop_timer_arm(timer, ms);
    loop_run(run->loop);
    loop_timer_destroy(timer);
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
    snprintf(url, sizeof url, "http://%s:%u%s", run->host != NULL ? run->host : "127.0.0.1",
             ntohs(run->server.address.sin_port), run->path != NULL ? run->path : "/v1");
    if (run->addresses.count == 0) {
        memcpy(run->addresses.list, &run->server.address, sizeof run->server.address);
        run->addresses.count = 1;
    }
    const struct adapter_options options = {.loop = run->loop,
                                            .url = url,
                                            .addresses = &run->addresses,
                                            .metrics = run->metrics,
                                            .labels = "",
                                            .kind = kind,
                                            .key = "secret",
                                            .model_name = "",
                                            .idle_ms = 200,
                                            .accepts_shared = accepts_shared,
                                            .wake = run_wake,
                                            .wake_context = run};
    struct adapter_found found;
    TRY(adapter_look(&found, &options));
    return adapter_open(&run->source, &options, &found);
}

static void run_init(struct run *run)
{
    *run = (struct run){.acknowledges = true};
    server_start(&run->server);
    assert_int_equal(loop_create(&run->loop), STATUS_OK);
    assert_int_equal(metrics_create(&run->metrics), STATUS_OK);
    buffer_init(&run->text, 1 << 20);
    buffer_init(&run->pieces, 1 << 20);
}

static void run_deinit(struct run *run)
{
    if (run->source != NULL)
        run->source->ops->close(run->source);
    server_stop(&run->server);
    loop_destroy(run->loop);
    metrics_destroy(run->metrics);
    buffer_deinit(&run->text);
    buffer_deinit(&run->pieces);
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

static enum status look_again(const struct run *run, struct adapter_found *known,
                              uint32_t timeout_ms, const atomic_bool *is_over)
{
    char url[64];
    struct adapter_found found;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(run->server.address.sin_port));
    const struct adapter_options options = {
        .url = url, .addresses = &run->addresses, .kind = "llama", .key = ""};
    enum status status = adapter_look_again(&found, &options, known, timeout_ms, is_over);
    if (status == STATUS_OK)
        *known = found;
    return status;
}

/* Requests go to the address where the server was found, so only an answer from there counts. */
static void test_a_second_look(void **state)
{
    (void)state;
    struct run run;
    struct adapter_found known = {0};
    atomic_bool is_over = false;
    run_init(&run);
    struct sockaddr_in elsewhere = run.server.address;
    elsewhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    memcpy(run.addresses.list, &elsewhere, sizeof elsewhere);
    memcpy(run.addresses.list + 1, &run.server.address, sizeof run.server.address);
    run.addresses.count = 2;
    memcpy(&known.address, &elsewhere, sizeof elsewhere);
    assert_int_equal(look_again(&run, &known, 5000, &is_over), STATUS_UNAVAILABLE);
    memcpy(&known.address, &run.server.address, sizeof run.server.address);
    /* A server with several models is what it was, as long as it has the known one. */
    run.server.models = "{\"data\":[{\"id\":\"b\"},{},{\"id\":\"a\"}]}";
    snprintf(known.facts.model, sizeof known.facts.model, "a");
    assert_int_equal(look_again(&run, &known, 5000, &is_over), STATUS_OK);
    assert_string_equal(known.facts.model, "a");
    run.server.models = "{\"data\":[{\"id\":\"b\"},{\"id\":\"c\"}]}";
    assert_int_equal(look_again(&run, &known, 5000, &is_over), STATUS_OK);
    assert_string_equal(known.facts.model, "b");
    is_over = true;
    assert_int_equal(look_again(&run, &known, 5000, &is_over), STATUS_CANCELLED);
    is_over = false;
    const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* nobody accepts there */
    socklen_t length = sizeof elsewhere;
    elsewhere.sin_port = 0;
    assert_int_equal(bind(silent, (struct sockaddr *)&elsewhere, length), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&elsewhere, &length), 0);
    assert_int_equal(listen(silent, 16), 0);
    memcpy(&known.address, &elsewhere, sizeof elsewhere);
    assert_int_equal(look_again(&run, &known, 100, &is_over), STATUS_DEADLINE);
    close(silent);
    run_deinit(&run);
}

/* Runs a request against a server that answers so. */
static void run_asked(struct run *run, struct engine_request request, const char *answer,
                      bool is_silent, uint32_t cancels_at, int64_t deadline_ms)
{
    engine_request_id id;
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
    buffer_append_char(&run->pieces, '\0');
}

static void run_answer(struct run *run, const char *answer, bool is_silent, uint32_t cancels_at,
                       int64_t deadline_ms)
{
    run_asked(run, chat(), answer, is_silent, cancels_at, deadline_ms);
}

static void test_facts(void **state)
{
    (void)state;
    struct run run;
    struct engine_info info;
    run_init(&run);
    assert_int_equal(run_open(&run, "none", false), STATUS_INVALID);
    assert_non_null(
        strstr(status_note()->message, "vllm, trtllm, sglang, llama, ollama, tgi, openai"));
    assert_int_equal(run_open(&run, "openai", false), STATUS_FORBIDDEN);
    assert_int_equal(run_open(&run, "openai", true), STATUS_OK);
    run.source->ops->close(run.source);
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK);
    run.source->ops->info(run.source, &info);
    assert_string_equal(info.model_name, "small");
    assert_string_equal(info.isa, "llama");
    assert_int_equal(info.context, 512);
    assert_int_equal(run.server.props, 1); /* asked once, for its kind and its facts */
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
        {"HTTP/1.1 413 Large\r\ncontent-length: 0\r\n\r\n", STATUS_INVALID},
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
        metrics_destroy(run.metrics);
        buffer_deinit(&run.text);
        buffer_deinit(&run.pieces);
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

/* The name of the URL is asked for by its name, at the first of its addresses that answers. */
static void test_a_name_with_two_addresses(void **state)
{
    (void)state;
    struct run run;
    char host[64];
    run_init(&run);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = run.server.address.sin_port,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    memcpy(&run.addresses.list[0], &six, sizeof six); /* nobody listens there */
    memcpy(&run.addresses.list[1], &run.server.address, sizeof run.server.address);
    run.addresses.count = 2;
    run.host = "localhost";
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK);
    snprintf(host, sizeof host, "localhost:%u", ntohs(run.server.address.sin_port));
    assert_string_equal(run.server.host, host);
    run.server.answer = SSE_HEAD TOKEN("H", 1) END;
    engine_request_id id;
    const struct engine_request request = chat();
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_OK);
    loop_run(run.loop);
    assert_int_equal(run.report.completion_tokens, 3);
    assert_string_equal(run.server.host, host);
    run_deinit(&run);
}

static void test_a_query(void **state)
{
    (void)state;
    struct run run;
    run_init(&run);
    run.path = "/v1?key=1";
    assert_int_equal(run_open(&run, "auto", false), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "query"));
    run_deinit(&run);
}

/* What a server computes for a client that has left takes a place until the server says that it
 * does not compute it any more. */
static void test_ghosts(void **state)
{
    (void)state;
    static const char busy[] = "[{\"is_processing\":true},{\"is_processing\":true}]";
    struct run run;
    engine_request_id id;
    struct engine_request request = chat();
    run_init(&run);
    run.server.slots = busy;
    run.server.answer = SSE_HEAD TOKEN("H", 1);
    run.server.is_silent = true;
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK); /* two places */
    for (int i = 0; i < 2; i++) {
        run.cancels_at = run.tokens + 1;
        assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_OK);
        loop_run(run.loop);
        assert_int_equal(run.report.finish, ENGINE_FINISH_CANCELLED);
    }
    run.cancels_at = 0;
    request.choices = 2; /* ghosts keep at most half of the places */
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_BUSY);
    for (int i = 0; i < 200 && run.server.looks < 2; i++)
        run_turn(&run, 20);
    assert_true(run.server.looks >= 2); /* it goes on asking */
    assert_int_equal(run.source->ops->submit(run.source, &request, &id), STATUS_BUSY);
    run.server.slots = "[{\"is_processing\":false},{\"is_processing\":false}]";
    enum status status = STATUS_BUSY;
    run.server.is_silent = false;
    run.server.answer = SSE_HEAD TOKEN("H", 1) END;
    for (int i = 0; i < 200 && status == STATUS_BUSY; i++) {
        run_turn(&run, 20);
        status = run.source->ops->submit(run.source, &request, &id);
    }
    assert_int_equal(status, STATUS_OK);
    run.so_far = 0;
    loop_run(run.loop);
    assert_int_equal(run.report.finish, ENGINE_FINISH_STOP);
    run_deinit(&run);
}

/* A server that does not tell what it computes is not waited for. */
static void test_ghosts_without_a_gauge(void **state)
{
    (void)state;
    struct run run;
    engine_request_id id;
    struct engine_request request = chat();
    run_init(&run);
    run.server.answer = SSE_HEAD TOKEN("H", 1);
    run.server.is_silent = true;
    assert_int_equal(run_open(&run, "auto", false), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        enum status status = STATUS_BUSY;
        run.cancels_at = run.tokens + 1;
        for (int wait = 0; wait < 200 && status == STATUS_BUSY; wait++) {
            run_turn(&run, 20);
            status = run.source->ops->submit(run.source, &request, &id);
        }
        assert_int_equal(status, STATUS_OK);
        loop_run(run.loop);
        for (int wait = 0; wait < 20; wait++)
            run_turn(&run, 10);
    }
    assert_int_equal(run.server.looks, 1); /* asked once, never again */
    run_deinit(&run);
}

#define PIECES(text, content)                                                                      \
    "data: {\"choices\":[{\"delta\":{\"content\":\"" text                                          \
    "\"},\"logprobs\":{\"content\":[" content                                                      \
    "]}}],\"timings\":{\"cache_n\":0,\"prompt_n\":5,\"predicted_n\":3}}\n\n"

static void test_log_probabilities(void **state)
{
    (void)state;
    struct run run;
    struct engine_request request = chat();
    request.want_logprobs = true;
    request.top_logprobs = 1; /* the server tells two */
    run_asked(&run, request,
              SSE_HEAD PIECES("Hi", "{\"token\":\"H\",\"logprob\":-0.5,\"bytes\":[72],"
                                    "\"top_logprobs\":[{\"token\":\"H\",\"logprob\":-0.5},"
                                    "{\"token\":\"J\",\"logprob\":-2}]},"
                                    "{\"token\":\"i\",\"logprob\":-1e300,\"top_logprobs\":[]}") END,
              false, 0, 0);
    assert_string_equal(run.text.bytes, "Hi");
    assert_string_equal(run.pieces.bytes, "0:H:-0.5[H=-0.5 ]@0 0:i:-9999[]@1 ");
    assert_int_equal(run.report.completion_tokens, 3);
    run_deinit(&run);
}

/* The prompt comes back from here, character by character whole. */
static void test_echo(void **state)
{
    (void)state;
    struct run run;
    char prompt[50001] = "";
    for (size_t i = 0; i < sizeof prompt - 1; i += 2)
        memcpy(prompt + i, "\xc3\xa9", 2);
    struct engine_request request = chat();
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.text = slice_of(prompt);
    request.echo = true;
    run_asked(&run, request, SSE_HEAD TOKEN("H", 1) END, false, 0, 0);
    assert_int_equal(strlen(run.text.bytes), sizeof prompt);
    assert_memory_equal(run.text.bytes, prompt, sizeof prompt - 1);
    assert_int_equal(run.text.bytes[sizeof prompt - 1], 'H');
    run_deinit(&run);
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
                                       cmocka_unit_test(test_the_window),
                                       cmocka_unit_test(test_a_name_with_two_addresses),
                                       cmocka_unit_test(test_a_query),
                                       cmocka_unit_test(test_ghosts),
                                       cmocka_unit_test(test_ghosts_without_a_gauge),
                                       cmocka_unit_test(test_log_probabilities),
                                       cmocka_unit_test(test_echo),
                                       cmocka_unit_test(test_a_second_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
