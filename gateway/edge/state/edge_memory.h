/* edge_memory: what requests hold of the edge's memory, by tenant, and who may hold more.
 *
 * Owns:     the account: bytes of each tenant, and of requests whose token is not checked yet.
 * Thread:   the loop's thread.
 * Cost:     O(1) a request, and a look-up by hash.
 * Not here: the rule and its guarantee (config/base/byte_shares); requests that are not whole, and
 *           their share of `memory_limit` (gateway/http); bounds of a single body, stream or answer
 *           (limits.h).
 *
 *   memory_limit ─┬─ three eighths: the door's, for requests that are not whole
 *                 └─ the rest: tenants', by byte_shares; the requests whose token is not checked
 *                    yet are one owner among them, of which an address has a quarter at most
 *
 * Booked are a request's body until the engine has taken it, what the edge needs to keep it going,
 * and its answer until the client has read it. A tenant that uses up its share is told so
 * (MEMORY_SHARE); it never makes a request of another tenant fail.
 */
#pragma once

#include "config/base/byte_shares.h"
#include "config/base/limits.h"
#include "gateway/edge/state/edge_metrics.h"

struct edge_memory;

enum status edge_memory_create(struct edge_memory **out, size_t limit_bytes,
                               struct edge_metrics *metrics);
void edge_memory_destroy(struct edge_memory *memory);

/* What a request holds whose token is not checked yet. All zero: nothing. */
struct edge_memory_unproven {
    struct byte_shares_hold all; /* of them together */
    struct byte_shares_hold address;
};

/* A request of that tenant (auth's hash of it) with so many bytes begins.
 * MEMORY_SHARE when the tenant holds as much as it may, BUSY when there is no memory left for
 * anybody, NO_MEMORY; each is counted, and nothing is booked then. */
enum status edge_memory_take(struct edge_memory *memory, struct byte_shares_hold *hold,
                             const uint8_t *tenant_hash, size_t bytes);
/* A request that was taken holds so many bytes now, whatever is returned: MEMORY_SHARE or BUSY when
 * they are more than before and more than its tenant may hold. The caller counts refusals. */
enum status edge_memory_set(struct edge_memory *memory, struct byte_shares_hold *hold,
                            size_t bytes);
void edge_memory_leave(struct edge_memory *memory, struct byte_shares_hold *hold);

/* A request whose token is not checked yet, of a client at that address (address_table_key). BUSY
 * when its address, or all of them, hold as much as they may; NO_MEMORY. */
enum status edge_memory_take_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold,
                                      const uint8_t address[BYTE_SHARES_OWNER_BYTES], size_t bytes);
void edge_memory_leave_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold);
