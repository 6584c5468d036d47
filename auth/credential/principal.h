/* principal: who is calling, and what a request needs to know of them.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding out (auth), the records behind it (tenant).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"

struct principal {
    bool is_admin;
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES]; /* of a token: its issuer's id; of a certificate: its row's */
    uint64_t proof;              /* a token's: its key and its issuer's rules; of others 0 */
    /* Of an admin's token its "sub", as the audit has it: visible ASCII, "..." when it was cut;
     * of others "". */
    char subject[LIMIT_SUBJECT_BYTES];
    uint32_t scopes;
    uint32_t weight;
    enum service_class default_class;
    enum service_class best_class;
    bool has_models;         /* the tenant may ask some models alone: tenant_allows_model */
    uint8_t tenant_hash[16]; /* HMAC(server secret, "tenant:" id): what the engine may know */
    uint8_t key_hash[16];    /* HMAC(server secret, "key:" id): whom a final record belongs to */
    /* Share domains, each a HMAC(server secret, …): where the tenant's pages go in the cache, and
     * what it may read, in the order of the match: published prompts, its group's when it shares
     * with the group, its own ("domain:" id). */
    uint8_t domain[16];
    uint32_t cache_share;
    uint32_t visible_public; /* the first so many */
    uint32_t visible_group;  /* the next: 0 or 1 */
    uint32_t visible_count;
    uint8_t visible[LIMIT_DOMAINS_VISIBLE][16]; /* nothing behind visible_count is set */
};                                              /* for an admin key zeros, from tenant_hash on */
