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

struct prices_taken {
    void *context;
    enum status (*take)(void *context, const struct price *price);
};

static enum status read_price(void *context, sqlite3_stmt *statement)
{
    const struct prices_taken *taken = context;
    struct price price = {.input_nano = sqlite3_column_int64(statement, 5),
                          .cached_input_nano = sqlite3_column_int64(statement, 6),
                          .output_nano = sqlite3_column_int64(statement, 7),
                          .effective_at_s = sqlite3_column_int64(statement, 8),
                          .created_at_s = sqlite3_column_int64(statement, 9)};
    const int64_t nanos[] = {price.input_nano, price.cached_input_nano, price.output_nano};
    bool fits = price.effective_at_s >= 0;
    tenant_rows_text(statement, 0, price.id, sizeof price.id, &fits);
    tenant_rows_text(statement, 1, price.plan_id, sizeof price.plan_id, &fits);
    tenant_rows_text(statement, 2, price.model, sizeof price.model, &fits);
    tenant_rows_text(statement, 3, price.service_class, sizeof price.service_class, &fits);
    tenant_rows_text(statement, 4, price.currency, sizeof price.currency, &fits);
    for (int i = 0; i < 3; i++)
        fits = fits && nanos[i] >= 0 && nanos[i] <= LIMIT_PRICE_NANO;
    if (!fits)
        FAIL(STATUS_CORRUPT, "a row of the table prices is out of its bounds");
    return taken->take(taken->context, &price);
}

enum status price_rows_load(sqlite3 *connection, void *context,
                            enum status (*take)(void *context, const struct price *price))
{
    struct prices_taken taken = {context, take};
    return tenant_rows_each(connection,
                            "select id, plan_id, model, service_class, currency, input_nano, "
                            "cached_input_nano, output_nano, effective_at_s, created_at_s "
                            "from prices order by number",
                            NULL, 0, read_price, &taken);
}
