/* limits_door: bounds of the work that one connection may cause in the gateway's event loop.
 *
 * Owns:     numbers, with their reasons.
 * Not here: all other bounds (limits.h), and what an operator may set (options.def).
 */
#pragma once

/* Fields of an HTTP/2 head, those of the request line included. HTTP/1 takes 100 and the request
 * line; a browser sends 25. A head with more ends its connection. */
#define LIMIT_H2_FIELDS 256
