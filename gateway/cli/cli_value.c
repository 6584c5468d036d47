#include "gateway/cli/cli_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t SECONDS_MAX = INT64_C(100) * 366 * 86400;
/* A smaller number is a time before 2001: the unit of a duration was forgotten. */
static const int64_t UNIX_LEAST = 1000000000;

enum status cli_value_number(const char *flag, const char *text, int64_t least, int64_t most,
                             int64_t *out)
{
    char *end = NULL;
    errno = 0;
    bool is_digit = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    long long number = strtoll(text, &end, 10);
    if (!is_digit || *end != '\0' || end == text)
        FAIL(STATUS_INVALID, "%s needs a whole number, not '%.64s'", flag, text);
    if (errno == ERANGE || number < least || number > most)
        FAIL(STATUS_OUT_OF_RANGE, "%s must be from %lld to %lld", flag, (long long)least,
             (long long)most);
    *out = number;
    return STATUS_OK;
}

static int64_t duration_unit(char c)
{
    switch (c) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    default:
        return 0;
    }
}

enum status cli_value_duration(const char *flag, const char *text, int64_t *seconds)
{
    size_t digits = strspn(text, "0123456789");
    int64_t unit =
        text[digits] != '\0' && text[digits + 1] == '\0' ? duration_unit(text[digits]) : 0;
    char number[16];
    if (digits == 0 || unit == 0)
        FAIL(STATUS_INVALID, "%s needs a time such as 90s, 30m, 12h or 7d, not '%.64s'", flag,
             text);
    if (digits >= sizeof number)
        FAIL(STATUS_OUT_OF_RANGE, "%s may be at most a hundred years", flag);
    snprintf(number, sizeof number, "%.*s", (int)digits, text);
    *seconds = strtoll(number, NULL, 10);
    if (*seconds > SECONDS_MAX / unit)
        FAIL(STATUS_OUT_OF_RANGE, "%s may be at most a hundred years", flag);
    *seconds *= unit;
    return STATUS_OK;
}

enum status cli_value_expiry(const char *flag, const char *text, int64_t now_s, json_t **out)
{
    int64_t seconds = 0;
    if (strcmp(text, "never") == 0) {
        *out = json_null();
        return STATUS_OK;
    }
    if (text[0] != '\0' && strspn(text, "0123456789") == strlen(text)) {
        TRY(cli_value_number(flag, text, UNIX_LEAST, now_s + SECONDS_MAX, &seconds));
        *out = json_integer(seconds);
    } else {
        TRY(cli_value_duration(flag, text, &seconds));
        *out = json_integer(now_s + seconds);
    }
    if (*out == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a value");
    return STATUS_OK;
}

/* Reads a day or a minute of UTC; false when `text` is neither. */
static bool moment_date(const char *text, int64_t *out)
{
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%d", &utc);
    if (end != NULL && *end == 'T')
        end = strptime(end, "T%H:%M", &utc);
    struct tm same = utc;
    *out = (int64_t)timegm(&same); /* turns 31 February into 3 March, which the check below sees */
    return end != NULL && *end == '\0' && same.tm_mday == utc.tm_mday && *out >= 0;
}

static enum status moment(const char *flag, const char *text, int64_t now_s, int direction,
                          int64_t *out)
{
    int64_t seconds = 0;
    if (moment_date(text, out))
        return STATUS_OK;
    if (text[0] != '\0' && strspn(text, "0123456789") == strlen(text))
        return cli_value_number(flag, text, 0, now_s + SECONDS_MAX, out);
    TRY(cli_value_duration(flag, text, &seconds));
    *out = now_s + direction * seconds;
    if (*out < 0)
        FAIL(STATUS_OUT_OF_RANGE, "%s is before 1970", flag);
    return STATUS_OK;
}

enum status cli_value_past(const char *flag, const char *text, int64_t now_s, int64_t *out)
{
    return moment(flag, text, now_s, -1, out);
}

enum status cli_value_future(const char *flag, const char *text, int64_t now_s, int64_t *out)
{
    return moment(flag, text, now_s, 1, out);
}

enum status cli_value_words(const char *flag, const char *text, json_t **out)
{
    json_t *words = json_array();
    const char *at = text;
    for (;;) {
        size_t length = strcspn(at, ",");
        if (length == 0) {
            json_decref(words);
            FAIL(STATUS_INVALID, "%s needs words with commas between them, not '%.64s'", flag,
                 text);
        }
        if (json_array_append_new(words, json_stringn(at, length)) != 0) {
            json_decref(words);
            FAIL(STATUS_INVALID, "%s is not valid UTF-8", flag);
        }
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    *out = words;
    return STATUS_OK;
}

static enum status pairs_add(const char *flag, json_t *pairs, const char *text)
{
    size_t length = strcspn(text, "=");
    char key[256];
    if (text[length] != '=' || length == 0)
        FAIL(STATUS_INVALID, "%s needs KEY=VALUE, not '%.64s'", flag, text);
    if (length >= sizeof key)
        FAIL(STATUS_OUT_OF_RANGE, "%s: the key is longer than %zu bytes", flag, sizeof key - 1);
    memcpy(key, text, length);
    key[length] = '\0';
    if (json_object_get(pairs, key) != NULL)
        FAIL(STATUS_INVALID, "%s gives the key '%s' twice", flag, key);
    if (json_object_set_new(pairs, key, json_string(text + length + 1)) != 0)
        FAIL(STATUS_INVALID, "%s is not valid UTF-8", flag);
    return STATUS_OK;
}

enum status cli_value_pairs(const char *flag, const char *const *texts, size_t count, json_t **out)
{
    json_t *pairs = json_object();
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = pairs_add(flag, pairs, texts[i]);
    if (status != STATUS_OK)
        json_decref(pairs);
    else
        *out = pairs;
    return status;
}

void cli_value_time_text(const json_t *value, const char *otherwise, char out[CLI_VALUE_TIME_BYTES])
{
    time_t seconds = (time_t)json_integer_value(value);
    struct tm tm;
    snprintf(out, CLI_VALUE_TIME_BYTES, "%s", otherwise);
    /* The buffer has room for years up to 9999. */
    if (json_is_integer(value) && seconds >= 0 && seconds < INT64_C(253402300800) &&
        gmtime_r(&seconds, &tm) != NULL &&
        strftime(out, CLI_VALUE_TIME_BYTES, "%Y-%m-%d %H:%M:%SZ", &tm) == 0)
        snprintf(out, CLI_VALUE_TIME_BYTES, "%s", otherwise);
}
