/* admin_config: the options of the running server over HTTP: looked at, checked, read again.
 *
 * Owns:     nothing.
 * Thread:   the loop's, which alone changes the snapshot; a reload's audit row is the worker's.
 * Cost:     checking parses a body of LIMIT_CONFIG_FILE_BYTES at most; a reload reads three files.
 * Not here: what options mean (config), certificates and snapshots (edge_reload), rows that admins
 *           change (admin_export).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_config_get(struct admin_call *call);
enum status admin_config_validate(struct admin_call *call);
enum status admin_config_reload(struct admin_call *call);
