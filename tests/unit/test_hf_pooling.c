#include "engine/models/hf_pooling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/kit/hf_writer.h"

#define MODULE(index, path, type)                                                                  \
    "{\"idx\":" index ",\"path\":\"" path "\",\"type\":\"sentence_transformers.models." type "\"}"
#define FIRST MODULE("0", "", "Transformer")

/* Reads a directory with these two files; NULL: it has not this one. */
static enum status read(const char *modules, const char *pooling, struct gguf_keys *keys,
                        struct gguf **out)
{
    struct hf_writer folder;
    char path[300];
    FILE *file;
    hf_writer_init(&folder);
    gguf_keys_init(keys);
    if (modules != NULL)
        hf_writer_file(&folder, "modules.json", slice_of(modules));
    snprintf(path, sizeof path, "%s/1_Pooling", folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    if (pooling != NULL) {
        snprintf(path, sizeof path, "%s/1_Pooling/config.json", folder.path);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(pooling, file);
        fclose(file);
    }
    enum status status = hf_pooling_read(folder.descriptor, "bert", keys);
    hf_writer_deinit(&folder);
    if (status == STATUS_OK)
        status = gguf_keys_finish(keys, out);
    if (status != STATUS_OK)
        gguf_keys_deinit(keys);
    return status;
}

static void test_keys(void **state)
{
    static const struct {
        const char *modules;
        const char *pooling;
        uint32_t number;
        bool is_normalised;
    } rows[] = {
        {"[" FIRST "," MODULE("1", "1_Pooling", "Pooling") "," MODULE("2", "2", "Normalize") "]",
         "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false}", 1, true},
        {"[" FIRST "," MODULE("1", "1_Pooling", "Pooling") "]", "{\"pooling_mode_cls_token\":true}",
         2, false},
        {"[" FIRST "," MODULE("1", "1_Pooling", "Pooling") "]",
         "{\"pooling_mode_lasttoken\":true,\"include_prompt\":true}", 3, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_keys keys;
        struct gguf *gguf;
        uint32_t number;
        bool is_normalised;
        assert_int_equal(read(rows[i].modules, rows[i].pooling, &keys, &gguf), STATUS_OK);
        assert_int_equal(gguf_get_u32(gguf, "bert.pooling_type", &number), STATUS_OK);
        assert_int_equal(gguf_get_bool(gguf, "banyan.embeddings_normalised", &is_normalised),
                         STATUS_OK);
        assert_int_equal(number, rows[i].number);
        assert_int_equal(is_normalised, rows[i].is_normalised);
        gguf_close(gguf);
        gguf_keys_deinit(&keys);
    }
}

static void test_a_directory_without_modules(void **state)
{
    struct gguf_keys keys;
    struct gguf *gguf;
    (void)state;
    assert_int_equal(read(NULL, NULL, &keys, &gguf), STATUS_OK);
    assert_false(gguf_has(gguf, "bert.pooling_type"));
    assert_false(gguf_has(gguf, "banyan.embeddings_normalised"));
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
}

static void test_what_is_refused(void **state)
{
    static const char two[] = "[" FIRST "," MODULE("1", "1_Pooling", "Pooling") "]";
    static const struct {
        const char *modules;
        const char *pooling;
        enum status status;
        const char *says;
    } rows[] = {
        {"{}", NULL, STATUS_CORRUPT, "modules.json is no JSON list"},
        {"[1]", NULL, STATUS_CORRUPT, "module 0"},
        {"[" FIRST, NULL, STATUS_CORRUPT, "modules.json"},
        {"[" FIRST "," MODULE("1", "2_Dense", "Dense") "]", NULL, STATUS_UNSUPPORTED, "'Dense'"},
        {"[" MODULE("0", "0_T", "Transformer") "]", NULL, STATUS_UNSUPPORTED, "path of its own"},
        {"[" FIRST "," MODULE("1", "../x", "Pooling") "]", NULL, STATUS_CORRUPT, "elsewhere"},
        {"[" FIRST "," MODULE("1", "", "Pooling") "]", NULL, STATUS_CORRUPT, "elsewhere"},
        {"[" FIRST "," MODULE("1", "9_None", "Pooling") "]", NULL, STATUS_CORRUPT, "9_None"},
        {two, NULL, STATUS_CORRUPT, "1_Pooling/config.json"},
        {two, "[]", STATUS_CORRUPT, "no JSON object"},
        {two, "{}", STATUS_UNSUPPORTED, "0 ways"},
        {two, "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":true}",
         STATUS_UNSUPPORTED, "2 ways"},
        {two, "{\"pooling_mode_max_tokens\":true}", STATUS_UNSUPPORTED, "max_tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_keys keys;
        struct gguf *gguf;
        const enum status status = read(rows[i].modules, rows[i].pooling, &keys, &gguf);
        if (status != rows[i].status || strstr(status_note()->message, rows[i].says) == NULL)
            fail_msg("row %zu: %s: %s", i, status_name(status), status_note()->message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_a_directory_without_modules),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
