/* config_option: the rows of options.def as a table: finding an option, parsing a value, near
 * names.
 *
 * Owns:     the table; private to the room config.
 * Thread:   any; the table never changes.
 * Cost:     a look-up is O(options); the nearest name O(options × length²).
 * Not here: which source wins and snapshots (config), help and schema (config_help).
 */
#pragma once

#include "config/base/limits.h"
#include "config/config_option_types.h"

/* Returns where the value of config_option_table[index] came from. */
enum config_source config_source_of(const struct config *config, size_t index);

/* All rows in the order of options.def, including the groups. */
extern const struct config_option config_option_table[];
extern const size_t config_option_count;

/* Finds an option by name; case, '-' and '_' make no difference: "kv-memory", "KV_MEMORY". NULL
 * when there is none. */
const struct config_option *config_option_find(struct slice name);
/* Returns the option of `roles` whose name has the least edit distance to `name`, at most
 * `distance_max`; NULL when no name is that near. */
const struct config_option *config_option_nearest(struct slice name, unsigned roles,
                                                  size_t distance_max);

/* Parses a value as written in flags and the environment. `source` is for the message ("--threads",
 * "BANYAN_THREADS"). INVALID for a wrong type, OUT_OF_RANGE outside the bounds; the note's `param`
 * names the option. */
enum status config_option_parse(const struct config_option *option, const char *source,
                                struct slice text, struct config_option_value *out);
/* Checks the bounds alone, for a number that came typed (from the file). */
enum status config_option_check(const struct config_option *option, const char *source,
                                int64_t number);
/* A list has elements like texts, as many as --upstream can have, with spaces between them. */
enum { CONFIG_OPTION_LIST_BYTES = 16 * LIMIT_OPTION_BYTES };
/* Checks a text: at most LIMIT_OPTION_BYTES (a list: each element, and CONFIG_OPTION_LIST_BYTES in
 * all), UTF-8, no control characters, numbers inside it in their range. */
enum status config_option_check_text(const struct config_option *option, const char *source,
                                     struct slice text);

/* Appends the option's value in `config` as JSON: a text, a number, true or false. */
void config_option_render(const struct config_option *option, const struct config *config,
                          struct buffer *out);
bool config_option_is_same(const struct config_option *option, const struct config *a,
                           const struct config *b);

/* Writes the shortest text that config_option_parse reads as `bytes`: "1G", "1536K", "17". */
void config_option_bytes_text(int64_t bytes, char out[24]);
/* Write the option's flag, "--kv-memory", and its variable, "BANYAN_KV_MEMORY". */
enum { CONFIG_OPTION_NAME_BYTES = 64 };
void config_option_flag(const struct config_option *option, char out[CONFIG_OPTION_NAME_BYTES]);
void config_option_variable(const struct config_option *option, char out[CONFIG_OPTION_NAME_BYTES]);
/* Writes the names of subcommands: "serve, engine". */
void config_option_roles_text(unsigned roles, char out[CONFIG_OPTION_NAME_BYTES]);
