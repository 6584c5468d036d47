/* tenant_prompt_types: what a published prompt and a grant are.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: looking for prompts and changing them (tenant_prompt).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct tenant_prompt {
    char id[LIMIT_ID_BYTES]; /* "spr_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    int64_t version;
    uint8_t domain[16];
    int64_t pin_until_s; /* from then on it is expired; 0 = until it is unpublished */
    int64_t created_at_s;
    int64_t revision;
    uint32_t tenants; /* granted */
    uint32_t groups;
};

/* To whom; one of the two is "". */
struct tenant_prompt_grant {
    char tenant_id[LIMIT_ID_BYTES];
    char group[LIMIT_NAME_BYTES];
};

enum {
    TENANT_PROMPT_NAME = 1u << 0,
    TENANT_PROMPT_PIN_UNTIL = 1u << 1,
    TENANT_PROMPT_TENANTS = 1u << 2, /* the tenants among `grants` replace those there were */
    TENANT_PROMPT_GROUPS = 1u << 3,  /* … the groups */
};
struct tenant_prompt_fields {
    unsigned given; /* TENANT_PROMPT_… bits */
    struct slice name;
    int64_t pin_until_s;
    const struct tenant_prompt_grant *grants;
    size_t grant_count;
    struct slice content; /* a new prompt's: a JSON object whose form the caller has checked */
};
