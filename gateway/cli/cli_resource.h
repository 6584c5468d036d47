/* cli_resource: what commands on any resource with ids and names share: finding, asking, listing.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a name costs a walk over the list.
 * Not here: what flags say (cli_value), tables (cli_print).
 */
#pragma once

#include "gateway/cli/cli_call.h"
#include "gateway/cli/cli_print.h"

struct cli_resource {
    const char *path; /* "/admin/v1/groups"; NULL = append_path says it */
    /* Appends the list's path, where it depends on the flags. */
    enum status (*append_path)(struct cli_call *call, struct buffer *path);
    const char *word;       /* "group": its commands are `banyan admin group …` */
    const char *id_prefix;  /* "grp_"; "" = it has no names */
    const char *list_order; /* "asc" or "desc"; NULL = "asc" */
    size_t most;            /* largest --limit of its list */
    size_t shown;           /* rows of its list without --limit; 0 = `most` */
    const struct cli_print_column *columns;
    size_t column_count;
    size_t list_columns; /* the first so many are the list's */
};

/* Appends "/admin/v1/groups/ID" of an id or a name, "/admin/v1/groups" of NULL. What is archived
 * has lost its name. NOT_FOUND. */
enum status cli_resource_append_path(struct cli_call *call, const struct cli_resource *resource,
                                     const char *id_or_name, struct buffer *path);
/* Its id alone; the caller drops the reference. NOT_FOUND. */
enum status cli_resource_id(struct cli_call *call, const struct cli_resource *resource,
                            const char *id_or_name, json_t **out);
/* One call; its answer is printed as an object. */
enum status cli_resource_send(struct cli_call *call, const struct cli_api_request *request,
                              const struct cli_print_column *columns, size_t column_count);
/* One call about the list or a new one (`id_or_name` NULL), or about the one of that id or name;
 * its answer is printed as an object. With --if-revision when it is given. */
enum status cli_resource_ask(struct cli_call *call, const struct cli_resource *resource,
                             const char *method, const char *id_or_name, const json_t *body);
/* Reads and prints the list: `shown` rows, or as many as --limit says. */
enum status cli_resource_list(struct cli_call *call, const struct cli_resource *resource);
