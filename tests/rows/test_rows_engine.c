/* test_rows_engine: an engine whose tables have rows that the product's do not (CMakeLists.txt): a
 * weight type and a chat filter. Each is a row and the function that it asks for; the type computes
 * in every kernel table, the filter in every template, and what has no row is refused. */
#include "engine/text/chat_template.h"
#include "engine/text/template_filter.h"
#include "engine/text/template_string.h"
#include "kernels/types/types.h"
#include "tests/unit/kernels_kit.h"

/* --- a weight type --- */

/* What its file would hold. Its blocks are those of q8_0, with the factor behind the codes. */
void type_spare_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    (void)part;
    types_plain(block + 32, NULL, out);
    memcpy(out->w, block, sizeof out->w);
}

enum { ROWS = 40, COLS = 128, BATCH = 20, BLOCKS = ROWS * COLS / 32, BLOCK_BYTES = 34 };

/* The same values in the order of the other type. */
static struct tensor spare_of(const struct tensor *tensor)
{
    struct tensor spare = *tensor;
    unsigned char *bytes = malloc(tensor->bytes);
    const unsigned char *from = tensor->data;
    for (size_t b = 0; b < BLOCKS; b++) {
        memcpy(bytes + b * BLOCK_BYTES, from + b * BLOCK_BYTES + 2, 32);
        memcpy(bytes + b * BLOCK_BYTES + 32, from + b * BLOCK_BYTES, 2);
    }
    spare.type = tensor_type_info(TENSOR_TYPE_spare);
    spare.data = bytes;
    return spare;
}

/* Every kernel table of this machine computes it, bit for bit as the type that it is made from. */
static void test_a_type_is_computed(void **state)
{
    (void)state;
    struct rng rng = {.seed = 7};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q8_0, ROWS, COLS);
    struct tensor spare = spare_of(&tensor);
    float *x = kit_floats(&rng, (size_t)BATCH * COLS, 2);
    float want[BATCH * ROWS];
    float got[BATCH * ROWS];
    int tables = 0;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++, tables++) {
        struct kernels *kernels = kit_kernels(*isa, 1, BATCH, COLS);
        kit_linear(kernels, &tensor, x, BATCH, want, false);
        kit_linear(kernels, &spare, x, BATCH, got, false);
        kit_assert_same_bits(got, want, sizeof want / sizeof want[0]);
        kernels_destroy(kernels);
    }
    assert_true(tables >= 2);
    free(x);
    kit_tensor_free(&spare);
    kit_tensor_free(&tensor);
}

static void test_a_type_is_told(void **state)
{
    (void)state;
    const struct tensor_type_info *type = tensor_type_info(90);
    assert_non_null(type);
    assert_string_equal(type->name, "spare");
    assert_int_equal(type->block_bytes, BLOCK_BYTES);
    assert_non_null(strstr(tensor_type_names(), " spare"));
    assert_null(tensor_type_info(91));
}

/* --- a chat filter --- */

/* The row's function: a string twice. */
enum status template_filter_spare(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    TRY(template_run_charge(run, template_string_length(run, args->value)));
    return template_string_add(run, args->value, args->value, out);
}

static void test_a_filter_is_used(void **state)
{
    (void)state;
    struct chat_template *template = NULL;
    const struct chat_message message = {SLICE("user"), SLICE(" ab "), {NULL, 0}};
    const struct chat_template_args args = {.messages = &message, .message_count = 1};
    struct chat_template_text out;
    assert_int_equal(
        chat_template_compile(&template, SLICE("<{{ messages[0].content | trim | spare }}>")),
        STATUS_OK);
    assert_int_equal(chat_template_render(template, &args, &out), STATUS_OK);
    assert_string_equal(out.bytes.bytes, "<abab>");
    assert_int_equal(out.span_count, 2); /* the brackets alone are the template's */
    chat_template_text_free(&out);
    chat_template_destroy(template);
}

static void test_another_filter_is_refused(void **state)
{
    (void)state;
    struct chat_template *template = NULL;
    assert_int_not_equal(chat_template_compile(&template, SLICE("{{ 'a' | spares }}")), STATUS_OK);
    assert_non_null(strstr(status_note()->message, "filter 'spares' is not supported"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_type_is_computed),
        cmocka_unit_test(test_a_type_is_told),
        cmocka_unit_test(test_a_filter_is_used),
        cmocka_unit_test(test_another_filter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
