#include "engine/engine_pooling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/llama_file.h"

/* A model file with the key, or without it for a negative number. */
static enum status find(enum engine_pooling *out, const char *word, int32_t number)
{
    const struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct buffer file;
    struct gguf *gguf;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    if (number >= 0)
        gguf_writer_u32(&writer, "llama.pooling_type", (uint32_t)number);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    const struct model_source source = {.gguf = gguf};
    enum status status = engine_pooling_find(out, word, &source);
    gguf_close(gguf);
    buffer_deinit(&file);
    return status;
}

static void test_of_the_file(void **state)
{
    static const struct {
        int32_t number;
        enum status status;
        enum engine_pooling pooling;
    } rows[] = {
        {-1, STATUS_OK, ENGINE_POOLING_NONE},
        {0, STATUS_OK, ENGINE_POOLING_NONE},
        {1, STATUS_OK, ENGINE_POOLING_MEAN},
        {2, STATUS_OK, ENGINE_POOLING_FIRST},
        {3, STATUS_OK, ENGINE_POOLING_LAST},
        {4, STATUS_UNSUPPORTED, ENGINE_POOLING_NONE},
        {9999, STATUS_UNSUPPORTED, ENGINE_POOLING_NONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum engine_pooling pooling = ENGINE_POOLING_NONE;
        assert_int_equal(find(&pooling, i % 2 == 0 ? "auto" : NULL, rows[i].number),
                         rows[i].status);
        assert_int_equal(pooling, rows[i].pooling);
    }
}

static void test_words_overrule_the_file(void **state)
{
    enum engine_pooling pooling;
    (void)state;
    assert_int_equal(find(&pooling, "off", 1), STATUS_OK);
    assert_int_equal(pooling, ENGINE_POOLING_NONE);
    assert_int_equal(find(&pooling, "last", 4), STATUS_OK);
    assert_int_equal(pooling, ENGINE_POOLING_LAST);
    assert_int_equal(find(&pooling, "mean", -1), STATUS_OK);
    assert_int_equal(pooling, ENGINE_POOLING_MEAN);
    assert_int_equal(find(&pooling, "cls", -1), STATUS_OK);
    assert_int_equal(pooling, ENGINE_POOLING_FIRST);
    assert_int_equal(find(&pooling, "first", -1), STATUS_INVALID);
    assert_int_equal(engine_pooling_check(ENGINE_POOLING_FIRST, false), STATUS_UNSUPPORTED);
    assert_int_equal(engine_pooling_check(ENGINE_POOLING_FIRST, true), STATUS_OK);
    assert_int_equal(engine_pooling_check(ENGINE_POOLING_NONE, false), STATUS_OK);
    assert_int_equal(engine_pooling_check(ENGINE_POOLING_NONE, true), STATUS_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_the_file),
        cmocka_unit_test(test_words_overrule_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
