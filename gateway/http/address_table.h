/* address_table: how many connections each address has, and how fast it opens new ones.
 *
 * An address where somebody was authenticated may open twice as many a second, as long as it has
 * connections: strangers behind the same address use up one half of them.
 *
 * Owns:     a fixed number of rows; an address without connections is forgotten once its bucket is
 *           full again, or earlier when its row is wanted.
 * Thread:   one.
 * Cost:     O(1) an operation; memory only in address_table_create.
 * Not here: sockets, what happens to who is refused (listener).
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

struct address_table;

struct address_table_limits {
    uint32_t connections;       /* open at once from one address; 0 = any number */
    uint32_t connects_a_second; /* new ones; as many may come at once; 0 = any number */
    uint32_t rows;              /* at least one more than connections there can be in all */
};

enum address_verdict {
    ADDRESS_ADMITTED,
    ADDRESS_HAS_TOO_MANY, /* connections are open already */
    ADDRESS_IS_TOO_FAST,
};

enum { ADDRESS_NONE = 0 }; /* a row that stands for nothing */

/* Whom a peer stands for: IPv6 by /64, the least that one customer gets; IPv4 written as IPv6 is
 * IPv4. False, and zeros, when it has no internet address (a Unix socket). */
bool address_table_key(const struct sockaddr *peer, uint64_t key[2]);

/* INVALID when there are no rows, NO_MEMORY. */
enum status address_table_create(struct address_table **out,
                                 const struct address_table_limits *limits);
void address_table_destroy(struct address_table *table);

/* A connection from `peer` wants in. `*row` is what address_table_leave wants at its end, and
 * ADDRESS_NONE when it was refused or when `peer` is no internet address (a Unix socket), which is
 * always admitted. `now_us` never runs back. */
enum address_verdict address_table_enter(struct address_table *table, const struct sockaddr *peer,
                                         int64_t now_us, uint32_t *row);
/* Somebody was authenticated on a connection of that row. */
void address_table_prove(struct address_table *table, uint32_t row);
void address_table_leave(struct address_table *table, uint32_t row, int64_t now_us);

/* Rows in use: with connections, or not forgotten yet. */
uint32_t address_table_count(const struct address_table *table);
/* Asserts that lists, chains and counts agree; O(rows). */
void address_table_check(const struct address_table *table);
