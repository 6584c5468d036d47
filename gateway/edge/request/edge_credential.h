/* edge_credential: the API key or token of a request, from its headers, or its connection's
 * certificate, and who it stands for.
 *
 * Owns:     nothing; the credential is borrowed from the request.
 * Thread:   the loop's thread.
 * Cost:     one look-up in auth.
 * Not here: what a key proves (auth).
 */
#pragma once

#include "auth/auth.h"
#include "gateway/http/listener.h"
#include "gateway/http/request.h"

/* Splits "Bearer <key>" (the scheme in any case). KEY_INVALID for another scheme or an inner space;
 * an empty key gives an empty slice. */
enum status edge_credential_bearer(struct slice header, struct slice *out);

/* The credential from `authorization: Bearer`, else `x-api-key`; empty when there is neither.
 * KEY_INVALID when one is given twice or is no key. */
enum status edge_credential_read(const struct http_request *request, struct slice *out);

/* The same, of a head whose body is still on its way. */
enum status edge_credential_read_head(const struct listener_head *head, struct slice *out);

/* From `authorization: Bearer`, else `x-api-key`, else the certificate that the connection was made
 * with. KEY_MISSING when there is none of them, KEY_INVALID when a header is given twice or is no
 * key, FORBIDDEN when certificate and key must agree and do not. UNAVAILABLE when its body was cut
 * off, because who is known now was not when the head came: an empty body would be another request.
 */
enum status edge_credential_check(struct auth *auth, const struct http_request *request,
                                  bool want_admin, struct principal *out);
