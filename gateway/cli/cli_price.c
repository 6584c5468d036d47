#include "gateway/cli/cli_price.h"

#include "config/base/clock.h"
#include "gateway/cli/cli_limits.h"
#include "gateway/cli/cli_resource.h"
#include "gateway/cli/cli_value.h"

static const struct cli_print_column columns[] = {
    {"ID", "id", CLI_PRINT_TEXT, true},
    {"FROM", "effective_at", CLI_PRINT_TIME, true},
    {"PLAN", "plan", CLI_PRINT_TEXT, true},
    {"MODEL", "model", CLI_PRINT_TEXT, false},
    {"CLASS", "class", CLI_PRINT_TEXT, true},
    {"INPUT", "input_nano", CLI_PRINT_NUMBER, true},
    {"CACHED", "cached_input_nano", CLI_PRINT_NUMBER, true},
    {"OUTPUT", "output_nano", CLI_PRINT_NUMBER, true},
    {"NANO", "currency", CLI_PRINT_TEXT, true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static const struct cli_resource price = {.path = "/admin/v1/prices",
                                          .word = "price",
                                          .id_prefix = "",
                                          .most = LIMIT_PRICES,
                                          .columns = columns,
                                          .column_count = COLUMNS,
                                          .list_columns = COLUMNS};

enum status cli_price_list(struct cli_call *call)
{
    return cli_resource_list(call, &price);
}

enum status cli_price_show(struct cli_call *call)
{
    return cli_resource_ask(call, &price, "GET", call->argument, NULL);
}

enum status cli_price_delete(struct cli_call *call)
{
    return cli_resource_ask(call, &price, "DELETE", call->argument, NULL);
}

static enum status body_text(const char *member, const char *flag, const char *text, json_t *body)
{
    if (text != NULL && json_object_set_new(body, member, json_string(text)) != 0)
        FAIL(STATUS_INVALID, "%s is not valid UTF-8", flag);
    return STATUS_OK;
}

static enum status body_number(const char *member, const char *flag, const char *text, json_t *body)
{
    int64_t number = 0;
    if (text == NULL)
        return STATUS_OK;
    TRY(cli_value_number(flag, text, 0, LIMIT_PRICE_NANO, &number));
    json_object_set_new(body, member, json_integer(number));
    return STATUS_OK;
}

static enum status body_make(struct cli_call *call, json_t *body)
{
    const char *const *values = call->values;
    if (values[CLI_FLAG_CURRENCY] == NULL || values[CLI_FLAG_INPUT] == NULL ||
        values[CLI_FLAG_OUTPUT] == NULL)
        FAIL(STATUS_INVALID, "a price needs --currency, --input and --output");
    TRY(body_text("currency", "--currency", values[CLI_FLAG_CURRENCY], body));
    TRY(body_text("model", "--model", values[CLI_FLAG_MODEL], body));
    TRY(body_text("class", "--class", values[CLI_FLAG_CLASS], body));
    TRY(body_number("input_nano", "--input", values[CLI_FLAG_INPUT], body));
    TRY(body_number("cached_input_nano", "--cached-input", values[CLI_FLAG_CACHED_INPUT], body));
    TRY(body_number("output_nano", "--output", values[CLI_FLAG_OUTPUT], body));
    if (values[CLI_FLAG_FROM] != NULL) {
        int64_t from_s = 0;
        TRY(cli_value_future("--from", values[CLI_FLAG_FROM],
                             clock_wall_us(clock_system()) / 1000000, &from_s));
        json_object_set_new(body, "effective_at", json_integer(from_s));
    }
    if (values[CLI_FLAG_PLAN] != NULL && values[CLI_FLAG_PLAN][0] != '\0') {
        json_t *plan = NULL;
        TRY(cli_limits_plan_id(call, values[CLI_FLAG_PLAN], &plan));
        json_object_set_new(body, "plan", plan);
    }
    return STATUS_OK;
}

enum status cli_price_create(struct cli_call *call)
{
    json_t *body = json_object();
    enum status status = body_make(call, body);
    if (status == STATUS_OK)
        status = cli_resource_ask(call, &price, "POST", NULL, body);
    json_decref(body);
    return status;
}
