/* failure_guard: counts failed keys and tokens by address, so that guessing stays slow.
 *
 *   The level of an address rises by one with each failure, and sinks by `per_second` with each
 *   second, down to 0. Above `burst` the address has had too many failures.
 *
 * Where the caller lets a right key pass at every level, nobody can lock out others at a shared
 * address.
 *
 * Owns:     a table of 1,024 addresses. A new address replaces the lowest level of a set of four.
 * Thread:   the loop's.
 * Cost:     O(1), no allocation after create.
 * Not here: limits of connections (address_table) and of unfinished requests (arrival).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

struct failure_guard;

/* NULL without memory. */
struct failure_guard *failure_guard_create(uint32_t burst, uint32_t per_second);
void failure_guard_destroy(struct failure_guard *guard);

/* A number for the address of `peer`: "192.0.2.1:5" or "[2001:db8::1]:5"; IPv6 counts by its
 * /64. */
uint64_t failure_guard_address(struct slice peer);
/* Counts a failure of `peer`. True when it has had too many; then `*is_first` says that it is the
 * first of a series, which the caller logs. */
bool failure_guard_fail(struct failure_guard *guard, struct slice peer, int64_t now_us,
                        bool *is_first);
/* Whether one more failure of `peer` would be too many. */
bool failure_guard_is_over(struct failure_guard *guard, struct slice peer, int64_t now_us);
