/* edge_route: the scope and the flags of a row of routes.def, which explains each flag.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the rows and their handlers (edge_forward), finding one (http/router).
 */
#pragma once

#include <stdint.h>

enum edge_route_flag {
    EDGE_ROUTE_OPEN = 1u << 0,
    EDGE_ROUTE_COUNTED = 1u << 1,
    EDGE_ROUTE_LIMITED = 1u << 2,
    EDGE_ROUTE_STREAMED = 1u << 3,
    EDGE_ROUTE_READS_BODY = 1u << 4,
    EDGE_ROUTE_QUIET = 1u << 5,
};

struct edge_route {
    uint32_t scope; /* enum auth_scope; 0: any key of a tenant will do */
    uint32_t flags; /* of enum edge_route_flag */
};
