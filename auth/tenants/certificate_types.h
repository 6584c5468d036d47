/* certificate_types: the row of a client certificate.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing rows (certificate).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct certificates;

enum certificate_match { CERTIFICATE_FINGERPRINT, CERTIFICATE_URI, CERTIFICATE_DNS };

struct certificate {
    char id[LIMIT_ID_BYTES];        /* "crt_" and 20 base62 characters: its requests' key id */
    char tenant_id[LIMIT_ID_BYTES]; /* "": an admin's */
    char label[LIMIT_NAME_BYTES];
    enum certificate_match match;
    char value[LIMIT_PEER_NAME_BYTES]; /* 64 hex digits or a name, DNS in lower case */
    uint32_t scopes;                   /* scopes of a tenant's key or of an admin key */
    int64_t created_at_s;
    int64_t expires_at_s; /* 0 = never. The certificate's own end counts as well. */
    int64_t revoked_at_s; /* 0 = not revoked */
    /* 0 = never. Reaches the database up to LIMIT_USED_S later; the revision stays. */
    int64_t last_used_at_s;
    int64_t revision;
};

enum {
    CERTIFICATE_LABEL = 1u << 0,
    CERTIFICATE_VALUE = 1u << 1,
    CERTIFICATE_SCOPES = 1u << 2,
    CERTIFICATE_EXPIRES = 1u << 3,
};
struct certificate_fields {
    unsigned given; /* CERTIFICATE_… bits: the fields below that are given */
    struct slice label;
    enum certificate_match match;
    struct slice value; /* a fingerprint in either case, with colons or without */
    uint32_t scopes;
    int64_t expires_at_s; /* 0 = never */
};
