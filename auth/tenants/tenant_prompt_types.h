/* tenant_prompt_types: published prompts and grants.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing prompts (tenant_prompt).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct tenant_prompt {
    char id[LIMIT_ID_BYTES]; /* "spr_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    int64_t version;
    uint8_t domain[16];
    int64_t pin_until_s; /* the prompt expires then; 0 = it stays until it is deleted */
    int64_t created_at_s;
    int64_t revision;
    uint32_t tenants; /* the number of tenants with a grant */
    uint32_t groups;
};

/* The grantee, a tenant or a group; the other text is "". */
struct tenant_prompt_grant {
    char tenant_id[LIMIT_ID_BYTES];
    char group[LIMIT_NAME_BYTES];
};

enum {
    TENANT_PROMPT_NAME = 1u << 0,
    TENANT_PROMPT_PIN_UNTIL = 1u << 1,
    TENANT_PROMPT_TENANTS = 1u << 2, /* the tenants in `grants` replace the old ones */
    TENANT_PROMPT_GROUPS = 1u << 3,  /* the groups in `grants` replace the old ones */
};
struct tenant_prompt_fields {
    unsigned given; /* TENANT_PROMPT_… bits */
    struct slice name;
    int64_t pin_until_s;
    const struct tenant_prompt_grant *grants;
    size_t grant_count;
    struct slice content; /* of a new prompt: a JSON object whose form the caller has checked */
};
