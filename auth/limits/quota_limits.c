#include "auth/limits/quota_limits.h"

#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/principal.h"
#include "auth/limits/quota_limits_load.h"
#include "auth/limits/quota_limits_rows.h"
#include "auth/tenants/tenant_change.h"
#include "config/base/mem.h"

const struct quota_limits_form quota_limits_forms[QUOTA_LIMITS] = {
#define QUOTA_LIMIT(NAME, name, counts, window, most, refusal, header, reset)                      \
    {#name,          QUOTA_COUNTS_##counts, QUOTA_##window, most, STATUS_##refusal,                \
     QUOTA_##header, QUOTA_##reset},
#include "auth/limits/quota_limits.def"
#undef QUOTA_LIMIT
};

/* --- a row that contradicts itself does not compile; the message begins with its name --- */

/* If two rows have the same name, the compiler names it. */
enum {
#define QUOTA_LIMIT(NAME, name, ...) QUOTA_NAME_OF_TWO_LIMITS_##name,
#include "auth/limits/quota_limits.def"
#undef QUOTA_LIMIT
};

#define IS_BUDGET(window) ((window) == QUOTA_DAY || (window) == QUOTA_MONTH)
#define IS_TOKENS(counts)                                                                          \
    ((counts) == QUOTA_COUNTS_INPUT || (counts) == QUOTA_COUNTS_OUTPUT ||                          \
     (counts) == QUOTA_COUNTS_TOKENS)
/* Pages are held and given back, so only NOW counts them. The ledger has no bytes of text, so no
 * budget counts them. A cost is known when a row is in the ledger, so only budgets count it. */
#define WINDOW_FITS(counts, window)                                                                \
    ((counts) == QUOTA_COUNTS_KV_TOKENS    ? (window) == QUOTA_NOW                                 \
     : (counts) == QUOTA_COUNTS_TEXT_BYTES ? (window) == QUOTA_MINUTE                              \
     : (counts) == QUOTA_COUNTS_COST       ? IS_BUDGET(window)                                     \
     : (counts) == QUOTA_COUNTS_REQUESTS   ? true                                                  \
                                           : (window) != QUOTA_NOW)
#define RESET_OF(window)                                                                           \
    ((window) == QUOTA_MINUTE ? QUOTA_REFILL                                                       \
     : (window) == QUOTA_NOW  ? QUOTA_OTHERS_END                                                   \
     : (window) == QUOTA_DAY  ? QUOTA_MIDNIGHT                                                     \
                              : QUOTA_MONTH_END)
#define REFUSAL_OF(counts, window)                                                                 \
    (IS_BUDGET(window)                                         ? STATUS_QUOTA                      \
     : IS_TOKENS(counts) || (counts) == QUOTA_COUNTS_KV_TOKENS ? STATUS_RATE_TOKENS                \
                                                               : STATUS_RATE_REQUESTS)
#define HEADER_FITS(counts, window, header)                                                        \
    ((header) == QUOTA_UNSHOWN ||                                                                  \
     ((window) == QUOTA_MINUTE &&                                                                  \
      ((header) == QUOTA_AS_TOKENS ? IS_TOKENS(counts) : (counts) == QUOTA_COUNTS_REQUESTS)))
#define QUOTA_LIMIT(NAME, name, counts, window, most, refusal, header, reset)                      \
    _Static_assert(WINDOW_FITS(QUOTA_COUNTS_##counts, QUOTA_##window),                             \
                   "limit " #name ": the window " #window " does not fit " #counts);               \
    _Static_assert(QUOTA_##reset == RESET_OF(QUOTA_##window),                                      \
                   "limit " #name ": the reset rule " #reset " contradicts the window " #window);  \
    _Static_assert(STATUS_##refusal == REFUSAL_OF(QUOTA_COUNTS_##counts, QUOTA_##window),          \
                   "limit " #name ": the refusal " #refusal " contradicts " #counts                \
                   " in " #window);                                                                \
    _Static_assert(HEADER_FITS(QUOTA_COUNTS_##counts, QUOTA_##window, QUOTA_##header),             \
                   "limit " #name ": the header " #header " does not show " #counts                \
                   " in " #window);                                                                \
    _Static_assert((most) >= 1 && (most) <= (IS_BUDGET(QUOTA_##window) ? LIMIT_QUOTA_BUDGET        \
                                                                       : LIMIT_QUOTA_RATE),        \
                   "limit " #name ": its greatest value is out of range");
#include "auth/limits/quota_limits.def"
#undef QUOTA_LIMIT

/* --- words --- */

struct quota_plan_record {
    struct quota_plan plan; /* except `tenants` */
    struct quota_plan_record *next;
};

static const char *const on_limit_words[] = {
    [QUOTA_ON_LIMIT_STOP] = "stop", [QUOTA_ON_LIMIT_LOWER_CLASS] = "lower_class"};

const char *quota_limits_on_limit_word(enum quota_on_limit on_limit)
{
    return on_limit_words[on_limit];
}

uint32_t quota_limits_find_on_limit(struct slice word)
{
    for (uint32_t i = QUOTA_ON_LIMIT_STOP; i <= QUOTA_ON_LIMIT_LOWER_CLASS; i++)
        if (slice_is(word, on_limit_words[i]))
            return i;
    return QUOTA_ON_LIMIT_NONE;
}

void quota_limits_append(const struct quota_limits_set *set, bool is_sparse, struct buffer *out)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        const struct quota_limits_value *value = &set->values[i];
        if (value->limit == 0 && is_sparse)
            continue;
        buffer_printf(out, ",\"%s\":", quota_limits_forms[i].member);
        if (value->limit == 0)
            buffer_append_text(out, "null");
        else if (value->is_shadow)
            buffer_printf(out, "{\"limit\":%lld,\"mode\":\"shadow\"}", (long long)value->limit);
        else
            buffer_append_number(out, (uint64_t)value->limit);
    }
    if (set->cached_percent >= 0)
        buffer_printf(out, ",\"cached_input_percent\":%d", set->cached_percent);
    else if (!is_sparse)
        buffer_append_text(out, ",\"cached_input_percent\":null");
    if (set->on_limit != QUOTA_ON_LIMIT_NONE)
        buffer_printf(out, ",\"on_limit\":\"%s\"", quota_limits_on_limit_word(set->on_limit));
    else if (!is_sparse)
        buffer_append_text(out, ",\"on_limit\":null");
}

static void append_class(const char *name, uint8_t class_plus_1, bool is_sparse, struct buffer *out)
{
    if (class_plus_1 != 0)
        buffer_printf(out, ",\"%s\":\"%s\"", name,
                      service_class_name((enum service_class)(class_plus_1 - 1)));
    else if (!is_sparse)
        buffer_printf(out, ",\"%s\":null", name);
}

void quota_limits_append_classes(const struct quota_limits_set *set, bool is_sparse,
                                 struct buffer *out)
{
    append_class("default_class", set->default_class, is_sparse, out);
    append_class("best_class", set->best_class, is_sparse, out);
}

void quota_limits_append_class(const struct quota_limits_set *set, bool is_sparse,
                               struct buffer *out)
{
    if (set->weight != 0)
        buffer_printf(out, ",\"weight\":%u", set->weight);
    else if (!is_sparse)
        buffer_append_text(out, ",\"weight\":null");
    quota_limits_append_classes(set, is_sparse, out);
}

/* --- records; the caller holds `change` or `memory` --- */

static struct quota_plan_record *plan_find(const struct tenants *tenants, struct slice id)
{
    struct quota_plan_record *record = tenants->plans;
    while (record != NULL && !slice_is(id, record->plan.id))
        record = record->next;
    return record;
}

static void plan_append(struct tenants *tenants, struct quota_plan_record *record)
{
    struct quota_plan_record **end = &tenants->plans;
    while (*end != NULL)
        end = &(*end)->next;
    *end = record;
}

/* Copies a plan, with the number of tenants that refer to it. */
static void plan_read(const struct tenants *tenants, const struct quota_plan_record *record,
                      struct quota_plan *out)
{
    *out = record->plan;
    out->tenants = 0;
    for (const struct tenant_record *at = tenants->first; at != NULL; at = at->next)
        out->tenants += at->limits != NULL && at->tenant.state != TENANT_ARCHIVED &&
                        strcmp(at->limits->plan_id, record->plan.id) == 0;
}

static enum status plan_not_found(const char *param)
{
    FAIL_PARAM(STATUS_NOT_FOUND, param, "There is no plan of this id.");
}

enum status quota_limits_check(const struct quota_limits_set *set)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (set->values[i].limit < 0 || set->values[i].limit > quota_limits_forms[i].most)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, quota_limits_forms[i].member,
                       "%s must be from 1 to %lld.", quota_limits_forms[i].member,
                       (long long)quota_limits_forms[i].most);
    }
    if (set->cached_percent > 100)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "cached_input_percent",
                   "cached_input_percent must be from 0 to 100.");
    if (set->weight > LIMIT_WEIGHT)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "weight", "weight must be from 1 to %d.", LIMIT_WEIGHT);
    if (set->default_class != 0 && set->default_class < set->best_class)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "default_class", "default_class %s is above best_class %s.",
                   service_class_name((enum service_class)(set->default_class - 1)),
                   service_class_name((enum service_class)(set->best_class - 1)));
    return STATUS_OK;
}

bool quota_limits_is_same(const struct quota_limits_set *a, const struct quota_limits_set *b)
{
    bool is_same = (a->cached_percent < 0 ? -1 : a->cached_percent) ==
                       (b->cached_percent < 0 ? -1 : b->cached_percent) &&
                   a->on_limit == b->on_limit && a->weight == b->weight &&
                   a->default_class == b->default_class && a->best_class == b->best_class;
    for (int i = 0; i < QUOTA_LIMITS; i++)
        is_same = is_same && a->values[i].limit == b->values[i].limit &&
                  a->values[i].is_shadow == b->values[i].is_shadow;
    return is_same;
}

void quota_limits_changed(struct tenants *tenants)
{
    atomic_fetch_add_explicit(&tenants->limits_generation, 1, memory_order_release);
    pthread_rwlock_unlock(&tenants->memory);
}

/* --- changes of plans --- */

static enum status rows_insert(struct sqlite3 *connection, const void *context)
{
    return quota_limits_rows_insert(connection, context);
}

static enum status rows_update(struct sqlite3 *connection, const void *context)
{
    return quota_limits_rows_update(connection, context);
}

static enum status rows_delete(struct sqlite3 *connection, const void *context)
{
    return quota_limits_rows_delete(connection, ((const struct quota_plan *)context)->id);
}

static enum status plan_commit(struct tenants *tenants, const struct tenant_change *change,
                               const char *type, const struct quota_plan *plan,
                               enum status (*rows)(struct sqlite3 *, const void *))
{
    struct tenant_change_plan commit;
    tenant_change_plan_init(&commit, change, type, plan->id);
    buffer_printf(&commit.detail, "{\"revision\":%lld,\"name\":", (long long)plan->revision);
    buffer_append_json_string(&commit.detail, slice_of(plan->name));
    quota_limits_append(&plan->set, true, &commit.detail);
    quota_limits_append_class(&plan->set, true, &commit.detail);
    buffer_append_char(&commit.detail, '}');
    commit.rows = rows;
    commit.context = plan;
    return tenant_change_commit(tenants, &commit);
}

/* Applies the given fields to `out`. Fails when another plan has the name. */
static enum status plan_apply(const struct tenants *tenants, const struct quota_plan_fields *fields,
                              struct quota_plan *out)
{
    if (fields->name.bytes != NULL) {
        TRY(tenant_change_check_name("name", fields->name));
        tenant_change_copy(out->name, sizeof out->name, fields->name);
    }
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if ((fields->given & 1u << i) != 0)
            out->set.values[i] = fields->set.values[i];
    }
    if (fields->has_percent)
        out->set.cached_percent = fields->set.cached_percent;
    if (fields->has_on_limit)
        out->set.on_limit = fields->set.on_limit;
    if (fields->has_weight)
        out->set.weight = fields->set.weight;
    if (fields->has_default_class)
        out->set.default_class = fields->set.default_class;
    if (fields->has_best_class)
        out->set.best_class = fields->set.best_class;
    for (const struct quota_plan_record *at = tenants->plans; at != NULL; at = at->next) {
        if (strcmp(at->plan.name, out->name) == 0 && strcmp(at->plan.id, out->id) != 0)
            FAIL_PARAM(STATUS_EXISTS, "name", "There is a plan of this name already.");
    }
    return quota_limits_check(&out->set);
}

static enum status create_locked(struct tenants *tenants, const struct tenant_change *change,
                                 const struct quota_plan_fields *fields, struct quota_plan *out)
{
    size_t count = 0;
    for (const struct quota_plan_record *at = tenants->plans; at != NULL; at = at->next)
        count++;
    if (count >= LIMIT_PLANS)
        FAIL(STATUS_CONFLICT, "There are %d plans, which is the limit.", LIMIT_PLANS);
    TRY(plan_apply(tenants, fields, out));
    struct quota_plan_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a plan");
    record->plan = *out;
    enum status status = plan_commit(tenants, change, "plan.created", out, rows_insert);
    if (status != STATUS_OK || change->is_dry_run) {
        mem_free(record);
        return status;
    }
    pthread_rwlock_wrlock(&tenants->memory);
    plan_append(tenants, record);
    quota_limits_changed(tenants);
    return STATUS_OK;
}

enum status quota_limits_plan_create(struct tenants *tenants, const struct tenant_change *change,
                                     const struct quota_plan_fields *fields, struct quota_plan *out)
{
    char random[21];
    if (fields->name.bytes == NULL)
        FAIL_PARAM(STATUS_INVALID, "name", "name is missing.");
    api_key_random(random, sizeof random - 1);
    *out = (struct quota_plan){
        .set.cached_percent = -1, .created_at_s = tenant_directory_now_s(tenants), .revision = 1};
    snprintf(out->id, sizeof out->id, "pln_%s", random);
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(tenants, change, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

static enum status update_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct quota_plan_fields *fields,
                                 struct quota_plan *out)
{
    struct quota_plan_record *record = plan_find(tenants, id);
    if (record == NULL)
        return plan_not_found(NULL);
    plan_read(tenants, record, out);
    TRY(tenant_change_check_revision(change, out->revision));
    TRY(plan_apply(tenants, fields, out));
    if (strcmp(out->name, record->plan.name) == 0 &&
        quota_limits_is_same(&out->set, &record->plan.set))
        return STATUS_OK;
    out->revision++;
    TRY(plan_commit(tenants, change, "plan.updated", out, rows_update));
    if (change->is_dry_run)
        return STATUS_OK;
    pthread_rwlock_wrlock(&tenants->memory);
    record->plan = *out;
    quota_limits_changed(tenants);
    return STATUS_OK;
}

enum status quota_limits_plan_update(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, const struct quota_plan_fields *fields,
                                     struct quota_plan *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = update_locked(tenants, change, id, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* Takes the plan from archived tenants too, because they cannot be changed otherwise. */
static void delete_record(struct tenants *tenants, struct quota_plan_record *record)
{
    struct quota_plan_record **at = &tenants->plans;
    pthread_rwlock_wrlock(&tenants->memory);
    while (*at != record)
        at = &(*at)->next;
    *at = record->next;
    for (struct tenant_record *owner = tenants->first; owner != NULL; owner = owner->next) {
        if (owner->limits != NULL && strcmp(owner->limits->plan_id, record->plan.id) == 0)
            owner->limits->plan_id[0] = '\0';
        if (owner->plan == record)
            owner->plan = NULL;
    }
    quota_limits_changed(tenants);
    mem_free(record);
}

static enum status delete_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct quota_plan *out)
{
    struct quota_plan_record *record = plan_find(tenants, id);
    if (record == NULL)
        return plan_not_found(NULL);
    plan_read(tenants, record, out);
    TRY(tenant_change_check_revision(change, out->revision));
    if (out->tenants > 0)
        FAIL(STATUS_CONFLICT, "The plan is in use by %u tenants.", out->tenants);
    TRY(plan_commit(tenants, change, "plan.deleted", out, rows_delete));
    if (!change->is_dry_run)
        delete_record(tenants, record);
    return STATUS_OK;
}

enum status quota_limits_plan_delete(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, struct quota_plan *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = delete_locked(tenants, change, id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status quota_limits_plan_get(struct tenants *tenants, struct slice id, struct quota_plan *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct quota_plan_record *record = plan_find(tenants, id);
    if (record != NULL)
        plan_read(tenants, record, out);
    pthread_rwlock_unlock(&tenants->memory);
    return record != NULL ? STATUS_OK : plan_not_found(NULL);
}

enum status quota_limits_plan_list(struct tenants *tenants, struct slice after,
                                   struct quota_plan *out, size_t capacity, size_t *count,
                                   bool *has_more)
{
    *count = 0;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct quota_plan_record *record = tenants->plans;
    bool is_known = true;
    if (after.length > 0) {
        record = plan_find(tenants, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        plan_read(tenants, record, &out[(*count)++]);
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no plan of this id.");
    return STATUS_OK;
}

/* --- tenants --- */

static void tenant_read(const struct tenant_record *record, struct quota_tenant *out)
{
    *out = (struct quota_tenant){.set.cached_percent = -1};
    if (record->limits != NULL)
        *out = *record->limits;
    memcpy(out->tenant_id, record->tenant.id, sizeof out->tenant_id);
}

static enum status rows_put(struct sqlite3 *connection, const void *context)
{
    return quota_limits_rows_put(connection, context);
}

static enum status put_commit(struct tenants *tenants, const struct tenant_change *change,
                              const struct quota_tenant *limits)
{
    struct tenant_change_plan commit;
    tenant_change_plan_init(&commit, change, "limits.updated", limits->tenant_id);
    buffer_printf(&commit.detail, "{\"revision\":%lld,\"plan\":\"%s\"", (long long)limits->revision,
                  limits->plan_id);
    quota_limits_append(&limits->set, true, &commit.detail);
    quota_limits_append_class(&limits->set, true, &commit.detail);
    buffer_append_char(&commit.detail, '}');
    commit.rows = rows_put;
    commit.context = limits;
    return tenant_change_commit(tenants, &commit);
}

static enum status put_find(const struct tenant_record *record, const struct tenant_change *change,
                            struct quota_tenant *out)
{
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    if (record->tenant.state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "the tenant is archived");
    tenant_read(record, out);
    return tenant_change_check_revision(change, out->revision);
}

static enum status put_locked(struct tenants *tenants, const struct tenant_change *change,
                              struct slice tenant_id, const struct quota_tenant *wanted,
                              struct quota_tenant *out)
{
    struct tenant_record *record = tenant_directory_find(tenants, tenant_id);
    TRY(put_find(record, change, out));
    if (wanted->plan_id[0] != '\0' && plan_find(tenants, slice_of(wanted->plan_id)) == NULL)
        return plan_not_found("plan");
    if (strcmp(wanted->plan_id, out->plan_id) == 0 && quota_limits_is_same(&wanted->set, &out->set))
        return STATUS_OK;
    memcpy(out->plan_id, wanted->plan_id, sizeof out->plan_id);
    out->set = wanted->set;
    out->revision++;
    struct quota_tenant *own = mem_zalloc(1, sizeof *own);
    if (own == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for limits");
    *own = *out;
    enum status status = put_commit(tenants, change, out);
    if (status == STATUS_OK && !change->is_dry_run) {
        struct quota_tenant *old = record->limits;
        pthread_rwlock_wrlock(&tenants->memory);
        record->limits = own;
        record->plan = plan_find(tenants, slice_of(own->plan_id));
        quota_limits_changed(tenants);
        own = old;
    }
    mem_free(own);
    return status;
}

enum status quota_limits_put(struct tenants *tenants, const struct tenant_change *change,
                             struct slice tenant_id, const struct quota_tenant *wanted,
                             struct quota_tenant *out)
{
    TRY(quota_limits_check(&wanted->set));
    pthread_mutex_lock(&tenants->change);
    enum status status = put_locked(tenants, change, tenant_id, wanted, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status quota_limits_get(struct tenants *tenants, struct slice tenant_id,
                             struct quota_tenant *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenant_directory_find(tenants, tenant_id);
    if (record != NULL)
        tenant_read(record, out);
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    return STATUS_OK;
}

void quota_limits_over(struct quota_limits_set *out, const struct quota_limits_set *set)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if (set->values[i].limit != 0)
            out->values[i] = set->values[i];
    }
    if (set->cached_percent >= 0)
        out->cached_percent = set->cached_percent;
    if (set->on_limit != QUOTA_ON_LIMIT_NONE)
        out->on_limit = set->on_limit;
    if (set->weight != 0)
        out->weight = set->weight;
    if (set->default_class != 0)
        out->default_class = set->default_class;
    if (set->best_class != 0)
        out->best_class = set->best_class;
}

void quota_limits_class(const struct tenant_record *record, struct principal *out)
{
    struct quota_limits_set set = {0};
    if (record->plan != NULL)
        quota_limits_over(&set, &record->plan->plan.set);
    if (record->limits != NULL)
        quota_limits_over(&set, &record->limits->set);
    out->weight = set.weight != 0 ? set.weight : record->tenant.weight;
    out->default_class = set.default_class != 0 ? (enum service_class)(set.default_class - 1)
                                                : record->tenant.default_class;
    out->best_class =
        set.best_class != 0 ? (enum service_class)(set.best_class - 1) : record->tenant.best_class;
    if (out->default_class < out->best_class)
        out->default_class = out->best_class;
    out->has_models = record->tenant.models[0] != '\0';
}

void quota_limits_resolve(struct tenants *tenants, struct slice tenant_id,
                          struct quota_limits_set *out)
{
    *out = (struct quota_limits_set){0};
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenant_directory_find(tenants, tenant_id);
    const struct quota_tenant *own = record != NULL ? record->limits : NULL;
    const struct quota_plan_record *plan =
        own != NULL ? plan_find(tenants, slice_of(own->plan_id)) : NULL;
    if (plan != NULL)
        quota_limits_over(out, &plan->plan.set);
    if (own != NULL)
        quota_limits_over(out, &own->set);
    pthread_rwlock_unlock(&tenants->memory);
}

uint64_t quota_limits_generation(const struct tenants *tenants)
{
    return atomic_load_explicit(&tenants->limits_generation, memory_order_acquire);
}

/* --- start and end --- */

static enum status load_plan(void *context, const struct quota_plan *plan)
{
    struct tenants *tenants = context;
    struct quota_plan_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a plan");
    record->plan = *plan;
    plan_append(tenants, record);
    return STATUS_OK;
}

static enum status load_tenant(void *context, const struct quota_tenant *limits)
{
    struct tenants *tenants = context;
    struct tenant_record *record = tenant_directory_find(tenants, slice_of(limits->tenant_id));
    if (record == NULL)
        FAIL(STATUS_CORRUPT, "limits in the database belong to no tenant");
    record->limits = mem_zalloc(1, sizeof *record->limits);
    if (record->limits == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for limits");
    *record->limits = *limits;
    record->plan = plan_find(tenants, slice_of(limits->plan_id));
    return STATUS_OK;
}

static struct quota_limits_set *load_owner(void *context, const char *owner)
{
    struct tenants *tenants = context;
    struct quota_plan_record *plan = plan_find(tenants, slice_of(owner));
    struct tenant_record *tenant = tenant_directory_find(tenants, slice_of(owner));
    if (plan != NULL)
        return &plan->plan.set;
    if (tenant != NULL && tenant->limits != NULL)
        return &tenant->limits->set;
    return quota_limits_key_owner(tenants, owner);
}

enum status quota_limits_load(struct tenants *tenants, struct sqlite3 *connection)
{
    TRY(quota_limits_rows_load(connection, tenants, load_plan));
    TRY(quota_limits_rows_load_tenants(connection, tenants, load_tenant));
    TRY(quota_limits_rows_load_keys(connection, tenants, quota_limits_key_load));
    return quota_limits_rows_load_values(connection, tenants, load_owner);
}

void quota_limits_free_all(struct tenants *tenants)
{
    while (tenants->plans != NULL) {
        struct quota_plan_record *next = tenants->plans->next;
        mem_free(tenants->plans);
        tenants->plans = next;
    }
    quota_limits_key_free_all(tenants);
}
