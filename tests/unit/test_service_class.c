/* service_class: names and tiers both ways, and the order of urgency. */
#include "config/base/service_class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_names_and_tiers_lead_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        const enum service_class wanted = (enum service_class)i;
        enum service_class found = SERVICE_CLASS_COUNT;
        assert_true(service_class_from_name(slice_of(service_class_name(wanted)), &found));
        assert_int_equal(found, wanted);
        found = SERVICE_CLASS_COUNT;
        assert_true(service_class_from_tier(slice_of(service_class_tier(wanted)), &found));
        assert_int_equal(found, wanted);
    }
}

static void test_the_words(void **state)
{
    (void)state;
    assert_string_equal(service_class_name(SERVICE_CLASS_REALTIME), "realtime");
    assert_string_equal(service_class_tier(SERVICE_CLASS_REALTIME), "priority");
    assert_string_equal(service_class_name(SERVICE_CLASS_STANDARD), "standard");
    assert_string_equal(service_class_tier(SERVICE_CLASS_STANDARD), "default");
    assert_string_equal(service_class_name(SERVICE_CLASS_BATCH), "batch");
    assert_string_equal(service_class_tier(SERVICE_CLASS_BATCH), "flex");
    assert_true(SERVICE_CLASS_REALTIME < SERVICE_CLASS_STANDARD);
    assert_true(SERVICE_CLASS_STANDARD < SERVICE_CLASS_BATCH);
}

static void test_other_words_change_nothing(void **state)
{
    (void)state;
    static const char *const others[] = {"", "Realtime", "realtim", "realtime ", "auto", "scales"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        enum service_class found = SERVICE_CLASS_BATCH;
        assert_false(service_class_from_name(slice_of(others[i]), &found));
        assert_false(service_class_from_tier(slice_of(others[i]), &found));
        assert_int_equal(found, SERVICE_CLASS_BATCH);
    }
    enum service_class found = SERVICE_CLASS_BATCH;
    assert_false(service_class_from_name(SLICE("priority"), &found)); /* a tier is no name */
    assert_false(service_class_from_tier(SLICE("realtime"), &found));
    assert_true(service_class_from_tier(SLICE("fast"), &found));
    assert_int_equal(found, SERVICE_CLASS_REALTIME);
    assert_true(service_class_from_tier(SLICE("scale"), &found));
    assert_int_equal(found, SERVICE_CLASS_STANDARD);
    assert_true(service_class_from_tier(SLICE("standard_only"), &found));
    assert_int_equal(found, SERVICE_CLASS_STANDARD);
}

static void test_lower_ends_at_the_least_urgent(void **state)
{
    (void)state;
    assert_int_equal(service_class_lower(SERVICE_CLASS_REALTIME, 0), SERVICE_CLASS_REALTIME);
    assert_int_equal(service_class_lower(SERVICE_CLASS_REALTIME, 1), SERVICE_CLASS_STANDARD);
    assert_int_equal(service_class_lower(SERVICE_CLASS_REALTIME, UINT32_MAX), SERVICE_CLASS_BATCH);
    assert_int_equal(service_class_lower(SERVICE_CLASS_BATCH, 1), SERVICE_CLASS_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_tiers_lead_back),
        cmocka_unit_test(test_the_words),
        cmocka_unit_test(test_other_words_change_nothing),
        cmocka_unit_test(test_lower_ends_at_the_least_urgent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
