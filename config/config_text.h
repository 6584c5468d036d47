/* config_text: the numbers inside text options: ports of addresses, URLs and lists, Redis's
 * database.
 *
 * Owns:     which text options contain numbers, and their ranges; private to the room config.
 * Thread:   any.
 * Cost:     O(length of the text).
 * Not here: the rest of such a text's form (listener, redis_url, key_fetch check it).
 */
#pragma once

#include "config/config_option_types.h"

/* INVALID when a number is expected and missing, OUT_OF_RANGE outside its range; the message names
 * the option by `source`. It repeats nothing but digits, because the rest may be part of a secret.
 */
enum status config_text_check(const struct config_option *option, const char *source,
                              struct slice text);
