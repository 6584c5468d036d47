/* bench_tokenizer: how fast one thread turns text into tokens.
 *
 * usage: bench_tokenizer FILE.gguf TEXT [seconds]
 *
 * Encodes the file TEXT again and again, without control tokens, and prints a JSON line: bytes and
 * tokens of the text, and megabytes (10^6 bytes) a second of the fastest and of the median round.
 * Time is the thread's processor time, so that other programs do not count. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/base/clock.h"
#include "engine/text/tokenizer.h"

enum { ROUNDS_MAX = 1000, TEXT_MAX = 64 << 20 };

static void die(const char *what)
{
    fprintf(stderr, "bench_tokenizer: %s: %s\n", what, status_note()->message);
    exit(1);
}

static int64_t thread_us(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        die("no clock");
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct slice read_text(const char *path)
{
    char *bytes = malloc(TEXT_MAX);
    FILE *file = fopen(path, "rb");
    if (bytes == NULL || file == NULL)
        die(path);
    size_t length = fread(bytes, 1, TEXT_MAX, file);
    fclose(file);
    return (struct slice){bytes, length};
}

static void measure(const struct tokenizer *tokenizer, struct slice text, double seconds)
{
    static double rates[ROUNDS_MAX];
    const struct clock *clock = clock_system();
    size_t most = tokenizer_most(tokenizer, text);
    uint32_t *ids = malloc((most + 1) * sizeof *ids);
    int64_t end_us = clock_mono_us(clock) + (int64_t)(seconds * 1e6);
    size_t count = 0;
    int rounds = 0;
    if (ids == NULL)
        die("no memory");
    do {
        int64_t begin_us = thread_us();
        if (tokenizer_encode(tokenizer, text, NULL, 0, ids, most, &count) != STATUS_OK)
            die("encode");
        rates[rounds++] = (double)text.length / (double)(thread_us() - begin_us);
    } while (rounds < 3 || (rounds < ROUNDS_MAX && clock_mono_us(clock) < end_us));
    qsort(rates, (size_t)rounds, sizeof rates[0], by_value);
    printf("{\"bytes\": %zu, \"tokens\": %zu, \"rounds\": %d, \"mb_s_best\": %.2f, "
           "\"mb_s_median\": %.2f}\n",
           text.length, count, rounds, rates[rounds - 1], rates[rounds / 2]);
    free(ids);
}

int main(int argument_count, char **arguments)
{
    struct gguf *gguf = NULL;
    struct vocab *vocab = NULL;
    struct tokenizer *tokenizer = NULL;
    if (argument_count != 3 && argument_count != 4) {
        fputs("usage: bench_tokenizer FILE.gguf TEXT [seconds]\n", stderr);
        return 2;
    }
    if (gguf_open(&gguf, arguments[1]) != STATUS_OK || vocab_create(&vocab, gguf) != STATUS_OK ||
        tokenizer_create(&tokenizer, vocab, gguf) != STATUS_OK)
        die(arguments[1]);
    struct slice text = read_text(arguments[2]);
    measure(tokenizer, text, argument_count == 4 ? strtod(arguments[3], NULL) : 3);
    free((char *)text.bytes);
    tokenizer_destroy(tokenizer);
    vocab_destroy(vocab);
    gguf_close(gguf);
    return 0;
}
