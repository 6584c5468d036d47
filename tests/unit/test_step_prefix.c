#include "engine/step/step_prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/rounds.h"
#include "tests/kit/step_world.h"

enum { PAGE = STEP_WORLD_PAGE };

static const struct step_world_options ample = {
    .rows_max = 64, .sequences_max = 16, .pages = 512, .pin_percent = 50};

/* Token `position` of text `text`; texts differ in about every token. */
static uint32_t token(uint32_t text, uint32_t position)
{
    return (uint32_t)(rng_at(5, text, position) % 256);
}

static void write_text(uint32_t *out, uint32_t text, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[first + i] = token(text, first + i);
}

/* A prompt that begins with `shared` tokens of one text and goes on with `own` of another. */
static uint32_t submit(struct step_world *world, uint32_t shared_text, uint32_t shared,
                       uint32_t own_text, uint32_t own, uint32_t tokens_max, uint8_t domain)
{
    uint32_t tokens[STEP_WORLD_CONTEXT];
    write_text(tokens, shared_text, 0, shared);
    write_text(tokens, own_text, shared, own);
    const struct engine_request request =
        step_world_request(tokens, shared + own, tokens_max, domain);
    return step_world_submit(world, &request);
}

static uint64_t rows(struct step_world *world)
{
    return atomic_load(&world->step.figures.rows);
}

/* Pages of sequences: none when nobody runs, whatever the cache holds. */
static uint32_t pages_active(struct step_world *world)
{
    struct prefix_figures figures;
    prefix_cache_figures(&world->step.cache, &figures);
    return figures.pages_active;
}

/* --- the same bits, cache on or off --- */

enum { RANDOM = 32, TEXTS = 3 };

struct random_request {
    uint32_t tokens[STEP_WORLD_CONTEXT];
    struct engine_request request;
};

/* Prompts of a few texts, cut at any place and gone on with, of three domains that see each other
 * in part; greedy and sampled, one choice and three. */
static void random_make(struct random_request *out, uint32_t index)
{
    struct rng rng = {.seed = 900 + index};
    uint32_t shared = (uint32_t)rng_below(&rng, 200);
    uint32_t own = 1 + (uint32_t)rng_below(&rng, 60);
    uint32_t text = (uint32_t)rng_below(&rng, TEXTS);
    write_text(out->tokens, text, 0, shared);
    write_text(out->tokens, TEXTS + (uint32_t)rng_below(&rng, 4), shared, own);
    uint8_t domain = (uint8_t)rng_below(&rng, 4);
    out->request =
        step_world_request(out->tokens, shared + own, 1 + (uint32_t)rng_below(&rng, 64), domain);
    struct engine_request *request = &out->request;
    if (domain == 2) { /* reads what 1 has, as a group's */
        request->visible[0] = step_world_domain(1);
        request->visible_count = 1;
        request->visible_group = 1;
    }
    request->cache_share = 1 + (uint32_t)rng_below(&rng, 300);
    request->sampling.temperature = rng_below(&rng, 2) == 0 ? 0 : 0.9f;
    request->sampling.seed = index;
    request->choices = rng_below(&rng, 5) == 0 ? 3 : 1;
    request->want_logprobs = true;
    request->echo = rng_below(&rng, 8) == 0;
}

static uint32_t random_count; /* of RANDOM at most */
static struct random_request randoms[RANDOM];
static struct step_world_told expected[RANDOM];

static int random_setup(void **state)
{
    (void)state;
    struct step_world_options options = ample;
    options.no_prefix_cache = true;
    options.sequences_max = 1;
    struct step_world *world = step_world_open(&options);
    random_count = rounds(12, RANDOM);
    for (uint32_t i = 0; i < random_count; i++) {
        random_make(&randoms[i], i);
        uint32_t told = step_world_submit(world, &randoms[i].request);
        step_world_run(world);
        assert_true(world->told[told].is_over);
        assert_int_equal(world->told[told].report.cached_tokens, 0);
        expected[i] = world->told[told];
    }
    step_world_close(world);
    return 0;
}

/* All of them in a random order, some cancelled; those that end by themselves say what they said
 * alone without a cache. Returns the tokens found. */
static uint64_t random_run(const struct step_world_options *options, uint64_t seed)
{
    struct step_world *world = step_world_open(options);
    struct rng rng = {.seed = seed};
    uint32_t told_of[RANDOM];
    bool is_submitted[RANDOM] = {false};
    uint64_t cached = 0;
    for (uint32_t left = random_count; left > 0; left--) {
        uint32_t pick = (uint32_t)rng_below(&rng, random_count);
        while (is_submitted[pick])
            pick = (pick + 1) % random_count;
        is_submitted[pick] = true;
        told_of[pick] = step_world_submit(world, &randoms[pick].request);
        for (uint64_t steps = rng_below(&rng, 4); steps > 0; steps--)
            step_world_step(world);
        if (rng_below(&rng, 8) == 0)
            step_world_cancel(world, (uint32_t)rng_below(&rng, world->told_count));
    }
    step_world_run(world);
    for (uint32_t i = 0; i < random_count; i++) {
        const struct step_world_told *told = &world->told[told_of[i]];
        assert_true(told->is_over);
        if (told->refusal.status == STATUS_CANCELLED ||
            told->report.finish == ENGINE_FINISH_CANCELLED)
            continue;
        cached += told->report.cached_tokens;
        if (!step_world_same(told, &expected[i]))
            print_error("request %u differs, seed %u\n", i, (unsigned)seed);
        assert_true(step_world_same(told, &expected[i]));
        if (randoms[i].request.echo)
            assert_int_equal(told->report.cached_tokens, 0);
    }
    assert_int_equal(pages_active(world), 0);
    step_world_close(world);
    return cached;
}

static void test_same_bits(void **state)
{
    (void)state;
    uint64_t cached = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct step_world_options options = ample;
        options.rows_max = seed == 1 ? 7 : 64;
        options.mode = seed <= 2 ? SCHEDULER_CONTINUOUS : (enum scheduler_mode)(seed - 2);
        cached += random_run(&options, seed);
    }
    assert_true(cached > 30 * random_count);
}

/* With one full sequence's pages: sequences are dropped, pages evicted to the host and fetched. */
static void test_same_bits_when_pages_are_short(void **state)
{
    (void)state;
    uint64_t cached = 0;
    for (uint64_t seed = 11; seed <= 14; seed++) {
        struct step_world_options options = ample;
        options.pages = 32 + (uint32_t)seed % 3;
        options.host_pages = seed % 2 == 0 ? 0 : 24;
        options.sequences_max = 6;
        cached += random_run(&options, seed);
    }
    assert_true(cached > 15 * random_count);
}

/* Of so many tokens those that the cache keeps: whole pages, where keys are packed by pages. */
static uint32_t kept(uint32_t tokens)
{
    return kernels_kv_has_groups(step_world_kv_type) ? tokens - tokens % PAGE : tokens;
}

static uint32_t pages_kept(uint32_t tokens)
{
    return (kept(tokens) + PAGE - 1) / PAGE;
}

/* --- prefixes in flight --- */

/* Sixteen at once, cold: what they share is computed once, to the token. */
static void test_sixteen_at_once(void **state)
{
    (void)state;
    enum { SHARED = 405, OWN = 9, COUNT = 16 };
    struct step_world *world = step_world_open(&ample);
    for (uint32_t i = 0; i < COUNT; i++)
        submit(world, 0, SHARED, 10 + i, OWN, 1, 1);
    step_world_run(world);
    assert_int_equal(rows(world), SHARED + OWN + (COUNT - 1) * (SHARED + OWN - kept(SHARED)));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(world->told[i].report.cached_tokens, i == 0 ? 0 : kept(SHARED));
    assert_int_equal(world->step.followers, 0);
    step_world_close(world);
}

/* The planner is told whose finds stand where another tenant's sequence may hold them. */
static void test_found_in_a_group(void **state)
{
    (void)state;
    struct step_world *world = step_world_open(&ample);
    submit(world, 0, 100, 1, 9, 1, 1);
    step_world_run(world);
    for (uint32_t is_group = 0; is_group < 2; is_group++) {
        uint32_t tokens[STEP_WORLD_CONTEXT];
        write_text(tokens, 0, 0, 120);
        struct engine_request request = step_world_request(tokens, 120, 1, is_group ? 2 : 1);
        request.visible[0] = step_world_domain(1);
        request.visible_count = request.visible_group = is_group;
        step_world_submit(world, &request);
        assert_true(step_world_step(world));
        assert_true(world->step.view_waiting[0].computed >= 96);
        assert_true(world->step.view_waiting[0].is_found_shared == (is_group == 1));
        step_world_run(world);
    }
    step_world_close(world);
}

/* The same prompt for all, in steps of few rows: all but the last token come from the first. */
static void test_same_prompt_at_once(void **state)
{
    (void)state;
    struct step_world_options options = ample;
    options.rows_max = 24;
    struct step_world *world = step_world_open(&options);
    for (uint32_t i = 0; i < 8; i++)
        submit(world, 0, 203, 0, 0, 1, 1);
    step_world_run(world);
    assert_int_equal(rows(world), 203 + 7 * (203 - kept(202)));
    step_world_close(world);
}

static void test_choices_follow_the_first(void **state)
{
    (void)state;
    uint32_t tokens[STEP_WORLD_CONTEXT];
    struct step_world *world = step_world_open(&ample);
    write_text(tokens, 0, 0, 150);
    struct engine_request request = step_world_request(tokens, 150, 5, 1);
    request.choices = 6;
    uint32_t told = step_world_submit(world, &request);
    step_world_run(world);
    assert_int_equal(rows(world), 150 + 5 * (150 - kept(149)) + 6 * 4);
    assert_int_equal(world->told[told].report.cached_tokens, 0); /* the first choice's */
    assert_int_equal(world->told[told].report.completion_tokens, 30);
    step_world_close(world);
}

/* What the cancelled one had computed stays; the next goes on from there. */
static void test_leader_is_cancelled(void **state)
{
    (void)state;
    struct step_world *world = step_world_open(&ample);
    uint32_t leader = submit(world, 0, 400, 10, 9, 1, 1);
    for (uint32_t i = 0; i < 3; i++)
        submit(world, 0, 400, 11 + i, 9, 1, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(step_world_step(world));
    assert_int_equal(world->step.followers, 3);
    assert_int_equal(world->step.sequences.order_count, 1);
    step_world_cancel(world, leader);
    step_world_run(world);
    assert_true(world->told[leader].report.finish == ENGINE_FINISH_CANCELLED);
    assert_int_equal(rows(world), 400 + 3 * 9);
    for (uint32_t i = 1; i <= 3; i++)
        assert_true(world->told[i].report.completion_tokens == 1);
    step_world_close(world);
}

/* Another who is behind the followers goes past them. */
static void test_others_pass_followers(void **state)
{
    (void)state;
    struct step_world *world = step_world_open(&ample);
    submit(world, 0, 100, 0, 0, 1, 1);
    uint32_t follower = submit(world, 0, 100, 0, 0, 1, 1);
    uint32_t stranger = submit(world, 0, 20, 0, 0, 1, 2); /* another domain follows nobody */
    assert_true(step_world_step(world));
    assert_true(step_world_step(world));
    assert_true(world->told[stranger].is_over);
    assert_false(world->told[follower].is_started);
    step_world_run(world);
    assert_true(world->told[follower].is_over);
    assert_int_equal(world->told[follower].report.cached_tokens, kept(99));
    assert_int_equal(world->told[stranger].report.cached_tokens, 0);
    step_world_close(world);
}

/* Who has waited for so many steps computes the prompt itself. */
static void test_the_wait_is_bounded(void **state)
{
    (void)state;
    for (uint32_t is_over = 0; is_over < 2; is_over++) {
        struct step_world *world = step_world_open(&ample);
        submit(world, 0, 100, 0, 0, 1, 1);
        uint32_t follower = submit(world, 0, 100, 0, 0, 1, 1);
        assert_true(step_world_step(world)); /* 64 rows of the leader */
        if (is_over == 1)
            world->tickets.slots[world->told[follower].slot].followed_steps = LIMIT_FILL_STEPS;
        assert_true(step_world_step(world)); /* 36 rows of the leader, 28 are left */
        assert_int_equal(world->told[follower].is_started, is_over);
        step_world_run(world);
        assert_true(world->told[follower].is_over);
        step_world_close(world);
    }
}

/* A reader who stopped, with three choices that share all their pages, does not shut the others
 * out: each of them alone would give back next to nothing. */
static void test_throttled_choices_give_way(void **state)
{
    (void)state;
    uint32_t tokens[STEP_WORLD_CONTEXT];
    struct step_world_options options = ample;
    options.pages = 32;
    struct step_world *world = step_world_open(&options);
    write_text(tokens, 0, 0, 360);
    struct engine_request request = step_world_request(tokens, 360, 100, 1);
    request.choices = 3;
    world->holds_acknowledgements = true;
    step_world_submit(world, &request);
    step_world_run(world); /* until all three are throttled */
    world->holds_acknowledgements = false;
    uint32_t other = submit(world, 1, 300, 0, 0, 2, 2);
    step_world_run(world);
    assert_true(world->told[other].is_over);
    assert_int_equal(world->told[other].report.completion_tokens, 2);
    step_world_close(world);
}

/* --- cancels --- */

/* Wherever they are cancelled, one step later nothing is held by anybody. */
static void test_cancel_anywhere(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 14; at++) {
        struct step_world_options options = ample;
        options.pages = at % 2 == 0 ? 512 : 36;
        options.host_pages = 8;
        struct step_world *world = step_world_open(&options);
        for (uint32_t i = 0; i < 8; i++)
            submit(world, i % 2, 150, 10 + i, 20, 20, (uint8_t)(i % 3));
        for (uint32_t i = 0; i < at; i++)
            step_world_step(world);
        for (uint32_t i = 0; i < 8; i++)
            step_world_cancel(world, i);
        step_world_step(world);
        assert_int_equal(world->step.sequences.order_count, 0);
        assert_int_equal(world->step.queue.all.count, 0);
        assert_int_equal(pages_active(world), 0);
        assert_int_equal(atomic_load(&world->tickets.free_count), world->tickets.count);
        assert_int_equal(prefix_cache_available(&world->step.cache), options.pages);
        step_world_close(world);
    }
}

/* --- who sees what --- */

static void test_two_domains_never_share(void **state)
{
    (void)state;
    struct step_world *world = step_world_open(&ample);
    uint32_t first = submit(world, 0, 200, 0, 0, 1, 1);
    step_world_run(world);
    uint32_t other = submit(world, 0, 200, 0, 0, 1, 2);
    uint32_t nobody = submit(world, 0, 200, 0, 0, 1, 0);
    uint32_t nobody_again = submit(world, 0, 200, 0, 0, 1, 0);
    step_world_run(world);
    uint32_t own = submit(world, 0, 200, 0, 0, 1, 1);
    step_world_run(world);
    assert_int_equal(world->told[first].report.cached_tokens, 0);
    assert_int_equal(world->told[other].report.cached_tokens, 0);
    assert_int_equal(world->told[nobody].report.cached_tokens, 0);
    assert_int_equal(world->told[nobody_again].report.cached_tokens, 0);
    assert_int_equal(world->told[own].report.cached_tokens, kept(199));
    assert_int_equal(world->told[own].report.cached_own, kept(199));
    assert_int_equal(rows(world), 4 * 200 + 200 - kept(199));
    step_world_close(world);
}

/* The next turn of a conversation finds the last one's answer too, to the token. */
static void test_next_turn(void **state)
{
    (void)state;
    uint32_t tokens[STEP_WORLD_CONTEXT];
    struct step_world *world = step_world_open(&ample);
    write_text(tokens, 0, 0, 90);
    struct engine_request request = step_world_request(tokens, 90, 20, 1);
    uint32_t told = step_world_submit(world, &request);
    step_world_run(world);
    memcpy(tokens + 90, world->told[told].answers[0].tokens, 20 * sizeof(tokens[0]));
    write_text(tokens, 7, 110, 30);
    request = step_world_request(tokens, 140, 1, 1);
    uint32_t next = step_world_submit(world, &request);
    step_world_run(world);
    /* The last was not computed. */
    assert_int_equal(world->told[next].report.cached_tokens, kept(109));
    step_world_close(world);
}

static void test_host_tier(void **state)
{
    (void)state;
    struct step_world_options options = ample;
    options.pages = 36;
    options.host_pages = 64;
    struct step_world *world = step_world_open(&options);
    uint32_t first = submit(world, 0, 200, 0, 0, 8, 1);
    step_world_run(world);
    for (uint32_t i = 0; i < 3; i++) {
        submit(world, 20 + i, 400, 0, 0, 1, 1);
        step_world_run(world);
    }
    uint32_t again = submit(world, 0, 200, 0, 0, 8, 1);
    step_world_run(world);
    assert_int_equal(world->told[again].report.cached_tokens, kept(199));
    assert_true(world->told[again].report.cached_host_tokens >= 6 * PAGE);
    assert_true(step_world_same(&world->told[first], &world->told[again]));
    struct prefix_figures figures;
    prefix_cache_figures(&world->step.cache, &figures);
    assert_true(figures.evicted_to_host > 0);
    assert_true(figures.returned_pages > 0);
    step_world_close(world);
}

/* --- published prompts --- */

static uint32_t publish(struct step_world *world, uint32_t text, uint32_t count, uint8_t domain)
{
    uint32_t tokens[STEP_WORLD_CONTEXT];
    write_text(tokens, text, 0, count);
    struct engine_request request = step_world_request(tokens, count, 0, domain);
    request.is_published = true;
    return step_world_submit(world, &request);
}

/* Reads published domain 9 from domain `domain`. */
static uint32_t read_published(struct step_world *world, uint32_t shared, uint32_t tokens_max,
                               uint8_t domain)
{
    uint32_t tokens[STEP_WORLD_CONTEXT];
    write_text(tokens, 0, 0, shared);
    write_text(tokens, 30u + domain, shared, 10);
    struct engine_request request = step_world_request(tokens, shared + 10, tokens_max, domain);
    request.visible[0] = step_world_domain(9);
    request.visible_count = 1;
    request.visible_public = 1;
    return step_world_submit(world, &request);
}

static void test_published_prompt(void **state)
{
    (void)state;
    struct step_world *world = step_world_open(&ample);
    uint32_t prompt = publish(world, 0, 300, 9);
    step_world_run(world);
    assert_int_equal(world->told[prompt].refusal.status, STATUS_OK);
    assert_int_equal(world->told[prompt].report.completion_tokens, 0);
    assert_int_equal(world->told[prompt].report.pinned_pages, pages_kept(300));
    assert_int_equal(world->step.pool.pinned_count, pages_kept(300));
    assert_int_equal(rows(world), 300);
    uint32_t readers[3];
    for (uint32_t i = 0; i < 3; i++)
        readers[i] = read_published(world, 300, i == 2 ? 60 : 1, (uint8_t)(1 + i));
    for (uint32_t i = 0; i < 5; i++)
        step_world_step(world);
    assert_int_equal(world->told[readers[0]].report.cached_public, kept(300));
    assert_int_equal(world->told[readers[1]].report.cached_public, kept(300));
    assert_false(world->told[readers[2]].is_over);

    /* Unpublished under a reader: it goes on, nobody else finds it, and then it is gone. */
    const struct engine_domain domain = step_world_domain(9);
    assert_true(ring_push(&world->step.unpublished, &domain));
    step_world_step(world);
    assert_int_equal(world->step.pool.pinned_count, 0);
    uint32_t late = read_published(world, 300, 1, 4);
    step_world_run(world);
    assert_int_equal(world->told[late].report.cached_tokens, 0);
    assert_int_equal(world->told[readers[2]].report.completion_tokens, 60);
    uint32_t again = read_published(world, 300, 60, 3);
    step_world_run(world);
    assert_true(step_world_same(&world->told[readers[2]], &world->told[again]));
    assert_int_equal(pages_active(world), 0);
    step_world_close(world);
}

/* Flooded by others, pinned pages stay. */
static void test_pins_stay(void **state)
{
    (void)state;
    struct step_world_options options = ample;
    options.pages = 64;
    struct step_world *world = step_world_open(&options);
    publish(world, 0, 300, 9);
    step_world_run(world);
    for (uint32_t i = 0; i < 6; i++)
        submit(world, 40 + i, 400, 0, 0, 1, 2);
    step_world_run(world);
    uint32_t reader = read_published(world, 300, 1, 1);
    step_world_run(world);
    assert_int_equal(world->told[reader].report.cached_public, kept(300));
    step_world_close(world);
}

static void test_pin_cap(void **state)
{
    (void)state;
    struct step_world_options options = ample;
    options.pages = 64; /* 32 are a full sequence, 50 % are 32 */
    struct step_world *world = step_world_open(&options);
    uint32_t fits = publish(world, 0, 300, 9);   /* 19 pages */
    uint32_t second = publish(world, 1, 300, 8); /* both at once: 38 */
    step_world_run(world);
    assert_int_equal(world->told[fits].report.pinned_pages, pages_kept(300));
    assert_int_equal(world->told[second].refusal.status, STATUS_LIMIT);
    assert_non_null(strstr(world->told[second].refusal.message, "32"));
    assert_false(world->told[second].is_started);
    assert_int_equal(rows(world), 300);
    /* Published, withdrawn before it ran: nothing is left of it. */
    publish(world, 2, 100, 7);
    const struct engine_domain domain = step_world_domain(7);
    step_world_step(world);
    assert_true(ring_push(&world->step.unpublished, &domain));
    step_world_run(world);
    assert_int_equal(world->step.pool.pinned_count, pages_kept(300));
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_same_bits, random_setup),
        cmocka_unit_test(test_same_bits_when_pages_are_short),
        cmocka_unit_test(test_sixteen_at_once),
        cmocka_unit_test(test_found_in_a_group),
        cmocka_unit_test(test_same_prompt_at_once),
        cmocka_unit_test(test_choices_follow_the_first),
        cmocka_unit_test(test_leader_is_cancelled),
        cmocka_unit_test(test_others_pass_followers),
        cmocka_unit_test(test_the_wait_is_bounded),
        cmocka_unit_test(test_throttled_choices_give_way),
        cmocka_unit_test(test_cancel_anywhere),
        cmocka_unit_test(test_two_domains_never_share),
        cmocka_unit_test(test_next_turn),
        cmocka_unit_test(test_host_tier),
        cmocka_unit_test(test_published_prompt),
        cmocka_unit_test(test_pins_stay),
        cmocka_unit_test(test_pin_cap),
    };
    int failed = cmocka_run_group_tests_name("f16", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_I8;
    if (rounds(0, 1) > 0) /* its pages are handled as those of f16 */
        failed += cmocka_run_group_tests_name("i8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V8;
    failed += cmocka_run_group_tests_name("k4v8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V4;
    if (rounds(0, 1) > 0) /* its pages are handled as those of k4v8 */
        failed += cmocka_run_group_tests_name("k4v4", tests, NULL, NULL);
    return failed;
}
