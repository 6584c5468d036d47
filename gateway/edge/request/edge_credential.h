/* edge_credential: finds a request's API key or token in its headers, or the certificate of its
 * connection, and authenticates the caller.
 *
 * Owns:     nothing; the credential is borrowed from the request.
 * Thread:   the loop's thread.
 * Cost:     one authentication (auth).
 * Not here: whether a key is valid (auth).
 */
#pragma once

#include "auth/auth.h"
#include "gateway/http/listener.h"
#include "gateway/http/request.h"

/* Takes the key out of "Bearer <key>"; the scheme may be in any case (RFC 6750). KEY_INVALID for
 * another scheme or a space inside the key. An empty key gives an empty slice. */
enum status edge_credential_bearer(struct slice header, struct slice *out);

/* The credential from `authorization: Bearer`, or else from `x-api-key`; empty when there is
 * neither header. KEY_INVALID when one header is given twice, or `authorization` has not the form
 * above. */
enum status edge_credential_read(const struct http_request *request, struct slice *out);

/* The same for a head whose body is still being received. */
enum status edge_credential_read_head(const struct listener_head *head, struct slice *out);

/* Authenticates the caller with the credential above, or else with the certificate of the
 * connection. Fails as edge_credential_read and auth_authenticate do. UNAVAILABLE when the body was
 * dropped: the credential was not known yet when the head came, so the body was not received, and
 * handling the request with an empty body would be wrong. */
enum status edge_credential_check(struct auth *auth, const struct http_request *request,
                                  bool want_admin, struct principal *out);
