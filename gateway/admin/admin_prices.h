/* admin_prices: /admin/v1/prices: what tokens cost.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     a change is one commit.
 * Not here: which price counts, what a request cost (auth/tenants/price).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_prices_create(struct admin_call *call);
enum status admin_prices_list(struct admin_call *call);
enum status admin_prices_get(struct admin_call *call);
enum status admin_prices_delete(struct admin_call *call);
