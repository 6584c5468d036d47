/* price: the prices of tokens: rows by plan, model and class, each valid from a time on.
 *
 *   plan or default │ model or all │ class or all │ from │ input, cached input, output: nano-units
 *
 * Owns:     rows of the table prices (config/store), their records in memory.
 * Thread:   any. A look-up never waits for a commit; a change waits (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row. Pricing a row takes up to
 *           eight binary searches, or one atomic load while there are no prices.
 * Not here: keeping and summing costs (ledger_rows), which plan a tenant has (quota_limits).
 *
 * The most specific price counts: first the tenant's plan before the default, then the model before
 * all models, then the class before all classes. Of those prices the latest counts that is in
 * effect at the request's end. A price is never changed; a later one replaces it. Once it is in
 * effect it cannot be deleted, because requests were priced by it. All prices have one currency,
 * because costs are summed.
 */
#pragma once

#include "auth/tenants/price_types.h"

/* Makes a price from `wanted`, whose id and created_at_s are ignored; effective_at_s below 0 means
 * now. EXISTS for a price with the same plan, model, class and time; CONFLICT for another currency
 * than that of the other prices, and for one price too many; NOT_FOUND for an unknown plan; INVALID
 * or OUT_OF_RANGE; each with param. */
enum status price_create(struct tenants *tenants, const struct tenant_change *change,
                         const struct price *wanted, struct price *out);
/* Deletes a price. NOT_FOUND for an unknown price; CONFLICT when the price is in effect. */
enum status price_delete(struct tenants *tenants, const struct tenant_change *change,
                         struct slice id, struct price *out);
enum status price_get(struct tenants *tenants, struct slice id, struct price *out);
/* Lists up to `capacity` prices after id `after` ("": from the start), oldest first. */
enum status price_list(struct tenants *tenants, struct slice after, struct price *out,
                       size_t capacity, size_t *count, bool *has_more);

/* The prices of the tokens of a tenant's request that ends at `at_s` (Unix time), in nano-units;
 * zeros without a price. */
struct price_tokens {
    int64_t input_nano;
    int64_t cached_input_nano;
    int64_t output_nano;
};
struct price_tokens price_of_tokens(struct tenants *tenants, const char *tenant_id,
                                    const char *model, const char *service_class, int64_t at_s);
/* The cost of so many tokens in nano-units; `prompt` includes the cached ones. */
int64_t price_sum(const struct price_tokens *price, int64_t prompt, int64_t cached, int64_t output);

/* The currency of all prices; "" while there are none. */
void price_currency(struct tenants *tenants, char out[PRICE_CURRENCY_BYTES]);

/* The cost of a row by the prices in effect at its end; 0 without a price. For
 * ledger_options.price, with the struct tenants as its context. */
int64_t price_of_row(void *context, const struct ledger_row *row);
