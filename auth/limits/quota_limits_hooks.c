#include "auth/limits/quota_limits_hooks.h"

#include "auth/limits/quota_limits.h"
#include "auth/limits/quota_limits_key.h"
#include "auth/limits/quota_limits_load.h"

static bool has_plan(struct tenants *tenants, struct slice id)
{
    struct quota_plan plan;
    return quota_limits_plan_get(tenants, id, &plan) == STATUS_OK;
}

static const char *plan_id(const struct tenant_record *record)
{
    return record->limits != NULL ? record->limits->plan_id : "";
}

const struct tenant_limits quota_limits_hooks = {
    .load = quota_limits_load,
    .free_all = quota_limits_free_all,
    .tenant_class = quota_limits_class,
    .key_class = quota_limits_key_class,
    .has_plan = has_plan,
    .plan_id = plan_id,
    .key_follow = quota_limits_key_follow,
    .key_follow_rows = quota_limits_key_follow_rows,
    .key_follow_end = quota_limits_key_follow_end,
};
