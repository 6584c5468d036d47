/* decoder: the sliding window of rows whose layers all have it (Mistral, Phi-3, StarCoder 2). In a
 * model of one layer a key depends on its own token and position alone, and rope on differences of
 * positions. So a row of a long text has the logits that the window alone would give it. */
#include "engine/models/decoder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/model_run.h"
#include "tests/kit/tiny_model.h"

enum { ROWS = 40, WINDOW = 12 };

static uint32_t tokens[ROWS];

/* Logits of the last of `count` tokens from `first` on, by a model with that window (0 = none). */
static void last_logits(const char *name, uint32_t window, uint32_t first, uint32_t count,
                        float *out)
{
    struct tiny_model model = *tiny_model_find(name);
    struct model_run run;
    struct buffer file;
    struct gguf *gguf;
    model.layers = 1;
    model.window = window;
    tiny_model_build(&model, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    const struct model_run_options options = {.isa = "ref",
                                              .threads = 1,
                                              .kv_type = KV_TYPE_F32,
                                              .rows_max = ROWS,
                                              .sequences = 1,
                                              .tokens_max = ROWS};
    assert_int_equal(model_run_open(&run, gguf, &options), STATUS_OK);
    const float *logits = model_run_chunk(&run, 0, 0, tokens + first, count);
    memcpy(out, logits + (size_t)(count - 1) * TINY_VOCAB, TINY_VOCAB * sizeof *out);
    model_run_close(&run);
    gguf_close(gguf);
    buffer_deinit(&file);
}

static float largest_difference(const float *a, const float *b)
{
    float largest = 0;
    for (uint32_t i = 0; i < TINY_VOCAB; i++)
        largest = fmaxf(largest, fabsf(a[i] - b[i]));
    return largest;
}

static void test_a_row_reads_its_window(void **state)
{
    (void)state;
    static const char *const names[] = {"mistral", "phi3_short", "starcoder2"};
    static float windowed[TINY_VOCAB], alone[TINY_VOCAB];
    for (uint32_t i = 0; i < ROWS; i++)
        tokens[i] = (i * 37 + 11) % TINY_VOCAB;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        last_logits(names[i], WINDOW, 0, ROWS, windowed);
        last_logits(names[i], 0, ROWS - WINDOW, WINDOW, alone);
        const float same = largest_difference(windowed, alone);
        float others = INFINITY; /* one token more or fewer, or all */
        last_logits(names[i], 0, ROWS - WINDOW - 1, WINDOW + 1, alone);
        others = fminf(others, largest_difference(windowed, alone));
        last_logits(names[i], 0, ROWS - WINDOW + 1, WINDOW - 1, alone);
        others = fminf(others, largest_difference(windowed, alone));
        last_logits(names[i], 0, 0, ROWS, alone);
        others = fminf(others, largest_difference(windowed, alone));
        print_message("%s: %.1e from its window alone, at least %.1e from other windows\n",
                      names[i], (double)same, (double)others);
        assert_true(same <= 1e-4f);
        assert_true(others >= 20 * 1e-4f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_reads_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
