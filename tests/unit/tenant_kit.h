/* tenant_kit: a directory of tenants in a folder of its own, under a clock that the test moves, and
 * short ways to tenants and keys.
 *
 * Owns:     the actor and the plain change of all tests.
 * Thread:   any.
 * Not here: what the tests of single files need (each has its own).
 */
#pragma once

#include "auth/credential/auth_scope.h"
#include "auth/credential/principal.h"
#include "auth/limits/quota_limits_hooks.h"
#include "auth/tenants/tenant.h"
#include "tests/unit/base_kit.h"

#include <sqlite3.h>

#include "auth/credential/api_key.h"
#include "auth/tenants/tenant_auth.h"

#define KIT_UNUSED __attribute__((unused))

static const struct audit_actor actor KIT_UNUSED = {.key_id = "key_actor",
                                                    .peer = "192.0.2.1:5",
                                                    .request_id = "req_1",
                                                    .scopes = AUTH_SCOPES_ADMIN};
static const struct audit_filter anything KIT_UNUSED = {.since_s = 0};
static const struct tenant_change change KIT_UNUSED = {.actor = &actor};

static inline enum status kit_tenant(struct tenants *tenants, struct slice name, uint32_t weight,
                                     struct tenant *out)
{
    const struct tenant_fields fields = {
        .given = TENANT_NAME | TENANT_WEIGHT, .name = name, .weight = weight};
    return tenants_create(tenants, &change, &fields, out);
}

/* `scopes` 0: not given. */
static inline enum status kit_key(struct tenants *tenants, struct slice tenant_id,
                                  struct slice name, uint32_t scopes, struct tenant_key *out,
                                  char value[LIMIT_KEY_BYTES])
{
    const struct tenant_key_fields fields = {.given = TENANT_KEY_NAME |
                                                      (scopes != 0 ? TENANT_KEY_SCOPES : 0u),
                                             .name = name,
                                             .scopes = scopes};
    return tenants_key_create(tenants, &change, tenant_id, &fields, out, value);
}

/* --- a directory --- */

enum { KIT_START_S = 1790000000 };

struct tenant_kit {
    char folder[64];
    char path[96];
    struct store *store;
    struct tenants *tenants;
    struct clock clock;
};

static const uint8_t kit_pepper[32] KIT_UNUSED = {1, 2, 3};
static const uint8_t kit_domain[32] KIT_UNUSED = {4, 5, 6};

static inline void tenant_kit_start(struct tenant_kit *kit)
{
    const struct tenants_options options = {.pepper = kit_pepper,
                                            .domain = kit_domain,
                                            .clock = &kit->clock,
                                            .limits = &quota_limits_hooks};
    struct tenants_options with_store = options;
    assert_int_equal(store_open(&kit->store, kit->path), STATUS_OK);
    with_store.store = kit->store;
    assert_int_equal(tenants_open(&kit->tenants, &with_store), STATUS_OK);
}

static inline void tenant_kit_stop(struct tenant_kit *kit)
{
    tenants_close(kit->tenants);
    store_close(kit->store);
}

static inline int tenant_kit_setup(void **state)
{
    struct tenant_kit *kit = calloc(1, sizeof *kit);
    kit_folder_make(kit->folder);
    snprintf(kit->path, sizeof kit->path, "%s/banyan.db", kit->folder);
    clock_manual_init(&kit->clock, KIT_START_S * INT64_C(1000000));
    tenant_kit_start(kit);
    *state = kit;
    return 0;
}

static inline int tenant_kit_teardown(void **state)
{
    struct tenant_kit *kit = *state;
    tenant_kit_stop(kit);
    kit_folder_remove(kit->folder);
    free(kit);
    return 0;
}

static inline void tenant_kit_pass(struct tenant_kit *kit, int64_t seconds)
{
    clock_manual_advance(&kit->clock, seconds * 1000000);
}

static inline void tenant_kit_execute(struct tenant_kit *kit, const char *sql)
{
    struct sqlite3 *connection;
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, sql), STATUS_OK);
    assert_int_equal(store_end(kit->store, true), STATUS_OK);
}

/* The one number that a statement gives. */
static inline int64_t tenant_kit_number(struct tenant_kit *kit, const char *sql)
{
    struct sqlite3 *connection;
    sqlite3_stmt *statement;
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    assert_int_equal(store_end(kit->store, false), STATUS_OK);
    return number;
}

/* As if the disk were full, or not any more: the file may have no page more than it has. */
static inline void tenant_kit_fill_disk(struct tenant_kit *kit, bool is_full)
{
    struct sqlite3 *connection;
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(store_end(kit->store, false), STATUS_OK);
    assert_int_equal(store_execute(connection, is_full ? "pragma max_page_count = 1"
                                                       : "pragma max_page_count = 1000000"),
                     STATUS_OK);
}

static inline struct tenant tenant_kit_tenant(struct tenant_kit *kit, const char *name)
{
    struct tenant tenant;
    assert_int_equal(kit_tenant(kit->tenants, slice_of(name), 100, &tenant), STATUS_OK);
    return tenant;
}

/* `tenant_id` "" makes an admin key of all scopes. */
static inline struct tenant_key tenant_kit_key(struct tenant_kit *kit, const char *tenant_id,
                                               char value[LIMIT_KEY_BYTES])
{
    struct tenant_key key;
    uint32_t scopes = tenant_id[0] == '\0' ? AUTH_SCOPES_ADMIN : AUTH_SCOPES_TENANT;
    assert_int_equal(kit_key(kit->tenants, slice_of(tenant_id), SLICE("key"), scopes, &key, value),
                     STATUS_OK);
    return key;
}

/* What authentication finds of a value. */
static inline enum tenant_match tenant_kit_match(struct tenant_kit *kit, const char *value)
{
    struct api_key read;
    struct principal principal;
    uint8_t hash[AUTH_CRYPTO_BYTES];
    assert_int_equal(api_key_read(slice_of(value), &read), STATUS_OK);
    assert_int_equal(auth_crypto_hmac(kit_pepper, slice_of(value), hash), STATUS_OK);
    return tenants_key_match(kit->tenants, read.id, hash, &principal);
}
