/* flag_word: which words of a command line are flags.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(length of the word).
 * Not here: which flags there are (config_option, gateway/cli, engine/bench).
 */
#pragma once

#include <stdbool.h>

/* A word that begins with a dash, "--" and "-h" among them; not "-" alone, which names standard
 * input, and no negative number: "-5", "-0.5". Such a word is nobody's name and no flag's value:
 * those are written behind "--", and as --flag=value. */
bool flag_word_is(const char *word);
