/* cli_text: text from a server, made fit for a terminal.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes).
 * Not here: columns and rows (cli_table).
 *
 * What could move a cursor, colour, reorder or hide text becomes U+FFFD: control characters (C0,
 * DEL, C1), line and paragraph separators, marks of direction, invisible characters, bytes that
 * are no UTF-8.
 */
#pragma once

#include "config/base/slice.h"

/* Appends `text` made safe; returns how many columns it takes. */
size_t cli_text_append(struct buffer *out, struct slice text);

/* Columns of text that is safe already. */
size_t cli_text_columns(struct slice text);

/* Appends safe text in exactly `columns` (at least 1) columns: cut with "…" or filled with spaces,
 * on the left when is_right. */
void cli_text_append_fit(struct buffer *out, struct slice text, size_t columns, bool is_right);
