/* parity_smollm2: real models against log-probabilities of a float32 reference program.
 *
 * usage: parity_smollm2 CHECK [smollm2 | qwen2coder | gemma3]
 * CHECK is one of those in main(). Models other than SmolLM2 have fixtures for those of logits and
 * for perplexity-text; without their file, which no ordinary run fetches, the check says that it
 * was skipped and ends with 77. Each prints its figures with their counts as one JSON line and
 * fails when a bound is broken. The bounds and the fixtures' origin are told in
 * tests/parity/README.md. Run from the repository root.
 */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/tokenizer.h"
#include "tests/kit/half_model.h"
#include "tests/kit/model_run.h"

enum { ROWS = 64, TOP = 64, POSITIONS = 512, TOKENS_MAX = 2048 };

enum { SKIPPED = 77 }; /* what CTest knows as a skipped test */

/* The folder of fixtures, and the file in BANYAN_CACHE (deploy/prepare fetches it). */
static const struct real {
    const char *folder;
    const char *file;
    const char *part;   /* of deploy/prepare */
    double text_change; /* that perplexity-text allows, as a part of the perplexity */
} REALS[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "model", 0.01},
    {"qwen2coder", "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "qwen", 0.01},
    {"gemma3", "gemma-3-270m.Q4_K_M.gguf", "gemma", 0.005},
};
static const struct real *real = &REALS[0];

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, status_note()->message);
    exit(1);
}

static json_t *load(const char *name)
{
    json_error_t error;
    char path[256];
    snprintf(path, sizeof path, "tests/parity/%s/%s", real->folder, name);
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL) {
        fprintf(stderr, "%s: %s\n", path, error.text);
        exit(1);
    }
    return json;
}

static struct gguf *open_file(void)
{
    char path[4096];
    struct gguf *gguf;
    const char *cache = getenv("BANYAN_CACHE");
    const char *home = getenv("HOME");
    const char *given = getenv("BANYAN_TEST_MODEL");
    if (given != NULL && real == &REALS[0])
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s%s/%s",
                 cache != NULL  ? cache
                 : home != NULL ? home
                                : "",
                 cache != NULL ? "" : "/.cache/banyan", real->file);
    if (real != &REALS[0] && access(path, R_OK) != 0) {
        printf("skipped: %s is missing; deploy/prepare %s fetches it\n", path, real->part);
        exit(SKIPPED);
    }
    if (gguf_open(&gguf, path) != STATUS_OK)
        die(path);
    return gguf;
}

static void open_run(struct model_run *run, const struct gguf *gguf, const char *isa,
                     enum kv_type kv_type, enum model_weights weights)
{
    if (model_run_open(run, gguf,
                       &(struct model_run_options){.isa = isa,
                                                   .kv_type = kv_type,
                                                   .weights = weights,
                                                   .rows_max = ROWS,
                                                   .sequences = 1,
                                                   .tokens_max = TOKENS_MAX}) != STATUS_OK)
        die("opening the model");
}

static void open_model(struct model_run *run, const char *isa, enum kv_type kv_type)
{
    struct gguf *gguf = open_file();
    open_run(run, gguf, isa, kv_type, MODEL_WEIGHTS_FILE);
    gguf_close(gguf);
}

static uint32_t ids_of(const json_t *array, uint32_t *ids)
{
    uint32_t count = (uint32_t)json_array_size(array);
    if (count > TOKENS_MAX)
        exit(1);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(array, i));
    return count;
}

/* Calls `each` with the logits after every token. */
static void run_text(struct model_run *run, const uint32_t *ids, uint32_t count,
                     void (*each)(void *context, uint32_t position, const float *logits),
                     void *context)
{
    uint32_t vocab = model_config(run->model)->vocab;
    for (uint32_t from = 0; from < count; from += ROWS) {
        uint32_t rows = count - from < ROWS ? count - from : ROWS;
        const float *logits = model_run_chunk(run, 0, from, ids + from, rows);
        for (uint32_t r = 0; r < rows; r++)
            each(context, from + r, logits + (size_t)r * vocab);
    }
}

static bool report(const char *what, const char *isa, bool holds)
{
    printf("%s}\n", holds ? "" : ", \"broken\": true");
    if (!holds)
        fprintf(stderr, "%s with %s: a bound is broken\n", what, isa);
    return holds;
}

/* --- logits.json: the 50 best after a prompt, every token of the prompt, 32 greedy tokens --- */

struct logits_check {
    struct model_run *run;
    const json_t *test;
    const uint32_t *ids; /* the prompt, then the reference's greedy tokens */
    uint32_t prompt;
    uint32_t total;
    uint64_t compared;
    double sum;
    double largest;
    uint32_t greedy;
    uint32_t greedy_equal;
    double largest_gap_flipped;
};

static void logits_compare(struct logits_check *check, double ours, double theirs)
{
    double difference = fabs(ours - theirs);
    check->compared++;
    check->sum += difference;
    if (!(difference <= check->largest))
        check->largest = difference;
}

static void logits_each(void *context, uint32_t position, const float *logits)
{
    struct logits_check *check = context;
    const json_t *top = json_object_get(check->test, "last_top50");
    if (position + 1 < check->prompt)
        logits_compare(check, model_run_logprob(check->run, logits, check->ids[position + 1]),
                       json_number_value(json_array_get(
                           json_object_get(check->test, "position_logprobs"), position)));
    for (size_t i = 0; position + 1 == check->prompt && i < json_array_size(top); i++) {
        const json_t *pair = json_array_get(top, i);
        uint32_t id = (uint32_t)json_integer_value(json_array_get(pair, 0));
        logits_compare(check, model_run_logprob(check->run, logits, id),
                       json_number_value(json_array_get(pair, 1)));
    }
    if (position + 1 >= check->prompt && position + 1 < check->total) {
        double gap = json_number_value(
            json_array_get(json_object_get(check->test, "greedy32_top1_minus_top2"),
                           position + 1 - check->prompt));
        bool is_equal = model_run_argmax(check->run, logits) == check->ids[position + 1];
        check->greedy++;
        check->greedy_equal += is_equal;
        if (!is_equal && gap > check->largest_gap_flipped)
            check->largest_gap_flipped = gap;
    }
}

/* A greedy token may differ only where the reference's own gap is below twice the largest
 * difference allowed. */
static bool logits_run(const char *name, enum kv_type kv_type, double mean_max, double largest_max)
{
    struct model_run run;
    struct logits_check check = {.run = &run};
    json_t *json = load("logits.json");
    open_model(&run, "ref", kv_type);
    size_t i;
    const json_t *test;
    json_array_foreach(json_object_get(json, "cases"), i, test)
    {
        uint32_t ids[TOKENS_MAX];
        check.test = test;
        check.ids = ids;
        check.prompt = ids_of(json_object_get(test, "ids"), ids);
        check.total = check.prompt + ids_of(json_object_get(test, "greedy32"), ids + check.prompt);
        run_text(&run, ids, check.total, logits_each, &check);
    }
    double mean = check.sum / (double)check.compared;
    printf("{\"check\": \"%s\", \"model\": \"%s\", \"isa\": \"ref\", \"prompts\": %zu, "
           "\"log_probabilities\": %llu, "
           "\"mean_difference\": %.6f, \"largest_difference\": %.6f, \"greedy_tokens\": %u, "
           "\"greedy_equal\": %u, \"largest_gap_flipped\": %.4f",
           name, real->folder, json_array_size(json_object_get(json, "cases")),
           (unsigned long long)check.compared, mean, check.largest, check.greedy,
           check.greedy_equal, check.largest_gap_flipped);
    bool holds = check.compared > 400 && check.greedy >= 248 && mean <= mean_max &&
                 check.largest <= largest_max && check.largest_gap_flipped <= 2 * largest_max;
    model_run_close(&run);
    json_decref(json);
    return report(name, "ref", holds);
}

/* --- perplexity.json --- */

struct likelihood {
    struct model_run *run;
    const uint32_t *ids;
    uint32_t count;
    double sum;
};

static void likelihood_each(void *context, uint32_t position, const float *logits)
{
    struct likelihood *likelihood = context;
    if (position + 1 < likelihood->count)
        likelihood->sum -=
            model_run_logprob(likelihood->run, logits, likelihood->ids[position + 1]);
}

static bool perplexity_run(void)
{
    struct model_run run;
    uint32_t ids[TOKENS_MAX];
    json_t *positions = load("positions.json");
    json_t *json = load("perplexity.json");
    const json_t *text = json_array_get(json_object_get(positions, "texts"), 0);
    struct likelihood likelihood = {.run = &run, .ids = ids};
    likelihood.count = ids_of(json_object_get(text, "ids"), ids);
    open_model(&run, "ref", KV_TYPE_F32);
    run_text(&run, ids, likelihood.count, likelihood_each, &likelihood);
    double ours = exp(likelihood.sum / (likelihood.count - 1));
    double theirs = json_number_value(json_object_get(json, "perplexity"));
    printf("{\"check\": \"perplexity\", \"isa\": \"ref\", \"tokens\": %u, \"perplexity\": %.6f, "
           "\"reference\": %.6f, \"difference_percent\": %.5f",
           likelihood.count, ours, theirs, 100 * (ours / theirs - 1));
    bool holds = likelihood.count == json_integer_value(json_object_get(json, "n_tokens")) &&
                 fabs(ours / theirs - 1) <= 0.0002;
    model_run_close(&run);
    json_decref(json);
    json_decref(positions);
    return report("perplexity", "ref", holds);
}

/* --- perplexity.json of a model whose fixtures do not list the text's tokens --- */

/* Whether two runs of tokens spell the same bytes. */
static bool text_same(const struct vocab *vocab, const uint32_t *a, const uint32_t *b,
                      uint32_t count)
{
    struct buffer texts[2];
    for (uint32_t i = 0; i < 2; i++) {
        buffer_init(&texts[i], SIZE_MAX);
        for (uint32_t k = 0; k < count; k++)
            buffer_append_slice(&texts[i], vocab_bytes(vocab, (i == 0 ? a : b)[k]));
    }
    const bool is_same = texts[0].length == texts[1].length &&
                         memcmp(texts[0].bytes, texts[1].bytes, texts[0].length) == 0;
    buffer_deinit(&texts[0]);
    buffer_deinit(&texts[1]);
    return is_same;
}

/* Reads the text that the fixture names, and writes its first tokens. The fixture shows some of
 * them, and these are taken as they are: transformers cuts a run of 33 blanks into 16 and 17, and
 * SentencePiece, whose longest piece of blanks has 31, into 31 and 2. Returns 0 when they do not
 * spell the same bytes as ours, or the text is too short. */
static uint32_t text_tokens(const struct gguf *gguf, const json_t *json, uint32_t *ids)
{
    enum { TEXT_BYTES = 16384 };
    static char text[TEXT_BYTES];
    static uint32_t all[TEXT_BYTES];
    struct vocab *vocab;
    struct tokenizer *tokenizer;
    char path[128];
    size_t count = 0;
    snprintf(path, sizeof path, "/usr/share/common-licenses/%s",
             json_string_value(json_object_get(json, "text")));
    FILE *file = fopen(path, "rb");
    const size_t bytes = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file != NULL)
        fclose(file);
    const struct slice slice = {text, bytes};
    if (vocab_create(&vocab, gguf) != STATUS_OK ||
        tokenizer_create(&tokenizer, vocab, gguf) != STATUS_OK ||
        tokenizer_encode(tokenizer, slice, NULL, 0, all, TEXT_BYTES, &count) != STATUS_OK)
        die(path);
    const uint32_t want = (uint32_t)json_integer_value(json_object_get(json, "n_tokens"));
    const uint32_t begin = vocab_adds_bos(vocab);
    uint32_t first[TOKENS_MAX];
    const uint32_t shown = ids_of(json_object_get(json, "first_ids"), first);
    ids[0] = vocab_bos(vocab);
    for (uint32_t i = begin; i < want && i - begin < count; i++)
        ids[i] = all[i - begin];
    const bool is_same = want <= TOKENS_MAX && want <= begin + count && shown <= want &&
                         text_same(vocab, ids, first, shown);
    memcpy(ids, first, shown * sizeof *ids);
    tokenizer_destroy(tokenizer);
    vocab_destroy(vocab);
    return is_same ? want : 0;
}

static bool text_run(const char *isa, enum kv_type kv_type, double change_max)
{
    struct model_run run;
    uint32_t ids[TOKENS_MAX];
    json_t *json = load("perplexity.json");
    struct likelihood likelihood = {.run = &run, .ids = ids};
    struct gguf *gguf = open_file();
    likelihood.count = text_tokens(gguf, json, ids);
    const bool is_same = likelihood.count > 0;
    if (!is_same)
        fprintf(stderr, "the text's tokens are not the reference's\n");
    open_run(&run, gguf, isa, kv_type, MODEL_WEIGHTS_FILE);
    run_text(&run, ids, likelihood.count, likelihood_each, &likelihood);
    double ours = exp(likelihood.sum / (likelihood.count - 1));
    double theirs = json_number_value(json_object_get(json, "perplexity"));
    printf("{\"check\": \"perplexity-text\", \"model\": \"%s\", \"isa\": \"%s\", "
           "\"tokens\": %u, \"perplexity\": %.6f, \"reference\": %.6f, "
           "\"difference_percent\": %.5f",
           real->folder, kernels_isa(run.kernels), likelihood.count, ours, theirs,
           100 * (ours / theirs - 1));
    const bool holds = is_same && fabs(ours / theirs - 1) <= change_max;
    model_run_close(&run);
    gguf_close(gguf);
    json_decref(json);
    return report("perplexity-text", isa, holds);
}

/* --- positions.json, positions_top64.bin --- */

struct positions_check {
    struct likelihood likelihood;
    const uint8_t *top; /* of this text: [POSITIONS] of {int32 ids[64], float32 logprobs[64]} */
    uint64_t positions;
    double divergence;
    double divergence_largest;
    uint64_t greedy_equal;
    uint64_t wide_gaps; /* positions where the reference's two best are ≥ 1 apart */
    uint64_t wide_gaps_flipped;
    double largest_gap_flipped;
};

static double positions_log_sum(const float *logits, uint32_t vocab, double most)
{
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* KL(reference ‖ ours) over 65 bins: the 64 listed tokens and the remainder. */
static double positions_divergence(const int32_t *ids, const float *theirs, const float *logits,
                                   double log_sum)
{
    double sum = 0;
    double rest_theirs = 1;
    double rest_ours = 1;
    for (uint32_t i = 0; i < TOP; i++) {
        double log_p = (double)theirs[i];
        double log_q = (double)logits[ids[i]] - log_sum;
        sum += exp(log_p) * (log_p - log_q);
        rest_theirs -= exp(log_p);
        rest_ours -= exp(log_q);
    }
    if (rest_theirs > 1e-9 && rest_ours > 1e-9)
        sum += rest_theirs * log(rest_theirs / rest_ours);
    return sum;
}

static void positions_each(void *context, uint32_t position, const float *logits)
{
    struct positions_check *check = context;
    int32_t ids[TOP];
    float theirs[TOP];
    likelihood_each(&check->likelihood, position, logits);
    if (position >= POSITIONS)
        return;
    const uint8_t *record = check->top + (size_t)position * (sizeof ids + sizeof theirs);
    memcpy(ids, record, sizeof ids);
    memcpy(theirs, record + sizeof ids, sizeof theirs);
    const struct model_run *run = check->likelihood.run;
    uint32_t best = model_run_argmax(run, logits);
    double log_sum =
        positions_log_sum(logits, model_config(run->model)->vocab, (double)logits[best]);
    double divergence = positions_divergence(ids, theirs, logits, log_sum);
    double gap = (double)theirs[0] - (double)theirs[1];
    check->positions++;
    check->divergence += divergence;
    if (!(divergence <= check->divergence_largest))
        check->divergence_largest = divergence;
    check->greedy_equal += best == (uint32_t)ids[0];
    check->wide_gaps += gap >= 1;
    check->wide_gaps_flipped += gap >= 1 && best != (uint32_t)ids[0];
    if (best != (uint32_t)ids[0] && gap > check->largest_gap_flipped)
        check->largest_gap_flipped = gap;
}

static uint8_t *positions_load(size_t bytes)
{
    FILE *in = fopen("tests/parity/smollm2/positions_top64.bin", "rb");
    uint8_t *top = malloc(bytes);
    if (in == NULL || top == NULL || fread(top, 1, bytes, in) != bytes) {
        fprintf(stderr, "positions_top64.bin: cannot be read\n");
        exit(1);
    }
    fclose(in);
    return top;
}

/* What the reference says of a table with a type of KV. */
struct positions_figures {
    double mean_kl;
    double change; /* of perplexity, as the mean over the texts */
};

static bool positions_run(const char *isa, enum kv_type type, struct positions_figures *out)
{
    struct model_run run;
    struct positions_check check = {.likelihood = {.run = &run}};
    json_t *json = load("positions.json");
    const json_t *texts = json_object_get(json, "texts");
    size_t text_bytes = (size_t)POSITIONS * TOP * 8;
    uint8_t *top = positions_load(json_array_size(texts) * text_bytes);
    double sum = 0;
    uint64_t tokens = 0;
    size_t i;
    const json_t *text;
    open_model(&run, isa, type);
    json_array_foreach(texts, i, text)
    {
        uint32_t ids[TOKENS_MAX];
        check.likelihood.ids = ids;
        check.likelihood.count = ids_of(json_object_get(text, "ids"), ids);
        check.likelihood.sum = 0;
        check.top = top + i * text_bytes;
        run_text(&run, ids, check.likelihood.count, positions_each, &check);
        double nll = check.likelihood.sum / (check.likelihood.count - 1);
        double change = exp(nll - json_number_value(json_object_get(text, "mean_nll"))) - 1;
        printf("{\"check\": \"positions\", \"isa\": \"%s\", \"text\": \"%s\", \"tokens\": %u, "
               "\"perplexity\": %.4f, \"difference_percent\": %.3f}\n",
               kernels_isa(run.kernels), json_string_value(json_object_get(text, "text")),
               check.likelihood.count, exp(nll), 100 * change);
        sum += change;
        tokens += check.likelihood.count;
    }
    double n = (double)check.positions;
    double change = sum / (double)json_array_size(texts);
    *out = (struct positions_figures){check.divergence / n, change};
    printf("{\"check\": \"positions\", \"isa\": \"%s\", \"kv_type\": \"%s\", "
           "\"bytes_per_token\": %zu, \"texts\": %zu, \"tokens\": %llu, "
           "\"perplexity_difference_percent\": %.3f, \"positions\": %llu, \"mean_kl\": %.6f, "
           "\"largest_kl\": %.4f, \"greedy_equal_percent\": %.2f, \"gap_1_positions\": %llu, "
           "\"gap_1_flipped\": %llu, \"largest_gap_flipped\": %.3f",
           kernels_isa(run.kernels), kernels_kv_type_name(type),
           run.layout.page_bytes / run.layout.page_tokens, json_array_size(texts),
           (unsigned long long)tokens, 100 * change, (unsigned long long)check.positions,
           check.divergence / n, check.divergence_largest, 100 * (double)check.greedy_equal / n,
           (unsigned long long)check.wide_gaps, (unsigned long long)check.wide_gaps_flipped,
           check.largest_gap_flipped);
    /* Of another type than f16 its difference to f16 is bound. */
    bool holds = check.positions == 4096 && check.wide_gaps > 1000 &&
                 (type != KV_TYPE_F16 ||
                  (check.divergence / n <= 0.005 && fabs(change) <= 0.005 &&
                   (double)check.greedy_equal >= 0.95 * n && check.wide_gaps_flipped == 0));
    holds = report("positions", kernels_isa(run.kernels), holds);
    model_run_close(&run);
    free(top);
    json_decref(json);
    return holds;
}

/* --- another type of KV beside f16, in one table, both against the reference: against each other
 * they would differ by all the rounding of inputs, which the least change shakes up --- */

static bool kv_run(const char *isa, enum kv_type type, double kl_max, double change_max)
{
    struct positions_figures f16;
    struct positions_figures other;
    bool holds = positions_run(isa, KV_TYPE_F16, &f16) && positions_run(isa, type, &other);
    if (!holds)
        return false;
    double change = (1 + other.change) / (1 + f16.change) - 1;
    double kl = other.mean_kl - f16.mean_kl;
    printf("{\"check\": \"kv-%s\", \"isa\": \"%s\", \"perplexity_difference_percent\": %.3f, "
           "\"added_kl\": %.6f",
           kernels_kv_type_name(type), isa, 100 * change, kl);
    return report("kv", isa, change <= change_max && kl <= kl_max);
}

/* --- another type of KV alone, or weights of 4 bits: beside f16, with weights as F16, whose inputs
 * nobody rounds --- */

struct alone {
    struct model_run runs[2]; /* f16 and the other */
    double divergence;
    double change; /* of the log-likelihood of a text's tokens, summed */
    uint64_t positions;
    uint64_t greedy_equal;
};

/* KL(f16 ‖ other) of one position over the whole vocabulary. */
static void alone_compare(struct alone *alone, const float *f16, const float *other, uint32_t next)
{
    uint32_t vocab = model_config(alone->runs[0].model)->vocab;
    uint32_t best[2] = {model_run_argmax(&alone->runs[0], f16),
                        model_run_argmax(&alone->runs[1], other)};
    double log_sum[2] = {positions_log_sum(f16, vocab, (double)f16[best[0]]),
                         positions_log_sum(other, vocab, (double)other[best[1]])};
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        double log_p = (double)f16[i] - log_sum[0];
        sum += exp(log_p) * (log_p - ((double)other[i] - log_sum[1]));
    }
    alone->divergence += sum;
    alone->change += (double)f16[next] - log_sum[0] - ((double)other[next] - log_sum[1]);
    alone->greedy_equal += best[0] == best[1];
    alone->positions++;
}

static void alone_text(struct alone *alone, const uint32_t *ids)
{
    uint32_t vocab = model_config(alone->runs[0].model)->vocab;
    for (uint32_t from = 0; from < POSITIONS; from += ROWS) {
        const float *f16 = model_run_chunk(&alone->runs[0], 0, from, ids + from, ROWS);
        const float *other = model_run_chunk(&alone->runs[1], 0, from, ids + from, ROWS);
        for (uint32_t r = 0; r < ROWS; r++)
            alone_compare(alone, f16 + (size_t)r * vocab, other + (size_t)r * vocab,
                          ids[from + r + 1]);
    }
}

static void alone_open(struct alone *alone, const char *isa, enum kv_type type,
                       enum model_weights weights)
{
    struct buffer bytes;
    struct gguf *gguf = open_file();
    struct gguf *halves = NULL;
    if (half_model_build(gguf, &bytes) != STATUS_OK ||
        gguf_parse(&halves, bytes.bytes, bytes.length) != STATUS_OK)
        die("weights as F16");
    open_run(&alone->runs[0], halves, isa, KV_TYPE_F16, MODEL_WEIGHTS_FILE);
    open_run(&alone->runs[1], halves, isa, type, weights);
    gguf_close(halves);
    gguf_close(gguf);
    buffer_deinit(&bytes);
}

static bool alone_run(const char *isa, enum kv_type type, enum model_weights weights, double kl_max,
                      double change_max)
{
    struct alone alone = {.positions = 0};
    json_t *json = load("positions.json");
    double change = 0;
    size_t i;
    const json_t *text;
    alone_open(&alone, isa, type, weights);
    json_array_foreach(json_object_get(json, "texts"), i, text)
    {
        uint32_t ids[TOKENS_MAX];
        if (ids_of(json_object_get(text, "ids"), ids) <= POSITIONS)
            exit(1);
        alone.change = 0;
        alone_text(&alone, ids);
        change += exp(alone.change / POSITIONS) - 1;
    }
    double kl = alone.divergence / (double)alone.positions;
    change /= (double)i;
    printf("{\"check\": \"alone-%s\", \"weights\": \"%s\", \"isa\": \"%s\", \"positions\": %llu, "
           "\"mean_kl\": %.6f, "
           "\"perplexity_difference_percent\": %.3f, \"greedy_equal_percent\": %.2f",
           kernels_kv_type_name(type), model_weights_name(weights),
           kernels_isa(alone.runs[0].kernels), (unsigned long long)alone.positions, kl,
           100 * change, 100 * (double)alone.greedy_equal / (double)alone.positions);
    model_run_close(&alone.runs[0]);
    model_run_close(&alone.runs[1]);
    json_decref(json);
    return report("alone", isa, alone.positions == 4096 && kl <= kl_max && change <= change_max);
}

int main(int argc, char **argv)
{
    const char *check = argc > 1 ? argv[1] : "";
    const char *given = getenv("KERNELS_ISA");
    const char *isa = given != NULL ? given : "auto";
    for (size_t i = 0; argc > 2 && i < sizeof REALS / sizeof REALS[0]; i++)
        if (strcmp(argv[2], REALS[i].folder) == 0)
            real = &REALS[i];
    if (strcmp(check, "perplexity-text") == 0)
        return text_run(isa, KV_TYPE_F16, real->text_change) ? 0 : 1;
    if (strcmp(check, "logits-f32") == 0)
        return logits_run(check, KV_TYPE_F32, 0.002, 0.002) ? 0 : 1;
    if (strcmp(check, "logits-f16") == 0)
        return logits_run(check, KV_TYPE_F16, 0.003, 0.1) ? 0 : 1;
    if (strcmp(check, "perplexity") == 0)
        return perplexity_run() ? 0 : 1;
    if (strcmp(check, "positions") == 0)
        return positions_run(isa, KV_TYPE_F16, &(struct positions_figures){0}) ? 0 : 1;
    if (strcmp(check, "kv-i8") == 0)
        return kv_run(isa, KV_TYPE_I8, 0.003, 0.003) ? 0 : 1;
    if (strcmp(check, "kv-f16q") == 0)
        return kv_run(isa, KV_TYPE_F16Q, 0.003, 0.003) ? 0 : 1;
    if (strcmp(check, "kv-k4v8") == 0)
        return kv_run(isa, KV_TYPE_K4V8, 0.006, 0.01) ? 0 : 1;
    if (strcmp(check, "kv-k4v4") == 0)
        return kv_run(isa, KV_TYPE_K4V4, 0.008, 0.01) ? 0 : 1;
    if (strcmp(check, "alone-i8") == 0)
        return alone_run(isa, KV_TYPE_I8, MODEL_WEIGHTS_FILE, 0.003, 0.003) ? 0 : 1;
    if (strcmp(check, "weights-int4") == 0)
        return alone_run(isa, KV_TYPE_F16, MODEL_WEIGHTS_INT4, 0.65, 0.65) ? 0 : 1;
    fprintf(stderr,
            "usage: parity_smollm2 logits-f32 | logits-f16 | perplexity | perplexity-text | "
            "positions | kv-i8 | kv-f16q | kv-k4v8 | kv-k4v4 | alone-i8 | weights-int4\n");
    return 2;
}
