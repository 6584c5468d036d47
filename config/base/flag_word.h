/* flag_word: which words of a command line are flags.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length of the word).
 * Not here: which flags there are (config_option, gateway/cli, engine/bench).
 */
#pragma once

#include <stdbool.h>

/* A word that begins with a dash, "--" and "-h" among them, except "-" alone, which names standard
 * input, and negative numbers: "-5", "-0.5". A flag is never taken for a name or for another flag's
 * value: such names are written behind "--", and such values as --flag=value. */
bool flag_word_is(const char *word);
