/* config_text: the numbers inside options that are texts: ports of addresses, URLs and lists, the
 * database of Redis.
 *
 * Owns:     which text options hold numbers, and their ranges; private to the room config.
 * Thread:   any.
 * Cost:     O(length of the text).
 * Not here: the rest of such a text's form, which its reader judges (listener, redis_url,
 *           key_fetch).
 */
#pragma once

#include "config/config_option.h"

/* INVALID for what should be a number and is none, OUT_OF_RANGE outside its range; both name the
 * option by `source`. The message repeats digits alone: other text may be part of a secret. */
enum status config_text_check(const struct config_option *option, const char *source,
                              struct slice text);
