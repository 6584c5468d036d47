/* bench_scheduler: what a step costs besides its forward pass, with many queued requests.
 *
 * usage: bench_scheduler [STEP_US]
 *
 * Runs the engine's real step over a model that computes nothing: 16 sequences, prompts of 64 to
 * 512 tokens, answers of 16 to 64, in all classes, of 500 tenants with different weights. Each
 * request that ends is replaced, so that the queue stays equally long. Timed is step_once without
 * the forward pass: cancels and deadlines, throttling, the view, the plan, pages, the cache,
 * sampling, events. Prints a JSON line for 16 and for 10,000 queued requests; with STEP_US, the
 * time of a real step on this machine (tests/bench/RESULTS.md), also the share of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/base/clock.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/step/step.h"
#include "tests/kit/gguf_writer.h"

enum {
    VOCAB = 256,
    CONTEXT = 1024,
    PAGE_TOKENS = 16,
    SEQUENCES = 16,
    ROWS = 256,
    TENANTS = 500,
    STEPS_WARM = 300,
    STEPS = 2000,
};

struct model {
    struct model_config config;
    float logits[ROWS * VOCAB];
};

struct bench {
    struct clock clock;
    struct buffer vocab_file;
    struct gguf *gguf;
    struct vocab *vocab;
    struct kernels *kernels;
    struct kv_layout layout;
    struct ticket_table tickets;
    struct step step;
    struct rng rng;
    uint32_t waiting;
    int64_t took_ns[STEPS];
};

static struct model model = {.config = {.layers = 1,
                                        .width = 2,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .head_dim = 2,
                                        .vocab = VOCAB,
                                        .context = CONTEXT}};
static struct bench bench;
static int64_t forward_ns;

static void must(enum status status, const char *what)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "bench_scheduler: %s: %s\n", what, status_note()->message);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

const struct model_config *model_config(const struct model *of)
{
    return &of->config;
}

const float *model_states(const struct model *of)
{
    (void)of;
    abort(); /* nobody asks for embeddings */
}

/* Each step takes a millisecond whatever is in it, so that floors and budgets see time pass. */
const float *model_forward(struct model *of, const struct model_batch *batch)
{
    int64_t began_ns = now_ns();
    for (uint32_t i = 0; i < batch->logit_rows; i++)
        of->logits[(size_t)i * VOCAB + (batch->tokens[0] * 31 + i) % VOCAB] += 1e-3f;
    clock_manual_advance(&bench.clock, 1000);
    forward_ns += now_ns() - began_ns;
    return of->logits;
}

static void open_vocab(void)
{
    static char texts[VOCAB][8];
    static const char *pointers[VOCAB];
    struct gguf_writer writer;
    for (uint32_t t = 0; t < VOCAB; t++) {
        snprintf(texts[t], sizeof(texts[t]), "%x", t);
        pointers[t] = texts[t];
    }
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", pointers, VOCAB);
    gguf_writer_u32(&writer, "tokenizer.ggml.eos_token_id", VOCAB - 1);
    gguf_writer_finish(&writer, &bench.vocab_file);
    gguf_writer_deinit(&writer);
    must(gguf_parse(&bench.gguf, bench.vocab_file.bytes, bench.vocab_file.length), "vocabulary");
    must(vocab_create(&bench.vocab, bench.gguf), "vocabulary");
}

static void open_step(void)
{
    const struct kernels_options kernels_options = {
        .isa = "ref", .threads = 1, .rows_max = ROWS, .cols_max = 64};
    must(kernels_create(&bench.kernels, &kernels_options), "kernels");
    must(kernels_kv_layout(bench.kernels, KV_TYPE_F32, PAGE_TOKENS, 1, 1, 2, &bench.layout),
         "layout");
    must(ticket_table_init(&bench.tickets, 2 * bench.waiting + 64, (size_t)1 << 30), "tickets");
    const uint64_t pages = 2 * SEQUENCES * CONTEXT / PAGE_TOKENS;
    const struct step_options options = {
        .kernels = bench.kernels,
        .model = &model,
        .vocab = bench.vocab,
        .layout = &bench.layout,
        .tickets = &bench.tickets,
        .clock = &bench.clock,
        .kv_bytes = pages * bench.layout.page_bytes,
        .kv_host_bytes = pages * bench.layout.page_bytes,
        .context = CONTEXT,
        .rows_max = ROWS,
        .logit_rows_max = ROWS,
        .sequences_max = SEQUENCES,
        .step_ms = 10,
        .cache_seed = 7,
    };
    must(step_init(&bench.step, &options), "step");
}

static void submit(void)
{
    static uint32_t tokens[CONTEXT];
    struct engine_request asked = {
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = tokens,
        .token_count = 64 + rng_below(&bench.rng, 449),
        .choices = 1,
        .tokens_max = (uint32_t)(16 + rng_below(&bench.rng, 49)),
        .sampling = {.top_p = 1},
        .ignore_end = true,
    };
    uint32_t tenant = (uint32_t)rng_below(&bench.rng, TENANTS);
    uint32_t slot;
    engine_request_id id;
    for (uint32_t t = 0; t < asked.token_count; t++)
        tokens[t] = (uint32_t)rng_below(&bench.rng, VOCAB);
    for (uint32_t i = 0; i < sizeof(asked.domain.bytes); i++)
        asked.domain.bytes[i] = (uint8_t)((tenant + 1) * (i + 1) >> (i % 2 * 4));
    asked.domain.bytes[15] = 1;
    asked.tenant = asked.domain;
    asked.weight = 25u << tenant % 6;
    asked.service_class = (enum service_class)rng_below(&bench.rng, SERVICE_CLASS_COUNT);
    must(ticket_acquire(&bench.tickets, &asked, clock_mono_us(&bench.clock), &slot, &id), "slot");
    must(ticket_take_tokens(&bench.tickets, slot, VOCAB, CONTEXT), "prompt");
    inbox_push(&bench.step.inbox, slot);
}

/* Delivers all events and submits a request for each that has ended. */
static void take(void)
{
    const struct engine_logprob *top;
    struct slice text;
    const struct outbox_record *record;
    while ((record = outbox_next(&bench.step.outbox, &top, &text)) != NULL) {
        if (record->sequence != SEQUENCE_NONE)
            atomic_fetch_add(&bench.step.sequences.slots[record->sequence].records_taken, 1);
        if (record->kind == ENGINE_EVENT_TOKEN)
            ticket_acknowledge(&bench.tickets, atomic_load(&bench.tickets.slots[record->slot].id),
                               record->choice, 1);
        if (record->kind != ENGINE_EVENT_END && record->kind != ENGINE_EVENT_ERROR)
            continue;
        ticket_release(&bench.tickets, record->slot);
        submit();
    }
}

static int compare(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a;
    int64_t other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

static void measure(uint32_t waiting, double step_us)
{
    bench.waiting = waiting;
    bench.rng = (struct rng){.seed = 1};
    clock_manual_init(&bench.clock, 1000);
    open_step();
    for (uint32_t i = 0; i < waiting + SEQUENCES; i++)
        submit();
    for (uint32_t i = 0; i < STEPS_WARM + STEPS; i++) {
        forward_ns = 0;
        int64_t began_ns = now_ns();
        step_once(&bench.step);
        int64_t took_ns = now_ns() - began_ns - forward_ns;
        if (i >= STEPS_WARM)
            bench.took_ns[i - STEPS_WARM] = took_ns;
        take();
    }
    int64_t sum_ns = 0;
    for (uint32_t i = 0; i < STEPS; i++)
        sum_ns += bench.took_ns[i];
    qsort(bench.took_ns, STEPS, sizeof(bench.took_ns[0]), compare);
    double mean_us = (double)sum_ns / STEPS / 1e3;
    printf("{\"bench\":\"scheduler\",\"waiting\":%u,\"mean_us\":%.1f,\"median_us\":%.1f,"
           "\"p99_us\":%.1f",
           waiting, mean_us, (double)bench.took_ns[STEPS / 2] / 1e3,
           (double)bench.took_ns[STEPS * 99 / 100] / 1e3);
    if (step_us > 0)
        printf(",\"step_us\":%.0f,\"share\":%.4f", step_us, mean_us / step_us);
    puts("}");
    step_deinit(&bench.step);
    ticket_table_deinit(&bench.tickets);
    kernels_destroy(bench.kernels);
}

int main(int argc, char **argv)
{
    double step_us = argc > 1 ? strtod(argv[1], NULL) : 0;
    open_vocab();
    measure(SEQUENCES, step_us);
    measure(10000, step_us);
    vocab_destroy(bench.vocab);
    gguf_close(bench.gguf);
    buffer_deinit(&bench.vocab_file);
    return 0;
}
