#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_answer.h"
#include "auth/tenants/tenant_records.h"

struct batch {
    struct tenant_key_record *keys[LIMIT_USED_BATCH];
    size_t count;
};

/* Takes keys off the list before their times are read. A use after that puts the key on the new
 * list. */
static void flush_take(struct tenant_key_record **list, struct batch *batch)
{
    batch->count = 0;
    while (*list != NULL && batch->count < LIMIT_USED_BATCH) {
        struct tenant_key_record *record = *list;
        *list = record->used_next;
        atomic_store(&record->is_used, false);
        batch->keys[batch->count++] = record;
    }
}

static enum status flush_rows(struct tenants *tenants, struct sqlite3 *connection,
                              const struct batch *batch)
{
    TRY(tenant_answer_drop_old(tenants, connection));
    for (size_t i = 0; i < batch->count; i++)
        TRY(tenant_rows_update_used(connection, batch->keys[i]->row.key.id,
                                    atomic_load(&batch->keys[i]->used_at_s)));
    return STATUS_OK;
}

static enum status flush_commit(struct tenants *tenants, const struct batch *batch)
{
    struct sqlite3 *connection;
    TRY(store_begin(tenants->store, &connection));
    enum status status = flush_rows(tenants, connection, batch);
    enum status ended = store_end(tenants->store, status == STATUS_OK);
    return status != STATUS_OK ? status : ended;
}

/* Puts a key back on the list, unless it is there already because it was used again. */
static void flush_put_back(struct tenants *tenants, struct tenant_key_record *record)
{
    if (atomic_exchange(&record->is_used, true))
        return;
    record->used_next = atomic_load(&tenants->used);
    while (!atomic_compare_exchange_weak(&tenants->used, &record->used_next, record))
        ;
}

enum status tenants_used_flush(struct tenants *tenants)
{
    struct tenant_key_record *list = atomic_exchange(&tenants->used, NULL);
    struct batch batch;
    enum status status;
    do {
        flush_take(&list, &batch);
        status = flush_commit(tenants, &batch);
    } while (status == STATUS_OK && list != NULL);
    while (status != STATUS_OK && batch.count > 0) {
        for (size_t i = 0; i < batch.count; i++)
            flush_put_back(tenants, batch.keys[i]);
        flush_take(&list, &batch);
    }
    return status;
}
