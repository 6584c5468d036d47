/* A model that several processes compute, as an engine of one: rank_lead and rank_follow with all
 * that stands between them. */
#include "engine/ranks/rank_follow.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/log.h"
#include "config/base/rng.h"
#include "engine/engine_show.h"
#include "engine/fleet.h"
#include "kernels/ranks.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/rank_group.h"

enum {
    PROMPT = 200,
    REQUESTS = 8,
    TYPE_F32 = 0,
    TYPE_F16 = 1,
    TYPE_Q4_1 = 3,
    TYPE_Q8_0 = 8,
    TYPE_Q4_K = 12
};

static uint32_t tokens[REQUESTS][PROMPT];
static struct engine_run_transcript alone[REQUESTS];
static struct engine_run_transcript split[REQUESTS];
static char model_path[64];

static int follow(struct ranks *ranks, void *context)
{
    const char *path = context;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 2;
    enum status status = rank_follow_run(ranks, descriptor);
    close(descriptor);
    return status == STATUS_OK ? 0 : 1;
}

/* An engine of `count` processes; 1 = no others. */
static struct engine *open_split(struct rank_group *group, uint32_t count,
                                 struct engine_options options)
{
    *group = (struct rank_group){0};
    if (count > 1)
        rank_group_fork(group, count, follow, model_path);
    options.ranks = group->ranks;
    options.model_path = model_path;
    return engine_run_open(&options);
}

static void close_split(struct rank_group *group, struct engine *engine)
{
    engine_close(engine);
    if (group->ranks != NULL)
        assert_int_equal(rank_group_end(group), 0);
}

static void make_model(const struct llama_shape *shape)
{
    engine_run_write_model(shape, model_path, sizeof model_path);
}

/* Prompts that begin alike, of all lengths, in one share domain. */
static struct engine_request request_of(uint32_t index, uint32_t tokens_max)
{
    const uint32_t count = index == 0 ? 1 : 20 * index + index % 3;
    for (uint32_t i = 0; i < count; i++)
        tokens[index][i] = (uint32_t)(rng_at(9, i < 33 ? 1 : index, i) % 256);
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = tokens[index],
                                   .token_count = count,
                                   .choices = 1,
                                   .tokens_max = tokens_max,
                                   .sampling = {.top_p = 1},
                                   .ignore_end = true,
                                   .want_logprobs = true,
                                   .top_logprobs = 2,
                                   .domain = {.bytes = {1}},
                                   .weight = 100};
}

static void run_some(struct engine *engine, struct engine_run_transcript *out, uint32_t requests,
                     uint32_t tokens_max)
{
    for (uint32_t i = 0; i < requests; i++) {
        const struct engine_request request = request_of(i, tokens_max);
        struct engine_run_transcript *one = &out[i];
        engine_run_submit(engine, &request, one);
        engine_run_finish(engine, &one, 1);
        assert_false(one->is_refused);
        assert_int_equal(one->choices[0].count, tokens_max);
    }
}

static void run_each(struct engine *engine, struct engine_run_transcript *out, uint32_t tokens_max)
{
    run_some(engine, out, REQUESTS, tokens_max);
}

/* Sums in another order: the same tokens, as long as the two best are further apart than what the
 * order may change. Returns the greatest difference of a log-probability. */
static double assert_close(const struct engine_run_choice *a, const struct engine_run_choice *b,
                           double most, uint32_t *compared)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct engine_run_token *x = &a->tokens[i];
        const struct engine_run_token *y = &b->tokens[i];
        if (x->token != y->token) {
            assert_true((double)(x->top[0].logprob - x->top[1].logprob) < 2 * most);
            break; /* another text from here on */
        }
        double difference = fabs((double)x->logprob - (double)y->logprob);
        worst = difference > worst ? difference : worst;
        *compared += 1;
    }
    assert_true(worst < most);
    return worst;
}

/* How compare_file compares the model of `model_path`. */
struct comparison {
    const char *what;
    const char *isa;
    const char *weights;
    uint32_t ranks;
    uint32_t requests;
    bool has_whole_experts;
    double most;
};

static void compare_file(const struct comparison *how)
{
    enum { TOKENS = 40 };
    struct rank_group group;
    struct engine_options options = engine_run_options();
    uint32_t compared = 0;
    double worst = 0;
    options.isa = how->isa;
    options.weights = how->weights;
    options.kv_bytes = 64 << 20;
    options.has_whole_experts = how->has_whole_experts;
    struct engine *engine = open_split(&group, 1, options);
    run_some(engine, alone, how->requests, TOKENS);
    close_split(&group, engine);
    engine = open_split(&group, how->ranks, options);
    run_some(engine, split, how->requests, TOKENS);
    close_split(&group, engine);
    for (uint32_t i = 0; i < how->requests; i++) {
        double one = assert_close(&alone[i].choices[0], &split[i].choices[0], how->most, &compared);
        worst = one > worst ? one : worst;
    }
    print_message("%s, %s, %u ranks: %u of %d tokens as of one process before another was as "
                  "likely, log-probabilities within %.1e\n",
                  how->what, how->isa, how->ranks, compared, how->requests * TOKENS, worst);
    assert_true(compared >= how->requests * TOKENS / 2);
}

static void compare_with_one(const struct llama_shape *shape, const char *isa, const char *weights,
                             uint32_t count, double most)
{
    char what[32];
    snprintf(what, sizeof what, "type %u", shape->type);
    make_model(shape);
    compare_file(&(struct comparison){what, isa, weights, count, REQUESTS, false, most});
    unlink(model_path);
}

static void make_tiny(const char *name)
{
    engine_run_tiny = name;
    engine_run_kv_heads = 2; /* some rows have one, which two ranks cannot divide */
    snprintf(model_path, sizeof model_path, "%s", engine_run_make_model());
}

static void remove_tiny(void)
{
    engine_run_remove_model();
    engine_run_tiny = NULL;
    engine_run_kv_heads = 0;
}

/* Every row that ranks can divide, but for llama's plain one: biases of queries and of summed
 * results, norms per head, joined tensors of which each rank reads rows of several parts, results
 * that are normed before they are added, two windows, sinks. Of experts each rank has a part of
 * all, or all of some. */
static void test_other_architectures_as_one_process(void **state)
{
    (void)state;
    enum { FEW = 4 }; /* requests; the longest prompt is four times as long as a window */
    static const struct {
        const char *name;
        bool has_experts;
    } rows[] = {{"qwen2", false},   {"qwen3", false},      {"gemma", false},
                {"gemma2", false},  {"gemma3", false},     {"phi3_long", false},
                {"smollm3", false}, {"starcoder2", false}, {"mixtral", true},
                {"qwen3moe", true}, {"gpt_oss", true},     {"gpt_oss_mxfp4", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make_tiny(rows[i].name);
        struct comparison how = {rows[i].name, "ref", "file", 2, FEW, false, 1e-3};
        compare_file(&how);
        how.has_whole_experts = true;
        if (rows[i].has_experts)
            compare_file(&how);
        remove_tiny();
    }
}

static void test_greedy_as_one_process(void **state)
{
    (void)state;
    struct llama_shape shape = engine_run_shape();
    /* Plain float sums differ in their order alone. */
    compare_with_one(&shape, "ref", "file", 2, 1e-4);
    /* Inputs are rounded to 8 bits: a sum that is another by its last bit may round to another
     * code, which is 1/254 of its block's greatest. */
    compare_with_one(&shape, "ref_int8", "file", 2, 0.05);
    shape.type = TYPE_Q4_1;
    shape.has_own_output = true;
    compare_with_one(&shape, "auto", "file", 2, 0.05);
    shape.heads = shape.kv_heads = 4;
    shape.hidden = 160; /* five blocks over four ranks */
    shape.type = TYPE_Q8_0;
    compare_with_one(&shape, "auto", "file", 4, 0.05);
    shape.width = 256;
    shape.heads = 8;
    shape.kv_heads = 2;
    shape.head_dim = 64;
    shape.hidden = 768;
    shape.type = TYPE_Q4_K;
    compare_with_one(&shape, "auto", "file", 2, 0.05);
    shape.type = TYPE_F16; /* cut at groups of 128: the codes of one process */
    compare_with_one(&shape, "ref", "int4", 2, 1e-4);
    compare_with_one(&shape, "ref", "q8", 2, 1e-4);
}

/* Whatever is shared, moved to host memory or computed again, and by how many threads: the bits of
 * an undisturbed run of the same ranks, in a pool of that many units. */
static void check_pressure(uint32_t units, uint64_t unit_bytes)
{
    enum { TOKENS = 110, ROUNDS_MAX = 20 };
    struct rank_group group;
    struct engine_stats stats = {0};
    struct engine_run_transcript *all[REQUESTS];
    struct engine_options options = engine_run_options();
    options.page_tokens = 16;
    options.no_prefix_cache = true;
    struct engine *engine = open_split(&group, 2, options);
    run_each(engine, alone, TOKENS);
    close_split(&group, engine);

    options.no_prefix_cache = false;
    options.context = 320;
    options.kv_bytes = units * unit_bytes;
    options.kv_host_bytes = 40 * unit_bytes;
    options.preemption = ENGINE_PREEMPTION_SWAP;
    options.threads = 4; /* two each */
    engine = open_split(&group, 2, options);
    engine_stats(engine, &stats);
    assert_int_equal(stats.pages_total, units);
    for (uint32_t round = 0; round < ROUNDS_MAX && (round == 0 || stats.swap_bytes_in == 0);
         round++) {
        for (uint32_t i = 0; i < REQUESTS; i++) {
            struct engine_request request = request_of(i, TOKENS);
            request.service_class = (enum service_class)(i % SERVICE_CLASS_COUNT);
            all[i] = &split[i];
            engine_run_submit(engine, &request, all[i]);
        }
        engine_run_finish(engine, all, REQUESTS);
        for (uint32_t i = 0; i < REQUESTS; i++)
            assert_true(engine_run_same(&alone[i], &split[i]));
        engine_stats(engine, &stats);
    }
    print_message("%llu pauses by swap, %llu to be computed again, %llu tokens found\n",
                  (unsigned long long)stats.preemptions_swap,
                  (unsigned long long)stats.preemptions_recompute,
                  (unsigned long long)stats.cache_hit_tokens);
    assert_true(stats.preemptions_swap > 0);
    assert_true(stats.swap_bytes_in > 0);
    assert_int_equal(stats.swap_bytes_in % unit_bytes, 0); /* of both ranks */
    assert_true(stats.cache_hit_tokens > 0);
    close_split(&group, engine);
}

static void test_equal_bits_under_pressure(void **state)
{
    (void)state;
    const struct llama_shape shape = engine_run_shape();
    make_model(&shape);
    check_pressure(24, engine_run_options().kv_bytes / 128);
    unlink(model_path);
}

/* The same with window units: a layer in six reads all keys, or one in two. */
static void test_equal_bits_of_two_kinds_under_pressure(void **state)
{
    (void)state;
    enum { UNIT_BYTES = 16 * 2 * 2 * 32 * 2 }; /* a layer, two heads, K and V, f16 */
    make_tiny("gemma3");
    check_pressure(20 + 7 * 6, UNIT_BYTES);
    remove_tiny();
    make_tiny("gpt_oss");
    check_pressure(20 + 7, UNIT_BYTES);
    remove_tiny();
}

/* Keys that are not packed yet lie beside the pages, in each rank its own heads'. */
static void check_open_groups(const char *kv_type)
{
    enum { TOKENS = 60 };
    const struct llama_shape shape = engine_run_shape();
    make_model(&shape);
    for (uint32_t pass = 0; pass < 2; pass++) {
        struct rank_group group;
        struct engine_options options = engine_run_options();
        options.kv_type = kv_type;
        options.isa = "auto";
        options.speculation = pass == 0 ? ENGINE_SPECULATION_OFF : ENGINE_SPECULATION_LOOKUP;
        struct engine *engine = open_split(&group, 2, options);
        run_each(engine, pass == 0 ? alone : split, TOKENS);
        close_split(&group, engine);
    }
    for (uint32_t i = 0; i < REQUESTS; i++)
        assert_true(engine_run_same(&alone[i], &split[i]));
    unlink(model_path);
}

static void test_open_groups_and_guesses(void **state)
{
    (void)state;
    check_open_groups("k4v8");
    check_open_groups("k4v4");
}

/* The log says which engine has failed; it goes to stderr from here on. */
static void assert_failed_line(FILE *log_file, uint32_t engine)
{
    char line[1024] = "";
    char part[32];
    log_open(STDERR_FILENO, LOG_INFO, "unit");
    rewind(log_file);
    while (strstr(line, "\"engine_failed\"") == NULL)
        assert_non_null(fgets(line, sizeof line, log_file));
    snprintf(part, sizeof part, "\"engine\":%u,", engine);
    assert_non_null(strstr(line, part));
    assert_non_null(strstr(line, "a process that computes with this one has ended"));
    fclose(log_file);
}

static void test_a_rank_that_dies_ends_the_engine(void **state)
{
    (void)state;
    struct rank_group group;
    const struct llama_shape shape = engine_run_shape();
    make_model(&shape);
    struct engine_options options = engine_run_options();
    options.index = 3; /* among several: its log says which */
    struct engine *engine = open_split(&group, 2, options);
    struct engine_run_transcript *all[2] = {&split[0], &split[1]};
    FILE *log_file = tmpfile();
    log_open(fileno(log_file), LOG_ERROR, "unit");
    const struct engine_request request = request_of(1, 400);
    all[0]->holds_acknowledgements = true; /* it does not end before the rank does */
    engine_run_submit(engine, &request, all[0]);
    while (all[0]->choices[0].count < 3) {
        engine_run_take(engine);
        usleep(100);
    }
    assert_false(engine_has_failed(engine));
    assert_int_equal(kill(group.pids[1], SIGKILL), 0);
    while (ranks_live(group.ranks))
        usleep(100);
    all[0]->holds_acknowledgements = false;
    engine_run_acknowledge(engine, all[0]);
    engine_run_finish(engine, all, 1);
    assert_int_equal(all[0]->choices[0].finish, ENGINE_FINISH_ERROR);
    assert_true(engine_has_failed(engine));
    assert_failed_line(log_file, 3);
    engine_run_submit(engine, &request, all[1]); /* nobody waits for what cannot come */
    engine_run_finish(engine, &all[1], 1);
    assert_true(all[1]->is_refused);
    assert_int_equal(all[1]->note.status, STATUS_UNAVAILABLE);
    engine_close(engine);
    assert_int_equal(rank_group_end(&group), 128);
    unlink(model_path);
}

static void test_a_rank_that_stands_still_ends_the_engine(void **state)
{
    (void)state;
    struct rank_group group;
    const struct llama_shape shape = engine_run_shape();
    const struct engine_request request = request_of(1, 400);
    struct engine_run_transcript *all[2] = {&split[0], &split[1]};
    int status = 0;
    make_model(&shape);
    struct engine *engine = open_split(&group, 2, engine_run_options());
    all[0]->holds_acknowledgements = true; /* it does not end before the rank does */
    engine_run_submit(engine, &request, all[0]);
    while (all[0]->choices[0].count < 3) {
        engine_run_take(engine);
        usleep(100);
    }
    assert_int_equal(kill(group.pids[1], SIGSTOP), 0);
    assert_int_equal(waitpid(group.pids[1], &status, WUNTRACED), group.pids[1]);
    ranks_set_wait(group.ranks, 300);
    all[0]->holds_acknowledgements = false;
    engine_run_acknowledge(engine, all[0]);
    engine_run_finish(engine, all, 1);
    assert_int_equal(all[0]->choices[0].finish, ENGINE_FINISH_ERROR);
    assert_true(engine_has_failed(engine));
    engine_run_submit(engine, &request, all[1]); /* and nobody waits once more */
    engine_run_finish(engine, &all[1], 1);
    assert_int_equal(all[1]->note.status, STATUS_UNAVAILABLE);
    engine_close(engine);
    assert_int_equal(kill(group.pids[1], SIGKILL), 0);
    assert_int_equal(rank_group_end(&group), 128);
    unlink(model_path);
}

/* --- several engines, each with ranks of its own --- */

struct told {
    engine_request_id id;
    uint32_t unsaid; /* tokens that are not acknowledged yet */
    uint32_t count;
    struct engine_run_token tokens[ENGINE_RUN_TOKENS];
    bool is_over;
    enum engine_finish finish;
};

static struct ranks *forked_before;

/* Else the first engine's ranks would see its end only when these have ended. */
static int follow_second(struct ranks *ranks, void *context)
{
    ranks_destroy(forked_before);
    return follow(ranks, context);
}

static void fork_two(struct rank_group *groups)
{
    rank_group_fork(&groups[0], 2, follow, model_path);
    forked_before = groups[0].ranks;
    rank_group_fork(&groups[1], 2, follow_second, model_path);
}

static void tell(struct fleet *fleet, struct told *told, uint32_t index, uint32_t tokens_max)
{
    struct engine_request request = request_of(index, tokens_max);
    *told = (struct told){0};
    request.context = told;
    assert_int_equal(fleet_submit(fleet, &request, &told->id), STATUS_OK);
}

/* Takes what waits; `is_read`: all of it is acknowledged. */
static void hear(struct fleet *fleet, bool is_read)
{
    struct engine_event event;
    while (fleet_next_event(fleet, &event)) {
        struct told *told = event.context;
        if (event.kind == ENGINE_EVENT_TOKEN) {
            told->tokens[told->count++] =
                (struct engine_run_token){.token = event.token, .logprob = event.logprob};
            told->unsaid++;
        }
        told->is_over = event.kind == ENGINE_EVENT_END || event.kind == ENGINE_EVENT_ERROR;
        if (event.kind == ENGINE_EVENT_CHOICE_END)
            told->finish = event.finish;
        if (is_read && told->unsaid > 0) {
            fleet_acknowledge(fleet, told->id, 0, told->unsaid);
            told->unsaid = 0;
        }
    }
}

static void hear_until_over(struct fleet *fleet, struct told *told, uint32_t count)
{
    for (uint32_t naps = 0, over = 0; over < count; naps++) {
        assert_true(naps < 600000); /* a minute */
        hear(fleet, true);
        over = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (told[i].unsaid > 0)
                fleet_acknowledge(fleet, told[i].id, 0, told[i].unsaid);
            told[i].unsaid = 0;
            over += told[i].is_over;
        }
        usleep(100);
    }
}

static uint32_t engine_of(const struct told *told)
{
    return (uint32_t)told->id >> 24;
}

static void test_two_engines_of_two_ranks(void **state)
{
    (void)state;
    enum { TOKENS = 40 };
    static struct told told[REQUESTS];
    struct rank_group one;
    struct rank_group groups[2];
    struct fleet *fleet = NULL;
    struct engine_info info;
    const struct llama_shape shape = engine_run_shape();
    struct engine_options options = engine_run_options();
    uint32_t of_each[2] = {0};
    make_model(&shape);
    struct engine *engine = open_split(&one, 2, options);
    run_each(engine, alone, TOKENS);
    close_split(&one, engine);
    fork_two(groups);
    options.model_path = model_path;
    assert_int_equal(
        fleet_open(&fleet, &options, (struct ranks *[]){groups[0].ranks, groups[1].ranks}, 2),
        STATUS_OK);
    fleet_info(fleet, &info);
    assert_int_equal(info.ranks, 2);
    for (uint32_t i = 0; i < REQUESTS; i++)
        tell(fleet, &told[i], i, TOKENS);
    hear_until_over(fleet, told, REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        of_each[engine_of(&told[i])]++;
        assert_int_equal(told[i].count, TOKENS);
        for (uint32_t k = 0; k < TOKENS; k++) { /* the bits of one such engine */
            const struct engine_run_token *same = &alone[i].choices[0].tokens[k];
            assert_int_equal(told[i].tokens[k].token, same->token);
            assert_memory_equal(&told[i].tokens[k].logprob, &same->logprob, sizeof same->logprob);
        }
    }
    assert_true(of_each[0] > 0 && of_each[1] > 0);
    fleet_close(fleet);
    assert_int_equal(rank_group_end(&groups[0]), 0);
    assert_int_equal(rank_group_end(&groups[1]), 0);
    unlink(model_path);
}

static void test_a_rank_is_of_its_engine_alone(void **state)
{
    (void)state;
    enum { ASKED = 4, TOKENS = 300 };
    static struct told told[ASKED];
    struct rank_group groups[2];
    struct fleet *fleet = NULL;
    const struct llama_shape shape = engine_run_shape();
    struct engine_options options = engine_run_options();
    FILE *log_file = tmpfile();
    uint32_t lost = 0;
    make_model(&shape);
    fork_two(groups);
    options.model_path = model_path;
    assert_int_equal(
        fleet_open(&fleet, &options, (struct ranks *[]){groups[0].ranks, groups[1].ranks}, 2),
        STATUS_OK);
    log_open(fileno(log_file), LOG_ERROR, "unit");
    for (uint32_t i = 0; i < ASKED; i++)
        tell(fleet, &told[i], 0, TOKENS);
    for (uint32_t i = 0; i < ASKED; i++)
        while (told[i].count == 0) {
            hear(fleet, false); /* nobody ends before the rank does */
            usleep(100);
        }
    assert_false(fleet_has_failed(fleet));
    assert_int_equal(kill(groups[1].pids[1], SIGKILL), 0);
    while (ranks_live(groups[1].ranks))
        usleep(100);
    assert_true(ranks_live(groups[0].ranks));
    hear_until_over(fleet, told, ASKED);
    assert_true(fleet_has_failed(fleet));
    for (uint32_t i = 0; i < ASKED; i++) {
        const bool is_lost = engine_of(&told[i]) == 1;
        lost += is_lost;
        assert_int_equal(told[i].finish, is_lost ? ENGINE_FINISH_ERROR : ENGINE_FINISH_LENGTH);
        assert_true(is_lost || told[i].count == TOKENS);
    }
    assert_int_equal(lost, ASKED / 2); /* the least load decides */
    assert_failed_line(log_file, 1);
    fleet_close(fleet);
    assert_int_equal(rank_group_end(&groups[0]), 0);
    assert_int_equal(rank_group_end(&groups[1]), 128);
    unlink(model_path);
}

static void test_what_cannot_start_is_said(void **state)
{
    (void)state;
    struct rank_group group;
    struct engine *engine = NULL;
    const struct llama_shape shape = engine_run_shape();
    struct engine_options options = engine_run_options();
    make_model(&shape);
    options.model_path = model_path;
    rank_group_fork(&group, 4, follow, model_path);
    options.ranks = group.ranks;
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->message,
                        "tensor parallel: 2 key-value heads do not divide by 4 ranks");
    assert_int_equal(rank_group_end(&group), 0);

    unlink(model_path);
    make_tiny("olmo2");
    options.model_path = model_path;
    rank_group_fork(&group, 2, follow, model_path);
    options.ranks = group.ranks;
    assert_int_equal(engine_open(&engine, &options), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->message,
                        "tensor parallel: architecture olmo2 norms queries and keys over all heads "
                        "together, which ranks cannot divide");
    assert_int_equal(rank_group_end(&group), 0);
    remove_tiny();

    make_model(&shape);
    options.model_path = model_path;
    char nothing[] = "/dev/null"; /* the others read another file than rank 0 */
    rank_group_fork(&group, 2, follow, nothing);
    options.ranks = group.ranks;
    assert_int_not_equal(engine_open(&engine, &options), STATUS_OK);
    assert_memory_equal(status_note()->message, "rank 1: ", 8);
    assert_int_equal(rank_group_end(&group), 1);
    unlink(model_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_as_one_process),
        cmocka_unit_test(test_other_architectures_as_one_process),
        cmocka_unit_test(test_equal_bits_under_pressure),
        cmocka_unit_test(test_equal_bits_of_two_kinds_under_pressure),
        cmocka_unit_test(test_open_groups_and_guesses),
        cmocka_unit_test(test_a_rank_that_dies_ends_the_engine),
        cmocka_unit_test(test_a_rank_that_stands_still_ends_the_engine),
        cmocka_unit_test(test_two_engines_of_two_ranks),
        cmocka_unit_test(test_a_rank_is_of_its_engine_alone),
        cmocka_unit_test(test_what_cannot_start_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
