#include "gateway/edge/state/edge_memory.h"

#include "config/base/mem.h"

enum {
    PARTS = 8,
    DOOR_PARTS = 3, /* the listener's: LIMIT_UNFINISHED_PART and LIMIT_KNOWN_PART */
    RESERVE_PARTS = 16,
    UNPROVEN_PARTS = BYTE_SHARES_PARTS + 1, /* byte_shares gives a single owner this part */
    ADDRESS_PARTS = 4,                      /* of that, one address may hold this part */
};

/* The owner that stands for all requests whose token is not checked yet. */
static const uint8_t NOBODY[BYTE_SHARES_OWNER_BYTES];

struct edge_memory {
    struct byte_shares *shares;
    struct byte_shares *addresses;    /* of requests whose token is not checked yet */
    struct byte_shares_hold unproven; /* empty; it keeps NOBODY's entry, whose sum is shown */
    struct edge_metrics *metrics;
};

enum status edge_memory_create(struct edge_memory **out, size_t limit_bytes,
                               struct edge_metrics *metrics)
{
    size_t bytes = limit_bytes / PARTS * (PARTS - DOOR_PARTS);
    const struct byte_shares_rule rule = {.limit_bytes = bytes,
                                          .floor_bytes = LIMIT_MEMORY_FLOOR_BYTES,
                                          .reserve_bytes = bytes / RESERVE_PARTS};
    struct edge_memory *memory = mem_zalloc(1, sizeof *memory);
    if (memory == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the memory's account");
    memory->metrics = metrics;
    const struct byte_shares_rule unproven = {.limit_bytes = bytes / UNPROVEN_PARTS,
                                              .floor_bytes =
                                                  bytes / UNPROVEN_PARTS / ADDRESS_PARTS};
    enum status status = byte_shares_create(&memory->shares, &rule);
    if (status == STATUS_OK)
        status = byte_shares_create(&memory->addresses, &unproven);
    if (status == STATUS_OK &&
        byte_shares_take(memory->shares, &memory->unproven, NOBODY, 0) != BYTE_SHARES_OK)
        status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                             "no memory for the memory's account");
    if (status != STATUS_OK)
        edge_memory_destroy(memory);
    else
        *out = memory;
    return status;
}

void edge_memory_destroy(struct edge_memory *memory)
{
    if (memory == NULL)
        return;
    if (memory->shares != NULL)
        byte_shares_leave(memory->shares, &memory->unproven);
    byte_shares_destroy(memory->addresses);
    byte_shares_destroy(memory->shares);
    mem_free(memory);
}

static void show(const struct edge_memory *memory)
{
    size_t unproven = byte_shares_own(&memory->unproven);
    metric_set(memory->metrics->memory_unproven, (double)unproven);
    metric_set(memory->metrics->memory_tenants,
               (double)(byte_shares_total(memory->shares) - unproven));
}

static enum status judge(const struct edge_memory *memory, enum byte_shares_verdict verdict)
{
    show(memory);
    switch (verdict) {
    case BYTE_SHARES_OK:
        break;
    case BYTE_SHARES_OWN:
        FAIL(STATUS_MEMORY_SHARE,
             "Requests and unread answers of this tenant hold all the memory that it may have now; "
             "read the answers, send less at once, and try again.");
    case BYTE_SHARES_ALL:
        FAIL(STATUS_BUSY,
             "The server has no memory for a request of this size now; try again shortly.");
    case BYTE_SHARES_NO_MEMORY:
        FAIL(STATUS_NO_MEMORY, "no memory for another tenant");
    }
    return STATUS_OK;
}

enum status edge_memory_take(struct edge_memory *memory, struct byte_shares_hold *hold,
                             const uint8_t *tenant_hash, size_t bytes)
{
    enum status status = judge(memory, byte_shares_take(memory->shares, hold, tenant_hash, bytes));
    if (status == STATUS_MEMORY_SHARE)
        metric_add(memory->metrics->memory_share_refused, 1);
    else if (status != STATUS_OK)
        metric_add(memory->metrics->memory_refused, 1);
    return status;
}

enum status edge_memory_set(struct edge_memory *memory, struct byte_shares_hold *hold, size_t bytes)
{
    if (bytes == hold->bytes)
        return STATUS_OK;
    return judge(memory, byte_shares_set(memory->shares, hold, bytes));
}

void edge_memory_leave(struct edge_memory *memory, struct byte_shares_hold *hold)
{
    if (hold->owner == NULL)
        return;
    byte_shares_leave(memory->shares, hold);
    show(memory);
}

enum status edge_memory_take_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold,
                                      const uint8_t address[BYTE_SHARES_OWNER_BYTES], size_t bytes)
{
    if (byte_shares_take(memory->addresses, &hold->address, address, bytes) == BYTE_SHARES_OK) {
        if (edge_memory_take(memory, &hold->all, NOBODY, bytes) == STATUS_OK)
            return STATUS_OK;
        byte_shares_leave(memory->addresses, &hold->address);
    } else {
        metric_add(memory->metrics->memory_refused, 1);
    }
    FAIL(STATUS_BUSY, "Requests whose tokens are not checked yet hold all the memory that they may "
                      "now; try again shortly.");
}

void edge_memory_leave_unproven(struct edge_memory *memory, struct edge_memory_unproven *hold)
{
    byte_shares_leave(memory->addresses, &hold->address);
    edge_memory_leave(memory, &hold->all);
}
