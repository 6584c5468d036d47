#include "auth/ledger/redis_url.h"

#include <sys/un.h>

#include "config/base/decimal.h"
#include "config/base/limits.h"

static const char redis_scheme[] = "redis://";
static const char unix_scheme[] = "unix://";

#define REFUSE(...) FAIL_PARAM(STATUS_INVALID, "redis", __VA_ARGS__)

static bool parse_number(struct slice text, int32_t most, int32_t *out)
{
    uint64_t number = 0;
    const bool is_read = decimal_read(text, (uint64_t)most, &number) == DECIMAL_READ;
    *out = (int32_t)number;
    return is_read;
}

static enum status parse_database(struct redis_url *out, struct slice text)
{
    if (!parse_number(text, LIMIT_REDIS_DATABASES - 1, &out->database))
        REFUSE("the database of --redis is a number from 0 to %d, as in redis://127.0.0.1:6379/0",
               LIMIT_REDIS_DATABASES - 1);
    return STATUS_OK;
}

/* Copies a name, an address or a user. Accepts only the characters that these need. */
static bool parse_text(struct slice text, const char *more, char *out, size_t capacity)
{
    if (text.length == 0 || text.length >= capacity)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (c == '\0' || (!is_plain && strchr(more, c) == NULL))
            return false;
    }
    memcpy(out, text.bytes, text.length);
    out[text.length] = '\0';
    return true;
}

static struct slice part(const char *from, const char *to)
{
    return (struct slice){from, (size_t)(to - from)};
}

/* Parses HOST[:PORT] between `at` and `end`. */
static enum status parse_place(struct redis_url *out, const char *at, const char *end)
{
    const char *host_end = NULL;
    bool is_bracketed = at < end && *at == '[';
    if (is_bracketed) {
        host_end = memchr(at, ']', (size_t)(end - at));
        at++;
    } else {
        host_end = memchr(at, ':', (size_t)(end - at));
        host_end = host_end != NULL ? host_end : end;
    }
    if (host_end == NULL ||
        !parse_text(part(at, host_end), is_bracketed ? ":.%" : ".-_", out->host, sizeof out->host))
        REFUSE("--redis has no host that can be read; write redis://HOST:PORT, as in "
               "redis://127.0.0.1:6379 or redis://[::1]:6379");
    const char *port = host_end + (is_bracketed ? 1 : 0);
    int32_t number = 6379;
    if (port < end &&
        (*port != ':' || !parse_number(part(port + 1, end), UINT16_MAX, &number) || number == 0))
        REFUSE("the port of --redis is a number from 1 to 65535, as in redis://127.0.0.1:6379");
    out->port = (uint16_t)number;
    return STATUS_OK;
}

static enum status parse_redis(struct redis_url *out, const char *text)
{
    const char *end = strchr(text, '/');
    if (end != NULL && end[1] != '\0')
        TRY(parse_database(out, slice_of(end + 1)));
    end = end != NULL ? end : text + strlen(text);
    const char *at = memchr(text, '@', (size_t)(end - text));
    if (at == NULL)
        return parse_place(out, text, end);
    if (memchr(text, ':', (size_t)(at - text)) != NULL)
        REFUSE("a password in --redis could be read by every user of this machine (ps); write "
               "redis://[USER@]HOST:PORT and give the password's file by --redis-password-file");
    if (!parse_text(part(text, at), ".-_", out->user, sizeof out->user))
        REFUSE("the user of --redis is made of letters, digits, '.', '-' and '_'");
    return parse_place(out, at + 1, end);
}

static enum status parse_unix(struct redis_url *out, const char *text)
{
    static const struct slice database = {"db=", 3};
    const char *query = strchr(text, '?');
    struct slice path = query != NULL ? part(text, query) : slice_of(text);
    out->is_unix = true;
    if (path.length < 2 || path.bytes[0] != '/')
        REFUSE("--redis names no socket; write unix:///PATH, as in unix:///run/redis/redis.sock");
    if (path.length >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        REFUSE("the path of a Unix socket has at most %d bytes",
               (int)sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    memcpy(out->host, path.bytes, path.length);
    if (query == NULL)
        return STATUS_OK;
    if (!slice_starts_with(slice_of(query + 1), database))
        REFUSE("behind the path of --redis there can be ?db=NUMBER and nothing else");
    return parse_database(out, slice_of(query + 1 + database.length));
}

enum status redis_url_parse(struct redis_url *out, const char *text)
{
    *out = (struct redis_url){.port = 0};
    struct slice all = slice_of(text);
    if (slice_starts_with(all, slice_of(redis_scheme)))
        return parse_redis(out, text + sizeof redis_scheme - 1);
    if (slice_starts_with(all, slice_of(unix_scheme)))
        return parse_unix(out, text + sizeof unix_scheme - 1);
    if (slice_starts_with(all, SLICE("rediss://")))
        REFUSE("--redis is not spoken to over TLS; use a Unix socket, a loopback address or a "
               "tunnel's end: redis://127.0.0.1:6379");
    REFUSE("--redis is redis://HOST:PORT, redis://HOST:PORT/DB or unix:///PATH");
}
