#include "auth/tenants/tenant_records.h"

#include <stdio.h>

enum status tenant_records_name(const struct tenants *tenants, const char *kind, const char *text,
                                uint8_t out[16])
{
    char message[16 + LIMIT_NAME_BYTES];
    uint8_t mac[AUTH_CRYPTO_BYTES];
    int length = snprintf(message, sizeof message, "%s%s", kind, text);
    ASSERT(length > 0 && (size_t)length < sizeof message);
    TRY(auth_crypto_hmac(tenants->domain, slice_of(message), mac));
    memcpy(out, mac, 16);
    return STATUS_OK;
}
