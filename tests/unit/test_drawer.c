/* What a drawer asks of a device, over one that draws greedily on the processor. Tokens by
 * samplers: test_step_choose. */
#include "engine/sampling/drawer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "kernels/cpu/ops/ops.h"
#include "tests/unit/kernels_kit.h"

enum { VOCAB = 50, ROWS = 12, GENERATED = 40, STEPS = 600, GUESSES = 3, PROMPT = 9, BANS = 4 };

/* Rows of texts below this number are banned tokens while they are short. */
enum { BANNED_TEXTS = 5, BANNED_TOKENS = 30 };

static struct {
    uint32_t calls;
    uint32_t draws;
    uint32_t changes;
    struct draw_adjust *adjusts; /* [adjusts_max] of the last drawer created */
    uint32_t adjusts_max;
    bool is_lost;
} fake;

static enum status fake_create(struct kernels *kernels, struct kernels_drawer **out, uint32_t vocab,
                               uint32_t adjusts_max)
{
    (void)vocab;
    free(fake.adjusts);
    fake.adjusts = malloc(adjusts_max * sizeof *fake.adjusts);
    assert_non_null(fake.adjusts);
    memset(fake.adjusts, 0xff, adjusts_max * sizeof *fake.adjusts);
    fake.adjusts_max = adjusts_max;
    *out = (struct kernels_drawer *)kernels; /* anything but NULL */
    return STATUS_OK;
}

static void fake_destroy(struct kernels *kernels, struct kernels_drawer *drawer)
{
    (void)kernels;
    (void)drawer;
}

static uint32_t fake_greatest(const struct draw_args *args, const struct draw *draw)
{
    float values[VOCAB];
    uint32_t best = 0;
    memcpy(values, args->logits + draw->row * VOCAB, sizeof values);
    uint32_t counts[VOCAB] = {0};
    bool is_of_prompt[VOCAB] = {0};
    const struct draw_adjust *bans = &fake.adjusts[draw->adjust_first];
    const struct draw_adjust *biases = bans + draw->ban_count;
    const struct draw_adjust *prompt = biases + draw->bias_count;
    const struct draw_adjust *generated = prompt + draw->prompt_count;
    for (const struct draw_adjust *at = bans; at < generated + draw->generated_count; at++)
        assert_in_range(at->token, 0, VOCAB - 1);
    for (uint32_t i = 0; i < draw->prompt_count; i++)
        is_of_prompt[prompt[i].token] = true;
    for (uint32_t i = 0; i < draw->generated_count; i++)
        counts[generated[i].token]++;
    for (uint32_t i = 0; i < VOCAB; i++)
        if (is_of_prompt[i] || counts[i] > 0)
            values[i] = values[i] > 0 ? values[i] / draw->repetition_penalty
                                      : values[i] * draw->repetition_penalty;
    for (uint32_t i = 0; i < draw->bias_count; i++)
        values[biases[i].token] += biases[i].bias;
    for (uint32_t i = 0; i < VOCAB; i++)
        if (counts[i] > 0)
            values[i] -= draw->presence_penalty + draw->frequency_penalty * (float)counts[i];
    for (uint32_t i = 0; i < draw->ban_count; i++)
        values[bans[i].token] = -INFINITY;
    for (uint32_t i = 1; i < VOCAB; i++)
        best = values[i] > values[best] ? i : best;
    return best;
}

static enum status fake_draw(struct kernels *kernels, struct kernels_drawer *drawer,
                             const struct draw_args *args)
{
    (void)kernels;
    (void)drawer;
    fake.calls++;
    fake.draws += args->count;
    fake.changes += args->change_count;
    for (uint32_t i = 0; i < args->change_count; i++) {
        assert_in_range(args->changes[i].place, 0, fake.adjusts_max - 1);
        fake.adjusts[args->changes[i].place] = args->changes[i].adjust;
    }
    for (uint32_t i = 0; i < args->count; i++) {
        const struct draw *draw = &args->draws[i];
        args->out[draw->row] = (struct draw_result){
            .token = draw->kind == DRAW_TELL ? draw->token : fake_greatest(args, draw),
            .logprob = (float)draw->stream,
            .top_count = draw->top_count,
            .top = {{draw->row, -1}, {draw->kind, -2}}};
    }
    return fake.is_lost ? STATUS_UNAVAILABLE : STATUS_OK;
}

struct bed {
    struct kernels *kernels;
    struct kernels_ops ops;
    struct drawer drawer;
    struct rng rng;
    float logits[ROWS * VOCAB];
    uint32_t generated[STEPS + GUESSES];
    uint32_t prompt[PROMPT];
    uint32_t bans[BANS];
    struct engine_sampling sampling[ROWS];
};

static int setup(void **state)
{
    struct bed *bed = mem_zalloc(1, sizeof *bed);
    assert_non_null(bed);
    bed->kernels = kit_kernels("ref", 2, 1, 32);
    bed->rng.seed = 3;
    bed->ops = *bed->kernels->ops;
    bed->ops.drawer_create = fake_create;
    bed->ops.drawer_destroy = fake_destroy;
    bed->ops.draw = fake_draw;
    bed->kernels->ops = &bed->ops;
    assert_int_equal(drawer_init(&bed->drawer, bed->kernels, VOCAB, ROWS, ROWS, STEPS + GUESSES),
                     STATUS_OK);
    for (uint32_t i = 0; i < ROWS * VOCAB; i++)
        bed->logits[i] = (float)rng_below(&bed->rng, 1000) / 100;
    for (uint32_t i = 0; i < STEPS + GUESSES; i++)
        bed->generated[i] = (uint32_t)rng_below(&bed->rng, VOCAB);
    for (uint32_t i = 0; i < PROMPT; i++)
        bed->prompt[i] = (uint32_t)rng_below(&bed->rng, VOCAB);
    for (uint32_t i = 0; i < BANS; i++) /* some twice, and some with a bias, too */
        bed->bans[i] = (bed->generated[0] + i % 3) % VOCAB;
    fake.calls = fake.draws = fake.changes = 0;
    fake.is_lost = false;
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    drawer_deinit(&bed->drawer);
    kernels_destroy(bed->kernels);
    mem_free(bed);
    free(fake.adjusts);
    memset(&fake, 0, sizeof fake);
    return 0;
}

/* Greedy, with penalties in two rows of three and biases in every other. */
static struct engine_sampling *row_sampling(struct bed *bed, uint32_t row)
{
    struct engine_sampling *sampling = &bed->sampling[row];
    *sampling = (struct engine_sampling){.top_p = 1, .seed = row};
    if (row % 3 > 0) {
        sampling->presence_penalty = 0.3f * (float)row;
        sampling->frequency_penalty = 0.7f;
    }
    if (row % 3 == 2) /* the same rows have penalties */
        sampling->repetition_penalty = 1.5F;
    for (uint32_t i = 0; row % 2 == 0 && i < 5; i++)
        sampling->bias[sampling->bias_count++] =
            (struct engine_bias){bed->generated[0] + i < VOCAB ? bed->generated[0] + i : i, 2};
    return sampling;
}

/* A row of a text with so many tokens, the last `guesses` of them guesses; texts of other tokens
 * than before have another serial. */
static void ask_text(struct bed *bed, uint32_t row, uint32_t text, uint64_t serial, uint32_t count,
                     uint32_t guesses)
{
    drawer_ask(
        &bed->drawer,
        &(struct drawer_ask){.args = {.sampling = row_sampling(bed, text),
                                      .choice = 1,
                                      .position = row,
                                      .prompt = bed->prompt,
                                      .prompt_count = PROMPT,
                                      .generated = bed->generated,
                                      .generated_count = count,
                                      .bans = bed->bans,
                                      .ban_count = text < BANNED_TEXTS ? BANS : 0,
                                      .is_banned = text < BANNED_TEXTS && count < BANNED_TOKENS},
                             .text = text,
                             .serial = serial,
                             .sure = count - guesses,
                             .row = row,
                             .kind = DRAW_CHOOSE});
}

static void ask_row(struct bed *bed, uint32_t row)
{
    ask_text(bed, row, row, row + 1, GENERATED, 0);
}

static void read_all(struct bed *bed)
{
    assert_int_equal(drawer_read(&bed->drawer, bed->logits, ROWS), STATUS_OK);
    drawer_run(&bed->drawer);
}

static void check_tokens(struct bed *bed)
{
    struct sampler sampler;
    struct logits_stats stats[ROWS];
    assert_int_equal(sampler_init(&sampler, bed->kernels, VOCAB), STATUS_OK);
    kernels_logits_stats(bed->kernels, bed->logits, ROWS, VOCAB, stats);
    for (uint32_t row = 0; row < ROWS; row++) {
        struct sampler_args args = bed->drawer.asks[row].args;
        float logprob;
        args.logits = bed->logits + row * VOCAB;
        args.stats = &stats[row];
        const uint32_t token = bed->drawer.tokens[row];
        assert_int_equal(token, sampler_choose(&sampler, &args));
        assert_int_equal(drawer_told(&bed->drawer, row, token, 0, &logprob, NULL), 0);
        assert_true(logprob == (float)rng_stream(args.sampling->seed, (uint64_t)row << 8 | 1));
    }
    sampler_deinit(&sampler);
}

static void test_tokens(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(bed->drawer.sampler_count, 0);
    for (int pass = 0; pass < 2; pass++) {
        drawer_begin(&bed->drawer);
        for (uint32_t row = 0; row < ROWS; row++)
            ask_row(bed, row);
        read_all(bed);
        check_tokens(bed);
        assert_int_equal(fake.calls, pass + 1);
    }
}

/* However long texts are, a step sends what is new of them: one token a text with penalties, and in
 * the sum as much again, twice, where a list outgrows its room. */
static void test_steps(void **state)
{
    struct bed *bed = *state;
    const uint32_t penalised = ROWS / 3 * 2;
    uint32_t steps_of_one = 0;
    for (uint32_t count = 1; count <= STEPS; count++) {
        const uint32_t before = fake.changes;
        drawer_begin(&bed->drawer);
        for (uint32_t row = 0; row < ROWS; row++)
            ask_text(bed, row, row, row + 1, count, 0);
        read_all(bed);
        check_tokens(bed);
        steps_of_one += fake.changes - before == penalised;
    }
    assert_in_range(fake.changes, penalised * STEPS,
                    3 * penalised * STEPS + (20 + PROMPT + BANS) * 2 * ROWS);
    assert_in_range(steps_of_one, STEPS - 50, STEPS);
    assert_int_equal(fake.calls, STEPS);
}

/* A text's guesses are seen by the rows behind them; where they were wrong others take their
 * places. Then another text has its number. */
static void test_guesses(void **state)
{
    struct bed *bed = *state;
    for (uint32_t count = 1; count <= STEPS; count++) {
        drawer_begin(&bed->drawer);
        for (uint32_t guesses = 0; guesses < GUESSES; guesses++)
            bed->generated[count + guesses] = (uint32_t)rng_below(&bed->rng, VOCAB);
        for (uint32_t row = 0; row < ROWS; row++) {
            const uint32_t text = row / (GUESSES + 1) + 1;
            const uint32_t guesses = row % (GUESSES + 1);
            ask_text(bed, row, text, text, count + guesses, guesses);
        }
        read_all(bed);
        check_tokens(bed);
    }
    bed->generated[0] = (bed->generated[0] + 1) % VOCAB;
    drawer_begin(&bed->drawer);
    for (uint32_t row = 0; row < ROWS; row++)
        ask_text(bed, row, row, row + 1000, STEPS, 0);
    read_all(bed);
    check_tokens(bed);
}

/* Where adjusts have little room it takes more calls, and no row is drawn twice. */
static void test_little_room(void **state)
{
    struct bed *bed = *state;
    bed->drawer.adjusts_max = GENERATED + 5 + PROMPT + BANS;
    for (uint32_t pass = 1; pass <= 3; pass++) {
        drawer_begin(&bed->drawer);
        for (uint32_t row = 0; row < ROWS; row++)
            ask_row(bed, row);
        read_all(bed);
        check_tokens(bed);
        assert_int_equal(fake.draws, pass * ROWS);
        assert_in_range(fake.calls, pass * 2, pass * ROWS);
    }
}

static void test_told(void **state)
{
    struct bed *bed = *state;
    struct engine_logprob top[LIMIT_LOGPROBS];
    float logprob;
    drawer_ask(&bed->drawer,
               &(struct drawer_ask){.row = 4, .kind = DRAW_TELL, .token = 9, .top_count = 2});
    assert_int_equal(drawer_read(&bed->drawer, bed->logits, ROWS), STATUS_OK);
    assert_int_equal(drawer_told(&bed->drawer, 4, 9, 2, &logprob, top), 2);
    assert_int_equal(top[0].token, 4);
    assert_int_equal(top[1].token, DRAW_TELL);
    assert_true(top[1].logprob == -2);
}

/* A pass without rows is awaited too. */
static void test_lost(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(drawer_read(&bed->drawer, bed->logits, 0), STATUS_OK);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(drawer_read(&bed->drawer, NULL, 0), STATUS_UNAVAILABLE);
    fake.is_lost = true;
    assert_int_equal(drawer_read(&bed->drawer, bed->logits, 0), STATUS_UNAVAILABLE);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static int enough_memory(struct kernels *kernels)
{
    int allowed = 0;
    for (enum status status = STATUS_NO_MEMORY; status != STATUS_OK; allowed++) {
        struct drawer drawer;
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = drawer_init(&drawer, kernels, 8, 4, 2, 16);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        drawer_deinit(&drawer);
    }
    return allowed - 1;
}

static void test_no_memory(void **state)
{
    struct bed *bed = *state;
    assert_int_equal(enough_memory(bed->kernels), 4 + 3);
    bed->kernels->ops = &cpu_ops;
    assert_int_equal(enough_memory(bed->kernels), 4 + 2 * 5); /* two samplers of five arrays */
    bed->kernels->ops = &bed->ops;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_guesses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_little_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
