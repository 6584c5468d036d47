#include "auth/auth_crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>

/* A context is kept a thread: making one costs 1.2 µs, starting it again 0.2 µs. */
static pthread_key_t context_key;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;

static void context_free(void *context)
{
    EVP_MAC_CTX_free(context);
}

static void context_key_make(void)
{
    int failed = pthread_key_create(&context_key, context_free);
    ASSERT(failed == 0);
}

static EVP_MAC_CTX *hmac_context(void)
{
    pthread_once(&context_once, context_key_make);
    EVP_MAC_CTX *context = pthread_getspecific(context_key);
    if (context != NULL)
        return context;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (mac != NULL)
        context = EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    if (context == NULL || EVP_MAC_CTX_set_params(context, parameters) != 1 ||
        pthread_setspecific(context_key, context) != 0) {
        EVP_MAC_CTX_free(context);
        return NULL;
    }
    return context;
}

enum status auth_crypto_hmac(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice message,
                             uint8_t out[AUTH_CRYPTO_BYTES])
{
    size_t length = 0;
    EVP_MAC_CTX *context = hmac_context();
    if (context == NULL || EVP_MAC_init(context, key, AUTH_CRYPTO_BYTES, NULL) != 1 ||
        EVP_MAC_update(context, (const unsigned char *)message.bytes, message.length) != 1 ||
        EVP_MAC_final(context, out, &length, AUTH_CRYPTO_BYTES) != 1 || length != AUTH_CRYPTO_BYTES)
        FAIL(STATUS_NO_MEMORY, "HMAC-SHA-256 cannot be computed");
    return STATUS_OK;
}

bool auth_crypto_equals(const void *a, const void *b, size_t length)
{
    return CRYPTO_memcmp(a, b, length) == 0;
}

void auth_crypto_forget(void *secret, size_t length)
{
    OPENSSL_cleanse(secret, length);
}
