#include "gateway/edge/state/edge_hold.h"

enum status edge_hold_begin(struct edge_hold *hold, struct edge_memory *memory,
                            const struct http_request *request, const uint8_t *tenant_hash)
{
    *hold = (struct edge_hold){.body_bytes = http_body(request).length};
    return edge_memory_take(memory, &hold->booked, tenant_hash,
                            LIMIT_MEMORY_REQUEST_BYTES + hold->body_bytes);
}

enum status edge_hold_take_body(struct edge_hold *hold, struct http_request *request)
{
    return hold->body.bytes != NULL ? STATUS_OK : http_body_take(request, &hold->body);
}

struct slice edge_hold_body(const struct edge_hold *hold, const struct http_request *request)
{
    return hold->body.bytes != NULL ? buffer_slice(&hold->body) : http_body(request);
}

void edge_hold_drop_body(struct edge_hold *hold)
{
    hold->is_body_gone = true;
    buffer_deinit(&hold->body);
}

enum status edge_hold_set(struct edge_hold *hold, struct edge_memory *memory, size_t answer_bytes)
{
    size_t body_bytes = hold->is_body_gone ? 0 : hold->body_bytes;
    enum status status = edge_memory_set(memory, &hold->booked,
                                         LIMIT_MEMORY_REQUEST_BYTES + body_bytes + answer_bytes);
    return answer_bytes <= LIMIT_ANSWER_SHARE_BYTES ? STATUS_OK : status;
}

void edge_hold_end(struct edge_hold *hold, struct edge_memory *memory)
{
    edge_memory_leave(memory, &hold->booked);
    buffer_deinit(&hold->body);
}
