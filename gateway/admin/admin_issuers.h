/* admin_issuers: /admin/v1/issuers: issuers of tokens.
 *
 * Owns:     nothing.
 * Thread:   the worker's; admin_issuers_get: any.
 * Cost:     a change is one committed transaction.
 * Not here: rows, keys and rules (issuer). Keys go in and never come out but by their names.
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_issuers_create(struct admin_call *call);
enum status admin_issuers_list(struct admin_call *call);
enum status admin_issuers_get(struct admin_call *call);
enum status admin_issuers_update(struct admin_call *call);
enum status admin_issuers_delete(struct admin_call *call);
