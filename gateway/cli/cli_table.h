/* cli_table: a table of texts whose columns are aligned.
 *
 * Owns:     the cells, at most LIMIT_CLI_TABLE_BYTES of text.
 * Thread:   one at a time.
 * Cost:     O(bytes); one allocation that grows.
 * Not here: what the cells say (cli_print).
 */
#pragma once

#include <stdio.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { CLI_TABLE_COLUMNS_MAX = 12 };

struct cli_table_column {
    const char *title;
    bool is_right; /* aligned to the right: numbers */
    bool is_whole; /* never cut: ids, which people copy */
};

struct cli_table {
    const struct cli_table_column *columns;
    size_t column_count;
    size_t widths[CLI_TABLE_COLUMNS_MAX]; /* in columns of a terminal */
    size_t cell_count;
    struct buffer cells; /* safe texts, each with a NUL at its end */
};

/* `columns` is borrowed and must outlive the table. */
void cli_table_init(struct cli_table *table, const struct cli_table_column *columns, size_t count);
void cli_table_deinit(struct cli_table *table);
/* Adds the next cell, row by row. Its text is made safe for a terminal. */
void cli_table_add(struct cli_table *table, struct slice text);
/* Appends titles and rows to `out`, with two spaces between columns. To fit into `width` columns of
 * a terminal (0 = any width) the widest columns that may be cut are cut. LIMIT when the cells or
 * the text are too long. */
enum status cli_table_render(const struct cli_table *table, size_t width, struct buffer *out);
