#include "auth/tenants/tenant_answer.h"

#include <sqlite3.h>

#include "auth/tenants/tenant_directory.h"

/* The associated data of a sealed body. A body that is moved to another row cannot be opened. */
static void seal_place(const struct tenant_request *request, int code, struct buffer *out)
{
    buffer_init(out, 1024);
    buffer_printf(out, "%s\n%s\n%d\n", request->actor_key_id, request->name, code);
    buffer_append(out, request->print, sizeof request->print);
}

static int64_t oldest_s(const struct tenants *tenants)
{
    return tenant_directory_now_s(tenants) - LIMIT_IDEMPOTENCY_S;
}

static enum status keep_sealed(struct tenants *tenants, struct sqlite3 *connection,
                               const struct tenant_change *change, struct slice sealed)
{
    const struct tenant_request *request = change->request;
    const struct tenant_rows_parameter parameters[] = {
        TENANT_ROWS_TEXT(request->actor_key_id),
        TENANT_ROWS_TEXT(request->name),
        TENANT_ROWS_BYTES(request->print, sizeof request->print),
        TENANT_ROWS_NUMBER(change->answer_code),
        TENANT_ROWS_NUMBER(change->answer_revision != 0 ? change->answer_revision : 1),
        TENANT_ROWS_BYTES((const uint8_t *)sealed.bytes, sealed.length),
        TENANT_ROWS_NUMBER(tenant_directory_now_s(tenants))};
    return tenant_rows_change(connection,
                              "insert or replace into answers (actor_key_id, name, print, code, "
                              "revision, sealed, created_at_s) values (?, ?, ?, ?, ?, ?, ?)",
                              parameters, 7);
}

enum status tenant_answer_keep(struct tenants *tenants, struct sqlite3 *connection,
                               const struct tenant_change *change, struct slice body)
{
    struct buffer place;
    struct buffer sealed;
    TRY(tenant_answer_drop_old(tenants, connection));
    seal_place(change->request, change->answer_code, &place);
    buffer_init(&sealed, body.length + AUTH_CRYPTO_SEAL_BYTES + 1);
    enum status status = place.status;
    if (status == STATUS_OK)
        status = auth_crypto_seal(tenants->answers, buffer_slice(&place), body, &sealed);
    if (status == STATUS_OK)
        status = keep_sealed(tenants, connection, change, buffer_slice(&sealed));
    buffer_deinit(&sealed);
    buffer_deinit(&place);
    return status;
}

enum status tenant_answer_drop_old(struct tenants *tenants, struct sqlite3 *connection)
{
    /* The second condition deletes answers that were kept while the clock was ahead. */
    const struct tenant_rows_parameter parameters[] = {
        TENANT_ROWS_NUMBER(oldest_s(tenants)),
        TENANT_ROWS_NUMBER(tenant_directory_now_s(tenants) + LIMIT_IDEMPOTENCY_S)};
    return tenant_rows_change(connection,
                              "delete from answers where created_at_s <= ? or created_at_s > ?",
                              parameters, 2);
}

enum status tenants_answer_print(struct tenants *tenants, struct slice method, struct slice path,
                                 struct slice who, struct slice body, uint8_t out[32])
{
    struct buffer call;
    buffer_init(&call, LIMIT_ADMIN_IMPORT_BYTES + 2 * LIMIT_PATH_BYTES + LIMIT_SUBJECT_BYTES + 64);
    buffer_append_slice(&call, method);
    buffer_append_char(&call, '\n');
    buffer_append_slice(&call, path);
    buffer_append_char(&call, '\n');
    if (who.length > 0) {
        buffer_append_slice(&call, who);
        buffer_append_char(&call, '\n');
    }
    buffer_append_slice(&call, body);
    enum status status = call.status;
    if (status == STATUS_OK)
        status = auth_crypto_hmac(tenants->answers, buffer_slice(&call), out);
    else
        status = status_fail(status, __FILE__, __LINE__, NULL, "no memory for a call's print");
    buffer_deinit(&call);
    return status;
}

/* Reads the statement's present row. */
static enum status find_read(struct tenants *tenants, const struct tenant_request *request,
                             sqlite3_stmt *statement, struct tenant_answer *out)
{
    if (sqlite3_column_bytes(statement, 0) != (int)sizeof request->print ||
        !auth_crypto_equals(sqlite3_column_blob(statement, 0), request->print,
                            sizeof request->print))
        FAIL_PARAM(STATUS_REUSED, "idempotency-key",
                   "this Idempotency-Key was used for another call: give each call its own");
    struct buffer place;
    out->code = sqlite3_column_int(statement, 1);
    out->revision = sqlite3_column_int64(statement, 2);
    struct slice sealed = {sqlite3_column_blob(statement, 3),
                           (size_t)sqlite3_column_bytes(statement, 3)};
    seal_place(request, out->code, &place);
    enum status status = place.status;
    if (status == STATUS_OK)
        status = auth_crypto_open(tenants->answers, buffer_slice(&place), sealed, &out->body);
    buffer_deinit(&place);
    return status;
}

static enum status find_row(struct tenants *tenants, struct sqlite3 *connection,
                            const struct tenant_request *request, struct tenant_answer *out)
{
    sqlite3_stmt *statement;
    const struct tenant_rows_parameter parameters[] = {TENANT_ROWS_TEXT(request->actor_key_id),
                                                       TENANT_ROWS_TEXT(request->name),
                                                       TENANT_ROWS_NUMBER(oldest_s(tenants))};
    TRY(tenant_rows_prepare(connection,
                            "select print, code, revision, sealed from answers "
                            "where actor_key_id = ? and name = ? and created_at_s > ?",
                            parameters, 3, &statement));
    int code = sqlite3_step(statement);
    enum status status = store_status(code, "database");
    if (code == SQLITE_ROW)
        status = find_read(tenants, request, statement, out);
    else if (status == STATUS_OK)
        status = STATUS_NOT_FOUND;
    sqlite3_finalize(statement);
    return status;
}

enum status tenants_answer_find(struct tenants *tenants, const struct tenant_request *request,
                                struct tenant_answer *out)
{
    struct sqlite3 *connection;
    TRY(store_begin(tenants->store, &connection));
    enum status status = find_row(tenants, connection, request, out);
    enum status ended = store_end(tenants->store, false);
    if (status == STATUS_NOT_FOUND)
        FAIL(STATUS_NOT_FOUND, "there is no answer of this call");
    return status != STATUS_OK ? status : ended;
}
