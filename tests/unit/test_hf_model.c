#include "engine/models/hf_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "tests/kit/model_run.h"
#include "tests/kit/tiny_folder.h"

enum { TOKENS = 40, VOCAB = TINY_VOCAB };

static void open_folder(const struct hf_writer *folder, struct model_source *out)
{
    if (model_source_open_descriptor(out, folder->descriptor) != STATUS_OK)
        fail_msg("%s", status_note()->message);
}

/* Everything but the sizes of the file, which has other types. */
static void check_config(const struct model_source *source, const struct model_source *gguf,
                         const char *name)
{
    struct model_config own;
    struct model_config want;
    assert_int_equal(model_config_read(&want, gguf), STATUS_OK);
    if (model_config_read(&own, source) != STATUS_OK)
        fail_msg("%s: %s", name, status_note()->message);
    if (memcmp(&own, &want, sizeof own) != 0)
        fail_msg("%s: other hyper-parameters", name);
}

static void logits_of(const struct model_source *source, const char *name, float *out)
{
    struct model_run run;
    uint32_t tokens[TOKENS];
    const struct model_run_options options = {.isa = "ref",
                                              .threads = 1,
                                              .kv_type = KV_TYPE_F32,
                                              .rows_max = TOKENS,
                                              .sequences = 1,
                                              .tokens_max = TOKENS};
    if (model_run_open_source(&run, source, &options) != STATUS_OK)
        fail_msg("%s: %s", name, status_note()->message);
    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = (i * 73 + 5) % VOCAB;
    memcpy(out, model_run_chunk(&run, 0, 0, tokens, TOKENS), TOKENS * VOCAB * sizeof *out);
    model_run_close(&run);
}

/* One model as a GGUF file and as directories of one and of three files, in both spellings. */
static void check_model(const struct tiny_model *model)
{
    static float want[TOKENS * VOCAB];
    static float own[TOKENS * VOCAB];
    struct buffer file;
    struct gguf *gguf;
    tiny_model_build(model, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    const struct model_source gguf_source = {.gguf = gguf};
    logits_of(&gguf_source, model->name, want);
    for (uint32_t files = 1; files <= 3; files += 2) {
        struct hf_writer folder;
        struct model_source source;
        hf_writer_init(&folder);
        tiny_folder_write(&folder, model, files,
                          files == 1 ? TINY_SPELLING_OLD : TINY_SPELLING_NEW);
        open_folder(&folder, &source);
        check_config(&source, &gguf_source, model->name);
        logits_of(&source, model->name, own);
        if (memcmp(own, want, sizeof own) != 0)
            fail_msg("%s in %u files: other logits", model->name, files);
        model_source_close(&source);
        hf_writer_deinit(&folder);
    }
    gguf_close(gguf);
    buffer_deinit(&file);
}

static void test_every_model_has_the_bits_of_its_gguf_file(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < tiny_model_count(); i++)
        check_model(tiny_model_at(i));
}

static void test_matrices_of_half_the_size(void **state)
{
    static const char *const names[] = {"llama", "mixtral", "gpt_oss", "gemma3"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tiny_model model = *tiny_model_find(names[i]);
        model.type = model.expert_type = TENSOR_TYPE_bf16;
        check_model(&model);
        model.type = model.expert_type = TENSOR_TYPE_f16;
        check_model(&model);
    }
}

/* Each thing that a load does to q, k and norms must be seen in the logits: a GGUF file without it
 * has others. */
static void test_rows_of_q_and_k_matter(void **state)
{
    static float want[TOKENS * VOCAB];
    static float own[TOKENS * VOCAB];
    struct tiny_model model = *tiny_model_find("mistral");
    struct hf_writer folder;
    struct model_source source;
    struct buffer file;
    struct gguf *gguf;
    (void)state;
    hf_writer_init(&folder);
    tiny_folder_write(&folder, &model, 1, TINY_SPELLING_OLD);
    open_folder(&folder, &source);
    logits_of(&source, "mistral", own);
    model.is_unpermuted = true;
    tiny_model_build(&model, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    logits_of(&(struct model_source){.gguf = gguf}, "mistral", want);
    float most = 0;
    for (size_t i = 0; i < TOKENS * VOCAB; i++)
        most = fmaxf(most, fabsf(own[i] - want[i]));
    assert_true(most > 0.01f);
    gguf_close(gguf);
    buffer_deinit(&file);
    model_source_close(&source);
    hf_writer_deinit(&folder);
}

static int count_bytes(void *context, size_t bytes)
{
    *(size_t *)context += bytes;
    return 0;
}

/* A load takes memory for its own tensor alone; one that takes parts of biases, for all of them. */
static void test_a_load_takes_one_tensor_of_memory(void **state)
{
    static const char *const names[] = {"llama", "mixtral", "gpt_oss", "gpt_oss_mxfp4", "gemma3"};
    (void)state;
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m++) {
        struct hf_writer folder;
        struct hf_model *model;
        hf_writer_init(&folder);
        tiny_folder_write(&folder, tiny_model_find(names[m]), 3, TINY_SPELLING_NEW);
        assert_int_equal(hf_model_open(&model, folder.descriptor), STATUS_OK);
        for (uint32_t i = 0; i < hf_tensors_count(hf_model_tensors(model)); i++) {
            struct tensor tensor;
            struct slice name;
            void *memory;
            size_t taken = 0;
            hf_tensors_at(hf_model_tensors(model), i, &name, &tensor);
            const bool is_bias = tensor.dim_count == 2 && name.bytes[name.length - 1] == 's';
            mem_hook_set(count_bytes, &taken);
            assert_int_equal(hf_tensors_load(hf_model_tensors(model), i, &tensor, &memory),
                             STATUS_OK);
            mem_hook_set(NULL, NULL);
            assert_true(taken <= (is_bias ? 3 : 1) * tensor.bytes);
            mem_free(memory);
        }
        hf_model_close(model);
        hf_writer_deinit(&folder);
    }
}

static int fail_after(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return (*left)-- > 0 ? 0 : 1;
}

static void test_no_memory_at_any_point_leaks_nothing(void **state)
{
    enum status status = STATUS_NO_MEMORY;
    struct hf_writer folder;
    int tries = 0;
    (void)state;
    hf_writer_init(&folder);
    tiny_folder_write(&folder, tiny_model_find("gpt_oss_mxfp4"), 3, TINY_SPELLING_NEW);
    for (; status == STATUS_NO_MEMORY; tries++) {
        struct hf_model *model;
        int left = tries;
        mem_hook_set(fail_after, &left);
        status = hf_model_open(&model, folder.descriptor);
        for (uint32_t i = 0; status == STATUS_OK && i < hf_tensors_count(hf_model_tensors(model));
             i++) {
            struct tensor tensor;
            void *memory;
            status = hf_tensors_load(hf_model_tensors(model), i, &tensor, &memory);
            mem_free(memory);
        }
        mem_hook_set(NULL, NULL);
        hf_model_close(model);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(tries > 50);
    hf_writer_deinit(&folder);
}

static void test_folders_without_a_file(void **state)
{
    struct hf_writer folder;
    struct model_source source;
    (void)state;
    hf_writer_init(&folder);
    assert_int_equal(model_source_open(&source, folder.path), STATUS_NOT_FOUND);
    assert_non_null(strstr(status_note()->message, "config.json"));
    hf_writer_file(&folder, "config.json", SLICE("{"));
    assert_int_equal(model_source_open(&source, folder.path), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "config.json: the JSON text"));
    struct buffer config;
    buffer_init(&config, 1 << 20);
    tiny_folder_config(tiny_model_find("llama"), TINY_SPELLING_OLD, &config);
    hf_writer_file(&folder, "config.json", buffer_slice(&config));
    assert_int_equal(model_source_open(&source, folder.path), STATUS_NOT_FOUND);
    assert_non_null(strstr(status_note()->message, "model.safetensors"));
    buffer_deinit(&config);
    hf_writer_deinit(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model_has_the_bits_of_its_gguf_file),
        cmocka_unit_test(test_matrices_of_half_the_size),
        cmocka_unit_test(test_rows_of_q_and_k_matter),
        cmocka_unit_test(test_a_load_takes_one_tensor_of_memory),
        cmocka_unit_test(test_no_memory_at_any_point_leaks_nothing),
        cmocka_unit_test(test_folders_without_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
