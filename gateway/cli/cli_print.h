/* cli_print: answers on standard output: JSON as it came, lists as tables, objects as lines.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     one buffer for what is printed.
 * Not here: lining up (cli_table), making text safe (cli_text).
 */
#pragma once

#include "gateway/cli/cli_call.h"
#include "gateway/cli/cli_table.h"

/* A column: where its text stands in a row's object, and what kind of value it is. */
enum cli_print_kind {
    CLI_PRINT_TEXT,
    CLI_PRINT_NUMBER,
    CLI_PRINT_TIME,  /* Unix seconds; null = "never" */
    CLI_PRINT_WORDS, /* an array of strings */
    CLI_PRINT_STATE, /* of a key: active, expired or revoked, from its times */
};
struct cli_print_column {
    const char *title;
    const char *member; /* "actor.peer" looks into an object */
    enum cli_print_kind kind;
    bool is_whole;
};

/* --json: the bytes as they came, then a line's end. */
enum status cli_print_raw(const struct cli_call *call, struct slice bytes);
/* --json: the list as one line; else a table, and on standard error how to see the rows left out.
 * */
enum status cli_print_list(const struct cli_call *call, const json_t *list,
                           const struct cli_print_column *columns, size_t count);
/* --json: `bytes`; else a line for each column and for each pair of the metadata. */
enum status cli_print_object(const struct cli_call *call, struct slice bytes, const json_t *object,
                             const struct cli_print_column *columns, size_t count);
/* One value as it is shown. */
void cli_print_value(const json_t *row, const struct cli_print_column *column, struct buffer *out);
bool cli_print_is_json(const struct cli_call *call);
