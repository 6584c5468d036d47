#include "auth/tenants/issuer_rows.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>

#include "auth/credential/auth_scope.h"

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

enum { LISTS_BYTES_MOST = 64 * 1024 };

/* --- lists --- */

static bool read_into(const json_t *value, char *out, size_t capacity)
{
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length == 0 || length >= capacity)
        return false;
    memcpy(out, json_string_value(value), length + 1);
    return true;
}

enum status issuer_rows_read_audiences(struct slice json, struct issuer *out)
{
    json_t *list = json_loadb(json.bytes, json.length, 0, NULL);
    size_t count = json_array_size(list);
    bool is_read = json_is_array(list) && count >= 1 && count <= LIMIT_ISSUER_NAMES;
    for (size_t i = 0; is_read && i < count; i++)
        is_read = read_into(json_array_get(list, i), out->audiences[i], sizeof out->audiences[i]);
    out->audience_count = is_read ? count : 0;
    json_decref(list);
    if (!is_read)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "audiences", "audiences must be 1 to %d texts.",
                   LIMIT_ISSUER_NAMES);
    return STATUS_OK;
}

enum status issuer_rows_read_tenants(struct slice json, struct issuer *out)
{
    const char *key;
    json_t *value;
    json_t *map = json_loadb(json.bytes, json.length, 0, NULL);
    bool is_read = json_is_object(map) && json_object_size(map) <= LIMIT_METADATA_PAIRS;
    out->tenant_count = 0;
    json_object_foreach(map, key, value)
    {
        struct issuer_tenant *row = &out->tenants[out->tenant_count];
        is_read = is_read && strlen(key) < sizeof row->value &&
                  read_into(value, row->tenant_id, sizeof row->tenant_id);
        if (!is_read)
            break;
        snprintf(row->value, sizeof row->value, "%s", key);
        out->tenant_count++;
    }
    json_decref(map);
    if (!is_read)
        FAIL_PARAM(STATUS_INVALID, "tenants",
                   "tenants must be an object of the claim's values and tenants' ids.");
    return STATUS_OK;
}

/* Reads scopes of the config API with spaces between; 0 when a word is not a scope. */
static uint32_t read_scopes(const char *text)
{
    uint32_t scopes = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        uint32_t scope = auth_scope_find((struct slice){text, length}) & AUTH_SCOPES_ADMIN;
        if (scope == 0)
            return 0;
        scopes |= scope;
        text += length;
        text += *text == ' ' && text[1] != '\0'; /* a space at the end would begin an empty word */
    }
    return scopes;
}

enum status issuer_rows_read_admins(struct slice json, struct issuer *out)
{
    const char *key;
    json_t *value;
    bool is_read = true;
    char where[STATUS_PARAM_BYTES] = "admins";
    json_t *map = json_loadb(json.bytes, json.length, 0, NULL);
    out->admin_count = 0;
    is_read = json_is_object(map) && json_object_size(map) <= LIMIT_METADATA_PAIRS;
    json_object_foreach(map, key, value)
    {
        struct issuer_admin *row = &out->admins[out->admin_count];
        if (!is_read)
            break;
        snprintf(where, sizeof where, "admins.%s", key);
        const char *text = json_string_value(value);
        uint32_t scopes = text != NULL ? read_scopes(text) : 0;
        is_read = scopes != 0 && key[0] != '\0' && strlen(key) < sizeof row->value;
        if (!is_read)
            break;
        snprintf(row->value, sizeof row->value, "%s", key);
        row->scopes = scopes;
        out->admin_count++;
    }
    json_decref(map);
    if (!is_read)
        FAIL_PARAM(
            STATUS_INVALID, where,
            "admins must be an object of the claim's words and scopes of the config API, with "
            "spaces between them.");
    return STATUS_OK;
}

void issuer_rows_write_audiences(const struct issuer *issuer, struct buffer *out)
{
    for (size_t i = 0; i < issuer->audience_count; i++) {
        buffer_append_char(out, i == 0 ? '[' : ',');
        buffer_append_json_string(out, slice_of(issuer->audiences[i]));
    }
    buffer_append_char(out, ']');
}

void issuer_rows_write_tenants(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_char(out, '{');
    for (size_t i = 0; i < issuer->tenant_count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, slice_of(issuer->tenants[i].value));
        buffer_append_char(out, ':');
        buffer_append_json_string(out, slice_of(issuer->tenants[i].tenant_id));
    }
    buffer_append_char(out, '}');
}

void issuer_rows_write_admins(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_char(out, '{');
    for (size_t i = 0; i < issuer->admin_count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, slice_of(issuer->admins[i].value));
        buffer_append_text(out, ":\"");
        auth_scopes_append_words(issuer->admins[i].scopes, out);
        buffer_append_char(out, '"');
    }
    buffer_append_char(out, '}');
}

/* --- writing --- */

static enum status change_with_lists(sqlite3 *connection, const char *sql,
                                     const struct issuer *issuer, struct slice sealed)
{
    struct buffer audiences, tenants, admins;
    buffer_init(&audiences, LISTS_BYTES_MOST);
    buffer_init(&tenants, LISTS_BYTES_MOST);
    buffer_init(&admins, LISTS_BYTES_MOST);
    issuer_rows_write_audiences(issuer, &audiences);
    issuer_rows_write_tenants(issuer, &tenants);
    issuer_rows_write_admins(issuer, &admins);
    static const uint8_t nothing[1];
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(issuer->name),
        P_TEXT(issuer->issuer),
        P_TEXT(audiences.bytes),
        P_NUMBER(issuer->algorithms),
        P_TEXT(issuer->tenant_claim),
        P_TEXT(tenants.bytes),
        P_TEXT(issuer->scope_claim),
        P_NUMBER(issuer->scopes),
        P_NUMBER(issuer->max_lifetime_s),
        P_TEXT(issuer->jwks_file),
        TENANT_ROWS_BYTES(sealed.bytes != NULL ? (const uint8_t *)sealed.bytes : nothing,
                          sealed.length),
        P_TEXT(issuer->jwks_url),
        P_NUMBER(issuer->jwks_refresh_s),
        P_NUMBER(issuer->jwks_overlap_s),
        P_TEXT(issuer->admin_claim),
        P_TEXT(admins.bytes),
        P_NUMBER(issuer->created_at_s),
        P_NUMBER(issuer->revision),
        P_TEXT(issuer->id)};
    enum status status = audiences.status != STATUS_OK ? audiences.status
                         : tenants.status != STATUS_OK ? tenants.status
                                                       : admins.status;
    if (status == STATUS_OK)
        status = tenant_rows_change(connection, sql, parameters,
                                    sizeof parameters / sizeof parameters[0]);
    buffer_deinit(&audiences);
    buffer_deinit(&tenants);
    buffer_deinit(&admins);
    return status;
}

enum status issuer_rows_insert(sqlite3 *connection, const struct issuer *issuer,
                               struct slice sealed)
{
    return change_with_lists(
        connection,
        "insert into issuers (name, issuer, audiences, algorithms, tenant_claim, tenants, "
        "scope_claim, scopes, max_lifetime_s, jwks_file, jwks, jwks_url, jwks_refresh_s, "
        "jwks_overlap_s, admin_claim, admins, created_at_s, revision, id) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        issuer, sealed);
}

enum status issuer_rows_update(sqlite3 *connection, const struct issuer *issuer,
                               struct slice sealed)
{
    return change_with_lists(
        connection,
        "update issuers set name = ?, issuer = ?, audiences = ?, algorithms = ?, "
        "tenant_claim = ?, tenants = ?, scope_claim = ?, scopes = ?, max_lifetime_s = ?, "
        "jwks_file = ?, jwks = ?, jwks_url = ?, jwks_refresh_s = ?, jwks_overlap_s = ?, "
        "admin_claim = ?, admins = ?, created_at_s = ?, revision = ? where id = ?",
        issuer, sealed);
}

enum status issuer_rows_update_keys(sqlite3 *connection, const char *id, struct slice sealed)
{
    const struct tenant_rows_parameter parameters[] = {
        TENANT_ROWS_BYTES((const uint8_t *)sealed.bytes, sealed.length), P_TEXT(id)};
    return tenant_rows_change(connection, "update issuers set jwks = ? where id = ?", parameters,
                              2);
}

enum status issuer_rows_delete(sqlite3 *connection, const char *id)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(id)};
    return tenant_rows_change(connection, "delete from issuers where id = ?", parameters, 1);
}

/* --- reading --- */

static struct slice column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return (struct slice){text, (size_t)sqlite3_column_bytes(statement, column)};
}

static bool read_texts(sqlite3_stmt *statement, struct issuer *out)
{
    bool fits = true;
    tenant_rows_text(statement, 0, out->id, sizeof out->id, &fits);
    tenant_rows_text(statement, 1, out->name, sizeof out->name, &fits);
    tenant_rows_text(statement, 2, out->issuer, sizeof out->issuer, &fits);
    tenant_rows_text(statement, 5, out->tenant_claim, sizeof out->tenant_claim, &fits);
    tenant_rows_text(statement, 7, out->scope_claim, sizeof out->scope_claim, &fits);
    tenant_rows_text(statement, 10, out->jwks_file, sizeof out->jwks_file, &fits);
    tenant_rows_text(statement, 14, out->jwks_url, sizeof out->jwks_url, &fits);
    tenant_rows_text(statement, 17, out->admin_claim, sizeof out->admin_claim, &fits);
    return fits && issuer_rows_read_audiences(column_text(statement, 3), out) == STATUS_OK &&
           issuer_rows_read_tenants(column_text(statement, 6), out) == STATUS_OK &&
           issuer_rows_read_admins(column_text(statement, 18), out) == STATUS_OK;
}

struct issuers_taken {
    void *context;
    enum status (*take)(void *context, const struct issuer *issuer, struct slice sealed);
};

static enum status read_row(void *context, sqlite3_stmt *statement)
{
    const struct issuers_taken *taken = context;
    struct issuer issuer = {0};
    struct slice sealed = {(const char *)sqlite3_column_blob(statement, 11),
                           (size_t)sqlite3_column_bytes(statement, 11)};
    issuer.algorithms = (uint32_t)sqlite3_column_int64(statement, 4);
    issuer.scopes = (uint32_t)sqlite3_column_int64(statement, 8);
    issuer.max_lifetime_s = sqlite3_column_int64(statement, 9);
    issuer.created_at_s = sqlite3_column_int64(statement, 12);
    issuer.revision = sqlite3_column_int64(statement, 13);
    issuer.jwks_refresh_s = sqlite3_column_int64(statement, 15);
    issuer.jwks_overlap_s = sqlite3_column_int64(statement, 16);
    if (!read_texts(statement, &issuer) || issuer.max_lifetime_s < 1 || issuer.revision < 1 ||
        issuer.jwks_refresh_s < 1 || issuer.jwks_overlap_s < 0)
        FAIL(STATUS_CORRUPT, "a row of the table issuers is out of its bounds");
    return taken->take(taken->context, &issuer, sealed);
}

enum status issuer_rows_load(sqlite3 *connection, void *context,
                             enum status (*take)(void *, const struct issuer *, struct slice))
{
    struct issuers_taken taken = {context, take};
    return tenant_rows_each(connection,
                            "select id, name, issuer, audiences, algorithms, tenant_claim, "
                            "tenants, scope_claim, scopes, max_lifetime_s, jwks_file, jwks, "
                            "created_at_s, revision, jwks_url, jwks_refresh_s, jwks_overlap_s, "
                            "admin_claim, admins from issuers order by number",
                            NULL, 0, read_row, &taken);
}
