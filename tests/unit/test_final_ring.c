/* final_ring.c is included so that the test stands between any two groups of its stores: each
 * keep_order() is an instant at which the process may have been killed. */
#include <stdatomic.h>
static void instant(void);
#undef atomic_signal_fence
#define atomic_signal_fence(order) instant()
#include "gateway/engine_http/final_ring.c"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "config/base/rng.h"

enum { LIVE = 4 };

static char path[64];

/* What to do at each instant; NULL = nothing. */
static void (*at_instant)(void);

static void instant(void)
{
    if (at_instant != NULL)
        at_instant();
}

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/final_ring.XXXXXX");
    int descriptor = mkstemp(path);
    close(descriptor);
    return 0;
}

static int drop_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static struct final_record record_of(uint32_t number)
{
    struct final_record record = {.route = FINAL_ROUTE_CHAT,
                                  .service_class = "standard",
                                  .report = {.completion_tokens = number}};
    snprintf(record.request_id, sizeof record.request_id, "req_%u", number);
    return record;
}

static uint64_t append(struct final_ring *ring, uint32_t tokens)
{
    struct final_record record = record_of(tokens);
    final_ring_end(ring, FINAL_RING_NONE, &record);
    return record.sequence;
}

static uint64_t waiting(const struct final_ring *ring)
{
    struct final_ring_figures figures = final_ring_figures(ring);
    return figures.last - figures.acknowledged;
}

static void test_records_come_back_after_a_restart(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    assert_false(final_ring_next(ring, 0, &record));
    assert_int_equal(append(ring, 10), 1);
    assert_int_equal(append(ring, 20), 2);
    assert_int_equal(append(ring, 30), 3);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OK);
    final_ring_close(ring);

    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    assert_int_equal(waiting(ring), 2);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.sequence, 2);
    assert_string_equal(record.request_id, "req_20");
    assert_int_equal(record.report.completion_tokens, 20);
    assert_true(final_ring_next(ring, record.sequence, &record));
    assert_int_equal(record.sequence, 3);
    assert_false(final_ring_next(ring, record.sequence, &record));
    assert_int_equal(append(ring, 40), 4);
    final_ring_close(ring);
}

static void test_the_oldest_goes_when_the_ring_is_full(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    for (uint32_t i = 1; i <= 4; i++)
        append(ring, i);
    assert_int_equal(final_ring_figures(ring).lost, 0);
    append(ring, 5);
    assert_int_equal(final_ring_figures(ring).lost, 1);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.sequence, 2);
    for (uint32_t i = 6; i <= 100; i++)
        append(ring, i);
    assert_int_equal(final_ring_figures(ring).lost, 96);
    for (uint64_t expected = 97, after = 0; expected <= 100; expected++) {
        assert_true(final_ring_next(ring, after, &record));
        assert_int_equal(record.sequence, expected);
        after = record.sequence;
    }
    final_ring_close(ring);
}

static void test_acknowledging_what_never_was_is_refused(void **state)
{
    (void)state;
    struct final_ring *ring;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 0), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OUT_OF_RANGE);
    append(ring, 1);
    append(ring, 2);
    assert_int_equal(final_ring_acknowledge(ring, 2), STATUS_OK);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OK);
    assert_int_equal(waiting(ring), 0);
    final_ring_close(ring);
}

static void test_a_file_that_is_no_ring_is_left_alone(void **state)
{
    (void)state;
    struct final_ring *ring;
    int descriptor = open(path, O_WRONLY);
    assert_int_equal(write(descriptor, "something else", 14), 14);
    close(descriptor);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_CORRUPT);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, "/tmp/no/such/folder/x", 8, LIVE), STATUS_IO);
}

static void check_longer(struct final_ring *ring, uint32_t places)
{
    struct final_record record;
    int taken[3 * LIVE];
    assert_int_equal(final_ring_figures(ring).live, 0);
    assert_true(final_ring_next(ring, 1, &record));
    assert_int_equal(record.sequence, 2);
    assert_string_equal(record.request_id, "req_20");
    assert_true(final_ring_next(ring, 2, &record));
    assert_string_equal(record.request_id, "req_7");
    assert_int_equal(record.report.finish, ENGINE_FINISH_ERROR);
    assert_false(final_ring_next(ring, 3, &record));
    assert_true(final_ring_knows(ring, SLICE("req_10")));
    assert_true(final_ring_knows(ring, SLICE("req_7")));
    assert_int_equal(waiting(ring), 2);
    for (uint32_t i = 0; i < places; i++) {
        record = record_of(100 + i);
        taken[i] = final_ring_begin(ring, &record);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(taken[k], taken[i]);
    }
    assert_int_equal(final_ring_figures(ring).live, places);
}

/* More engines have more under way: a longer table, the same records. Fewer: the file stays. */
static void test_a_longer_table_keeps_the_records(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record = record_of(7);
    char left_over[80];
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    append(ring, 10);
    append(ring, 20);
    assert_int_equal(final_ring_acknowledge(ring, 1), STATUS_OK);
    (void)final_ring_begin(ring, &record); /* a process that dies */
    final_ring_close(ring);

    snprintf(left_over, sizeof left_over, "%s.new", path);
    int descriptor = open(left_over, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* died while it grew */
    assert_int_equal(write(descriptor, "half", 4), 4);
    close(descriptor);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, 3 * LIVE), STATUS_OK);
    assert_int_not_equal(access(left_over, F_OK), 0);
    assert_int_equal(final_ring_figures(ring).recovered, 1);
    check_longer(ring, 3 * LIVE);
    struct final_ring *other;
    assert_int_equal(final_ring_open(&other, AT_FDCWD, path, 8, LIVE), STATUS_EXISTS);
    final_ring_close(ring);

    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 64, LIVE), STATUS_CORRUPT);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    assert_int_equal(ring->header->live_capacity, 3 * LIVE);
    assert_int_equal(final_ring_figures(ring).recovered, 3 * LIVE);
    final_ring_close(ring);
}

/* Nothing is left to be allocated under the map: a full disk would end the process there. */
static void test_the_file_has_no_holes(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct stat info;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4096, LIVE), STATUS_OK);
        final_ring_close(ring);
        assert_int_equal(stat(path, &info), 0);
        assert_true(info.st_size >= 4096 * (off_t)sizeof(struct final_record));
        assert_true(info.st_blocks * 512 >= info.st_size);
    }
}

/* Files larger than the process may write stand for a disk that is full. */
static void test_a_full_disk_leaves_no_file_behind(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct stat info;
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max}),
        0);
    enum status status = final_ring_open(&ring, AT_FDCWD, path, 4096, LIVE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, STATUS_IO);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4096, LIVE), STATUS_OK);
    final_ring_close(ring);
}

static void test_a_damaged_record_stays_in_its_types(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    memset(&record, 'x', sizeof record);
    final_ring_end(ring, FINAL_RING_NONE, &record);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(strlen(record.request_id), sizeof record.request_id - 1);
    assert_int_equal(record.report.finish, ENGINE_FINISH_ERROR);
    final_ring_close(ring);
}

static void test_the_frame_has_every_member(void **state)
{
    (void)state;
    const struct final_record record = {
        .sequence = 7,
        .request_id = "req_a\"b",
        .tenant = {0xab, [15] = 1},
        .service_class = "standard",
        .route = FINAL_ROUTE_COMPLETIONS,
        .at_us = 99,
        .report = {.prompt_tokens = 1,
                   .cached_tokens = 2,
                   .completion_tokens = 3,
                   .reasoning_tokens = 2,
                   .queue_us = 4,
                   .prefill_us = 5,
                   .decode_us = 6,
                   .finish = ENGINE_FINISH_STOP},
    };
    struct buffer out;
    buffer_init(&out, 4096);
    struct final_ring *ring;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    final_ring_name_model(ring, "m\"1");
    final_ring_render(ring, &record, NULL, &out);
    assert_string_equal(
        out.bytes,
        "{\"protocol\":1,\"request_id\":\"req_a\\\"b\",\"record_seq\":7,"
        "\"tenant\":\"ab000000000000000000000000000001\",\"key\":null,"
        "\"route\":\"/v1/completions\",\"class\":\"standard\",\"model\":\"m\\\"1\",\"at_us\":99,"
        "\"prompt_tokens\":1,\"cached_tokens\":2,\"completion_tokens\":3,\"reasoning_tokens\":2,"
        "\"finish_reason\":\"stop\",\"estimated\":false,\"queue_us\":4,"
        "\"prefill_us\":5,\"decode_us\":6,\"preemptions\":0,\"swapped_pages\":0,"
        "\"swap_us\":0}");
    static const struct {
        enum final_route route;
        const char *word;
    } routes[] = {{FINAL_ROUTE_CHAT, "\"route\":\"/v1/chat/completions\","},
                  {FINAL_ROUTE_GENERATE, "\"route\":\"/v1/generate\","},
                  {FINAL_ROUTE_EMBEDDINGS, "\"route\":\"/v1/embeddings\","}};
    const struct engine_report whole = {.cached_public = 1,
                                        .cached_group = 2,
                                        .cached_own = 3,
                                        .cached_host_tokens = 4,
                                        .paused_us = 5,
                                        .recomputed_tokens = 6,
                                        .drafts_accepted = 7,
                                        .drafts_rejected = 8};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        struct final_record other = record;
        other.route = (uint16_t)routes[i].route;
        buffer_clear(&out);
        final_ring_render(ring, &other, &whole, &out);
        assert_non_null(strstr(out.bytes, routes[i].word));
        assert_non_null(strstr(out.bytes, ",\"swap_us\":0,\"cached_published\":1,"
                                          "\"cached_group\":2,\"cached_own\":3,"
                                          "\"cached_host\":4,\"paused_us\":5,"
                                          "\"recomputed_tokens\":6,"
                                          "\"drafts_accepted\":7,\"drafts_rejected\":8}"));
    }
    buffer_deinit(&out);
    final_ring_close(ring);
}

/* A record keeps the name of the model that made it, whichever is served when it is read. */
static void test_a_record_keeps_its_model(void **state)
{
    (void)state;
    struct final_ring *ring;
    char name[16];
    struct final_record begun = record_of(9);
    for (int model = 0; model <= FINAL_RING_MODELS; model++) {
        assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 64, LIVE), STATUS_OK);
        snprintf(name, sizeof name, "m%d", model);
        final_ring_name_model(ring, "served, and never asked");
        final_ring_name_model(ring, name);
        final_ring_name_model(ring, name);
        assert_int_equal(append(ring, 1), 2 * model + 1);
        begun.request_id[0] = (char)('a' + model);
        (void)final_ring_begin(ring, &begun); /* and the process dies: recorded at the next open */
        final_ring_close(ring);
    }
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 64, LIVE + 1), STATUS_OK);
    assert_string_equal(final_ring_model(ring, 1), ""); /* too many others since */
    assert_string_equal(final_ring_model(ring, 2), "");
    for (int model = 1; model <= FINAL_RING_MODELS; model++) {
        snprintf(name, sizeof name, "m%d", model);
        assert_string_equal(final_ring_model(ring, (uint64_t)(2 * model + 1)), name);
        assert_string_equal(final_ring_model(ring, (uint64_t)(2 * model + 2)), name);
    }
    final_ring_close(ring);
}

/* A file of before records had a model is taken as it is, and grows. */
static void test_a_file_without_models_is_taken(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_int_equal(append(ring, 10), 1);
    off_t length = (off_t)(ring->bytes - FINAL_RING_MODELS * sizeof(struct final_era) -
                           FINAL_RING_NAMES * sizeof(struct final_name));
    final_ring_close(ring);
    assert_int_equal(truncate(path, length), 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.report.completion_tokens, 10);
    assert_string_equal(final_ring_model(ring, 1), "");
    final_ring_name_model(ring, "m");
    assert_int_equal(append(ring, 20), 2);
    assert_string_equal(final_ring_model(ring, 1), "");
    assert_string_equal(final_ring_model(ring, 2), "m");
    final_ring_close(ring);
}

/* Records of one engine that serves several models have the number of theirs, also in a file that
 * was made before there were numbers. */
static void test_numbers_of_models(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record = {.route = FINAL_ROUTE_CHAT};
    struct buffer text;
    uint16_t numbers[3];
    buffer_init(&text, 1 << 16);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    off_t length = (off_t)(ring->bytes - FINAL_RING_NAMES * sizeof(struct final_name));
    final_ring_name_model(ring, "first");
    assert_int_equal(append(ring, 10), 1);
    final_ring_close(ring);
    assert_int_equal(truncate(path, length), 0);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_int_equal(final_ring_number(ring, "a", &numbers[0]), STATUS_OK);
    assert_int_equal(final_ring_number(ring, "b", &numbers[1]), STATUS_OK);
    assert_int_equal(final_ring_number(ring, "a", &numbers[2]), STATUS_OK);
    assert_int_equal(numbers[0], numbers[2]);
    assert_int_not_equal(numbers[0], numbers[1]);
    record.model = numbers[1];
    snprintf(record.request_id, sizeof record.request_id, "req_b");
    final_ring_end(ring, FINAL_RING_NONE, &record);
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    record.sequence = 0;
    static const char *const wanted[] = {"\"model\":\"first\"", "\"model\":\"b\""};
    for (int i = 0; i < 2; i++) {
        assert_true(final_ring_next(ring, record.sequence, &record));
        buffer_clear(&text);
        final_ring_render(ring, &record, NULL, &text);
        buffer_append_char(&text, '\0');
        assert_non_null(strstr(text.bytes, wanted[i]));
    }
    buffer_deinit(&text);
    final_ring_close(ring);
}

/* Appends a record of a model. */
static void append_of(struct final_ring *ring, const char *model)
{
    struct final_record record = {.route = FINAL_ROUTE_CHAT};
    assert_int_equal(final_ring_number(ring, model, &record.model), STATUS_OK);
    snprintf(record.request_id, sizeof record.request_id, "req_%s", model);
    final_ring_end(ring, FINAL_RING_NONE, &record);
}

/* The next record after `sequence`, which it moves, is of this model. */
static void check_model(const struct final_ring *ring, uint64_t *sequence, const char *model)
{
    struct final_record record;
    struct buffer text;
    char wanted[80];
    buffer_init(&text, 1 << 16);
    snprintf(wanted, sizeof wanted, "\"model\":\"%s\"", model);
    assert_true(final_ring_next(ring, *sequence, &record));
    *sequence = record.sequence;
    final_ring_render(ring, &record, NULL, &text);
    buffer_append_char(&text, '\0');
    assert_non_null(strstr(text.bytes, wanted));
    buffer_deinit(&text);
}

/* A longer table keeps the names: the records of both models, and the numbers of later ones. */
static void test_a_longer_table_keeps_the_names(void **state)
{
    (void)state;
    struct final_ring *ring;
    uint64_t sequence = 0;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    append_of(ring, "small");
    append_of(ring, "large");
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, 2 * LIVE), STATUS_OK);
    assert_int_equal(ring->header->live_capacity, 2 * LIVE);
    append_of(ring, "large");
    append_of(ring, "third");
    check_model(ring, &sequence, "small");
    check_model(ring, &sequence, "large");
    check_model(ring, &sequence, "large");
    check_model(ring, &sequence, "third");
    final_ring_close(ring);
}

/* Names come and go for ever. A name stays while a record has it that nobody has taken, or while
 * this process serves its model. */
static void test_names_that_no_record_has_make_room(void **state)
{
    (void)state;
    struct final_ring *ring;
    uint16_t number;
    uint64_t sequence = FINAL_RING_NAMES;
    char name[16];
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 2 * FINAL_RING_NAMES, LIVE), STATUS_OK);
    for (int i = 0; i < FINAL_RING_NAMES; i++) {
        snprintf(name, sizeof name, "m%d", i);
        append_of(ring, name);
    }
    assert_int_equal(final_ring_acknowledge(ring, FINAL_RING_NAMES), STATUS_OK);
    assert_int_equal(final_ring_number(ring, "one more", &number), STATUS_UNAVAILABLE);
    final_ring_close(ring);

    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 2 * FINAL_RING_NAMES, LIVE), STATUS_OK);
    append_of(ring, "m0"); /* waits, and is served */
    append_of(ring, "one more");
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 2 * FINAL_RING_NAMES, LIVE), STATUS_OK);
    for (int i = 0; i < FINAL_RING_NAMES - 2; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(final_ring_number(ring, name, &number), STATUS_OK);
    }
    assert_int_equal(final_ring_number(ring, "too many", &number), STATUS_UNAVAILABLE);
    check_model(ring, &sequence, "m0");
    check_model(ring, &sequence, "one more");
    final_ring_close(ring);
}

/* Version 1 is recognised by its first words; its records were never acknowledged by anybody. */
static void test_an_older_file_is_set_aside(void **state)
{
    (void)state;
    struct final_ring *ring;
    char aside[80];
    const struct final_header old = {.magic = MAGIC, .version = 1, .capacity = 8, .next = 3};
    int descriptor = open(path, O_WRONLY);
    assert_int_equal(write(descriptor, &old, sizeof old), sizeof old);
    close(descriptor);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_int_equal(append(ring, 1), 1);
    final_ring_close(ring);
    snprintf(aside, sizeof aside, "%s.v1", path);
    struct final_header kept = {0};
    descriptor = open(aside, O_RDONLY);
    assert_int_equal(read(descriptor, &kept, sizeof kept), sizeof kept);
    assert_memory_equal(&kept, &old, sizeof old);
    close(descriptor);
    assert_int_equal(unlink(aside), 0);
}

static void test_one_engine_a_file(void **state)
{
    (void)state;
    struct final_ring *first;
    struct final_ring *second;
    assert_int_equal(final_ring_open(&first, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    assert_int_equal(final_ring_open(&second, AT_FDCWD, path, 4, LIVE), STATUS_EXISTS);
    final_ring_close(first);
    assert_int_equal(final_ring_open(&second, AT_FDCWD, path, 4, LIVE), STATUS_OK);
    final_ring_close(second);
}

/* A record that does not stand where it should does not hide those behind it. */
static void test_a_damaged_slot_is_passed_over(void **state)
{
    (void)state;
    struct final_ring *ring;
    struct final_record record;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    for (uint32_t i = 1; i <= 3; i++)
        append(ring, i);
    ring->slots[2].sequence = 77;
    assert_true(final_ring_next(ring, 1, &record));
    assert_int_equal(record.sequence, 3);
    ring->slots[3].sequence = 78;
    assert_false(final_ring_next(ring, 1, &record));
    assert_false(final_ring_next(ring, UINT64_MAX, &record));
    final_ring_close(ring);
}

static void test_ids_are_known_as_far_back_as_the_ring_goes(void **state)
{
    (void)state;
    struct final_ring *ring;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    assert_false(final_ring_knows(ring, SLICE("req_1")));
    for (uint32_t i = 1; i <= 30; i++) {
        append(ring, i);
        assert_int_equal(final_ring_acknowledge(ring, i), STATUS_OK);
        for (uint32_t back = 0; back < i; back++) {
            char id[16];
            snprintf(id, sizeof id, "req_%u", i - back);
            assert_true(final_ring_knows(ring, slice_of(id)) == (back < 8));
        }
    }
    final_ring_close(ring);
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 8, LIVE), STATUS_OK);
    assert_true(final_ring_knows(ring, SLICE("req_23")));
    assert_true(final_ring_knows(ring, SLICE("req_30")));
    assert_false(final_ring_knows(ring, SLICE("req_22")));
    assert_false(final_ring_knows(ring, SLICE("req_2")));
    struct final_record live = record_of(31);
    int place = final_ring_begin(ring, &live);
    assert_true(final_ring_knows(ring, SLICE("req_31")));
    final_ring_end(ring, place, &live);
    assert_true(final_ring_knows(ring, SLICE("req_31")));
    final_ring_close(ring);
}

/* --- death at every instant --- */

/* The script's requests, and what must be true of a ring that is opened now. */
enum { REQUESTS = 64 };
static struct {
    struct final_ring *ring;
    enum { UNKNOWN, MAYBE, BEGUN, ENDED } state[REQUESTS];
    uint32_t tokens_least[REQUESTS]; /* before the operation under way … */
    uint32_t tokens_most[REQUESTS];  /* … and after it */
    uint32_t instants;
} script;

static void check_records(struct final_ring *ring)
{
    uint32_t seen[REQUESTS] = {0};
    struct final_record record = {0};
    while (final_ring_next(ring, record.sequence, &record)) {
        uint32_t number = 0;
        assert_int_equal(sscanf(record.request_id, "req_%u", &number), 1);
        assert_true(number < REQUESTS);
        seen[number]++;
        assert_in_range(record.report.completion_tokens, script.tokens_least[number],
                        script.tokens_most[number]);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        if (script.state[i] == MAYBE)
            assert_true(seen[i] <= 1);
        else
            assert_int_equal(seen[i], script.state[i] != UNKNOWN);
    }
}

static void copy_file(const struct final_ring *ring, const char *name)
{
    int descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(descriptor, ring->header, ring->bytes), (ssize_t)ring->bytes);
    close(descriptor);
}

static void check_instant(void)
{
    char name[80];
    struct final_ring *again;
    void (*before)(void) = at_instant;
    at_instant = NULL;
    snprintf(name, sizeof name, "%s.inner", path);
    copy_file(script.ring, name);
    assert_int_equal(final_ring_open(&again, AT_FDCWD, name, 128, LIVE), STATUS_OK);
    check_records(again);
    assert_int_equal(final_ring_figures(again).live, 0);
    final_ring_close(again);
    unlink(name);
    script.instants++;
    at_instant = before;
}

static void test_death_at_every_instant(void **state)
{
    (void)state;
    int places[LIVE];
    uint32_t numbers[LIVE];
    uint32_t tokens[LIVE];
    uint32_t live = 0;
    memset(&script, 0, sizeof script);
    struct rng rng = {.seed = 11};
    assert_int_equal(final_ring_open(&script.ring, AT_FDCWD, path, 128, LIVE), STATUS_OK);
    at_instant = check_instant;
    for (uint32_t next = 0; next < REQUESTS || live > 0;) {
        uint32_t choice = (uint32_t)rng_below(&rng, 4);
        if (choice == 0 && next < REQUESTS && live < LIVE) {
            struct final_record record = record_of(next);
            record.report.completion_tokens = 0;
            script.state[next] = MAYBE;
            places[live] = final_ring_begin(script.ring, &record);
            script.state[next] = BEGUN;
            tokens[live] = 0;
            numbers[live++] = next++;
            continue;
        }
        if (live == 0)
            continue;
        uint32_t one = (uint32_t)rng_below(&rng, live);
        uint32_t number = numbers[one];
        script.tokens_most[number] = ++tokens[one];
        struct final_counts report = {.completion_tokens = tokens[one],
                                      .finish = ENGINE_FINISH_STOP};
        if (choice < 3) {
            final_ring_progress(script.ring, places[one], &report, 5);
        } else {
            struct final_record record = record_of(number);
            record.report = report;
            final_ring_end(script.ring, places[one], &record);
            script.state[number] = ENDED;
            live--;
            places[one] = places[live];
            numbers[one] = numbers[live];
            tokens[one] = tokens[live];
        }
        script.tokens_least[number] = script.tokens_most[number];
    }
    at_instant = NULL;
    assert_int_equal(final_ring_figures(script.ring).last, REQUESTS);
    assert_true(script.instants > 4 * REQUESTS);
    final_ring_close(script.ring);
}

/* And again while it is being opened after a death: the recovery itself may be cut short. */
static void recovery_instant(void)
{
    void (*before)(void) = at_instant;
    char name[80];
    struct stat info;
    struct final_ring *again;
    at_instant = NULL;
    snprintf(name, sizeof name, "%s.copy", path);
    int from = open(path, O_RDONLY);
    int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(fstat(from, &info), 0);
    char *bytes = malloc((size_t)info.st_size);
    assert_int_equal(pread(from, bytes, (size_t)info.st_size, 0), info.st_size);
    assert_int_equal(write(to, bytes, (size_t)info.st_size), info.st_size);
    free(bytes);
    close(from);
    close(to);
    assert_int_equal(final_ring_open(&again, AT_FDCWD, name, 128, LIVE), STATUS_OK);
    check_records(again);
    final_ring_close(again);
    unlink(name);
    script.instants++;
    at_instant = before;
}

static void test_death_while_recovering(void **state)
{
    (void)state;
    memset(&script, 0, sizeof script);
    struct final_ring *ring;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 128, LIVE), STATUS_OK);
    for (uint32_t i = 0; i < LIVE; i++) {
        struct final_record record = record_of(i);
        int place = final_ring_begin(ring, &record);
        script.state[i] = BEGUN;
        script.tokens_least[i] = script.tokens_most[i] = i;
        ring->live[place].record.sequence = i % 2; /* one marked, not published */
    }
    final_ring_close(ring);
    at_instant = recovery_instant;
    assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 128, LIVE), STATUS_OK);
    at_instant = NULL;
    assert_int_equal(final_ring_figures(ring).recovered, LIVE);
    assert_true(script.instants > 3 * LIVE);
    check_records(ring);
    struct final_record record;
    assert_true(final_ring_next(ring, 0, &record));
    assert_int_equal(record.report.finish, ENGINE_FINISH_ERROR);
    final_ring_close(ring);
}

/* The real thing: a process that works on the ring is killed, again and again. */
static void test_a_killed_process(void **state)
{
    (void)state;
    struct final_ring *ring;
    uint64_t before = 0;
    struct rng rng = {.seed = 5};
    for (int round = 0; round < 20; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0) {
            if (final_ring_open(&ring, AT_FDCWD, path, 1024, LIVE) != STATUS_OK)
                _exit(1);
            if (write(ends[1], "1", 1) != 1)
                _exit(1);
            for (uint32_t i = 0;; i++) {
                struct final_record record = record_of((uint32_t)round * 1000000 + i);
                int place = final_ring_begin(ring, &record);
                final_ring_progress(ring, place, &record.report, i);
                final_ring_end(ring, place, &record);
                if (final_ring_acknowledge(ring, record.sequence - 1) != STATUS_OK)
                    _exit(1);
            }
        }
        char byte;
        close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        close(ends[0]);
        usleep((useconds_t)rng_below(&rng, 2000));
        kill(pid, SIGKILL);
        int how;
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(final_ring_open(&ring, AT_FDCWD, path, 1024, LIVE), STATUS_OK);
        struct final_ring_figures figures = final_ring_figures(ring);
        assert_true(figures.recovered <= 1);
        assert_int_equal(figures.lost, 0);
        /* One record a request: ids rise by one with the sequence, whoever wrote the last. */
        struct final_record record = {.sequence = 0};
        uint32_t last = 0;
        for (uint64_t at = figures.acknowledged; final_ring_next(ring, at, &record);
             at = record.sequence) {
            uint32_t number = 0;
            assert_int_equal(sscanf(record.request_id, "req_%u", &number), 1);
            assert_true(last == 0 || number == last + 1);
            last = number;
        }
        assert_true(figures.last >= before);
        before = figures.last;
        assert_int_equal(final_ring_acknowledge(ring, figures.last), STATUS_OK);
        final_ring_close(ring);
    }
}

int main(void)
{
    log_open(STDERR_FILENO, LOG_ERROR, "test"); /* each recovery would say so */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records_come_back_after_a_restart, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_the_oldest_goes_when_the_ring_is_full, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_acknowledging_what_never_was_is_refused, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_ring_is_left_alone, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_a_longer_table_keeps_the_records, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_the_file_has_no_holes, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_no_file_behind, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_a_damaged_record_stays_in_its_types, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_the_frame_has_every_member, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_record_keeps_its_model, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_file_without_models_is_taken, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_numbers_of_models, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_longer_table_keeps_the_names, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_names_that_no_record_has_make_room, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_an_older_file_is_set_aside, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_one_engine_a_file, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_damaged_slot_is_passed_over, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_ids_are_known_as_far_back_as_the_ring_goes, make_path,
                                        drop_path),
        cmocka_unit_test_setup_teardown(test_death_at_every_instant, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_death_while_recovering, make_path, drop_path),
        cmocka_unit_test_setup_teardown(test_a_killed_process, make_path, drop_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
