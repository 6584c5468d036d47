#include "gateway/adapter/adapter_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "gateway/upstream/upstream_url.h"

static bool host_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

enum status adapter_address_find(const char *text, bool may_be_plain,
                                 struct sockaddr_storage *address, uint16_t *port)
{
    struct upstream_url url;
    char host[256];
    char service[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (!upstream_url_read(text, &url) || !url.is_plain)
        FAIL(STATUS_INVALID, "--upstream %s is no URL of a server: http://HOST:PORT", text);
    struct slice name = url.authority.host;
    if (name.length > 2 && name.bytes[0] == '[')
        name = (struct slice){name.bytes + 1, name.length - 2};
    if (name.length >= sizeof host)
        FAIL(STATUS_INVALID, "--upstream: the host's name is too long");
    snprintf(host, sizeof host, "%.*s", (int)name.length, name.bytes);
    snprintf(service, sizeof service, "%u", url.authority.port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error != 0)
        FAIL(STATUS_UNAVAILABLE, "--upstream: %s: %s", host, gai_strerror(error));
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *port = url.authority.port;
    freeaddrinfo(found);
    if (!may_be_plain && !host_is_loopback((const struct sockaddr *)address))
        FAIL(STATUS_FORBIDDEN,
             "--upstream %s: prompts would go to another machine unencrypted; --upstream-plain "
             "accepts that",
             text);
    return STATUS_OK;
}
