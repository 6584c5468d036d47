/* quota_limits_types: the list of limits, and the values that a plan, a tenant or a key has.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing limits (quota_limits, quota_limits_key).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

enum quota_limit {
#define QUOTA_LIMIT(NAME, ...) QUOTA_##NAME,
#include "auth/limits/quota_limits.def"
#undef QUOTA_LIMIT
    QUOTA_LIMITS
};
_Static_assert(QUOTA_LIMITS <= 32, "a limit is a bit of 32");

/* The words in a row of quota_limits.def, which explains them. */
enum quota_counts {
    QUOTA_COUNTS_REQUESTS,
    QUOTA_COUNTS_TEXT_BYTES,
    QUOTA_COUNTS_INPUT,
    QUOTA_COUNTS_OUTPUT,
    QUOTA_COUNTS_TOKENS,
    QUOTA_COUNTS_KV_TOKENS,
    QUOTA_COUNTS_COST,
};
enum quota_window { QUOTA_MINUTE, QUOTA_NOW, QUOTA_DAY, QUOTA_MONTH };
enum quota_header { QUOTA_UNSHOWN, QUOTA_AS_REQUESTS, QUOTA_AS_TOKENS };
enum quota_reset { QUOTA_REFILL, QUOTA_OTHERS_END, QUOTA_MIDNIGHT, QUOTA_MONTH_END };

struct quota_limits_form {
    const char *member; /* "requests_per_minute" */
    enum quota_counts counts;
    enum quota_window window;
    int64_t most;
    enum status refusal;
    enum quota_header header;
    enum quota_reset reset;
};
extern const struct quota_limits_form quota_limits_forms[QUOTA_LIMITS];

static inline const struct quota_limits_form *quota_limits_form(enum quota_limit limit)
{
    ASSERT((unsigned)limit < QUOTA_LIMITS);
    return &quota_limits_forms[limit];
}

/* Whether the limit is a budget of a day or a month, whose use the ledger keeps. */
static inline bool quota_limits_is_budget(enum quota_limit limit)
{
    enum quota_window window = quota_limits_form(limit)->window;
    return window == QUOTA_DAY || window == QUOTA_MONTH;
}

struct quota_limits_value {
    int64_t limit;  /* 0 = none */
    bool is_shadow; /* refusals are only counted and logged */
};

/* What happens when a limit on tokens is met, before a request or in the middle of its answer. STOP
 * refuses the request or ends the answer. LOWER_CLASS lets it go on in the lowest class, without
 * charging the limits that are met. Limits on requests, on costs and on what is under way always
 * refuse. */
enum quota_on_limit { QUOTA_ON_LIMIT_NONE, QUOTA_ON_LIMIT_STOP, QUOTA_ON_LIMIT_LOWER_CLASS };

struct quota_limits_set {
    struct quota_limits_value values[QUOTA_LIMITS];
    /* the percentage of a cached input token that counts; below 0: not given, which means 0 */
    int32_t cached_percent;
    enum quota_on_limit on_limit;
    /* These replace the tenant's own weight and classes. A weight is for plans and tenants only. A
     * default class better than the best class means the best class. */
    uint32_t weight;       /* 0: not given */
    uint8_t default_class; /* enum service_class + 1; 0: not given */
    uint8_t best_class;    /* as default_class */
};

struct quota_plan {
    char id[LIMIT_ID_BYTES]; /* "pln_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    struct quota_limits_set set;
    int64_t created_at_s;
    int64_t revision;
    uint32_t tenants; /* tenants that refer to the plan and are not archived */
};

struct quota_tenant {
    char tenant_id[LIMIT_ID_BYTES];
    char plan_id[LIMIT_ID_BYTES]; /* "" = none */
    struct quota_limits_set set;  /* its own */
    int64_t revision;             /* 0: nothing was ever set */
};

struct quota_key_limits {
    char tenant_id[LIMIT_ID_BYTES];
    /* the principal's key_id: the id of a key, of an issuer or of a certificate */
    char key_id[LIMIT_ID_BYTES];
    struct quota_limits_set set;
    int64_t revision; /* 0: nothing was ever set */
};
