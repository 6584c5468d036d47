#include "auth/credential/auth_jwks.h"

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <stdio.h>

#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_jwks_overlap.h"
#include "config/base/json_scan.h"
#include "config/base/mem.h"

enum {
    RSA_BITS_LEAST = 2048,   /* NIST SP 800-57: 112 bits of strength */
    SECRET_BYTES_LEAST = 32, /* RFC 7518, 3.2: as long as the digest */
    SECRET_BYTES_MOST = 512,
    COORDINATE_BYTES = 32,
};

/* The key that is being read, and the name of its place for messages. */
struct reading {
    const json_t *object;
    char where[32]; /* "jwks.keys[2]" */
    uint32_t algorithms;
    struct auth_jwks_key *key;
};

static enum status key_fail(const struct reading *reading, enum status status, const char *member,
                            const char *message)
{
    char param[STATUS_PARAM_BYTES];
    snprintf(param, sizeof param, "%s.%s", reading->where, member);
    return status_fail(status, __FILE__, __LINE__, param, "%s: %s", param, message);
}

static struct slice key_text(const struct reading *reading, const char *member)
{
    const json_t *value = json_object_get(reading->object, member);
    return (struct slice){json_string_value(value), json_string_length(value)};
}

static enum status key_bytes(const struct reading *reading, const char *member, uint8_t *out,
                             size_t capacity, size_t *length)
{
    struct slice text = key_text(reading, member);
    if (text.bytes == NULL || text.length == 0 ||
        !auth_jwt_guard_decode(text, out, capacity, length))
        return key_fail(reading, STATUS_INVALID, member,
                        "it must be base64url without padding, of the length that fits");
    return STATUS_OK;
}

/* --- kinds --- */

static enum status pkey_make(const struct reading *reading, const char *kind,
                             OSSL_PARAM *parameters)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
    EVP_PKEY *pkey = NULL;
    bool is_made = context != NULL && parameters != NULL && EVP_PKEY_fromdata_init(context) == 1 &&
                   EVP_PKEY_fromdata(context, &pkey, EVP_PKEY_PUBLIC_KEY, parameters) == 1;
    EVP_PKEY_CTX_free(context);
    context = is_made ? EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL) : NULL;
    bool is_sound = context != NULL && EVP_PKEY_public_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    ERR_clear_error();
    if (!is_sound) {
        EVP_PKEY_free(pkey);
        return key_fail(reading, STATUS_INVALID, "kty", "the numbers make no sound public key");
    }
    reading->key->pkey = pkey;
    return STATUS_OK;
}

static OSSL_PARAM *rsa_parameters(const uint8_t *n, size_t n_bytes, const uint8_t *e,
                                  size_t e_bytes)
{
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *modulus = BN_bin2bn(n, (int)n_bytes, NULL);
    BIGNUM *exponent = BN_bin2bn(e, (int)e_bytes, NULL);
    OSSL_PARAM *parameters = NULL;
    if (builder != NULL && modulus != NULL && exponent != NULL &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
        parameters = OSSL_PARAM_BLD_to_param(builder);
    OSSL_PARAM_BLD_free(builder);
    BN_free(modulus);
    BN_free(exponent);
    return parameters;
}

static enum status key_rsa(const struct reading *reading)
{
    uint8_t n[LIMIT_RSA_BITS / 8 + 1]; /* some issuers write a leading zero byte */
    uint8_t e[8];
    size_t n_bytes, e_bytes;
    TRY(key_bytes(reading, "n", n, sizeof n, &n_bytes));
    TRY(key_bytes(reading, "e", e, sizeof e, &e_bytes));
    OSSL_PARAM *parameters = rsa_parameters(n, n_bytes, e, e_bytes);
    enum status status = pkey_make(reading, "RSA", parameters);
    OSSL_PARAM_free(parameters);
    TRY(status);
    int bits = EVP_PKEY_get_bits(reading->key->pkey);
    if (bits < RSA_BITS_LEAST || bits > LIMIT_RSA_BITS)
        return key_fail(reading, STATUS_OUT_OF_RANGE, "n",
                        "an RSA key must have 2,048 to 4,096 bits");
    reading->key->signature_bytes = (size_t)EVP_PKEY_get_size(reading->key->pkey);
    return STATUS_OK;
}

static enum status key_ec(const struct reading *reading)
{
    uint8_t point[1 + 2 * COORDINATE_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    char group[] = "prime256v1";
    size_t x_bytes, y_bytes;
    TRY(key_bytes(reading, "x", point + 1, COORDINATE_BYTES, &x_bytes));
    TRY(key_bytes(reading, "y", point + 1 + COORDINATE_BYTES, COORDINATE_BYTES, &y_bytes));
    if (x_bytes != COORDINATE_BYTES || y_bytes != COORDINATE_BYTES)
        return key_fail(reading, STATUS_INVALID, "x", "x and y must have 32 bytes each");
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point),
        OSSL_PARAM_construct_end(),
    };
    reading->key->signature_bytes = 2 * COORDINATE_BYTES;
    return pkey_make(reading, "EC", parameters);
}

static enum status key_ed25519(const struct reading *reading)
{
    uint8_t x[32];
    size_t length;
    TRY(key_bytes(reading, "x", x, sizeof x, &length));
    if (length == sizeof x)
        reading->key->pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, sizeof x);
    ERR_clear_error();
    if (reading->key->pkey == NULL)
        return key_fail(reading, STATUS_INVALID, "x", "it must have 32 bytes");
    reading->key->signature_bytes = 64;
    return STATUS_OK;
}

static enum status key_secret(const struct reading *reading)
{
    struct auth_jwks_key *key = reading->key;
    key->signature_bytes = 32;
    key->secret = mem_alloc(SECRET_BYTES_MOST);
    if (key->secret == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a key");
    TRY(key_bytes(reading, "k", key->secret, SECRET_BYTES_MOST, &key->secret_bytes));
    if (key->secret_bytes < SECRET_BYTES_LEAST)
        return key_fail(reading, STATUS_OUT_OF_RANGE, "k", "a secret must have 32 to 512 bytes");
    return STATUS_OK;
}

static const struct kind {
    const char *type;
    const char *curve; /* NULL: none */
    enum auth_jwt_algorithm algorithm;
    enum status (*read)(const struct reading *reading);
} kinds[] = {
    {"RSA", NULL, AUTH_JWT_RS256, key_rsa},    {"RSA", NULL, AUTH_JWT_PS256, key_rsa},
    {"EC", "P-256", AUTH_JWT_ES256, key_ec},   {"OKP", "Ed25519", AUTH_JWT_EDDSA, key_ed25519},
    {"oct", NULL, AUTH_JWT_HS256, key_secret},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* --- which keys are used --- */

/* Whether the key is for checking signatures: it names no use, or that one. */
static bool use_is_signing(const struct reading *reading)
{
    const json_t *use = json_object_get(reading->object, "use");
    const json_t *operations = json_object_get(reading->object, "key_ops");
    if (use != NULL && !slice_is(key_text(reading, "use"), "sig"))
        return false;
    bool is_verifying = operations == NULL;
    for (size_t i = 0; i < json_array_size(operations); i++) {
        const char *word = json_string_value(json_array_get(operations, i));
        is_verifying = is_verifying || (word != NULL && strcmp(word, "verify") == 0);
    }
    return is_verifying;
}

static bool kind_fits(const struct reading *reading, const struct kind *kind)
{
    return slice_is(key_text(reading, "kty"), kind->type) &&
           (kind->curve == NULL || slice_is(key_text(reading, "crv"), kind->curve));
}

/* Finds the kind of a key. `*out` is NULL for a key that is passed over. */
static enum status kind_find(const struct reading *reading, const struct kind **out)
{
    enum auth_jwt_algorithm algorithm;
    *out = NULL;
    if (!use_is_signing(reading))
        return STATUS_OK;
    bool is_named = json_object_get(reading->object, "alg") != NULL;
    if (is_named && (!auth_jwt_guard_find_algorithm(key_text(reading, "alg"), &algorithm) ||
                     (reading->algorithms & 1u << algorithm) == 0))
        return STATUS_OK;
    for (size_t i = 0; i < KINDS; i++) {
        bool is_allowed = is_named ? kinds[i].algorithm == algorithm
                                   : (reading->algorithms & 1u << kinds[i].algorithm) != 0;
        if (!is_allowed || !kind_fits(reading, &kinds[i]))
            continue;
        if (*out != NULL)
            return key_fail(reading, STATUS_INVALID, "alg",
                            "a key that both RS256 and PS256 could use must say which");
        *out = &kinds[i];
    }
    if (is_named && *out == NULL)
        return key_fail(reading, STATUS_INVALID, "alg", "it does not fit the key's kty and crv");
    return STATUS_OK;
}

/* --- a key --- */

static enum status key_finish(struct auth_jwks_key *key)
{
    struct buffer all;
    size_t length = 0;
    buffer_init(&all, 16 * 1024);
    BIO *memory = key->pkey != NULL ? BIO_new(BIO_s_mem()) : NULL;
    if (memory != NULL && PEM_write_bio_PUBKEY(memory, key->pkey) == 1) {
        char *text = NULL;
        long bytes = BIO_get_mem_data(memory, &text);
        key->pem = mem_strndup(text, (size_t)bytes);
    }
    BIO_free(memory);
    buffer_printf(&all, "%d %s ", (int)key->algorithm, key->kid);
    if (key->pem != NULL)
        buffer_append_text(&all, key->pem);
    else if (key->secret != NULL)
        buffer_append(&all, key->secret, key->secret_bytes);
    bool is_done =
        (key->pkey == NULL || key->pem != NULL) && all.status == STATUS_OK &&
        EVP_Q_digest(NULL, "SHA256", NULL, all.bytes, all.length, key->print, &length) == 1;
    if (all.bytes != NULL)
        auth_crypto_forget(all.bytes, all.capacity);
    buffer_deinit(&all);
    if (!is_done)
        FAIL(STATUS_NO_MEMORY, "no memory for a key");
    return STATUS_OK;
}

/* Reads one key. `*is_used` is false when it was passed over. */
static enum status key_read(struct reading *reading, struct auth_jwks *jwks, bool *is_used)
{
    const struct kind *kind;
    *is_used = false;
    TRY(kind_find(reading, &kind));
    if (kind == NULL)
        return STATUS_OK;
    if (jwks->count == LIMIT_ISSUER_KEYS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "jwks.keys", "An issuer may have %d keys.",
                   LIMIT_ISSUER_KEYS);
    reading->key = &jwks->keys[jwks->count];
    struct slice kid = key_text(reading, "kid");
    if (!auth_jwt_guard_is_kid(kid))
        return key_fail(reading, STATUS_INVALID, "kid",
                        "a key must have a name of 1 to 128 letters, digits and ._-+/=:");
    memcpy(reading->key->kid, kid.bytes, kid.length);
    if (auth_jwks_find(jwks, reading->key->kid) != NULL)
        return key_fail(reading, STATUS_INVALID, "kid", "another key has this name");
    if (json_object_get(reading->object, "d") != NULL)
        return key_fail(reading, STATUS_INVALID, "d", "this is a private key: give the public one");
    reading->key->algorithm = kind->algorithm;
    reading->key->until_s = json_integer_value(json_object_get(reading->object, AUTH_JWKS_UNTIL));
    *is_used = true;
    TRY(kind->read(reading));
    return key_finish(reading->key);
}

static enum status read_all(const json_t *list, uint32_t algorithms, struct auth_jwks *jwks)
{
    if (!json_is_array(list))
        FAIL_PARAM(STATUS_INVALID, "jwks.keys", "jwks must be {\"keys\":[…]}, a JSON Web Key Set.");
    for (size_t i = 0; i < json_array_size(list); i++) {
        bool is_used = false;
        struct reading reading = {.object = json_array_get(list, i), .algorithms = algorithms};
        snprintf(reading.where, sizeof reading.where, "jwks.keys[%zu]", i);
        if (!json_is_object(reading.object))
            FAIL_PARAM(STATUS_INVALID, reading.where, "%s must be an object.", reading.where);
        enum status status = key_read(&reading, jwks, &is_used);
        jwks->count += is_used;
        TRY(status);
    }
    if (jwks->count == 0)
        FAIL_PARAM(STATUS_INVALID, "jwks.keys",
                   "No key in jwks is for signatures of the allowed algorithms.");
    return STATUS_OK;
}

enum status auth_jwks_read(struct slice json, uint32_t algorithms, struct auth_jwks **out)
{
    *out = NULL;
    if (json.length > LIMIT_JWKS_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "jwks", "jwks is longer than %d bytes.", LIMIT_JWKS_BYTES);
    if (json_scan(json, NULL, 0) != STATUS_OK)
        FAIL_PARAM(STATUS_INVALID, "jwks", "jwks is no JSON object.");
    json_t *root = json_loadb(json.bytes, json.length, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL)
        FAIL_PARAM(STATUS_INVALID, "jwks", "jwks is no JSON object with each name once.");
    struct auth_jwks *jwks = mem_zalloc(1, sizeof *jwks);
    enum status status = STATUS_NO_MEMORY;
    if (jwks == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for keys");
    status = read_all(json_object_get(root, "keys"), algorithms, jwks);
    if (status == STATUS_OK)
        *out = jwks;
    else
        auth_jwks_free(jwks);
out:
    json_decref(root);
    return status;
}

void auth_jwks_free(struct auth_jwks *jwks)
{
    if (jwks == NULL)
        return;
    for (size_t i = 0; i < LIMIT_ISSUER_KEYS; i++) {
        struct auth_jwks_key *key = &jwks->keys[i];
        EVP_PKEY_free(key->pkey);
        mem_free(key->pem);
        if (key->secret != NULL)
            auth_crypto_forget(key->secret, SECRET_BYTES_MOST);
        mem_free(key->secret);
    }
    auth_crypto_forget(jwks, sizeof *jwks);
    mem_free(jwks);
}

const struct auth_jwks_key *auth_jwks_find(const struct auth_jwks *jwks, const char *kid)
{
    for (size_t i = 0; i < jwks->count; i++) {
        if (strcmp(jwks->keys[i].kid, kid) == 0)
            return &jwks->keys[i];
    }
    return NULL;
}
