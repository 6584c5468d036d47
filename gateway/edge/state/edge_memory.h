/* edge_memory: counts the memory that each tenant's requests hold, and decides who may hold more.
 *
 * Owns:     the account: the bytes of each tenant, and of requests whose token is not checked yet.
 * Thread:   the loop's thread.
 * Cost:     O(1) a request, and a look-up by hash.
 * Not here: the rule and its guarantee (config/base/byte_shares); requests that have not come
 *           completely, and their part of `memory_limit` (gateway/http); the bounds of a single
 *           body, stream or answer (limits.h).
 *
 *   memory_limit ─┬─ three eighths: the listener's, for requests that have not come completely
 *                 └─ five eighths: shared between tenants by the rule of byte_shares
 *
 * All requests whose token is not checked yet count as one more tenant. A second account of
 * byte_shares divides that tenant's share between the clients' addresses; one address may hold a
 * quarter of it.
 *
 * Three things are booked: a request's body until the engine has taken it, what the edge needs to
 * keep the request going, and the answer until the client has read it. A tenant that uses up its
 * share gets MEMORY_SHARE; it never makes a request of another tenant fail.
 */
#pragma once

#include "config/base/byte_shares.h"
#include "config/base/limits.h"
#include "gateway/edge/state/edge_metrics.h"

struct edge_memory;

/* `limit_bytes` is the option memory_limit; `metrics` must outlive the account. NO_MEMORY. */
enum status edge_memory_create(struct edge_memory **out, size_t limit_bytes,
                               struct edge_metrics *metrics);
void edge_memory_destroy(struct edge_memory *memory);

/* What a request holds while its token is not checked yet. All zero: nothing. */
struct edge_memory_unproven {
    struct byte_shares_hold all;     /* in the tenant that stands for all such requests */
    struct byte_shares_hold address; /* in the account of its client's address */
};

/* Books `bytes` for a new request of the tenant with that hash (principal.tenant_hash).
 * MEMORY_SHARE when the tenant holds as much as it may; BUSY when no memory is left for anybody;
 * NO_MEMORY. A failure books nothing and is counted in the metrics. */
enum status edge_memory_take(struct edge_memory *memory, struct byte_shares_hold *hold,
                             const uint8_t *tenant_hash, size_t bytes);
/* Changes a request's booking to `bytes`. The new value is booked even when the call fails.
 * MEMORY_SHARE or BUSY when the booking has grown beyond what the tenant may hold; the caller then
 * ends the request and counts it. */
enum status edge_memory_set(struct edge_memory *memory, struct byte_shares_hold *hold,
                            size_t bytes);
/* Gives a booking back. An empty one is allowed. */
void edge_memory_leave(struct edge_memory *memory, struct byte_shares_hold *hold);

/* Books `bytes` for a request whose token is not checked yet. `address` names its client's address
 * (failure_guard_address, padded with zeros). BUSY, with nothing booked, when that address or all
 * such requests together hold as much as they may, or when there is no memory for the account. */
enum status edge_memory_take_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold,
                                      const uint8_t address[BYTE_SHARES_OWNER_BYTES], size_t bytes);
void edge_memory_leave_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold);
