/* cli_print: prints answers to standard output: JSON as it came, lists as tables, objects as lines.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one buffer for what is printed.
 * Not here: widths of columns (cli_table), making text safe (cli_text).
 */
#pragma once

#include "gateway/cli/cli_call.h"
#include "gateway/cli/cli_table.h"

/* What kind of value a column shows. */
enum cli_print_kind {
    CLI_PRINT_TEXT,
    CLI_PRINT_NUMBER,
    CLI_PRINT_TIME,  /* Unix seconds; null = "never" */
    CLI_PRINT_WORDS, /* an array of strings */
    CLI_PRINT_STATE, /* active, expired or revoked, from expires_at and revoked_at of the row */
};
struct cli_print_column {
    const char *title;
    const char *member; /* of a row's object; "actor.peer" is a member of a member */
    enum cli_print_kind kind;
    bool is_whole; /* never cut to fit the terminal */
};

/* All functions here return IO when standard output cannot be written. */

/* Prints the bytes as they are, and a line's end if they have none. */
enum status cli_print_raw(const struct cli_call *call, struct slice bytes);
/* Prints the list: with --json as one line, else as a table, with a note on standard error when
 * there are more rows. */
enum status cli_print_list(const struct cli_call *call, const json_t *list,
                           const struct cli_print_column *columns, size_t count);
/* Prints an object: with --json its `bytes`, else one line for each column and each pair of its
 * metadata. */
enum status cli_print_object(const struct cli_call *call, struct slice bytes, const json_t *object,
                             const struct cli_print_column *columns, size_t count);
/* Appends the text of one value to `out`. It is not made safe for a terminal yet. */
void cli_print_value(const json_t *row, const struct cli_print_column *column, struct buffer *out);
bool cli_print_is_json(const struct cli_call *call);
