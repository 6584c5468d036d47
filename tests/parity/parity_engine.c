/* parity_engine: the whole engine on the real model.
 *
 * usage: parity_engine greedy | company | chat
 *   greedy   continuations of logits.json, equal up to the first place where the reference's two
 *            best tokens lie closer than 1.0 (activations of 8 bits move logits by up to 0.5)
 *   company  tokens and log-probabilities of requests alone and in random company, over chunk
 *            sizes and thread counts: equal bits
 *   chat     a chat and a text prompt through template and tokenizer
 * Each prints its figures with their counts as one JSON line and fails when a bound is broken. Run
 * from the repository root.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "tests/kit/engine_run.h"

#define FIXTURES "tests/parity/smollm2/"

enum { REQUESTS = 10, PROMPT_MAX = 400 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "parity_engine: %s: %s\n", what, status_note()->message);
    exit(1);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        die(error.text);
    return json;
}

static const char *model_path(void)
{
    static char path[4096];
    const char *given = getenv("BANYAN_TEST_MODEL");
    const char *cache = getenv("BANYAN_CACHE");
    const char *home = getenv("HOME");
    if (given != NULL)
        return given;
    snprintf(path, sizeof(path), "%s%s/SmolLM2-135M-Instruct.Q4_1.gguf",
             cache != NULL  ? cache
             : home != NULL ? home
                            : "",
             cache != NULL ? "" : "/.cache/banyan");
    return path;
}

static struct engine_options real_options(void)
{
    struct engine_options options = engine_run_options();
    options.model_path = model_path();
    options.isa = "auto";
    options.threads = 2;
    options.kv_bytes = 64u << 20;
    return options;
}

static uint32_t ids_of(const json_t *array, uint32_t *ids, uint32_t most)
{
    uint32_t count = (uint32_t)json_array_size(array);
    count = count < most ? count : most;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(array, i));
    return count;
}

static struct engine_request plain(const uint32_t *ids, uint32_t count, uint32_t tokens_max)
{
    return (struct engine_request){
        .request_id = SLICE("req_parity"),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = ids,
        .token_count = count,
        .choices = 1,
        .tokens_max = tokens_max,
        .sampling = {.top_p = 1},
        .ignore_end = true,
        .want_logprobs = true,
        .top_logprobs = 5,
    };
}

static int check_greedy(void)
{
    static struct engine_run_transcript out;
    const struct engine_options options = real_options();
    struct engine *engine = engine_run_open(&options);
    json_t *cases = json_object_get(load(FIXTURES "logits.json"), "cases");
    uint32_t equal = 0;
    uint32_t wrong = 0;
    uint32_t ended_early = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const json_t *gaps = json_object_get(one, "greedy32_top1_minus_top2");
        uint32_t ids[PROMPT_MAX];
        uint32_t want[32];
        uint32_t count = ids_of(json_object_get(one, "ids"), ids, PROMPT_MAX);
        uint32_t want_count = ids_of(json_object_get(one, "greedy32"), want, 32);
        const struct engine_request request = plain(ids, count, want_count);
        struct engine_run_transcript *all = &out;
        engine_run_submit(engine, &request, &out);
        engine_run_finish(engine, &all, 1);
        for (uint32_t t = 0; t < want_count; t++) {
            if (out.choices[0].tokens[t].token == want[t]) {
                equal++;
                continue;
            }
            /* From here on the two texts are different ones. */
            wrong += json_number_value(json_array_get(gaps, t)) >= 1.0;
            ended_early++;
            break;
        }
    }
    struct engine_info info;
    engine_info(engine, &info);
    printf("{\"check\":\"greedy\",\"isa\":\"%s\",\"cases\":%zu,\"tokens_equal\":%u,"
           "\"ended_at_a_close_call\":%u,\"wrong\":%u}\n",
           info.isa, json_array_size(cases), equal, ended_early - wrong, wrong);
    engine_run_close(engine);
    return wrong == 0 && equal >= 64 ? 0 : 1;
}

static struct engine_run_transcript *alone;
static struct engine_run_transcript *together;
static uint32_t texts[REQUESTS][PROMPT_MAX];
static uint32_t lengths[REQUESTS];

static void company_prompts(void)
{
    const json_t *list = json_object_get(load(FIXTURES "positions.json"), "texts");
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const json_t *one = json_array_get(list, i % json_array_size(list));
        uint32_t most = i < 2 ? PROMPT_MAX : 2 + (uint32_t)rng_below(&rng, 90);
        lengths[i] = ids_of(json_object_get(one, "ids"), texts[i], most);
        if (lengths[i] != most)
            die("a text of positions.json is too short");
    }
}

static struct engine_request company_request(uint32_t index)
{
    struct engine_request request = plain(texts[index], lengths[index], 12);
    if (index % 2 == 1) {
        request.sampling.temperature = 1;
        request.sampling.top_p = index % 4 == 1 ? 0.95f : 1;
        request.sampling.seed = index;
    }
    request.choices = index == 4 ? 3 : 1;
    request.echo = index == 5;
    return request;
}

/* How many of the requests differ from their run alone. */
static uint32_t company_run(uint32_t rows_max, uint32_t threads, uint64_t seed, uint32_t *tokens)
{
    struct engine_options options = real_options();
    struct engine_run_transcript *all[REQUESTS];
    struct rng rng = {.seed = seed};
    options.rows_max = rows_max;
    options.threads = threads;
    struct engine *engine = engine_run_open(&options);
    uint32_t first = (uint32_t)rng_below(&rng, REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t pick = (first + i * 3) % REQUESTS; /* 3 and REQUESTS have no common divisor */
        struct engine_request request = company_request(pick);
        all[i] = &together[pick];
        engine_run_submit(engine, &request, all[i]);
        usleep((useconds_t)rng_below(&rng, 20000));
        engine_run_take(engine);
    }
    engine_run_finish(engine, all, REQUESTS);
    engine_run_close(engine);
    uint32_t different = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        different += !engine_run_same(&alone[i], &together[i]);
        *tokens += together[i].tokens_so_far;
    }
    return different;
}

static int check_company(void)
{
    static const uint32_t rows[] = {7, 64, 512};
    alone = mem_zalloc(REQUESTS, sizeof(*alone));
    together = mem_zalloc(REQUESTS, sizeof(*together));
    if (alone == NULL || together == NULL)
        die("no memory");
    company_prompts();
    const struct engine_options options = real_options();
    struct engine *engine = engine_run_open(&options);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request request = company_request(i);
        struct engine_run_transcript *all = &alone[i];
        engine_run_submit(engine, &request, all);
        engine_run_finish(engine, &all, 1);
    }
    engine_run_close(engine);
    uint32_t different = 0;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < 3; i++)
        different += company_run(rows[i], i + 1, i, &tokens);
    printf("{\"check\":\"company\",\"requests\":%d,\"runs\":3,\"tokens_compared\":%u,"
           "\"requests_different\":%u}\n",
           REQUESTS, tokens, different);
    mem_free(alone);
    mem_free(together);
    return different == 0 && tokens == 3 * 12 * (REQUESTS + 2) ? 0 : 1;
}

static int check_chat(void)
{
    static struct engine_run_transcript chat;
    static struct engine_run_transcript text;
    static const struct engine_message messages[1] = {
        {SLICE("user"), SLICE("Name the capital of France."), {NULL, 0}}};
    const struct engine_options options = real_options();
    struct engine *engine = engine_run_open(&options);
    struct engine_request request = plain(NULL, 0, 24);
    request.ignore_end = false;
    request.prompt_kind = ENGINE_PROMPT_CHAT;
    request.messages = messages;
    request.message_count = 1;
    struct engine_run_transcript *both[2] = {&chat, &text};
    engine_run_submit(engine, &request, &chat);
    request.prompt_kind = ENGINE_PROMPT_TEXT;
    request.text = SLICE("The capital of France is");
    engine_run_submit(engine, &request, &text);
    engine_run_finish(engine, both, 2);
    engine_run_close(engine);
    const struct engine_run_choice *answer = &chat.choices[0];
    const struct engine_run_choice *rest = &text.choices[0];
    bool has_paris = memmem(answer->text, answer->text_bytes, "Paris", 5) != NULL;
    bool goes_on = rest->text_bytes >= 6 && memcmp(rest->text, " Paris", 6) == 0;
    printf("{\"check\":\"chat\",\"prompt_tokens\":%u,\"completion_tokens\":%u,\"finish\":\"%s\","
           "\"answers\":%s,\"goes_on\":%s}\n",
           chat.report.prompt_tokens, chat.tokens_so_far, engine_finish_name(chat.report.finish),
           has_paris ? "true" : "false", goes_on ? "true" : "false");
    return has_paris && goes_on && text.report.prompt_tokens == 5 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "greedy") == 0)
        return check_greedy();
    if (argc == 2 && strcmp(argv[1], "company") == 0)
        return check_company();
    if (argc == 2 && strcmp(argv[1], "chat") == 0)
        return check_chat();
    fprintf(stderr, "usage: parity_engine greedy | company | chat\n");
    return 2;
}
