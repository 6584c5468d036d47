#include "auth/identity/auth_jwt.h"

#include <jwt.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "config/base/mem.h"

/* libjwt's name of each algorithm; JWT_ALG_NONE (0): libjwt does not know it. */
static const jwt_alg_t libjwt_algorithms[AUTH_JWT_ALGORITHMS] = {
    [AUTH_JWT_RS256] = JWT_ALG_RS256,
    [AUTH_JWT_ES256] = JWT_ALG_ES256,
    [AUTH_JWT_HS256] = JWT_ALG_HS256,
};

static bool verify_libjwt(const struct auth_jwt *jwt, const struct auth_jwks_key *key)
{
    bool is_secret = key->pem == NULL;
    const void *material = is_secret ? (const void *)key->secret : key->pem;
    size_t bytes = is_secret ? key->secret_bytes : strlen(key->pem);
    ASSERT(material != NULL && bytes > 0); /* without a key libjwt accepts any token */
    char *token = mem_strndup(jwt->token.bytes, jwt->token.length);
    jwt_t *read = NULL;
    bool is_right = token != NULL && jwt_decode(&read, token, material, (int)bytes) == 0;
    is_right = is_right && jwt_get_alg(read) == libjwt_algorithms[key->algorithm];
    jwt_free(read);
    mem_free(token);
    return is_right;
}

static bool verify_hmac(const struct auth_jwt *jwt, const struct auth_jwks_key *key)
{
    uint8_t code[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    return HMAC(EVP_sha256(), key->secret, (int)key->secret_bytes,
                (const unsigned char *)jwt->signed_part.bytes, jwt->signed_part.length, code,
                &length) != NULL &&
           length == jwt->signature_bytes && CRYPTO_memcmp(code, jwt->signature, length) == 0;
}

/* Turns a token's signature, r followed by s (RFC 7518, 3.4), into the ASN.1 that OpenSSL wants.
 * Returns the number of bytes written, or 0. */
static size_t verify_ecdsa_form(const struct auth_jwt *jwt, uint8_t *out, size_t capacity)
{
    const int half = (int)jwt->signature_bytes / 2;
    ECDSA_SIG *both = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(jwt->signature, half, NULL);
    BIGNUM *s = BN_bin2bn(jwt->signature + half, half, NULL);
    size_t written = 0;
    if (both != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(both, r, s) == 1) {
        int length = i2d_ECDSA_SIG(both, NULL);
        if (length > 0 && (size_t)length <= capacity)
            written = (size_t)i2d_ECDSA_SIG(both, &out);
        r = NULL; /* the pair owns them now */
        s = NULL;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(both);
    return written;
}

static bool verify_openssl(const struct auth_jwt *jwt, const struct auth_jwks_key *key)
{
    if (key->algorithm == AUTH_JWT_HS256)
        return verify_hmac(jwt, key);
    uint8_t form[AUTH_JWT_SIGNATURE_BYTES];
    const uint8_t *signature = jwt->signature;
    size_t signature_bytes = jwt->signature_bytes;
    if (key->algorithm == AUTH_JWT_ES256) {
        signature = form;
        signature_bytes = verify_ecdsa_form(jwt, form, sizeof form);
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *how = NULL; /* owned by `context` */
    bool is_padded = key->algorithm == AUTH_JWT_PS256;
    const char *digest = key->algorithm == AUTH_JWT_EDDSA ? NULL : "SHA256";
    bool is_right =
        context != NULL && signature_bytes > 0 &&
        EVP_DigestVerifyInit_ex(context, &how, digest, NULL, NULL, key->pkey, NULL) == 1 &&
        (!is_padded || (EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) == 1 &&
                        EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
        EVP_DigestVerify(context, signature, signature_bytes,
                         (const unsigned char *)jwt->signed_part.bytes,
                         jwt->signed_part.length) == 1;
    EVP_MD_CTX_free(context);
    return is_right;
}

enum auth_jwt_reason auth_jwt_verify(const struct auth_jwt *jwt, const struct auth_jwks_key *key)
{
    if (jwt->algorithm != key->algorithm)
        return AUTH_JWT_KEY_ALGORITHM;
    if (jwt->signature_bytes != key->signature_bytes)
        return AUTH_JWT_SIGNATURE;
    bool is_known = jwt->is_plain && libjwt_algorithms[key->algorithm] != JWT_ALG_NONE;
    bool is_right = is_known ? verify_libjwt(jwt, key) : verify_openssl(jwt, key);
    ERR_clear_error();
    return is_right ? AUTH_JWT_NONE : AUTH_JWT_SIGNATURE;
}
