#include "engine/text/template_parts.h"

#include "config/base/utf8.h"

static bool parts_is_text(struct template_value value)
{
    return value.kind == TEMPLATE_STRING;
}

static bool parts_has_items(struct template_value value)
{
    return value.kind >= TEMPLATE_LIST && value.kind <= TEMPLATE_ITERATOR;
}

/* --- equality and order --- */

/* Exact where a double is compared with an integer: 64 bits fit in the mantissa. */
static long double parts_number(struct template_value value)
{
    return value.kind == TEMPLATE_FLOAT ? (long double)value.number : (long double)value.integer;
}

/* Equality of two values without elements. */
static enum status equal_leaves(struct template_run *run, struct template_value a,
                                struct template_value b, bool *is_equal)
{
    int order;
    *is_equal = false;
    if (template_value_is_small_number(a) && template_value_is_small_number(b)) {
        *is_equal = parts_number(a) == parts_number(b); /* True == 1, as in Python */
        return STATUS_OK;
    }
    if (a.kind != b.kind)
        return STATUS_OK;
    switch (a.kind) {
    case TEMPLATE_STRING:
    case TEMPLATE_BIG:
        TRY(template_string_compare(run, a, b, &order));
        *is_equal = order == 0;
        return STATUS_OK;
    case TEMPLATE_NAMESPACE:
        *is_equal = a.names == b.names;
        return STATUS_OK;
    case TEMPLATE_ITERATOR:
    case TEMPLATE_VIEW:
        *is_equal = a.items == b.items;
        return STATUS_OK;
    case TEMPLATE_METHOD:
        TEMPLATE_FAIL(run, STATUS_INVALID, "methods cannot be compared");
    default: /* undefined values and none are equal among themselves */
        *is_equal = a.count == b.count;
        return STATUS_OK;
    }
}

struct equal_frame {
    struct template_value a;
    struct template_value b;
    uint32_t index;
};

/* Whether two values have elements to compare one by one. If not, sets `*is_equal`. */
static enum status equal_enter(struct template_run *run, struct template_value a,
                               struct template_value b, bool *has_elements, bool *is_equal)
{
    TRY(template_run_charge(run, 0));
    *has_elements = a.kind == b.kind && (template_value_is_sequence(a) || a.kind == TEMPLATE_DICT);
    if (!*has_elements)
        return equal_leaves(run, a, b, is_equal);
    *is_equal = a.count == b.count;
    *has_elements = *is_equal && a.count > 0;
    return STATUS_OK;
}

/* The next two values to compare; `*is_found` is false when b lacks a's key. */
static enum status equal_next(struct template_run *run, struct equal_frame *frame,
                              struct template_value *a, struct template_value *b, bool *is_found)
{
    uint32_t i = frame->index++;
    *is_found = true;
    if (frame->a.kind != TEMPLATE_DICT) {
        *a = frame->a.items->values[i];
        *b = frame->b.items->values[i];
        return STATUS_OK;
    }
    const struct template_value *found = NULL;
    TRY(template_parts_find(run, frame->b, frame->a.items->values[2 * i], &found));
    *is_found = found != NULL;
    if (!*is_found)
        return STATUS_OK;
    *a = frame->a.items->values[2 * i + 1];
    *b = *found;
    return STATUS_OK;
}

enum status template_parts_equal(struct template_run *run, struct template_value a,
                                 struct template_value b, bool *is_equal)
{
    struct equal_frame frames[LIMIT_TEMPLATE_VALUE_DEPTH];
    uint32_t depth = 0;
    bool has_elements = false;
    TRY(equal_enter(run, a, b, &has_elements, is_equal));
    if (has_elements)
        frames[depth++] = (struct equal_frame){a, b, 0};
    while (depth > 0 && *is_equal) {
        struct equal_frame *top = &frames[depth - 1];
        if (top->index == top->a.count) {
            depth--;
            continue;
        }
        TRY(equal_next(run, top, &a, &b, is_equal));
        if (!*is_equal)
            break;
        TRY(equal_enter(run, a, b, &has_elements, is_equal));
        if (has_elements)
            frames[depth++] = (struct equal_frame){a, b, 0};
    }
    return STATUS_OK;
}

enum status template_parts_order(struct template_run *run, struct template_value a,
                                 struct template_value b, int *order)
{
    if (parts_is_text(a) && parts_is_text(b))
        return template_string_compare(run, a, b, order);
    if (!template_value_is_small_number(a) || !template_value_is_small_number(b))
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s and %s have no order", template_value_kind_name(a),
                      template_value_kind_name(b));
    long double x = parts_number(a);
    long double y = parts_number(b);
    *order = (x > y) - (x < y);
    return STATUS_OK;
}

enum status template_parts_in(struct template_run *run, struct template_value needle,
                              struct template_value hay, bool *is_in)
{
    *is_in = false;
    if (hay.kind == TEMPLATE_STRING && needle.kind == TEMPLATE_STRING) {
        struct slice large;
        struct slice small;
        TRY(template_string_flat(run, hay, &large));
        TRY(template_string_flat(run, needle, &small));
        TRY(template_run_charge(run, large.length));
        *is_in = template_string_find(large, 0, small) != SIZE_MAX;
        return STATUS_OK;
    }
    if (hay.kind == TEMPLATE_UNDEFINED)
        return STATUS_OK;
    if (hay.kind == TEMPLATE_DICT) {
        const struct template_value *found = NULL;
        TRY(template_parts_find(run, hay, needle, &found));
        *is_in = found != NULL;
        return STATUS_OK;
    }
    if (!parts_has_items(hay))
        TEMPLATE_FAIL(run, STATUS_INVALID, "'in' does not look for %s in %s",
                      template_value_kind_name(needle), template_value_kind_name(hay));
    const struct template_value *values = NULL;
    uint32_t count = 0;
    TRY(template_parts_elements(run, hay, &values, &count));
    for (uint32_t i = 0; i < count && !*is_in; i++)
        TRY(template_parts_equal(run, needle, values[i], is_in));
    return STATUS_OK;
}

/* --- parts --- */

static const struct template_value *find_pairs(struct template_value dict, uint32_t *count)
{
    if (dict.kind == TEMPLATE_NAMESPACE) {
        *count = dict.names->count;
        return dict.names->pairs;
    }
    ASSERT(dict.kind == TEMPLATE_DICT);
    *count = dict.count;
    return dict.items->values;
}

enum status template_parts_find_name(struct template_run *run, struct template_value dict,
                                     struct slice name, const struct template_value **out)
{
    uint32_t count;
    const struct template_value *pairs = find_pairs(dict, &count);
    *out = NULL;
    TRY(template_run_charge(run, count * sizeof(*pairs) + name.length));
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[2 * i].kind == TEMPLATE_STRING && template_string_is(run, pairs[2 * i], name)) {
            *out = &pairs[2 * i + 1];
            break;
        }
    }
    return STATUS_OK;
}

enum status template_parts_find(struct template_run *run, struct template_value dict,
                                struct template_value key, const struct template_value **out)
{
    if (key.kind == TEMPLATE_STRING) {
        struct slice name;
        TRY(template_string_flat(run, key, &name));
        return template_parts_find_name(run, dict, name, out);
    }
    uint32_t count;
    const struct template_value *pairs = find_pairs(dict, &count);
    *out = NULL;
    for (uint32_t i = 0; i < count && *out == NULL; i++) {
        bool is_equal;
        TRY(template_parts_equal(run, key, pairs[2 * i], &is_equal));
        if (is_equal)
            *out = &pairs[2 * i + 1];
    }
    return STATUS_OK;
}

/* Offset of the character at `index`, or SIZE_MAX. */
static size_t item_offset(struct slice text, int64_t index)
{
    size_t at = 0;
    for (; index > 0 && at < text.length; index--)
        at += utf8_sequence_length(text.bytes + at, text.length - at);
    return at < text.length ? at : SIZE_MAX;
}

static enum status item_character(struct template_run *run, struct template_value string,
                                  int64_t index, struct template_value *out)
{
    struct slice text;
    int64_t count;
    TRY(template_string_points(run, string, &count));
    index += index < 0 ? count : 0;
    if (index < 0 || index >= count)
        return STATUS_OK;
    TRY(template_string_flat(run, string, &text));
    size_t at = item_offset(text, index);
    ASSERT(at != SIZE_MAX);
    return template_string_cut(run, string, at,
                               at + utf8_sequence_length(text.bytes + at, text.length - at), out);
}

enum status template_parts_item(struct template_run *run, struct template_value value,
                                struct template_value key, struct template_value *out)
{
    bool is_index = key.kind == TEMPLATE_INTEGER || key.kind == TEMPLATE_BOOL;
    const struct template_value *found = NULL;
    *out = (struct template_value){.kind = TEMPLATE_UNDEFINED};
    if (value.kind == TEMPLATE_UNDEFINED)
        TEMPLATE_FAIL(run, STATUS_INVALID, "an undefined value has no parts");
    if (value.kind == TEMPLATE_DICT) {
        TRY(template_parts_find(run, value, key, &found));
        if (found != NULL) {
            *out = *found;
            return STATUS_OK;
        }
    }
    if (template_value_is_sequence(value) && is_index) {
        int64_t index = key.integer + (key.integer < 0 ? value.count : 0);
        if (index >= 0 && index < value.count)
            *out = value.items->values[index];
        return STATUS_OK;
    }
    if (value.kind == TEMPLATE_STRING && is_index)
        return item_character(run, value, key.integer, out);
    return STATUS_OK;
}

/* Python's bounds of a slice: the first index, how many, with the step's sign. */
static enum status slice_bounds(struct template_run *run, int64_t length,
                                const struct template_value parts[3], int64_t *start,
                                int64_t *count, int64_t *step)
{
    int64_t bounds[3] = {0, 0, 1};
    bool is_given[3];
    for (int i = 0; i < 3; i++) {
        is_given[i] = parts[i].kind != TEMPLATE_ABSENT && parts[i].kind != TEMPLATE_NONE;
        if (is_given[i] && parts[i].kind != TEMPLATE_INTEGER && parts[i].kind != TEMPLATE_BOOL)
            TEMPLATE_FAIL(run, STATUS_INVALID, "a slice needs numbers");
        if (is_given[i])
            bounds[i] = parts[i].integer;
    }
    if (bounds[2] == 0)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a slice's step is 0");
    *step = bounds[2];
    int64_t low = *step > 0 ? 0 : -1;
    int64_t high = *step > 0 ? length : length - 1;
    for (int i = 0; i < 2; i++) {
        if (!is_given[i])
            bounds[i] = (i == 0) == (*step > 0) ? low : high;
        else if (bounds[i] < 0)
            bounds[i] = bounds[i] < -length ? low : bounds[i] + length;
        else if (bounds[i] > high)
            bounds[i] = high;
        if (bounds[i] < low)
            bounds[i] = low;
    }
    *start = bounds[0];
    int64_t span = *step > 0 ? bounds[1] - bounds[0] : bounds[0] - bounds[1];
    /* A step beyond the length takes one element; that also keeps the sums below in range. */
    int64_t stride = *step > length + 1 || *step < -length - 1 ? length + 1
                     : *step > 0                               ? *step
                                                               : -*step;
    *count = span <= 0 ? 0 : (span + stride - 1) / stride;
    if (*count <= 1)
        *step = 1;
    return STATUS_OK;
}

static enum status slice_string(struct template_run *run, struct template_value string,
                                const struct template_value parts[3], struct template_value *out)
{
    struct slice text;
    int64_t length;
    int64_t start;
    int64_t count;
    int64_t step;
    TRY(template_string_points(run, string, &length));
    TRY(slice_bounds(run, length, parts, &start, &count, &step));
    TRY(template_string_flat(run, string, &text));
    if (count == 0)
        return template_string_make(run, (struct slice){NULL, 0}, true, out);
    if (step == 1) {
        size_t from = item_offset(text, start);
        struct slice rest = {text.bytes + from, text.length - from};
        size_t bytes = item_offset(rest, count);
        return template_string_cut(run, string, from,
                                   bytes == SIZE_MAX ? text.length : from + bytes, out);
    }
    struct template_writer writer;
    template_string_begin(&writer, run);
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        size_t from = item_offset(text, start + i * step);
        uint32_t piece = 0;
        size_t before = 0;
        status = template_run_charge(run, from);
        if (status == STATUS_OK)
            status = template_string_write_range(
                &writer, string, from,
                from + utf8_sequence_length(text.bytes + from, text.length - from), &piece,
                &before);
    }
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

enum status template_parts_slice(struct template_run *run, struct template_value value,
                                 const struct template_value parts[3], struct template_value *out)
{
    int64_t start;
    int64_t count;
    int64_t step;
    if (value.kind == TEMPLATE_STRING)
        return slice_string(run, value, parts, out);
    if (!template_value_is_sequence(value))
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s has no slices", template_value_kind_name(value));
    TRY(slice_bounds(run, value.count, parts, &start, &count, &step));
    TRY(template_value_open(run, value.kind, (size_t)count, out));
    out->is_own = value.is_own;
    for (int64_t i = 0; i < count; i++)
        out->items->values[i] = value.items->values[start + i * step];
    return template_value_close(run, out);
}

enum status template_parts_set(struct template_run *run, struct template_value names,
                               struct template_value name, struct template_value value)
{
    const struct template_value *found = NULL;
    if (names.kind != TEMPLATE_NAMESPACE)
        TEMPLATE_FAIL(run, STATUS_INVALID, "attributes can be set on namespaces only");
    TRY(template_parts_find(run, names, name, &found));
    struct template_namespace *space = names.names;
    if (found != NULL) {
        space->pairs[found - space->pairs] = value;
        return STATUS_OK;
    }
    if (space->count == space->capacity) {
        uint32_t capacity = space->capacity == 0 ? 8 : space->capacity * 2;
        void *pairs = NULL;
        TRY(template_run_alloc(run, 2 * capacity * sizeof(*space->pairs), &pairs));
        if (space->count > 0)
            memcpy(pairs, space->pairs, 2 * space->count * sizeof(*space->pairs));
        space->pairs = pairs;
        space->capacity = capacity;
    }
    space->pairs[2 * space->count] = name;
    space->pairs[2 * space->count + 1] = value;
    space->count++;
    return STATUS_OK;
}

/* --- elements --- */

static enum status elements_of_string(struct template_run *run, struct template_value string,
                                      struct template_value *out)
{
    struct slice text;
    int64_t count;
    TRY(template_string_points(run, string, &count));
    TRY(template_string_flat(run, string, &text));
    TRY(template_value_open(run, TEMPLATE_LIST, (size_t)count, out));
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length = utf8_sequence_length(text.bytes + at, text.length - at);
        TRY(template_string_cut(run, string, at, at + length, &out->items->values[i]));
        at += length;
    }
    return template_value_close(run, out);
}

enum status template_parts_elements(struct template_run *run, struct template_value value,
                                    const struct template_value **out, uint32_t *count)
{
    struct template_value list = value;
    if (value.kind == TEMPLATE_UNDEFINED) {
        *count = 0;
        return STATUS_OK;
    }
    if (value.kind == TEMPLATE_STRING) {
        TRY(elements_of_string(run, value, &list));
    } else if (value.kind == TEMPLATE_DICT) {
        TRY(template_value_open(run, TEMPLATE_LIST, value.count, &list));
        for (uint32_t i = 0; i < value.count; i++)
            list.items->values[i] = value.items->values[2 * i];
    } else if (!parts_has_items(value)) {
        TEMPLATE_FAIL(run, STATUS_INVALID, "%s cannot be iterated",
                      template_value_kind_name(value));
    }
    *out = list.items->values;
    *count = list.items->count;
    if (value.kind == TEMPLATE_ITERATOR) {
        if (list.items->is_spent)
            *count = 0;
        list.items->is_spent = true;
    }
    return STATUS_OK;
}
