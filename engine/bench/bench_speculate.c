#include "engine/bench/bench_speculate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/kv/kv_pool.h"

enum {
    SPECULATE_PROMPT = 240,
    SPECULATE_PASSAGE = 40, /* tokens of a copied passage, repeated to fill the prompt */
    SPECULATE_NAP_US = 200,
    SPECULATE_ROWS = 512,
};

enum speculate_text { SPECULATE_COPY, SPECULATE_FRESH, SPECULATE_TEXTS };
static const char *const SPECULATE_TEXT_NAMES[SPECULATE_TEXTS] = {"copy", "fresh"};

struct speculate_answer {
    uint32_t *tokens; /* [room] */
    uint32_t count;
    struct engine_report report;
};

struct speculate_result {
    double rates[2][BENCH_REPEAT_MAX]; /* tokens a second after the first: without, with */
    double ratios[BENCH_REPEAT_MAX];
    uint64_t right, wrong; /* draft tokens accepted, rejected */
    uint64_t steps;        /* that emitted a token */
    uint64_t tokens;
};

struct speculate {
    const struct bench_options *options;
    struct engine *engines[2]; /* without speculation, with */
    struct speculate_answer answers[2];
    uint32_t vocab;
    struct speculate_result results[SPECULATE_TEXTS];
};

/* --- one answer --- */

static enum status ask_take(struct engine *engine, struct speculate_answer *answer, bool *is_over)
{
    static struct engine_event event;
    while (!*is_over && engine_next_event(engine, &event)) {
        if (event.kind == ENGINE_EVENT_ERROR)
            FAIL(event.note.status, "%s", event.note.message);
        if (event.kind == ENGINE_EVENT_TOKEN) {
            answer->tokens[answer->count++] = event.token;
            engine_acknowledge(engine, event.id, event.choice, 1);
        }
        answer->report = event.report;
        *is_over = event.kind == ENGINE_EVENT_END;
    }
    return STATUS_OK;
}

static enum status ask(struct engine *engine, const uint32_t *prompt, uint32_t prompt_count,
                       uint32_t gen, float temperature, struct speculate_answer *answer)
{
    engine_request_id id;
    bool is_over = false;
    const struct engine_request asked = {
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = prompt,
        .token_count = prompt_count,
        .choices = 1,
        .tokens_max = gen,
        .sampling = {.temperature = temperature, .top_p = 1, .seed = 7},
        .ignore_end = true,
    };
    answer->count = 0;
    TRY(engine_submit(engine, &asked, &id));
    while (!is_over) {
        TRY(ask_take(engine, answer, &is_over));
        usleep(SPECULATE_NAP_US);
    }
    return STATUS_OK;
}

/* --- prompts --- */

static void prompt_random(const struct speculate *speculate, uint32_t round, uint32_t *out)
{
    for (uint32_t i = 0; i < SPECULATE_PROMPT; i++)
        out[i] = (uint32_t)(rng_at(11, round, i) % speculate->vocab);
}

/* Prompts are new in each round and the same for both engines. */
static enum status prompt_make(struct speculate *speculate, enum speculate_text text,
                               uint32_t round, uint32_t *out)
{
    struct speculate_answer *passage = &speculate->answers[0];
    prompt_random(speculate, round, out);
    if (text == SPECULATE_FRESH)
        return STATUS_OK;
    TRY(ask(speculate->engines[0], out, SPECULATE_PASSAGE, SPECULATE_PASSAGE, 1, passage));
    for (uint32_t i = 0; i < SPECULATE_PROMPT; i++)
        out[i] = passage->tokens[i % SPECULATE_PASSAGE];
    return STATUS_OK;
}

/* --- measuring --- */

static enum status measure_round(struct speculate *speculate, enum speculate_text text,
                                 uint32_t round)
{
    uint32_t prompt[SPECULATE_PROMPT];
    uint32_t gen = speculate->options->gen;
    struct speculate_result *result = &speculate->results[text];
    double rates[2];
    TRY(prompt_make(speculate, text, round, prompt));
    for (uint32_t on = 0; on < 2; on++) {
        struct speculate_answer *answer = &speculate->answers[on];
        TRY(ask(speculate->engines[on], prompt, SPECULATE_PROMPT, gen,
                text == SPECULATE_FRESH ? 1.5f : 0, answer));
        int64_t us = answer->report.decode_us;
        rates[on] = (gen - 1) * 1e6 / (double)(us > 0 ? us : 1);
    }
    const struct speculate_answer *with = &speculate->answers[1];
    if (with->count != gen || speculate->answers[0].count != gen ||
        memcmp(with->tokens, speculate->answers[0].tokens, gen * sizeof(*with->tokens)) != 0)
        FAIL(STATUS_CORRUPT, "the answer with speculation differs from the one without");
    if (round == 0) /* it warms up, and the engine learns what a step costs */
        return STATUS_OK;
    for (uint32_t on = 0; on < 2; on++)
        result->rates[on][round - 1] = rates[on];
    result->ratios[round - 1] = rates[1] / rates[0];
    result->right += with->report.drafts_accepted;
    result->wrong += with->report.drafts_rejected;
    result->tokens += gen;
    result->steps += gen - with->report.drafts_accepted;
    return STATUS_OK;
}

static int compare(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print_text(struct speculate *speculate, uint32_t text, FILE *out)
{
    const struct bench_options *options = speculate->options;
    struct speculate_result *result = &speculate->results[text];
    double without = median(result->rates[0], options->repeat);
    double with = median(result->rates[1], options->repeat);
    double ratio = median(result->ratios, options->repeat);
    double a_step = (double)result->tokens / (double)result->steps;
    unsigned long long right = result->right;
    unsigned long long guesses = result->right + result->wrong;
    if (options->is_json)
        fprintf(out,
                "%s\"%s\": {\"without\": %.1f, \"with\": %.1f, \"ratio\": %.3f, "
                "\"tokens_a_step\": %.2f, \"guesses\": %llu, \"right\": %llu}",
                text > 0 ? ", " : "", SPECULATE_TEXT_NAMES[text], without, with, ratio, a_step,
                guesses, right);
    else
        fprintf(out,
                "  %-6s %8.1f tok/s without, %8.1f with: %.2f times; %.2f tokens a step, %llu "
                "drafted, %llu accepted\n",
                SPECULATE_TEXT_NAMES[text], without, with, ratio, a_step, guesses, right);
}

static enum status print(struct speculate *speculate, FILE *out)
{
    static const char *const names[] = {"off", "lookup", "model", "exit"};
    const struct bench_options *options = speculate->options;
    const char *name = names[options->speculation];
    if (options->is_json)
        fprintf(out, "{\"speculation\": \"%s\", \"tokens\": %u, \"texts\": {", name, options->gen);
    else
        fprintf(out, "speculation by %s, one stream, %u tokens an answer\n", name, options->gen);
    for (uint32_t text = 0; text < SPECULATE_TEXTS; text++)
        print_text(speculate, text, out);
    fputs(options->is_json ? "}}\n" : "", out);
    if (ferror(out))
        FAIL(STATUS_IO, "the figures cannot be written");
    return STATUS_OK;
}

/* --- opening --- */

static enum status open_one(struct speculate *speculate, const struct model_config *config,
                            enum engine_speculation speculation, struct engine **out)
{
    const struct bench_options *options = speculate->options;
    uint32_t context = SPECULATE_PROMPT + options->gen;
    if (context > config->context)
        FAIL(STATUS_OUT_OF_RANGE,
             "--gen: %u tokens after a prompt of %u; the model's context is %u", options->gen,
             SPECULATE_PROMPT, config->context);
    /* Room for twice the sequence in float32, the widest type. */
    uint64_t token_bytes = 8ull * config->layers * config->kv_heads * config->head_dim;
    const struct engine_options engine_options = {
        .model_path = options->model,
        .model_descriptor = -1,
        .draft_path = options->draft_model,
        .draft_layers = options->draft_layers,
        .isa = options->isa,
        .device = options->device,
        .is_free = options->is_free,
        .kv_type = kernels_kv_type_name(options->kv_type),
        .weights = model_weights_name(options->weights),
        .threads = options->threads,
        .context = context,
        .kv_bytes = 2 * (context + LIMIT_PAGE_TOKENS) * token_bytes,
        .rows_max = SPECULATE_ROWS,
        .sequences_max = 1,
        .speculation = speculation,
        .clock = clock_system(),
    };
    return engine_open(out, &engine_options);
}

static enum status run(struct speculate *speculate, FILE *out)
{
    struct model_source source;
    struct model_config config;
    const struct bench_options *options = speculate->options;
    uint32_t room = options->gen > SPECULATE_PASSAGE ? options->gen : SPECULATE_PASSAGE;
    if (options->gen < 2)
        FAIL(STATUS_OUT_OF_RANGE, "--gen: must be at least 2, since rates begin after one token");
    TRY(model_source_open(&source, options->model));
    enum status status = model_config_read(&config, &source);
    model_source_close(&source);
    TRY(status);
    speculate->vocab = config.vocab;
    for (uint32_t on = 0; on < 2; on++) {
        speculate->answers[on].tokens = mem_zalloc(room, sizeof(uint32_t));
        if (speculate->answers[on].tokens == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for answers of %u tokens", room);
        TRY(open_one(speculate, &config, on == 0 ? ENGINE_SPECULATION_OFF : options->speculation,
                     &speculate->engines[on]));
    }
    for (uint32_t round = 0; round <= options->repeat; round++)
        for (uint32_t text = 0; text < SPECULATE_TEXTS; text++)
            TRY(measure_round(speculate, (enum speculate_text)text, round));
    return print(speculate, out);
}

enum status bench_speculate(const struct bench_options *options, FILE *out)
{
    struct speculate *speculate = mem_zalloc(1, sizeof *speculate);
    if (speculate == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the measurement");
    speculate->options = options;
    enum status status = run(speculate, out);
    for (uint32_t on = 0; on < 2; on++) {
        engine_close(speculate->engines[on]);
        mem_free(speculate->answers[on].tokens);
    }
    mem_free(speculate);
    return status;
}
