/* redis_link against a server that answers as each case has it: every error by its own reason,
 * replies of the wrong kind, passwords, pauses, the order of callbacks. */
#include "auth/ledger/redis_link.h"

#include "tests/unit/base_kit.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/metrics.h"

/* --- a server --- */

enum { ARGUMENTS = 8, FAKE_BYTES = 4096, WAIT_MS = 30000 };

static const char good_info[] = "# Server\r\nredis_version:7.0.15\r\nrun_id:0123456789abcdef\r\n"
                                "maxmemory:1000\r\nmaxmemory_policy:noeviction\r\nrole:master\r\n";

/* Answers `command` with `reply` (NULL: not at all; "": by hanging up) and the rest as Redis. */
struct fake {
    char folder[64];
    char path[96];
    int listener;
    pthread_t thread;
    atomic_bool must_stop;
    const char *command;
    const char *_Atomic reply;
    const char *info;
    atomic_int connections;
    atomic_int tests; /* commands TEST */
    pthread_mutex_t lock;
    char auth[256]; /* arguments of the last AUTH */
};

static void fake_send(int socket, const char *text)
{
    size_t length = strlen(text);
    assert_true(send(socket, text, length, MSG_NOSIGNAL) <= (ssize_t)length);
}

/* One command at the front of `bytes`: its arguments; bytes taken, 0 when it is not whole. */
static size_t fake_parse(char *bytes, size_t length, char *arguments[ARGUMENTS], size_t *count)
{
    char *at = bytes;
    bytes[length] = '\0';
    if (*at != '*' || strstr(at, "\r\n") == NULL)
        return 0;
    *count = (size_t)strtol(at + 1, &at, 10);
    assert_true(*count <= ARGUMENTS);
    at += 2;
    for (size_t i = 0; i < *count; i++) {
        if (strstr(at, "\r\n") == NULL)
            return 0;
        long size = strtol(at + 1, &at, 10);
        at += 2;
        if (at + size + 2 > bytes + length)
            return 0;
        arguments[i] = at;
        at += size + 2;
    }
    for (size_t i = 0; i < *count; i++)
        *strstr(arguments[i], "\r\n") = '\0';
    return (size_t)(at - bytes);
}

/* False: the connection is over. */
static bool fake_answer(struct fake *fake, int socket, char *arguments[ARGUMENTS], size_t count)
{
    const char *name = arguments[0];
    atomic_fetch_add(&fake->tests, strcmp(name, "TEST") == 0);
    if (strcmp(name, "AUTH") == 0) {
        pthread_mutex_lock(&fake->lock);
        snprintf(fake->auth, sizeof fake->auth, "%s%s%s", arguments[1], count > 2 ? " " : "",
                 count > 2 ? arguments[2] : "");
        pthread_mutex_unlock(&fake->lock);
    }
    if (fake->command != NULL && strcmp(name, fake->command) == 0) {
        if (fake->reply != NULL)
            fake_send(socket, fake->reply);
        return fake->reply == NULL || fake->reply[0] != '\0';
    }
    char text[1024];
    if (strcmp(name, "PING") == 0)
        fake_send(socket, "+PONG\r\n");
    else if (strcmp(name, "INFO") == 0) {
        snprintf(text, sizeof text, "$%d\r\n%s\r\n", (int)strlen(fake->info), fake->info);
        fake_send(socket, text);
    } else if (strcmp(name, "TEST") == 0)
        fake_send(socket, ":7\r\n");
    else
        fake_send(socket, "+OK\r\n");
    return true;
}

static void fake_serve(struct fake *fake, int socket)
{
    char bytes[FAKE_BYTES + 1];
    size_t length = 0;
    bool is_open = true;
    while (is_open && !atomic_load(&fake->must_stop)) {
        struct pollfd watched = {.fd = socket, .events = POLLIN};
        if (poll(&watched, 1, 20) <= 0)
            continue;
        ssize_t got = recv(socket, bytes + length, FAKE_BYTES - length, 0);
        is_open = got > 0;
        length += got > 0 ? (size_t)got : 0;
        char *arguments[ARGUMENTS] = {NULL};
        size_t count = 0;
        for (size_t taken = 1; is_open && taken > 0 && length > 0;) {
            taken = fake_parse(bytes, length, arguments, &count);
            if (taken > 0)
                is_open = fake_answer(fake, socket, arguments, count);
            memmove(bytes, bytes + taken, length - taken);
            length -= taken;
        }
    }
    close(socket);
}

static void *fake_main(void *context)
{
    struct fake *fake = context;
    while (!atomic_load(&fake->must_stop)) {
        struct pollfd watched = {.fd = fake->listener, .events = POLLIN};
        if (poll(&watched, 1, 20) <= 0)
            continue;
        int socket = accept(fake->listener, NULL, NULL);
        atomic_fetch_add(&fake->connections, 1);
        if (socket >= 0)
            fake_serve(fake, socket);
    }
    return NULL;
}

static int setup(void **state)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    kit_folder_make(fake->folder);
    snprintf(fake->path, sizeof fake->path, "%s/redis.sock", fake->folder);
    memcpy(name.sun_path, fake->path, strlen(fake->path) + 1);
    fake->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(fake->listener, 16), 0);
    fake->info = good_info;
    pthread_mutex_init(&fake->lock, NULL);
    *state = fake;
    return 0;
}

static void fake_start(struct fake *fake)
{
    atomic_store(&fake->must_stop, false);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_main, fake), 0);
}

static void fake_stop(struct fake *fake)
{
    atomic_store(&fake->must_stop, true);
    pthread_join(fake->thread, NULL);
}

static int teardown(void **state)
{
    struct fake *fake = *state;
    close(fake->listener);
    pthread_mutex_destroy(&fake->lock);
    kit_folder_remove(fake->folder);
    free(fake);
    return 0;
}

/* --- a link that says TEST each time --- */

enum take { TAKE_NUMBER, TAKE_TEXT, TAKE_STATUS };

struct user {
    enum take take;
    atomic_int connected;
    atomic_int turns;
    atomic_int downs;
    atomic_int closings;
    atomic_int turns_good; /* then one fails; 0: none does */
    char text[8];
    bool is_nil;
};

static enum status user_test(struct user *user, struct redis_link *link)
{
    static const struct slice test[] = {{"TEST", 4}};
    int64_t number = 0;
    TRY(redis_link_queue(link, test, 1));
    switch (user->take) {
    case TAKE_NUMBER:
        return redis_link_take_number(link, 0, 10, &number);
    case TAKE_TEXT:
        return redis_link_take_text(link, user->text, sizeof user->text, &user->is_nil);
    default:
        return redis_link_take_status(link, "OK");
    }
}

static enum status user_connected(void *context, struct redis_link *link)
{
    struct user *user = context;
    TRY(user_test(user, link));
    atomic_fetch_add(&user->connected, 1);
    return STATUS_OK;
}

static enum status user_turn(void *context, struct redis_link *link, bool *has_more)
{
    struct user *user = context;
    int turn = atomic_fetch_add(&user->turns, 1) + 1;
    *has_more = turn % 3 != 0;
    int good = atomic_load(&user->turns_good);
    if (good != 0 && turn % (good + 1) == 0)
        return redis_link_refuse(link, REDIS_REASON_BUSY);
    return user_test(user, link);
}

static void user_down(void *context)
{
    atomic_fetch_add(&((struct user *)context)->downs, 1);
}

static void user_closing(void *context, struct redis_link *link)
{
    struct user *user = context;
    assert_int_equal(user_test(user, link), STATUS_OK);
    atomic_fetch_add(&user->closings, 1);
}

static struct redis_link_options options_of(struct fake *fake, struct user *user)
{
    struct redis_link_options options = {.password_file = "",
                                         .turn_ms = 2,
                                         .command_ms = WAIT_MS,
                                         .context = user,
                                         .connected = user_connected,
                                         .turn = user_turn,
                                         .down = user_down,
                                         .closing = user_closing};
    char url[128];
    snprintf(url, sizeof url, "unix://%s", fake->path);
    assert_int_equal(redis_url_parse(&options.url, url), STATUS_OK);
    return options;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void wait_reason(const struct redis_link *link, enum redis_reason wanted)
{
    bool is_up = wanted == REDIS_REASON_NONE;
    for (int i = 0; i < WAIT_MS; i++, nap()) {
        if (redis_link_reason(link) == wanted && redis_link_is_up(link) == is_up)
            break;
    }
    assert_string_equal(redis_link_reason_word(redis_link_reason(link)),
                        redis_link_reason_word(wanted));
    assert_int_equal(redis_link_is_up(link), is_up);
}

static void wait_count(atomic_int *count, int wanted)
{
    for (int i = 0; i < WAIT_MS && atomic_load(count) < wanted; i++)
        nap();
    assert_true(atomic_load(count) >= wanted);
}

/* What the link says of a server that answers one command like that. */
static void check_refused(struct fake *fake, const char *command, const char *reply, enum take take,
                          enum redis_reason reason)
{
    struct user user = {.take = take};
    struct redis_link *link;
    struct redis_link_options options = options_of(fake, &user);
    options.command_ms = reply == NULL ? 30 : WAIT_MS;
    fake->command = command;
    fake->reply = reply;
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, reason);
    assert_int_equal(atomic_load(&user.connected), 0);
    redis_link_close(link);
    fake_stop(fake);
    assert_int_equal(atomic_load(&user.closings), 0);
}

/* --- tests --- */

static void test_errors_have_their_reasons(void **state)
{
    static const struct {
        const char *reply;
        enum redis_reason reason;
    } cases[] = {
        {"-NOAUTH Authentication required.\r\n", REDIS_REASON_PASSWORD},
        {"-NOPERM this user has no permissions\r\n", REDIS_REASON_RIGHTS},
        {"-ERR max number of clients reached\r\n", REDIS_REASON_CLIENTS},
        {"-READONLY You can't write against a read only replica.\r\n", REDIS_REASON_READ_ONLY},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", REDIS_REASON_MEMORY},
        {"-ERR Error running script (call to f_12): @user_script:3: @user_script: 3: -OOM command "
         "not allowed\r\n",
         REDIS_REASON_MEMORY},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", REDIS_REASON_DISK},
        {"-LOADING Redis is loading the dataset in memory\r\n", REDIS_REASON_LOADING},
        {"-MASTERDOWN Link with MASTER is down\r\n", REDIS_REASON_LOADING},
        {"-BUSY Redis is busy running a script.\r\n", REDIS_REASON_BUSY},
        {"-NOSCRIPT No matching script.\r\n", REDIS_REASON_SCRIPT},
        {"-WRONGTYPE Operation against a key\r\n", REDIS_REASON_TYPE},
        {"-CLUSTERDOWN Hash slot not served\r\n", REDIS_REASON_CLUSTER},
        {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", REDIS_REASON_CLUSTER},
        {"-MOVED 3999 127.0.0.1:6381\r\n", REDIS_REASON_CLUSTER},
        {"-ASK 3999 127.0.0.1:6381\r\n", REDIS_REASON_CLUSTER},
        {"-ERR unknown command 'TEST'\r\n", REDIS_REASON_OTHER},
        {"-\r\n", REDIS_REASON_OTHER},
        {"", REDIS_REASON_CLOSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(*state, "TEST", cases[i].reply, TAKE_NUMBER, cases[i].reason);
}

static void test_replies_are_checked(void **state)
{
    static const struct {
        const char *reply;
        enum take take;
    } cases[] = {
        {":11\r\n", TAKE_NUMBER},
        {":-1\r\n", TAKE_NUMBER},
        {"+OK\r\n", TAKE_NUMBER},
        {"$1\r\n7\r\n", TAKE_NUMBER},
        {"$-1\r\n", TAKE_NUMBER},
        {"*1\r\n:7\r\n", TAKE_NUMBER},
        {"*2000000000\r\n", TAKE_NUMBER},
        {"*0\r\n", TAKE_TEXT},
        {":7\r\n", TAKE_TEXT},
        {"$8\r\n12345678\r\n", TAKE_TEXT},
        {"+OK\r\n", TAKE_TEXT},
        {":7\r\n", TAKE_STATUS},
        {"+QUEUED\r\n", TAKE_STATUS},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", TAKE_STATUS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(*state, "TEST", cases[i].reply, cases[i].take, REDIS_REASON_REPLY);
}

/* A text that never ends is not read to its end. */
static void test_a_reply_is_bounded(void **state)
{
    char *reply = malloc(2 * LIMIT_REDIS_REPLY_BYTES);
    memset(reply, 'x', 2 * LIMIT_REDIS_REPLY_BYTES);
    memcpy(reply, "$500000000\r\n", 12);
    reply[2 * LIMIT_REDIS_REPLY_BYTES - 1] = '\0';
    check_refused(*state, "TEST", reply, TAKE_TEXT, REDIS_REASON_REPLY);
    free(reply);
}

static void test_the_greeting_is_judged(void **state)
{
    struct fake *fake = *state;
    check_refused(fake, "PING", "-LOADING Redis is loading\r\n", TAKE_NUMBER, REDIS_REASON_LOADING);
    check_refused(fake, "PING", "+PONK\r\n", TAKE_NUMBER, REDIS_REASON_REPLY);
    check_refused(fake, "INFO", "-NOPERM no\r\n", TAKE_NUMBER, REDIS_REASON_RIGHTS);
    check_refused(fake, "INFO", "$-1\r\n", TAKE_NUMBER, REDIS_REASON_VERSION);
    fake->info = "redis_version:5.0.14\r\nrole:master\r\n";
    check_refused(fake, NULL, "", TAKE_NUMBER, REDIS_REASON_VERSION);
    fake->info = "redis_version:6.0.16\r\nrole:slave\r\n";
    check_refused(fake, NULL, "", TAKE_NUMBER, REDIS_REASON_READ_ONLY);
    fake->info = "redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\n";
    check_refused(fake, NULL, "", TAKE_NUMBER, REDIS_REASON_CLUSTER);
}

static size_t lines_with(const char *path, const char *first, const char *second)
{
    char line[1024];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, first) != NULL && strstr(line, second) != NULL;
    fclose(file);
    return count;
}

/* The log tells of an error that has become another one, of the same reason or not; each once. */
static void test_an_error_that_changes_is_told(void **state)
{
    static const char *const replies[][2] = {
        {"-CLUSTERDOWN Hash slot not served\r\n", "\"code\":\"CLUSTERDOWN\""},
        {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", "\"code\":\"CROSSSLOT\""},
        {"-NOVELTY of another version\r\n", "\"code\":\"NOVELTY\""},
        {"-OTHERNEWS of another version\r\n", "\"code\":\"OTHERNEWS\""},
    };
    struct fake *fake = *state;
    char path[] = "/tmp/redis_link_log.XXXXXX";
    int descriptor = mkstemp(path);
    struct user user = {.take = TAKE_NUMBER};
    struct redis_link *link;
    struct redis_link_options options = options_of(fake, &user);
    log_open(descriptor, LOG_INFO, "test");
    fake->command = "TEST";
    fake->reply = replies[0][0];
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        fake->reply = replies[i][0];
        uint64_t attempts = redis_link_attempts(link);
        for (int j = 0; j < WAIT_MS && redis_link_attempts(link) < attempts + 2; j++)
            nap();
        assert_true(redis_link_attempts(link) >= attempts + 2);
    }
    redis_link_close(link);
    fake_stop(fake);
    log_open(STDERR_FILENO, LOG_INFO, "test");
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++)
        assert_int_equal(lines_with(path, "redis_down", replies[i][1]), 1);
    close(descriptor);
    unlink(path);
}

/* The kernel takes connections for a server that is stopped. */
static void test_silence_is_no_health(void **state)
{
    struct fake *fake = *state;
    check_refused(fake, "PING", NULL, TAKE_NUMBER, REDIS_REASON_TIMEOUT);
    check_refused(fake, "TEST", NULL, TAKE_NUMBER, REDIS_REASON_TIMEOUT);
}

static void test_nobody_is_there(void **state)
{
    struct fake *fake = *state;
    struct user user = {.take = TAKE_NUMBER};
    struct redis_link *link;
    struct redis_link_options options = options_of(fake, &user);
    unlink(fake->path);
    int64_t begun_us = clock_mono_us(clock_system());
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, REDIS_REASON_REFUSED);
    while (redis_link_attempts(link) < 4)
        nap();
    /* Between attempts lie at least 50, 100, 200, 400 … ms. */
    uint64_t attempts = redis_link_attempts(link);
    int64_t passed_ms = (clock_mono_us(clock_system()) - begun_us) / 1000;
    assert_true(passed_ms >= 350);
    assert_true(attempts <= 5 + (uint64_t)passed_ms / 400);
    assert_true(atomic_load(&user.downs) >= 3);
    redis_link_close(link);
    snprintf(options.url.host, sizeof options.url.host, "127.0.0.1");
    options.url.is_unix = false;
    options.url.port = 1;
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, REDIS_REASON_REFUSED);
    redis_link_close(link);
    snprintf(options.url.host, sizeof options.url.host, "no-such-name.invalid");
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, REDIS_REASON_NAME);
    redis_link_close(link);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void check_password(struct fake *fake, struct redis_link_options *options,
                           const char *content, const char *said)
{
    struct redis_link *link;
    write_file(options->password_file, content);
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, options), STATUS_OK);
    wait_reason(link, REDIS_REASON_NONE);
    wait_count(&((struct user *)options->context)->turns, 1);
    redis_link_close(link);
    fake_stop(fake);
    assert_string_equal(fake->auth, said);
}

static void test_the_password_is_the_files_line(void **state)
{
    struct fake *fake = *state;
    struct user user = {.take = TAKE_NUMBER};
    struct redis_link *link;
    char path[128];
    char *text = calloc(1, 2 * LIMIT_REDIS_PASSWORD_BYTES);
    snprintf(path, sizeof path, "%s/password", fake->folder);
    struct redis_link_options options = options_of(fake, &user);
    options.password_file = path;
    const char *const wrong[] = {"", "\n", "two\nlines\n", text};
    memset(text, 'x', 2 * LIMIT_REDIS_PASSWORD_BYTES - 1);
    fake_start(fake);
    for (int i = -1; i < 4; i++) { /* at first there is none */
        if (i >= 0)
            write_file(path, wrong[i]);
        assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
        wait_reason(link, REDIS_REASON_PASSWORD_FILE);
        assert_null(strstr(status_note()->message, "xxxx"));
        redis_link_close(link);
    }
    fake_stop(fake);
    assert_string_equal(fake->auth, "");
    check_password(fake, &options, "pass word", "pass word");
    check_password(fake, &options, "rotated\r\n", "rotated");
    snprintf(options.url.user, sizeof options.url.user, "banyan");
    options.url.database = 3;
    check_password(fake, &options, "rotated\n", "banyan rotated");
    free(text);
    /* AUTH is refused in several words. */
    fake->command = "AUTH";
    fake->reply = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, REDIS_REASON_PASSWORD);
    redis_link_close(link);
    fake_stop(fake);
    fake->command = "SELECT";
    fake->reply = "-ERR DB index is out of range\r\n";
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_reason(link, REDIS_REASON_DATABASE);
    redis_link_close(link);
    fake_stop(fake);
}

static void test_turns_go_on_and_failures_are_mended(void **state)
{
    struct fake *fake = *state;
    struct user user = {.take = TAKE_NUMBER, .turns_good = 20};
    struct metrics *metrics;
    struct redis_link *link;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    struct redis_link_options options = options_of(fake, &user);
    options.metrics = metrics;
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_count(&user.connected, 3);
    wait_count(&user.turns, 3 * 21 - 5);
    atomic_store(&user.turns_good, 0);
    redis_link_close(link);
    fake_stop(fake);
    assert_true(atomic_load(&fake->connections) >= 3);
    assert_true(atomic_load(&user.downs) >= 2);
    assert_true(metric_value(metrics_get(metrics, METRIC_COUNTER, "banyan_redis_errors_total", "",
                                         "reason=\"busy\"", NULL, 0)) >= 2);
    assert_true(metric_value(metrics_get(metrics, METRIC_COUNTER, "banyan_redis_connects_total", "",
                                         "", NULL, 0)) >= 3);
    metrics_destroy(metrics);
}

static void test_the_end_is_told(void **state)
{
    struct fake *fake = *state;
    struct user user = {.take = TAKE_NUMBER};
    struct redis_link *link;
    struct redis_link_options options = options_of(fake, &user);
    fake_start(fake);
    assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
    wait_count(&user.turns, 5);
    redis_link_close(link);
    fake_stop(fake);
    assert_int_equal(atomic_load(&user.closings), 1);
    assert_int_equal(atomic_load(&user.turns) % 3, 0); /* until there was no more */
    assert_int_equal(atomic_load(&fake->tests), atomic_load(&user.turns) + 2);
}

static void test_texts_and_nil(void **state)
{
    struct fake *fake = *state;
    static const struct {
        const char *reply;
        const char *text;
        bool is_nil;
    } cases[] = {
        {"$7\r\n1234567\r\n", "1234567", false}, {"$0\r\n\r\n", "", false}, {"$-1\r\n", "", true}};
    for (size_t i = 0; i < 3; i++) {
        struct user user = {.take = TAKE_TEXT};
        struct redis_link *link;
        struct redis_link_options options = options_of(fake, &user);
        fake->command = "TEST";
        fake->reply = cases[i].reply;
        fake_start(fake);
        assert_int_equal(redis_link_open(&link, &options), STATUS_OK);
        wait_count(&user.turns, 1);
        redis_link_close(link);
        fake_stop(fake);
        assert_string_equal(user.text, cases[i].text);
        assert_int_equal(user.is_nil, cases[i].is_nil);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_errors_have_their_reasons),
        TEST(test_replies_are_checked),
        TEST(test_a_reply_is_bounded),
        TEST(test_the_greeting_is_judged),
        TEST(test_an_error_that_changes_is_told),
        TEST(test_silence_is_no_health),
        TEST(test_nobody_is_there),
        TEST(test_the_password_is_the_files_line),
        TEST(test_turns_go_on_and_failures_are_mended),
        TEST(test_the_end_is_told),
        TEST(test_texts_and_nil),
    };
    signal(SIGPIPE, SIG_IGN); /* as the edge has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
