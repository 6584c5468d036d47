/* cli_resource: what commands on any resource share: find it by name, call it, list it.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each function; a name instead of an id costs the list.
 * Not here: values of flags (cli_value), tables (cli_print).
 */
#pragma once

#include "gateway/cli/cli_call.h"
#include "gateway/cli/cli_print.h"

struct cli_resource {
    const char *path; /* "/admin/v1/groups"; NULL = append_path() gives it */
    /* Appends the path of the list, if it depends on the flags. */
    enum status (*append_path)(struct cli_call *call, struct buffer *path);
    const char *word;       /* "group": its commands are `banyan admin group …` */
    const char *id_prefix;  /* "grp_"; "" = it has no names */
    const char *list_order; /* "asc" or "desc"; NULL = "asc" */
    size_t most;            /* largest --limit of its list */
    size_t shown;           /* rows of its list without --limit; 0 = `most` */
    const struct cli_print_column *columns;
    size_t column_count;
    size_t list_columns; /* so many columns, from the first, are shown in the list */
};

/* Appends the path of the list when `id_or_name` is NULL, else the path of the row with this id or
 * name ("/admin/v1/groups/ID"). Archived rows have lost their names. NOT_FOUND. */
enum status cli_resource_append_path(struct cli_call *call, const struct cli_resource *resource,
                                     const char *id_or_name, struct buffer *path);
/* `*out` is the id of the row with this id or name, a reference of the caller's. NOT_FOUND. */
enum status cli_resource_id(struct cli_call *call, const struct cli_resource *resource,
                            const char *id_or_name, json_t **out);
/* Makes one call and prints its answer as an object. */
enum status cli_resource_send(struct cli_call *call, const struct cli_api_request *request,
                              const struct cli_print_column *columns, size_t column_count);
/* Makes one call to the path of cli_resource_append_path(), with --if-revision if it is given, and
 * prints its answer as an object. */
enum status cli_resource_ask(struct cli_call *call, const struct cli_resource *resource,
                             const char *method, const char *id_or_name, const json_t *body);
/* Reads and prints the list: `shown` rows, or as many as --limit says. */
enum status cli_resource_list(struct cli_call *call, const struct cli_resource *resource);
