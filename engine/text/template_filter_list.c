/* The filters of lists and mappings, and those that apply others to each element. */
#include "engine/text/template_filter.h"

#include "engine/text/template_parts.h"
#include "engine/text/template_sort.h"
#include "engine/text/template_test.h"
#include "engine/text/template_text.h"

/* --- length, ends, copies --- */

enum status template_filter_length(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    struct template_value value = args->value;
    int64_t count = value.count;
    if (value.kind == TEMPLATE_STRING)
        TRY(template_string_points(run, value, &count));
    else if (value.kind == TEMPLATE_UNDEFINED)
        count = 0;
    else if (value.kind < TEMPLATE_LIST || value.kind > TEMPLATE_VIEW)
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no length", template_value_kind_name(value));
    *out = template_value_integer(count);
    return STATUS_OK;
}

enum status template_filter_count(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    return template_filter_length(run, args, out);
}

enum status template_filter_default(struct template_run *run, const struct template_args *args,
                                    struct template_value *out)
{
    bool is_replaced =
        args->value.kind == TEMPLATE_UNDEFINED ||
        (template_value_is_true(args->at[1]) && !template_value_is_true(args->value));
    *out = is_replaced ? args->at[0] : args->value;
    if (out->kind == TEMPLATE_ABSENT)
        return template_string_make(run, (struct slice){NULL, 0}, true, out);
    return STATUS_OK;
}

enum status template_filter_d(struct template_run *run, const struct template_args *args,
                              struct template_value *out)
{
    return template_filter_default(run, args, out);
}

enum status template_filter_list(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    TRY(template_parts_elements(run, args->value, &values, &count));
    TRY(template_value_make(run, TEMPLATE_LIST, values, count, out));
    out->is_own = args->value.kind == TEMPLATE_STRING ? template_string_is_own(run, args->value)
                                                      : args->value.is_own;
    return STATUS_OK;
}

enum status template_filter_first(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    TRY(template_parts_elements(run, args->value, &values, &count));
    *out = count > 0 ? values[0] : (struct template_value){.kind = TEMPLATE_UNDEFINED};
    return STATUS_OK;
}

enum status template_filter_last(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    if (args->value.kind == TEMPLATE_ITERATOR)
        TEMPLATE_FAIL(run, STATUS_INVALID, "an iterator has no last element");
    TRY(template_parts_elements(run, args->value, &values, &count));
    *out = count > 0 ? values[count - 1] : (struct template_value){.kind = TEMPLATE_UNDEFINED};
    return STATUS_OK;
}

enum status template_filter_reverse(struct template_run *run, const struct template_args *args,
                                    struct template_value *out)
{
    const struct template_value back[3] = {[2] = template_value_integer(-1)};
    if (args->value.kind == TEMPLATE_STRING)
        return template_parts_slice(run, args->value, back, out);
    TRY(template_filter_list(run, args, out));
    TRY(template_parts_slice(run, *out, back, out));
    out->kind = TEMPLATE_ITERATOR;
    return STATUS_OK;
}

enum status template_filter_items(struct template_run *run, const struct template_args *args,
                                  struct template_value *out)
{
    struct template_value dict = args->value;
    if (dict.kind == TEMPLATE_UNDEFINED)
        return template_value_make(run, TEMPLATE_ITERATOR, NULL, 0, out);
    if (dict.kind != TEMPLATE_DICT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no items", template_value_kind_name(dict));
    TRY(template_value_open(run, TEMPLATE_ITERATOR, dict.count, out));
    out->is_own = dict.is_own;
    for (uint32_t i = 0; i < dict.count; i++) {
        struct template_value *pair = &out->items->values[i];
        TRY(template_value_make(run, TEMPLATE_TUPLE, &dict.items->values[2 * i], 2, pair));
        pair->is_own = dict.is_own;
    }
    return template_value_close(run, out);
}

/* --- attributes of elements --- */

/* The attribute of an element: words with points between them, of which numbers are indices. */
static enum status attribute_of(struct template_run *run, struct template_value item,
                                struct template_value attribute, struct template_value *out)
{
    *out = item;
    if (attribute.kind == TEMPLATE_ABSENT || attribute.kind == TEMPLATE_NONE)
        return STATUS_OK;
    if (attribute.kind == TEMPLATE_INTEGER)
        return template_parts_item(run, item, attribute, out);
    if (attribute.kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "an attribute is a string or a number");
    struct slice text;
    TRY(template_string_flat(run, attribute, &text));
    for (size_t begin = 0; begin <= text.length;) {
        size_t end = template_string_find(text, begin, SLICE("."));
        end = end == SIZE_MAX ? text.length : end;
        struct template_value key;
        bool is_number = end > begin && end - begin <= 9;
        int64_t index = 0;
        for (size_t i = begin; i < end && is_number; i++) {
            is_number = text.bytes[i] >= '0' && text.bytes[i] <= '9';
            index = index * 10 + (text.bytes[i] - '0');
        }
        if (is_number)
            key = template_value_integer(index);
        else
            TRY(template_string_cut(run, attribute, begin, end, &key));
        TRY(template_parts_item(run, *out, key, out));
        begin = end + 1;
    }
    return STATUS_OK;
}

/* What elements are sorted and compared by. */
static enum status attribute_keys(struct template_run *run, const struct template_value *values,
                                  uint32_t count, struct template_value attribute,
                                  bool is_case_sensitive, struct template_value *out)
{
    if (attribute.kind == TEMPLATE_STRING) {
        struct slice text;
        TRY(template_string_flat(run, attribute, &text));
        if (template_string_find(text, 0, SLICE(",")) != SIZE_MAX)
            TEMPLATE_FAIL(run, STATUS_INVALID, "only one attribute can be sorted by");
    }
    TRY(template_value_open(run, TEMPLATE_LIST, count, out));
    for (uint32_t i = 0; i < count; i++) {
        struct template_value key;
        TRY(attribute_of(run, values[i], attribute, &key));
        if (key.kind == TEMPLATE_STRING && !is_case_sensitive)
            TRY(template_filter_change(run, key, TEMPLATE_FILTER_LOWER, &key));
        out->items->values[i] = key;
    }
    return template_value_close(run, out);
}

enum status template_filter_join(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    struct template_value between = args->at[0];
    struct template_value list;
    TRY(template_parts_elements(run, args->value, &values, &count));
    if (between.kind == TEMPLATE_ABSENT)
        TRY(template_string_make(run, (struct slice){NULL, 0}, true, &between));
    TRY(template_text_of(run, between, &between));
    TRY(attribute_keys(run, values, count, args->at[1], true, &list));
    return template_text_join(run, list.items->values, count, between, out);
}

enum status template_filter_sort(struct template_run *run, const struct template_args *args,
                                 struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    uint32_t *order = NULL;
    struct template_value keys;
    TRY(template_parts_elements(run, args->value, &values, &count));
    TRY(attribute_keys(run, values, count, args->at[2], template_value_is_true(args->at[1]),
                       &keys));
    TRY(template_sort_order(run, keys.items->values, count, template_value_is_true(args->at[0]),
                            &order));
    TRY(template_value_open(run, TEMPLATE_LIST, count, out));
    out->is_own = args->value.is_own;
    for (uint32_t i = 0; i < count; i++)
        out->items->values[i] = values[order[i]];
    return template_value_close(run, out);
}

enum status template_filter_dictsort(struct template_run *run, const struct template_args *args,
                                     struct template_value *out)
{
    struct template_value pairs;
    struct template_value keys;
    struct template_value by = template_value_integer(0);
    uint32_t *order = NULL;
    if (args->at[1].kind != TEMPLATE_ABSENT) {
        bool is_value = args->at[1].kind == TEMPLATE_STRING &&
                        template_string_is(run, args->at[1], SLICE("value"));
        if (!is_value && (args->at[1].kind != TEMPLATE_STRING ||
                          !template_string_is(run, args->at[1], SLICE("key"))))
            TEMPLATE_FAIL(run, STATUS_INVALID, "a mapping is sorted by 'key' or by 'value'");
        by = template_value_integer(is_value);
    }
    if (args->value.kind != TEMPLATE_DICT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no items",
                      template_value_kind_name(args->value));
    TRY(template_filter_items(run, args, &pairs));
    TRY(attribute_keys(run, pairs.items->values, pairs.count, by,
                       template_value_is_true(args->at[0]), &keys));
    TRY(template_sort_order(run, keys.items->values, pairs.count,
                            template_value_is_true(args->at[2]), &order));
    TRY(template_value_open(run, TEMPLATE_LIST, pairs.count, out));
    out->is_own = args->value.is_own;
    for (uint32_t i = 0; i < pairs.count; i++)
        out->items->values[i] = pairs.items->values[order[i]];
    return template_value_close(run, out);
}

enum status template_filter_unique(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    struct template_value keys;
    TRY(template_parts_elements(run, args->value, &values, &count));
    TRY(attribute_keys(run, values, count, args->at[1], template_value_is_true(args->at[0]),
                       &keys));
    struct template_value *seen = keys.items->values; /* the first `kept` of them */
    uint32_t kept = 0;
    TRY(template_value_open(run, TEMPLATE_ITERATOR, count, out));
    out->is_own = args->value.is_own;
    for (uint32_t i = 0; i < count; i++) {
        struct template_value key = seen[i];
        bool is_known = false;
        if (key.kind == TEMPLATE_LIST || key.kind == TEMPLATE_DICT)
            TEMPLATE_FAIL(run, STATUS_INVALID, "%s cannot be unique",
                          template_value_kind_name(key));
        for (uint32_t k = 0; k < kept && !is_known; k++)
            TRY(template_parts_equal(run, key, seen[k], &is_known));
        if (is_known)
            continue;
        out->items->values[kept] = values[i];
        seen[kept++] = key;
    }
    out->count = kept;
    out->items->count = kept;
    return template_value_close(run, out);
}

/* The element with the smallest key (sign = -1) or the largest (1); of equals the first. */
static enum status min_or_max(struct template_run *run, const struct template_args *args, int sign,
                              struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    struct template_value keys;
    uint32_t best = 0;
    TRY(template_parts_elements(run, args->value, &values, &count));
    TRY(attribute_keys(run, values, count, args->at[1], template_value_is_true(args->at[0]),
                       &keys));
    for (uint32_t i = 1; i < count; i++) {
        int order;
        TRY(template_run_charge(run, 0));
        TRY(template_parts_order(run, keys.items->values[i], keys.items->values[best], &order));
        if (order * sign > 0)
            best = i;
    }
    *out = count > 0 ? values[best] : (struct template_value){.kind = TEMPLATE_UNDEFINED};
    return STATUS_OK;
}

enum status template_filter_min(struct template_run *run, const struct template_args *args,
                                struct template_value *out)
{
    return min_or_max(run, args, -1, out);
}

enum status template_filter_max(struct template_run *run, const struct template_args *args,
                                struct template_value *out)
{
    return min_or_max(run, args, 1, out);
}

/* --- filters and tests for each element --- */

/* The elements; an empty or undefined value has none, of whatever kind it is. */
static enum status each_elements(struct template_run *run, struct template_value value,
                                 const struct template_value **values, uint32_t *count)
{
    *count = 0;
    return template_value_is_true(value) ? template_parts_elements(run, value, values, count)
                                         : STATUS_OK;
}

/* Splits the call into the name of a filter or test and the arguments behind it. */
static enum status each_name(struct template_run *run, const struct template_call *call,
                             uint32_t at, struct slice *name, struct template_call *rest)
{
    *rest = *call;
    *name = (struct slice){NULL, 0};
    if (at >= call->count)
        return STATUS_OK;
    if (call->values[at].kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "the name of a filter or test is a string");
    TRY(template_string_flat(run, call->values[at], name));
    rest->values += at + 1;
    rest->count -= at + 1;
    return STATUS_OK;
}

/* Keeps the elements, or what `attribute` of them is, for which the test is `wanted`. */
static enum status each_select(struct template_run *run, const struct template_args *args,
                               bool has_attribute, bool wanted, struct template_value *out)
{
    const struct template_call *call = args->call;
    const struct template_value *values = NULL;
    uint32_t count = 0;
    struct template_call rest;
    struct slice name;
    if (has_attribute && call->count == 0)
        TEMPLATE_FAIL(run, STATUS_INVALID, "the attribute is missing");
    TRY(each_name(run, call, has_attribute, &name, &rest));
    uint32_t test = name.bytes == NULL ? TEMPLATE_TEST_NONE : template_test_find(name);
    if (slice_is(name, "==") || slice_is(name, "!="))
        test = template_test_find(slice_is(name, "==") ? SLICE("eq") : SLICE("ne"));
    if (name.bytes != NULL && test == TEMPLATE_TEST_NONE)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a test of that name is not supported");
    TRY(each_elements(run, args->value, &values, &count));
    TRY(template_value_open(run, TEMPLATE_ITERATOR, count, out));
    out->is_own = args->value.is_own;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct template_value value = values[i];
        bool is_true = false;
        TRY(template_run_charge(run, 0));
        if (has_attribute)
            TRY(attribute_of(run, value, call->values[0], &value));
        if (test == TEMPLATE_TEST_NONE)
            is_true = template_value_is_true(value);
        else
            TRY(template_test_call(run, test, value, &rest, &is_true));
        if (is_true == wanted)
            out->items->values[kept++] = values[i];
    }
    out->count = kept;
    out->items->count = kept;
    return template_value_close(run, out);
}

enum status template_filter_select(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    return each_select(run, args, false, true, out);
}

enum status template_filter_reject(struct template_run *run, const struct template_args *args,
                                   struct template_value *out)
{
    return each_select(run, args, false, false, out);
}

enum status template_filter_selectattr(struct template_run *run, const struct template_args *args,
                                       struct template_value *out)
{
    return each_select(run, args, true, true, out);
}

enum status template_filter_rejectattr(struct template_run *run, const struct template_args *args,
                                       struct template_value *out)
{
    return each_select(run, args, true, false, out);
}

enum status template_filter_map(struct template_run *run, const struct template_args *args,
                                struct template_value *out)
{
    const struct template_call *call = args->call;
    const struct template_value *values = NULL;
    uint32_t count = 0;
    struct template_call rest;
    struct slice name;
    TRY(each_name(run, call, 0, &name, &rest));
    const struct template_value *attribute = template_call_named(run, call, "attribute");
    const struct template_value *missing = template_call_named(run, call, "default");
    uint32_t filter = template_filter_find(name);
    if (name.bytes == NULL && attribute == NULL)
        TEMPLATE_FAIL(run, STATUS_INVALID, "map needs a filter or an attribute");
    if (name.bytes != NULL && filter == TEMPLATE_FILTER_NONE)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a filter of that name is not supported");
    TRY(each_elements(run, args->value, &values, &count));
    TRY(template_value_open(run, TEMPLATE_ITERATOR, count, out));
    out->is_own = args->value.is_own;
    for (uint32_t i = 0; i < count; i++) {
        struct template_value value;
        TRY(template_run_charge(run, 0));
        if (name.bytes != NULL)
            TRY(template_filter_call(run, filter, values[i], &rest, &value));
        else
            TRY(attribute_of(run, values[i], *attribute, &value));
        if (name.bytes == NULL && value.kind == TEMPLATE_UNDEFINED && missing != NULL)
            value = *missing;
        out->items->values[i] = value;
    }
    return template_value_close(run, out);
}
