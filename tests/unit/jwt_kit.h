/* jwt_kit: keys of issuers, their JSON Web Keys, and tokens signed with them, as an issuer does it.
 *
 * Owns:     the keys of one test.
 * Thread:   one.
 * Not here: directories of tenants (tenant_kit).
 */
#pragma once

#include "tests/unit/base_kit.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "auth/credential/auth_jwt_guard.h"

#define JWT_KIT_NOW INT64_C(1790000000)
#define JWT_KIT_ISS "https://issuer.example"

struct jwt_kit_key {
    enum auth_jwt_algorithm algorithm;
    const char *kid;
    EVP_PKEY *pkey;
    uint8_t secret[64];
    size_t secret_bytes;
};

/* Appends base64url without padding. */
static inline void jwt_kit_base64(struct buffer *out, const void *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = (uint32_t)at[i] << 16 | (i + 1 < length ? (uint32_t)at[i + 1] << 8 : 0) |
                        (i + 2 < length ? at[i + 2] : 0);
        size_t characters = length - i >= 3 ? 4 : length - i + 1;
        for (size_t j = 0; j < characters; j++)
            buffer_append_char(out, digits[bits >> (18 - 6 * j) & 63]);
    }
}

/* `size`: bits of RSA, or 384 for ES256 by a P-384 key; 0 = as it should be. */
static inline struct jwt_kit_key jwt_kit_make(enum auth_jwt_algorithm algorithm, const char *kid,
                                              unsigned size)
{
    struct jwt_kit_key key = {.algorithm = algorithm, .kid = kid};
    if (algorithm == AUTH_JWT_RS256 || algorithm == AUTH_JWT_PS256)
        key.pkey = EVP_RSA_gen(size != 0 ? size : 2048u);
    else if (algorithm == AUTH_JWT_ES256)
        key.pkey = EVP_EC_gen(size == 384 ? "P-384" : "P-256");
    else if (algorithm == AUTH_JWT_EDDSA)
        key.pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    else
        key.secret_bytes = size != 0 ? size : 32;
    assert_true(key.pkey != NULL || key.secret_bytes != 0);
    for (size_t i = 0; i < key.secret_bytes; i++)
        key.secret[i] = (uint8_t)((uint8_t)kid[0] + 7 * i);
    return key;
}

static inline void jwt_kit_free(struct jwt_kit_key *key)
{
    EVP_PKEY_free(key->pkey);
    key->pkey = NULL;
}

static inline void jwt_kit_number(struct buffer *out, const struct jwt_kit_key *key,
                                  const char *member, const char *parameter, int least)
{
    BIGNUM *number = NULL;
    uint8_t bytes[1024];
    assert_int_equal(EVP_PKEY_get_bn_param(key->pkey, parameter, &number), 1);
    int length = BN_num_bytes(number) > least ? BN_num_bytes(number) : least;
    assert_int_equal(BN_bn2binpad(number, bytes, length), length);
    BN_free(number);
    buffer_printf(out, ",\"%s\":\"", member);
    jwt_kit_base64(out, bytes, (size_t)length);
    buffer_append_char(out, '"');
}

/* Appends {"kty":…}; `extra` such as ",\"use\":\"sig\"" goes in. */
static inline void jwt_kit_jwk(struct buffer *out, const struct jwt_kit_key *key, const char *extra)
{
    bool is_rsa = key->algorithm == AUTH_JWT_RS256 || key->algorithm == AUTH_JWT_PS256;
    bool is_ec = key->algorithm == AUTH_JWT_ES256;
    bool is_large = is_ec && EVP_PKEY_get_bits(key->pkey) == 384;
    buffer_printf(out, "{\"kid\":\"%s\",\"alg\":\"%s\"%s,\"kty\":\"%s\"", key->kid,
                  auth_jwt_guard_algorithm(key->algorithm), extra,
                  is_rsa                             ? "RSA"
                  : is_ec                            ? "EC"
                  : key->algorithm == AUTH_JWT_HS256 ? "oct"
                                                     : "OKP");
    if (is_rsa) {
        jwt_kit_number(out, key, "n", OSSL_PKEY_PARAM_RSA_N, 0);
        jwt_kit_number(out, key, "e", OSSL_PKEY_PARAM_RSA_E, 0);
    } else if (is_ec) {
        buffer_printf(out, ",\"crv\":\"%s\"", is_large ? "P-384" : "P-256");
        jwt_kit_number(out, key, "x", OSSL_PKEY_PARAM_EC_PUB_X, is_large ? 48 : 32);
        jwt_kit_number(out, key, "y", OSSL_PKEY_PARAM_EC_PUB_Y, is_large ? 48 : 32);
    } else if (key->algorithm == AUTH_JWT_EDDSA) {
        uint8_t bytes[32];
        size_t length = sizeof bytes;
        assert_int_equal(EVP_PKEY_get_raw_public_key(key->pkey, bytes, &length), 1);
        buffer_append_text(out, ",\"crv\":\"Ed25519\",\"x\":\"");
        jwt_kit_base64(out, bytes, length);
        buffer_append_char(out, '"');
    } else {
        buffer_append_text(out, ",\"k\":\"");
        jwt_kit_base64(out, key->secret, key->secret_bytes);
        buffer_append_char(out, '"');
    }
    buffer_append_char(out, '}');
}

/* {"keys":[…]} of `count` keys; the caller frees it with buffer_deinit. */
static inline struct buffer jwt_kit_jwks(const struct jwt_kit_key *keys, size_t count)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    buffer_append_text(&out, "{\"keys\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_char(&out, ',');
        jwt_kit_jwk(&out, &keys[i], "");
    }
    buffer_append_text(&out, "]}");
    return out;
}

/* DER → r and s, each as long as the curve's numbers. */
static inline size_t jwt_kit_raw(uint8_t *signature, size_t length, int bytes)
{
    const uint8_t *at = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)length);
    assert_non_null(pair);
    uint8_t raw[96];
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, bytes), bytes);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + bytes, bytes), bytes);
    ECDSA_SIG_free(pair);
    memcpy(signature, raw, 2 * (size_t)bytes);
    return 2 * (size_t)bytes;
}

static inline size_t jwt_kit_signature(const struct jwt_kit_key *key, struct slice message,
                                       uint8_t out[1024])
{
    const unsigned char *bytes = (const unsigned char *)message.bytes;
    size_t length = 1024;
    if (key->pkey == NULL) {
        unsigned made = 0;
        assert_non_null(HMAC(EVP_sha256(), key->secret, (int)key->secret_bytes, bytes,
                             message.length, out, &made));
        return made;
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *how = NULL;
    bool is_plain = key->algorithm == AUTH_JWT_EDDSA;
    assert_int_equal(EVP_DigestSignInit_ex(context, &how, is_plain ? NULL : "SHA256", NULL, NULL,
                                           key->pkey, NULL),
                     1);
    if (key->algorithm == AUTH_JWT_PS256) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    assert_int_equal(EVP_DigestSign(context, out, &length, bytes, message.length), 1);
    EVP_MD_CTX_free(context);
    if (key->algorithm == AUTH_JWT_ES256)
        length = jwt_kit_raw(out, length, EVP_PKEY_get_bits(key->pkey) == 384 ? 48 : 32);
    return length;
}

/* header.claims.signature in `out`, which is cleared before. */
static inline struct slice jwt_kit_sign(struct buffer *out, const struct jwt_kit_key *key,
                                        const char *header, const char *claims)
{
    uint8_t signature[1024];
    buffer_clear(out);
    jwt_kit_base64(out, header, strlen(header));
    buffer_append_char(out, '.');
    jwt_kit_base64(out, claims, strlen(claims));
    size_t length = jwt_kit_signature(key, buffer_slice(out), signature);
    buffer_append_char(out, '.');
    jwt_kit_base64(out, signature, length);
    assert_int_equal(out->status, STATUS_OK);
    return buffer_slice(out);
}

/* The header that a token of the key has. */
static inline struct slice jwt_kit_token_of(struct buffer *out, const struct jwt_kit_key *key,
                                            const char *type, const char *claims)
{
    char header[256];
    snprintf(header, sizeof header, "{\"typ\":\"%s\",\"alg\":\"%s\",\"kid\":\"%s\"}", type,
             auth_jwt_guard_algorithm(key->algorithm), key->kid);
    return jwt_kit_sign(out, key, header, claims);
}

static inline struct slice jwt_kit_token(struct buffer *out, const struct jwt_kit_key *key,
                                         const char *claims)
{
    return jwt_kit_token_of(out, key, "JWT", claims);
}
