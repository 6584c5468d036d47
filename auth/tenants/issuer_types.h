/* issuer_types: what an issuer of tokens is, and which of its fields a change gives.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: looking for issuers and changing them (issuer).
 */
#pragma once

#include "auth/credential/auth_jwt_guard.h"
#include "auth/tenants/tenant_types.h"

struct issuers;

struct issuer_tenant { /* a token whose claim says `value` is this tenant's */
    char value[LIMIT_METADATA_KEY_BYTES + 1];
    char tenant_id[LIMIT_ID_BYTES];
};

struct issuer_admin { /* a token whose admin_claim has the word `value` has these scopes */
    char value[LIMIT_METADATA_KEY_BYTES + 1];
    uint32_t scopes;
};

struct issuer_key {
    char kid[LIMIT_JWT_KID_BYTES + 1];
    enum auth_jwt_algorithm algorithm;
    int64_t until_s; /* it has left the set of its URL, and ends then; 0: it is in it */
};

struct issuer {
    char id[LIMIT_ID_BYTES]; /* "iss_" and 20 base62 characters: the key of its tokens' requests */
    char name[LIMIT_NAME_BYTES];
    char issuer[LIMIT_ISSUER_BYTES]; /* "iss", exactly */
    char audiences[LIMIT_ISSUER_NAMES][LIMIT_NAME_BYTES];
    size_t audience_count;
    uint32_t algorithms;                 /* bits 1 << enum auth_jwt_algorithm */
    char tenant_claim[LIMIT_NAME_BYTES]; /* which claim says whose a token is */
    struct issuer_tenant tenants[LIMIT_METADATA_PAIRS];
    size_t tenant_count;                /* 0: the claim holds the tenant's id */
    char scope_claim[LIMIT_NAME_BYTES]; /* "": tokens have all `scopes`; else those they say too */
    uint32_t scopes;
    int64_t max_lifetime_s;
    char jwks_file[LIMIT_NAME_BYTES];    /* "": the keys came with the issuer, or from the URL */
    char jwks_url[LIMIT_JWKS_URL_BYTES]; /* "": none */
    int64_t jwks_refresh_s;
    int64_t jwks_overlap_s;
    char admin_claim[LIMIT_NAME_BYTES]; /* "": its tokens do not open the config API */
    struct issuer_admin admins[LIMIT_METADATA_PAIRS];
    size_t admin_count;
    int64_t created_at_s;
    int64_t revision;
    struct issuer_key keys[LIMIT_ISSUER_KEYS]; /* what can be told of those that are used now */
    size_t key_count;
    char jwks_error[STATUS_MESSAGE_BYTES]; /* why they are not its file's or URL's; "": they are */
    int64_t jwks_fetched_at_s;             /* from the URL since the start; 0: not yet */
};

enum {
    ISSUER_NAME = 1u << 0,
    ISSUER_ISSUER = 1u << 1,
    ISSUER_AUDIENCES = 1u << 2,
    ISSUER_ALGORITHMS = 1u << 3,
    ISSUER_TENANT_CLAIM = 1u << 4,
    ISSUER_TENANTS = 1u << 5,
    ISSUER_SCOPE_CLAIM = 1u << 6,
    ISSUER_SCOPES = 1u << 7,
    ISSUER_MAX_LIFETIME = 1u << 8,
    ISSUER_JWKS = 1u << 9,
    ISSUER_JWKS_FILE = 1u << 10,
    ISSUER_JWKS_URL = 1u << 11,
    ISSUER_JWKS_REFRESH = 1u << 12,
    ISSUER_JWKS_OVERLAP = 1u << 13,
    ISSUER_ADMIN_CLAIM = 1u << 14,
    ISSUER_ADMINS = 1u << 15,
};
struct issuer_fields {
    unsigned given; /* ISSUER_… bits: which of the others mean something */
    struct slice name;
    struct slice issuer;
    struct slice audiences; /* a JSON list of texts */
    uint32_t algorithms;
    struct slice tenant_claim;
    struct slice tenants; /* a JSON object of texts: claim's value → tenant id */
    struct slice scope_claim;
    uint32_t scopes;
    int64_t max_lifetime_s;
    struct slice jwks; /* a JSON Web Key Set */
    struct slice jwks_file;
    struct slice jwks_url;
    int64_t jwks_refresh_s;
    int64_t jwks_overlap_s;
    struct slice admin_claim;
    struct slice admins; /* a JSON object of texts: claim's word → scopes with spaces between */
};
