/* price: what a token costs: rows by plan, model and class, each from a moment on.
 *
 *   plan or default │ model or all │ class or all │ from │ input, cached input, output: nano-units
 *
 * Owns:     rows of the table prices (config/store), their records in memory.
 * Thread:   any; looking never waits for a commit, a change does (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; pricing a row is up to eight
 *           binary searches, and one load while there are no prices.
 * Not here: where costs are kept and summed (ledger_rows), which plan a tenant has (quota_limits).
 *
 * The row that says most counts: the tenant's plan before the default, then the model before all
 * models, then the class before all classes; of those, the latest that is in effect at the
 * request's end. A price is never changed, only followed by a later one, and stays once it has come
 * into effect: requests were priced by it. All prices have one currency, since costs are summed.
 */
#pragma once

#include "auth/tenants/price_types.h"

/* `wanted` without id and created_at_s; effective_at_s below 0: now. EXISTS for one of the same
 * plan, model, class and moment; CONFLICT for another currency than the others', and for one price
 * too many; NOT_FOUND for an unknown plan; INVALID or OUT_OF_RANGE; each with param. */
enum status price_create(struct tenants *tenants, const struct tenant_change *change,
                         const struct price *wanted, struct price *out);
/* NOT_FOUND; CONFLICT once it has come into effect. */
enum status price_delete(struct tenants *tenants, const struct tenant_change *change,
                         struct slice id, struct price *out);
enum status price_get(struct tenants *tenants, struct slice id, struct price *out);
/* Up to `capacity` prices after id `after` ("" = from the start), oldest first. */
enum status price_list(struct tenants *tenants, struct slice after, struct price *out,
                       size_t capacity, size_t *count, bool *has_more);

/* What a token costs of a tenant's request that ends at that time; zeros without a price. A load
 * while there are no prices. */
struct price_tokens {
    int64_t input_nano;
    int64_t cached_input_nano;
    int64_t output_nano;
};
struct price_tokens price_of_tokens(struct tenants *tenants, const char *tenant_id,
                                    const char *model, const char *service_class, int64_t at_s);
/* What so many tokens cost; `prompt` includes the cached ones. */
int64_t price_sum(const struct price_tokens *price, int64_t prompt, int64_t cached, int64_t output);

/* The currency of all prices; "" while there are none. */
void price_currency(struct tenants *tenants, char out[PRICE_CURRENCY_BYTES]);

/* What the row costs by the prices in effect at its end; 0 without any. `context` is the struct
 * tenants: the ledger's `price`. */
int64_t price_of_row(void *context, const struct ledger_row *row);
