/* cli_value: parses numbers, times, scopes and metadata as people type them; prints times.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes).
 * Not here: which flags exist (cli), which values the server accepts.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

/* The parsers fail with INVALID or OUT_OF_RANGE; `flag` ("--weight") stands in the message. A JSON
 * value in `*out` is a reference of the caller's. */

/* A whole number from `least` to `most`. */
enum status cli_value_number(const char *flag, const char *text, int64_t least, int64_t most,
                             int64_t *out);
/* "90s", "30m", "12h" or "7d" in seconds, at most a hundred years. */
enum status cli_value_duration(const char *flag, const char *text, int64_t *seconds);
/* "never" gives null, a duration the moment so far ahead, Unix seconds themselves. */
enum status cli_value_expiry(const char *flag, const char *text, int64_t now_s, json_t **out);
/* A day or minute of UTC (2026-11-01, 2026-11-01T08:30), Unix seconds, or a duration: so long ago
 * (past) or so far ahead (future). The result is in Unix seconds. */
enum status cli_value_past(const char *flag, const char *text, int64_t now_s, int64_t *out);
enum status cli_value_future(const char *flag, const char *text, int64_t now_s, int64_t *out);
/* "a,b" gives ["a","b"]: at least one word, none of them empty. */
enum status cli_value_words(const char *flag, const char *text, json_t **out);
/* {"KEY=VALUE", …} gives {"KEY":"VALUE", …}. A key may be given once. */
enum status cli_value_pairs(const char *flag, const char *const *texts, size_t count, json_t **out);

enum { CLI_VALUE_TIME_BYTES = 24 };

/* "2026-11-21 08:15:00Z", or `otherwise` when the value is null or no such time. */
void cli_value_time_text(const json_t *value, const char *otherwise,
                         char out[CLI_VALUE_TIME_BYTES]);
