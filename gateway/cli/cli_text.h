/* cli_text: makes text from a server safe for a terminal.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes).
 * Not here: columns and rows (cli_table).
 *
 * Characters that could move the cursor, change colours, reorder or hide text become U+FFFD:
 * control characters (C0, DEL, C1), line and paragraph separators, marks of direction, invisible
 * characters, and bytes that are no UTF-8.
 */
#pragma once

#include "config/base/slice.h"

/* Appends `text`, made safe; returns how many columns of a terminal it takes. */
size_t cli_text_append(struct buffer *out, struct slice text);

/* The columns that a text takes which is safe already. */
size_t cli_text_columns(struct slice text);

/* Appends safe text in exactly `columns` columns, at least 1: longer text is cut and ends with "…",
 * shorter text is filled with spaces, on the left when `is_right`. */
void cli_text_append_fit(struct buffer *out, struct slice text, size_t columns, bool is_right);
