/* config: every option of every process, from flags, environment, file and defaults.
 *
 * Owns:     immutable snapshots, each with its revision. Options are rows of options.def.
 * Thread:   made by one; read by any; config_release from any, once nobody reads the snapshot.
 * Cost:     a snapshot is one block; reading a field is a load.
 * Not here: rows that admins change at run time (store, auth/tenants/tenant).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct config {
    uint64_t revision; /* rising with each snapshot of the process */
#define OPTION_GROUP(title)
#define OPTION_TEXT(name, fallback, reload, roles, help)                const char *name;
#define OPTION_NUMBER(name, fallback, least, most, reload, roles, help) int64_t name;
#define OPTION_BYTES(name, fallback, least, most, reload, roles, help)  int64_t name;
#define OPTION_BOOL(name, fallback, reload, roles, help)                bool name;
#include "config/options.def"
#undef OPTION_GROUP
#undef OPTION_TEXT
#undef OPTION_NUMBER
#undef OPTION_BYTES
#undef OPTION_BOOL
};

/* Where a value came from, from the weakest. */
enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

/* Which subcommands an option belongs to. */
enum config_role {
    CONFIG_SERVE = 1u << 0,
    CONFIG_EDGE = 1u << 1,
    CONFIG_ENGINE = 1u << 2,
    CONFIG_BENCH = 1u << 3,
};

/* Flags ("--kv-memory 2G", "--kv-memory=2G") > environment (BANYAN_KV_MEMORY) > file (--config,
 * JSON; names with underscores) > default. Every value is checked for type and bounds, also one
 * that a stronger source overrides. `argv` is what follows the subcommand; `environment` is main's
 * environ or NULL. A flag said twice: the last one counts.
 *
 * INVALID or OUT_OF_RANGE name the option and its source, and for a wrong name the nearest right
 * one; a flag of another subcommand is refused by saying whose it is. In file and environment
 * options of other subcommands are passed over, since processes share those; so are BANYAN_
 * variables that are no option and not within two letters of one. IO and LIMIT: the file. */
enum status config_load(const struct config **out, enum config_role role, int argc,
                        const char *const *argv, const char *const *environment);

/* What a snapshot was made of, to make the next one; the arrays are main's and stay. */
struct config_sources {
    enum config_role role;
    int argc;
    const char *const *argv;
    const char *const *environment;
};

/* Reads all sources again. `current` stays as it is; `*out` is another snapshot. As
 * config_load, and CONFLICT when an option differs that only a start can change: the message names
 * them, and nothing is taken. */
enum status config_reload(const struct config **out, const struct config *current,
                          const struct config_sources *sources);

/* Appends `[{"option","from","to","takes":"reload"|"restart"},…]`: what differs. */
void config_changes(const struct config *from, const struct config *to, struct buffer *out);

/* What would be of the server if `text` (a JSON object) were its file: appends `"valid":…,
 * "errors":[{"param","message"},…],"changes":[…],"overridden":[…]`. Every wrong member is an error
 * of its own; changes are beside `current`, and only told of a valid file; overridden are members
 * that a flag or a variable is stronger than. INVALID when it is no JSON object. */
enum status config_validate(const struct config *current, const struct config_sources *sources,
                            struct slice text, struct buffer *out);

/* NULL is nothing. */
void config_release(const struct config *config);

/* The options of a role for --help, by groups, 80 columns (the caller prints the usage line above);
 * the JSON schema of the file; the README's table. */
void config_help(enum config_role role, struct buffer *out);
void config_schema(struct buffer *out);
void config_markdown(struct buffer *out);
/* The running values as the file would have them, secrets' paths included, secrets never. */
void config_render(const struct config *config, struct buffer *out);
/* The same with more: `"file":…,"options":{…},"sources":{name:"default"|"file"|"environment"|
 * "flag"},"reloadable":[name,…]`. */
void config_describe(const struct config *config, struct buffer *out);
