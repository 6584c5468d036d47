#include "gateway/cli/cli_print.h"

#include <errno.h>
#include <stdlib.h>

#include "config/base/clock.h"
#include "gateway/cli/cli_text.h"
#include "gateway/cli/cli_value.h"

enum { VALUE_BYTES_MAX = 64 * 1024, NAME_COLUMNS = 12 };

bool cli_print_is_json(const struct cli_call *call)
{
    return call->values[CLI_FLAG_JSON] != NULL;
}

static enum status print_bytes(const struct cli_call *call, struct slice bytes)
{
    FILE *out = call->options->out;
    if (fwrite(bytes.bytes, 1, bytes.length, out) != bytes.length || fflush(out) != 0)
        FAIL(STATUS_IO, "standard output: %s", strerror(errno));
    return STATUS_OK;
}

enum status cli_print_raw(const struct cli_call *call, struct slice bytes)
{
    TRY(print_bytes(call, bytes));
    bool has_end = bytes.length > 0 && bytes.bytes[bytes.length - 1] == '\n';
    return has_end ? STATUS_OK : print_bytes(call, SLICE("\n"));
}

/* --- values --- */

static const json_t *value_find(const json_t *row, const char *member)
{
    const char *dot = strchr(member, '.');
    char first[32];
    if (dot == NULL)
        return json_object_get(row, member);
    ASSERT((size_t)(dot - member) < sizeof first);
    memcpy(first, member, (size_t)(dot - member));
    first[dot - member] = '\0';
    return json_object_get(json_object_get(row, first), dot + 1);
}

static const char *value_state(const json_t *row)
{
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    const json_t *expires = json_object_get(row, "expires_at");
    if (json_is_integer(json_object_get(row, "revoked_at")))
        return "revoked";
    return json_is_integer(expires) && json_integer_value(expires) <= now_s ? "expired" : "active";
}

static void value_words(const json_t *value, struct buffer *out)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));
        if (i > 0)
            buffer_append_char(out, ',');
        if (word != NULL)
            buffer_append_text(out, word);
    }
}

/* A string as it is, null as "-", any other value as JSON. */
static void value_other(const json_t *value, struct buffer *out)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (json_is_string(value))
        buffer_append_text(out, json_string_value(value));
    else if (value == NULL || json_is_null(value))
        buffer_append_char(out, '-');
    else if (text != NULL)
        buffer_append_text(out, text);
    free(text);
}

void cli_print_value(const json_t *row, const struct cli_print_column *column, struct buffer *out)
{
    const json_t *value = value_find(row, column->member);
    char time[CLI_VALUE_TIME_BYTES];
    switch (column->kind) {
    case CLI_PRINT_TIME:
        cli_value_time_text(value, "never", time);
        buffer_append_text(out, time);
        return;
    case CLI_PRINT_WORDS:
        value_words(value, out);
        return;
    case CLI_PRINT_STATE:
        buffer_append_text(out, value_state(row));
        return;
    case CLI_PRINT_TEXT:
    case CLI_PRINT_NUMBER:
        value_other(value, out);
        return;
    }
}

/* --- lists --- */

static enum status list_table(const struct cli_call *call, const json_t *rows,
                              const struct cli_print_column *columns, size_t count)
{
    struct cli_table_column heads[CLI_TABLE_COLUMNS_MAX];
    struct cli_table table;
    struct buffer value;
    struct buffer text;
    ASSERT(count <= CLI_TABLE_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++)
        heads[i] = (struct cli_table_column){columns[i].title, columns[i].kind == CLI_PRINT_NUMBER,
                                             columns[i].is_whole};
    cli_table_init(&table, heads, count);
    buffer_init(&value, VALUE_BYTES_MAX);
    buffer_init(&text, LIMIT_CLI_TABLE_BYTES);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        for (size_t i = 0; i < count; i++) {
            buffer_clear(&value);
            cli_print_value(json_array_get(rows, r), &columns[i], &value);
            cli_table_add(&table, buffer_slice(&value));
        }
    }
    enum status status = value.status;
    if (status == STATUS_OK)
        status = cli_table_render(&table, call->options->columns, &text);
    if (status == STATUS_OK)
        status = print_bytes(call, buffer_slice(&text));
    buffer_deinit(&text);
    buffer_deinit(&value);
    cli_table_deinit(&table);
    return status;
}

enum status cli_print_list(const struct cli_call *call, const json_t *list,
                           const struct cli_print_column *columns, size_t count)
{
    const json_t *rows = json_object_get(list, "data");
    if (cli_print_is_json(call)) {
        char *text = json_dumps(list, JSON_COMPACT);
        if (text == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for a list");
        enum status status = cli_print_raw(call, slice_of(text));
        free(text);
        return status;
    }
    if (json_array_size(rows) == 0)
        fprintf(call->options->err, "none\n");
    else
        TRY(list_table(call, rows, columns, count));
    if (json_is_true(json_object_get(list, "has_more")))
        fprintf(call->options->err, "there are more rows: --limit N shows up to N\n");
    return STATUS_OK;
}

/* --- objects --- */

static void object_line(const char *name, size_t width, struct slice value, struct buffer *out)
{
    struct buffer safe;
    buffer_init(&safe, VALUE_BYTES_MAX);
    cli_text_append(&safe, slice_of(name));
    cli_text_append_fit(out, buffer_slice(&safe), width, false);
    buffer_append_char(out, ' ');
    cli_text_append(out, value);
    buffer_append_char(out, '\n');
    buffer_deinit(&safe);
}

enum status cli_print_object(const struct cli_call *call, struct slice bytes, const json_t *object,
                             const struct cli_print_column *columns, size_t count)
{
    if (cli_print_is_json(call))
        return cli_print_raw(call, bytes);
    struct buffer value;
    struct buffer text;
    size_t width = NAME_COLUMNS;
    for (size_t i = 0; i < count; i++)
        width = strlen(columns[i].title) > width ? strlen(columns[i].title) : width;
    buffer_init(&value, VALUE_BYTES_MAX);
    buffer_init(&text, LIMIT_CLI_TABLE_BYTES);
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&value);
        cli_print_value(object, &columns[i], &value);
        object_line(columns[i].title, width, buffer_slice(&value), &text);
    }
    const char *key;
    json_t *entry;
    json_object_foreach(json_object_get(object, "metadata"), key, entry)
    {
        buffer_clear(&value);
        buffer_printf(&value, "%s=", key);
        value_other(entry, &value);
        object_line("META", width, buffer_slice(&value), &text);
    }
    enum status status = value.status != STATUS_OK ? value.status : text.status;
    if (status == STATUS_OK)
        status = print_bytes(call, buffer_slice(&text));
    buffer_deinit(&text);
    buffer_deinit(&value);
    return status;
}
