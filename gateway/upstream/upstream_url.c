#include "gateway/upstream/upstream_url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "config/base/decimal.h"

enum { PORT_TLS = 443, PORT_PLAIN = 80 };

static bool authority_is_host(struct slice host)
{
    bool is_bracketed = host.length > 2 && host.bytes[0] == '[';
    struct slice inner = is_bracketed ? (struct slice){host.bytes + 1, host.length - 2} : host;
    if (host.length == 0 || (is_bracketed && host.bytes[host.length - 1] != ']'))
        return false;
    for (size_t i = 0; i < inner.length; i++) {
        char c = inner.bytes[i];
        bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || (is_bracketed ? c == ':' : c == '-' || c == '_');
        if (!is_fine)
            return false;
    }
    return true;
}

bool upstream_url_authority(struct slice text, struct upstream_authority *out)
{
    size_t end = text.length;
    uint64_t port = 0;
    while (end > 0 && text.bytes[end - 1] != ':' && text.bytes[end - 1] != ']')
        end--;
    bool has_port = end > 0 && text.bytes[end - 1] == ':';
    if (has_port && decimal_read((struct slice){text.bytes + end, text.length - end}, UINT16_MAX,
                                 &port) != DECIMAL_READ)
        return false;
    *out =
        (struct upstream_authority){{text.bytes, has_port ? end - 1 : text.length}, (uint16_t)port};
    return authority_is_host(out->host) && (!has_port || port >= 1);
}

bool upstream_url_is_loopback(struct slice host)
{
    struct in_addr four;
    char text[INET_ADDRSTRLEN];
    if (slice_is(host, "[::1]"))
        return true;
    if (host.length >= sizeof text)
        return false;
    memcpy(text, host.bytes, host.length);
    text[host.length] = '\0';
    return inet_pton(AF_INET, text, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}

bool upstream_url_read(const char *text, struct upstream_url *out)
{
    struct slice rest = slice_of(text);
    out->is_plain = slice_starts_with(rest, SLICE("http://"));
    size_t scheme = out->is_plain ? 7 : 8;
    if (!out->is_plain && !slice_starts_with(rest, SLICE("https://")))
        return false;
    size_t end = scheme;
    while (end < rest.length && rest.bytes[end] != '/')
        end++;
    for (size_t i = end; i < rest.length; i++) {
        if (rest.bytes[i] <= ' ' || rest.bytes[i] > '~' || rest.bytes[i] == '#')
            return false;
    }
    out->origin = (struct slice){text, end};
    out->path = end < rest.length ? text + end : "/";
    if (!upstream_url_authority((struct slice){text + scheme, end - scheme}, &out->authority))
        return false;
    if (out->authority.port == 0)
        out->authority.port = out->is_plain ? PORT_PLAIN : PORT_TLS;
    return true;
}
