/* failure_guard: how often keys or tokens failed, by address, so that guessing and floods of it
 * stay slow.
 *
 *   level of an address: one more with each failure, `per_second` less with each second, never
 *   below 0; above `burst`: it has had too many
 *
 * Where a right key passes whatever the level, nobody can lock others out from a shared address.
 *
 * Owns:     a table of 1,024 addresses; a newcomer takes the place of the lowest level of four.
 * Thread:   the loop's.
 * Cost:     O(1), no allocation after it was made.
 * Not here: connections and arrival limits (gateway/http).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

struct failure_guard;

/* NULL without memory. */
struct failure_guard *failure_guard_create(uint32_t burst, uint32_t per_second);
void failure_guard_destroy(struct failure_guard *guard);

/* A name for the address of `peer`, as below. */
uint64_t failure_guard_address(struct slice peer);
/* Notes a failure of `peer` ("192.0.2.1:5", "[2001:db8::1]:5"; IPv6 by its /64). True when it had
 * too many; `is_first` (of a series) is for the log. */
bool failure_guard_fail(struct failure_guard *guard, struct slice peer, int64_t now_us,
                        bool *is_first);
/* Whether the next failure of `peer` would be one too many. */
bool failure_guard_is_over(struct failure_guard *guard, struct slice peer, int64_t now_us);
