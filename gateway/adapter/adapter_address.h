/* adapter_address: finds the address of a foreign server before its process is confined.
 *
 * Owns:     nothing.
 * Thread:   one that may block while a name is looked up.
 * Cost:     one look-up.
 * Not here: talking to the server (adapter).
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "config/base/status.h"

/* Reads the URL of --upstream: http://HOST[:PORT][/PREFIX]. INVALID when it is none, UNAVAILABLE
 * when the host has no address, FORBIDDEN when it is another machine and `may_be_plain` does not
 * say that nobody can listen on the way. */
enum status adapter_address_find(const char *url, bool may_be_plain,
                                 struct sockaddr_storage *address, uint16_t *port);
