/* auth_method: what each row of methods.def implements.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     the method's own.
 * Not here: the order of methods (methods.def), opaque names (tenant keeps them).
 */
#pragma once

#include <stdatomic.h>

#include "auth/credential/auth_credential.h"
#include "auth/credential/auth_crypto.h"
#include "auth/credential/principal.h"
#include "auth/identity/auth_refusals.h"
#include "auth/tenants/certificate.h"
#include "auth/tenants/issuer.h"

struct auth_tokens;

struct auth_method_context {
    struct tenants *tenants;
    struct issuers *issuers;
    struct certificates *certificates;
    struct auth_tokens *tokens;
    uint8_t pepper[AUTH_CRYPTO_BYTES];
    atomic_uint_fast64_t *refused; /* [AUTH_REFUSALS]: each method counts its own */
};

/* auth_<name>_recognises: whether this method decides about a credential, which is never empty.
 * auth_<name>_authenticate: fills in `out`; fails as auth_authenticate does. */
#define METHOD(name)                                                                               \
    bool auth_##name##_recognises(const struct auth_credential *credential);                       \
    enum status auth_##name##_authenticate(struct auth_method_context *context,                    \
                                           const struct auth_credential *credential,               \
                                           bool want_admin, struct principal *out);
#include "auth/identity/methods.def"
#undef METHOD
