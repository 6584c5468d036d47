#include "gateway/edge/request/edge_lower.h"

#include <stdio.h>

#include "config/base/log.h"
#include "config/base/mem.h"

struct lower_call {
    char request_id[LIMIT_REQUEST_ID_BYTES];
    int code; /* 0: no answer yet */
};

static void call_head(void *context, const struct http1_head *head)
{
    struct lower_call *call = context;
    call->code = head->code;
}

static void call_body(void *context, struct slice bytes)
{
    (void)context;
    (void)bytes;
}

static void call_log(const struct lower_call *call, const char *request_id)
{
    LOG(LOG_WARN, "class_not_lowered", LOG_TEXT("request_id", request_id),
        LOG_NUMBER("code", call != NULL ? call->code : 0));
}

/* 404 is no failure: the request has ended meanwhile. */
static void call_ended(void *context, enum status status)
{
    struct lower_call *call = context;
    if (status != STATUS_CANCELLED && call->code != 200 && call->code != 404)
        call_log(call, call->request_id);
    mem_free(call);
}

void edge_lower_send(struct edge *edge, const char *request_id)
{
    static const struct http1_callbacks callbacks = {call_head, call_body, call_ended};
    char head[160 + LIMIT_REQUEST_ID_BYTES];
    char body[64];
    struct lower_call *call = mem_zalloc(1, sizeof *call);
    struct http1_exchange *exchange = NULL;
    if (call == NULL) {
        call_log(NULL, request_id);
        return;
    }
    snprintf(call->request_id, sizeof call->request_id, "%s", request_id);
    snprintf(head, sizeof head,
             "PATCH /internal/v1/requests/%s HTTP/1.1\r\nhost: engine\r\n"
             "content-type: application/json",
             request_id);
    snprintf(body, sizeof body, "{\"class\":\"%s\"}",
             service_class_name((enum service_class)SERVICE_CLASS_LOWEST));
    if (http1_exchange_start(edge->client, slice_of(head), slice_of(body), &callbacks, call,
                             &exchange) != STATUS_OK) {
        call_log(call, request_id);
        mem_free(call);
    }
}
