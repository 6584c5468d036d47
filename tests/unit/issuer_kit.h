/* issuer_kit: a directory of tenants with issuers, and short ways to an issuer and its fields.
 *
 * Owns:     the kit of one test.
 * Thread:   any.
 * Not here: keys and tokens (jwt_kit), tenants (tenant_kit).
 */
#pragma once

#include "tests/unit/jwt_kit.h"
#include "tests/unit/tenant_kit.h"

#include "auth/auth.h"
#include "auth/tenants/issuer_auth.h"

enum { KIT_ALL_ALGORITHMS = (1 << AUTH_JWT_ALGORITHMS) - 1 };

struct issuer_kit {
    struct tenant_kit *base;
    struct issuers *issuers;
};

static inline void issuer_kit_start(struct issuer_kit *kit)
{
    assert_int_equal(issuers_open(&kit->issuers, kit->base->tenants, kit_pepper, kit->base->folder),
                     STATUS_OK);
}

static inline void issuer_kit_restart(struct issuer_kit *kit)
{
    issuers_close(kit->issuers);
    tenant_kit_stop(kit->base);
    tenant_kit_start(kit->base);
    issuer_kit_start(kit);
}

static inline int issuer_kit_setup(void **state)
{
    struct issuer_kit *kit = calloc(1, sizeof *kit);
    void *base;
    tenant_kit_setup(&base);
    kit->base = base;
    issuer_kit_start(kit);
    *state = kit;
    return 0;
}

static inline int issuer_kit_teardown(void **state)
{
    struct issuer_kit *kit = *state;
    void *base = kit->base;
    issuers_close(kit->issuers);
    free(kit);
    return tenant_kit_teardown(&base);
}

/* All that an issuer must have; `jwks` is borrowed. */
static inline struct issuer_fields issuer_kit_fields(const char *name, const char *iss,
                                                     struct slice jwks)
{
    return (struct issuer_fields){.given = ISSUER_NAME | ISSUER_ISSUER | ISSUER_AUDIENCES |
                                           ISSUER_ALGORITHMS | ISSUER_JWKS,
                                  .name = slice_of(name),
                                  .issuer = slice_of(iss),
                                  .audiences = SLICE("[\"banyan\"]"),
                                  .algorithms = KIT_ALL_ALGORITHMS,
                                  .jwks = jwks};
}

static inline struct issuer issuer_kit_make(struct issuer_kit *kit, const char *name,
                                            const char *iss, const struct jwt_kit_key *keys,
                                            size_t count)
{
    struct issuer issuer;
    struct buffer json = jwt_kit_jwks(keys, count);
    const struct issuer_fields fields = issuer_kit_fields(name, iss, buffer_slice(&json));
    assert_int_equal(issuer_create(kit->issuers, &change, &fields, &issuer), STATUS_OK);
    buffer_deinit(&json);
    return issuer;
}

/* The issuer's keys are these from now on. */
static inline void issuer_kit_rotate(struct issuer_kit *kit, const struct issuer *issuer,
                                     const struct jwt_kit_key *keys, size_t count)
{
    struct issuer told;
    struct buffer json = jwt_kit_jwks(keys, count);
    const struct issuer_fields fields = {.given = ISSUER_JWKS, .jwks = buffer_slice(&json)};
    assert_int_equal(issuer_update(kit->issuers, &change, slice_of(issuer->id), &fields, &told),
                     STATUS_OK);
    assert_int_equal(told.key_count, count);
    buffer_deinit(&json);
}
