#include "engine/models/model_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "engine/models/model.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/tiny_model.h"

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
        {"llama.expert_count", 8, STATUS_NOT_FOUND}, /* how many of them are used */
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

/* --- rows of other architectures --- */

struct tiny_config {
    struct gguf_writer writer;
    struct buffer file;
    struct gguf *gguf;
    struct model_source source;
    const struct arch *arch;
    struct model_config config;
};

static void tiny_begin(struct tiny_config *tiny, const char *name)
{
    assert_non_null(tiny_model_find(name));
    gguf_writer_init(&tiny->writer);
    tiny_model_write(&tiny->writer, tiny_model_find(name));
}

static enum status tiny_read(struct tiny_config *tiny)
{
    gguf_writer_finish(&tiny->writer, &tiny->file);
    gguf_writer_deinit(&tiny->writer);
    assert_int_equal(gguf_parse(&tiny->gguf, tiny->file.bytes, tiny->file.length), STATUS_OK);
    tiny->source = (struct model_source){.gguf = tiny->gguf};
    return model_config_read_arch(&tiny->config, &tiny->source, &tiny->arch);
}

static void tiny_end(struct tiny_config *tiny)
{
    gguf_close(tiny->gguf);
    buffer_deinit(&tiny->file);
}

/* Each layer's window and table of frequencies, and whether it has rope: as the papers say. */
static void check_kinds(const char *name, const char *windows, const char *tables)
{
    struct tiny_config tiny;
    tiny_begin(&tiny, name);
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    for (uint32_t i = 0; i < tiny.config.layers; i++) {
        const struct layer_kind *kind = &tiny.config.kinds[tiny.config.kind_of[i]];
        assert_int_equal(kind->window, windows[i] == 'w' ? 16 : 0);
        assert_int_equal(kind->has_rope, tables[i] != '-');
        if (kind->has_rope)
            assert_int_equal(kind->frequencies, tables[i] - '0');
    }
    assert_int_equal(strlen(windows), tiny.config.layers);
    assert_int_equal(model_config_warn(&tiny.config, tiny.arch, &tiny.source), 0);
    tiny_end(&tiny);
}

static void test_kinds_of_layers(void **state)
{
    (void)state;
    check_kinds("llama", "..", "00");
    check_kinds("gemma2", "w.w.", "0000");
    check_kinds("gemma3", "wwwww.w", "1111101");
    check_kinds("gemma3_linear", "wwwww.w", "1111101");
    check_kinds("olmo2", "..", "00");
    check_kinds("olmo3", "www.w", "11101");
    check_kinds("gpt_oss", "w.", "00");
    check_kinds("smollm3", "....", "000-");
}

static void test_numbers_of_rows(void **state)
{
    (void)state;
    struct tiny_config tiny;
    tiny_begin(&tiny, "gemma3_linear");
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_true(tiny.config.embed_scale == 8); /* √64 */
    assert_true(tiny.config.ropes[0].base == 1e6f && tiny.config.ropes[1].base == 1e4f);
    assert_int_equal(tiny.config.ropes[0].scaling, MODEL_ROPE_LINEAR);
    assert_true(tiny.config.ropes[0].factor == 8);
    assert_int_equal(tiny.config.ropes[1].scaling, MODEL_ROPE_PLAIN);
    assert_true(tiny.config.logit_softcap == 0 && tiny.config.attention_softcap == 0);
    assert_true(tiny.config.attention_scale == 1.0f / sqrtf(32));
    tiny_end(&tiny);

    tiny_begin(&tiny, "gemma2");
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_true(tiny.config.logit_softcap == 30 && tiny.config.attention_softcap == 50);
    tiny_end(&tiny);

    tiny_begin(&tiny, "gpt_oss");
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_int_equal(tiny.config.ropes[0].scaling, MODEL_ROPE_YARN);
    assert_false(tiny.config.ropes[0].is_rounded);
    assert_true(fabs((double)tiny.config.ropes[0].table_factor - (0.1 * log(32) + 1)) < 1e-6);
    assert_int_equal(tiny.config.experts, 4);
    assert_int_equal(tiny.config.experts_used, 2);
    assert_int_equal(tiny.config.hidden, 64);
    tiny_end(&tiny);

    tiny_begin(&tiny, "phi3_long");
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_int_equal(tiny.config.ropes[0].scaling, MODEL_ROPE_LONG);
    assert_int_equal(tiny.config.ropes[0].original_context, 32);
    assert_int_equal(tiny.config.rope_dims, 24);
    tiny_end(&tiny);

    tiny_begin(&tiny, "olmo2");
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_true(tiny.config.has_row_norms);
    tiny_end(&tiny);
}

/* The two largest Gemmas scale queries by another size. */
static void test_wide_models_scale_queries_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t layers;
        bool is_wide;
    } cases[] = {
        {"gemma2", 46, true}, {"gemma2", 42, false}, {"gemma3", 62, true}, {"gemma3", 46, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiny_config tiny;
        struct tiny_model model = *tiny_model_find(cases[i].name);
        model.layers = cases[i].layers;
        gguf_writer_init(&tiny.writer);
        tiny_model_write(&tiny.writer, &model);
        assert_int_equal(tiny_read(&tiny), STATUS_OK);
        const float size = cases[i].is_wide ? 64.0f / 4 : 32;
        assert_true(tiny.config.attention_scale == 1.0f / sqrtf(size));
        tiny_end(&tiny);
    }
}

/* A key that one row reads is refused in files of another one, and so is one that nobody knows. */
static void test_keys_of_other_rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *key;
        uint32_t value;
        enum status status;
    } cases[] = {
        {"qwen2", "qwen2.attention.sliding_window", 64, STATUS_UNSUPPORTED},
        {"qwen2", "qwen2.attention.sliding_window", 0, STATUS_OK},
        {"qwen2", "qwen2.rope.dimension_sections", 4, STATUS_UNSUPPORTED},
        {"qwen2", "qwen2.expert_count", 4, STATUS_UNSUPPORTED},
        {"qwen3", "qwen3.rope.freq_base_swa", 10000, STATUS_UNSUPPORTED},
        {"qwen3", "qwen3moe.expert_count", 4, STATUS_OK}, /* of nobody in this file */
        {"gemma", "gemma.final_logit_softcapping", 30, STATUS_UNSUPPORTED},
        {"gemma3", "gemma3.attn_logit_softcapping", 50, STATUS_UNSUPPORTED},
        {"starcoder2", "starcoder2.attention.layer_norm_rms_epsilon", 1, STATUS_UNSUPPORTED},
        {"qwen3moe", "qwen3moe.expert_shared_feed_forward_length", 64, STATUS_UNSUPPORTED},
        {"qwen3moe", "qwen3moe.expert_gating_func", 2, STATUS_UNSUPPORTED}, /* a sigmoid */
        {"qwen3moe", "qwen3moe.expert_gating_func", 1, STATUS_OK},
        {"qwen3moe", "qwen3moe.leading_dense_block_count", 1, STATUS_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiny_config tiny;
        tiny_begin(&tiny, cases[i].name);
        gguf_writer_u32(&tiny.writer, cases[i].key, cases[i].value);
        const enum status status = tiny_read(&tiny);
        if (status != cases[i].status)
            fail_msg("%s = %u: %s", cases[i].key, cases[i].value, status_name(status));
        if (status != STATUS_OK)
            assert_non_null(strstr(status_note()->message, cases[i].key));
        tiny_end(&tiny);
    }
}

static void test_numbers_of_experts(void **state)
{
    (void)state;
    static const struct {
        uint32_t experts;
        uint32_t used;
        enum status status;
        const char *says;
    } cases[] = {
        {8, 2, STATUS_OK, ""},
        {8, 8, STATUS_OK, ""},
        {8, 9, STATUS_CORRUPT, "expert_used_count' is 9, but there are 8 experts"},
        {8, 0, STATUS_CORRUPT, "expert_used_count"},
        {LIMIT_EXPERTS + 1, 2, STATUS_CORRUPT, "expert_count"},
        {LIMIT_EXPERTS, LIMIT_EXPERTS_USED + 1, STATUS_CORRUPT, "expert_used_count"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiny_config tiny;
        struct tiny_model model = *tiny_model_find("qwen3moe");
        model.layers = 1;
        model.expert_hidden = 16;
        model.experts = cases[i].experts;
        model.experts_used = cases[i].used;
        gguf_writer_init(&tiny.writer);
        tiny_model_write(&tiny.writer, &model);
        const enum status status = tiny_read(&tiny);
        if (status != cases[i].status ||
            (status != STATUS_OK && strstr(status_note()->message, cases[i].says) == NULL))
            fail_msg("%u of %u: %s: %s", cases[i].used, cases[i].experts, status_name(status),
                     status_note()->message);
        tiny_end(&tiny);
    }
    for (uint32_t has_key = 0; has_key < 2; has_key++) { /* files that end behind the sizes */
        struct tiny_config tiny;
        gguf_writer_init(&tiny.writer);
        gguf_writer_string(&tiny.writer, "general.architecture", "qwen3moe");
        gguf_writer_u32(&tiny.writer, "qwen3moe.block_count", 1);
        gguf_writer_u32(&tiny.writer, "qwen3moe.embedding_length", 64);
        if (has_key)
            gguf_writer_u32(&tiny.writer, "qwen3moe.expert_count", 0);
        assert_int_equal(tiny_read(&tiny), has_key ? STATUS_CORRUPT : STATUS_NOT_FOUND);
        assert_non_null(strstr(status_note()->message, "qwen3moe.expert_count"));
        tiny_end(&tiny);
    }
}

/* The warnings about a file whose row wins, whose line in the log must say this. */
static void expect_warning(const struct tiny_config *tiny, const char *says)
{
    char line[1024] = "";
    FILE *log_file = tmpfile();
    assert_non_null(log_file);
    log_open(fileno(log_file), LOG_WARN, "unit");
    const uint32_t warnings = model_config_warn(&tiny->config, tiny->arch, &tiny->source);
    log_open(STDERR_FILENO, LOG_INFO, "unit");
    rewind(log_file);
    assert_int_equal(warnings, 1);
    assert_non_null(fgets(line, sizeof line, log_file));
    if (strstr(line, "\"model_metadata\"") == NULL || strstr(line, says) == NULL)
        fail_msg("%s is not in %s", says, line);
    fclose(log_file);
}

/* `says` is what the warning says; NULL: there is none. */
static void read_with_pattern(const char *name, const uint8_t *is_local, uint32_t count,
                              enum status want, const char *says)
{
    struct tiny_config tiny;
    char key[64];
    tiny_begin(&tiny, name);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", name);
    gguf_writer_array(&tiny.writer, key, GGUF_WRITER_BOOL, count, is_local, count);
    assert_int_equal(tiny_read(&tiny), want);
    if (want != STATUS_OK)
        assert_non_null(strstr(status_note()->message, key));
    else if (says != NULL)
        expect_warning(&tiny, says);
    else
        assert_int_equal(model_config_warn(&tiny.config, tiny.arch, &tiny.source), 0);
    assert_int_equal(tiny.config.kind_count, want == STATUS_OK ? 2 : 0);
    tiny_end(&tiny);
}

/* The row wins over a pattern that says something else, and the log has both; one that is shorter
 * than the layers is no pattern. */
static void test_a_pattern_that_contradicts(void **state)
{
    (void)state;
    const uint8_t right[] = {1, 1, 1, 1, 1, 0, 1, 1};
    const uint8_t wrong[] = {1, 1, 1, 0, 1, 1, 1};
    read_with_pattern("gemma3", right, 7, STATUS_OK, NULL);
    read_with_pattern("gemma3", right, 8, STATUS_OK, NULL);
    read_with_pattern("gemma3", wrong, 7, STATUS_OK,
                      "\"key\":\"gemma3.attention.sliding_window_pattern\","
                      "\"file\":\"layer 3: all\",\"used\":\"layer 3: window\"");
    read_with_pattern("gemma3", right, 6, STATUS_CORRUPT, NULL);
    read_with_pattern("gemma3", right, 0, STATUS_CORRUPT, NULL);

    struct tiny_config tiny;
    tiny_begin(&tiny, "gemma3");
    gguf_writer_u32(&tiny.writer, "gemma3.attention.sliding_window_pattern", 4);
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    expect_warning(&tiny, "\"file\":\"4\",\"used\":\"6\"");
    assert_int_equal(tiny.config.kind_of[3], 1);
    tiny_end(&tiny);

    tiny_begin(&tiny, "olmoe");
    gguf_writer_bool(&tiny.writer, "olmoe.expert_weights_norm", 1);
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    expect_warning(&tiny, "\"key\":\"olmoe.expert_weights_norm\",\"file\":\"true\","
                          "\"used\":\"false\"");
    tiny_end(&tiny);
}

static void test_a_window_is_needed(void **state)
{
    (void)state;
    static const char *const names[] = {"gemma3", "gpt_oss"};
    for (size_t i = 0; i < 2; i++) {
        struct tiny_config tiny;
        struct tiny_model model = *tiny_model_find(names[i]);
        model.window = 0;
        gguf_writer_init(&tiny.writer);
        tiny_model_write(&tiny.writer, &model);
        assert_int_equal(tiny_read(&tiny), STATUS_NOT_FOUND);
        assert_non_null(strstr(status_note()->message, "sliding_window"));
        tiny_end(&tiny);
    }
}

/* Without the key that says how positions are stretched a factor is refused, and YaRN without its
 * numbers. */
static void test_yarn_needs_its_numbers(void **state)
{
    (void)state;
    struct tiny_config tiny;
    tiny_begin(&tiny, "qwen2");
    gguf_writer_string(&tiny.writer, "qwen2.rope.scaling.type", "yarn");
    assert_int_equal(tiny_read(&tiny), STATUS_NOT_FOUND);
    assert_non_null(strstr(status_note()->message, "rope.scaling.factor"));
    tiny_end(&tiny);

    tiny_begin(&tiny, "qwen2");
    gguf_writer_string(&tiny.writer, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(&tiny.writer, "qwen2.rope.scaling.factor", 4);
    gguf_writer_u32(&tiny.writer, "qwen2.rope.scaling.original_context_length", 64);
    assert_int_equal(tiny_read(&tiny), STATUS_OK);
    assert_true(tiny.config.ropes[0].is_rounded);
    assert_true(tiny.config.ropes[0].beta_fast == 32 && tiny.config.ropes[0].beta_slow == 1);
    tiny_end(&tiny);

    tiny_begin(&tiny, "qwen2");
    gguf_writer_string(&tiny.writer, "qwen2.rope.scaling.type", "longrope");
    assert_int_equal(tiny_read(&tiny), STATUS_UNSUPPORTED);
    tiny_end(&tiny);
}

/* Keys of 4 bits wait in open groups of all layers, which two windows would divide. */
static void test_two_windows_and_keys_of_4_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool has_two;
    } cases[] = {{"llama", false}, {"smollm3", false}, {"gemma3", true}, {"gpt_oss", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiny_config tiny;
        tiny_begin(&tiny, cases[i].name);
        assert_int_equal(tiny_read(&tiny), STATUS_OK);
        assert_int_equal(model_config_has_two_windows(&tiny.config), cases[i].has_two);
        for (enum kv_type type = KV_TYPE_K4V8; type <= KV_TYPE_K4V4; type++) {
            assert_int_equal(model_config_check_kv(&tiny.config, type),
                             cases[i].has_two ? STATUS_UNSUPPORTED : STATUS_OK);
            if (!cases[i].has_two)
                continue;
            assert_non_null(strstr(status_note()->message, "two windows, of 16 tokens"));
            assert_non_null(strstr(status_note()->message, kernels_kv_type_name(type)));
        }
        assert_int_equal(model_config_check_kv(&tiny.config, KV_TYPE_I8), STATUS_OK);
        tiny_end(&tiny);
    }
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
        cmocka_unit_test(test_kinds_of_layers),
        cmocka_unit_test(test_numbers_of_rows),
        cmocka_unit_test(test_wide_models_scale_queries_otherwise),
        cmocka_unit_test(test_keys_of_other_rows_are_refused),
        cmocka_unit_test(test_numbers_of_experts),
        cmocka_unit_test(test_a_pattern_that_contradicts),
        cmocka_unit_test(test_a_window_is_needed),
        cmocka_unit_test(test_yarn_needs_its_numbers),
        cmocka_unit_test(test_two_windows_and_keys_of_4_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
