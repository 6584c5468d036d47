/* parity_schema: compiles schemas and runs their grammars over single bytes, for
 * tests/e2e/test_schemas.py.
 *
 * Standard input is a list of records: a letter, a number, a line end, and that many bytes.
 *   S  a schema; the answer is "ok", or status, path, keyword and sentence between tabs
 *   T  the same, with strict: true
 *   O  any object: no bytes
 *   I  a text; the answer is 1 if the last grammar accepts it, 0 if not, and how many bytes it took
 *   W  a seed in decimal digits; the answer is a text that the grammar wrote from allowed bytes
 *      that were chosen at random, as hexadecimal digits, or "-" if it did not end
 * Each answer is a line. After a schema that is refused, I and W answer "0 0" and "-".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/base/limits_grammar.h"
#include "config/base/rng.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_mask.h"
#include "engine/grammar/grammar_run.h"
#include "engine/grammar/token_trie.h"
#include "engine/schema/constraint.h"

enum { BYTES = 256, WALK_BYTES = 4000, RECORD_BYTES = 1 << 20 };

static struct grammar *grammar;
static struct token_trie *trie;

static struct slice byte_of(const void *context, uint32_t id)
{
    return (struct slice){(const char *)context + id, 1};
}

static int64_t cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void compile(enum constraint_kind kind, struct slice source, bool is_strict)
{
    struct constraint_options options = {.strict = is_strict};
    struct constraint_error error;
    struct grammar_fuel fuel;
    grammar_drop(grammar);
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, NULL);
    int64_t from = cpu_us();
    enum status status = constraint_compile(kind, source, &options, &fuel, &grammar, &error);
    int64_t spent = cpu_us() - from;
    if (status == STATUS_OK)
        printf("ok\t%" PRId64 "\t%" PRIu64 "\n", spent, LIMIT_COMPILE_STEPS - fuel.left);
    else
        printf("%s\t%" PRId64 "\t%" PRIu64 "\t%s\t%s\t%s\n", status_name(status), spent,
               LIMIT_COMPILE_STEPS - fuel.left, error.path, error.keyword, error.message);
}

static struct grammar_run *begin(void)
{
    struct grammar_run *run = NULL;
    if (grammar != NULL && grammar_run_new(grammar, trie, &run) != STATUS_OK)
        run = NULL;
    return run;
}

static void match(struct slice text)
{
    struct grammar_run *run = begin();
    size_t taken = 0;
    while (run != NULL && taken < text.length &&
           grammar_run_commit(run, (uint8_t)text.bytes[taken]))
        taken++;
    bool is_whole = run != NULL && taken == text.length && grammar_run_accepts(run);
    printf("%d %zu\n", is_whole, taken);
    grammar_run_free(run);
}

/* Chooses an allowed byte. Marks that end something are preferred, so that texts end. */
static int choose(struct rng *rng, const uint32_t *mask)
{
    int allowed[BYTES];
    uint32_t count = 0;
    for (int byte = 0; byte < BYTES; byte++) {
        if ((mask[byte / 32] >> (byte % 32) & 1) != 0)
            allowed[count++] = byte;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (strchr("\"]}", allowed[i]) != NULL && allowed[i] != 0 && rng_below(rng, 4) == 0)
            return allowed[i];
    }
    return count > 0 ? allowed[rng_below(rng, count)] : -1;
}

static void walk(uint64_t seed)
{
    struct grammar_run *run = begin();
    struct rng rng = {.seed = seed};
    char text[WALK_BYTES];
    size_t length = 0;
    bool has_ended = false;
    while (run != NULL && length < WALK_BYTES) {
        uint32_t mask[BYTES / 32];
        has_ended = grammar_run_accepts(run) && rng_below(&rng, 3) == 0;
        if (has_ended)
            break;
        while (grammar_mask_make(run, LIMIT_GRAMMAR_MASK_FUEL, mask) == GRAMMAR_MASK_SUSPENDED)
            ;
        int byte = choose(&rng, mask);
        has_ended = byte < 0 && grammar_run_accepts(run);
        if (byte < 0 || !grammar_run_commit(run, (uint32_t)byte))
            break;
        text[length++] = (char)byte;
    }
    if (!has_ended)
        puts(length == WALK_BYTES ? "-" : "stuck");
    for (size_t i = 0; i < length && has_ended; i++)
        printf("%02x", (uint8_t)text[i]);
    if (has_ended)
        puts("");
    grammar_run_free(run);
}

int main(void)
{
    static char record[RECORD_BYTES];
    char bytes[BYTES];
    char kind;
    size_t length;
    for (int byte = 0; byte < BYTES; byte++)
        bytes[byte] = (char)byte;
    const struct token_trie_source source = {.vocab = BYTES, .bytes = byte_of, .context = bytes};
    if (token_trie_new(&source, &trie) != STATUS_OK)
        return 1;
    while (scanf(" %c %zu", &kind, &length) == 2) {
        if (getchar() != '\n' || length >= RECORD_BYTES ||
            fread(record, 1, length, stdin) != length)
            return fprintf(stderr, "the record is broken\n"), 1;
        record[length] = '\0';
        struct slice text = {record, length};
        if (kind == 'I')
            match(text);
        else if (kind == 'W')
            walk(strtoull(record, NULL, 10));
        else
            compile(kind == 'O' ? CONSTRAINT_JSON_OBJECT : CONSTRAINT_JSON_SCHEMA, text,
                    kind == 'T');
        fflush(stdout);
    }
    grammar_drop(grammar);
    token_trie_free(trie);
    return 0;
}
