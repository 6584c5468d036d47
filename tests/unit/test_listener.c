/* listener: binding, the cap on connections, draining, closing under load. */
#include "http_kit_tls.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "config/base/clock.h"
#include "config/base/metrics.h"

static char answer[65536];
static _Atomic int starts;
static _Atomic int gones;
static struct http_request *_Atomic held;

static void on_gone(void *context, bool is_early)
{
    (void)context;
    (void)is_early;
    gones++;
}

static void handle(struct http_request *request, void *context)
{
    (void)context;
    http_on_gone(request, on_gone, NULL);
    char peer[64];
    http_peer_name(request, peer, sizeof(peer));
    if (slice_is(http_path(request), "/hold"))
        held = request;
    else
        http_respond_json(request, 200, slice_of(peer));
    starts++; /* last: the test reads `held` after it */
}

static void post_answer(void *context)
{
    (void)context;
    http_respond_json(held, 200, SLICE("late answer"));
}

static void post_drain(void *context)
{
    struct http_kit *kit = context;
    listener_drain(kit->listener);
    starts = -1;
}

static void test_bind_tcp(void **state)
{
    (void)state;
    int first, second;
    char bound[64];
    assert_int_equal(listener_bind_tcp(&first, "127.0.0.1:0", bound, sizeof(bound)), STATUS_OK);
    assert_int_equal(strncmp(bound, "127.0.0.1:", 10), 0);
    assert_int_equal(listener_bind_tcp(&second, bound, NULL, 0), STATUS_EXISTS);
    assert_non_null(strstr(status_note()->message, bound));
    char again[64];
    assert_int_equal(listener_address(first, again, sizeof(again)), STATUS_OK);
    assert_string_equal(again, bound);
    assert_int_equal(listener_address(-1, again, sizeof(again)), STATUS_IO);
    close(first);
    assert_int_equal(listener_bind_tcp(&first, "[::1]:0", bound, sizeof(bound)), STATUS_OK);
    assert_int_equal(strncmp(bound, "[::1]:", 6), 0);
    close(first);
    assert_int_equal(listener_bind_tcp(&first, "127.0.0.1", NULL, 0), STATUS_INVALID);
    assert_int_equal(listener_bind_tcp(&first, "127.0.0.1:", NULL, 0), STATUS_INVALID);
    assert_int_equal(listener_bind_tcp(&first, "127.0.0.1:x", NULL, 0), STATUS_INVALID);
    assert_int_equal(listener_bind_tcp(&first, "192.0.2.1:1", NULL, 0), STATUS_IO);
}

static void test_bind_unix(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/listener.%d.sock", (int)getpid());
    int first, second;
    struct stat info;
    assert_int_equal(listener_bind_unix(&first, path), STATUS_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(listener_bind_unix(&second, path), STATUS_EXISTS);
    close(first); /* the file stays: nobody answers on it, so it may be taken */
    assert_int_equal(listener_bind_unix(&second, path), STATUS_OK);
    close(second);
    unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(listener_bind_unix(&first, path), STATUS_EXISTS);
    unlink(path);
    char longest[200];
    memset(longest, 'p', sizeof(longest));
    longest[108] = '\0'; /* sun_path has 108 bytes with its end */
    assert_int_equal(listener_bind_unix(&first, longest), STATUS_INVALID);
    assert_int_equal(listener_bind_unix(&first, "/nowhere/at/all.sock"), STATUS_IO);
}

static void test_connections_max(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle, .connections_max = 3});
    int fds[4];
    for (int i = 0; i < 3; i++) {
        fds[i] = http_kit_connect(&kit);
        http_kit_send_text(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        recv(fds[i], answer, sizeof(answer), 0);
        assert_memory_equal(answer, "HTTP/1.1 200", 12);
    }
    fds[3] = http_kit_connect(&kit);
    assert_int_equal(http_kit_read(fds[3], answer, sizeof(answer), NULL), 0);
    close(fds[3]);
    close(fds[0]);
    http_kit_wait_connections(&kit, 0, 2);
    fds[0] = http_kit_connect(&kit);
    http_kit_send_text(fds[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    recv(fds[0], answer, sizeof(answer), 0);
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
    assert_non_null(strstr(answer, "127.0.0.1:"));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    http_kit_stop(&kit);
}

static _Atomic int admits_left;

static bool admit(void *context, int descriptor)
{
    (void)descriptor;
    return atomic_fetch_sub((_Atomic int *)context, 1) > 0;
}

/* Whoever is not admitted is closed before a byte is read, and holds no place. */
static void test_admit(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    admits_left = 1;
    http_kit_start(&kit, false,
                   (struct listener_options){
                       .handler = handle, .admit = admit, .admit_context = (void *)&admits_left});
    int first = http_kit_connect(&kit);
    http_kit_send_text(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    recv(first, answer, sizeof(answer), 0);
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
    int second = http_kit_connect(&kit);
    assert_int_equal(http_kit_read(second, answer, sizeof(answer), NULL), 0);
    http_kit_wait_connections(&kit, 0, 1);
    close(second);
    close(first);
    http_kit_stop(&kit);
}

static bool is_served(const struct http_kit *kit, int *fd)
{
    *fd = http_kit_connect(kit);
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    if (send(*fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
        return false;
    return recv(*fd, answer, sizeof(answer), 0) > 12 && memcmp(answer, "HTTP/1.1 200", 12) == 0;
}

static double counted(struct metrics *registry, const char *name, const char *why)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "listener=\"test\",why=\"%s\"", why);
    return metric_value(metrics_get(registry, METRIC_COUNTER, name, "", labels, NULL, 0));
}

static void test_connections_per_address(void **state)
{
    (void)state;
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct http_kit kit = {0};
    http_kit_start(&kit, false,
                   (struct listener_options){
                       .handler = handle, .connections_per_address = 3, .metrics = registry});
    int fds[4];
    for (int i = 0; i < 3; i++)
        assert_true(is_served(&kit, &fds[i]));
    assert_false(is_served(&kit, &fds[3]));
    assert_true(counted(registry, "banyan_connections_refused_total", "address_connections") == 1);
    close(fds[3]);
    close(fds[1]);
    http_kit_wait_connections(&kit, 2, 2);
    assert_true(is_served(&kit, &fds[1]));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    http_kit_stop(&kit);
    metrics_destroy(registry);
}

static void test_connects_per_address(void **state)
{
    (void)state;
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct http_kit kit = {0};
    http_kit_start(&kit, false,
                   (struct listener_options){
                       .handler = handle, .connects_per_address_s = 4, .metrics = registry});
    int fd;
    int served = 0;
    int64_t begin_us = clock_mono_us(clock_system());
    for (int i = 0; i < 40; i++) {
        served += is_served(&kit, &fd);
        close(fd);
    }
    int64_t spent_us = clock_mono_us(clock_system()) - begin_us;
    assert_true(served >= 4);
    assert_true(served <= 4 + 4 * spent_us / 1000000 + 1); /* four at once, then four a second */
    assert_true(counted(registry, "banyan_connections_refused_total", "address_rate") ==
                40 - served);
    for (int i = 0; i < 100 && !is_served(&kit, &fd); i++) { /* and it comes back */
        close(fd);
        usleep(100000);
        assert_true(i < 50);
    }
    close(fd);
    http_kit_stop(&kit);
    metrics_destroy(registry);
}

/* More connects at once than handshakes are allowed a second, and than the loop takes in a turn:
 * all wait, all are served. */
static void test_burst_waits(void **state)
{
    (void)state;
    enum { RATE = 50, BURST = 80 };
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct http_kit kit = {0};
    http_kit_start(
        &kit, false,
        (struct listener_options){.handler = handle, .handshakes_s = RATE, .metrics = registry});
    int64_t begin_us = clock_mono_us(clock_system());
    int fds[BURST];
    for (int i = 0; i < BURST; i++) {
        fds[i] = http_kit_connect(&kit);
        http_kit_send_text(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for (int i = 0; i < BURST; i++) {
        assert_true(recv(fds[i], answer, sizeof(answer), 0) > 12);
        assert_memory_equal(answer, "HTTP/1.1 200", 12);
    }
    int64_t spent_us = clock_mono_us(clock_system()) - begin_us;
    assert_true(spent_us >= (BURST - RATE) * INT64_C(1000000) / RATE - 50000);
    assert_true(counted(registry, "banyan_accept_pauses_total", "handshakes") >= 1);
    for (int i = 0; i < BURST; i++)
        close(fds[i]);
    http_kit_stop(&kit);
    metrics_destroy(registry);
}

/* One address that knocks without end is refused, and takes nothing from the others' share. */
static void test_refused_cost_no_handshake(void **state)
{
    (void)state;
    enum { RATE = 20, KNOCKS = 200 };
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct http_kit kit = {0};
    http_kit_start(&kit, false,
                   (struct listener_options){.handler = handle,
                                             .connects_per_address_s = 1,
                                             .handshakes_s = RATE,
                                             .metrics = registry});
    for (int i = 0; i < KNOCKS; i++) {
        int fd;
        (void)is_served(&kit, &fd);
        close(fd);
    }
    assert_true(counted(registry, "banyan_connections_refused_total", "address_rate") > RATE);
    assert_true(counted(registry, "banyan_accept_pauses_total", "handshakes") == 0);
    http_kit_stop(&kit);
    metrics_destroy(registry);
}

/* Newcomers wait while only the reserve is left, the loop does not spin, and they are served once
 * others leave. */
static void test_descriptors_kept_back(void **state)
{
    (void)state;
    enum { FILES = 200, MOST = 300 };
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit low = {.rlim_cur = FILES, .rlim_max = before.rlim_max};
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct http_kit kit = {0};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    http_kit_start(&kit, true, (struct listener_options){.handler = handle, .metrics = registry});
    /* Clients and server share the process: each connection takes two. */
    int fds[MOST];
    int count = 0;
    while (counted(registry, "banyan_accept_pauses_total", "descriptors") == 0) {
        fds[count++] = http_kit_connect(&kit);
        assert_true(count < FILES / 2);
        usleep(1000);
    }
    assert_in_range(http_kit_count(&kit).connections, FILES * 2 / 5, FILES / 2);
    struct rusage start, end;
    assert_int_equal(getrusage(RUSAGE_SELF, &start), 0);
    int waiting = http_kit_connect(&kit);
    http_kit_send_text(waiting, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    struct pollfd poll_waiting = {.fd = waiting, .events = POLLIN};
    assert_int_equal(poll(&poll_waiting, 1, 500), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &end), 0);
    int64_t cpu_us = (end.ru_utime.tv_sec - start.ru_utime.tv_sec) * INT64_C(1000000) +
                     (end.ru_utime.tv_usec - start.ru_utime.tv_usec);
    assert_true(cpu_us < 250000); /* a loop that spins takes all of the 500 ms */
    for (int i = 0; i < 10; i++)
        close(fds[--count]);
    assert_int_equal(poll(&poll_waiting, 1, 10000), 1);
    recv(waiting, answer, sizeof(answer), 0);
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
    close(waiting);
    while (count > 0)
        close(fds[--count]);
    http_kit_stop(&kit);
    setrlimit(RLIMIT_NOFILE, &before);
    metrics_destroy(registry);
}

/* Draining: nobody new, what runs is answered with "connection: close", then the end. */
static void test_drain(void **state)
{
    (void)state;
    starts = gones = 0;
    struct http_kit kit = {0};
    http_kit_start(&kit, true, (struct listener_options){.handler = handle});
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&starts, 1);
    loop_post(kit.loop, post_drain, &kit);
    while (starts != -1)
        usleep(1000);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, kit.path, strlen(kit.path) + 1);
    int refused = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(refused, (struct sockaddr *)&name, sizeof(name)), -1);
    close(refused);
    assert_int_equal(http_kit_count(&kit).requests, 1);
    loop_post(kit.loop, post_answer, NULL);
    http_kit_read(fd, answer, sizeof(answer), NULL);
    assert_non_null(strstr(answer, "late answer"));
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    http_kit_wait(&gones, 1);
    assert_int_equal(http_kit_count(&kit).requests, 0);
    close(fd);
    http_kit_stop(&kit);
}

static void test_drain_h2(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    starts = gones = 0;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    SSL *ssl = http_kit_tls_connect(&tls, &kit, true);
    assert_non_null(ssl);
    struct buffer out;
    buffer_init(&out, 65536);
    http_kit_h2_preface(&out);
    http_kit_h2_request(&out, 1, "GET", "/hold", NULL, true);
    http_kit_tls_send(ssl, out.bytes, out.length);
    http_kit_wait(&starts, 1);
    loop_post(kit.loop, post_drain, &kit);
    do
        assert_true(http_kit_h2_read(ssl, &frame));
    while (frame.type != H2_GOAWAY);
    loop_post(kit.loop, post_answer, NULL);
    do
        assert_true(http_kit_h2_read(ssl, &frame));
    while (frame.type != H2_DATA);
    assert_memory_equal(frame.payload, "late answer", 11);
    http_kit_tls_drop(ssl);
    buffer_deinit(&out);
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

/* Closing ends every kind of connection there may be, and leaves nothing behind. */
static void test_close_under_load(void **state)
{
    (void)state;
    starts = gones = 0;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    SSL *idle = http_kit_tls_connect(&tls, &kit, false);
    SSL *busy = http_kit_tls_connect(&tls, &kit, false);
    SSL *half = http_kit_tls_connect(&tls, &kit, false);
    SSL *two = http_kit_tls_connect(&tls, &kit, true);
    int silent = http_kit_connect(&kit); /* no handshake */
    const char *request = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
    http_kit_tls_send(busy, request, strlen(request));
    http_kit_tls_send(half, request, strlen(request) - 2);
    struct buffer out;
    buffer_init(&out, 65536);
    http_kit_h2_preface(&out);
    http_kit_h2_request(&out, 1, "GET", "/hold", NULL, true);
    http_kit_tls_send(two, out.bytes, out.length);
    http_kit_wait(&starts, 2);
    http_kit_wait_connections(&kit, 5, 5);
    http_kit_stop(&kit);
    assert_int_equal(gones, 2);
    http_kit_tls_drop(idle);
    http_kit_tls_drop(busy);
    http_kit_tls_drop(half);
    http_kit_tls_drop(two);
    close(silent);
    buffer_deinit(&out);
    http_kit_tls_stop(&tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind_tcp),
        cmocka_unit_test(test_bind_unix),
        cmocka_unit_test(test_connections_per_address),
        cmocka_unit_test(test_connects_per_address),
        cmocka_unit_test(test_burst_waits),
        cmocka_unit_test(test_refused_cost_no_handshake),
        cmocka_unit_test(test_descriptors_kept_back),
        cmocka_unit_test(test_connections_max),
        cmocka_unit_test(test_admit),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_h2),
        cmocka_unit_test(test_close_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
