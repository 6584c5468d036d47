/* config_option_types: what a row of options.def is in the table, and a value of it.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding a row and reading a value (config_option).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"
#include "config/config_types.h"

enum config_option_kind {
    CONFIG_OPTION_GROUP, /* a heading of the help; name and numbers are not set */
    CONFIG_OPTION_TEXT,
    CONFIG_OPTION_NUMBER,
    CONFIG_OPTION_BYTES,
    CONFIG_OPTION_BOOL,
    CONFIG_OPTION_LIST, /* a text whose elements are separated by single spaces */
};

struct config_option {
    enum config_option_kind kind;
    const char *name; /* with underscores, like the field of struct config */
    const char *fallback_text;
    int64_t fallback;
    int64_t least;
    int64_t most;
    bool is_reloadable;
    unsigned roles;
    const char *help;
    size_t offset; /* of the field in struct config */
};

/* One value of one option. `text` is borrowed from the source that was read. */
struct config_option_value {
    struct slice text;
    int64_t number; /* NUMBER, BYTES and BOOL (0 or 1) */
    enum config_source source;
};
