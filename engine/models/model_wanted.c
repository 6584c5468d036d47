#include "engine/models/model_wanted.h"

/* Index of the row in logit_row; logit_rows if it has no logits. */
static uint32_t wanted_place(const struct model_batch *batch, uint32_t row)
{
    uint32_t begin = 0;
    uint32_t end = batch->logit_rows;
    while (begin < end) {
        const uint32_t middle = begin + (end - begin) / 2;
        if (batch->logit_row[middle] < row)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < batch->logit_rows && batch->logit_row[begin] == row ? begin : batch->logit_rows;
}

/* The lesser of `keys` and the keys in whole blocks that a row sees. */
static uint32_t wanted_least(const struct model_batch *batch, uint32_t row, uint32_t keys)
{
    const uint32_t seen =
        (batch->kv.position[row] + 1) / ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS;
    return keys < seen ? keys : seen;
}

bool model_wanted_groups(const struct model_batch *batch, uint32_t *order, uint32_t *shared)
{
    const struct attention_groups *groups = batch->groups;
    const uint32_t *sequence = batch->kv.sequence;
    uint32_t keys = 0; /* in common with the last row with logits, through all sequences between */
    uint32_t count = 0;
    bool is_shared = false;
    for (uint32_t i = 0; groups != NULL && i < batch->rows; i++) {
        const uint32_t row = groups->order[i];
        const uint32_t place = wanted_place(batch, row);
        if (i > 0 && sequence[row] != sequence[groups->order[i - 1]] && groups->shared[i] < keys)
            keys = groups->shared[i];
        if (place == batch->logit_rows)
            continue;
        const bool goes_on =
            count > 0 && sequence[batch->logit_row[order[count - 1]]] == sequence[row];
        shared[count] = goes_on ? 0 : wanted_least(batch, row, keys);
        is_shared = is_shared || shared[count] > 0;
        order[count++] = place;
        keys = wanted_least(batch, row, UINT32_MAX);
    }
    return is_shared && count == batch->logit_rows;
}
