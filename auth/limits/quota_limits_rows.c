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

static bool read_text(sqlite3_stmt *statement, int column, char *out, size_t capacity)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t length = (size_t)sqlite3_column_bytes(statement, column);
    if (text == NULL || length >= capacity || strlen(text) != length)
        return false;
    memcpy(out, text, length + 1);
    return true;
}

/* How one kind of row is read. `read` makes a structure of a row and calls the function for that
 * kind. */
struct reading {
    const char *sql;
    enum status (*read)(sqlite3_stmt *statement, const struct reading *reading);
    void *context;
    enum status (*plan)(void *context, const struct quota_plan *plan);
    enum status (*tenant)(void *context, const struct quota_tenant *limits);
    enum status (*key)(void *context, const struct quota_key_limits *limits);
    struct quota_limits_set *(*find)(void *context, const char *owner);
};

static enum status read_all(sqlite3 *connection, const struct reading *reading)
{
    sqlite3_stmt *statement;
    TRY(tenant_rows_prepare(connection, reading->sql, NULL, 0, &statement));
    enum status status = STATUS_OK;
    while (tenant_rows_next(statement, &status))
        status = reading->read(statement, reading);
    sqlite3_finalize(statement);
    return status;
}

static enum status read_plan(sqlite3_stmt *statement, const struct reading *reading)
{
    struct quota_plan plan = {.set.cached_percent = -1,
                              .created_at_s = sqlite3_column_int64(statement, 2),
                              .revision = sqlite3_column_int64(statement, 3)};
    if (!read_text(statement, 0, plan.id, sizeof plan.id) ||
        !read_text(statement, 1, plan.name, sizeof plan.name) || plan.created_at_s < 0 ||
        plan.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table plans is out of its bounds");
    return reading->plan(reading->context, &plan);
}

enum status quota_limits_rows_load(sqlite3 *connection, void *context,
                                   enum status (*take)(void *, const struct quota_plan *))
{
    const struct reading reading = {
        .sql = "select id, name, created_at_s, revision from plans order by number",
        .read = read_plan,
        .context = context,
        .plan = take};
    return read_all(connection, &reading);
}

static enum status read_tenant(sqlite3_stmt *statement, const struct reading *reading)
{
    struct quota_tenant limits = {.set.cached_percent = -1,
                                  .revision = sqlite3_column_int64(statement, 2)};
    if (!read_text(statement, 0, limits.tenant_id, sizeof limits.tenant_id) ||
        !read_text(statement, 1, limits.plan_id, sizeof limits.plan_id) || limits.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table tenant_limits is out of its bounds");
    return reading->tenant(reading->context, &limits);
}

enum status quota_limits_rows_load_tenants(sqlite3 *connection, void *context,
                                           enum status (*take)(void *, const struct quota_tenant *))
{
    const struct reading reading = {
        .sql = "select tenant_id, coalesce(plan_id, ''), revision from tenant_limits",
        .read = read_tenant,
        .context = context,
        .tenant = take};
    return read_all(connection, &reading);
}

static enum status read_key(sqlite3_stmt *statement, const struct reading *reading)
{
    struct quota_key_limits limits = {.set.cached_percent = -1,
                                      .revision = sqlite3_column_int64(statement, 2)};
    if (!read_text(statement, 0, limits.tenant_id, sizeof limits.tenant_id) ||
        !read_text(statement, 1, limits.key_id, sizeof limits.key_id) || limits.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table key_limits is out of its bounds");
    return reading->key(reading->context, &limits);
}

enum status quota_limits_rows_load_keys(sqlite3 *connection, void *context,
                                        enum status (*take)(void *,
                                                            const struct quota_key_limits *))
{
    const struct reading reading = {.sql = "select tenant_id, key_id, revision from key_limits",
                                    .read = read_key,
                                    .context = context,
                                    .key = take};
    return read_all(connection, &reading);
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

static enum status read_value(sqlite3_stmt *statement, const struct reading *reading)
{
    char owner[QUOTA_LIMITS_OWNER_BYTES];
    char name[LIMIT_NAME_BYTES];
    int64_t number = sqlite3_column_int64(statement, 2);
    bool is_shadow = sqlite3_column_int(statement, 3) != 0;
    struct quota_limits_set *set = NULL;
    if (read_text(statement, 0, owner, sizeof owner) &&
        read_text(statement, 1, name, sizeof name) && number >= 0)
        set = reading->find(reading->context, owner);
    if (set == NULL || !value_put(set, name, number, is_shadow))
        FAIL(STATUS_CORRUPT, "a row of the table limit_values is out of its bounds");
    return STATUS_OK;
}

enum status quota_limits_rows_load_values(sqlite3 *connection, void *context,
                                          struct quota_limits_set *(*find)(void *context,
                                                                           const char *owner))
{
    const struct reading reading = {.sql =
                                        "select owner_id, name, value, is_shadow from limit_values",
                                    .read = read_value,
                                    .context = context,
                                    .find = find};
    return read_all(connection, &reading);
}
