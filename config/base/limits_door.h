/* limits_door: bounds of the work that one connection may cause in the gateway's event loop.
 *
 * Owns:     numbers, with their reasons.
 * Not here: all other bounds (limits.h), and what an operator may set (options.def).
 */
#pragma once

/* Fields of an HTTP/2 head, those of the request line included. HTTP/1 takes 100 and the request
 * line; a browser sends 25. A head with more ends its connection. */
#define LIMIT_H2_FIELDS 256

/* What one turn of the loop reads of HTTP/2 connections, and what of one of them: a frame counts
 * one, and a head another eight and one for each field. A turn reads at most some 130 small heads,
 * or eight of the largest. The remainder waits for the next turns, in which each connection gets
 * its part. */
#define LIMIT_H2_TURN_WORK            2048
#define LIMIT_H2_TURN_CONNECTION_WORK 256
