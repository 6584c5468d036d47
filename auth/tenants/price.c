#include "auth/tenants/price.h"

#include <stdio.h>
#include <stdlib.h>

#include "auth/credential/api_key.h"
#include "auth/tenants/price_load.h"
#include "auth/tenants/price_rows.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_limits.h"
#include "config/base/mem.h"

/* All prices, in the order in which they were made. `order` sorts them for look-ups: by plan, model
 * and class, latest first. A change makes a new book with at most LIMIT_PRICES rows. */
struct price_book {
    size_t count;
    uint32_t *order; /* [count], after the rows in the same allocation */
    struct price rows[];
};

/* What a look-up searches for. */
struct wanted {
    const char *plan_id;
    const char *model;
    const char *service_class;
    int64_t at_s;
};

static struct wanted wanted_of(const struct price *price)
{
    return (struct wanted){price->plan_id, price->model, price->service_class,
                           price->effective_at_s};
}

/* Compares plan, model and class, without the time. */
static int price_compare_words(const struct price *price, const struct wanted *wanted)
{
    int order = strcmp(price->plan_id, wanted->plan_id);
    if (order == 0)
        order = strcmp(price->model, wanted->model);
    return order != 0 ? order : strcmp(price->service_class, wanted->service_class);
}

static bool price_is_before(const struct price *price, const struct wanted *wanted)
{
    int order = price_compare_words(price, wanted);
    return order < 0 || (order == 0 && price->effective_at_s > wanted->at_s);
}

static const struct price *book_at(const struct price_book *book, size_t place)
{
    return &book->rows[book->order[place]];
}

static struct price_book *book_make(size_t count)
{
    struct price_book *book =
        mem_zalloc(1, sizeof *book + count * (sizeof book->rows[0] + sizeof book->order[0]));
    if (book == NULL)
        return NULL;
    book->count = count;
    book->order = (uint32_t *)&book->rows[count];
    return book;
}

/* Returns the first place in the order whose price does not come before `wanted`, or `count`. */
static size_t book_place(const struct price_book *book, size_t count, const struct wanted *wanted)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (price_is_before(book_at(book, middle), wanted))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes the order of the book's rows. */
static void book_sort(struct price_book *book)
{
    for (uint32_t i = 0; i < book->count; i++) {
        struct wanted wanted = wanted_of(&book->rows[i]);
        size_t place = book_place(book, i, &wanted);
        memmove(&book->order[place + 1], &book->order[place], (i - place) * sizeof *book->order);
        book->order[place] = i;
    }
}

/* Makes a book of the rows of `from` without the one at `left_out` (count: all rows), followed by
 * `added` (NULL: no row). */
static struct price_book *book_copy(const struct price_book *from, size_t left_out,
                                    const struct price *added)
{
    size_t count = from != NULL ? from->count : 0;
    struct price_book *book = book_make(count - (left_out < count) + (added != NULL));
    if (book == NULL)
        return NULL;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (i != left_out)
            book->rows[at++] = from->rows[i];
    }
    if (added != NULL)
        book->rows[at] = *added;
    book_sort(book);
    return book;
}

static size_t book_count(const struct tenants *tenants)
{
    return tenants->prices != NULL ? tenants->prices->count : 0;
}

/* The caller holds `change` or `memory`. */
static size_t book_find(const struct tenants *tenants, struct slice id)
{
    size_t at = 0;
    while (at < book_count(tenants) && !slice_is(id, tenants->prices->rows[at].id))
        at++;
    return at;
}

static void book_swap(struct tenants *tenants, struct price_book *book)
{
    pthread_rwlock_wrlock(&tenants->memory);
    struct price_book *old = tenants->prices;
    tenants->prices = book;
    atomic_store_explicit(&tenants->has_prices, book->count > 0, memory_order_release);
    pthread_rwlock_unlock(&tenants->memory);
    mem_free(old);
}

/* --- changes --- */

static enum status check_nano(const char *name, int64_t nano)
{
    if (nano < 0 || nano > LIMIT_PRICE_NANO)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, name, "%s must be from 0 to %d.", name, LIMIT_PRICE_NANO);
    return STATUS_OK;
}

static enum status check_words(struct tenants *tenants, const struct price *price)
{
    enum service_class ignored;
    bool is_currency = strlen(price->currency) == PRICE_CURRENCY_BYTES - 1;
    for (const char *at = price->currency; *at != '\0'; at++)
        is_currency = is_currency && *at >= 'a' && *at <= 'z';
    if (!is_currency)
        FAIL_PARAM(STATUS_INVALID, "currency",
                   "currency must be three small letters, as in ISO 4217: usd, eur.");
    if (price->service_class[0] != '\0' &&
        !service_class_from_name(slice_of(price->service_class), &ignored))
        FAIL_PARAM(STATUS_INVALID, "class", "class must be realtime, standard, batch or null.");
    if (price->model[0] != '\0')
        TRY(tenant_change_check_name("model", slice_of(price->model)));
    if (price->plan_id[0] != '\0' && !tenants->limits->has_plan(tenants, slice_of(price->plan_id)))
        FAIL_PARAM(STATUS_NOT_FOUND, "plan", "There is no plan of this id.");
    return STATUS_OK;
}

/* Checks the price against all other prices. */
static enum status check_others(const struct tenants *tenants, const struct price *price)
{
    size_t count = book_count(tenants);
    if (count >= LIMIT_PRICES)
        FAIL(STATUS_CONFLICT, "There are %d prices, which is the limit.", LIMIT_PRICES);
    if (count == 0)
        return STATUS_OK;
    const struct price_book *book = tenants->prices;
    if (strcmp(book->rows[0].currency, price->currency) != 0)
        FAIL_PARAM(STATUS_CONFLICT, "currency",
                   "All prices have one currency, since costs are summed; here it is %s.",
                   book->rows[0].currency);
    struct wanted wanted = wanted_of(price);
    size_t place = book_place(book, count, &wanted);
    if (place < count && price_compare_words(book_at(book, place), &wanted) == 0 &&
        book_at(book, place)->effective_at_s == price->effective_at_s)
        FAIL_PARAM(STATUS_EXISTS, "effective_at",
                   "There is a price for this plan, model and class from this moment on already.");
    return STATUS_OK;
}

static enum status rows_insert(struct sqlite3 *connection, const void *context)
{
    return price_rows_insert(connection, context);
}

static enum status rows_delete(struct sqlite3 *connection, const void *context)
{
    return price_rows_delete(connection, ((const struct price *)context)->id);
}

static enum status commit(struct tenants *tenants, const struct tenant_change *change,
                          const char *type, const struct price *price,
                          enum status (*rows)(struct sqlite3 *, const void *))
{
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, change, type, price->id);
    buffer_printf(&plan.detail, "{\"plan\":\"%s\",\"model\":", price->plan_id);
    buffer_append_json_string(&plan.detail, slice_of(price->model));
    buffer_printf(&plan.detail,
                  ",\"class\":\"%s\",\"currency\":\"%s\",\"input_nano\":%lld,"
                  "\"cached_input_nano\":%lld,\"output_nano\":%lld,\"effective_at\":%lld}",
                  price->service_class, price->currency, (long long)price->input_nano,
                  (long long)price->cached_input_nano, (long long)price->output_nano,
                  (long long)price->effective_at_s);
    plan.rows = rows;
    plan.context = price;
    return tenant_change_commit(tenants, &plan);
}

/* Makes the changed book, commits the change, and then replaces the book. Readers see nothing of it
 * before the commit. */
static enum status change_book(struct tenants *tenants, const struct tenant_change *change,
                               const struct price *price, size_t left_out, bool is_new)
{
    struct price_book *book = book_copy(tenants->prices, left_out, is_new ? price : NULL);
    if (book == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a price");
    enum status status = commit(tenants, change, is_new ? "price.created" : "price.deleted", price,
                                is_new ? rows_insert : rows_delete);
    if (status == STATUS_OK && !change->is_dry_run)
        book_swap(tenants, book);
    else
        mem_free(book);
    return status;
}

enum status price_create(struct tenants *tenants, const struct tenant_change *change,
                         const struct price *wanted, struct price *out)
{
    char random[21];
    TRY(check_nano("input_nano", wanted->input_nano));
    TRY(check_nano("cached_input_nano", wanted->cached_input_nano));
    TRY(check_nano("output_nano", wanted->output_nano));
    *out = *wanted;
    api_key_random(random, sizeof random - 1);
    snprintf(out->id, sizeof out->id, "prc_%s", random);
    pthread_mutex_lock(&tenants->change);
    out->created_at_s = tenant_directory_now_s(tenants);
    if (out->effective_at_s < 0)
        out->effective_at_s = out->created_at_s;
    enum status status = check_words(tenants, out);
    if (status == STATUS_OK)
        status = check_others(tenants, out);
    if (status == STATUS_OK)
        status = change_book(tenants, change, out, SIZE_MAX, true);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

static enum status delete_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct price *out)
{
    size_t at = book_find(tenants, id);
    if (at == book_count(tenants))
        FAIL(STATUS_NOT_FOUND, "There is no price of this id.");
    *out = tenants->prices->rows[at];
    TRY(tenant_change_check_revision(change, 1));
    if (out->effective_at_s <= tenant_directory_now_s(tenants))
        FAIL(STATUS_CONFLICT, "The price is in effect: requests were priced by it. Another one "
                              "from a later moment takes its place.");
    return change_book(tenants, change, out, at, false);
}

enum status price_delete(struct tenants *tenants, const struct tenant_change *change,
                         struct slice id, struct price *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = delete_locked(tenants, change, id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- looking --- */

enum status price_get(struct tenants *tenants, struct slice id, struct price *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    size_t at = book_find(tenants, id);
    bool is_known = at < book_count(tenants);
    if (is_known)
        *out = tenants->prices->rows[at];
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL(STATUS_NOT_FOUND, "There is no price of this id.");
    return STATUS_OK;
}

enum status price_list(struct tenants *tenants, struct slice after, struct price *out,
                       size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    pthread_rwlock_rdlock(&tenants->memory);
    size_t all = book_count(tenants);
    size_t at = after.length > 0 ? book_find(tenants, after) : 0;
    bool is_known = after.length == 0 || at < all;
    at += is_known && after.length > 0;
    for (; at < all && *count < capacity; at++)
        out[(*count)++] = tenants->prices->rows[at];
    *has_more = is_known && at < all;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no price of this id.");
    return STATUS_OK;
}

void price_currency(struct tenants *tenants, char out[PRICE_CURRENCY_BYTES])
{
    pthread_rwlock_rdlock(&tenants->memory);
    snprintf(out, PRICE_CURRENCY_BYTES, "%s",
             book_count(tenants) > 0 ? tenants->prices->rows[0].currency : "");
    pthread_rwlock_unlock(&tenants->memory);
}

/* --- what a row costs --- */

/* Finds the latest price of exactly this plan, model and class at that time; NULL when there is
 * none. */
static const struct price *row_price(const struct price_book *book, const struct wanted *wanted)
{
    /* later prices come before it in the order */
    size_t place = book_place(book, book->count, wanted);
    if (place == book->count || price_compare_words(book_at(book, place), wanted) != 0)
        return NULL;
    return book_at(book, place);
}

/* Looks for the most specific price first, and for the most general one last. */
static const struct price *row_find(const struct price_book *book, const char *plan_id,
                                    const char *model, const char *service_class, int64_t at_s)
{
    const struct price *found = NULL;
    for (unsigned wide = plan_id[0] != '\0' ? 0 : 4; found == NULL && wide < 8; wide++) {
        struct wanted wanted = {(wide & 4) == 0 ? plan_id : "", (wide & 2) == 0 ? model : "",
                                (wide & 1) == 0 ? service_class : "", at_s};
        found = row_price(book, &wanted);
    }
    return found;
}

/* The cost is a sum of two products of 32 and at most 30 bits, which is below INT64_MAX. */
_Static_assert(LIMIT_PRICE_NANO <= INT64_MAX / 2 / UINT32_MAX, "a row's cost fits");

struct price_tokens price_of_tokens(struct tenants *tenants, const char *tenant_id,
                                    const char *model, const char *service_class, int64_t at_s)
{
    struct price_tokens out = {0};
    if (!atomic_load_explicit(&tenants->has_prices, memory_order_acquire))
        return out;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *owner = tenant_directory_find(tenants, slice_of(tenant_id));
    const char *plan_id = owner != NULL ? tenants->limits->plan_id(owner) : "";
    const struct price *price = row_find(tenants->prices, plan_id, model, service_class, at_s);
    if (price != NULL)
        out =
            (struct price_tokens){price->input_nano, price->cached_input_nano, price->output_nano};
    pthread_rwlock_unlock(&tenants->memory);
    return out;
}

int64_t price_sum(const struct price_tokens *price, int64_t prompt, int64_t cached, int64_t output)
{
    cached = cached < prompt ? cached : prompt;
    return (prompt - cached) * price->input_nano + cached * price->cached_input_nano +
           output * price->output_nano;
}

int64_t price_of_row(void *context, const struct ledger_row *row)
{
    const struct price_tokens price = price_of_tokens(context, row->tenant_id, row->model,
                                                      row->service_class, row->at_us / 1000000);
    return price_sum(&price, row->prompt_tokens, row->cached_tokens, row->completion_tokens);
}

/* --- start and end --- */

struct load {
    struct price_book *book; /* with room for LIMIT_PRICES rows */
    size_t count;
};

static enum status load_price(void *context, const struct price *price)
{
    struct load *load = context;
    if (load->count == LIMIT_PRICES)
        FAIL(STATUS_LIMIT, "the database has more than %d prices", LIMIT_PRICES);
    load->book->rows[load->count++] = *price;
    return STATUS_OK;
}

enum status price_load(struct tenants *tenants, struct sqlite3 *connection)
{
    struct load load = {.book = book_make(LIMIT_PRICES)};
    if (load.book == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for prices");
    enum status status = price_rows_load(connection, &load, load_price);
    load.book->count = load.count;
    if (status == STATUS_OK && load.count > 0) {
        tenants->prices = book_copy(load.book, SIZE_MAX, NULL);
        atomic_store(&tenants->has_prices, tenants->prices != NULL);
        if (tenants->prices == NULL)
            status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory");
    }
    mem_free(load.book);
    return status;
}

void price_free_all(struct tenants *tenants)
{
    mem_free(tenants->prices);
    tenants->prices = NULL;
}
