/* gpu_engine: whole engines on a device. They must produce the tokens of `ref` where these are
 * clear, and equal bits beside any other requests, preempted or not, from the cache or not. Some
 * answers are constrained, and must have the bytes that their grammar allows. On the
 * processor (tests/kit/simt), where a device can be lost at any call, it also checks what happens
 * to requests then.
 *
 * usage: gpu_engine [--large | --errors | FILE…]      ends with 77 without a device --errors: only
 * the message of too little memory. FILE: only the greedy tokens of a model (gpu_shape) through the
 * engine on both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/rng.h"
#include "engine/engine_show.h"
#include "kernels/kernels.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_device.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/step_schedule.h"

#if BANYAN_SIMT
#include "tests/kit/simt/simt.h"
#endif

enum { REQUESTS = 6, AT_ONCE = 4, WAIT_US = 30000000, NAP_US = 1000 };

/* Bound of log-probabilities: halves where `ref` has floats, over two layers of width 64. */
static const float LOGPROB_BOUND = 0.05f;

static bool is_large;

static uint32_t prompts[REQUESTS][STEP_WORLD_CONTEXT];

/* Those that sample with a temperature or penalties, which `ref` does not judge. */
static bool is_constrained(uint32_t index)
{
    return index % 2 == 1;
}

/* Makes a request from one of two texts, cut anywhere and continued, so that some share pages. */
static struct engine_request request_make(uint32_t index)
{
    struct rng rng = {.seed = 70 + index};
    const uint32_t shared = (uint32_t)rng_below(&rng, 50);
    const uint32_t count = shared + 1 + (uint32_t)rng_below(&rng, 20);
    for (uint32_t i = 0; i < count; i++)
        prompts[index][i] = (uint32_t)(rng_at(5, i < shared ? index % 2 : 2 + index, i) % 256);
    struct engine_request asked = step_world_request(
        prompts[index], count, 4 + (uint32_t)rng_below(&rng, 12), (uint8_t)(1 + index % 2));
    asked.service_class = (enum service_class)(index % SERVICE_CLASS_COUNT);
    asked.want_logprobs = true;
    asked.top_logprobs = 2;
    asked.sampling.seed = index;
    if (index % 4 == 1)
        asked.sampling.temperature = 0.9f;
    if (index % 4 == 3)
        asked.sampling.frequency_penalty = 0.5f;
    asked.echo = index % 5 == 4;
    asked.choices = index % 5 == 2 ? 2 : 1;
    if (is_constrained(index)) {
        asked.ignore_end = false;
        asked.constraint = (struct engine_constraint){.is_set = true,
                                                      .kind = CONSTRAINT_REGEX,
                                                      .source = slice_of("[b-y]{40,}"),
                                                      .field = slice_of("regex")};
    }
    return asked;
}

/* A constrained answer has the bytes of its regex alone, which allows no end in so few tokens. */
static void check_constrained(uint32_t index, const struct engine_run_choice *choice)
{
    if (!is_constrained(index))
        return;
    CHECK(choice->count > 0 && choice->finish == ENGINE_FINISH_LENGTH);
    CHECK(choice->text_bytes == choice->count);
    for (uint32_t i = 0; i < choice->text_bytes; i++)
        CHECK(choice->text[i] >= 'b' && choice->text[i] <= 'y');
}

/* --- equal bits under preemption --- */

static void check_schedules(void)
{
    static struct step_schedules schedules = {
        .requests = REQUESTS, .at_once = AT_ONCE, .steps_a_pause = 4};
    const uint32_t count = is_large ? 100 : 4;
    uint64_t swaps = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        schedules.asked[i] = request_make(i);
    step_schedule_expect(&schedules);
    for (uint32_t i = 0; i < count; i++) {
        const struct step_world_options options = {
            .rows_max = i % 2 == 0 ? 64 : 24,
            .sequences_max = 2 + i % 3,
            .pages = 36,
            .host_pages = 40,
#if BANYAN_SIMT /* copies beside the work, at their slowest */
            .exchange_pages = i % 2 == 0 ? 0 : 2,
            .late_steps = i % 2 == 0 ? 0 : 3,
#endif
            .mask_fuel = i % 2 == 0 ? 0 : 20,
            .speculation = i % 3 == 2 ? ENGINE_SPECULATION_LOOKUP : ENGINE_SPECULATION_OFF
        };
        struct step_world *world = step_world_open(&options);
        schedules.rng = (struct rng){.seed = 900 + i};
#if BANYAN_SIMT
        (void)simt_reach(options.late_steps > 0); /* late_pages reads pages itself */
#endif
        step_schedule_run(&schedules, world);
        swaps += atomic_load(&world->step.figures.preemptions_swap);
        step_world_close(world);
#if BANYAN_SIMT
        (void)simt_reach(false);
#endif
    }
    CHECK(schedules.pauses > 0);
    CHECK(swaps > 0);
    printf("%u schedules of up to %d requests: %llu pauses, %llu of them swapped: equal bits\n",
           count, AT_ONCE, (unsigned long long)schedules.pauses, (unsigned long long)swaps);
}

/* --- beside the reference --- */

static struct engine_options options_of(const char *isa)
{
    struct engine_options options = engine_run_options();
    options.isa = isa;
    options.pin_percent = 50;
    options.kv_host_bytes = options.kv_bytes / 2;
    options.metrics = NULL;
    return options;
}

static void run_all(struct engine *engine, struct engine_run_transcript *out)
{
    struct engine_run_transcript *all[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request asked = request_make(i);
        all[i] = &out[i];
        engine_run_submit(engine, &asked, &out[i]);
    }
    engine_run_finish(engine, all, REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++)
        CHECK(!out[i].is_refused);
}

/* Greedy answers must agree up to the first position where the reference's two best tokens are
 * close. Returns how many tokens were compared. */
static uint32_t compare(const struct engine_run_choice *want, const struct engine_run_choice *got)
{
    uint32_t compared = 0;
    for (; compared < want->count; compared++) {
        const struct engine_run_token *right = &want->tokens[compared];
        const struct engine_run_token *token = &got->tokens[compared];
        if (right->top[0].logprob - right->top[1].logprob < 2 * LOGPROB_BOUND)
            break;
        CHECK(token->token == right->token);
        CHECK(fabsf(token->logprob - right->logprob) < LOGPROB_BOUND);
    }
    return compared;
}

static void check_judge(const char *weights)
{
    static struct engine_run_transcript want[REQUESTS];
    static struct engine_run_transcript got[REQUESTS];
    static struct engine_run_transcript again[REQUESTS];
    uint32_t compared = 0;
    uint32_t cached = 0;
    struct engine_info info;
    struct engine_options options = options_of("ref");
    options.weights = weights;
    struct engine *engine = engine_run_open(&options);
    run_all(engine, want);
    engine_close(engine);
    options = options_of("cuda");
    options.weights = weights;
    engine = engine_run_open(&options);
    engine_info(engine, &info);
    CHECK(strcmp(info.isa, "cuda") == 0);
    run_all(engine, got);
    run_all(engine, again); /* finds in the cache what the first runs left */
    for (uint32_t i = 0; i < REQUESTS; i++) {
        CHECK(engine_run_same(&got[i], &again[i]));
        check_constrained(i, &want[i].choices[0]);
        check_constrained(i, &got[i].choices[0]);
        cached += again[i].report.cached_tokens;
        if (i % 4 % 2 == 0)
            compared += compare(&want[i].choices[0], &got[i].choices[0]);
    }
    CHECK(!engine_has_failed(engine));
    engine_run_close(engine);
    CHECK(compared > 8 && cached > 0);
    printf("weights %s: %u greedy tokens as ref's; %d requests the same with %u tokens from the "
           "cache\n",
           weights, compared, REQUESTS, cached);
}

/* Another domain reads a published prompt, with the bits that it would compute itself. */
static void check_published(void)
{
    static struct engine_run_transcript alone;
    static struct engine_run_transcript publish;
    static struct engine_run_transcript reader;
    static uint32_t tokens[150];
    struct engine_published shown[1];
    const struct engine_options options = options_of("cuda");
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < 150; i++)
        tokens[i] = (uint32_t)(rng_at(9, 0, i) % 256);
    struct engine_request asked = step_world_request(tokens, 150, 6, 0);
    engine_run_submit(engine, &asked, &alone);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&alone}, 1);
    struct engine_request prompt = step_world_request(tokens, 140, 0, 9);
    prompt.is_published = true;
    engine_run_submit(engine, &prompt, &publish);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&publish}, 1);
    CHECK(publish.report.pinned_pages > 0);
    asked.domain = step_world_domain(3);
    asked.visible[0] = prompt.domain;
    asked.visible_count = asked.visible_public = 1;
    engine_run_submit(engine, &asked, &reader);
    engine_run_finish(engine, (struct engine_run_transcript *[]){&reader}, 1);
    CHECK(reader.report.cached_public >= 128);
    CHECK(engine_run_same(&alone, &reader));
    CHECK(engine_unpublish(engine, &prompt.domain) == STATUS_OK);
    for (int64_t waited = 0; engine_published(engine, shown, 1) > 0; waited += NAP_US) {
        CHECK(waited < WAIT_US);
        usleep(NAP_US);
    }
    engine_run_close(engine);
    printf("a published prompt: %u of 150 tokens read, equal bits\n", reader.report.cached_public);
}

/* --- models of any size --- */

enum { FILE_REQUESTS = 3, FILE_PROMPT = 12, FILE_TOKENS = 10, FILE_KV_BYTES = 64 << 20 };

/* Returns a greedy request for the first tokens of prompts[index]. */
static struct engine_request file_request(uint32_t index, uint32_t known)
{
    const uint32_t prompt = FILE_PROMPT * (index + 1);
    struct engine_request asked =
        step_world_request(prompts[index], prompt + known, FILE_TOKENS - known, 1);
    asked.want_logprobs = true;
    asked.top_logprobs = 2;
    return asked;
}

static void file_run(struct engine *engine, struct engine_run_transcript *out)
{
    struct engine_run_transcript *all[FILE_REQUESTS];
    for (uint32_t i = 0; i < FILE_REQUESTS; i++) {
        const struct engine_request asked = file_request(i, 0);
        all[i] = &out[i];
        engine_run_submit(engine, &asked, &out[i]);
    }
    engine_run_finish(engine, all, FILE_REQUESTS);
    for (uint32_t i = 0; i < FILE_REQUESTS; i++)
        CHECK(!out[i].is_refused && out[i].choices[0].count == FILE_TOKENS);
}

/* Compares each token of one text after the reference's own text. Where the device's token differs
 * although the reference's was not clear, it is asked again with the reference's token. Returns how
 * many tokens were clear. */
static uint32_t file_compare(struct engine *engine, uint32_t index,
                             const struct engine_run_choice *want,
                             struct engine_run_transcript *got, float *worst)
{
    uint32_t clear = 0;
    for (uint32_t i = 0, begin = 0; i < FILE_TOKENS; i++) {
        const struct engine_run_token *right = &want->tokens[i];
        const struct engine_run_token *token = &got->choices[0].tokens[i - begin];
        const bool is_clear = right->top[0].logprob - right->top[1].logprob >= 2 * LOGPROB_BOUND;
        const bool is_same = token->token == right->token;
        CHECK(is_same || !is_clear);
        clear += is_clear;
        if (is_same)
            *worst = fmaxf(*worst, fabsf(token->logprob - right->logprob));
        prompts[index][FILE_PROMPT * (index + 1) + i] = right->token;
        if (is_same || i + 1 == FILE_TOKENS)
            continue;
        begin = i + 1;
        const struct engine_request asked = file_request(index, begin);
        engine_run_submit(engine, &asked, got);
        engine_run_finish(engine, &got, 1);
        CHECK(!got->is_refused);
    }
    return clear;
}

static void check_file(const char *path)
{
    static struct engine_run_transcript want[FILE_REQUESTS];
    static struct engine_run_transcript got[FILE_REQUESTS];
    struct engine_options options = options_of("ref");
    uint32_t clear = 0;
    float worst = 0;
    struct engine_info info;
    const char *slash = strrchr(path, '/');
    options.model_path = path;
    options.model_name = slash != NULL ? slash + 1 : path;
    options.threads = 0; /* all processors */
    options.kv_bytes = FILE_KV_BYTES;
    options.kv_host_bytes = 0;
    struct engine *engine = engine_run_open(&options);
    engine_info(engine, &info);
    for (uint32_t i = 0; i < FILE_REQUESTS; i++)
        for (uint32_t t = 0; t < FILE_PROMPT * (i + 1); t++)
            prompts[i][t] = (uint32_t)(rng_at(31, i, t) % info.vocab);
    file_run(engine, want);
    engine_close(engine);
    options.isa = step_world_isa;
    engine = engine_run_open(&options);
    file_run(engine, got);
    for (uint32_t i = 0; i < FILE_REQUESTS; i++)
        clear += file_compare(engine, i, &want[i].choices[0], &got[i], &worst);
    CHECK(!engine_has_failed(engine));
    engine_run_close(engine);
    CHECK(clear > 0 && worst < LOGPROB_BOUND);
    printf("%s: %u of %d greedy tokens are clear, and ref's; log-probabilities within %.4f\n",
           options.model_name, clear, FILE_REQUESTS * FILE_TOKENS, (double)worst);
}

/* More memory than any device has: the message says how much of what, and nothing is kept. */
static void check_no_memory(void)
{
    struct engine *engine;
    struct engine_options options = options_of("cuda");
    options.model_path = engine_run_make_model();
    options.kv_bytes = (uint64_t)32 << 40;
    CHECK(engine_open(&engine, &options) == STATUS_NO_MEMORY);
    CHECK(strstr(status_note()->message, "no memory for 33554432 MiB of KV pages; ") != NULL);
    CHECK(strstr(status_note()->message, " MiB are free") != NULL);
    printf("32 TiB of pages: %s\n", status_note()->message);
    options.kv_bytes = options_of("cuda").kv_bytes;
    engine_run_close(engine_run_open(&options));
}

#if BANYAN_SIMT
/* The device is lost at the n-th call after the start: running and later requests are told, and
 * everything is freed. */
static void check_lost_device(void)
{
    static struct engine_run_transcript out;
    static struct engine_run_transcript later;
    uint32_t refused = 0;
    uint32_t ended = 0;
    for (int n = 0;; n = 3 * n + 1) {
        const struct engine_options options = options_of("cuda");
        const struct engine_request asked = request_make(0);
        struct engine *engine = engine_run_open(&options);
        simt_calls_left = n; /* nothing computes now */
        engine_run_submit(engine, &asked, &out);
        engine_run_finish(engine, (struct engine_run_transcript *[]){&out}, 1);
        const bool has_failed = engine_has_failed(engine);
        if (has_failed) {
            engine_run_submit(engine, &asked, &later);
            engine_run_finish(engine, (struct engine_run_transcript *[]){&later}, 1);
            CHECK(later.is_refused && later.note.status == STATUS_UNAVAILABLE);
            refused += out.is_refused;
            ended += !out.is_refused && out.report.finish == ENGINE_FINISH_ERROR;
        }
        simt_calls_left = -1;
        simt_error = 0;
        engine_run_close(engine);
        if (!has_failed)
            break;
    }
    CHECK(ended > 2);
    printf("a lost device: %u requests ended, %u were refused, and who came later\n", ended,
           refused);
}
#endif

int main(int argc, char **argv)
{
    is_large = argc > 1 && strcmp(argv[1], "--large") == 0;
    if (!kernels_can_run("cuda"))
        return gpu_device_missing();
    step_world_isa = "cuda";
    engine_run_type = TENSOR_TYPE_f16;
    if (argc > 1 && strcmp(argv[1], "--errors") == 0)
        return check_no_memory(), 0;
    for (int i = 1; i < argc && !is_large; i++)
        check_file(argv[i]);
    if (argc > 1 && !is_large)
        return 0;
    check_no_memory();
    check_judge("file");
    check_judge("int4");
    check_published();
    check_schedules();
#if BANYAN_SIMT
    check_lost_device();
#endif
    return 0;
}
