/* auth_secrets: the two secrets of a server, in D/secrets.
 *
 *   banyan-secrets 1
 *   pepper <64 hex digits>
 *   domain <64 hex digits>
 *
 * Owns:     the form of the file.
 * Thread:   any; of two processes that start on an empty directory both get the same secrets.
 * Cost:     a file, once a start.
 * Not here: what they key (tenant: pepper; auth: domain).
 */
#pragma once

#include "auth/credential/auth_crypto.h"

struct auth_secrets {
    uint8_t pepper[AUTH_CRYPTO_BYTES]; /* stored hashes of keys */
    uint8_t domain[AUTH_CRYPTO_BYTES]; /* tenants' names before the engine, share domains */
};

/* NOT_FOUND; CORRUPT when the form is another; FORBIDDEN when the file is open to others. */
enum status auth_secrets_read(const char *folder, struct auth_secrets *out);
/* Draws new ones and writes them, or reads those that another process wrote first. */
enum status auth_secrets_make(const char *folder, struct auth_secrets *out);
