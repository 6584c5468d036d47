/* admin_prices: /admin/v1/prices: what tokens cost.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     a change is one committed transaction.
 * Not here: which price applies to a request, and its cost (auth, price).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_prices_create(struct admin_call *call);
enum status admin_prices_list(struct admin_call *call);
enum status admin_prices_get(struct admin_call *call);
enum status admin_prices_delete(struct admin_call *call);
