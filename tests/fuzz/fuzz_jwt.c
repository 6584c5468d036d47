/* fuzz_jwt: any bytes as a token, through the guard, the rules and each key; and as a key set. */
#include <stddef.h>
#include <stdint.h>

#include "auth/identity/auth_jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char keys[] = "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"h\",\"alg\":\"HS256\","
                           "\"k\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"},"
                           "{\"kty\":\"OKP\",\"kid\":\"d\",\"crv\":\"Ed25519\","
                           "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"},"
                           "{\"kty\":\"EC\",\"kid\":\"e\",\"crv\":\"P-256\","
                           "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                           "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";

enum { ALL = (1 << AUTH_JWT_ALGORITHMS) - 1 };

static void as_token(struct slice text, const struct auth_jwks *jwks)
{
    static const char audiences[1][LIMIT_NAME_BYTES] = {"banyan"};
    const struct auth_jwt_rules rules = {audiences, 1, 3600};
    struct auth_jwt jwt;
    int64_t expires_s = 0;
    if (auth_jwt_guard_open(text, &jwt) == AUTH_JWT_NONE) {
        ASSERT(text.length <= LIMIT_JWT_BYTES);
        ASSERT(auth_jwt_guard_is_kid(slice_of(jwt.kid)));
        ASSERT(jwt.signature_bytes > 0 && jwt.signature_bytes <= AUTH_JWT_SIGNATURE_BYTES);
        if (auth_jwt_guard_claims(&jwt, &rules, 1790000000, &expires_s) == AUTH_JWT_NONE)
            ASSERT(expires_s > 1790000000);
        (void)auth_jwt_guard_claim(&jwt, "tenant");
        for (size_t i = 0; i < jwks->count; i++)
            ASSERT(auth_jwt_verify(&jwt, &jwks->keys[i]) != AUTH_JWT_NONE ||
                   jwt.algorithm == jwks->keys[i].algorithm);
    }
    auth_jwt_guard_close(&jwt);
}

static void as_keys(struct slice text)
{
    struct auth_jwks *jwks;
    if (auth_jwks_read(text, ALL, &jwks) == STATUS_OK) {
        ASSERT(jwks->count >= 1 && jwks->count <= LIMIT_ISSUER_KEYS);
        for (size_t i = 0; i < jwks->count; i++)
            ASSERT((jwks->keys[i].pem != NULL) != (jwks->keys[i].secret_bytes >= 32));
    }
    auth_jwks_free(jwks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct auth_jwks *jwks;
    const struct slice text = {(const char *)data, size};
    enum status status = auth_jwks_read(SLICE(keys), ALL, &jwks);
    ASSERT(status == STATUS_OK);
    as_token(text, jwks);
    as_keys(text);
    auth_jwks_free(jwks);
    return 0;
}
