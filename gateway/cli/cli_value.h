/* cli_value: words that people type → numbers, times, scopes, metadata; and times back to words.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes).
 * Not here: which flags there are (cli), what the server allows: it has the last word.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

/* All of these fail with INVALID or OUT_OF_RANGE; `flag` is for the message ("--weight"). */

/* A whole number from `least` to `most`. */
enum status cli_value_number(const char *flag, const char *text, int64_t least, int64_t most,
                             int64_t *out);
/* "90s", "30m", "12h", "7d": seconds, at most a hundred years. */
enum status cli_value_duration(const char *flag, const char *text, int64_t *seconds);
/* "never" → null, a duration → now + that, Unix seconds as they are; a JSON value. */
enum status cli_value_expiry(const char *flag, const char *text, int64_t now_s, json_t **out);
/* A day or minute of UTC (2026-11-01, 2026-11-01T08:30), Unix seconds, or so long ago; ahead. */
enum status cli_value_past(const char *flag, const char *text, int64_t now_s, int64_t *out);
enum status cli_value_future(const char *flag, const char *text, int64_t now_s, int64_t *out);
/* "a,b" → ["a","b"]; at least one, none empty. */
enum status cli_value_words(const char *flag, const char *text, json_t **out);
/* {"KEY=VALUE", …} → {"KEY":"VALUE"}; a key twice is refused. */
enum status cli_value_pairs(const char *flag, const char *const *texts, size_t count, json_t **out);

enum { CLI_VALUE_TIME_BYTES = 24 };

/* "2026-11-21 08:15:00Z", or `otherwise` when the value is null or no time. */
void cli_value_time_text(const json_t *value, const char *otherwise,
                         char out[CLI_VALUE_TIME_BYTES]);
