/* config: every option of every process, from flags, environment, file and defaults.
 *
 * Owns:     immutable snapshots, each with its revision. Options are rows of options.def.
 * Thread:   made by one thread; read by any; config_release from any, when no thread reads it.
 * Cost:     a snapshot is one block; reading a field is a load.
 * Not here: rows that admins change at run time (store, auth/tenants/tenant).
 */
#pragma once

#include "config/base/slice.h"
#include "config/config_types.h"

/* Reads all sources into a new snapshot. Precedence: flags ("--kv-memory 2G", "--kv-memory=2G"),
 * environment (BANYAN_KV_MEMORY), file (--config, JSON, names with underscores), default. Every
 * value is checked for type and bounds, even one that a stronger source overrides. `argv` is what
 * follows the subcommand; `environment` is main's environ or NULL. When a flag occurs twice, the
 * last one counts.
 *
 * INVALID or OUT_OF_RANGE: the message names the option and its source, for a wrong name the
 * nearest right one, and for a flag of another subcommand the subcommands it belongs to. IO, LIMIT:
 * the file cannot be read or is too long. NO_MEMORY. In file and environment, options of other
 * subcommands are ignored, because processes share both. BANYAN_ variables that are no option are
 * ignored unless they are within two letters of one. */
enum status config_load(const struct config **out, enum config_role role, int argc,
                        const char *const *argv, const char *const *environment);

/* What a snapshot was made from, to make the next one. The arrays are main's and live until it
 * returns. */
struct config_sources {
    enum config_role role;
    int argc;
    const char *const *argv;
    const char *const *environment;
};

/* Reads all sources again. `current` stays as it is; `*out` is a new snapshot.
 * Errors as config_load; CONFLICT when an option differs that only a restart can change: the
 * message names such options, and there is no new snapshot. */
enum status config_reload(const struct config **out, const struct config *current,
                          const struct config_sources *sources);

/* Appends `[{"option","from","to","takes":"reload"|"restart"},…]`, one entry for each difference.
 */
void config_changes(const struct config *from, const struct config *to, struct buffer *out);

/* Says what would happen if `text` (a JSON object) were the server's file. Appends
 * `"valid":…,"errors":[{"param","message"},…],"changes":[…],"overridden":[…]`. Each wrong member is
 * one error. `changes` compares with `current` and is filled for a valid file only. `overridden`
 * lists the members that a flag or a variable overrides. INVALID when `text` is no JSON object. */
enum status config_validate(const struct config *current, const struct config_sources *sources,
                            struct slice text, struct buffer *out);

/* Frees a snapshot. NULL has no effect. */
void config_release(const struct config *config);

/* Append the options of a role for --help, by groups, in 80 columns (the caller prints the usage
 * line above); the JSON schema of the file; the table of OPTIONS.md. */
void config_help(enum config_role role, struct buffer *out);
void config_schema(struct buffer *out);
void config_markdown(struct buffer *out);
/* Appends the running values in the form of a file. It has the paths of secret files, never the
 * secrets. */
void config_render(const struct config *config, struct buffer *out);
/* Appends the same and more:
 * `"file":…,"options":{…},"sources":{name:"default"|"file"|"environment"|"flag"},
 * "reloadable":[name,…]`. */
void config_describe(const struct config *config, struct buffer *out);
