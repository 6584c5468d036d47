#include "gateway/adapter/adapter_kind.h"

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
