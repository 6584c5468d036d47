/* fuzz_client_certificate: any bytes as a client's certificate (DER): it is judged and its names
 * are read. */
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/http/tls_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An authority that signed the certificates of the corpus; its key no longer exists. */
static const char root[] = "-----BEGIN CERTIFICATE-----\n"
                           "MIIBjzCCATWgAwIBAgIUeNuGj7H0x7S3t38cZYVFB2/QxpMwCgYIKoZIzj0EAwIw\n"
                           "FDESMBAGA1UEAwwJZnV6eiByb290MCAXDTI2MTEyMjEzNTU0NFoYDzIxMjYxMDI5\n"
                           "MTM1NTQ0WjAUMRIwEAYDVQQDDAlmdXp6IHJvb3QwWTATBgcqhkjOPQIBBggqhkjO\n"
                           "PQMBBwNCAASayurywkjl0NiQLfGzQKnZA5jYF3/MZQX36y5ECCuohTkRtoFVTIXF\n"
                           "A5aPLM1QpEMfpk2p5adZfo6/CnthouDQo2MwYTAdBgNVHQ4EFgQUT+Mqu5lZQDm6\n"
                           "qnY8wz9Htl6h5C0wHwYDVR0jBBgwFoAUT+Mqu5lZQDm6qnY8wz9Htl6h5C0wDwYD\n"
                           "VR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwIDSAAwRQIg\n"
                           "HX4Z5Y+WTUuVDCpvW6+Op+GNcllqa807dqrYlAy8lSICIQC/eF3PEdwoSIyI52GD\n"
                           "wsxE/37P3YBwBAlKA5b4FcMKxg==\n"
                           "-----END CERTIFICATE-----\n";

/* Within the hundred years of the root. */
enum { NOW_S = 1800000000 };

static struct tls_client_trust *trust_open(void)
{
    struct tls_client_trust *out = NULL;
    char path[] = "/tmp/fuzz_client_certificate.XXXXXX";
    int file = mkstemp(path);
    ASSERT(file >= 0);
    ASSERT(write(file, root, sizeof root - 1) == (ssize_t)(sizeof root - 1));
    close(file);
    enum status status = tls_client_trust_open(&out, path, "");
    unlink(path);
    ASSERT(status == STATUS_OK);
    return out;
}

/* Checks the names that rows are compared with: none can end a text early or look like another
 * name. */
static void check_names(const struct peer_certificate *peer)
{
    ASSERT(peer->name_count <= LIMIT_PEER_NAMES);
    for (size_t i = 0; i < peer->name_count; i++) {
        const struct peer_name *name = &peer->names[i];
        ASSERT(name->text.length > 0 && name->text.length < LIMIT_PEER_NAME_BYTES);
        ASSERT(name->text.bytes[name->text.length] == '\0');
        for (size_t at = 0; at < name->text.length; at++) {
            char c = name->text.bytes[at];
            ASSERT(c > ' ' && c <= '~');
            ASSERT(name->kind != PEER_NAME_DNS || (c != '*' && (c < 'A' || c > 'Z')));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tls_client_trust *trust;
    if (trust == NULL)
        trust = trust_open();
    const unsigned char *at = data;
    X509 *leaf = d2i_X509(NULL, &at, (long)size);
    if (leaf != NULL) {
        struct tls_client *client = tls_client_open(leaf, NULL);
        ASSERT(client != NULL);
        check_names(tls_client_peer(client));
        enum tls_client_reason reason = tls_client_judge(client, trust, NOW_S);
        ASSERT(reason < TLS_CLIENT_REASONS && reason == tls_client_reason(client));
        ASSERT(reason == tls_client_judge(client, trust, NOW_S));
        ASSERT(tls_client_word(reason) != NULL);
        tls_client_close(client);
        X509_free(leaf);
    }
    ERR_clear_error();
    return 0;
}
