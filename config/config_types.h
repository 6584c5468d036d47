/* config_types: a snapshot of all options, and where their values come from.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: reading options (config), rows of options.def as a table (config_option).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct config {
    uint64_t revision; /* rises with each snapshot of the process */
#define OPTION_GROUP(title)
#define OPTION_TEXT(name, fallback, reload, roles, help)                const char *name;
#define OPTION_NUMBER(name, fallback, least, most, reload, roles, help) int64_t name;
#define OPTION_BYTES(name, fallback, least, most, reload, roles, help)  int64_t name;
#define OPTION_BOOL(name, fallback, reload, roles, help)                bool name;
#define OPTION_LIST(name, reload, roles, help)                          const char *name;
#include "config/options.def"
#undef OPTION_GROUP
#undef OPTION_TEXT
#undef OPTION_NUMBER
#undef OPTION_BYTES
#undef OPTION_BOOL
#undef OPTION_LIST
};

/* Where a value came from, weakest source first. */
enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

/* The subcommands that an option belongs to. */
enum config_role {
    CONFIG_SERVE = 1u << 0,
    CONFIG_EDGE = 1u << 1,
    CONFIG_ENGINE = 1u << 2,
    CONFIG_BENCH = 1u << 3,
};
