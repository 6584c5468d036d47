/* head_rules: each rule, with what just passes beside what just fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/http/head_rules.h"

static const char *fault(const char *method, const char *path, const char *authority,
                         const char *name, const char *value, bool is_http2)
{
    struct http_header header = {name, slice_of(value)};
    struct head_rules head = {.method = slice_of(method),
                              .path = slice_of(path),
                              .authority = slice_of(authority),
                              .headers = &header,
                              .header_count = 1,
                              .is_http2 = is_http2,
                              .needs_authority = true};
    return head_rules_fault(&head);
}

/* `word` stands in the sentence; NULL = no fault, whichever protocol. */
static void check(const char *method, const char *path, const char *authority, const char *name,
                  const char *word)
{
    for (int is_http2 = 0; is_http2 < 2; is_http2++) {
        const char *said = fault(method, path, authority, name, "v", is_http2 == 1);
        if ((said == NULL) != (word == NULL) || (word != NULL && strstr(said, word) == NULL))
            fail_msg("%s %s %s %s: %s", method, path, authority, name, said ? said : "no fault");
    }
}

static void test_methods(void **state)
{
    (void)state;
    check("GET", "/", "x", "a", NULL);
    check("M-SEARCH!", "/", "x", "a", NULL);
    check("", "/", "x", "a", "method");
    check("GE T", "/", "x", "a", "method");
    check("GET\r\nx", "/", "x", "a", "method");
    check("G(T", "/", "x", "a", "method");
    check("G\xc3\xa9T", "/", "x", "a", "method");
}

static void test_paths(void **state)
{
    (void)state;
    check("GET", "/~a/b?c=d%20&e", "x", "a", NULL);
    check("GET", "", "x", "a", "target");
    check("GET", "*", "x", "a", "target");
    check("GET", "http://x/", "x", "a", "target");
    check("GET", "/a b", "x", "a", "target");
    check("GET", "/a\x7f", "x", "a", "target");
    check("GET", "/\xff", "x", "a", "target");
    check("GET", "/a\r\nb", "x", "a", "target");
}

static void test_authorities(void **state)
{
    (void)state;
    check("GET", "/", "localhost:8443", "a", NULL);
    check("GET", "/", "[::1]:8443", "a", NULL);
    check("GET", "/", "", "a", "Host");
    check("GET", "/", "a b", "a", "Host");
    check("GET", "/", "a/b", "a", "Host");
    check("GET", "/", "user@x", "a", "Host");
    check("GET", "/", "x\r\ny", "a", "Host");
    struct head_rules old = {.method = SLICE("GET"), .path = SLICE("/")};
    assert_null(head_rules_fault(&old));
    old.needs_authority = true;
    assert_non_null(head_rules_fault(&old));
}

static void test_names(void **state)
{
    (void)state;
    check("GET", "/", "x", "x-a_b.c", NULL);
    check("GET", "/", "x", "", "name");
    check("GET", "/", "x", "x a", "name");
    check("GET", "/", "x", "x:a", "name");
    check("GET", "/", "x", "x\r\ny", "name");
    check("GET", "/", "x", "x\xc3\xa9", "name");
}

static void test_http2_only(void **state)
{
    (void)state;
    assert_null(fault("GET", "/", "x", "keep-alive", "5", false));
    assert_non_null(fault("GET", "/", "x", "keep-alive", "5", true));
    assert_non_null(fault("GET", "/", "x", "proxy-connection", "a", true));
    assert_null(fault("GET", "/", "x", "keep-alive-not", "5", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods),     cmocka_unit_test(test_paths),
        cmocka_unit_test(test_authorities), cmocka_unit_test(test_names),
        cmocka_unit_test(test_http2_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
