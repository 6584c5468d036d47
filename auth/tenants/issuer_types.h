/* issuer_types: an issuer of tokens, and the fields that a change of it may give.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing issuers (issuer).
 */
#pragma once

#include "auth/credential/auth_jwt_guard.h"
#include "auth/tenants/tenant_types.h"

struct issuers;

struct issuer_tenant { /* a token whose tenant_claim is `value` belongs to this tenant */
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
    /* The key has left the set of its URL and is accepted until then. 0: the key is in the set. */
    int64_t until_s;
};

struct issuer {
    /* "iss_" and 20 base62 characters. Requests with the issuer's tokens have it as their key
     * id. */
    char id[LIMIT_ID_BYTES];
    char name[LIMIT_NAME_BYTES];
    char issuer[LIMIT_ISSUER_BYTES]; /* its tokens' claim "iss", compared exactly */
    char audiences[LIMIT_ISSUER_NAMES][LIMIT_NAME_BYTES];
    size_t audience_count;
    uint32_t algorithms;                 /* bits 1 << enum auth_jwt_algorithm */
    char tenant_claim[LIMIT_NAME_BYTES]; /* the claim that names a token's tenant */
    struct issuer_tenant tenants[LIMIT_METADATA_PAIRS];
    size_t tenant_count; /* 0: the claim holds the tenant's id */
    /* "": a token has all of `scopes`. Otherwise it has those of `scopes` that this claim names. */
    char scope_claim[LIMIT_NAME_BYTES];
    uint32_t scopes;
    int64_t max_lifetime_s;
    /* "": the keys were given with the issuer or are fetched */
    char jwks_file[LIMIT_NAME_BYTES];
    char jwks_url[LIMIT_JWKS_URL_BYTES]; /* "": none */
    int64_t jwks_refresh_s;
    int64_t jwks_overlap_s;
    char admin_claim[LIMIT_NAME_BYTES]; /* "": its tokens do not open the config API */
    struct issuer_admin admins[LIMIT_METADATA_PAIRS];
    size_t admin_count;
    int64_t created_at_s;
    int64_t revision;
    struct issuer_key keys[LIMIT_ISSUER_KEYS]; /* the keys in use, without their secrets */
    size_t key_count;
    /* why the keys could not be read last time; "": they could */
    char jwks_error[STATUS_MESSAGE_BYTES];
    /* when the URL was last fetched; 0: not since the start */
    int64_t jwks_fetched_at_s;
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
    unsigned given; /* ISSUER_… bits: the fields below that are given */
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
