/* flag_word: which words of a command line are flags.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length of the word).
 * Not here: which flags exist (config_option, gateway/cli, engine/bench).
 */
#pragma once

#include <stdbool.h>

/* Returns whether a word is a flag: it begins with a dash ("--" and "-h" are flags), and is neither
 * "-" alone, which means standard input, nor a negative number such as "-5" or "-0.5". A flag is
 * never read as a name or as another flag's value. To pass a word that looks like a flag, write a
 * name behind "--" and a value as --flag=value. */
bool flag_word_is(const char *word);
