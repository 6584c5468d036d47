/* certificate_kit: a directory of tenants with certificates' rows, and short ways to both.
 *
 * Owns:     the kit of one test.
 * Thread:   any.
 * Not here: tenants (tenant_kit), real certificates (tls_client_kit).
 */
#pragma once

#include "tests/unit/tenant_kit.h"

#include "auth/tenants/certificate_auth.h"

struct certificate_kit {
    struct tenant_kit *base;
    struct certificates *certificates;
    struct tenant tenant;
    struct principal principal; /* of the last match */
    bool is_ambiguous;
};

static inline int certificate_kit_setup(void **state)
{
    struct certificate_kit *kit = calloc(1, sizeof *kit);
    void *base;
    tenant_kit_setup(&base);
    kit->base = base;
    assert_int_equal(certificates_open(&kit->certificates, kit->base->tenants), STATUS_OK);
    kit->tenant = tenant_kit_tenant(kit->base, "tenant");
    *state = kit;
    return 0;
}

static inline int certificate_kit_teardown(void **state)
{
    struct certificate_kit *kit = *state;
    void *base = kit->base;
    certificates_close(kit->certificates);
    free(kit);
    return tenant_kit_teardown(&base);
}

static inline void certificate_kit_restart(struct certificate_kit *kit)
{
    certificates_close(kit->certificates);
    tenant_kit_stop(kit->base);
    tenant_kit_start(kit->base);
    assert_int_equal(certificates_open(&kit->certificates, kit->base->tenants), STATUS_OK);
}

/* Fingerprint number `number`, as bytes and as a row has it (good until the next call). */
static inline struct peer_certificate certificate_kit_peer(unsigned number)
{
    struct peer_certificate peer = {.name_count = 0};
    memcpy(peer.fingerprint, &number, sizeof number);
    return peer;
}

static inline const char *certificate_kit_hex(unsigned number)
{
    static char hex[65];
    struct peer_certificate peer = certificate_kit_peer(number);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", peer.fingerprint[i]);
    return hex;
}

static inline void certificate_kit_name(struct peer_certificate *peer, enum peer_name_kind kind,
                                        const char *text)
{
    peer->names[peer->name_count++] = (struct peer_name){kind, slice_of(text)};
}

static inline struct certificate_fields certificate_kit_fields(enum certificate_match match,
                                                               const char *value)
{
    return (struct certificate_fields){
        .given = CERTIFICATE_VALUE, .match = match, .value = slice_of(value)};
}

static inline struct certificate certificate_kit_make(struct certificate_kit *kit,
                                                      const char *tenant_id,
                                                      enum certificate_match match,
                                                      const char *value)
{
    struct certificate row;
    const struct certificate_fields fields = certificate_kit_fields(match, value);
    assert_int_equal(
        certificate_create(kit->certificates, &change, slice_of(tenant_id), &fields, &row),
        STATUS_OK);
    return row;
}

static inline enum tenant_match certificate_kit_match(struct certificate_kit *kit,
                                                      const struct peer_certificate *peer)
{
    memset(&kit->principal, 0, sizeof kit->principal);
    return certificates_match(kit->certificates, peer, &kit->principal, &kit->is_ambiguous);
}
