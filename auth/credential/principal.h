/* principal: the authenticated caller, and what a request needs to know about it.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: authenticating (auth), the records behind it (tenant).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"

struct principal {
    bool is_admin;
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES]; /* for a token its issuer's id, for a certificate its row's id */
    uint64_t proof; /* for a token, names its key and its issuer's rules; otherwise 0 */
    /* For an admin's token its "sub" as the audit has it: visible ASCII, with "..." at the end when
     * it was cut. Otherwise "". */
    char subject[LIMIT_SUBJECT_BYTES];
    uint32_t scopes;
    uint32_t weight;
    enum service_class default_class;
    enum service_class best_class;
    bool has_models; /* the tenant may use some models only: tenant_allows_model */
    /* HMAC(server secret, "tenant:" id): the tenant's name at the engine */
    uint8_t tenant_hash[16];
    uint8_t key_hash[16]; /* HMAC(server secret, "key:" id): the key's name in final records */
    /* Share domains of the prefix cache, each an HMAC(server secret, …). `domain` is where the
     * tenant's pages go. `visible` lists the domains that it may read, in the order of the match:
     * published prompts, the group's domain if the tenant shares with its group, its own ("domain:"
     * id). */
    uint8_t domain[16];
    uint32_t cache_share;
    uint32_t visible_public; /* so many of the first ones are published prompts */
    uint32_t visible_group;  /* so many after them are the group's: 0 or 1 */
    uint32_t visible_count;
    uint8_t visible[LIMIT_DOMAINS_VISIBLE][16]; /* entries from visible_count on are not set */
};                                              /* for an admin, zeros from tenant_hash on */
