#include "gateway/adapter/adapter_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "gateway/upstream/upstream_url.h"

enum { HOST_BYTES = 256 };

static bool host_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

/* Reads the URL, and copies its host without brackets. */
static enum status url_read(const char *text, struct upstream_url *url, char host[HOST_BYTES])
{
    if (!upstream_url_read(text, url) || !url->is_plain)
        FAIL(STATUS_INVALID, "--upstream %s is no URL of a server: http://HOST:PORT", text);
    if (strchr(url->path, '?') != NULL)
        FAIL(STATUS_INVALID, "--upstream %s has a query; its URL is http://HOST:PORT[/PREFIX]",
             text);
    struct slice name = url->authority.host;
    if (name.length > 2 && name.bytes[0] == '[')
        name = (struct slice){name.bytes + 1, name.length - 2};
    if (name.length >= HOST_BYTES)
        FAIL(STATUS_INVALID, "--upstream: the host's name is too long");
    snprintf(host, HOST_BYTES, "%.*s", (int)name.length, name.bytes);
    return STATUS_OK;
}

enum status adapter_address_find(const char *text, bool may_be_plain, struct adapter_addresses *out)
{
    struct upstream_url url;
    char host[HOST_BYTES];
    char service[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    TRY(url_read(text, &url, host));
    snprintf(service, sizeof service, "%u", url.authority.port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error != 0)
        FAIL(STATUS_UNAVAILABLE, "--upstream: %s: %s", host, gai_strerror(error));
    *out = (struct adapter_addresses){.port = url.authority.port};
    bool is_near = true;
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        if (out->count == LIMIT_UPSTREAM_ADDRESSES)
            break;
        memcpy(&out->list[out->count++], one->ai_addr, one->ai_addrlen);
        is_near = is_near && host_is_loopback(one->ai_addr);
    }
    freeaddrinfo(found);
    if (!may_be_plain && !is_near)
        FAIL(STATUS_FORBIDDEN,
             "--upstream %s: prompts would go to another machine unencrypted; --upstream-plain "
             "accepts that",
             text);
    return STATUS_OK;
}
