#include "auth/identity/auth_method.h"
#include "auth/tenants/certificate_auth.h"

/* A key or token in a header decides when there is one. */
bool auth_certificate_recognises(const struct auth_credential *credential)
{
    return credential->text.length == 0 && credential->certificate != NULL;
}

/* The client holds the key of a certificate of a configured authority, so it may be told the
 * reason. */
static enum status refuse(struct auth_method_context *context, enum tenant_match match,
                          bool is_ambiguous)
{
    static const enum auth_refusal refusals[] = {
        [TENANT_MATCH_WRONG] = AUTH_REFUSAL_CERTIFICATE_WRONG,
        [TENANT_MATCH_REVOKED] = AUTH_REFUSAL_CERTIFICATE_REVOKED,
        [TENANT_MATCH_EXPIRED] = AUTH_REFUSAL_CERTIFICATE_EXPIRED,
        [TENANT_MATCH_ARCHIVED] = AUTH_REFUSAL_CERTIFICATE_ARCHIVED,
        [TENANT_MATCH_SUSPENDED] = AUTH_REFUSAL_CERTIFICATE_SUSPENDED,
    };
    atomic_fetch_add(
        &context->refused[is_ambiguous ? AUTH_REFUSAL_CERTIFICATE_AMBIGUOUS : refusals[match]], 1);
    if (match == TENANT_MATCH_SUSPENDED)
        FAIL(STATUS_FORBIDDEN, "The tenant of this client certificate is suspended.");
    FAIL(STATUS_KEY_INVALID, "%s",
         is_ambiguous                    ? "The client certificate has names of more than one row."
         : match == TENANT_MATCH_REVOKED ? "The client certificate is revoked."
         : match == TENANT_MATCH_EXPIRED ? "The client certificate's row has expired."
                                         : "The client certificate is nobody's here.");
}

enum status auth_certificate_authenticate(struct auth_method_context *context,
                                          const struct auth_credential *credential, bool want_admin,
                                          struct principal *out)
{
    bool is_ambiguous;
    enum tenant_match match =
        certificates_match(context->certificates, credential->certificate, out, &is_ambiguous);
    if (match != TENANT_MATCH_OPEN)
        return refuse(context, match, is_ambiguous);
    if (out->is_admin != want_admin) {
        atomic_fetch_add(&context->refused[AUTH_REFUSAL_CERTIFICATE_FACE], 1);
        FAIL(STATUS_KEY_INVALID,
             want_admin ? "A tenant's client certificate does not open the config API."
                        : "An admin's client certificate does not open the tenants' API.");
    }
    return STATUS_OK;
}
