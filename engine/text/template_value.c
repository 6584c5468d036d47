#include "engine/text/template_value.h"

static bool value_has_items(struct template_value value)
{
    return value.kind >= TEMPLATE_LIST && value.kind <= TEMPLATE_ITERATOR;
}

bool template_value_is_sequence(struct template_value value)
{
    return value.kind == TEMPLATE_LIST || value.kind == TEMPLATE_TUPLE ||
           value.kind == TEMPLATE_RANGE;
}

const char *template_value_kind_name(struct template_value value)
{
    static const char *const names[] = {
        [TEMPLATE_ABSENT] = "nothing",
        [TEMPLATE_UNDEFINED] = "an undefined value",
        [TEMPLATE_NONE] = "none",
        [TEMPLATE_BOOL] = "a boolean",
        [TEMPLATE_INTEGER] = "a number",
        [TEMPLATE_BIG] = "a number beyond 64 bits",
        [TEMPLATE_FLOAT] = "a number",
        [TEMPLATE_STRING] = "a string",
        [TEMPLATE_LIST] = "a list",
        [TEMPLATE_TUPLE] = "a tuple",
        [TEMPLATE_DICT] = "a mapping",
        [TEMPLATE_RANGE] = "a range",
        [TEMPLATE_VIEW] = "a mapping's view",
        [TEMPLATE_ITERATOR] = "an iterator",
        [TEMPLATE_NAMESPACE] = "a namespace",
        [TEMPLATE_LOOP] = "a loop",
        [TEMPLATE_MACRO] = "a macro",
        [TEMPLATE_FUNCTION] = "a function",
        [TEMPLATE_METHOD] = "a method",
    };
    return names[value.kind];
}

/* --- making --- */

enum status template_value_open(struct template_run *run, enum template_kind kind, size_t count,
                                struct template_value *out)
{
    void *memory = NULL;
    size_t values = kind == TEMPLATE_DICT ? 2 * count : count;
    if (count > LIMIT_TEMPLATE_VALUE_BYTES / sizeof(struct template_value))
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "a list is too long");
    TRY(template_run_charge(run, values * sizeof(struct template_value)));
    TRY(template_run_alloc(
        run, sizeof(struct template_items) + values * sizeof(struct template_value), &memory));
    struct template_items *items = memory;
    *items = (struct template_items){.count = (uint32_t)values};
    *out = (struct template_value){
        .kind = (uint8_t)kind, .is_own = true, .count = (uint32_t)count, .items = items};
    return STATUS_OK;
}

enum status template_value_close(struct template_run *run, struct template_value *value)
{
    struct template_items *items = value->items;
    items->depth = 1;
    for (uint32_t i = 0; i < items->count; i++) {
        struct template_value one = items->values[i];
        if (value_has_items(one) && one.items->depth + 1 > items->depth)
            items->depth = one.items->depth + 1;
    }
    if (items->depth > LIMIT_TEMPLATE_VALUE_DEPTH)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "lists and mappings are nested deeper than %d",
                      LIMIT_TEMPLATE_VALUE_DEPTH);
    return STATUS_OK;
}

enum status template_value_make(struct template_run *run, enum template_kind kind,
                                const struct template_value *values, size_t count,
                                struct template_value *out)
{
    TRY(template_value_open(run, kind, count, out));
    if (out->items->count > 0)
        memcpy(out->items->values, values, out->items->count * sizeof(*values));
    return template_value_close(run, out);
}

/* --- truth --- */

bool template_value_is_true(struct template_value value)
{
    switch (value.kind) {
    case TEMPLATE_BOOL:
    case TEMPLATE_INTEGER:
        return value.integer != 0;
    case TEMPLATE_FLOAT:
        return value.number != 0;
    case TEMPLATE_STRING:
    case TEMPLATE_LIST:
    case TEMPLATE_TUPLE:
    case TEMPLATE_DICT:
    case TEMPLATE_RANGE:
    case TEMPLATE_VIEW:
        return value.count > 0; /* no piece of a string is empty */
    case TEMPLATE_ABSENT:
    case TEMPLATE_UNDEFINED:
    case TEMPLATE_NONE:
        return false;
    default:
        return true;
    }
}
