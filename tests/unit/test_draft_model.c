#include "engine/draft/draft_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/engine_run.h"

/* What the engine says of a draft model of that shape; NULL: of none. */
static void assert_opens(const struct llama_shape *shape, enum status status, const char *why)
{
    char path[64] = "/nowhere/draft.gguf";
    struct engine *engine = NULL;
    struct engine_options options = engine_run_options();
    if (shape != NULL)
        engine_run_write_model(shape, path, sizeof path);
    options.speculation = ENGINE_SPECULATION_MODEL;
    options.draft_path = path;
    options.model_path = engine_run_make_model();
    assert_int_equal(engine_open(&engine, &options), status);
    if (status != STATUS_OK)
        assert_non_null(strstr(status_note()->message, why));
    engine_close(engine);
    if (shape != NULL)
        unlink(path);
    engine_run_remove_model();
}

static void test_opens(void **state)
{
    (void)state;
    struct llama_shape shape = engine_run_shape();
    shape.layers = 1;
    assert_opens(&shape, STATUS_OK, NULL);
    shape.vocab++;
    assert_opens(&shape, STATUS_UNSUPPORTED, "the draft model has 321 tokens, the model 320");
    shape = engine_run_shape();
    shape.context = 256;
    assert_opens(&shape, STATUS_UNSUPPORTED, "a context of 256 tokens");
    assert_opens(NULL, STATUS_IO, "cannot be opened");
}

static void test_none(void **state)
{
    (void)state;
    struct engine *engine = NULL;
    struct engine_options options = engine_run_options();
    options.speculation = ENGINE_SPECULATION_MODEL;
    options.model_path = engine_run_make_model();
    assert_int_equal(engine_open(&engine, &options), STATUS_INVALID);
    assert_non_null(strstr(status_note()->message, "--draft-model"));
    engine_run_remove_model();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
