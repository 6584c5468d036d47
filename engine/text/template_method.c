#include "engine/text/template_method.h"

#include "config/base/utf8.h"
#include "engine/text/template_filter.h"
#include "engine/text/template_parts.h"
#include "engine/text/template_text.h"

enum method_owner { OWNER_string, OWNER_dict, OWNER_list };

#define TEMPLATE_METHOD(owner, name, params)                                                       \
    static enum status template_method_##owner##_##name(                                           \
        struct template_run *run, const struct template_args *args, struct template_value *out);
#define TEMPLATE_REFUSED(owner, name)
#include "engine/text/template_methods.def"
#undef TEMPLATE_METHOD
#undef TEMPLATE_REFUSED

static const struct {
    enum method_owner owner;
    const char *name;
    const char *params;
    enum status (*call)(struct template_run *run, const struct template_args *args,
                        struct template_value *out); /* NULL: refused when called */
} methods[] = {
#define TEMPLATE_METHOD(owner, name, params)                                                       \
    {OWNER_##owner, #name, params, template_method_##owner##_##name},
#define TEMPLATE_REFUSED(owner, name) {OWNER_##owner, #name, "*", NULL},
#include "engine/text/template_methods.def"
#undef TEMPLATE_METHOD
#undef TEMPLATE_REFUSED
};

enum { METHOD_COUNT = sizeof methods / sizeof methods[0] };

bool template_method_is_known(struct slice name)
{
    for (uint32_t i = 0; i < METHOD_COUNT; i++) {
        if (slice_is(name, methods[i].name))
            return true;
    }
    return false;
}

static bool attribute_method(struct template_value value, struct slice name, uint32_t *out)
{
    for (uint32_t i = 0; i < METHOD_COUNT; i++) {
        bool is_owner = methods[i].owner == OWNER_string ? value.kind == TEMPLATE_STRING
                        : methods[i].owner == OWNER_dict ? value.kind == TEMPLATE_DICT
                                                         : value.kind == TEMPLATE_LIST;
        /* What changes a value is undefined in the sandbox: it hides a key, fails if called. */
        if (is_owner && slice_is(name, methods[i].name)) {
            *out = i;
            return true;
        }
    }
    return false;
}

enum status template_method_attribute(struct template_run *run, struct template_value value,
                                      struct slice name, struct template_value *out)
{
    uint32_t method;
    const struct template_value *found = NULL;
    *out = (struct template_value){.kind = TEMPLATE_UNDEFINED};
    if (value.kind == TEMPLATE_UNDEFINED)
        TEMPLATE_FAIL(run, STATUS_INVALID, "an undefined value has no attribute '%.*s'",
                      (int)(name.length < 64 ? name.length : 64), name.bytes);
    if (value.is_safe)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a string behind the filter safe has no methods here");
    if (attribute_method(value, name, &method)) {
        if (methods[method].call == NULL)
            return STATUS_OK;
        TRY(template_value_make(run, TEMPLATE_METHOD, &value, 1, out));
        out->count = method;
        return STATUS_OK;
    }
    if (value.kind == TEMPLATE_DICT || value.kind == TEMPLATE_NAMESPACE)
        TRY(template_parts_find_name(run, value, name, &found));
    if (found != NULL)
        *out = *found;
    return STATUS_OK;
}

enum status template_method_call(struct template_run *run, struct template_value method,
                                 const struct template_call *call, struct template_value *out)
{
    struct template_args args;
    TRY(template_run_charge(run, 0));
    TRY(template_call_bind(run, call, method.items->values[0], methods[method.count].params,
                           &args));
    return methods[method.count].call(run, &args, out);
}

/* --- strings: those that are filters, too --- */

static enum status template_method_string_capitalize(struct template_run *run,
                                                     const struct template_args *args,
                                                     struct template_value *out)
{
    return template_filter_capitalize(run, args, out);
}

static enum status template_method_string_lower(struct template_run *run,
                                                const struct template_args *args,
                                                struct template_value *out)
{
    return template_filter_lower(run, args, out);
}

static enum status template_method_string_upper(struct template_run *run,
                                                const struct template_args *args,
                                                struct template_value *out)
{
    return template_filter_upper(run, args, out);
}

static enum status template_method_string_strip(struct template_run *run,
                                                const struct template_args *args,
                                                struct template_value *out)
{
    return template_string_strip(run, args->value, args->at[0], true, true, out);
}

static enum status template_method_string_lstrip(struct template_run *run,
                                                 const struct template_args *args,
                                                 struct template_value *out)
{
    return template_string_strip(run, args->value, args->at[0], true, false, out);
}

static enum status template_method_string_rstrip(struct template_run *run,
                                                 const struct template_args *args,
                                                 struct template_value *out)
{
    return template_string_strip(run, args->value, args->at[0], false, true, out);
}

static enum status template_method_string_replace(struct template_run *run,
                                                  const struct template_args *args,
                                                  struct template_value *out)
{
    int64_t most;
    TRY(template_call_integer(run, args->at[2], -1, &most));
    return template_filter_put(run, args->value, args->at[0], args->at[1], most, out);
}

static enum status template_method_string_join(struct template_run *run,
                                               const struct template_args *args,
                                               struct template_value *out)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    TRY(template_parts_elements(run, args->at[0], &values, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].kind != TEMPLATE_STRING)
            TEMPLATE_FAIL(run, STATUS_INVALID, "join needs strings, not %s",
                          template_value_kind_name(values[i]));
    }
    return template_text_join(run, values, count, args->value, out);
}

/* --- strings: searching --- */

/* Whether the string begins or ends with `part`, or with one of a tuple of parts. */
static enum status affix_is(struct template_run *run, const struct template_args *args, bool at_end,
                            struct template_value *out)
{
    struct slice text;
    struct template_value part = args->at[0];
    const struct template_value *parts = part.kind == TEMPLATE_TUPLE ? part.items->values : &part;
    uint32_t count = part.kind == TEMPLATE_TUPLE ? part.count : 1;
    bool is_so = false;
    TRY(template_string_flat(run, args->value, &text));
    for (uint32_t i = 0; i < count && !is_so; i++) {
        struct slice want;
        if (parts[i].kind != TEMPLATE_STRING)
            TEMPLATE_FAIL(run, STATUS_INVALID, "a string begins and ends with strings");
        TRY(template_string_flat(run, parts[i], &want));
        TRY(template_run_charge(run, want.length));
        if (want.length > text.length)
            continue;
        size_t from = at_end ? text.length - want.length : 0;
        is_so = slice_equals((struct slice){text.bytes + from, want.length}, want);
    }
    *out = template_value_bool(is_so);
    return STATUS_OK;
}

static enum status template_method_string_startswith(struct template_run *run,
                                                     const struct template_args *args,
                                                     struct template_value *out)
{
    return affix_is(run, args, false, out);
}

static enum status template_method_string_endswith(struct template_run *run,
                                                   const struct template_args *args,
                                                   struct template_value *out)
{
    return affix_is(run, args, true, out);
}

static enum status template_method_string_find(struct template_run *run,
                                               const struct template_args *args,
                                               struct template_value *out)
{
    struct slice text;
    struct slice want;
    struct template_value front;
    int64_t index = -1;
    if (args->at[0].kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "find needs a string");
    TRY(template_string_flat(run, args->value, &text));
    TRY(template_string_flat(run, args->at[0], &want));
    TRY(template_run_charge(run, text.length));
    size_t found = template_string_find(text, 0, want);
    if (found != SIZE_MAX) {
        TRY(template_string_cut(run, args->value, 0, found, &front));
        TRY(template_string_points(run, front, &index));
    }
    *out = template_value_integer(index);
    return STATUS_OK;
}

/* --- strings: splitting --- */

/* A list that grows as parts are found. */
struct split {
    struct template_run *run;
    struct template_value string;
    struct slice text;
    struct template_value *parts;
    uint32_t count;
    uint32_t capacity;
};

static enum status split_add(struct split *split, size_t from, size_t to)
{
    if (split->count == split->capacity) {
        void *memory = NULL;
        uint32_t capacity = split->capacity == 0 ? 8 : split->capacity * 2;
        TRY(template_run_alloc(split->run, capacity * sizeof(*split->parts), &memory));
        if (split->count > 0)
            memcpy(memory, split->parts, split->count * sizeof(*split->parts));
        split->parts = memory;
        split->capacity = capacity;
    }
    return template_string_cut(split->run, split->string, from, to, &split->parts[split->count++]);
}

/* Splits at white space, of which there is none at the ends of a part. */
static enum status split_blanks(struct split *split, int64_t most)
{
    static const struct slice blanks = {NULL, 0};
    struct slice text = split->text;
    size_t at = template_string_blank(text, blanks, false);
    while (at < text.length) {
        size_t end = at;
        size_t blank = 0;
        if (most >= 0 && split->count == (uint64_t)most)
            return split_add(split, at, text.length);
        while (end < text.length) {
            struct slice rest = {text.bytes + end, text.length - end};
            blank = template_string_blank(rest, blanks, false);
            if (blank > 0)
                break;
            size_t length = utf8_sequence_length(rest.bytes, rest.length);
            end += length == 0 ? 1 : length;
        }
        TRY(split_add(split, at, end));
        at = end + blank;
    }
    return STATUS_OK;
}

static enum status split_text(struct split *split, struct slice between, int64_t most)
{
    size_t begin = 0;
    while (most < 0 || split->count < (uint64_t)most) {
        size_t found = template_string_find(split->text, begin, between);
        if (found == SIZE_MAX)
            break;
        TRY(split_add(split, begin, found));
        begin = found + between.length;
    }
    return split_add(split, begin, split->text.length);
}

/* The same from the end; the parts come last first. */
static enum status split_text_back(struct split *split, struct slice between, int64_t most)
{
    size_t end = split->text.length;
    while (most < 0 || split->count < (uint64_t)most) {
        size_t found = SIZE_MAX;
        for (size_t at = end; at >= between.length && found == SIZE_MAX; at--) {
            if (memcmp(split->text.bytes + at - between.length, between.bytes, between.length) == 0)
                found = at - between.length;
        }
        if (found == SIZE_MAX)
            break;
        TRY(template_run_charge(split->run, end - found));
        TRY(split_add(split, found + between.length, end));
        end = found;
    }
    TRY(split_add(split, 0, end));
    for (uint32_t i = 0; i < split->count / 2; i++) {
        struct template_value one = split->parts[i];
        split->parts[i] = split->parts[split->count - 1 - i];
        split->parts[split->count - 1 - i] = one;
    }
    return STATUS_OK;
}

static enum status split_finish(const struct split *split, struct template_value *out)
{
    TRY(template_value_make(split->run, TEMPLATE_LIST, split->parts, split->count, out));
    out->is_own = template_string_is_own(split->run, split->string);
    return STATUS_OK;
}

static enum status split_string(struct template_run *run, const struct template_args *args,
                                bool is_back, struct template_value *out)
{
    struct template_value sep = args->at[0];
    struct slice between = {NULL, 0};
    int64_t most;
    struct split split = {.run = run, .string = args->value};
    TRY(template_call_integer(run, args->at[1], -1, &most));
    TRY(template_string_flat(run, args->value, &split.text));
    TRY(template_run_charge(run, split.text.length));
    if (sep.kind == TEMPLATE_ABSENT || sep.kind == TEMPLATE_NONE) {
        if (is_back && most >= 0)
            TEMPLATE_FAIL(run, STATUS_INVALID, "rsplit needs a string to split at");
        TRY(split_blanks(&split, most));
        return split_finish(&split, out);
    }
    if (sep.kind != TEMPLATE_STRING || sep.count == 0)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a string is split at a string that is not empty");
    TRY(template_string_flat(run, sep, &between));
    TRY(is_back ? split_text_back(&split, between, most) : split_text(&split, between, most));
    return split_finish(&split, out);
}

static enum status template_method_string_split(struct template_run *run,
                                                const struct template_args *args,
                                                struct template_value *out)
{
    return split_string(run, args, false, out);
}

static enum status template_method_string_rsplit(struct template_run *run,
                                                 const struct template_args *args,
                                                 struct template_value *out)
{
    return split_string(run, args, true, out);
}

static enum status template_method_string_splitlines(struct template_run *run,
                                                     const struct template_args *args,
                                                     struct template_value *out)
{
    struct split split = {.run = run, .string = args->value};
    size_t begin = 0;
    TRY(template_string_flat(run, args->value, &split.text));
    TRY(template_run_charge(run, split.text.length));
    for (size_t at = 0; at < split.text.length;) {
        size_t end = template_string_line_end(split.text, at);
        if (end == 0) {
            at++;
            continue;
        }
        TRY(split_add(&split, begin, at));
        at += end;
        begin = at;
    }
    if (begin < split.text.length)
        TRY(split_add(&split, begin, split.text.length));
    return split_finish(&split, out);
}

/* --- strings: format --- */

/* The argument of a replacement field: a number, a name, or the next one. */
static enum status format_argument(struct template_run *run, const struct template_call *call,
                                   struct slice field, uint32_t *next, struct template_value *out)
{
    uint32_t index = 0;
    bool is_number = field.length > 0 && field.length < 4;
    for (size_t i = 0; i < field.length; i++) {
        is_number = is_number && field.bytes[i] >= '0' && field.bytes[i] <= '9';
        index = index * 10 + (uint32_t)(field.bytes[i] - '0');
    }
    if (field.length == 0) {
        index = (*next)++;
        is_number = true;
    }
    if (is_number && index < call->count) {
        *out = call->values[index];
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < call->named_count && !is_number; i++) {
        if (template_string_is(run, call->named[2 * i], field)) {
            *out = call->named[2 * i + 1];
            return STATUS_OK;
        }
    }
    TEMPLATE_FAIL(run, STATUS_INVALID, "format has no argument for a field");
}

/* Writes the string's text with its fields replaced. */
static enum status format_write(struct template_writer *writer, const struct template_args *args)
{
    struct template_run *run = writer->run;
    struct slice text;
    uint32_t next = 0;
    uint32_t piece = 0;
    size_t before = 0;
    size_t done = 0;
    TRY(template_string_flat(run, args->value, &text));
    for (size_t at = 0; at < text.length; at++) {
        char c = text.bytes[at];
        if (c != '{' && c != '}')
            continue;
        bool is_double = at + 1 < text.length && text.bytes[at + 1] == c;
        TRY(template_string_write_range(writer, args->value, done, at + is_double, &piece,
                                        &before));
        if (is_double) {
            at++;
            done = at + 1;
            continue;
        }
        size_t end = template_string_find(text, at, SLICE("}"));
        if (c == '}' || end == SIZE_MAX)
            TEMPLATE_FAIL(run, STATUS_INVALID, "format has a single brace");
        struct slice field = {text.bytes + at + 1, end - at - 1};
        struct template_value value;
        if (memchr(field.bytes, ':', field.length) != NULL ||
            memchr(field.bytes, '!', field.length) != NULL)
            TEMPLATE_FAIL(run, STATUS_INVALID, "format takes fields without a form only");
        TRY(format_argument(run, args->call, field, &next, &value));
        TRY(template_text_of(run, value, &value));
        TRY(template_string_write_value(writer, value));
        at = end;
        done = end + 1;
    }
    return template_string_write_range(writer, args->value, done, text.length, &piece, &before);
}

static enum status template_method_string_format(struct template_run *run,
                                                 const struct template_args *args,
                                                 struct template_value *out)
{
    struct template_writer writer;
    template_string_begin(&writer, run);
    enum status status = format_write(&writer, args);
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

/* --- mappings --- */

static enum status template_method_dict_get(struct template_run *run,
                                            const struct template_args *args,
                                            struct template_value *out)
{
    const struct template_value *found = NULL;
    if (args->at[0].kind == TEMPLATE_ABSENT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "get needs a key");
    TRY(template_parts_find(run, args->value, args->at[0], &found));
    *out = found != NULL ? *found : args->at[1];
    if (out->kind == TEMPLATE_ABSENT)
        *out = (struct template_value){.kind = TEMPLATE_NONE, .is_own = true};
    return STATUS_OK;
}

static enum status template_method_dict_items(struct template_run *run,
                                              const struct template_args *args,
                                              struct template_value *out)
{
    TRY(template_filter_items(run, args, out));
    out->kind = TEMPLATE_VIEW;
    return STATUS_OK;
}

/* Every second value: the keys from 0, the values from 1. */
static enum status dict_view(struct template_run *run, struct template_value dict, uint32_t from,
                             struct template_value *out)
{
    TRY(template_value_open(run, TEMPLATE_VIEW, dict.count, out));
    out->is_own = dict.is_own;
    for (uint32_t i = 0; i < dict.count; i++)
        out->items->values[i] = dict.items->values[2 * i + from];
    return template_value_close(run, out);
}

static enum status template_method_dict_keys(struct template_run *run,
                                             const struct template_args *args,
                                             struct template_value *out)
{
    return dict_view(run, args->value, 0, out);
}

static enum status template_method_dict_values(struct template_run *run,
                                               const struct template_args *args,
                                               struct template_value *out)
{
    return dict_view(run, args->value, 1, out);
}
