#include "gateway/admin/admin_ask.h"

#include "config/base/mem.h"
#include "gateway/edge/state/edge_state.h"

enum { ASK_MS = 2000 };

struct admin_ask {
    struct admin_call *call;
    struct http1_exchange *exchange; /* NULL once it has ended */
    struct loop_timer *deadline;
    struct buffer body;
    int code;
    bool is_told; /* `told` was called, or must not be called any more */
    void (*told)(struct admin_call *call, struct slice body);
};

static void ask_head(void *context, const struct http1_head *head)
{
    struct admin_ask *ask = context;
    ask->code = head->code;
}

static void ask_body(void *context, struct slice bytes)
{
    struct admin_ask *ask = context;
    buffer_append_slice(&ask->body, bytes);
}

/* `told` may free the call, and with it this struct. */
static void ask_ended(void *context, enum status status)
{
    struct admin_ask *ask = context;
    bool is_whole = status == STATUS_OK && ask->code == 200 && ask->body.status == STATUS_OK;
    ask->exchange = NULL;
    loop_timer_disarm(ask->deadline);
    if (!ask->is_told) {
        ask->is_told = true;
        ask->told(ask->call, is_whole ? buffer_slice(&ask->body) : (struct slice){0});
    }
}

static void ask_late(void *context)
{
    struct admin_ask *ask = context;
    if (ask->exchange != NULL)
        http1_exchange_cancel(ask->exchange); /* ask_ended follows */
}

enum status admin_ask_start(struct admin_call *call, const char *path,
                            void (*told)(struct admin_call *call, struct slice body))
{
    static const struct http1_callbacks callbacks = {ask_head, ask_body, ask_ended};
    struct admin_ask *ask = mem_zalloc(1, sizeof *ask);
    if (ask == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request to the engine");
    *ask = (struct admin_ask){.call = call, .told = told};
    buffer_init(&ask->body, LIMIT_ADMIN_ANSWER_BYTES);
    call->ask = ask; /* the call frees it */
    call->free_ask = admin_ask_destroy;
    ask->deadline = loop_timer_create(call->admin->loop, ask_late, ask);
    if (ask->deadline == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    struct buffer head;
    buffer_init(&head, LIMIT_PATH_BYTES);
    buffer_printf(&head, "GET %s HTTP/1.1\r\nhost: engine\r\nx-banyan-protocol: 1", path);
    enum status status = head.status;
    if (status == STATUS_OK)
        status = http1_exchange_start(call->admin->edge->client, buffer_slice(&head),
                                      (struct slice){0}, &callbacks, ask, &ask->exchange);
    buffer_deinit(&head);
    TRY(status);
    loop_timer_arm(ask->deadline, ASK_MS);
    call->is_waiting = true;
    return STATUS_OK;
}

void admin_ask_destroy(struct admin_ask *ask)
{
    if (ask == NULL)
        return;
    ask->is_told = true;
    if (ask->exchange != NULL)
        http1_exchange_cancel(ask->exchange);
    if (ask->deadline != NULL)
        loop_timer_destroy(ask->deadline);
    buffer_deinit(&ask->body);
    mem_free(ask);
}
