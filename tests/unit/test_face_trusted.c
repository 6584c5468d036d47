#include "gateway/engine_http/face_trusted.h"

#include "tests/unit/face_kit.h"

#define DOMAIN_A "000102030405060708090a0b0c0d0e0f"
#define KEY_A    "f00102030405060708090a0b0c0d0e0f"
#define VISIBLE  "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-visible: "
#define FULL     "x-banyan-protocol: 1\r\nx-banyan-request-id: req_given\r\n"

static struct face_kit kit;
static const char body[] = "{\"model\":\"small\",\"prompt\":\"One\",\"max_tokens\":1}";

static int ask(const char *headers, const char *expected_part)
{
    struct buffer answer;
    int code = face_kit_ask(&kit, "POST", "/v1/completions", headers, body, &answer);
    if (expected_part != NULL)
        assert_true(face_kit_count(&answer, expected_part) >= 1);
    buffer_deinit(&answer);
    return code;
}

static void test_headers_of_the_edge(void **state)
{
    (void)state;
    assert_int_equal(ask(FULL "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-visible: p:" DOMAIN_A
                              ",p:" DOMAIN_A ",g:" DOMAIN_A ",o:" KEY_A
                              "\r\nx-banyan-cache-share: 1000\r\nx-banyan-deadline-ms: 60000\r\n"
                              "x-banyan-tenant: " DOMAIN_A "\r\nx-banyan-key: " KEY_A
                              "\r\nx-banyan-class: batch\r\nx-banyan-weight: 1000\r\n",
                         "\"request_id\":\"req_given\",\"record_seq\":1,\"tenant\":\"" DOMAIN_A
                         "\",\"key\":\"" KEY_A "\",\"route\":\"/v1/completions\","
                         "\"class\":\"batch\",\"model\":\"small\",\"at_us\":1"),
                     200);
    assert_int_equal(ask("", "\"tenant\":null,\"key\":null"), 200);
    assert_int_equal(ask("", "\"class\":\"standard\""), 200);
    assert_int_equal(ask("", "\"request_id\":\"req_"), 200);
    assert_int_equal(ask("", "\"id\":\"cmpl-"), 200);
}

static void test_an_id_runs_once(void **state)
{
    (void)state;
    const char *headers = "x-banyan-protocol: 1\r\nx-banyan-request-id: req_twice\r\n";
    assert_int_equal(ask(headers, NULL), 200);
    assert_int_equal(ask(headers, "seen before"), 409);
}

static void test_wrong_headers_are_refused(void **state)
{
    (void)state;
    assert_int_equal(ask("x-banyan-protocol: 2\r\n", "protocol 1"), 400);
    assert_int_equal(ask("x-banyan-protocol: 2\r\n", "\"code\":\"protocol_mismatch\""), 400);
    assert_int_equal(ask("x-banyan-protocol: 2\r\n", "x-banyan-protocol: 1\r\n"), 400);
    assert_int_equal(ask("x-banyan-protocol:\r\n", "protocol 1"), 400);
    const char *const wrong[] = {
        "x-banyan-domain: 0001\r\n",
        "x-banyan-domain: " DOMAIN_A "00\r\n",
        "x-banyan-domain: 000102030405060708090A0b0c0d0e0f\r\n",
        "x-banyan-visible: " DOMAIN_A ",\r\nx-banyan-visible: x\r\nx-banyan-domain: x\r\n",
        "x-banyan-visible: o:" DOMAIN_A "\r\n",
        VISIBLE "p:" DOMAIN_A ";p:" DOMAIN_A "\r\n",
        VISIBLE "\r\n",
        VISIBLE DOMAIN_A "\r\n",
        VISIBLE "x:" DOMAIN_A "\r\n",
        VISIBLE ":" DOMAIN_A "\r\n",
        VISIBLE "o:\r\n",
        VISIBLE "o:" DOMAIN_A "0\r\n",
        VISIBLE "o:" DOMAIN_A ",\r\n",
        VISIBLE "o:" DOMAIN_A ", p:" DOMAIN_A "\r\n",
        VISIBLE "o:" DOMAIN_A ",p:" DOMAIN_A "\r\n",
        VISIBLE "o:" DOMAIN_A ",g:" DOMAIN_A "\r\n",
        VISIBLE "p:" DOMAIN_A ",g:" DOMAIN_A ",p:" DOMAIN_A "\r\n",
        "x-banyan-cache-share: 1\r\n",
        "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-cache-share: 0\r\n",
        "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-cache-share: 1001\r\n",
        "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-cache-share: 1.5\r\n",
        "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-domain: " DOMAIN_A "\r\n",
        "x-banyan-tenant: 00\r\n",
        "x-banyan-tenant: " DOMAIN_A "\r\nx-banyan-key: x\r\n",
        "x-banyan-key: " KEY_A "\r\n",
        "x-banyan-class: \r\n",
        "x-banyan-class: Batch\r\n",
        "x-banyan-class: aaaaaaaaaaaaaaaa\r\n",
        "x-banyan-class: priority\r\n",
        "x-banyan-weight: 0\r\n",
        "x-banyan-weight: 1001\r\n",
        "x-banyan-weight: 1.5\r\n",
        "x-banyan-weight: \r\n",
        "x-banyan-deadline-ms: -1\r\n",
        "x-banyan-deadline-ms: 0\r\n",
        "x-banyan-deadline-ms: 86400001\r\n",
        "x-banyan-deadline-ms: 99999999999999999999\r\n",
        "x-banyan-deadline-ms: soon\r\n",
        "x-banyan-model: \r\n",
        "x-banyan-model: 616\r\n",
        "x-banyan-model: 6G\r\n",
        "x-banyan-model: small\r\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char headers[512];
        snprintf(headers, sizeof headers,
                 "x-banyan-protocol: 1\r\nx-banyan-request-id: req_wrong%zu\r\n%s", i, wrong[i]);
        assert_int_equal(ask(headers, "header x-banyan-"), 400);
    }
    for (int over = 0; over <= 1; over++) { /* the longest name, and one more byte */
        char headers[512];
        int at = snprintf(headers, sizeof headers,
                          "x-banyan-protocol: 1\r\nx-banyan-request-id: req_name%d\r\n"
                          "x-banyan-model: ",
                          over);
        for (int i = 0; i < LIMIT_NAME_BYTES - 1 + over; i++)
            at += snprintf(headers + at, sizeof headers - (size_t)at, "61");
        snprintf(headers + at, sizeof headers - (size_t)at, "\r\n");
        assert_int_equal(ask(headers, NULL), over == 0 ? 200 : 400);
    }
    assert_int_equal(ask("x-banyan-protocol: 1\r\nx-banyan-request-id: a\"b\r\n", NULL), 400);
    assert_int_equal(ask("x-banyan-request-id: req_alone\r\n", "needs x-banyan-protocol"), 400);
    assert_int_equal(ask("x-banyan-weight: 1\r\n", "needs x-banyan-request-id"), 400);
}

static void test_at_most_so_many_domains(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        char headers[192 + (LIMIT_DOMAINS_VISIBLE + 1) * 35 + 64];
        int at = snprintf(headers, sizeof headers,
                          "x-banyan-protocol: 1\r\nx-banyan-request-id: req_many%d\r\n"
                          "x-banyan-domain: " DOMAIN_A "\r\nx-banyan-visible: ",
                          over);
        for (int i = 0; i < LIMIT_DOMAINS_VISIBLE + over; i++)
            at += snprintf(headers + at, sizeof headers - (size_t)at, "%sp:" DOMAIN_A,
                           i > 0 ? "," : "");
        snprintf(headers + at, sizeof headers - (size_t)at, "\r\n");
        assert_int_equal(ask(headers, NULL), over == 0 ? 200 : 413);
    }
}

static void test_a_deadline_that_has_passed(void **state)
{
    (void)state;
    struct buffer answer;
    int code = face_kit_ask(&kit, "POST", "/v1/completions",
                            "x-banyan-protocol: 1\r\nx-banyan-request-id: req_late\r\n"
                            "x-banyan-deadline-ms: 1\r\n",
                            "{\"model\":\"small\",\"prompt\":\"One\",\"max_tokens\":400,"
                            "\"ignore_eos\":true}",
                            &answer);
    assert_true(code == 503 || code == 200); /* 200 when it was admitted within that ms */
    assert_int_equal(face_kit_count(&answer, "\"error\":"), 1);
    buffer_deinit(&answer);
}

static void test_apply_gives_all_to_the_engine(void **state)
{
    (void)state;
    struct face_trusted trusted = {.request_id = "req_x",
                                   .visible_count = 4,
                                   .visible_public = 2,
                                   .visible_group = 1,
                                   .cache_share = 9,
                                   .deadline_us = 77,
                                   .domain = {{1}}};
    trusted.visible[1].bytes[15] = 9;
    struct engine_request request = {0};
    face_trusted_apply(&trusted, &request);
    assert_true(slice_is(request.request_id, "req_x"));
    assert_int_equal(request.domain.bytes[0], 1);
    assert_int_equal(request.visible_count, 4);
    assert_int_equal(request.visible_public, 2);
    assert_int_equal(request.visible_group, 1);
    assert_int_equal(request.cache_share, 9);
    assert_int_equal(request.visible[1].bytes[15], 9);
    assert_int_equal(request.deadline_us, 77);
}

static int start(void **state)
{
    (void)state;
    return face_kit_start(&kit, face_kit_model()) ? 0 : 1;
}

static int stop(void **state)
{
    (void)state;
    return face_kit_stop(&kit) == STATUS_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_of_the_edge),
        cmocka_unit_test(test_an_id_runs_once),
        cmocka_unit_test(test_wrong_headers_are_refused),
        cmocka_unit_test(test_at_most_so_many_domains),
        cmocka_unit_test(test_a_deadline_that_has_passed),
        cmocka_unit_test(test_apply_gives_all_to_the_engine),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
