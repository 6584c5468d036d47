/* auth_scope: what a key, a token or a certificate may do, as bits and as words.
 *
 * Owns:     the scopes' words.
 * Thread:   any.
 * Cost:     a walk over seven words.
 * Not here: who has which scope (tenant, issuer, certificate), which route needs one (routes.def).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum auth_scope {
    AUTH_SCOPE_ADMIN_READ = 1u << 0,
    AUTH_SCOPE_ADMIN_WRITE = 1u << 1,
    AUTH_SCOPE_ADMIN_KEYS = 1u << 2,
    AUTH_SCOPE_USAGE_READ = 1u << 3,
    AUTH_SCOPE_METRICS_READ = 1u << 4,
    AUTH_SCOPE_INFERENCE = 1u << 5,
    AUTH_SCOPE_PRIORITY = 1u << 6,     /* may send `priority`; a key has it only if it is named */
    AUTH_SCOPES_ADMIN = (1u << 5) - 1, /* what an admin key may have */
    AUTH_SCOPES_TENANT =
        AUTH_SCOPE_INFERENCE | AUTH_SCOPE_USAGE_READ, /* a tenant's key has these by default */
    AUTH_SCOPES_TENANT_ALL = AUTH_SCOPES_TENANT | AUTH_SCOPE_PRIORITY,
};

/* The scope of a word such as "admin:read"; 0 for an unknown word. */
uint32_t auth_scope_find(struct slice word);
/* The word of one scope. */
const char *auth_scope_word(uint32_t scope);
/* Appends the words of several scopes as a JSON list. */
void auth_scopes_append(uint32_t scopes, struct buffer *out);
/* Appends the words of several scopes with spaces between them. */
void auth_scopes_append_words(uint32_t scopes, struct buffer *out);
