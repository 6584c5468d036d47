#include "engine/text/template_function.h"

#include <time.h>

#include "engine/text/template_parts.h"
#include "engine/text/template_text.h"

enum { FUNCTION_DATE_BYTES = 128 /* of the form of a date */ };

#define TEMPLATE_FUNCTION(name, params)                                                            \
    static enum status template_function_##name(                                                   \
        struct template_run *run, const struct template_args *args, struct template_value *out);
#include "engine/text/template_functions.def"
#undef TEMPLATE_FUNCTION

static const struct {
    const char *name;
    const char *params;
    enum status (*call)(struct template_run *run, const struct template_args *args,
                        struct template_value *out);
} functions[] = {
#define TEMPLATE_FUNCTION(name, params) {#name, params, template_function_##name},
#include "engine/text/template_functions.def"
#undef TEMPLATE_FUNCTION
};

uint32_t template_function_find(struct slice name)
{
    for (uint32_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (slice_is(name, functions[i].name))
            return i;
    }
    return TEMPLATE_FUNCTION_NONE;
}

enum status template_function_call(struct template_run *run, uint32_t function,
                                   const struct template_call *call, struct template_value *out)
{
    struct template_args args;
    const struct template_value nothing = {.kind = TEMPLATE_ABSENT};
    TRY(template_run_charge(run, 0));
    TRY(template_call_bind(run, call, nothing, functions[function].params, &args));
    return functions[function].call(run, &args, out);
}

/* The pairs of a mapping given by position, then the named ones. */
static enum status pairs_of(struct template_run *run, const struct template_call *call,
                            struct template_value names)
{
    for (uint32_t i = 0; i < call->count; i++) {
        struct template_value from = call->values[i];
        if (from.kind != TEMPLATE_DICT)
            TEMPLATE_FAIL(run, STATUS_INVALID, "%s is not a mapping",
                          template_value_kind_name(from));
        for (uint32_t k = 0; k < from.count; k++)
            TRY(template_parts_set(run, names, from.items->values[2 * k],
                                   from.items->values[2 * k + 1]));
    }
    for (uint32_t i = 0; i < call->named_count; i++)
        TRY(template_parts_set(run, names, call->named[2 * i], call->named[2 * i + 1]));
    return STATUS_OK;
}

static enum status template_function_namespace(struct template_run *run,
                                               const struct template_args *args,
                                               struct template_value *out)
{
    void *memory = NULL;
    TRY(template_run_alloc(run, sizeof(struct template_namespace), &memory));
    *out = (struct template_value){.kind = TEMPLATE_NAMESPACE, .is_own = true, .names = memory};
    *out->names = (struct template_namespace){0};
    return pairs_of(run, args->call, *out);
}

static enum status template_function_dict(struct template_run *run,
                                          const struct template_args *args,
                                          struct template_value *out)
{
    struct template_value names;
    TRY(template_function_namespace(run, args, &names));
    return template_value_make(run, TEMPLATE_DICT, names.names->pairs, names.names->count, out);
}

static enum status template_function_range(struct template_run *run,
                                           const struct template_args *args,
                                           struct template_value *out)
{
    int64_t start;
    int64_t stop;
    int64_t step;
    bool is_alone = args->at[1].kind == TEMPLATE_ABSENT;
    if (args->at[0].kind == TEMPLATE_ABSENT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "range needs a number");
    TRY(template_call_integer(run, args->at[0], 0, &start));
    TRY(template_call_integer(run, args->at[1], 0, &stop));
    TRY(template_call_integer(run, args->at[2], 1, &step));
    if (is_alone) {
        stop = start;
        start = 0;
    }
    if (step == 0 || step == INT64_MIN)
        TEMPLATE_FAIL(run, STATUS_INVALID, "the step of a range is 0");
    int64_t span;
    bool is_wide = step > 0 ? __builtin_sub_overflow(stop, start, &span)
                            : __builtin_sub_overflow(start, stop, &span);
    int64_t stride = step > 0 ? step : -step;
    int64_t count = is_wide || span <= 0 ? 0 : (span - 1) / stride + 1;
    if (is_wide || count > LIMIT_TEMPLATE_RANGE)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "a range has more than %d numbers",
                      LIMIT_TEMPLATE_RANGE);
    TRY(template_value_open(run, TEMPLATE_RANGE, (size_t)count, out));
    for (int64_t i = 0; i < count; i++)
        out->items->values[i] = template_value_integer(start + i * step);
    return template_value_close(run, out);
}

/* The template refuses the messages. The error has its own words but none of the messages'. */
static enum status template_function_raise_exception(struct template_run *run,
                                                     const struct template_args *args,
                                                     struct template_value *out)
{
    struct template_value string;
    char text[STATUS_MESSAGE_BYTES / 2];
    size_t length = 0;
    if (args->at[0].kind == TEMPLATE_ABSENT)
        TEMPLATE_FAIL(run, STATUS_INVALID, "raise_exception needs a message");
    TRY(template_text_of(run, args->at[0], &string));
    for (uint32_t i = 0; i < string.count; i++) {
        struct template_piece piece = run->pieces[string.first + i];
        size_t room = sizeof(text) - 1 - length;
        size_t bytes = piece.text.length < room ? piece.text.length : room;
        if (!piece.is_own)
            continue;
        memcpy(text + length, piece.text.bytes, bytes);
        length += bytes;
    }
    text[length] = '\0';
    (void)out;
    TEMPLATE_FAIL(run, STATUS_INVALID, "%s", text);
}

/* Python's datetime.now().strftime(format). */
static enum status template_function_strftime_now(struct template_run *run,
                                                  const struct template_args *args,
                                                  struct template_value *out)
{
    char format[FUNCTION_DATE_BYTES];
    char text[4 * FUNCTION_DATE_BYTES];
    struct slice words;
    struct tm date;
    void *memory = NULL;
    if (args->at[0].kind != TEMPLATE_STRING)
        TEMPLATE_FAIL(run, STATUS_INVALID, "strftime_now needs a string");
    TRY(template_string_flat(run, args->at[0], &words));
    if (words.length >= sizeof format || memchr(words.bytes, '\0', words.length) != NULL)
        TEMPLATE_FAIL(run, STATUS_INVALID, "a date's form has at most %d bytes",
                      FUNCTION_DATE_BYTES - 1);
    memcpy(format, words.bytes, words.length);
    format[words.length] = '\0';
    time_t now = (time_t)(clock_wall_us(run->clock) / 1000000);
    if (localtime_r(&now, &date) == NULL)
        TEMPLATE_FAIL(run, STATUS_INVALID, "the date is not known");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the form is the template's */
    size_t length = strftime(text, sizeof text, format, &date);
#pragma GCC diagnostic pop
    TRY(template_run_alloc(run, length + 1, &memory));
    memcpy(memory, text, length);
    return template_string_make(run, (struct slice){memory, length},
                                template_string_is_own(run, args->at[0]), out);
}
