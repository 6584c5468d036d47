#include "auth/ledger/ledger_retention.h"

#include "config/base/status.h"

static const int64_t US = 1000000;

void ledger_retention_init(struct ledger_retention *retention, int64_t keep_days)
{
    ASSERT(keep_days >= 1);
    *retention = (struct ledger_retention){.keep_us = keep_days * 86400 * US};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Begins at the oldest row, because there is nothing before it to delete. */
static void step_begin(struct ledger_retention *retention, int64_t wanted_us, int64_t front_us)
{
    retention->cutoff_us = least(wanted_us, front_us);
    retention->is_begun = true;
}

static bool step_is_far(int64_t offset_us, int64_t believed_us)
{
    int64_t apart_us = offset_us - believed_us;
    return apart_us > LEDGER_RETENTION_STEP_S * US || apart_us < -LEDGER_RETENTION_STEP_S * US;
}

int64_t ledger_retention_step(struct ledger_retention *retention, int64_t wall_us, int64_t mono_us,
                              int64_t front_us, bool *has_stepped)
{
    int64_t wanted_us = wall_us - retention->keep_us;
    int64_t offset_us = wall_us - mono_us;
    int64_t passed_us = mono_us - retention->mono_us;
    *has_stepped = false;
    retention->mono_us = mono_us;
    if (!retention->is_begun) {
        retention->offset_us = offset_us;
        step_begin(retention, wanted_us, front_us);
        return retention->cutoff_us;
    }
    bool is_far = step_is_far(offset_us, retention->offset_us);
    bool was_doubted = retention->doubt_until_us != 0;
    if (is_far && !was_doubted) {
        *has_stepped = true;
        retention->doubt_until_us = mono_us + LEDGER_RETENTION_DOUBT_S * US;
    }
    if (is_far && mono_us < retention->doubt_until_us)
        return least(retention->cutoff_us, wanted_us);
    retention->offset_us = offset_us;
    retention->doubt_until_us = 0;
    if (was_doubted)
        step_begin(retention, wanted_us, front_us);
    else
        retention->cutoff_us =
            least(wanted_us, retention->cutoff_us + LEDGER_RETENTION_PACE * passed_us);
    return retention->cutoff_us;
}
