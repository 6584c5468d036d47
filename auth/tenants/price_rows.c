#include "auth/tenants/price_rows.h"

#include <sqlite3.h>

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

enum status price_rows_insert(sqlite3 *connection, const struct price *price)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(price->id),
                                                       P_TEXT(price->plan_id),
                                                       P_TEXT(price->model),
                                                       P_TEXT(price->service_class),
                                                       P_TEXT(price->currency),
                                                       P_NUMBER(price->input_nano),
                                                       P_NUMBER(price->cached_input_nano),
                                                       P_NUMBER(price->output_nano),
                                                       P_NUMBER(price->effective_at_s),
                                                       P_NUMBER(price->created_at_s)};
    return tenant_rows_change(
        connection,
        "insert into prices (id, plan_id, model, service_class, currency, input_nano, "
        "cached_input_nano, output_nano, effective_at_s, created_at_s) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        parameters, sizeof parameters / sizeof parameters[0]);
}

enum status price_rows_delete(sqlite3 *connection, const char *id)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(id)};
    return tenant_rows_change(connection, "delete from prices where id = ?", parameters, 1);
}

static bool load_text(sqlite3_stmt *statement, int column, char *out, size_t capacity)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t length = (size_t)sqlite3_column_bytes(statement, column);
    if (text == NULL || length >= capacity || strlen(text) != length)
        return false;
    memcpy(out, text, length + 1);
    return true;
}

static bool load_price(sqlite3_stmt *statement, struct price *out)
{
    *out = (struct price){.input_nano = sqlite3_column_int64(statement, 5),
                          .cached_input_nano = sqlite3_column_int64(statement, 6),
                          .output_nano = sqlite3_column_int64(statement, 7),
                          .effective_at_s = sqlite3_column_int64(statement, 8),
                          .created_at_s = sqlite3_column_int64(statement, 9)};
    const int64_t nanos[] = {out->input_nano, out->cached_input_nano, out->output_nano};
    bool is_whole = load_text(statement, 0, out->id, sizeof out->id) &&
                    load_text(statement, 1, out->plan_id, sizeof out->plan_id) &&
                    load_text(statement, 2, out->model, sizeof out->model) &&
                    load_text(statement, 3, out->service_class, sizeof out->service_class) &&
                    load_text(statement, 4, out->currency, sizeof out->currency) &&
                    out->effective_at_s >= 0;
    for (int i = 0; i < 3; i++)
        is_whole = is_whole && nanos[i] >= 0 && nanos[i] <= LIMIT_PRICE_NANO;
    return is_whole;
}

enum status price_rows_load(sqlite3 *connection, void *context,
                            enum status (*take)(void *context, const struct price *price))
{
    sqlite3_stmt *statement;
    TRY(tenant_rows_prepare(connection,
                            "select id, plan_id, model, service_class, currency, input_nano, "
                            "cached_input_nano, output_nano, effective_at_s, created_at_s "
                            "from prices order by number",
                            NULL, 0, &statement));
    enum status status = STATUS_OK;
    while (tenant_rows_next(statement, &status)) {
        struct price price;
        if (!load_price(statement, &price))
            status = status_fail(STATUS_CORRUPT, __FILE__, __LINE__, NULL,
                                 "a row of the table prices is out of its bounds");
        if (status == STATUS_OK)
            status = take(context, &price);
    }
    sqlite3_finalize(statement);
    return status;
}
