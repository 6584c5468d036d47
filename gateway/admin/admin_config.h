/* admin_config: /admin/v1/config: shows, validates and reloads the options of the running server.
 *
 * Owns:     nothing.
 * Thread:   the loop's, which alone changes the snapshot; the worker writes a reload's audit row.
 * Cost:     validating parses a body of at most LIMIT_ADMIN_BODY_BYTES; a reload reads the file of
 *           options and the certificates.
 * Not here: what options mean (config), certificates and snapshots (edge_reload), export and import
 *           (admin_export, admin_import).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_config_get(struct admin_call *call);
enum status admin_config_validate(struct admin_call *call);
enum status admin_config_reload(struct admin_call *call);
