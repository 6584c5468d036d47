#include "gateway/edge/request/edge_keys.h"

#include <stddef.h>

#include "auth/tenants/issuer_fetch.h"
#include "config/base/mem.h"
#include "gateway/http/loop_worker.h"
#include "gateway/upstream/key_fetch.h"

enum { LOOK_MS = 1000 };

struct edge_keys {
    struct edge *edge;
    void (*came)(void *context);
    void *context;
    /* Texts of the first snapshot of the options, which is kept while the edge runs; a reload frees
     * the later ones while the thread may read. Neither option is reloadable. */
    const char *hosts;
    const char *ca_file;
    struct loop_timer *timer;
    struct loop_worker *worker;
    struct loop_worker_task task;
    bool is_running;
    struct issuer_fetch fetch; /* the one under way */
    bool is_good;              /* it has brought usable keys */
    atomic_bool is_over;       /* tells the thread to give the fetch up */
};

static struct edge_keys *keys_of(struct loop_worker_task *task)
{
    return (struct edge_keys *)(void *)((char *)task - offsetof(struct edge_keys, task));
}

/* On the thread. */
static void fetch_work(struct loop_worker_task *task)
{
    struct edge_keys *keys = keys_of(task);
    const struct key_fetch_options options = {.url = keys->fetch.url,
                                              .hosts = keys->hosts,
                                              .ca_file = keys->ca_file,
                                              .is_over = &keys->is_over};
    struct error_note note;
    struct buffer json;
    buffer_init(&json, LIMIT_JWKS_BYTES);
    enum status status = key_fetch(&options, &json);
    if (status != STATUS_OK)
        note = *status_note();
    keys->is_good =
        issuer_fetch_done(auth_issuers(keys->edge->auth), &keys->fetch, buffer_slice(&json),
                          status != STATUS_OK ? note.message : NULL);
    buffer_deinit(&json);
}

static void fetch_done(struct loop_worker_task *task)
{
    struct edge_keys *keys = keys_of(task);
    struct edge *edge = keys->edge;
    keys->is_running = false;
    metric_add(edge->metrics.key_fetches[keys->is_good], 1);
    metric_set(edge->metrics.keys_failing, (double)issuer_fetch_failing(auth_issuers(edge->auth)));
    keys->came(keys->context);
    edge_keys_wake(keys);
}

void edge_keys_wake(struct edge_keys *keys)
{
    if (keys->is_running || !issuer_fetch_next(auth_issuers(keys->edge->auth), &keys->fetch))
        return;
    keys->task = (struct loop_worker_task){.work = fetch_work, .done = fetch_done};
    keys->is_running = loop_worker_submit(keys->worker, &keys->task) == STATUS_OK;
    ASSERT(keys->is_running); /* the worker has room for one task, and none is in it */
}

static void look(void *context)
{
    struct edge_keys *keys = context;
    edge_keys_wake(keys);
    if (!keys->is_running) /* the issuer that a token waits for may have been deleted */
        keys->came(keys->context);
    loop_timer_arm(keys->timer, LOOK_MS);
}

enum status edge_keys_create(struct edge_keys **out, struct edge *edge, void (*came)(void *context),
                             void *context)
{
    *out = NULL;
    struct edge_keys *keys = mem_zalloc(1, sizeof *keys);
    if (keys == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to fetch keys");
    keys->edge = edge;
    keys->came = came;
    keys->context = context;
    keys->hosts = edge->config->jwks_hosts;
    keys->ca_file = edge->config->jwks_ca;
    atomic_init(&keys->is_over, false);
    keys->timer = loop_timer_create(edge->loop, look, keys);
    enum status status = keys->timer != NULL ? loop_worker_create(&keys->worker, edge->loop, 1)
                                             : status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__,
                                                           NULL, "no memory for a timer");
    if (status != STATUS_OK) {
        edge_keys_destroy(keys);
        return status;
    }
    loop_timer_arm(keys->timer, 0);
    *out = keys;
    return STATUS_OK;
}

void edge_keys_destroy(struct edge_keys *keys)
{
    if (keys == NULL)
        return;
    atomic_store(&keys->is_over, true);
    loop_worker_destroy(keys->worker);
    if (keys->timer != NULL)
        loop_timer_destroy(keys->timer);
    mem_free(keys);
}
