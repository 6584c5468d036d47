#include "gateway/engine_http/face_job.h"

#include "tests/kit/engine_run.h"
#include "tests/unit/face_kit.h"

static struct face_kit kit;

static long long stat_of(const char *name)
{
    struct buffer answer;
    assert_int_equal(face_kit_ask(&kit, "GET", "/internal/v1/stats", "", NULL, &answer), 200);
    json_t *stats = face_kit_json(&answer);
    long long value = face_kit_number(stats, name);
    json_decref(stats);
    buffer_deinit(&answer);
    return value;
}

static void wait_for(const char *name, long long value)
{
    for (int i = 0; i < 6000 && stat_of(name) != value; i++)
        usleep(10000);
    if (stat_of(name) == value)
        return;
    struct buffer answer; /* who is still there */
    face_kit_ask(&kit, "GET", "/internal/v1/requests", "", NULL, &answer);
    fail_msg("%s stays at %lld, not %lld\n%s", name, stat_of(name), value, answer.bytes);
}

/* Until so many requests with so many sequences stand still for their readers. For a moment one
 * may seem to, while the loop is behind: an ask takes some turns, and only the third one counts. */
static void wait_throttled(size_t requests, long long sequences)
{
    int in_a_row = 0;
    for (int i = 0; i < 6000 && in_a_row < 3; i++) {
        struct buffer answer;
        face_kit_ask(&kit, "GET", "/internal/v1/requests", "", NULL, &answer);
        bool stands = face_kit_count(&answer, "\"state\":\"throttled\"") == requests &&
                      stat_of("sequences_throttled") == sequences;
        in_a_row = stands ? in_a_row + 1 : 0;
        buffer_deinit(&answer);
        usleep(5000);
    }
    assert_int_equal(in_a_row, 3);
}

static void test_a_chat_has_its_frames(void **state)
{
    (void)state;
    struct buffer answer;
    assert_int_equal(
        face_kit_ask(&kit, "POST", "/v1/chat/completions", "",
                     "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":"
                     "\"Hi\"}],\"max_tokens\":5,\"temperature\":0,\"n\":2,"
                     "\"ignore_eos\":true,\"return_token_ids\":true}",
                     &answer),
        200);
    assert_int_equal(face_kit_count(&answer, "event: banyan.start\ndata: {\"protocol\":1,"), 1);
    assert_true(strstr(answer.bytes, "banyan.start") < strstr(answer.bytes, "data: {\"n\":0,"));
    assert_int_equal(face_kit_count(&answer, "data: {\"n\":0,"), 2); /* the roles */
    assert_int_equal(face_kit_count(&answer, "\"role\":\"assistant\""), 2);
    assert_int_equal(face_kit_count(&answer, "\"finish_reason\":\"length\"}]}"), 2);
    assert_int_equal(face_kit_count(&answer, "\"delta\":{},"), 2);
    assert_true(face_kit_count(&answer, "data: {\"n\":10,") >= 1);
    json_t *final = face_kit_final(&answer);
    assert_int_equal(face_kit_number(final, "completion_tokens"), 10);
    assert_true(face_kit_number(final, "prompt_tokens") > 10);
    json_decref(final);
    buffer_deinit(&answer);
    wait_for("jobs", 0);
}

static void test_a_list_of_prompts(void **state)
{
    (void)state;
    struct buffer answer;
    assert_int_equal(
        face_kit_ask(&kit, "POST", "/v1/completions", "",
                     "{\"model\":\"small\",\"prompt\":[[504,3575],[504],[282]],\"n\":2,"
                     "\"max_tokens\":2,\"ignore_eos\":true,\"echo\":true}",
                     &answer),
        200);
    json_t *final = face_kit_final(&answer);
    assert_int_equal(face_kit_number(final, "prompt_tokens"), 4);
    /* One prompt after the other is admitted; each tells the sum. */
    assert_int_equal(face_kit_count(&answer, "event: banyan.start\n"), 3);
    assert_int_equal(face_kit_count(&answer, "\",\"prompt_tokens\":2,\"cached_tokens\":0,"), 1);
    assert_int_equal(face_kit_count(&answer, "\",\"prompt_tokens\":3,\"cached_tokens\":0,"), 1);
    assert_int_equal(face_kit_count(&answer, "\",\"prompt_tokens\":4,\"cached_tokens\":0,"), 1);
    assert_int_equal(face_kit_number(final, "completion_tokens"), 12);
    for (int i = 0; i < 6; i++) {
        char part[64];
        snprintf(part, sizeof part, "\"choices\":[{\"index\":%d,", i);
        assert_true(face_kit_count(&answer, part) >= 1);
    }
    assert_true(face_kit_count(&answer, "\"text\":\"The capital") >= 1);
    json_decref(final);
    buffer_deinit(&answer);
}

static void test_what_is_refused_starts_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int code;
        const char *part;
    } cases[] = {
        {"{\"model\":\"small\",\"prompt\":\"a\",\"n\":0}", 400, "\"param\":\"n\""},
        {"{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":600}", 400,
         "\"code\":\"context_length_exceeded\""},
        {"{\"model\":\"other\",\"prompt\":\"a\"}", 404, "\"code\":\"model_not_found\""},
        {"{\"model\":\"small\",\"prompt\":[\"a\",\"b\"],\"max_tokens\":600}", 400,
         "\"code\":\"context_length_exceeded\""},
        {"", 400, "\"type\":\"invalid_request_error\""},
    };
    long long finals = stat_of("finals_waiting");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer answer;
        int code = face_kit_ask(&kit, "POST", "/v1/completions", "", cases[i].body, &answer);
        assert_int_equal(code, cases[i].code);
        assert_int_equal(face_kit_count(&answer, cases[i].part), 1);
        buffer_deinit(&answer);
    }
    wait_for("jobs", 0);
    assert_int_equal(stat_of("finals_waiting"), finals);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
}

/* A long echo with log-probabilities comes in frames that the edge has room for, nothing lost. */
static void test_a_long_echo_comes_in_pieces(void **state)
{
    (void)state;
    struct buffer body;
    struct buffer answer;
    buffer_init(&body, 65536);
    buffer_append_text(&body, "{\"model\":\"small\",\"prompt\":[504");
    for (int i = 1; i < 500; i++)
        buffer_printf(&body, ",%d", 504 + i);
    buffer_append_text(&body, "],\"echo\":true,\"logprobs\":20,\"max_tokens\":2,"
                              "\"ignore_eos\":true}");
    assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "", body.bytes, &answer), 200);
    buffer_deinit(&body);
    size_t tokens = 0;
    size_t pieces = 0;
    for (char *line = strstr(answer.bytes, "data: {\"n\":"); line != NULL;
         line = strstr(line + 1, "data: {\"n\":")) {
        size_t length = strcspn(line, "\n");
        assert_true(length < 128 * 1024);
        json_t *frame = json_loadb(line + 6, length - 6, 0, NULL);
        assert_non_null(frame);
        json_t *choice = json_array_get(json_object_get(frame, "choices"), 0);
        tokens += json_array_size(json_object_get(json_object_get(choice, "logprobs"), "tokens"));
        pieces += face_kit_number(frame, "n") == 0;
        json_decref(frame);
    }
    assert_int_equal(tokens, 502);
    assert_true(pieces >= 2);
    buffer_deinit(&answer);
    wait_for("jobs", 0);
}

/* An id stays free until its request has begun, and is taken from then on. */
static void test_a_refused_id_may_come_again(void **state)
{
    (void)state;
    static const char head[] = "x-banyan-protocol: 1\r\nx-banyan-request-id: req_again\r\n";
    static const struct {
        const char *body;
        int code;
    } asks[] = {
        {"{\"model\":\"small\",\"prompt\":\"a\",\"n\":0}", 400},
        {"{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":600}", 400},
        {"{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":2}", 200},
        {"{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":2}", 409},
        {"{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":2}", 409},
    };
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        struct buffer answer;
        assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", head, asks[i].body, &answer),
                         asks[i].code);
        buffer_deinit(&answer);
    }
    wait_for("jobs", 0);
}

/* Half-closing is the edge's way to cancel: the final record still comes. */
static void test_half_close_cancels_and_still_counts(void **state)
{
    (void)state;
    struct buffer answer;
    int descriptor = face_kit_connect(&kit);
    face_kit_send(descriptor, "POST", "/v1/completions", "",
                  "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true}");
    char byte;
    assert_int_equal(read(descriptor, &byte, 1), 1); /* it has begun */
    assert_int_equal(byte, 'H');
    assert_int_equal(shutdown(descriptor, SHUT_WR), 0);
    char rest[65536];
    buffer_init(&answer, 16 * 1024 * 1024);
    for (ssize_t got; (got = read(descriptor, rest, sizeof rest)) > 0;)
        buffer_append(&answer, rest, (size_t)got);
    close(descriptor);
    json_t *final = face_kit_final(&answer);
    assert_non_null(final);
    assert_string_equal(json_string_value(json_object_get(final, "finish_reason")), "cancelled");
    assert_true(face_kit_number(final, "completion_tokens") < 500);
    json_decref(final);
    buffer_deinit(&answer);
    wait_for("jobs", 0);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
}

/* A client that is wholly gone: nobody hears the record, but it is kept. */
static void test_a_close_cancels_and_is_recorded(void **state)
{
    (void)state;
    long long finals = stat_of("finals_waiting");
    for (int i = 0; i < 4; i++) {
        int descriptor = face_kit_connect(&kit);
        face_kit_send(descriptor, "POST", "/v1/completions", "",
                      "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":400,"
                      "\"ignore_eos\":true}");
        char byte;
        assert_int_equal(read(descriptor, &byte, 1), 1);
        close(descriptor);
    }
    wait_for("jobs", 0);
    assert_int_equal(stat_of("finals_waiting"), finals + 4);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
}

static void test_clients_that_leave_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        int descriptor = face_kit_connect(&kit);
        face_kit_send(descriptor, "POST", "/v1/completions", "",
                      "{\"model\":\"small\",\"prompt\":\"a b c d\",\"max_tokens\":400,"
                      "\"ignore_eos\":true}");
        close(descriptor);
    }
    wait_for("jobs", 0);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
}

static void test_cancelling_by_id(void **state)
{
    (void)state;
    struct buffer answer;
    struct buffer ignored;
    int descriptor = face_kit_connect(&kit);
    face_kit_send(descriptor, "POST", "/v1/completions",
                  "x-banyan-protocol: 1\r\nx-banyan-request-id: req_by_id\r\n",
                  "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true}");
    char byte;
    assert_int_equal(read(descriptor, &byte, 1), 1);
    assert_int_equal(face_kit_ask(&kit, "GET", "/internal/v1/requests", "", NULL, &ignored), 200);
    assert_int_equal(face_kit_count(&ignored, "\"request_id\":\"req_by_id\",\"state\":\""), 1);
    assert_int_equal(face_kit_count(&ignored, "\"choices\":1,\"prompt_tokens\":1,"), 1);
    buffer_deinit(&ignored);
    assert_int_equal(
        face_kit_ask(&kit, "DELETE", "/internal/v1/requests/req_by_id", "", NULL, &ignored), 200);
    buffer_deinit(&ignored);
    char rest[65536];
    buffer_init(&answer, 16 * 1024 * 1024);
    for (ssize_t got; (got = read(descriptor, rest, sizeof rest)) > 0;)
        buffer_append(&answer, rest, (size_t)got);
    close(descriptor);
    json_t *final = face_kit_final(&answer);
    assert_string_equal(json_string_value(json_object_get(final, "finish_reason")), "cancelled");
    json_decref(final);
    buffer_deinit(&answer);
}

/* --- cancelling, wherever the request stands, however it is said --- */

enum leave_way { LEAVE_HALF_CLOSE, LEAVE_CLOSE, LEAVE_RESET, LEAVE_DELETE, LEAVE_WAYS };
/* Readers who have stopped, as many as have places; the next one waits. */
enum { FILLERS_MAX = 16 };
static int fillers[FILLERS_MAX];
static int filler_count;

enum leave_state { IN_PARSE, IN_QUEUE, IN_PREFILL, IN_DECODE, IN_THROTTLE, AT_LAST, LEAVE_STATES };

static int leave_start(const struct face_kit *where, enum leave_state at, const char *id)
{
    char headers[128];
    struct buffer body;
    snprintf(headers, sizeof headers, "x-banyan-protocol: 1\r\nx-banyan-request-id: %s\r\n", id);
    buffer_init(&body, 8 * 1024 * 1024);
    buffer_append_text(&body, "{\"model\":\"small\",\"ignore_eos\":true,\"temperature\":0,");
    buffer_printf(&body, "\"max_tokens\":%d,\"prompt\":",
                  at == AT_LAST      ? 6
                  : at == IN_PREFILL ? 20
                                     : 400);
    if (at == IN_PARSE) {
        /* Long enough to be left while it is read; too long to be run at all. */
        buffer_append_char(&body, '"');
        for (size_t i = 0; i < 3000000; i++)
            buffer_append_char(&body, 'a');
        buffer_append_text(&body, "\"}");
    } else if (at == IN_PREFILL) {
        buffer_append_text(&body, "[504"); /* 8 steps of 64 rows */
        for (int i = 1; i < 490; i++)
            buffer_printf(&body, ",%d", 504 + i);
        buffer_append_text(&body, "]}");
    } else {
        buffer_append_text(&body, "\"a\"}");
    }
    int descriptor = face_kit_connect(where);
    face_kit_send(descriptor, "POST", "/v1/completions", headers, body.bytes);
    buffer_deinit(&body);
    return descriptor;
}

/* Reads until a frame says that so many tokens are made; a frame may stand for several, and what
 * is read may go on to the end. */
static void leave_read_until(int descriptor, unsigned tokens, struct buffer *seen)
{
    char bytes[4096];
    for (unsigned n = 0; n < tokens;) {
        ssize_t got = read(descriptor, bytes, sizeof bytes);
        assert_true(got > 0);
        buffer_append(seen, bytes, (size_t)got);
        for (const char *at = seen->bytes; (at = strstr(at, "data: {\"n\":")) != NULL; at++)
            (void)sscanf(at, "data: {\"n\":%u,", &n);
    }
}

static void leave_reach(enum leave_state at, int descriptor, long long steps, struct buffer *seen)
{
    switch (at) {
    case IN_PARSE:
        wait_for("jobs", 1);
        return;
    case IN_QUEUE:
        wait_for("sequences_waiting", 1);
        return;
    case IN_PREFILL:
        for (int i = 0; i < 100000 && stat_of("steps") == steps; i++)
            usleep(100);
        return;
    case IN_DECODE:
        leave_read_until(descriptor, 3, seen);
        return;
    case IN_THROTTLE:
        wait_throttled(1, 1);
        return;
    case AT_LAST:
        leave_read_until(descriptor, 5, seen);
        return;
    case LEAVE_STATES:
        break;
    }
    fail();
}

/* Leaves; after a half-close and a DELETE reads the rest of the answer. Returns the steps done when
 * the face had heard of it: the question about them comes after it on the same loop. */
static long long leave(enum leave_way way, int descriptor, const char *id, struct buffer *seen)
{
    char bytes[65536];
    struct buffer answer;
    if (way == LEAVE_DELETE) {
        snprintf(bytes, sizeof bytes, "/internal/v1/requests/%s", id);
        int code = face_kit_ask(&kit, "DELETE", bytes, "", NULL, &answer);
        assert_true(code == 200 || code == 404); /* it may have ended by itself */
        buffer_deinit(&answer);
    }
    if (way == LEAVE_HALF_CLOSE)
        shutdown(descriptor, SHUT_WR);
    /* A Unix socket is reset when it is closed with something unread in it. */
    if (way == LEAVE_CLOSE)
        shutdown(descriptor, SHUT_RDWR);
    if (way == LEAVE_CLOSE || way == LEAVE_RESET)
        close(descriptor);
    long long steps = stat_of("steps");
    if (way == LEAVE_CLOSE || way == LEAVE_RESET)
        return steps;
    for (ssize_t got; (got = read(descriptor, bytes, sizeof bytes)) > 0;)
        buffer_append(seen, bytes, (size_t)got);
    close(descriptor);
    return steps;
}

static void check_left(enum leave_state at, enum leave_way way, const struct buffer *seen,
                       long long finals)
{
    bool has_started = at != IN_PARSE && at != IN_QUEUE;
    assert_int_equal(stat_of("finals_waiting"), finals + 1); /* whatever it came to */
    assert_int_equal(stat_of("finals_live"), at == IN_QUEUE ? filler_count : 0);
    if (way != LEAVE_HALF_CLOSE && way != LEAVE_DELETE)
        return;
    json_t *final = face_kit_final(seen);
    assert_int_equal(final != NULL, has_started);
    if (final == NULL) {
        assert_int_equal(face_kit_count(seen, at == IN_PARSE ? "HTTP/1.1 4" : "HTTP/1.1 499"), 1);
        return;
    }
    const char *finish = json_string_value(json_object_get(final, "finish_reason"));
    if (at != AT_LAST)
        assert_string_equal(finish, "cancelled");
    if (at == IN_PREFILL)
        assert_int_equal(face_kit_number(final, "completion_tokens"), 0);
    if (at == AT_LAST)
        assert_in_range(face_kit_number(final, "completion_tokens"), 5, 6);
    json_decref(final);
}

static void leave_one(enum leave_state at, enum leave_way way)
{
    char id[32];
    struct buffer seen;
    buffer_init(&seen, 1024 * 1024);
    long long finals = stat_of("finals_waiting");
    long long steps = stat_of("steps");
    snprintf(id, sizeof id, "req_leave_%d_%d", (int)at, (int)way);
    int descriptor = leave_start(&kit, at, id);
    leave_reach(at, descriptor, steps, &seen);
    steps = leave(way, descriptor, id, &seen);
    wait_for("jobs", at == IN_QUEUE ? filler_count : 0);
    long long more = at == IN_PARSE || at == IN_QUEUE || at == IN_THROTTLE ? 0 : 1;
    if (stat_of("steps") > steps + more) /* one step may be under way */
        fail_msg("state %d, way %d: %lld steps more", (int)at, (int)way, stat_of("steps") - steps);
    assert_true(at == IN_QUEUE || stat_of("pages_free") == stat_of("pages_total"));
    check_left(at, way, &seen, finals);
    buffer_deinit(&seen);
}

static void leave_fill(void)
{
    for (filler_count = 0; filler_count < FILLERS_MAX; filler_count++) {
        char id[32];
        snprintf(id, sizeof id, "req_fill_%d", filler_count);
        fillers[filler_count] = leave_start(&kit, IN_DECODE, id);
        while (stat_of("sequences_throttled") != filler_count + 1 &&
               stat_of("sequences_waiting") != 1)
            usleep(5000);
        if (stat_of("sequences_waiting") == 1)
            break;
        wait_throttled((size_t)filler_count + 1, filler_count + 1);
    }
    assert_in_range(filler_count, 2, FILLERS_MAX - 1);
    close(fillers[filler_count]);
    wait_for("sequences_waiting", 0);
}

static void leave_all(enum leave_state at)
{
    for (enum leave_way way = 0; way < LEAVE_WAYS; way++)
        leave_one(at, way);
    wait_for("jobs", at == IN_QUEUE ? filler_count : 0);
}

static void restart(const char *model, const char *sequences)
{
    assert_int_equal(face_kit_stop(&kit), STATUS_OK);
    face_kit_sequences = sequences;
    assert_true(face_kit_start(&kit, model));
}

static void test_leaving_while_it_computes(void **state)
{
    (void)state;
    static const enum leave_state states[] = {IN_PARSE, IN_PREFILL, IN_DECODE, AT_LAST};
    restart(face_kit_model(), "1");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        leave_all(states[i]);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
    assert_int_equal(stat_of("requests"), 0);
}

static void test_leaving_while_it_stands(void **state)
{
    (void)state;
    restart(engine_run_make_model(), "1");
    leave_all(IN_THROTTLE);
    leave_fill(); /* to wait in line, all places must be taken */
    leave_all(IN_QUEUE);
    for (int k = 0; k < filler_count; k++)
        close(fillers[k]);
    wait_for("jobs", 0);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
    assert_int_equal(stat_of("requests"), 0);
    engine_run_remove_model();
}

/* A reader who stops: the sequence stands still after what the socket takes and
 * LIMIT_UNDELIVERED_TOKENS more, others go on, and so does it when the reader does. */
static void test_a_reader_that_stops(void **state)
{
    (void)state;
    static const char body[] = "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":140,\"n\":2,"
                               "\"temperature\":1,\"seed\":3,\"ignore_eos\":true}";
    struct buffer answer;
    struct buffer other;
    restart(engine_run_make_model(), "128");
    long long generated = stat_of("tokens_generated");
    int descriptor = face_kit_connect(&kit);
    face_kit_send(descriptor, "POST", "/v1/completions", "", body);
    wait_throttled(1, 2);
    long long standing = stat_of("tokens_generated") - generated;
    long long in_socket = 2 * LIMIT_ENGINE_SEND_BYTES / 200; /* a frame has more bytes */
    assert_in_range(standing, 2 * LIMIT_UNDELIVERED_TOKENS,
                    2 * LIMIT_UNDELIVERED_TOKENS + in_socket);
    assert_true(stat_of("pages_free") < stat_of("pages_total"));
    assert_int_equal(face_kit_ask(&kit, "GET", "/metrics", "", NULL, &other), 200);
    assert_int_equal(face_kit_count(&other, "class=\"standard\",state=\"throttled\"} 2\n"), 1);
    buffer_deinit(&other);
    assert_int_equal(face_kit_ask(&kit, "GET", "/internal/v1/requests", "", NULL, &other), 200);
    assert_int_equal(face_kit_count(&other, "\"state\":\"throttled\""), 1);
    buffer_deinit(&other);
    assert_int_equal(face_kit_ask(&kit, "POST", "/v1/completions", "",
                                  "{\"model\":\"small\",\"prompt\":\"a\",\"max_tokens\":20,"
                                  "\"ignore_eos\":true}",
                                  &other),
                     200);
    buffer_deinit(&other);
    assert_int_equal(stat_of("tokens_generated") - generated, standing + 20);
    assert_int_equal(stat_of("sequences_throttled"), 2);
    assert_int_equal(face_kit_receive(descriptor, &answer), 200);
    json_t *final = face_kit_final(&answer);
    assert_int_equal(face_kit_number(final, "completion_tokens"), 280);
    json_decref(final);
    buffer_deinit(&answer);
    wait_for("jobs", 0);
    assert_int_equal(stat_of("sequences_throttled"), 0);
    assert_int_equal(stat_of("pages_free"), stat_of("pages_total"));
    engine_run_remove_model();
}

static int start(void **state)
{
    (void)state;
    return face_kit_start(&kit, face_kit_model()) ? 0 : 1;
}

static int stop(void **state)
{
    (void)state;
    return face_kit_stop(&kit) == STATUS_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chat_has_its_frames),
        cmocka_unit_test(test_a_list_of_prompts),
        cmocka_unit_test(test_what_is_refused_starts_nothing),
        cmocka_unit_test(test_a_long_echo_comes_in_pieces),
        cmocka_unit_test(test_a_refused_id_may_come_again),
        cmocka_unit_test(test_half_close_cancels_and_still_counts),
        cmocka_unit_test(test_a_close_cancels_and_is_recorded),
        cmocka_unit_test(test_clients_that_leave_at_once),
        cmocka_unit_test(test_cancelling_by_id),
        cmocka_unit_test(test_leaving_while_it_computes),
        cmocka_unit_test(test_leaving_while_it_stands),
        cmocka_unit_test(test_a_reader_that_stops),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
