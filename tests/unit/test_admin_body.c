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
        cmocka_unit_test(test_bytes_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
