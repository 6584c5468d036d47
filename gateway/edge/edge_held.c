#include "gateway/edge/edge_held.h"

#include "config/base/limits.h"
#include "config/base/status.h"

bool edge_held_set(struct edge_held *held, size_t *own, size_t now)
{
    ASSERT(held->total >= *own);
    held->total = held->total - *own + now;
    *own = now;
    return held->total <= LIMIT_ANSWERS_BYTES || now <= LIMIT_ANSWER_SHARE_BYTES;
}
