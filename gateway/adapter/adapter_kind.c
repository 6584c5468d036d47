#include "gateway/adapter/adapter_kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct adapter_kind *const kinds[] = {
#define ADAPTER_KIND(name) &adapter_##name,
#include "gateway/adapter/kinds.def"
#undef ADAPTER_KIND
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

const struct adapter_kind *adapter_kind_at(size_t index)
{
    return index < KINDS ? kinds[index] : NULL;
}

const struct adapter_kind *adapter_kind_named(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    return NULL;
}

const char *adapter_kind_names(void)
{
#define ADAPTER_KIND(name) ", " #name
    static const char names[] =
#include "gateway/adapter/kinds.def"
        ;
#undef ADAPTER_KIND
    return names + strlen(", ");
}

static void count_read(const json_t *object, const char *name, int64_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) <= LIMIT_CONTEXT) /* so that no sum over choices wraps */
        *out = json_integer_value(value);
}

void adapter_kind_usage(const json_t *frame, struct adapter_counts *out)
{
    const json_t *usage = json_object_get(frame, "usage");
    count_read(usage, "prompt_tokens", &out->prompt);
    count_read(usage, "completion_tokens", &out->completion);
    count_read(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &out->cached);
    count_read(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens",
               &out->reasoning);
}

uint32_t adapter_kind_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    return number > 0 && number <= LIMIT_CONTEXT ? (uint32_t)number : 0;
}

/* The value behind a series' name and labels: "name 3.0", "name{model=\"a\"} 3.0". */
static bool series_value(struct slice line, const char *name, double *out)
{
    char number[64];
    const size_t length = strlen(name);
    if (line.length <= length || memcmp(line.bytes, name, length) != 0)
        return false;
    size_t at = length;
    if (line.bytes[at] == '{') { /* labels may quote anything but a line's end */
        at = line.length;
        while (at > length && line.bytes[at - 1] != '}')
            at--;
    }
    if (at >= line.length || line.bytes[at] != ' ' || line.length - at >= sizeof number)
        return false;
    memcpy(number, line.bytes + at, line.length - at);
    number[line.length - at] = '\0';
    char *end = NULL;
    *out = strtod(number, &end);
    return end != number && isfinite(*out);
}

bool adapter_kind_series(struct slice text, const char *name, uint32_t *out)
{
    double sum = 0;
    bool is_there = false;
    while (text.length > 0) {
        const char *end = memchr(text.bytes, '\n', text.length);
        const size_t length = end != NULL ? (size_t)(end - text.bytes) : text.length;
        double value = 0;
        if (series_value((struct slice){text.bytes, length}, name, &value)) {
            sum += value;
            is_there = true;
        }
        const size_t taken = end != NULL ? length + 1 : length;
        text = (struct slice){text.bytes + taken, text.length - taken};
    }
    if (!is_there || !(sum >= 0 && sum <= LIMIT_CONTEXT))
        return false;
    *out = (uint32_t)sum;
    return true;
}
