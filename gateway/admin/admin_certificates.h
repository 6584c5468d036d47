/* admin_certificates: /admin/v1/certificates and /admin/v1/tenants/{id}/certificates.
 *
 * Owns:     nothing.
 * Thread:   as routes.def says.
 * Cost:     a change is one committed transaction.
 * Not here: rules and rows (certificate), which certificates are right (http/tls_client).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_certificates_create(struct admin_call *call);
enum status admin_certificates_list(struct admin_call *call);
/* Lists the certificates of all tenants and of the admins, for an export. */
enum status admin_certificates_list_all(struct admin_call *call);
enum status admin_certificates_get(struct admin_call *call);
enum status admin_certificates_update(struct admin_call *call);
enum status admin_certificates_revoke(struct admin_call *call);
