/* cli_table: rows of texts as columns that line up.
 *
 * Owns:     the cells until the table is printed; at most LIMIT_CLI_TABLE_BYTES of them.
 * Thread:   one at a time.
 * Cost:     O(cells); one allocation that grows.
 * Not here: what the cells say (cli_tenant, cli_key, cli_look).
 */
#pragma once

#include <stdio.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { CLI_TABLE_COLUMNS_MAX = 12 };

struct cli_table_column {
    const char *title;
    bool is_right; /* numbers */
    bool is_whole; /* never cut: ids, which are pasted elsewhere */
};

struct cli_table {
    const struct cli_table_column *columns;
    size_t column_count;
    size_t widths[CLI_TABLE_COLUMNS_MAX];
    size_t cell_count;
    struct buffer cells; /* safe texts, each ended by a NUL */
};

/* `columns` stays the caller's and must outlive the table. */
void cli_table_init(struct cli_table *table, const struct cli_table_column *columns, size_t count);
void cli_table_deinit(struct cli_table *table);
/* The next cell of the present row, made safe for a terminal. */
void cli_table_add(struct cli_table *table, struct slice text);
/* Titles and whole rows, two spaces between columns. `width` columns at most (0 = any): then the
 * widest that may be cut are. Appends to `out`. LIMIT when cells or text are too long. */
enum status cli_table_render(const struct cli_table *table, size_t width, struct buffer *out);
