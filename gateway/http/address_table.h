/* address_table: limits how many connections an address has, and how fast it opens new ones.
 *
 * An address with an authenticated client may open twice as many a second, as long as it has
 * connections: unknown clients behind the same address can use up only half of them.
 *
 * Owns:     a fixed number of rows. An address without connections is forgotten when its bucket is
 *           full again, or earlier when its row is needed.
 * Thread:   one.
 * Cost:     O(1) for an operation; allocates only in address_table_create.
 * Not here: sockets, and what a refusal does (listener).
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

struct address_table;

struct address_table_limits {
    uint32_t connections;       /* open connections of one address; 0 = no limit */
    uint32_t connects_a_second; /* new connections of one address, and their burst; 0 = no limit */
    uint32_t rows;              /* more than the connections of all addresses */
};

enum address_verdict {
    ADDRESS_ADMITTED,
    ADDRESS_HAS_TOO_MANY, /* it has `connections` open connections */
    ADDRESS_IS_TOO_FAST,  /* it opens more than connects_a_second */
};

enum { ADDRESS_NONE = 0 }; /* no row */

/* The key of a peer's address. An IPv6 address counts by its /64, the smallest network that a
 * customer gets; an IPv4 address in IPv6 form counts as IPv4. False, and a key of zeros, for a peer
 * without an internet address (a Unix socket). */
bool address_table_key(const struct sockaddr *peer, uint64_t key[2]);

/* INVALID when there are no rows, NO_MEMORY. */
enum status address_table_create(struct address_table **out,
                                 const struct address_table_limits *limits);
void address_table_destroy(struct address_table *table);

/* Admits or refuses a new connection from `peer`. `*row` is for address_table_leave() when it ends.
 * It is ADDRESS_NONE when the connection is refused, or when `peer` has no internet address, which
 * is always admitted. `now_us` must never decrease. */
enum address_verdict address_table_enter(struct address_table *table, const struct sockaddr *peer,
                                         int64_t now_us, uint32_t *row);
/* A client was authenticated on a connection of this row. */
void address_table_prove(struct address_table *table, uint32_t row);
void address_table_leave(struct address_table *table, uint32_t row, int64_t now_us);

/* Addresses that have connections or are not forgotten yet. */
uint32_t address_table_count(const struct address_table *table);
/* Asserts that lists, chains and counts agree; O(rows). */
void address_table_check(const struct address_table *table);
