/* bench_grammar: processor time of compilations and masks, for grammar_bench.py.
 *
 * usage: bench_grammar FILE.gguf --vocab      prints {"bytes": hex, "control": bool} for each token
 *        bench_grammar FILE.gguf < LINES      {"schema": text, "texts": [text, …]}
 *
 * The answer to a line is {"refused": sentence}, or {"compile_us": …, "bytes": …, "walks":
 * [{"tokens": [id, …], "mask_us": […], "whole": bool}, …]}: each text is cut into the longest
 * tokens, and before each of them a mask is made without a bound of fuel. A walk ends where a token
 * is refused. Time is the thread's processor time. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/grammar/grammar_mask.h"
#include "engine/models/vocab.h"
#include "engine/schema/constraint.h"

enum { LINE_MAX_BYTES = 8 << 20 };

struct bench {
    struct vocab *vocab;
    struct token_trie *trie;
    struct token_classes *classes;
    uint32_t *mask;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_grammar: %s: %s\n", what, status_note()->message);
    exit(1);
}

static double thread_us(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        die("no clock");
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct slice bytes_of(const void *context, uint32_t id)
{
    const struct vocab *vocab = context;
    enum vocab_kind kind = vocab_kind(vocab, id);
    bool is_text = kind == VOCAB_NORMAL || kind == VOCAB_USER_DEFINED || kind == VOCAB_BYTE;
    return is_text ? vocab_bytes(vocab, id) : (struct slice){NULL, 0};
}

static void print_vocab(const struct bench *bench)
{
    for (uint32_t id = 0; id < vocab_size(bench->vocab); id++) {
        struct slice bytes = bytes_of(bench->vocab, id);
        printf("{\"control\":%s,\"bytes\":\"", bytes.length == 0 ? "true" : "false");
        for (size_t i = 0; i < bytes.length; i++)
            printf("%02x", (unsigned)(unsigned char)bytes.bytes[i]);
        printf("\"}\n");
    }
}

/* The id of the longest token with which the text begins. */
static uint32_t longest(const struct token_trie *trie, struct slice text)
{
    const struct token_trie_node *nodes = token_trie_nodes(trie);
    uint32_t best = TOKEN_TRIE_NONE;
    uint32_t at = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint32_t end = at + nodes[at].size;
        uint32_t child = at + 1;
        while (child < end && nodes[child].byte != (uint8_t)text.bytes[i])
            child += nodes[child].size;
        if (child >= end)
            break;
        at = child;
        if (nodes[at].token != TOKEN_TRIE_NONE)
            best = nodes[at].token;
    }
    return best;
}

static json_t *walk(const struct bench *bench, struct grammar *grammar, struct slice text)
{
    struct grammar_run *run;
    json_t *tokens = json_array();
    json_t *times = json_array();
    bool is_whole = false;
    if (grammar_run_new(grammar, bench->trie, &run) != STATUS_OK)
        die("run");
    grammar_run_use_classes(run, bench->classes);
    while (true) {
        double before = thread_us();
        enum grammar_mask_result result = grammar_mask_make(run, UINT32_MAX, bench->mask);
        json_array_append_new(times, json_real(thread_us() - before));
        if (result != GRAMMAR_MASK_DONE)
            break;
        is_whole = text.length == 0 && grammar_run_accepts(run);
        uint32_t id = text.length != 0 ? longest(bench->trie, text) : TOKEN_TRIE_NONE;
        if (id == TOKEN_TRIE_NONE)
            break;
        bool is_allowed = (bench->mask[id / 32] >> id % 32 & 1) != 0;
        if (grammar_run_commit(run, id) != is_allowed)
            die("mask and commit differ");
        if (!is_allowed)
            break;
        json_array_append_new(tokens, json_integer(id));
        size_t length = token_trie_bytes(bench->trie, id).length;
        text = (struct slice){text.bytes + length, text.length - length};
    }
    grammar_run_free(run);
    return json_pack("{s:o, s:o, s:b}", "tokens", tokens, "mask_us", times, "whole", is_whole);
}

static json_t *measure(const struct bench *bench, const json_t *line)
{
    struct constraint_options options = {0};
    struct constraint_error error;
    struct grammar_fuel fuel;
    struct grammar *grammar;
    struct byte_set missing = token_trie_missing(bench->trie);
    memcpy(options.missing_bytes, missing.words, sizeof missing.words);
    const json_t *schema = json_object_get(line, "schema");
    struct slice source = {json_string_value(schema), json_string_length(schema)};
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    double before = thread_us();
    enum status status =
        constraint_compile(CONSTRAINT_JSON_SCHEMA, source, &options, &fuel, &grammar, &error);
    if (status == STATUS_OK)
        grammar_mask_classes(grammar, bench->classes);
    double compile_us = thread_us() - before;
    if (status != STATUS_OK)
        return json_pack("{s:s, s:f}", "refused", error.message, "compile_us", compile_us);
    json_t *walks = json_array();
    const json_t *texts = json_object_get(line, "texts");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        json_array_append_new(
            walks, walk(bench, grammar,
                        (struct slice){json_string_value(text), json_string_length(text)}));
    }
    json_t *answer = json_pack("{s:f, s:i, s:i, s:o}", "compile_us", compile_us, "bytes",
                               (int)grammar_bytes(grammar), "steps",
                               (int)(LIMIT_COMPILE_STEPS - fuel.left), "walks", walks);
    grammar_drop(grammar);
    return answer;
}

int main(int count, char **words)
{
    struct bench bench;
    struct gguf *gguf;
    if (count < 2) {
        fprintf(stderr, "usage: bench_grammar FILE.gguf [--vocab]\n");
        return 2;
    }
    if (gguf_open(&gguf, words[1]) != STATUS_OK || vocab_create(&bench.vocab, gguf) != STATUS_OK)
        die(words[1]);
    struct token_trie_source source = {vocab_size(bench.vocab), bytes_of, bench.vocab};
    if (token_trie_new(&source, &bench.trie) != STATUS_OK ||
        token_classes_new(bench.trie, &bench.classes) != STATUS_OK)
        die("trie");
    bench.mask = malloc(token_trie_mask_words(bench.trie) * sizeof *bench.mask);
    char *line = malloc(LINE_MAX_BYTES);
    if (bench.mask == NULL || line == NULL)
        die("no memory");
    if (count > 2)
        print_vocab(&bench);
    while (count == 2 && fgets(line, LINE_MAX_BYTES, stdin) != NULL) {
        json_t *read = json_loads(line, 0, NULL);
        if (read == NULL)
            die("a line is no JSON");
        json_t *answer = measure(&bench, read);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(read);
    }
    free(bench.mask);
    free(line);
    token_classes_free(bench.classes);
    token_trie_free(bench.trie);
    vocab_destroy(bench.vocab);
    gguf_close(gguf);
    return 0;
}
