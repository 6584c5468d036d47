#include "engine/models/hf_presplit.h"

static const struct {
    const char *name;
    bool is_nfc;
    bool ignores_merges;
    const char *pre_tokenizer;
} PRESPLITS[] = {
#define HF_PRESPLIT(name, nfc, ignores_merges, text) {name, nfc, ignores_merges, text},
#include "engine/models/hf_presplits.def"
};

const char *hf_presplit_find(struct slice pre_tokenizer, bool is_nfc, bool ignores_merges)
{
    for (size_t i = 0; i < sizeof PRESPLITS / sizeof PRESPLITS[0]; i++)
        if (PRESPLITS[i].is_nfc == is_nfc && PRESPLITS[i].ignores_merges == ignores_merges &&
            slice_is(pre_tokenizer, PRESPLITS[i].pre_tokenizer))
            return PRESPLITS[i].name;
    return NULL;
}

static struct slice step_text(const struct json_read *json, uint32_t at, const char *name)
{
    const struct json_read_value *value = json_read_member(json, at, name);
    if (value == NULL || value->kind != JSON_READ_STRING)
        return (struct slice){"", 0};
    return json_read_text(value);
}

/* A missing value is `fallback`. */
static bool step_is(const struct json_read *json, uint32_t at, const char *name, bool fallback)
{
    const struct json_read_value *value = json_read_member(json, at, name);
    return value != NULL ? value->kind == JSON_READ_TRUE : fallback;
}

/* "Split", " String" unless it is an expression, the pattern, and the behavior unless it is the
 * usual one. */
static void step_split(const struct json_read *json, uint32_t at, struct buffer *out)
{
    const struct json_read_value *pattern = json_read_member(json, at, "pattern");
    const struct slice behavior = step_text(json, at, "behavior");
    buffer_append_text(out, "Split ");
    if (pattern == NULL || pattern->kind != JSON_READ_OBJECT)
        return;
    const uint32_t inner = (uint32_t)(pattern - json->values);
    if (json_read_member(json, inner, "Regex") != NULL)
        buffer_append_slice(out, step_text(json, inner, "Regex"));
    else
        buffer_printf(out, "String '%.*s'", (int)step_text(json, inner, "String").length,
                      step_text(json, inner, "String").bytes);
    if (!slice_is(behavior, "Isolated"))
        buffer_printf(out, " %.*s", (int)behavior.length, behavior.bytes);
    if (step_is(json, at, "invert", false))
        buffer_append_text(out, " inverted");
}

static void step_replace(const struct json_read *json, uint32_t at, struct buffer *out)
{
    const struct json_read_value *pattern = json_read_member(json, at, "pattern");
    const struct slice content = step_text(json, at, "content");
    buffer_append_text(out, "Replace ");
    if (pattern != NULL && pattern->kind == JSON_READ_OBJECT) {
        const uint32_t inner = (uint32_t)(pattern - json->values);
        buffer_printf(out, "'%.*s'", (int)step_text(json, inner, "String").length,
                      step_text(json, inner, "String").bytes);
        if (json_read_member(json, inner, "Regex") != NULL)
            buffer_append_text(out, " expression");
    }
    buffer_printf(out, " by '%.*s'", (int)content.length, content.bytes);
}

static void step_describe(const struct json_read *json, uint32_t at, struct buffer *out)
{
    const struct slice type = step_text(json, at, "type");
    if (slice_is(type, "Split")) {
        step_split(json, at, out);
    } else if (slice_is(type, "Replace")) {
        step_replace(json, at, out);
    } else if (slice_is(type, "Prepend")) {
        const struct slice text = step_text(json, at, "prepend");
        buffer_printf(out, "Prepend '%.*s'", (int)text.length, text.bytes);
    } else if (slice_is(type, "Digits")) {
        buffer_append_text(out, "Digits");
        if (!step_is(json, at, "individual_digits", false))
            buffer_append_text(out, " together");
    } else if (slice_is(type, "ByteLevel")) {
        buffer_append_text(out, "ByteLevel");
        if (step_is(json, at, "use_regex", true))
            buffer_append_text(out, " words");
        if (step_is(json, at, "add_prefix_space", true))
            buffer_append_text(out, " with a blank before");
    } else {
        buffer_append_slice(out, type.length > 0 ? type : SLICE("a step without a type"));
    }
}

void hf_presplit_describe(const struct json_read *json, uint32_t at, struct buffer *out)
{
    const struct json_read_value *list = NULL;
    if (json->values[at].kind == JSON_READ_NULL)
        return;
    if (slice_is(step_text(json, at, "type"), "Sequence")) {
        list = json_read_member(json, at, "pretokenizers");
        if (list == NULL)
            list = json_read_member(json, at, "normalizers");
    }
    if (list == NULL || list->kind != JSON_READ_ARRAY) {
        step_describe(json, at, out);
        return;
    }
    uint32_t step = (uint32_t)(list - json->values) + 1;
    for (uint32_t i = 0; i < list->count; i++, step = json->values[step].next) {
        if (i > 0)
            buffer_append_text(out, "; ");
        step_describe(json, step, out);
    }
}
