#include "auth/credential/auth_crypto.h"

#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>

#include "config/base/mem.h"
#include "config/base/random_bytes.h"

/* Kept for each thread, because making a context costs 1.2 µs, setting a key 0.5 µs, and starting
 * again with the same key 0.1 µs. The edge's loop uses one key, the pepper, nearly always. */
struct thread_context {
    EVP_MAC_CTX *mac;
    bool has_key;
    uint8_t key[AUTH_CRYPTO_BYTES];
};

static pthread_key_t context_key;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;

static void context_free(void *memory)
{
    struct thread_context *context = memory;
    EVP_MAC_CTX_free(context->mac);
    OPENSSL_cleanse(context, sizeof *context);
    mem_free(context);
}

static void context_key_make(void)
{
    int failed = pthread_key_create(&context_key, context_free);
    ASSERT(failed == 0);
}

static struct thread_context *hmac_context(void)
{
    pthread_once(&context_once, context_key_make);
    struct thread_context *context = pthread_getspecific(context_key);
    if (context != NULL)
        return context;
    context = mem_zalloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (mac != NULL)
        context->mac = EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    if (context->mac == NULL || EVP_MAC_CTX_set_params(context->mac, parameters) != 1 ||
        pthread_setspecific(context_key, context) != 0) {
        context_free(context);
        return NULL;
    }
    return context;
}

static bool hmac_start(struct thread_context *context, const uint8_t key[AUTH_CRYPTO_BYTES])
{
    if (context->has_key && auth_crypto_equals(context->key, key, AUTH_CRYPTO_BYTES))
        return EVP_MAC_init(context->mac, NULL, 0, NULL) == 1;
    context->has_key = false;
    if (EVP_MAC_init(context->mac, key, AUTH_CRYPTO_BYTES, NULL) != 1)
        return false;
    memcpy(context->key, key, AUTH_CRYPTO_BYTES);
    context->has_key = true;
    return true;
}

enum status auth_crypto_hmac(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice message,
                             uint8_t out[AUTH_CRYPTO_BYTES])
{
    size_t length = 0;
    struct thread_context *context = hmac_context();
    if (context == NULL || !hmac_start(context, key) ||
        EVP_MAC_update(context->mac, (const unsigned char *)message.bytes, message.length) != 1 ||
        EVP_MAC_final(context->mac, out, &length, AUTH_CRYPTO_BYTES) != 1 ||
        length != AUTH_CRYPTO_BYTES)
        FAIL(STATUS_NO_MEMORY, "HMAC-SHA-256 cannot be computed");
    return STATUS_OK;
}

enum { NONCE_BYTES = 12, TAG_BYTES = 16 };

/* Encrypts or decrypts `from` into `to`, and makes or checks `tag`. */
static bool seal_pass(const uint8_t *key, struct slice place, const uint8_t *nonce,
                      struct slice from, uint8_t *to, uint8_t tag[TAG_BYTES], bool is_sealing)
{
    int length = 0;
    int last = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool is_done =
        context != NULL && place.length <= INT_MAX && from.length <= INT_MAX &&
        EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce, is_sealing) == 1 &&
        EVP_CipherUpdate(context, NULL, &length, (const uint8_t *)place.bytes, (int)place.length) ==
            1 &&
        EVP_CipherUpdate(context, to, &length, (const uint8_t *)from.bytes, (int)from.length) ==
            1 &&
        (is_sealing || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1) &&
        EVP_CipherFinal_ex(context, to + length, &last) == 1 && (size_t)length == from.length &&
        (!is_sealing || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1);
    EVP_CIPHER_CTX_free(context);
    return is_done;
}

enum status auth_crypto_seal(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice plain, struct buffer *out)
{
    uint8_t nonce[NONCE_BYTES];
    uint8_t tag[TAG_BYTES];
    size_t start = out->length;
    random_bytes(nonce, sizeof nonce);
    buffer_append(out, nonce, sizeof nonce);
    buffer_append_slice(out, plain);
    buffer_append(out, tag, sizeof tag); /* room for the tag, which is written below */
    if (out->status != STATUS_OK)
        FAIL(out->status, "no memory to seal");
    uint8_t *body = (uint8_t *)out->bytes + start + NONCE_BYTES;
    struct slice from = {(const char *)body, plain.length};
    if (!seal_pass(key, place, nonce, from, body, tag, true)) {
        auth_crypto_forget(body, plain.length);
        FAIL(STATUS_NO_MEMORY, "AES-256-GCM cannot be computed");
    }
    memcpy(body + plain.length, tag, sizeof tag);
    return STATUS_OK;
}

enum status auth_crypto_open(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice sealed, struct buffer *out)
{
    uint8_t tag[TAG_BYTES];
    if (sealed.length < AUTH_CRYPTO_SEAL_BYTES)
        FAIL(STATUS_CORRUPT, "a sealed value is too short");
    struct slice from = {sealed.bytes + NONCE_BYTES, sealed.length - AUTH_CRYPTO_SEAL_BYTES};
    size_t start = out->length;
    buffer_append_slice(out, from);
    if (out->status != STATUS_OK)
        FAIL(out->status, "no memory to open a seal");
    uint8_t *body = (uint8_t *)out->bytes + start;
    memcpy(tag, from.bytes + from.length, sizeof tag);
    if (!seal_pass(key, place, (const uint8_t *)sealed.bytes, from, body, tag, false)) {
        auth_crypto_forget(body, from.length);
        out->length = start;
        FAIL(STATUS_CORRUPT, "a sealed value is damaged, or of another place");
    }
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
