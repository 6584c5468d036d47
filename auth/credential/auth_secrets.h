/* auth_secrets: the two secrets of a server, in the file `secrets` of its data directory.
 *
 *   banyan-secrets 1
 *   pepper <64 hex digits>
 *   domain <64 hex digits>
 *
 * Owns:     the form of the file.
 * Thread:   any. Two processes that start on an empty directory get the same secrets.
 * Cost:     one file is read at the start.
 * Not here: what the secrets are used for (tenant, auth).
 */
#pragma once

#include "auth/credential/auth_crypto.h"

struct auth_secrets {
    uint8_t pepper[AUTH_CRYPTO_BYTES]; /* the key for stored hashes of API keys */
    uint8_t domain[AUTH_CRYPTO_BYTES]; /* the key for opaque names and share domains */
};

/* Reads the secrets. CORRUPT when the file does not have the form above; otherwise fails as
 * auth_file_read does (NOT_FOUND, FORBIDDEN, …). */
enum status auth_secrets_read(const char *folder, struct auth_secrets *out);
/* Makes random secrets and writes them; when another process was first, reads that process's. */
enum status auth_secrets_make(const char *folder, struct auth_secrets *out);
