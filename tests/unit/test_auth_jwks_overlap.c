/* auth_jwks_overlap: what a fetched set and the one before make together. */
#include "auth/credential/auth_jwks_overlap.h"

#include "tests/unit/base_kit.h"

static void expect(const char *kept, const char *fetched, int64_t now_s, int64_t overlap_s,
                   const char *wanted)
{
    struct buffer out;
    buffer_init(&out, 4096);
    assert_int_equal(auth_jwks_overlap(slice_of(kept), slice_of(fetched), now_s, overlap_s, &out),
                     STATUS_OK);
    assert_string_equal(out.bytes, wanted);
    buffer_deinit(&out);
}

static void test_sets(void **state)
{
    (void)state;
    const char *a = "{\"keys\":[{\"kid\":\"a\",\"x\":\"1\"}]}";
    const char *b = "{\"keys\":[{\"kid\":\"b\",\"x\":\"2\"}]}";
    const char *both = "{\"keys\":[{\"kid\":\"b\",\"x\":\"2\"},"
                       "{\"kid\":\"a\",\"x\":\"1\",\"banyan_until\":150}]}";
    expect("", a, 100, 50, a);
    expect(a, a, 100, 50, a);
    expect(a, b, 100, 50, both);
    expect(a, b, 100, 0, b);
    /* Its end stays where it was, and then it is gone. */
    expect(both, b, 149, 50, both);
    expect(both, b, 150, 50, b);
    /* It has come back: it is one of the set again. */
    expect(both, a, 120, 50,
           "{\"keys\":[{\"kid\":\"a\",\"x\":\"1\"},{\"kid\":\"b\",\"x\":\"2\",\"banyan_until\":170}"
           "]}");
    /* Another key under the old name is the only one. */
    expect(a, "{\"keys\":[{\"kid\":\"a\",\"x\":\"9\"}]}", 100, 50,
           "{\"keys\":[{\"kid\":\"a\",\"x\":\"9\"}]}");
    /* An issuer does not say when its keys end, and certificates are not kept. */
    expect("", "{\"keys\":[{\"kid\":\"a\",\"banyan_until\":1,\"x5c\":[\"AA\"],\"x\":\"1\"}]}", 100,
           50, a);
    /* Keys without a name are nobody's. */
    expect("{\"keys\":[{\"kty\":\"oct\"},{\"kid\":7}]}", b, 100, 50, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
