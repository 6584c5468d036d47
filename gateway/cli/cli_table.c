#include "gateway/cli/cli_table.h"

#include "gateway/cli/cli_text.h"

enum { GAP_COLUMNS = 2, WIDTH_LEAST = 6 };

void cli_table_init(struct cli_table *table, const struct cli_table_column *columns, size_t count)
{
    ASSERT(count > 0);
    ASSERT(count <= CLI_TABLE_COLUMNS_MAX);
    *table = (struct cli_table){.columns = columns, .column_count = count};
    buffer_init(&table->cells, LIMIT_CLI_TABLE_BYTES);
    for (size_t i = 0; i < count; i++)
        table->widths[i] = cli_text_columns(slice_of(columns[i].title));
}

void cli_table_deinit(struct cli_table *table)
{
    buffer_deinit(&table->cells);
}

void cli_table_add(struct cli_table *table, struct slice text)
{
    size_t columns = cli_text_append(&table->cells, text);
    size_t *width = &table->widths[table->cell_count % table->column_count];
    if (columns > *width)
        *width = columns;
    buffer_append_char(&table->cells, '\0');
    table->cell_count++;
}

/* Makes the widest of the columns that may be cut narrower, again and again, until the row fits or
 * no column can be cut. */
static void render_shrink(const struct cli_table *table, size_t width, size_t *widths)
{
    size_t total = GAP_COLUMNS * (table->column_count - 1);
    for (size_t i = 0; i < table->column_count; i++)
        total += widths[i];
    while (total > width) {
        size_t widest = table->column_count;
        for (size_t i = 0; i < table->column_count; i++) {
            bool is_cut = !table->columns[i].is_whole && widths[i] > WIDTH_LEAST;
            if (is_cut && (widest == table->column_count || widths[i] > widths[widest]))
                widest = i;
        }
        if (widest == table->column_count)
            return;
        widths[widest]--;
        total--;
    }
}

static void render_cell(const struct cli_table *table, size_t column, const size_t *widths,
                        struct slice text, struct buffer *out)
{
    bool is_last = column + 1 == table->column_count;
    bool is_right = table->columns[column].is_right;
    /* A line does not end with spaces. */
    if (is_last && !is_right && cli_text_columns(text) <= widths[column])
        buffer_append_slice(out, text);
    else
        cli_text_append_fit(out, text, widths[column], is_right);
    buffer_append_text(out, is_last ? "\n" : "  ");
}

enum status cli_table_render(const struct cli_table *table, size_t width, struct buffer *out)
{
    size_t widths[CLI_TABLE_COLUMNS_MAX];
    ASSERT(table->cell_count % table->column_count == 0);
    TRY(table->cells.status);
    memcpy(widths, table->widths, sizeof widths);
    if (width != 0)
        render_shrink(table, width, widths);
    for (size_t i = 0; i < table->column_count; i++)
        render_cell(table, i, widths, slice_of(table->columns[i].title), out);
    const char *cell = table->cells.bytes;
    for (size_t i = 0; i < table->cell_count; i++) {
        struct slice text = slice_of(cell);
        render_cell(table, i % table->column_count, widths, text, out);
        cell += text.length + 1;
    }
    return out->status;
}
