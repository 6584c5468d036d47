#include "config/base/log.h"

#include "tests/unit/base_kit.h"

#include <jansson.h>
#include <pthread.h>
#include <time.h>

#include "config/base/limits.h"

/* Lines go to a file that is read back after each. */
static int log_file;

static int open_file(void **state)
{
    char path[] = "/tmp/test_log.XXXXXX";
    (void)state;
    log_file = mkstemp(path);
    unlink(path);
    log_open(log_file, LOG_INFO, "unit");
    return log_file < 0;
}

static int close_file(void **state)
{
    (void)state;
    log_open(STDERR_FILENO, LOG_INFO, "unit");
    return close(log_file);
}

static size_t take_text(char *out, size_t capacity)
{
    ssize_t got = pread(log_file, out, capacity - 1, 0);
    assert_true(got >= 0);
    out[got] = '\0';
    assert_int_equal(ftruncate(log_file, 0), 0);
    assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
    return (size_t)got;
}

static json_t *take_line(size_t *length)
{
    char text[8192];
    *length = take_text(text, sizeof text);
    assert_true(*length > 0);
    assert_ptr_equal(strchr(text, '\n'), text + *length - 1); /* one line, ended */
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("%s in %s", error.text, text);
    return json;
}

static const char *text_of(json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text != NULL ? text : "(none)";
}

static void test_line(void **state)
{
    (void)state;
    size_t length;
    LOG(LOG_WARN, "something_happened",
        LOG_TEXT("why", "a \"quote\"\n\x01 gr\xc3\xbc\xc3\x9f \xff"), LOG_NUMBER("count", -42));
    json_t *json = take_line(&length);
    assert_string_equal(text_of(json, "level"), "warn");
    assert_string_equal(text_of(json, "component"), "unit");
    assert_string_equal(text_of(json, "event"), "something_happened");
    assert_string_equal(text_of(json, "why"), "a \"quote\"\n\x01 gr\xc3\xbc\xc3\x9f \xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_object_get(json, "count")), -42);
    struct tm utc = {0};
    const char *rest = strptime(text_of(json, "time"), "%Y-%m-%dT%H:%M:%S", &utc);
    assert_non_null(rest);
    assert_int_equal(strlen(rest), 5); /* .000Z */
    assert_int_equal(rest[4], 'Z');
    time_t apart = time(NULL) - timegm(&utc);
    assert_true(apart >= -2 && apart <= 2);
    json_decref(json);
    log_event(LOG_ERROR, "no_fields", NULL, 0);
    json = take_line(&length);
    assert_int_equal(json_object_size(json), 4);
    json_decref(json);
}

static void test_level(void **state)
{
    (void)state;
    char text[64];
    enum log_level level;
    log_event(LOG_DEBUG, "quiet", NULL, 0);
    assert_int_equal(take_text(text, sizeof text), 0);
    assert_int_equal(log_level_parse(&level, "debug"), STATUS_OK);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse(&level, "error"), STATUS_OK);
    assert_int_equal(level, LOG_ERROR);
    assert_int_equal(log_level_parse(&level, "loud"), STATUS_INVALID);
    assert_int_equal(log_level_parse(&level, "INFO"), STATUS_INVALID);
}

/* A text that ends where the room does, and a long one behind it. */
static void test_text_that_just_fits(void **state)
{
    (void)state;
    char text[LIMIT_LOG_LINE_BYTES];
    char behind[2 * LIMIT_LOG_LINE_BYTES];
    memset(behind, 'y', sizeof behind - 1);
    behind[sizeof behind - 1] = '\0';
    for (size_t count = LIMIT_LOG_LINE_BYTES - 160; count < sizeof text; count++) {
        memset(text, 'x', count);
        text[count] = '\0';
        LOG(LOG_INFO, "long", LOG_TEXT("text", text), LOG_TEXT("behind", behind));
        size_t length;
        json_t *json = take_line(&length);
        assert_true(length <= LIMIT_LOG_LINE_BYTES);
        assert_true(json_is_true(json_object_get(json, "cut")));
        json_decref(json);
    }
}

/* Texts around the limit, of characters that are escaped to one to six bytes: always valid JSON,
 * never longer than the limit, marked when cut. */
static void test_long_lines(void **state)
{
    static const char *const characters[] = {"x", "\"", "\x02", "\xe2\x82\xac", "\xff"};
    (void)state;
    char text[5000];
    for (size_t kind = 0; kind < 5; kind++) {
        size_t bytes = strlen(characters[kind]);
        bool was_whole = false;
        bool was_cut = false;
        for (size_t count = 600; count * bytes + bytes < sizeof text;
             count += count < 3900 ? 37 : 1) {
            for (size_t i = 0; i < count; i++)
                memcpy(text + i * bytes, characters[kind], bytes);
            text[count * bytes] = '\0';
            LOG(LOG_INFO, "long", LOG_TEXT("text", text), LOG_NUMBER("after", 1));
            size_t length;
            json_t *json = take_line(&length);
            bool is_cut = json_is_true(json_object_get(json, "cut"));
            assert_true(length <= LIMIT_LOG_LINE_BYTES);
            assert_true(!is_cut || length > LIMIT_LOG_LINE_BYTES - 64);
            assert_int_equal(json_object_get(json, "after") == NULL, is_cut);
            was_whole = was_whole || !is_cut;
            was_cut = was_cut || is_cut;
            json_decref(json);
        }
        assert_true(was_cut);
        assert_true(was_whole || kind == 2); /* 600 of six bytes and the head: whole too */
    }
}

static void test_many_fields(void **state)
{
    (void)state;
    struct log_field fields[300];
    for (size_t i = 0; i < 300; i++)
        fields[i] = i % 2 == 0 ? LOG_NUMBER("number", i) : LOG_TEXT("text", "twelve bytes");
    char text[8192];
    log_event(LOG_INFO, "many", fields, 300);
    size_t length = take_text(text, sizeof text);
    assert_true(length <= LIMIT_LOG_LINE_BYTES);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_true(json_is_true(json_object_get(json, "cut")));
    json_decref(json);
}

static void test_failure(void **state)
{
    (void)state;
    size_t length;
    status_fail(STATUS_BUSY, "config/base/x.c", 12, NULL, "no room for %d", 3);
    log_failure(LOG_ERROR, "refused");
    json_t *json = take_line(&length);
    assert_string_equal(text_of(json, "status"), "BUSY");
    assert_string_equal(text_of(json, "message"), "no room for 3");
    assert_string_equal(text_of(json, "file"), "config/base/x.c");
    assert_int_equal(json_integer_value(json_object_get(json, "line")), 12);
    json_decref(json);
}

static void *write_lines(void *context)
{
    for (int i = 0; i < 500; i++)
        LOG(LOG_INFO, "line", LOG_TEXT("who", context), LOG_NUMBER("i", i));
    return NULL;
}

/* Lines of several threads into one pipe are never mixed. */
static void test_threads(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_open(ends[1], LOG_INFO, "unit");
    pthread_t threads[3];
    char *names[3] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    FILE *file = fdopen(ends[0], "r");
    char line[LIMIT_LOG_LINE_BYTES + 1];
    for (int i = 0; i < 1500; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        json_decref(json);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    fclose(file);
    log_open(log_file, LOG_INFO, "unit");
    close(ends[1]);
}

/* The numbers of the lines of a file, one a digit; "d" for the line that tells of dropped ones. */
static void events_of(const char *path, char *out, size_t capacity)
{
    char line[LIMIT_LOG_LINE_BYTES + 1];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        const char *event = text_of(json, "event");
        assert_true(length + 2 < capacity);
        out[length++] = strcmp(event, "log_dropped") == 0 ? 'd' : event[0];
        json_decref(json);
    }
    out[length] = '\0';
    fclose(file);
}

/* Access lines with the others, in a file of their own, or nowhere. */
static void test_access_log(void **state)
{
    (void)state;
    char folder[64];
    char path[96];
    char events[64];
    kit_folder_make(folder);
    snprintf(path, sizeof path, "%s/access.log", folder);
    const struct log_field field = LOG_NUMBER("code", 200);
    const char *const outputs[] = {"on", "off", path};
    const char *const shared[] = {"aec", "ec", "ec"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(log_start(outputs[i]), STATUS_OK);
        assert_int_equal(log_start("on"), STATUS_OK); /* counted */
        assert_int_equal(log_access_is_on(), i != 1);
        log_access("access", &field, 1);
        log_event(LOG_INFO, "event", NULL, 0);
        log_stop();
        log_event(LOG_WARN, "careful", NULL, 0);
        log_stop();
        char text[4096];
        take_text(text, sizeof text);
        size_t count = 0;
        for (char *at = strstr(text, "\"event\":\""); at != NULL; at = strstr(at, "\"event\":\"")) {
            at += strlen("\"event\":\"");
            events[count++] = at[0];
        }
        events[count] = '\0';
        assert_string_equal(events, shared[i]);
    }
    events_of(path, events, sizeof events);
    assert_string_equal(events, "a");
    log_open(log_file, LOG_WARN, "unit");
    assert_false(log_access_is_on()); /* with the others, and below their level */
    log_access("access", &field, 1);
    assert_int_equal(log_start("/nonexistent/folder/log"), STATUS_IO);
    log_stop(); /* none runs */
    log_event(LOG_WARN, "still here", NULL, 0);
    char text[512];
    take_text(text, sizeof text);
    assert_non_null(strstr(text, "still here"));
    assert_null(strstr(text, "access"));
    kit_folder_remove(folder);
}

/* A pipe that nobody reads holds nobody up, and the end says how many lines are missing. */
static void test_blocked_output(void **state)
{
    (void)state;
    enum { LINES = 20000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_open(ends[1], LOG_INFO, "unit");
    uint64_t before = log_dropped();
    assert_int_equal(log_start("on"), STATUS_OK);
    const struct log_field field = LOG_TEXT("filler", "a line of a hundred bytes and some more");
    for (int i = 0; i < LINES; i++)
        log_access("request", &field, 1);
    uint64_t dropped = log_dropped() - before;
    assert_true(dropped > 0);
    assert_true(dropped < LINES);
    FILE *file = fdopen(ends[0], "r");
    char line[LIMIT_LOG_LINE_BYTES + 1];
    uint64_t told = 0;
    for (uint64_t lines = 0; lines + told < LINES || told == 0;) {
        assert_non_null(fgets(line, sizeof line, file));
        json_t *json = json_loads(line, 0, NULL);
        assert_non_null(json);
        bool is_report = strcmp(text_of(json, "event"), "log_dropped") == 0;
        told += is_report ? (uint64_t)json_integer_value(json_object_get(json, "lines")) : 0;
        lines += !is_report;
        json_decref(json);
        if (lines + dropped == LINES && told < dropped)
            log_event(LOG_WARN, "wake", NULL, 0); /* the next batch begins with the report */
    }
    assert_int_equal(told, dropped);
    log_stop();
    fclose(file);
    log_open(log_file, LOG_INFO, "unit");
    close(ends[1]);
}

static void test_share(void **state)
{
    (void)state;
    struct log_share share = {0};
    uint32_t unsaid = 9;
    for (int64_t second = 5; second < 8; second++) {
        for (int i = 0; i < LOG_SHARE_A_SECOND + 3; i++) {
            bool is_said = log_share_take(&share, second * 1000000 + i, &unsaid);
            assert_int_equal(is_said, i < LOG_SHARE_A_SECOND);
            if (is_said)
                assert_int_equal(unsaid, i == 0 && second > 5 ? 3 : 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_line, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_level, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_text_that_just_fits, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_long_lines, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_many_fields, open_file, close_file),
        cmocka_unit_test(test_share),
        cmocka_unit_test_setup_teardown(test_failure, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_threads, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_access_log, open_file, close_file),
        cmocka_unit_test_setup_teardown(test_blocked_output, open_file, close_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
