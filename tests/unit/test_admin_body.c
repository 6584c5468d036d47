#include "gateway/admin/admin_body.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

static struct admin_body_field fields[2];

static enum status read_text(const char *text)
{
    fields[0] = (struct admin_body_field){
        .name = "name", .kind = ADMIN_BODY_TEXT, .is_required = true, .most = 8};
    fields[1] = (struct admin_body_field){
        .name = "weight", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = 1000};
    return admin_body_read(slice_of(text), fields, 2);
}

static void test_fields(void **state)
{
    (void)state;
    assert_int_equal(read_text("{\"weight\":1000,\"name\":\"12345678\"}"), STATUS_OK);
    assert_string_equal(fields[0].text, "12345678");
    assert_true(fields[1].is_given);
    assert_int_equal(fields[1].number, 1000);
    assert_int_equal(read_text("{\"name\":\"\xc3\xa9\"}"), STATUS_OK);
    assert_false(fields[1].is_given);
    fields[0].is_required = false;
    assert_int_equal(admin_body_read((struct slice){0}, fields + 1, 1), STATUS_OK);
}

static void refuse(const char *text, enum status status, const char *param)
{
    if (read_text(text) != status)
        fail_msg("%s: %s", text, status_name(status_note()->status));
    assert_string_equal(status_note()->param, param);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("", STATUS_INVALID, "name");
    refuse("{}", STATUS_INVALID, "name");
    refuse("[]", STATUS_INVALID, "");
    refuse("{", STATUS_INVALID, "");
    refuse("{\"name\":\"a\",\"name\":\"b\"}", STATUS_INVALID, "");
    refuse("{\"name\":\"\"}", STATUS_INVALID, "name");
    refuse("{\"name\":7}", STATUS_INVALID, "name");
    refuse("{\"name\":null}", STATUS_INVALID, "name");
    refuse("{\"name\":\"a\\u0000b\"}", STATUS_INVALID, "");
    refuse("{\"name\":\"a\\nb\"}", STATUS_INVALID, "name");
    refuse("{\"name\":\"123456789\"}", STATUS_OUT_OF_RANGE, "name");
    refuse("{\"name\":\"a\",\"weight\":0}", STATUS_OUT_OF_RANGE, "weight");
    refuse("{\"name\":\"a\",\"weight\":1001}", STATUS_OUT_OF_RANGE, "weight");
    refuse("{\"name\":\"a\",\"weight\":1.0}", STATUS_INVALID, "weight");
    refuse("{\"name\":\"a\",\"weight\":\"1\"}", STATUS_INVALID, "weight");
    refuse("{\"name\":\"a\",\"weight\":99999999999999999999}", STATUS_INVALID, "");
    refuse("{\"name\":\"a\",\"colour\":1}", STATUS_UNSUPPORTED, "colour");
}

static uint32_t find(struct slice word)
{
    return slice_is(word, "one") ? 1 : slice_is(word, "two") ? 2 : 0;
}

static struct admin_body_field kinds[4];

static enum status read_kinds(const char *text)
{
    admin_body_free(kinds, 4);
    kinds[0] = (struct admin_body_field){
        .name = "word", .kind = ADMIN_BODY_WORD, .find = find, .words = "one, two"};
    kinds[1] = (struct admin_body_field){
        .name = "words", .kind = ADMIN_BODY_WORDS, .find = find, .words = "one, two"};
    kinds[2] = (struct admin_body_field){
        .name = "end", .kind = ADMIN_BODY_NUMBER_OR_NULL, .least = 1, .most = 10};
    kinds[3] = (struct admin_body_field){.name = "pairs", .kind = ADMIN_BODY_PAIRS};
    return admin_body_read(slice_of(text), kinds, 4);
}

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(read_kinds("{\"word\":\"two\",\"words\":[\"two\",\"one\"],\"end\":10,"
                                "\"pairs\":{\"b\":\"2\\n\",\"a\":\"\"}}"),
                     STATUS_OK);
    assert_int_equal(kinds[0].number, 2);
    assert_int_equal(kinds[1].number, 3);
    assert_int_equal(kinds[2].number, 10);
    assert_string_equal(kinds[3].json.bytes, "{\"b\":\"2\\n\",\"a\":\"\"}");
    assert_int_equal(read_kinds("{\"end\":null,\"pairs\":{}}"), STATUS_OK);
    assert_true(kinds[2].is_given);
    assert_int_equal(kinds[2].number, 0);
    assert_string_equal(kinds[3].json.bytes, "{}");
    assert_false(kinds[0].is_given);
    static const struct {
        const char *text;
        enum status status;
        const char *param;
    } wrong[] = {
        {"{\"word\":\"three\"}", STATUS_INVALID, "word"},
        {"{\"word\":[\"one\"]}", STATUS_INVALID, "word"},
        {"{\"words\":[]}", STATUS_INVALID, "words"},
        {"{\"words\":\"one\"}", STATUS_INVALID, "words"},
        {"{\"words\":[\"one\",\"three\"]}", STATUS_INVALID, "words[1]"},
        {"{\"words\":[\"one\",\"two\",\"one\"]}", STATUS_INVALID, "words[2]"},
        {"{\"words\":[null]}", STATUS_INVALID, "words[0]"},
        {"{\"end\":0}", STATUS_OUT_OF_RANGE, "end"},
        {"{\"end\":11}", STATUS_OUT_OF_RANGE, "end"},
        {"{\"end\":\"1\"}", STATUS_INVALID, "end"},
        {"{\"pairs\":[]}", STATUS_INVALID, "pairs"},
        {"{\"pairs\":{\"a\":1}}", STATUS_INVALID, "pairs.a"},
        {"{\"pairs\":{\"\":\"v\"}}", STATUS_OUT_OF_RANGE, "pairs"},
        {"{\"pairs\":{\"a\":\"v\",\"a\":\"w\"}}", STATUS_INVALID, ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (read_kinds(wrong[i].text) != wrong[i].status)
            fail_msg("%s: %s", wrong[i].text, status_note()->message);
        assert_string_equal(status_note()->param, wrong[i].param);
    }
    admin_body_free(kinds, 4);
}

/* Pairs, bytes of a key and of a value: at the limit and one above. */
static void test_pairs_at_the_limits(void **state)
{
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        for (int which = 0; which < 3; which++) {
            struct buffer text;
            int pairs = LIMIT_METADATA_PAIRS + (which == 0 ? extra : 0);
            int key = LIMIT_METADATA_KEY_BYTES + (which == 1 ? extra : 0);
            int value = LIMIT_METADATA_VALUE_BYTES + (which == 2 ? extra : 0);
            buffer_init(&text, LIMIT_ADMIN_BODY_BYTES);
            buffer_append_text(&text, "{\"pairs\":{");
            for (int i = 0; i < pairs; i++)
                buffer_printf(&text, "%s\"%0*d\":\"%0*d\"", i > 0 ? "," : "", key, i, value, 0);
            buffer_append_text(&text, "}}");
            enum status status = read_kinds(text.bytes);
            assert_int_equal(status, extra == 0 ? STATUS_OK : STATUS_OUT_OF_RANGE);
            assert_true(kinds[3].json.length < LIMIT_METADATA_BYTES);
            buffer_deinit(&text);
        }
    }
    admin_body_free(kinds, 4);
}

static void test_bytes_at_the_limit(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text, LIMIT_ADMIN_BODY_BYTES + 1);
    buffer_append_text(&text, "{\"name\":\"a\"}");
    while (text.length < LIMIT_ADMIN_BODY_BYTES)
        buffer_append_char(&text, ' ');
    assert_int_equal(read_text(text.bytes), STATUS_OK);
    buffer_append_char(&text, ' ');
    assert_int_equal(read_text(text.bytes), STATUS_LIMIT);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_pairs_at_the_limits),
        cmocka_unit_test(test_bytes_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
