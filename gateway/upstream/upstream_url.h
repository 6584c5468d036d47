/* upstream_url: parses the URL of a server that the gateway calls.
 *
 *   https://login.example.com/keys    http://127.0.0.1:8000    https://[::1]:8444/v1
 *
 * Owns:     nothing; slices point into the text.
 * Thread:   any.
 * Cost:     one pass over the text, no allocation.
 * Not here: which hosts may be called (key_fetch, adapter), looking up names (https_client).
 */
#pragma once

#include "config/base/slice.h"

/* HOST or HOST:PORT, where HOST is a name, an IPv4 address, or an IPv6 address in brackets. */
struct upstream_authority {
    struct slice host; /* an IPv6 address with its brackets */
    uint16_t port;     /* 0 = not given */
};

struct upstream_url {
    bool is_plain;                       /* http, not https */
    struct upstream_authority authority; /* its port is never 0 */
    struct slice origin;                 /* everything before the path */
    const char *path;                    /* at least "/" */
};

/* Both return false when the text is not what it should be. A URL has printable characters alone,
 * and no fragment. */
bool upstream_url_authority(struct slice text, struct upstream_authority *out);
bool upstream_url_read(const char *text, struct upstream_url *out);
/* Whether a host is an address of this machine's loopback. A name never is. */
bool upstream_url_is_loopback(struct slice host);
