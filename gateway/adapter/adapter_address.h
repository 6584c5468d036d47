/* adapter_address: finds the addresses of a foreign server before its process is confined.
 *
 * Owns:     nothing.
 * Thread:   one that may block while a name is looked up.
 * Cost:     one look-up.
 * Not here: talking to the server (adapter).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config/base/limits_upstream.h"
#include "config/base/status.h"

/* Where a server may be: a name can have several addresses, of which it listens on some. */
struct adapter_addresses {
    struct sockaddr_storage list[LIMIT_UPSTREAM_ADDRESSES];
    uint32_t count;
    uint16_t port;
};

/* Reads the URL of --upstream: http://HOST[:PORT][/PREFIX]. INVALID when it is none or has a query,
 * UNAVAILABLE when the host has no address, FORBIDDEN when one of them is another machine and
 * `may_be_plain` does not say that nobody can listen on the way. */
enum status adapter_address_find(const char *url, bool may_be_plain, struct adapter_addresses *out);
