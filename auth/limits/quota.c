#include "auth/limits/quota.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "auth/credential/auth_index.h"
#include "auth/ledger/ledger_minute.h"
#include "auth/limits/quota_limits_key.h"
#include "config/base/log.h"
#include "config/base/mem.h"

enum { DAY_S = 86400, DENY_END_BYTES = QUOTA_DURATION_BYTES + 40 };

struct quota_entry {
    struct quota_account account;  /* first: a lease's account is an entry */
    char name[2 * LIMIT_ID_BYTES]; /* the id of a tenant, or "tenant/key" for a key */
    uint64_t generation;           /* of the limits in the account */
    /* the day of the account's sums; below 0: no sums; the loop sets it */
    _Atomic int64_t day;
    struct quota_entry *next;
};

struct quota {
    struct tenants *tenants;
    struct ledger_usage *usage;
    const struct clock *clock;
    struct auth_index by_name;
    struct quota_entry *entries;
};

static void open_recall(void *context, const struct ledger_minute_row *row);

enum status quota_open(struct quota **out, const struct quota_options *options)
{
    struct quota *quota = mem_zalloc(1, sizeof *quota);
    *out = quota;
    if (quota == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for quotas");
    quota->tenants = options->tenants;
    quota->usage = options->usage;
    quota->clock = options->clock != NULL ? options->clock : clock_system();
    if (options->ledger_path != NULL &&
        ledger_minute_read(options->ledger_path, clock_wall_us(quota->clock), quota, open_recall) !=
            STATUS_OK)
        log_failure(LOG_WARN, "quota_minute_unread");
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
    auth_index_deinit(&quota->by_name);
    mem_free(quota);
}

/* Returns the monotonic time. */
static int64_t quota_now_us(const struct quota *quota)
{
    return clock_mono_us(quota->clock);
}

static int64_t today(const struct quota *quota)
{
    return clock_wall_us(quota->clock) / 1000000 / DAY_S;
}

/* --- accounts --- */

static bool is_key(const char *key_id)
{
    return key_id != NULL && key_id[0] != '\0';
}

static struct slice entry_name(const char *tenant_id, const char *key_id,
                               char out[2 * LIMIT_ID_BYTES])
{
    size_t length = strnlen(tenant_id, LIMIT_ID_BYTES - 1);
    if (!is_key(key_id))
        return (struct slice){tenant_id, length};
    size_t more = strnlen(key_id, LIMIT_ID_BYTES - 1);
    memcpy(out, tenant_id, length);
    out[length] = '/';
    memcpy(out + length + 1, key_id, more);
    return (struct slice){out, length + 1 + more};
}

/* Reads the limits of a tenant or a key. False for a key without limits of its own. */
static bool limits_resolve(const struct quota *quota, const char *tenant_id, const char *key_id,
                           struct quota_limits_set *out)
{
    *out = (struct quota_limits_set){0};
    if (is_key(key_id))
        return quota_limits_key_resolve(quota->tenants, tenant_id, key_id, out);
    quota_limits_resolve(quota->tenants, slice_of(tenant_id), out);
    return true;
}

static enum status entry_make(struct quota *quota, struct slice name, uint64_t generation,
                              const struct quota_limits_set *set, struct quota_entry **out)
{
    struct quota_entry *entry = NULL;
    if (auth_index_reserve(&quota->by_name, quota->by_name.count + 1) == STATUS_OK)
        entry = mem_zalloc(1, sizeof *entry);
    if (entry == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for limits");
    memcpy(entry->name, name.bytes, name.length);
    entry->generation = generation;
    entry->day = -1;
    quota_lease_init(&entry->account, set, quota_now_us(quota));
    entry->next = quota->entries;
    quota->entries = entry;
    auth_index_put(&quota->by_name, slice_of(entry->name), entry);
    *out = entry;
    return STATUS_OK;
}

/* Finds the account of the tenant, or of its key, and brings its limits up to date. NULL for a key
 * without limits. The generation is read before the limits, so that a change between the two reads
 * is seen by the next call. */
static enum status entry_find(struct quota *quota, const char *tenant_id, const char *key_id,
                              struct quota_entry **out)
{
    char bytes[2 * LIMIT_ID_BYTES];
    struct quota_limits_set set;
    struct slice name = entry_name(tenant_id, key_id, bytes);
    struct quota_entry *entry = auth_index_get(&quota->by_name, name);
    uint64_t generation = quota_limits_generation(quota->tenants);
    *out = entry;
    if (entry != NULL && entry->generation == generation)
        return STATUS_OK;
    if (!limits_resolve(quota, tenant_id, key_id, &set))
        return STATUS_OK;
    if (entry == NULL)
        return entry_make(quota, name, generation, &set, out);
    quota_lease_set(&entry->account, &set, quota_now_us(quota));
    entry->generation = generation;
    return STATUS_OK;
}

/* Finds the same account; NULL also without memory. */
static struct quota_entry *entry_of(struct quota *quota, const char *tenant_id, const char *key_id)
{
    struct quota_entry *entry = NULL;
    return entry_find(quota, tenant_id, key_id, &entry) == STATUS_OK ? entry : NULL;
}

/* --- sums --- */

static bool has_budget(const struct quota_account *account)
{
    for (int i = 0; i < QUOTA_LIMITS; i++)
        if (account->set.values[i].limit != 0 && quota_limits_is_budget((enum quota_limit)i))
            return true;
    return false;
}

static bool entry_wants_sums(const struct quota *quota, const struct quota_entry *entry)
{
    return entry != NULL && has_budget(&entry->account) && entry->day != today(quota);
}

/* Finds the tenant's entry, and the key's if the key has limits. */
static void entries_of(struct quota *quota, const char *tenant_id, const char *key_id,
                       struct quota_entry *out[QUOTA_SCOPES])
{
    out[QUOTA_TENANT] = entry_of(quota, tenant_id, NULL);
    out[QUOTA_KEY] = is_key(key_id) ? entry_of(quota, tenant_id, key_id) : NULL;
}

bool quota_wants_sums(struct quota *quota, const char *tenant_id, const char *key_id)
{
    struct quota_entry *entries[QUOTA_SCOPES];
    entries_of(quota, tenant_id, key_id, entries);
    return entry_wants_sums(quota, entries[QUOTA_TENANT]) ||
           entry_wants_sums(quota, entries[QUOTA_KEY]);
}

static int64_t month_begin(int64_t day)
{
    time_t seconds = (time_t)(day * DAY_S);
    struct tm date;
    gmtime_r(&seconds, &date);
    return day - date.tm_mday + 1;
}

void quota_sums_begin(struct quota *quota, const char *tenant_id, const char *key_id,
                      struct quota_sums *sums)
{
    struct quota_entry *entries[QUOTA_SCOPES];
    entries_of(quota, tenant_id, key_id, entries);
    *sums = (struct quota_sums){.usage = quota->usage, .day = today(quota)};
    sums->month_day = month_begin(sums->day);
    snprintf(sums->tenant_id, sizeof sums->tenant_id, "%s", tenant_id);
    snprintf(sums->key_id, sizeof sums->key_id, "%s", is_key(key_id) ? key_id : "");
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        struct quota_sums_part *part = &sums->parts[scope];
        part->is_wanted = entry_wants_sums(quota, entries[scope]);
        part->known = entries[scope] != NULL ? &entries[scope]->day : NULL;
        if (part->is_wanted)
            memcpy(part->counted, entries[scope]->account.counted, sizeof part->counted);
    }
}

/* A query of ledger_usage whose caller waits for the answer. */
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
    question->task.is_first = true;
    TRY(ledger_usage_ask(usage, &question->task));
    pthread_mutex_lock(&question->lock);
    while (!question->is_told)
        pthread_cond_wait(&question->told, &question->lock);
    pthread_mutex_unlock(&question->lock);
    if (question->task.note.status != STATUS_OK)
        status_note_set(&question->task.note);
    return question->task.note.status;
}

static void use_add(struct quota_use *use, const struct ledger_usage_row *row)
{
    use->requests += row->requests;
    use->prompt += row->prompt_tokens;
    use->cached += row->cached_tokens;
    use->output += row->completion_tokens;
    use->cost_nano = quota_lease_sum(use->cost_nano, row->cost_nano);
}

/* Reads the sums of the days from `first` to `last`. When they are too much for one query of
 * ledger_usage, reads them in halves. */
static enum status read_days(const struct quota_sums *sums, struct sums_question *question,
                             struct quota_sums_part *part, int64_t first, int64_t last)
{
    question->task.query.start_s = first * DAY_S;
    question->task.query.buckets = (uint32_t)(last - first + 1);
    enum status status = question_ask(sums->usage, question);
    if (status == STATUS_OUT_OF_RANGE && first < last) {
        int64_t middle = first + (last - first) / 2;
        TRY(read_days(sums, question, part, first, middle));
        return read_days(sums, question, part, middle + 1, last);
    }
    TRY(status);
    const struct ledger_usage_page *page = &question->task.page;
    for (size_t at = 0; at < page->count; at++) {
        const struct ledger_usage_row *row = &page->rows[at];
        use_add(&part->month, row);
        if (row->start_s == sums->day * DAY_S)
            use_add(&part->day, row);
    }
    ledger_usage_page_deinit(&question->task.page);
    return STATUS_OK;
}

enum status quota_sums_read(struct quota_sums *sums)
{
    struct sums_question question = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                     .told = PTHREAD_COND_INITIALIZER};
    struct ledger_usage_query *query = &question.task.query;
    enum status status = STATUS_OK;
    query->width_s = DAY_S;
    memcpy(query->tenant_id, sums->tenant_id, sizeof query->tenant_id);
    for (int scope = 0; scope < QUOTA_SCOPES && status == STATUS_OK; scope++) {
        if (scope == QUOTA_KEY)
            memcpy(query->key_id, sums->key_id, sizeof query->key_id);
        struct quota_sums_part *part = &sums->parts[scope];
        if (part->is_wanted && atomic_load(part->known) == sums->day)
            part->is_wanted = false; /* another request of it has read them meanwhile */
        if (part->is_wanted)
            status = read_days(sums, &question, part, sums->month_day, sums->day);
    }
    pthread_mutex_destroy(&question.lock);
    pthread_cond_destroy(&question.told);
    return status;
}

void quota_sums_end(struct quota *quota, const struct quota_sums *sums)
{
    struct quota_entry *entries[QUOTA_SCOPES];
    entries_of(quota, sums->tenant_id, sums->key_id, entries);
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        const struct quota_sums_part *part = &sums->parts[scope];
        struct quota_entry *entry = entries[scope];
        if (!part->is_wanted || entry == NULL || entry->day == sums->day)
            continue; /* another request of it has read them meanwhile */
        for (int i = 0; i < QUOTA_LIMITS; i++) {
            enum quota_limit limit = (enum quota_limit)i;
            if (!quota_limits_is_budget(limit))
                continue;
            int64_t meanwhile = entry->account.counted[i] - part->counted[i];
            bool is_day = quota_limits_form(limit)->window == QUOTA_DAY;
            entry->account.counted[i] =
                quota_lease_sum(meanwhile, quota_lease_amount(&entry->account.set, limit,
                                                              is_day ? &part->day : &part->month));
            entry->account.is_past[i] = false;
        }
        entry->day = sums->day;
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

/* Returns the time until a budget's next day or month begins. */
static int64_t budget_reset_us(const struct quota *quota, enum quota_limit limit)
{
    int64_t now_us = clock_wall_us(quota->clock);
    int64_t day = now_us / 1000000 / DAY_S;
    int64_t next = day + 1;
    if (quota_limits_form(limit)->reset == QUOTA_MONTH_END)
        next = month_begin(month_begin(day) + 31);
    return next * DAY_S * 1000000 - now_us;
}

/* Writes what the client can do. */
static void deny_reset(const struct quota_limits_form *form, const struct quota_denial *denial,
                       char end[DENY_END_BYTES])
{
    char reset[QUOTA_DURATION_BYTES];
    quota_duration(denial->reset_us, reset);
    if (form->reset == QUOTA_MIDNIGHT || form->reset == QUOTA_MONTH_END)
        snprintf(end, DENY_END_BYTES, "It is reset in %s.", reset);
    else if (denial->is_never)
        snprintf(end, DENY_END_BYTES, "The request is too large for it.");
    else if (form->reset == QUOTA_OTHERS_END)
        snprintf(end, DENY_END_BYTES, "Wait until other requests have ended.");
    else
        snprintf(end, DENY_END_BYTES, "Please try again in %s.", reset);
}

static enum status deny(const struct quota *quota, const struct quota_demand *demand,
                        struct quota_denial *denial)
{
    const struct quota_limits_form *form = quota_limits_form(denial->limit);
    char end[DENY_END_BYTES];
    if (quota_limits_is_budget(denial->limit))
        denial->reset_us = budget_reset_us(quota, denial->limit);
    deny_reset(form, denial, end);
    FAIL_PARAM(form->refusal, form->member,
               "%s reached for %s %s on %s: limit %lld, used %lld, requested %lld. %s",
               quota_limits_is_budget(denial->limit) ? "Quota" : "Rate limit",
               denial->scope == QUOTA_KEY ? "key" : "tenant",
               denial->scope == QUOTA_KEY ? demand->key_id : demand->tenant_id, form->member,
               (long long)denial->most, (long long)denial->used, (long long)denial->requested, end);
}

/* Keeps the refusal with the longest wait. */
static void denial_take(struct quota_denial *out, const struct quota_denial *found,
                        enum quota_scope scope, bool is_first)
{
    uint32_t shadow = out->shadow | found->shadow;
    uint32_t lowered = out->lowered | found->lowered;
    if (is_first || quota_lease_is_longer(found, out)) {
        *out = *found;
        out->scope = scope;
    }
    out->shadow = shadow;
    out->lowered = lowered;
}

/* Marks sums of an earlier day or month as past. Midnight may pass while no new request makes the
 * sums be read again. Old sums must not end an answer then. When the clock is set back, they count
 * again. */
static void look_for_midnight(const struct quota *quota, struct quota_account *account)
{
    if (account == NULL || !has_budget(account))
        return;
    int64_t day = today(quota);
    int64_t known = ((const struct quota_entry *)account)->day;
    bool is_past = known >= 0 && known < day;
    bool is_past_month = is_past && month_begin(day) != month_begin(known);
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        enum quota_window window = quota_limits_form((enum quota_limit)i)->window;
        account->is_past[i] = window == QUOTA_DAY     ? is_past
                              : window == QUOTA_MONTH ? is_past_month
                                                      : false;
    }
}

static bool has_cost(const struct quota_entry *entry)
{
    for (int i = 0; entry != NULL && i < QUOTA_LIMITS; i++)
        if (entry->account.set.values[i].limit != 0 &&
            quota_limits_form((enum quota_limit)i)->counts == QUOTA_COUNTS_COST)
            return true;
    return false;
}

/* Returns the prices of a request, or zeros when no limit counts costs. */
static struct price_tokens demand_price(const struct quota *quota,
                                        const struct quota_demand *demand,
                                        struct quota_entry *const entries[QUOTA_SCOPES])
{
    bool is_priced = demand->model != NULL && !demand->is_text &&
                     (has_cost(entries[QUOTA_TENANT]) || has_cost(entries[QUOTA_KEY]));
    if (!is_priced)
        return (struct price_tokens){0};
    return price_of_tokens(quota->tenants, demand->tenant_id, demand->model, demand->service_class,
                           clock_wall_us(quota->clock) / 1000000);
}

enum status quota_reserve(struct quota *quota, const struct quota_demand *demand,
                          struct quota_leases *leases, struct quota_denial *denial)
{
    struct quota_entry *entries[QUOTA_SCOPES] = {NULL};
    int64_t now_us = quota_now_us(quota);
    struct quota_ask ask = {
        .body_bytes = demand->body_bytes,
        .is_text = demand->is_text,
        .has_no_output = demand->has_no_output,
        .output_most = demand->output_most,
        .deadline_us =
            now_us + (demand->deadline_ms + INT64_C(1) * LIMIT_QUOTA_LEASE_GRACE_MS) * 1000,
        .now_us = now_us};
    bool is_allowed = true;
    *leases = (struct quota_leases){0};
    *denial = (struct quota_denial){0};
    TRY(entry_find(quota, demand->tenant_id, NULL, &entries[QUOTA_TENANT]));
    if (is_key(demand->key_id))
        TRY(entry_find(quota, demand->tenant_id, demand->key_id, &entries[QUOTA_KEY]));
    ask.price = demand_price(quota, demand, entries);
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        struct quota_denial found;
        if (entries[scope] == NULL)
            continue;
        look_for_midnight(quota, &entries[scope]->account);
        if (quota_lease_reserve(&entries[scope]->account, &ask, &leases->of[scope], &found)) {
            denial->shadow |= found.shadow;
            denial->lowered |= found.lowered;
            continue;
        }
        denial_take(denial, &found, (enum quota_scope)scope, is_allowed);
        is_allowed = false;
    }
    if (is_allowed)
        return STATUS_OK;
    quota_settle(quota, leases, 0, 0, 0); /* gives back what the other account has reserved */
    return deny(quota, demand, denial);
}

void quota_prompt(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached)
{
    for (int scope = 0; scope < QUOTA_SCOPES; scope++)
        quota_lease_prompt(&leases->of[scope], prompt, cached, quota_now_us(quota));
}

bool quota_extend(struct quota *quota, struct quota_leases *leases, int64_t output,
                  struct quota_denial *denial)
{
    int64_t now_us = quota_now_us(quota);
    bool is_allowed = true;
    *denial = (struct quota_denial){0};
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        struct quota_denial found;
        look_for_midnight(quota, leases->of[scope].account);
        if (quota_lease_extend(&leases->of[scope], output, now_us, &found)) {
            denial->shadow |= found.shadow;
            denial->lowered |= found.lowered;
            continue;
        }
        denial_take(denial, &found, (enum quota_scope)scope, is_allowed);
        is_allowed = false;
    }
    return is_allowed;
}

void quota_worked(struct quota_leases *leases)
{
    for (int scope = 0; scope < QUOTA_SCOPES; scope++)
        quota_lease_worked(&leases->of[scope]);
}

void quota_settle(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached,
                  int64_t output)
{
    for (int scope = 0; scope < QUOTA_SCOPES; scope++)
        quota_lease_settle(&leases->of[scope], prompt, cached, output, quota_now_us(quota));
}

void quota_count(struct quota *quota, const char *tenant_id, const char *key_id,
                 const struct quota_use *used)
{
    char bytes[2 * LIMIT_ID_BYTES];
    const char *const keys[QUOTA_SCOPES] = {[QUOTA_KEY] = key_id};
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        if (scope == QUOTA_KEY && !is_key(key_id))
            continue;
        struct quota_entry *entry =
            auth_index_get(&quota->by_name, entry_name(tenant_id, keys[scope], bytes));
        if (entry != NULL)
            quota_lease_count(&entry->account, used);
    }
}

static void recall(struct quota *quota, const char *tenant_id, const char *key_id, int64_t prompt,
                   int64_t cached, int64_t output)
{
    struct quota_entry *entries[QUOTA_SCOPES];
    entries_of(quota, tenant_id, key_id, entries);
    for (int scope = 0; scope < QUOTA_SCOPES; scope++) {
        if (entries[scope] != NULL)
            quota_lease_recall(&entries[scope]->account, prompt, cached, output,
                               quota_now_us(quota));
    }
}

/* The row of a request that the engine never began has no tokens and costs nothing. */
void quota_recall(struct quota *quota, const char *tenant_id, const char *key_id, int64_t prompt,
                  int64_t cached, int64_t output)
{
    if (prompt != 0)
        recall(quota, tenant_id, key_id, prompt, cached, output);
}

static void open_recall(void *context, const struct ledger_minute_row *row)
{
    if (row->prompt_tokens != 0 || row->is_text)
        recall(context, row->tenant_id, row->key_id, row->prompt_tokens, row->cached_tokens,
               row->completion_tokens);
}

struct quota_standing quota_standing(struct quota *quota, const char *tenant_id, const char *key_id,
                                     enum quota_limit limit)
{
    struct quota_entry *entry = entry_of(quota, tenant_id, key_id);
    if (entry == NULL)
        return (struct quota_standing){0};
    struct quota_standing standing =
        quota_lease_standing(&entry->account, limit, quota_now_us(quota));
    if (quota_limits_is_budget(limit)) {
        standing.reset_us = standing.limit != 0 ? budget_reset_us(quota, limit) : 0;
        standing.is_known = entry->day == today(quota);
    }
    return standing;
}
