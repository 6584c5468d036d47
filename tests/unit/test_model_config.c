#include "engine/models/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "engine/models/model.h"
#include "tests/kit/llama_file.h"

static enum status config_of(struct gguf_writer *writer, struct model_config *config)
{
    struct buffer file;
    struct gguf *gguf;
    gguf_writer_finish(writer, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    enum status status = model_config_read(config, &(struct model_source){.gguf = gguf});
    gguf_close(gguf);
    buffer_deinit(&file);
    return status;
}

static void test_config_is_read(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct model_config config;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_string(&writer, "general.name", "Some model");
    gguf_writer_f32(&writer, "llama.rope.freq_base", 500000);
    gguf_writer_u32(&writer, "llama.expert_count", 0); /* means: none */
    gguf_writer_string(&writer, "llama.rope.scaling.type", "none");
    gguf_writer_f32(&writer, "llama.rope.scaling.factor", 1);
    assert_int_equal(config_of(&writer, &config), STATUS_OK);
    gguf_writer_deinit(&writer);
    assert_string_equal(config.architecture, "llama");
    assert_string_equal(config.name, "Some model");
    assert_int_equal(config.layers, 2);
    assert_int_equal(config.width, 64);
    assert_int_equal(config.heads, 4);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.head_dim, 32);
    assert_int_equal(config.hidden, 96);
    assert_int_equal(config.vocab, 83);
    assert_int_equal(config.context, 512);
    assert_int_equal(config.rope_dims, 32);
    assert_float_equal(config.ropes[0].base, 500000, 0);
    assert_float_equal(config.norm_epsilon, 1e-5f, 0);
    uint64_t matrices = 64 * 128 * 2 + 64 * 64 * 2 + 3 * 64 * 96;
    assert_int_equal(config.parameters, 83 * 64 + 64 + 2 * (matrices + 2 * 64));
    assert_int_equal(config.weight_bytes, 4 * config.parameters);
    assert_int_equal(model_cols_max(&config), 128);
}

static void test_defaults(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct model_config config;
    char long_name[300];
    shape.heads = shape.kv_heads = 2; /* keys of width ÷ heads, as many as heads: no keys needed */
    memset(long_name, 'a', sizeof long_name);
    memcpy(long_name + 126, "\xc3\xa9", 2); /* would be cut in its middle */
    long_name[sizeof long_name - 1] = '\0';
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_string(&writer, "general.name", long_name);
    assert_int_equal(config_of(&writer, &config), STATUS_OK);
    gguf_writer_deinit(&writer);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.head_dim, 32);
    assert_float_equal(config.ropes[0].base, 10000, 0);
    assert_int_equal(strlen(config.name), 126);

    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_string(&writer, "general.name", "\x1b[31mred");
    assert_int_equal(config_of(&writer, &config), STATUS_OK);
    gguf_writer_deinit(&writer);
    assert_string_equal(config.name, "llama");
}

/* One key of a right file is replaced. */
static enum status config_with(const char *key, uint32_t value)
{
    struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct model_config config;
    shape.without = key;
    shape.rope_dims = 32;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_u32(&writer, key, value);
    enum status status = config_of(&writer, &config);
    gguf_writer_deinit(&writer);
    return status;
}

static void test_counts_at_their_limits(void **state)
{
    (void)state;
    const struct {
        const char *key;
        uint32_t value;
        enum status status;
    } cases[] = {
        {"llama.block_count", 0, STATUS_CORRUPT},
        {"llama.block_count", LIMIT_LAYERS, STATUS_OK},
        {"llama.block_count", LIMIT_LAYERS + 1, STATUS_CORRUPT},
        {"llama.block_count", UINT32_MAX, STATUS_CORRUPT},
        {"llama.context_length", 0, STATUS_CORRUPT},
        {"llama.context_length", LIMIT_CONTEXT, STATUS_OK},
        {"llama.context_length", LIMIT_CONTEXT + 1, STATUS_CORRUPT},
        {"llama.feed_forward_length", 0, STATUS_CORRUPT},
        {"llama.feed_forward_length", LIMIT_HIDDEN + 1, STATUS_CORRUPT},
        {"llama.embedding_length", 0, STATUS_CORRUPT},
        {"llama.embedding_length", 65, STATUS_CORRUPT}, /* the embedding table has 64 columns */
        {"llama.embedding_length", LIMIT_WIDTH + 1, STATUS_CORRUPT},
        {"llama.attention.head_count", 0, STATUS_CORRUPT},
        {"llama.attention.head_count", 3, STATUS_CORRUPT}, /* no multiple of 2 */
        {"llama.attention.head_count", LIMIT_HEADS + 1, STATUS_CORRUPT},
        {"llama.attention.head_count_kv", 0, STATUS_CORRUPT},
        {"llama.attention.head_count_kv", 8, STATUS_CORRUPT},
        {"llama.attention.key_length", 0, STATUS_CORRUPT},
        {"llama.attention.key_length", 64, STATUS_UNSUPPORTED}, /* values have 32 */
        {"llama.attention.key_length", LIMIT_HEAD_DIM + 2, STATUS_CORRUPT},
        {"llama.rope.dimension_count", 0, STATUS_CORRUPT},
        {"llama.rope.dimension_count", 31, STATUS_CORRUPT},
        {"llama.rope.dimension_count", 34, STATUS_CORRUPT},
        {"llama.rope.dimension_count", 16, STATUS_OK},
        {"llama.vocab_size", 82, STATUS_CORRUPT},
        {"llama.vocab_size", 83, STATUS_OK},
        {"llama.vocab_size", 84, STATUS_CORRUPT},
        {"llama.attention.layer_norm_rms_epsilon", 1, STATUS_CORRUPT}, /* not a float */
        {"llama.expert_count", 8, STATUS_UNSUPPORTED},
        {"llama.expert_group_count", 2, STATUS_UNSUPPORTED},
        {"llama.expert_shared_count", 1, STATUS_UNSUPPORTED},
        {"llama.attention.q_lora_rank", 0, STATUS_UNSUPPORTED},
        {"llama.attention.q_lora_rank", 512, STATUS_UNSUPPORTED},
        {"llama.ssm.state_size", 16, STATUS_UNSUPPORTED},
        {"llama", 1, STATUS_OK},
        {"llama.attention.sliding_window", 4096, STATUS_OK},
        {"llama.attention.sliding_window", 0, STATUS_OK},
        {"general.architecture", 1, STATUS_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = config_with(cases[i].key, cases[i].value);
        if (status != cases[i].status)
            fail_msg("%s = %u: %s", cases[i].key, cases[i].value, status_name(status));
        if (status != STATUS_OK)
            assert_non_null(strchr(status_note()->message, ' '));
    }
}

/* A window of some of the layers would be computed in all of them. */
static void test_window_pattern(void **state)
{
    (void)state;
    const struct {
        uint32_t window;
        enum status status;
    } cases[] = {{0, STATUS_OK}, {16, STATUS_UNSUPPORTED}, {UINT32_MAX, STATUS_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct llama_shape shape = llama_file_shape();
        struct gguf_writer writer;
        struct model_config config;
        gguf_writer_init(&writer);
        llama_file_write(&writer, &shape);
        gguf_writer_u32(&writer, "llama.attention.sliding_window", cases[i].window);
        gguf_writer_u32(&writer, "llama.attention.sliding_window_pattern", 6);
        assert_int_equal(config_of(&writer, &config), cases[i].status);
        if (cases[i].status == STATUS_OK)
            assert_int_equal(config.kinds[0].window, 0);
        gguf_writer_deinit(&writer);
    }
}

static void test_missing_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"general.architecture",
                                       "llama.block_count",
                                       "llama.context_length",
                                       "llama.embedding_length",
                                       "llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.layer_norm_rms_epsilon",
                                       "token_embd.weight"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct llama_shape shape = llama_file_shape();
        struct gguf_writer writer;
        struct model_config config;
        shape.without = keys[i];
        gguf_writer_init(&writer);
        llama_file_write(&writer, &shape);
        assert_int_equal(config_of(&writer, &config), STATUS_NOT_FOUND);
        assert_non_null(strstr(status_note()->message, keys[i]));
        gguf_writer_deinit(&writer);
    }
}

static enum status config_with_f32(const char *key, float value)
{
    struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct model_config config;
    shape.without = key;
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_f32(&writer, key, value);
    enum status status = config_of(&writer, &config);
    gguf_writer_deinit(&writer);
    return status;
}

static void test_reals_at_their_limits(void **state)
{
    (void)state;
    const char *epsilon = "llama.attention.layer_norm_rms_epsilon";
    assert_int_equal(config_with_f32(epsilon, 0), STATUS_CORRUPT);
    assert_int_equal(config_with_f32(epsilon, -1e-5f), STATUS_CORRUPT);
    assert_int_equal(config_with_f32(epsilon, 0.1f), STATUS_OK);
    assert_int_equal(config_with_f32(epsilon, 0.2f), STATUS_CORRUPT);
    assert_int_equal(config_with_f32(epsilon, __builtin_nanf("")), STATUS_CORRUPT);
    assert_int_equal(config_with_f32("llama.rope.freq_base", 0.5f), STATUS_CORRUPT);
    assert_int_equal(config_with_f32("llama.rope.freq_base", 1e13f), STATUS_CORRUPT);
    assert_int_equal(config_with_f32("llama.rope.scaling.factor", 4), STATUS_UNSUPPORTED);
    assert_int_equal(config_with_f32("llama.logit_scale", 0.25f), STATUS_UNSUPPORTED);
    assert_int_equal(config_with_f32("llama.logit_scale", 0), STATUS_OK);
}

static void test_tokens_and_embeddings_agree(void **state)
{
    (void)state;
    for (uint32_t tokens = 259; tokens <= 260; tokens++) {
        struct llama_shape shape = llama_file_shape();
        struct gguf_writer writer;
        struct model_config config;
        shape.vocab = 259;
        gguf_writer_init(&writer);
        llama_file_write(&writer, &shape);
        llama_file_write_tokenizer(&writer, tokens);
        assert_int_equal(config_of(&writer, &config), tokens == 259 ? STATUS_OK : STATUS_CORRUPT);
        gguf_writer_deinit(&writer);
    }
}

static void test_other_architectures_are_refused(void **state)
{
    (void)state;
    struct llama_shape shape = llama_file_shape();
    struct gguf_writer writer;
    struct model_config config;
    shape.without = "general.architecture";
    gguf_writer_init(&writer);
    llama_file_write(&writer, &shape);
    gguf_writer_string(&writer, "general.architecture", "mamba");
    assert_int_equal(config_of(&writer, &config), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "mamba"));
    gguf_writer_deinit(&writer);

    gguf_writer_init(&writer);
    shape.without = NULL;
    llama_file_write(&writer, &shape);
    gguf_writer_string(&writer, "llama.rope.scaling.type", "dynamic");
    assert_int_equal(config_of(&writer, &config), STATUS_UNSUPPORTED);
    gguf_writer_deinit(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_is_read),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_counts_at_their_limits),
        cmocka_unit_test(test_window_pattern),
        cmocka_unit_test(test_missing_keys),
        cmocka_unit_test(test_reals_at_their_limits),
        cmocka_unit_test(test_tokens_and_embeddings_agree),
        cmocka_unit_test(test_other_architectures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
