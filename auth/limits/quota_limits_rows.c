#include "auth/limits/quota_limits_rows.h"

#include <sqlite3.h>

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

static const char PERCENT[] = "cached_input_percent";
static const char ON_LIMIT[] = "on_limit";
static const char WEIGHT[] = "weight";
static const char DEFAULT_CLASS[] = "default_class"; /* enum service_class + 1 */
static const char BEST_CLASS[] = "best_class";

/* --- writing --- */

static enum status change_of(sqlite3 *connection, const char *sql, const char *id)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(id)};
    return tenant_rows_change(connection, sql, parameters, 1);
}

static enum status write_value(sqlite3 *connection, const char *owner_id, const char *name,
                               int64_t value, bool is_shadow)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(owner_id), P_TEXT(name),
                                                       P_NUMBER(value), P_NUMBER(is_shadow)};
    return tenant_rows_change(
        connection,
        "insert into limit_values (owner_id, name, value, is_shadow) values (?, ?, ?, ?)",
        parameters, 4);
}

static enum status write_set(sqlite3 *connection, const char *owner_id,
                             const struct quota_limits_set *set)
{
    TRY(change_of(connection, "delete from limit_values where owner_id = ?", owner_id));
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (set->values[i].limit != 0)
            TRY(write_value(connection, owner_id, quota_limits_form((enum quota_limit)i)->member,
                            set->values[i].limit, set->values[i].is_shadow));
    }
    if (set->cached_percent >= 0)
        TRY(write_value(connection, owner_id, PERCENT, set->cached_percent, false));
    const struct {
        const char *name;
        int64_t value;
    } others[] = {{ON_LIMIT, set->on_limit},
                  {WEIGHT, set->weight},
                  {DEFAULT_CLASS, set->default_class},
                  {BEST_CLASS, set->best_class}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].value != 0)
            TRY(write_value(connection, owner_id, others[i].name, others[i].value, false));
    return STATUS_OK;
}

enum status quota_limits_rows_insert(sqlite3 *connection, const struct quota_plan *plan)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(plan->id), P_TEXT(plan->name),
                                                       P_NUMBER(plan->created_at_s),
                                                       P_NUMBER(plan->revision)};
    TRY(tenant_rows_change(
        connection, "insert into plans (id, name, created_at_s, revision) values (?, ?, ?, ?)",
        parameters, 4));
    return write_set(connection, plan->id, &plan->set);
}

enum status quota_limits_rows_update(sqlite3 *connection, const struct quota_plan *plan)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(plan->name), P_NUMBER(plan->revision),
                                                       P_TEXT(plan->id)};
    TRY(tenant_rows_change(connection, "update plans set name = ?, revision = ? where id = ?",
                           parameters, 3));
    return write_set(connection, plan->id, &plan->set);
}

enum status quota_limits_rows_delete(sqlite3 *connection, const char *id)
{
    TRY(change_of(connection, "update tenant_limits set plan_id = null where plan_id = ?", id));
    TRY(change_of(connection, "delete from limit_values where owner_id = ?", id));
    return change_of(connection, "delete from plans where id = ?", id);
}

enum status quota_limits_rows_put(sqlite3 *connection, const struct quota_tenant *limits)
{
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(limits->tenant_id),
        {.text = limits->plan_id, .is_null = limits->plan_id[0] == '\0'},
        P_NUMBER(limits->revision)};
    TRY(tenant_rows_change(
        connection,
        "insert into tenant_limits (tenant_id, plan_id, revision) values (?1, ?2, ?3) on conflict "
        "(tenant_id) do update set plan_id = ?2, revision = ?3",
        parameters, 3));
    return write_set(connection, limits->tenant_id, &limits->set);
}

size_t quota_limits_rows_owner(struct slice tenant_id, struct slice key_id,
                               char out[QUOTA_LIMITS_OWNER_BYTES])
{
    size_t length = tenant_id.length + 1 + key_id.length;
    if (length >= QUOTA_LIMITS_OWNER_BYTES)
        return 0;
    memcpy(out, tenant_id.bytes, tenant_id.length);
    out[tenant_id.length] = '/';
    memcpy(out + tenant_id.length + 1, key_id.bytes, key_id.length);
    out[length] = '\0';
    return length;
}

enum status quota_limits_rows_put_key(sqlite3 *connection, const struct quota_key_limits *limits)
{
    char owner[QUOTA_LIMITS_OWNER_BYTES];
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(limits->tenant_id), P_TEXT(limits->key_id), P_NUMBER(limits->revision)};
    quota_limits_rows_owner(slice_of(limits->tenant_id), slice_of(limits->key_id), owner);
    TRY(tenant_rows_change(
        connection,
        "insert into key_limits (tenant_id, key_id, revision) values (?1, ?2, ?3) on conflict "
        "(tenant_id, key_id) do update set revision = ?3",
        parameters, 3));
    return write_set(connection, owner, &limits->set);
}

/* --- reading --- */

/* Who is given the structures of one table's rows. */
struct limits_taken {
    void *context;
    enum status (*plan)(void *context, const struct quota_plan *plan);
    enum status (*tenant)(void *context, const struct quota_tenant *limits);
    enum status (*key)(void *context, const struct quota_key_limits *limits);
    struct quota_limits_set *(*find)(void *context, const char *owner);
};

static enum status read_plan(void *context, sqlite3_stmt *statement)
{
    const struct limits_taken *taken = context;
    bool fits = true;
    struct quota_plan plan = {.set.cached_percent = -1,
                              .created_at_s = sqlite3_column_int64(statement, 2),
                              .revision = sqlite3_column_int64(statement, 3)};
    tenant_rows_text(statement, 0, plan.id, sizeof plan.id, &fits);
    tenant_rows_text(statement, 1, plan.name, sizeof plan.name, &fits);
    if (!fits || plan.created_at_s < 0 || plan.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table plans is out of its bounds");
    return taken->plan(taken->context, &plan);
}

enum status quota_limits_rows_load(sqlite3 *connection, void *context,
                                   enum status (*take)(void *, const struct quota_plan *))
{
    struct limits_taken taken = {.context = context, .plan = take};
    return tenant_rows_each(connection,
                            "select id, name, created_at_s, revision from plans order by number",
                            NULL, 0, read_plan, &taken);
}

static enum status read_tenant(void *context, sqlite3_stmt *statement)
{
    const struct limits_taken *taken = context;
    bool fits = true;
    struct quota_tenant limits = {.set.cached_percent = -1,
                                  .revision = sqlite3_column_int64(statement, 2)};
    tenant_rows_text(statement, 0, limits.tenant_id, sizeof limits.tenant_id, &fits);
    tenant_rows_text(statement, 1, limits.plan_id, sizeof limits.plan_id, &fits);
    if (!fits || limits.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table tenant_limits is out of its bounds");
    return taken->tenant(taken->context, &limits);
}

enum status quota_limits_rows_load_tenants(sqlite3 *connection, void *context,
                                           enum status (*take)(void *, const struct quota_tenant *))
{
    struct limits_taken taken = {.context = context, .tenant = take};
    return tenant_rows_each(connection, "select tenant_id, plan_id, revision from tenant_limits",
                            NULL, 0, read_tenant, &taken);
}

static enum status read_key(void *context, sqlite3_stmt *statement)
{
    const struct limits_taken *taken = context;
    bool fits = true;
    struct quota_key_limits limits = {.set.cached_percent = -1,
                                      .revision = sqlite3_column_int64(statement, 2)};
    tenant_rows_text(statement, 0, limits.tenant_id, sizeof limits.tenant_id, &fits);
    tenant_rows_text(statement, 1, limits.key_id, sizeof limits.key_id, &fits);
    if (!fits || limits.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table key_limits is out of its bounds");
    return taken->key(taken->context, &limits);
}

enum status quota_limits_rows_load_keys(sqlite3 *connection, void *context,
                                        enum status (*take)(void *,
                                                            const struct quota_key_limits *))
{
    struct limits_taken taken = {.context = context, .key = take};
    return tenant_rows_each(connection, "select tenant_id, key_id, revision from key_limits", NULL,
                            0, read_key, &taken);
}

static bool value_put(struct quota_limits_set *set, const char *name, int64_t number,
                      bool is_shadow)
{
    if (strcmp(name, PERCENT) == 0 && number <= 100) {
        set->cached_percent = (int32_t)number;
        return true;
    }
    if (strcmp(name, ON_LIMIT) == 0 && number >= QUOTA_ON_LIMIT_STOP &&
        number <= QUOTA_ON_LIMIT_LOWER_CLASS) {
        set->on_limit = (enum quota_on_limit)number;
        return true;
    }
    if (strcmp(name, WEIGHT) == 0 && number >= 1 && number <= LIMIT_WEIGHT) {
        set->weight = (uint32_t)number;
        return true;
    }
    if ((strcmp(name, DEFAULT_CLASS) == 0 || strcmp(name, BEST_CLASS) == 0) && number >= 1 &&
        number <= SERVICE_CLASS_COUNT) {
        *(name[0] == 'd' ? &set->default_class : &set->best_class) = (uint8_t)number;
        return true;
    }
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        const struct quota_limits_form *form = quota_limits_form((enum quota_limit)i);
        if (strcmp(name, form->member) == 0 && number >= 1 && number <= form->most) {
            set->values[i] = (struct quota_limits_value){number, is_shadow};
            return true;
        }
    }
    return false;
}

static enum status read_value(void *context, sqlite3_stmt *statement)
{
    const struct limits_taken *taken = context;
    char owner[QUOTA_LIMITS_OWNER_BYTES];
    char name[LIMIT_NAME_BYTES];
    int64_t number = sqlite3_column_int64(statement, 2);
    bool is_shadow = sqlite3_column_int(statement, 3) != 0;
    bool fits = number >= 0;
    struct quota_limits_set *set = NULL;
    tenant_rows_text(statement, 0, owner, sizeof owner, &fits);
    tenant_rows_text(statement, 1, name, sizeof name, &fits);
    if (fits)
        set = taken->find(taken->context, owner);
    if (set == NULL || !value_put(set, name, number, is_shadow))
        FAIL(STATUS_CORRUPT, "a row of the table limit_values is out of its bounds");
    return STATUS_OK;
}

enum status quota_limits_rows_load_values(sqlite3 *connection, void *context,
                                          struct quota_limits_set *(*find)(void *context,
                                                                           const char *owner))
{
    struct limits_taken taken = {.context = context, .find = find};
    return tenant_rows_each(connection, "select owner_id, name, value, is_shadow from limit_values",
                            NULL, 0, read_value, &taken);
}
