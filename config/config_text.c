#include "config/config_text.h"

#include <string.h>

#include "config/base/decimal.h"
#include "config/base/limits.h"

enum { PORT_MOST = 65535 };

/* The option under check, for messages. */
struct look {
    const struct config_option *option;
    const char *source;
};

static struct slice tail(struct slice text, size_t from)
{
    return (struct slice){text.bytes + from, text.length - from};
}

/* Returns the position of `c`, or text.length when `text` lacks it. */
static size_t find(struct slice text, char c)
{
    size_t at = 0;
    while (at < text.length && text.bytes[at] != c)
        at++;
    return at;
}

static enum status number_check(const struct look *look, const char *what, struct slice text,
                                int64_t least, int64_t most)
{
    uint64_t number = 0;
    const enum decimal result = decimal_read(text, (uint64_t)most, &number);
    if (result == DECIMAL_MALFORMED)
        FAIL_PARAM(STATUS_INVALID, look->option->name,
                   "%s: the %s must be a number from %lld to %lld", look->source, what,
                   (long long)least, (long long)most);
    if (result == DECIMAL_TOO_LARGE || (int64_t)number < least)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, look->option->name,
                   "%s: the %s is %.*s, but must be from %lld to %lld", look->source, what,
                   text.length < 40 ? (int)text.length : 40, text.bytes, (long long)least,
                   (long long)most);
    return STATUS_OK;
}

/* Checks the port of HOST[:PORT] or [ADDRESS][:PORT]. */
static enum status place_check(const struct look *look, struct slice place, int64_t least)
{
    size_t close = find(place, ']');
    bool is_bracketed = place.length > 0 && place.bytes[0] == '[' && close < place.length;
    struct slice rest = is_bracketed ? tail(place, close + 1) : tail(place, find(place, ':'));
    if (rest.length == 0 || rest.bytes[0] != ':')
        return STATUS_OK;
    return number_check(look, "port", tail(rest, 1), least, PORT_MOST);
}

/* Checks ADDRESS:PORT. Port 0 means any free port. The address may contain colons, so the last
 * colon counts. */
static enum status listen_check(const struct look *look, struct slice text)
{
    size_t at = text.length;
    while (at > 0 && text.bytes[at - 1] != ':')
        at--;
    if (at == 0)
        FAIL_PARAM(STATUS_INVALID, look->option->name, "%s must be ADDRESS:PORT", look->source);
    return number_check(look, "port", tail(text, at), 0, PORT_MOST);
}

/* Checks the ports of a list of hosts, separated by commas or blanks, each with or without a
 * scheme. */
static enum status hosts_check(const struct look *look, struct slice text)
{
    while (text.length > 0) {
        size_t length = 0;
        while (length < text.length && text.bytes[length] != ',' && text.bytes[length] != ' ')
            length++;
        struct slice place = {text.bytes, length};
        size_t colon = find(place, ':');
        if (slice_starts_with(tail(place, colon), SLICE("://")))
            place = tail(place, colon + 3);
        TRY(place_check(look, place, 1));
        text = tail(text, length < text.length ? length + 1 : length);
    }
    return STATUS_OK;
}

/* Checks the port of SCHEME://HOST[:PORT][/PATH]. What else a URL may be, its user says. */
static enum status url_check(const struct look *look, struct slice text)
{
    size_t colon = find(text, ':');
    if (slice_starts_with(tail(text, colon), SLICE("://")))
        text = tail(text, colon + 3);
    return place_check(look, (struct slice){text.bytes, find(text, '/')}, 1);
}

/* Checks the URL of an element of --upstream, which is one alone or a member among others:
 * url=URL,model=NAME. The other members are pool_row's. */
static enum status upstream_check(const struct look *look, struct slice text)
{
    static const struct slice name = {"url=", 4};
    if (find(text, ',') == text.length && !slice_starts_with(text, name))
        return url_check(look, text);
    while (text.length > 0) {
        const size_t length = find(text, ',');
        const struct slice member = {text.bytes, length};
        if (slice_starts_with(member, name))
            TRY(url_check(look, tail(member, name.length)));
        text = tail(text, length < text.length ? length + 1 : length);
    }
    return STATUS_OK;
}

/* Checks the numbers of redis://[USER@]HOST[:PORT][/DB] or unix:///PATH[?db=DB]. A text with a
 * password is left to redis_url, which refuses it. */
static enum status redis_check(const struct look *look, struct slice text)
{
    static const struct slice tcp = {"redis://", 8};
    static const struct slice query = {"?db=", 4};
    const int64_t most = LIMIT_REDIS_DATABASES - 1;
    if (!slice_starts_with(text, tcp)) {
        struct slice rest = tail(text, find(text, '?'));
        return slice_starts_with(rest, query)
                   ? number_check(look, "database", tail(rest, query.length), 0, most)
                   : STATUS_OK;
    }
    text = tail(text, tcp.length);
    size_t slash = find(text, '/');
    struct slice place = {text.bytes, slash};
    size_t at = find(place, '@');
    if (find((struct slice){place.bytes, at}, ':') < at && at < place.length)
        return STATUS_OK;
    TRY(place_check(look, at < place.length ? tail(place, at + 1) : place, 1));
    return slash + 1 < text.length ? number_check(look, "database", tail(text, slash + 1), 0, most)
                                   : STATUS_OK;
}

static const struct {
    const char *name;
    enum status (*check)(const struct look *look, struct slice text);
} forms[] = {
    {"listen", listen_check},      {"admin_listen", listen_check}, {"jwks_hosts", hosts_check},
    {"cors_origins", hosts_check}, {"redis", redis_check},         {"upstream", upstream_check},
};

enum status config_text_check(const struct config_option *option, const char *source,
                              struct slice text)
{
    const struct look look = {option, source};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(option->name, forms[i].name) == 0)
            return forms[i].check(&look, text);
    }
    return STATUS_OK;
}
