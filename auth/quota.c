#include "auth/quota.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "auth/auth_index.h"
#include "config/base/mem.h"

enum { DAY_S = 86400 };
static const int SUMMED[2] = {QUOTA_TOKENS_PER_DAY, QUOTA_TOKENS_PER_MONTH};

struct quota_entry {
    char tenant_id[LIMIT_ID_BYTES];
    uint64_t generation; /* of the limits in the account */
    int64_t day;         /* the sums are of; below 0: of none */
    struct quota_account account;
    struct quota_entry *next;
};

struct quota {
    struct tenants *tenants;
    struct ledger_usage *usage;
    const struct clock *clock;
    struct auth_index by_tenant;
    struct quota_entry *entries;
};

enum status quota_open(struct quota **out, const struct quota_options *options)
{
    struct quota *quota = mem_zalloc(1, sizeof *quota);
    *out = quota;
    if (quota == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for quotas");
    quota->tenants = options->tenants;
    quota->usage = options->usage;
    quota->clock = options->clock != NULL ? options->clock : clock_system();
    return STATUS_OK;
}

void quota_close(struct quota *quota)
{
    if (quota == NULL)
        return;
    while (quota->entries != NULL) {
        struct quota_entry *next = quota->entries->next;
        mem_free(quota->entries);
        quota->entries = next;
    }
    auth_index_deinit(&quota->by_tenant);
    mem_free(quota);
}

int64_t quota_now_us(const struct quota *quota)
{
    return clock_mono_us(quota->clock);
}

static int64_t today(const struct quota *quota)
{
    return clock_wall_us(quota->clock) / 1000000 / DAY_S;
}

/* --- accounts --- */

static struct quota_entry *entry_make(struct quota *quota, const char *tenant_id)
{
    if (auth_index_reserve(&quota->by_tenant, quota->by_tenant.count + 1) != STATUS_OK)
        return NULL;
    struct quota_entry *entry = mem_zalloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    struct quota_limits_set set;
    snprintf(entry->tenant_id, sizeof entry->tenant_id, "%s", tenant_id);
    entry->generation = quota_limits_generation(quota->tenants);
    entry->day = -1;
    quota_limits_resolve(quota->tenants, slice_of(tenant_id), &set);
    quota_lease_init(&entry->account, &set, quota_now_us(quota));
    entry->next = quota->entries;
    quota->entries = entry;
    auth_index_put(&quota->by_tenant, slice_of(entry->tenant_id), entry);
    return entry;
}

/* The tenant's account with the limits of now; NULL without memory. The generation is read before
 * the limits: a change between the two is seen again the next time. */
static struct quota_entry *entry_of(struct quota *quota, const char *tenant_id)
{
    struct quota_entry *entry = auth_index_get(&quota->by_tenant, slice_of(tenant_id));
    uint64_t generation = quota_limits_generation(quota->tenants);
    if (entry == NULL)
        return entry_make(quota, tenant_id);
    if (entry->generation != generation) {
        struct quota_limits_set set;
        quota_limits_resolve(quota->tenants, slice_of(tenant_id), &set);
        quota_lease_set(&entry->account, &set, quota_now_us(quota));
        entry->generation = generation;
    }
    return entry;
}

/* --- sums --- */

static bool has_budget(const struct quota_account *account)
{
    return account->set.values[QUOTA_TOKENS_PER_DAY].limit != 0 ||
           account->set.values[QUOTA_TOKENS_PER_MONTH].limit != 0;
}

bool quota_wants_sums(struct quota *quota, const char *tenant_id)
{
    const struct quota_entry *entry = entry_of(quota, tenant_id);
    return entry != NULL && entry->day != today(quota) && has_budget(&entry->account);
}

static int64_t month_begin(int64_t day)
{
    time_t seconds = (time_t)(day * DAY_S);
    struct tm date;
    gmtime_r(&seconds, &date);
    return day - date.tm_mday + 1;
}

void quota_sums_begin(struct quota *quota, const char *tenant_id, struct quota_sums *sums)
{
    const struct quota_entry *entry = entry_of(quota, tenant_id);
    *sums = (struct quota_sums){.usage = quota->usage, .day = today(quota)};
    sums->month_day = month_begin(sums->day);
    snprintf(sums->tenant_id, sizeof sums->tenant_id, "%s", tenant_id);
    for (int i = 0; i < 2 && entry != NULL; i++)
        sums->counted[i] = entry->account.counted[SUMMED[i]];
}

/* A question whose answer is waited for. */
struct sums_question {
    struct ledger_usage_task task; /* first: the task is the question */
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_told;
};

static void question_done(struct ledger_usage_task *task)
{
    struct sums_question *question = (struct sums_question *)task;
    pthread_mutex_lock(&question->lock);
    question->is_told = true;
    pthread_cond_signal(&question->told);
    pthread_mutex_unlock(&question->lock);
}

static enum status question_ask(struct ledger_usage *usage, struct sums_question *question)
{
    question->is_told = false;
    question->task.done = question_done;
    TRY(ledger_usage_ask(usage, &question->task));
    pthread_mutex_lock(&question->lock);
    while (!question->is_told)
        pthread_cond_wait(&question->told, &question->lock);
    pthread_mutex_unlock(&question->lock);
    if (question->task.note.status != STATUS_OK)
        status_note_set(&question->task.note);
    return question->task.note.status;
}

/* Day by day: a whole month in one question could be too much for ledger_usage. */
enum status quota_sums_read(struct quota_sums *sums)
{
    struct sums_question question = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                     .told = PTHREAD_COND_INITIALIZER};
    struct ledger_usage_query *query = &question.task.query;
    enum status status = STATUS_OK;
    query->width_s = DAY_S;
    query->buckets = 1;
    memcpy(query->tenant_id, sums->tenant_id, sizeof query->tenant_id);
    for (int64_t day = sums->month_day; day <= sums->day && status == STATUS_OK; day++) {
        query->start_s = day * DAY_S;
        status = question_ask(sums->usage, &question);
        const struct ledger_usage_page *page = &question.task.page;
        for (int i = day == sums->day ? 0 : 1; i < 2 && status == STATUS_OK && page->count > 0;
             i++) {
            sums->prompt[i] += page->rows[0].prompt_tokens;
            sums->cached[i] += page->rows[0].cached_tokens;
            sums->output[i] += page->rows[0].completion_tokens;
        }
        if (status == STATUS_OK)
            ledger_usage_page_deinit(&question.task.page);
    }
    pthread_mutex_destroy(&question.lock);
    pthread_cond_destroy(&question.told);
    return status;
}

void quota_sums_end(struct quota *quota, const struct quota_sums *sums)
{
    struct quota_entry *entry = entry_of(quota, sums->tenant_id);
    if (entry == NULL || entry->day == sums->day) /* another request has read them, too */
        return;
    entry->day = sums->day;
    for (int i = 0; i < 2; i++) {
        int64_t *counted = &entry->account.counted[SUMMED[i]];
        *counted += quota_lease_input(&entry->account.set, sums->prompt[i], sums->cached[i]) +
                    sums->output[i] - sums->counted[i];
    }
}

/* --- requests --- */

void quota_duration(int64_t us, char out[QUOTA_DURATION_BYTES])
{
    int64_t ms = us > 0 ? (us + 999) / 1000 : 0;
    int64_t s = (ms + 999) / 1000;
    if (ms == 0)
        snprintf(out, QUOTA_DURATION_BYTES, "0s");
    else if (ms < 1000)
        snprintf(out, QUOTA_DURATION_BYTES, "%dms", (int)ms);
    else if (ms < 60000 && ms % 1000 != 0)
        snprintf(out, QUOTA_DURATION_BYTES, "%d.%03ds", (int)(ms / 1000), (int)(ms % 1000));
    else if (s < 60)
        snprintf(out, QUOTA_DURATION_BYTES, "%ds", (int)s);
    else if (s < 3600)
        snprintf(out, QUOTA_DURATION_BYTES, "%dm%ds", (int)(s / 60), (int)(s % 60));
    else
        snprintf(out, QUOTA_DURATION_BYTES, "%lldh%dm%ds", (long long)(s / 3600),
                 (int)(s / 60 % 60), (int)(s % 60));
}

/* To the beginning of the next day or month. */
static int64_t budget_reset_us(const struct quota *quota, enum quota_limit limit)
{
    int64_t now_us = clock_wall_us(quota->clock);
    int64_t day = now_us / 1000000 / DAY_S;
    int64_t next = day + 1;
    if (limit == QUOTA_TOKENS_PER_MONTH)
        next = month_begin(month_begin(day) + 31);
    return next * DAY_S * 1000000 - now_us;
}

static enum status deny(const struct quota *quota, const char *tenant_id,
                        struct quota_denial *denial)
{
    const struct quota_limits_form *form = quota_limits_form(denial->limit);
    char reset[QUOTA_DURATION_BYTES];
    char end[QUOTA_DURATION_BYTES + 40];
    enum status status = STATUS_RATE_TOKENS;
    if (denial->limit == QUOTA_REQUESTS_PER_MINUTE || denial->limit == QUOTA_CONCURRENT_REQUESTS)
        status = STATUS_RATE_REQUESTS;
    if (form->window == QUOTA_DAY || form->window == QUOTA_MONTH) {
        denial->reset_us = budget_reset_us(quota, denial->limit);
        status = STATUS_QUOTA;
    }
    quota_duration(denial->reset_us, reset);
    if (status == STATUS_QUOTA)
        snprintf(end, sizeof end, "It is reset in %s.", reset);
    else if (denial->is_never)
        snprintf(end, sizeof end, "The request is too large for it.");
    else if (form->window == QUOTA_NOW)
        snprintf(end, sizeof end, "Wait until other requests have ended.");
    else
        snprintf(end, sizeof end, "Please try again in %s.", reset);
    FAIL_PARAM(status, form->member,
               "%s reached for tenant %s on %s: limit %lld, used %lld, requested %lld. %s",
               status == STATUS_QUOTA ? "Quota" : "Rate limit", tenant_id, form->member,
               (long long)denial->most, (long long)denial->used, (long long)denial->requested, end);
}

enum status quota_reserve(struct quota *quota, const char *tenant_id, size_t body_bytes,
                          int64_t output_most, uint32_t deadline_ms, struct quota_lease *lease,
                          struct quota_denial *denial)
{
    struct quota_entry *entry = entry_of(quota, tenant_id);
    int64_t now_us = quota_now_us(quota);
    const struct quota_ask ask = {
        .body_bytes = body_bytes,
        .output_most = output_most,
        .deadline_us = now_us + (deadline_ms + INT64_C(1) * LIMIT_QUOTA_LEASE_GRACE_MS) * 1000,
        .now_us = now_us};
    if (entry == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant's limits");
    if (quota_lease_reserve(&entry->account, &ask, lease, denial))
        return STATUS_OK;
    return deny(quota, tenant_id, denial);
}

void quota_count(struct quota *quota, const char *tenant_id, int64_t prompt, int64_t cached,
                 int64_t output)
{
    struct quota_entry *entry = auth_index_get(&quota->by_tenant, slice_of(tenant_id));
    if (entry != NULL)
        quota_lease_count(&entry->account, prompt, cached, output);
}

struct quota_standing quota_standing(struct quota *quota, const char *tenant_id,
                                     enum quota_limit limit)
{
    struct quota_entry *entry = entry_of(quota, tenant_id);
    if (entry == NULL)
        return (struct quota_standing){0};
    struct quota_standing standing =
        quota_lease_standing(&entry->account, limit, quota_now_us(quota));
    if (quota_limits_form(limit)->window == QUOTA_DAY ||
        quota_limits_form(limit)->window == QUOTA_MONTH) {
        standing.reset_us = standing.limit != 0 ? budget_reset_us(quota, limit) : 0;
        standing.is_known = entry->day == today(quota);
    }
    return standing;
}
