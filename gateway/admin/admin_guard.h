/* admin_guard: how often keys failed, by address, so that guessing and floods of it stay slow.
 *
 *   level of an address: one more with each failure, one less with each second, never below 0
 *   above LIMIT_ADMIN_FAILURES: the failure is answered 429
 *
 * A right key passes whatever the level, so nobody can lock an operator out from a shared address.
 *
 * Owns:     a table of 1,024 addresses; a newcomer takes the place of the lowest level of four.
 * Thread:   the loop's.
 * Cost:     O(1), no allocation after it was made.
 * Not here: connections and arrival limits (gateway/http).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

struct admin_guard;

struct admin_guard *admin_guard_create(void); /* NULL without memory */
void admin_guard_destroy(struct admin_guard *guard);

/* Notes a failure of `peer` ("192.0.2.1:5", "[2001:db8::1]:5"; IPv6 by its /64). True when it had
 * too many; `is_first` (of a series) is for the log. */
bool admin_guard_fail(struct admin_guard *guard, struct slice peer, int64_t now_us, bool *is_first);
