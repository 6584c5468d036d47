#include "auth/credential/api_key.h"

#include "tests/unit/base_kit.h"

#include "config/base/hash.h"

/* The check digits once more, by long division of the decimal number. */
static void model_check(const char *before, size_t length, char out[6])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint32_t place = 62u * 62 * 62 * 62 * 62;
    uint32_t crc = hash_crc32(before, length);
    for (int i = 0; i < 6; i++) {
        out[i] = digits[crc / place];
        crc %= place;
        place /= 62;
    }
}

static void test_form(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        bool is_admin = i % 2 == 1;
        const char *prefix = is_admin ? "sk-by-admin-" : "sk-by-";
        char value[LIMIT_KEY_BYTES];
        struct api_key read;
        api_key_make(is_admin, value);
        size_t start = strlen(prefix);
        assert_int_equal(strlen(value), start + 12 + 1 + 43 + 1 + 6);
        assert_memory_equal(value, prefix, start);
        assert_int_equal(value[start + 12], '-');
        assert_int_equal(value[start + 12 + 1 + 43], '-');
        char check[6];
        model_check(value, start + 12 + 1 + 43, check);
        assert_memory_equal(value + start + 12 + 1 + 43 + 1, check, 6);
        assert_int_equal(api_key_read(slice_of(value), &read), STATUS_OK);
        assert_int_equal(read.is_admin, is_admin);
        char id[17] = "key_";
        memcpy(id + 4, value + start, 12);
        assert_string_equal(read.id, id);
    }
}

/* Each character changed into each other one of the alphabet: never taken, always called a typing
 * error or a wrong form. CRC-32 finds every burst up to 32 bits, so this cannot pass by luck. */
static void test_every_single_typo(void **state)
{
    static const char others[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz- ";
    (void)state;
    for (int admin = 0; admin < 2; admin++) {
        char value[LIMIT_KEY_BYTES];
        api_key_make(admin == 1, value);
        size_t length = strlen(value);
        for (size_t i = 0; i < length; i++) {
            char right = value[i];
            for (const char *c = others; *c != '\0'; c++) {
                struct api_key read;
                value[i] = *c;
                enum status status = api_key_read(slice_of(value), &read);
                assert_int_equal(status, *c == right ? STATUS_OK : STATUS_KEY_INVALID);
            }
            value[i] = right;
        }
        /* Neighbours that changed places. */
        for (size_t i = 0; i + 1 < length; i++) {
            struct api_key read;
            if (value[i] == value[i + 1])
                continue;
            char kept = value[i];
            value[i] = value[i + 1];
            value[i + 1] = kept;
            assert_int_equal(api_key_read(slice_of(value), &read), STATUS_KEY_INVALID);
            value[i + 1] = value[i];
            value[i] = kept;
        }
    }
}

static void test_wrong_forms(void **state)
{
    (void)state;
    struct api_key read;
    char value[LIMIT_KEY_BYTES];
    api_key_make(false, value);
    assert_int_equal(api_key_read((struct slice){NULL, 0}, &read), STATUS_KEY_MISSING);
    for (size_t length = 1; length < strlen(value); length++)
        assert_int_equal(api_key_read((struct slice){value, length}, &read), STATUS_KEY_INVALID);
    char longer[LIMIT_KEY_BYTES + 8];
    snprintf(longer, sizeof longer, "%sx", value);
    assert_int_equal(api_key_read(slice_of(longer), &read), STATUS_KEY_INVALID);
    snprintf(longer, sizeof longer, " %s", value);
    assert_int_equal(api_key_read(slice_of(longer), &read), STATUS_KEY_INVALID);
    /* Right check digits over a public id that is no base62: never made, so never taken. */
    value[8] = '-';
    model_check(value, strlen(value) - 7, value + strlen(value) - 6);
    assert_int_equal(api_key_read(slice_of(value), &read), STATUS_KEY_INVALID);
    value[8] = '\0';
    struct slice with_nul = {value, 6 + 12 + 1 + 43 + 1 + 6};
    model_check(value, with_nul.length - 7, value + with_nul.length - 6);
    assert_int_equal(api_key_read(with_nul, &read), STATUS_KEY_INVALID);
    assert_null(strstr(status_note()->message, "sk-by-0"));
}

static void test_redacted(void **state)
{
    (void)state;
    char value[LIMIT_KEY_BYTES];
    char redacted[LIMIT_ID_BYTES];
    char wanted[64];
    for (int admin = 0; admin < 2; admin++) {
        api_key_make(admin == 1, value);
        api_key_redact(slice_of(value), redacted);
        snprintf(wanted, sizeof wanted, "%.*s\u2026%s", admin == 1 ? 15 : 9, value,
                 value + strlen(value) - 3);
        assert_string_equal(redacted, wanted);
    }
}

/* 62,000 draws, 1,000 of each digit expected: within five standard deviations (157) but for one
 * run in some ten thousand. */
static void test_random_is_uniform(void **state)
{
    (void)state;
    static char text[62001];
    int seen[128] = {0};
    api_key_random(text, 62000);
    assert_int_equal(strlen(text), 62000);
    for (int i = 0; i < 62000; i++)
        seen[(unsigned char)text[i]]++;
    int kinds = 0;
    for (int c = 0; c < 128; c++) {
        if (seen[c] == 0)
            continue;
        kinds++;
        assert_true(seen[c] > 1000 - 200);
        assert_true(seen[c] < 1000 + 200);
    }
    assert_int_equal(kinds, 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_every_single_typo),
        cmocka_unit_test(test_wrong_forms),
        cmocka_unit_test(test_redacted),
        cmocka_unit_test(test_random_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
