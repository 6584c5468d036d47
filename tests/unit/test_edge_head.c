#include "gateway/edge/request/edge_head.h"

#include "gateway/edge/request/edge_body.h"
#include "tests/unit/edge_text_kit.h"

static void test_head(void **state)
{
    (void)state;
    struct principal principal = {.weight = 7,
                                  .tenant_hash = {0x01, 0xff},
                                  .key_hash = {[0] = 0x5c},
                                  .domain = {[15] = 0xab},
                                  .cache_share = 9,
                                  .visible_public = 2,
                                  .visible_group = 1,
                                  .visible_count = 4,
                                  .visible = {{1}, {2}, {[15] = 0xab}, {3}}};
    struct edge_head head = {.method = SLICE("POST"),
                             .path = SLICE("/v1/completions"),
                             .request_id = SLICE("req_1"),
                             .principal = &principal,
                             .service_class = SERVICE_CLASS_STANDARD,
                             .deadline_ms = 1234,
                             .model = ""};
    struct buffer out;
    buffer_init(&out, EDGE_HEAD_BYTES_MAX);
    assert_int_equal(edge_head_append(&out, &head), STATUS_OK);
    edge_text_same(buffer_slice(&out),
                   "POST /v1/completions HTTP/1.1\r\nhost: engine\r\n"
                   "content-type: application/json\r\nx-banyan-protocol: 1\r\n"
                   "x-banyan-request-id: req_1\r\n"
                   "x-banyan-tenant: 01ff0000000000000000000000000000\r\n"
                   "x-banyan-key: 5c000000000000000000000000000000\r\n"
                   "x-banyan-domain: 000000000000000000000000000000ab\r\n"
                   "x-banyan-visible: p:01000000000000000000000000000000,"
                   "p:02000000000000000000000000000000,g:000000000000000000000000000000ab,"
                   "o:03000000000000000000000000000000\r\nx-banyan-cache-share: 9\r\n"
                   "x-banyan-class: standard\r\nx-banyan-weight: 7\r\nx-banyan-deadline-ms: 1234");
    principal.visible_public = principal.visible_group = 0;
    principal.visible_count = 1;
    buffer_clear(&out);
    assert_int_equal(edge_head_append(&out, &head), STATUS_OK);
    edge_text_has(out.bytes, "x-banyan-visible: o:01000000000000000000000000000000\r\n");
    /* A model's name is a foreign server's word: no byte of it can end a line. */
    head.model = "a\r\nx: \xc3\xa9";
    buffer_clear(&out);
    assert_int_equal(edge_head_append(&out, &head), STATUS_OK);
    edge_text_has(out.bytes, "\r\nx-banyan-model: 610d0a783a20c3a9");
    /* As many as there may be, and the longest path, have room. */
    char model[EDGE_BODY_MODEL_BYTES];
    memset(model, 'm', sizeof model - 1);
    model[sizeof model - 1] = '\0';
    head.model = model;
    char path[LIMIT_PATH_BYTES + 1];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    principal.visible_count = principal.visible_public = LIMIT_DOMAINS_VISIBLE;
    head.path = slice_of(path);
    buffer_clear(&out);
    assert_int_equal(edge_head_append(&out, &head), STATUS_OK);
    const char *paths[] = {"", "/v1/models/a b", "/v1/models/a\r\nx-banyan-domain: 0", "/\x7f",
                           "/v1/models/\xc3\xa9"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        buffer_clear(&out);
        head.path = slice_of(paths[i]);
        assert_int_equal(edge_head_append(&out, &head), STATUS_INVALID);
    }
    buffer_deinit(&out);
}

static void test_deadline(void **state)
{
    (void)state;
    uint32_t ms = 0;
    assert_int_equal(edge_head_deadline((struct slice){0}, 600000, &ms), STATUS_OK);
    assert_int_equal(ms, 600000);
    assert_int_equal(edge_head_deadline(SLICE("1"), 600000, &ms), STATUS_OK);
    assert_int_equal(ms, 1);
    assert_int_equal(edge_head_deadline(SLICE("600000"), 600000, &ms), STATUS_OK);
    assert_int_equal(ms, 600000);
    assert_int_equal(edge_head_deadline(SLICE("600001"), 600000, &ms), STATUS_OK);
    assert_int_equal(ms, 600000);
    assert_int_equal(edge_head_deadline(SLICE("9223372036854775807"), 600000, &ms), STATUS_OK);
    assert_int_equal(ms, 600000);
    const char *wrong[] = {"", "0", "-1", "1.5", "1s", "x", "9223372036854775808"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(edge_head_deadline(slice_of(wrong[i]), 600000, &ms), STATUS_INVALID);
        assert_string_equal(status_note()->param, "x-request-timeout-ms");
    }
}

static void test_explain(void **state)
{
    (void)state;
    bool is_explained = true;
    assert_int_equal(edge_head_explain((struct slice){0}, &is_explained), STATUS_OK);
    assert_false(is_explained);
    assert_int_equal(edge_head_explain(SLICE("1"), &is_explained), STATUS_OK);
    assert_true(is_explained);
    assert_int_equal(edge_head_explain(SLICE("0"), &is_explained), STATUS_OK);
    assert_false(is_explained);
    const char *wrong[] = {"", "2", "true", "11", " 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(edge_head_explain(slice_of(wrong[i]), &is_explained), STATUS_INVALID);
        assert_string_equal(status_note()->param, "x-banyan-explain");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
