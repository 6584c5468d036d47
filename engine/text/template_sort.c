#include "engine/text/template_sort.h"

#include "engine/text/template_parts.h"

/* Merges from[low … middle) and from[middle … high), each in order, into `to`. */
static enum status order_merge(struct template_run *run, const struct template_value *keys,
                               bool is_reverse, const uint32_t *from, uint32_t *to, uint32_t low,
                               uint32_t middle, uint32_t high)
{
    uint32_t left = low;
    uint32_t right = middle;
    for (uint32_t at = low; at < high; at++) {
        bool takes_right = left == middle;
        if (!takes_right && right < high) {
            int order;
            TRY(template_run_charge(run, 0));
            TRY(template_parts_order(run, keys[from[right]], keys[from[left]], &order));
            takes_right = is_reverse ? order > 0 : order < 0;
        }
        to[at] = takes_right ? from[right++] : from[left++];
    }
    return STATUS_OK;
}

enum status template_sort_order(struct template_run *run, const struct template_value *keys,
                                uint32_t count, bool is_reverse, uint32_t **order)
{
    void *memory = NULL;
    TRY(template_run_alloc(run, 2 * (size_t)count * sizeof(uint32_t) + 1, &memory));
    uint32_t *from = memory;
    uint32_t *to = from + count;
    for (uint32_t i = 0; i < count; i++)
        from[i] = i;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count;
            uint32_t high = low + 2 * width < count ? low + 2 * width : count;
            TRY(order_merge(run, keys, is_reverse, from, to, low, middle, high));
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    *order = from;
    return STATUS_OK;
}

enum status template_sort_pairs(struct template_run *run, struct template_value dict,
                                struct template_value *out)
{
    struct template_value keys;
    uint32_t *order = NULL;
    TRY(template_value_open(run, TEMPLATE_LIST, dict.count, &keys));
    for (uint32_t i = 0; i < dict.count; i++)
        keys.items->values[i] = dict.items->values[2 * i];
    TRY(template_sort_order(run, keys.items->values, dict.count, false, &order));
    TRY(template_value_open(run, TEMPLATE_DICT, dict.count, out));
    out->is_own = dict.is_own;
    for (uint32_t i = 0; i < dict.count; i++) {
        out->items->values[2 * i] = dict.items->values[2 * order[i]];
        out->items->values[2 * i + 1] = dict.items->values[2 * order[i] + 1];
    }
    return template_value_close(run, out);
}
