#include "auth/tenants/tenant_copy.h"

#include <string.h>

#include "auth/tenants/tenant.h"

static enum status begin_open(struct tenants *tenants, struct tenants **out)
{
    const struct tenants_options options = {.store = tenants->store,
                                            .pepper = tenants->pepper,
                                            .domain = tenants->domain,
                                            .clock = tenants->clock,
                                            .limits = tenants->limits};
    return tenants_open(out, &options);
}

enum status tenant_copy_begin(struct tenants *tenants, struct tenants **out)
{
    struct sqlite3 *connection;
    *out = NULL;
    TRY(tenants_used_flush(tenants)); /* the copy reads last uses from the database */
    pthread_mutex_lock(&tenants->change);
    enum status status = store_begin(tenants->store, &connection);
    if (status == STATUS_OK) {
        status = begin_open(tenants, out);
        if (status != STATUS_OK)
            (void)store_end(tenants->store, false);
    }
    if (status != STATUS_OK)
        pthread_mutex_unlock(&tenants->change);
    else
        (*out)->is_uncommitted = true;
    return status;
}

/* Takes over the uses that were noted while the copy was made. The caller holds `memory` for
 * writing. */
static void swap_used(struct tenants *tenants, struct tenants *copy)
{
    struct tenant_key_record *used = atomic_exchange(&tenants->used, NULL);
    for (; used != NULL; used = used->used_next) {
        struct tenant_key_record *now =
            auth_index_get(&copy->keys_by_id, slice_of(used->row.key.id));
        if (now == NULL)
            continue;
        atomic_store(&now->used_at_s, atomic_load(&used->used_at_s));
        atomic_store(&now->is_used, true);
        now->used_next = atomic_load(&tenants->used);
        atomic_store(&tenants->used, now);
    }
}

static void swap_flag(atomic_bool *one, atomic_bool *other)
{
    atomic_store(other, atomic_exchange(one, atomic_load(other)));
}

enum status tenant_copy_swap(struct tenants *tenants, struct tenants *copy)
{
    enum {
        FROM = offsetof(struct tenants, by_id),
        BYTES = offsetof(struct tenants, limits_generation) - FROM
    };
    char rows[BYTES];
    copy->is_uncommitted = false;
    TRY(store_end(tenants->store, true));
    pthread_rwlock_wrlock(&tenants->memory);
    swap_used(tenants, copy);
    memcpy(rows, (char *)tenants + FROM, BYTES);
    memcpy((char *)tenants + FROM, (char *)copy + FROM, BYTES);
    memcpy((char *)copy + FROM, rows, BYTES);
    swap_flag(&tenants->has_prices, &copy->has_prices);
    swap_flag(&tenants->has_key_limits, &copy->has_key_limits);
    atomic_fetch_add_explicit(&tenants->limits_generation, 1, memory_order_release);
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

void tenant_copy_end(struct tenants *tenants, struct tenants *copy)
{
    if (copy->is_uncommitted)
        (void)store_end(tenants->store, false);
    tenants_close(copy);
    pthread_mutex_unlock(&tenants->change);
}
