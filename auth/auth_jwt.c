#include "auth/auth_jwt.h"

#include <jwt.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "config/base/mem.h"

/* In libjwt's words; NONE: it does not know the algorithm. */
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
    ASSERT(material != NULL && bytes > 0); /* without a key libjwt takes whatever comes */
    char *token = mem_strndup(jwt->token.bytes, jwt->token.length);
    jwt_t *read = NULL;
    bool is_right = token != NULL && jwt_decode(&read, token, material, (int)bytes) == 0;
    is_right = is_right && jwt_get_alg(read) == libjwt_algorithms[key->algorithm];
    jwt_free(read);
    mem_free(token);
    return is_right;
}

static bool verify_openssl(const struct auth_jwt *jwt, const struct auth_jwks_key *key)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *how = NULL; /* the context's */
    bool is_padded = key->algorithm == AUTH_JWT_PS256;
    bool is_right =
        context != NULL &&
        EVP_DigestVerifyInit_ex(context, &how, is_padded ? "SHA256" : NULL, NULL, NULL, key->pkey,
                                NULL) == 1 &&
        (!is_padded || (EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) == 1 &&
                        EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
        EVP_DigestVerify(context, jwt->signature, jwt->signature_bytes,
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
    bool is_right = libjwt_algorithms[key->algorithm] != JWT_ALG_NONE ? verify_libjwt(jwt, key)
                                                                      : verify_openssl(jwt, key);
    ERR_clear_error();
    return is_right ? AUTH_JWT_NONE : AUTH_JWT_SIGNATURE;
}
