/* bench_lexer: what the walk of a vocabulary costs in a lexer's states, whole and by class.
 *
 * usage: bench_lexer FILE.gguf      prints one JSON line for each figure
 *
 * One thread, its processor time. States are those inside a string of JSON, free and with at most
 * 64 letters, in a number, and at an enum of 100 words. A whole walk looks at every node that is
 * not dead; a walk by class copies the mask of the class and looks at the tokens that are left. The
 * first walk fills the lexer's table. Both masks are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/base/mem.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/lexer.h"
#include "engine/grammar/regex_parse.h"
#include "engine/grammar/token_class.h"
#include "engine/models/vocab.h"

enum { ROUNDS = 200, WORDS = 100 };

static struct vocab *vocab;
static struct token_trie *trie;
static struct token_classes *classes;
static uint32_t *mask;

static void die(const char *what)
{
    fprintf(stderr, "bench_lexer: %s: %s\n", what, status_note()->message);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        die("no clock");
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct slice word_of(const void *context, uint32_t id)
{
    enum vocab_kind kind = vocab_kind(context, id);
    bool is_text = kind == VOCAB_NORMAL || kind == VOCAB_USER_DEFINED || kind == VOCAB_BYTE;
    return is_text ? vocab_bytes(context, id) : (struct slice){NULL, 0};
}

static void open_model(const char *path)
{
    struct gguf *gguf;
    if (gguf_open(&gguf, path) != STATUS_OK || vocab_create(&vocab, gguf) != STATUS_OK)
        die(path);
    gguf_close(gguf);
    struct token_trie_source source = {vocab_size(vocab), word_of, vocab};
    double began = now_us();
    if (token_trie_new(&source, &trie) != STATUS_OK ||
        token_classes_new(trie, &classes) != STATUS_OK)
        die("trie");
    double took = now_us() - began;
    uint32_t missing = 0;
    struct byte_set set = token_trie_missing(trie);
    for (uint32_t byte = 0; byte < 256; byte++)
        missing += byte_set_has(&set, (uint8_t)byte);
    printf("{\"what\":\"trie\",\"vocab\":%u,\"nodes\":%u,\"bytes\":%zu,\"ms\":%.1f,"
           "\"missing_bytes\":%u}\n",
           token_trie_vocab(trie), token_trie_node_count(trie), token_trie_memory(trie), took / 1e3,
           missing);
    mask = mem_zalloc(token_trie_mask_words(trie), sizeof *mask);
    if (mask == NULL)
        die("mask");
}

/* Adds the tokens of a tree that stay alive; returns the nodes that were looked at. */
static uint32_t walk(struct lexer *lexer, uint32_t state, const struct token_trie_part *part)
{
    uint32_t states[TOKEN_TRIE_DEPTH + 1] = {state}, looks = 0;
    for (uint32_t i = 1; i < part->count; looks++) {
        const struct token_trie_node *node = &part->nodes[i];
        uint32_t next = lexer_step(lexer, states[node->depth - 1], (uint8_t)node->byte);
        if (next == LEXER_DEAD) {
            i += (uint32_t)node->size;
            continue;
        }
        states[node->depth] = next;
        for (uint32_t id = (uint32_t)node->token; id != TOKEN_TRIE_NONE;
             id = token_trie_next(trie, id))
            mask[id / 32] |= 1u << id % 32;
        i++;
    }
    return looks;
}

static void measure_whole(struct lexer *lexer, uint32_t state, const char *name)
{
    size_t bytes = token_trie_mask_words(trie) * sizeof *mask;
    memset(mask, 0, bytes);
    double began = now_us();
    uint32_t looks = walk(lexer, state, &trie->all);
    double first = now_us() - began;
    began = now_us();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        memset(mask, 0, bytes);
        looks = walk(lexer, state, &trie->all);
    }
    double took = (now_us() - began) / ROUNDS;
    printf("{\"what\":\"whole\",\"state\":\"%s\",\"nodes\":%u,\"us\":%.2f,\"ns_node\":%.2f,"
           "\"first_us\":%.2f,\"states\":%u}\n",
           name, looks, took, took * 1e3 / looks, first, lexer_state_count(lexer));
}

static void measure_class(struct lexer *lexer, uint32_t state, const char *name)
{
    struct regex_run run = lexer_run(lexer, state);
    if (run.chars == REGEX_RUN_NONE)
        return;
    size_t bytes = token_trie_mask_words(trie) * sizeof *mask;
    uint32_t *whole = mem_alloc(bytes), count, looks = 0;
    const struct regex_range *ranges = lexer_chars(lexer, run.chars, &count);
    double began = now_us();
    const struct token_class *class = token_classes_make(classes, ranges, count);
    double making = now_us() - began;
    if (whole == NULL || class == NULL || !token_class_fits(class, run))
        die(name);
    memcpy(whole, mask, bytes);
    began = now_us();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        memcpy(mask, token_class_mask(class, run.max), bytes);
        looks = walk(lexer, state, &class->rest);
    }
    double took = (now_us() - began) / ROUNDS;
    bool is_same = memcmp(whole, mask, bytes) == 0;
    printf("{\"what\":\"class\",\"state\":\"%s\",\"rest_nodes\":%u,\"nodes\":%u,\"us\":%.2f,"
           "\"make_ms\":%.2f,\"all_bytes\":%zu,\"same\":%s}\n",
           name, class->rest.count, looks, took, making / 1e3, token_classes_bytes(classes),
           is_same ? "true" : "false");
    token_classes_release(classes, class);
    mem_free(whole);
    if (!is_same)
        exit(1);
}

/* The state behind `before` in a lexeme of this regex. */
static void measure(const char *name, const char *source, const char *before)
{
    struct regex_pool *pool;
    struct lexer *lexer;
    struct grammar_fuel fuel;
    struct regex_error error;
    regex_node_id id;
    uint32_t which = 0, state;
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    if (regex_pool_new(&fuel, &pool) != STATUS_OK)
        die(name);
    struct byte_set missing = token_trie_missing(trie);
    regex_pool_cut(pool, &missing);
    double began = now_us();
    if (regex_parse(pool, slice_of(source), REGEX_WHOLE, &id, &error) != STATUS_OK)
        die(name);
    struct lexer_lexeme lexeme = {id, false};
    if (lexer_new(pool, &lexeme, 1, &lexer) != STATUS_OK ||
        lexer_start(lexer, &which, 1, &state) != STATUS_OK)
        die(name);
    printf("{\"what\":\"compile\",\"state\":\"%s\",\"us\":%.1f,\"bytes\":%zu,\"classes\":%u}\n",
           name, now_us() - began, lexer_bytes(lexer), lexer->classes);
    for (; *before != '\0'; before++)
        state = lexer_step(lexer, state, (uint8_t)*before);
    measure_whole(lexer, state, name);
    measure_class(lexer, state, name);
    lexer_free(lexer);
    regex_pool_free(pool);
}

int main(int argc, char **argv)
{
    static char words[WORDS * 16] = "";
    if (argc != 2) {
        fprintf(stderr, "usage: bench_lexer FILE.gguf\n");
        return 2;
    }
    open_model(argv[1]);
    for (uint32_t i = 0; i < WORDS; i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%sname_%u", i == 0 ? "\"(" : "|", i * 37);
    }
    size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, ")\"");
    measure("string", "\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\bfnrt]|u00[01][0-9a-f]))*\"", "\"a");
    measure("plain string", "\"[^\"\\\\\\x00-\\x1f]*\"", "\"a");
    measure("64 letters", "\"[a-z]{1,64}\"", "\"a");
    measure("8 characters", "\"[^\"\\\\\\x00-\\x1f]{1,8}\"", "\"a");
    measure("number", "-?(0|[1-9]\\d{0,17})(\\.\\d{1,17})?([eE][+-]?\\d{1,2})?,", "");
    measure("enum", words, "\"");
    token_classes_free(classes);
    token_trie_free(trie);
    vocab_destroy(vocab);
    mem_free(mask);
    return 0;
}
