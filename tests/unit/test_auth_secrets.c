#include "auth/credential/auth_secrets.h"

#include "tests/unit/base_kit.h"

#include <fcntl.h>
#include <sys/wait.h>

static int setup(void **state)
{
    char *folder = calloc(1, 64);
    kit_folder_make(folder);
    *state = folder;
    return 0;
}

static int teardown(void **state)
{
    kit_folder_remove(*state);
    free(*state);
    return 0;
}

static void write_text(const char *folder, const char *text, size_t length)
{
    char path[128];
    snprintf(path, sizeof path, "%s/secrets", folder);
    unlink(path);
    int descriptor = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, length), length);
    close(descriptor);
}

static void test_made_once(void **state)
{
    struct auth_secrets first;
    struct auth_secrets second;
    assert_int_equal(auth_secrets_read(*state, &first), STATUS_NOT_FOUND);
    assert_int_equal(auth_secrets_make(*state, &first), STATUS_OK);
    assert_memory_not_equal(first.pepper, first.domain, 32);
    assert_int_equal(auth_secrets_read(*state, &second), STATUS_OK);
    assert_memory_equal(&first, &second, sizeof first);
    /* Another process that found no file a moment ago gets those of the first. */
    memset(&second, 0, sizeof second);
    assert_int_equal(auth_secrets_make(*state, &second), STATUS_OK);
    assert_memory_equal(&first, &second, sizeof first);
}

static const char right[] =
    "banyan-secrets 1\n"
    "pepper 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
    "domain ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff\n";

static void test_form(void **state)
{
    struct auth_secrets secrets;
    write_text(*state, right, strlen(right));
    assert_int_equal(auth_secrets_read(*state, &secrets), STATUS_OK);
    for (int i = 0; i < 32; i++)
        assert_int_equal(secrets.pepper[i], i);
    assert_int_equal(secrets.domain[0], 0xff);
    assert_int_equal(secrets.domain[31], 0xff);
}

/* Every prefix, and every byte made another: never taken (a hex digit that becomes another hex
 * digit is another secret, and the only change that can be). */
static void test_damaged_files(void **state)
{
    struct auth_secrets secrets;
    for (size_t length = 0; length < strlen(right); length++) {
        write_text(*state, right, length);
        assert_int_equal(auth_secrets_read(*state, &secrets), STATUS_CORRUPT);
    }
    for (size_t i = 0; i < strlen(right); i++) {
        char text[sizeof right];
        memcpy(text, right, sizeof right);
        text[i] = text[i] == 'G' ? 'g' : 'G';
        write_text(*state, text, strlen(right));
        assert_int_equal(auth_secrets_read(*state, &secrets), STATUS_CORRUPT);
    }
    char longer[sizeof right + 1];
    snprintf(longer, sizeof longer, "%s\n", right);
    write_text(*state, longer, strlen(longer));
    assert_int_equal(auth_secrets_read(*state, &secrets), STATUS_CORRUPT);
    assert_null(strstr(status_note()->message, "0001"));
}

static void test_memory_fails_at_each_allocation(void **state)
{
    write_text(*state, right, strlen(right));
    for (int n = 1;; n++) {
        struct auth_secrets secrets;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = auth_secrets_read(*state, &secrets);
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            assert_true(n > 1);
            break;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
