#include "gateway/admin/admin_openapi.h"

#include <jansson.h>

#include "tests/unit/base_kit.h"

/* What the program serves is the file in the tree, and a document. */
static void test_file(void **state)
{
    (void)state;
    struct slice served = admin_openapi_file();
    FILE *file = fopen("config/openapi.json", "r");
    assert_non_null(file);
    char *bytes = malloc(served.length + 2);
    assert_int_equal(fread(bytes, 1, served.length + 2, file), served.length);
    fclose(file);
    assert_memory_equal(bytes, served.bytes, served.length);
    free(bytes);
    json_t *root = json_loadb(served.bytes, served.length,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(root);
    assert_memory_equal(json_string_value(json_object_get(root, "openapi")), "3.", 2);
    assert_true(json_is_object(json_object_get(root, "paths")));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
