/* tls_authority: what is made is kept, is replaced when it is no good, and names what it must. */
#include "http_kit_tls.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

static X509 *read_certificate(const struct http_kit_tls *tls, const char *file)
{
    char path[128];
    http_kit_tls_file(tls, file, path);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    X509 *cert = PEM_read_X509(in, NULL, NULL, NULL);
    fclose(in);
    assert_non_null(cert);
    return cert;
}

static ino_t inode(const struct http_kit_tls *tls, const char *file, mode_t *mode)
{
    char path[128];
    struct stat info;
    http_kit_tls_file(tls, file, path);
    assert_int_equal(stat(path, &info), 0);
    *mode = info.st_mode & 0777;
    return info.st_ino;
}

static void test_contents(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    mode_t mode;
    inode(&tls, "ca.key", &mode);
    assert_int_equal(mode, 0600);
    inode(&tls, "server.key", &mode);
    assert_int_equal(mode, 0600);
    X509 *ca = read_certificate(&tls, "ca.crt");
    X509 *server = read_certificate(&tls, "server.crt");
    assert_int_equal(X509_verify(server, X509_get0_pubkey(ca)), 1);
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_check_ca(server), 0);
    assert_int_equal(X509_check_host(server, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(server, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(server, "::1", 0), 1);
    assert_int_equal(X509_check_host(server, "example.org", 0, 0, NULL), 0);
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    assert_int_equal(X509_check_host(server, host, 0, 0, NULL), 1);
    assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(server)), 256);
    X509_free(ca);
    X509_free(server);
    http_kit_tls_stop(&tls);
}

static void test_kept_or_replaced(void **state)
{
    (void)state;
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    mode_t mode;
    ino_t before = inode(&tls, "server.crt", &mode);
    assert_int_equal(tls_make_self_signed(tls.directory), STATUS_OK);
    assert_int_equal(inode(&tls, "server.crt", &mode), before);
    static const char *const files[] = {"ca.crt", "ca.key", "server.crt", "server.key"};
    for (size_t i = 0; i < 4; i++) { /* each file missing, then each file spoiled */
        char path[128];
        http_kit_tls_file(&tls, files[i], path);
        for (int is_spoiled = 0; is_spoiled < 2; is_spoiled++) {
            X509 *old = read_certificate(&tls, "server.crt");
            if (is_spoiled)
                assert_int_equal(truncate(path, 40), 0);
            else
                assert_int_equal(unlink(path), 0);
            assert_int_equal(tls_make_self_signed(tls.directory), STATUS_OK);
            X509 *new = read_certificate(&tls, "server.crt");
            X509 *ca = read_certificate(&tls, "ca.crt");
            assert_int_not_equal(X509_cmp(old, new), 0);
            assert_int_equal(X509_verify(new, X509_get0_pubkey(ca)), 1);
            X509_free(old);
            X509_free(new);
            X509_free(ca);
        }
    }
    http_kit_tls_stop(&tls);
}

static void test_no_place(void **state)
{
    (void)state;
    assert_int_equal(tls_make_self_signed("/nowhere/at/all"), STATUS_IO);
    char longest[2048];
    memset(longest, 'd', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(tls_make_self_signed(longest), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_kept_or_replaced),
        cmocka_unit_test(test_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
