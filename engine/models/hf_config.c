#include "engine/models/hf_config.h"

#include <string.h>

/* --- keys that the row does not use --- */

static const struct {
    const char *name;
    uint32_t features;
} CONFIG_KEYS[] = {
#define HF_KEY(of, needs) {of, needs},
#define HF_KEY_OFF(of, off)
#define HF_KEY_FREE(of) {of, 0},
#include "engine/models/hf_config_keys.def"
};

static const struct {
    const char *name;
    double off;
} CONFIG_KEYS_OFF[] = {
#define HF_KEY(of, needs)
#define HF_KEY_OFF(of, off) {of, off},
#define HF_KEY_FREE(of)
#include "engine/models/hf_config_keys.def"
};

static bool config_is_off(const struct json_read_value *value, double off)
{
    double number;
    if (json_read_number(value, &number))
        return number == 0 || number == off;
    return value->kind == JSON_READ_NULL || value->kind == JSON_READ_FALSE ||
           (value->kind == JSON_READ_ARRAY && value->count == 0);
}

static bool config_knows(const struct hf_reader *reader, struct slice name,
                         const struct json_read_value *value)
{
    for (size_t i = 0; i < sizeof CONFIG_KEYS / sizeof CONFIG_KEYS[0]; i++)
        if (slice_is(name, CONFIG_KEYS[i].name) &&
            (CONFIG_KEYS[i].features == 0 || hf_reader_is(reader, CONFIG_KEYS[i].features)))
            return true;
    for (size_t i = 0; i < sizeof CONFIG_KEYS_OFF / sizeof CONFIG_KEYS_OFF[0]; i++)
        if (slice_is(name, CONFIG_KEYS_OFF[i].name) && config_is_off(value, CONFIG_KEYS_OFF[i].off))
            return true;
    return false;
}

static enum status config_refuse_unknown(const struct hf_reader *reader)
{
    const struct json_read_value *values = reader->json->values;
    uint32_t at = reader->object + 1;
    for (uint32_t i = 0; i < values[reader->object].count; i++) {
        const struct slice name = json_read_text(&values[at]);
        if (!config_knows(reader, name, &values[at + 1]))
            FAIL(STATUS_UNSUPPORTED, "%s: key '%.*s' is not supported for %s models", reader->file,
                 (int)(name.length < 64 ? name.length : 64), name.bytes, reader->arch->name);
        at = values[at + 1].next;
    }
    return STATUS_OK;
}

/* --- the class --- */

/* Whether `name` is one of `classes`, each of which has a blank behind it. */
static bool config_has_class(const char *classes, struct slice name)
{
    while (*classes != '\0') {
        const size_t length = strcspn(classes, " ");
        if (slice_equals(name, (struct slice){classes, length}))
            return true;
        classes += length + 1;
    }
    return false;
}

static enum status config_class(struct hf_config *out, const struct hf_reader *reader)
{
    const struct json_read_value *list = hf_reader_get(reader, "architectures");
    if (list == NULL || list->kind != JSON_READ_ARRAY || list->count != 1 ||
        list[1].kind != JSON_READ_STRING)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "architectures", "is no list of one class");
    const struct slice name = json_read_text(list + 1);
    for (uint32_t i = 0; (out->arch = arch_at(i)) != NULL; i++)
        if (config_has_class(out->arch->classes, name))
            return STATUS_OK;
    FAIL(STATUS_UNSUPPORTED, "%s: models of class '%.*s' are not supported", reader->file,
         (int)(name.length < 64 ? name.length : 64), name.bytes);
}

/* --- sizes --- */

static enum status config_copy(const struct hf_reader *reader, const char *name, const char *key,
                               uint32_t *out)
{
    TRY(hf_reader_count(reader, name, out, NULL));
    hf_reader_put_u32(reader, key, *out);
    return STATUS_OK;
}

static enum status config_heads(struct hf_config *out, const struct hf_reader *reader,
                                uint32_t width, uint32_t layers)
{
    uint32_t heads = 0;
    uint32_t number = 0;
    double scalar;
    bool has;
    TRY(config_copy(reader, "num_attention_heads", "attention.head_count", &heads));
    number = heads;
    TRY(hf_reader_count(reader, "num_key_value_heads", &number, &has));
    hf_reader_put_u32(reader, "attention.head_count_kv", number);
    TRY(hf_reader_count(reader, "head_dim", &out->head_dim, &has));
    if (heads < 1 || heads > width)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "num_attention_heads", "is out of range");
    if (!has && (width % heads != 0 ||
                 hf_reader_is(reader, ARCH_HEAD_NORMS | ARCH_NORM_OFFSET | ARCH_SINKS)))
        return hf_reader_refuse(reader, STATUS_CORRUPT, "head_dim", "is missing");
    if (!has)
        out->head_dim = width / heads;
    if (out->head_dim < 2 || out->head_dim > LIMIT_HEAD_DIM)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "head_dim", "is out of range");
    hf_reader_put_u32(reader, "attention.key_length", out->head_dim);
    hf_reader_put_u32(reader, "attention.value_length", out->head_dim);
    TRY(hf_reader_real(reader, "query_pre_attn_scalar", &scalar, &has));
    const uint32_t used = reader->arch->wide_layers == layers ? width / heads : out->head_dim;
    if (has && scalar != used)
        FAIL(STATUS_UNSUPPORTED,
             "%s: query_pre_attn_scalar is %g; for this %s model only %u is "
             "supported",
             reader->file, scalar, reader->arch->name, used);
    return STATUS_OK;
}

/* One of two names of a number; `*out` keeps its value where both are missing. */
static enum status config_either(const struct hf_reader *reader, const char *name,
                                 const char *other, uint32_t *out)
{
    uint32_t second = 0;
    bool has;
    bool has_other;
    TRY(hf_reader_count(reader, name, out, &has));
    TRY(hf_reader_count(reader, other, &second, &has_other));
    if (has && has_other && *out != second)
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "has two different values");
    if (has_other)
        *out = second;
    return STATUS_OK;
}

static enum status config_experts(const struct hf_reader *reader)
{
    const bool is_normalised = hf_reader_is(reader, ARCH_NORMALISED);
    uint32_t experts = 0;
    uint32_t used = 0;
    uint32_t hidden = 0;
    bool has;
    bool norm = is_normalised;
    if (!hf_reader_is(reader, ARCH_EXPERTS))
        return STATUS_OK;
    TRY(config_either(reader, "num_local_experts", "num_experts", &experts));
    TRY(config_either(reader, "num_experts_per_tok", "experts_per_token", &used));
    TRY(hf_reader_bool(reader, "norm_topk_prob", &norm, &has));
    if (experts == 0 && hf_reader_is(reader, ARCH_DENSE))
        return STATUS_OK;
    if (experts == 0)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "num_experts", "is missing");
    if (norm != is_normalised)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "norm_topk_prob",
                                "has a value that is not supported for this class");
    hf_reader_put_u32(reader, "expert_count", experts);
    hf_reader_put_u32(reader, "expert_used_count", used);
    TRY(hf_reader_count(reader, "moe_intermediate_size", &hidden, &has));
    if (has)
        hf_reader_put_u32(reader, "expert_feed_forward_length", hidden);
    else if (hf_reader_is(reader, ARCH_HEAD_NORMS))
        return hf_reader_refuse(reader, STATUS_CORRUPT, "moe_intermediate_size", "is missing");
    return STATUS_OK;
}

/* --- kinds of layers --- */

static enum status config_layer_types(const struct hf_reader *reader, uint32_t layers,
                                      uint32_t window)
{
    const struct json_read_value *list = hf_reader_get(reader, "layer_types");
    const uint32_t period = reader->arch->window_period;
    if (list == NULL)
        return STATUS_OK;
    if (list->kind != JSON_READ_ARRAY || list->count < layers)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "layer_types", "is no list of all layers");
    for (uint32_t i = 0; i < layers; i++) {
        const bool is_local = window > 0 && (period == 0 || i % period < period - 1);
        const struct slice type = json_read_text(list + 1 + i);
        if (list[1 + i].kind != JSON_READ_STRING ||
            !slice_is(type, is_local ? "sliding_attention" : "full_attention"))
            FAIL(STATUS_UNSUPPORTED, "%s: layer_types: layer %u of a %s model must be %s",
                 reader->file, i, reader->arch->name,
                 is_local ? "sliding_attention" : "full_attention");
    }
    return STATUS_OK;
}

static enum status config_window(const struct hf_reader *reader, uint32_t layers)
{
    static const char *const names[] = {"sliding_window_pattern", "_sliding_window_pattern"};
    const uint32_t period = reader->arch->window_period;
    uint32_t window = 0;
    bool is_used = true;
    bool says_used;
    bool has;
    TRY(hf_reader_bool(reader, "use_sliding_window", &is_used, &says_used));
    TRY(hf_reader_count(reader, "sliding_window", &window, &has));
    if (says_used && is_used)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "use_sliding_window",
                                "is true, which is not supported");
    if (!is_used)
        window = 0;
    if (window > 0 && !hf_reader_is(reader, ARCH_WINDOW))
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "sliding_window",
                                "is not supported for this class");
    if (window == 0 && hf_reader_is(reader, ARCH_WINDOW) && reader->arch->window > 0)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "sliding_window", "is missing");
    if (hf_reader_is(reader, ARCH_WINDOW) && (has || window > 0))
        hf_reader_put_u32(reader, "attention.sliding_window", window);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t pattern = period;
        TRY(hf_reader_count(reader, names[i], &pattern, &has));
        if (pattern != period && window > 0)
            return hf_reader_refuse(reader, STATUS_UNSUPPORTED, names[i],
                                    "has a value that is not supported for this class");
    }
    return config_layer_types(reader, layers, window);
}

/* Which layers have no rope: the row says it. */
static enum status config_no_rope(const struct hf_reader *reader, uint32_t layers)
{
    const struct json_read_value *list = hf_reader_get(reader, "no_rope_layers");
    const uint32_t period = reader->arch->nope_period;
    uint32_t interval = period;
    bool has;
    TRY(hf_reader_count(reader, "no_rope_layer_interval", &interval, &has));
    if (interval != period)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "no_rope_layer_interval",
                                "has a value that is not supported for this class");
    if (list == NULL)
        return STATUS_OK;
    if (list->kind != JSON_READ_ARRAY || list->count < layers)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "no_rope_layers",
                                "is no list of all layers");
    for (uint32_t i = 0; i < layers; i++) {
        const bool has_rope = period == 0 || i % period < period - 1;
        int64_t number;
        if (!json_read_integer(list + 1 + i, &number) || number != (has_rope ? 1 : 0))
            FAIL(STATUS_UNSUPPORTED, "%s: no_rope_layers: layer %u of a %s model must be %d",
                 reader->file, i, reader->arch->name, has_rope ? 1 : 0);
    }
    return STATUS_OK;
}

/* --- what the row fixes --- */

static enum status config_act(const struct hf_reader *reader)
{
    struct slice gemma;
    struct slice act;
    TRY(hf_reader_text(reader, "hidden_activation", &gemma));
    TRY(hf_reader_text(reader, "hidden_act", &act));
    const bool is_silu = reader->arch->act == ACT_SILU_MUL || reader->arch->act == ACT_CLAMPED_MUL;
    const char *right = is_silu ? "silu" : "gelu_pytorch_tanh";
    if (reader->arch->act == ACT_GELU_ERF)
        right = "gelu";
    bool is_right = slice_is(act, right);
    if (hf_reader_is(reader, ARCH_NORM_OFFSET)) /* without hidden_activation it is tanh's, too */
        is_right = gemma.length > 0 ? slice_is(gemma, "gelu_pytorch_tanh")
                                    : is_right || slice_is(act, "gelu");
    if (!is_right)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "hidden_act",
                                "names another function than this class has");
    return STATUS_OK;
}

static enum status config_biases(const struct hf_reader *reader)
{
    const uint32_t both = ARCH_QKV_BIAS | ARCH_OUTPUT_BIAS;
    const bool has_both = (reader->arch->features & both) == both;
    bool attention = has_both;
    bool all = true;
    bool has;
    TRY(hf_reader_bool(reader, "attention_bias", &attention, &has));
    TRY(hf_reader_bool(reader, "use_bias", &all, &has));
    if (attention != has_both || !all)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, all ? "attention_bias" : "use_bias",
                                "has a value that is not supported for this class");
    return STATUS_OK;
}

/* A missing key is the row's default; null is no cap. */
static enum status config_cap(const struct hf_reader *reader, const char *name, const char *key,
                              uint32_t feature, float fallback)
{
    double cap = 0;
    bool has;
    if (!hf_reader_is(reader, feature))
        return STATUS_OK;
    TRY(hf_reader_real(reader, name, &cap, &has));
    if (has)
        hf_reader_put_f32(reader, key, cap);
    else if (fallback != 0 && json_read_member(reader->json, reader->object, name) != NULL)
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, name,
                                "is null, which is not supported for this class");
    return STATUS_OK;
}

static enum status config_fixed(const struct hf_reader *reader)
{
    static const struct {
        const char *name;
        double value;
    } fixed[] = {{"swiglu_limit", 7}, {"swiglu_alpha", 1.702}};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        double number = fixed[i].value;
        bool has;
        TRY(hf_reader_real(reader, fixed[i].name, &number, &has));
        if (number != fixed[i].value)
            return hf_reader_refuse(reader, STATUS_UNSUPPORTED, fixed[i].name,
                                    "has a value that is not supported");
    }
    TRY(config_cap(reader, "attn_logit_softcapping", "attn_logit_softcapping", ARCH_SCORE_CAP,
                   reader->arch->attention_softcap));
    TRY(config_cap(reader, "final_logit_softcapping", "final_logit_softcapping", ARCH_LOGIT_CAP,
                   reader->arch->logit_softcap));
    TRY(config_act(reader));
    return config_biases(reader);
}

static enum status config_quantised(struct hf_config *out, const struct hf_reader *reader)
{
    const struct json_read_value *value = hf_reader_get(reader, "quantization_config");
    struct hf_reader inner = *reader;
    struct slice method;
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_OBJECT)
        return hf_reader_refuse(reader, STATUS_CORRUPT, "quantization_config", "is no object");
    inner.object = (uint32_t)(value - reader->json->values);
    TRY(hf_reader_text(&inner, "quant_method", &method));
    out->is_mxfp4 = slice_is(method, "mxfp4") && hf_reader_is(reader, ARCH_SINKS);
    if (!out->is_mxfp4)
        FAIL(STATUS_UNSUPPORTED, "%s: quantization_config of method '%.*s' is not supported",
             reader->file, (int)(method.length < 32 ? method.length : 32), method.bytes);
    return STATUS_OK;
}

/* --- all --- */

static enum status config_epsilon(const struct hf_reader *reader)
{
    const bool is_layer_norm = hf_reader_is(reader, ARCH_LAYER_NORM);
    const char *name = is_layer_norm ? "norm_epsilon" : "rms_norm_eps";
    double epsilon = 0;
    if (hf_reader_is(reader, ARCH_ENCODER))
        name = "layer_norm_eps";
    TRY(hf_reader_real(reader, name, &epsilon, NULL));
    hf_reader_put_f32(
        reader, is_layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
        epsilon);
    return STATUS_OK;
}

/* Encoders have positions in a table, and no output layer that could be tied. */
static enum status config_encoder(struct hf_config *out, const struct hf_reader *reader)
{
    struct slice type;
    TRY(hf_reader_text(reader, "position_embedding_type", &type));
    if (type.length > 0 && !slice_is(type, "absolute"))
        return hf_reader_refuse(reader, STATUS_UNSUPPORTED, "position_embedding_type",
                                "is not 'absolute'");
    out->is_tied = false;
    out->is_untied = false;
    return STATUS_OK;
}

enum status hf_config_read(struct hf_config *out, const struct json_read *json,
                           struct gguf_keys *keys)
{
    struct hf_reader reader = {.json = json, .file = "config.json", .keys = keys};
    uint32_t layers = 0;
    uint32_t width = 0;
    uint32_t context = 0;
    uint32_t number = 0;
    bool has;
    memset(out, 0, sizeof *out);
    if (json->values[0].kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "config.json is not a JSON object");
    TRY(config_class(out, &reader));
    reader.arch = out->arch;
    TRY(config_refuse_unknown(&reader));
    gguf_keys_string(keys, "general.architecture", slice_of(out->arch->name));
    TRY(config_copy(&reader, "num_hidden_layers", "block_count", &layers));
    TRY(config_copy(&reader, "hidden_size", "embedding_length", &width));
    TRY(config_copy(&reader, "intermediate_size", "feed_forward_length", &number));
    TRY(config_copy(&reader, "max_position_embeddings", "context_length", &context));
    TRY(config_copy(&reader, "vocab_size", "vocab_size", &number));
    TRY(config_epsilon(&reader));
    TRY(config_heads(out, &reader, width, layers));
    TRY(config_experts(&reader));
    TRY(config_window(&reader, layers));
    TRY(config_no_rope(&reader, layers));
    if (!hf_reader_is(&reader, ARCH_ENCODER))
        TRY(hf_rope_read(&out->rope, &reader, out->head_dim, context));
    TRY(config_fixed(&reader));
    TRY(hf_reader_bool(&reader, "tie_word_embeddings", &out->is_tied, &has));
    out->is_untied = has && !out->is_tied;
    if (hf_reader_is(&reader, ARCH_ENCODER))
        TRY(config_encoder(out, &reader));
    return config_quantised(out, &reader);
}
