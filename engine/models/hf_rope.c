#include "engine/models/hf_rope.h"

#include <math.h>

enum rope_type {
    ROPE_DEFAULT = 1 << 0,
    ROPE_LINEAR = 1 << 1,
    ROPE_LLAMA3 = 1 << 2,
    ROPE_YARN = 1 << 3,
    ROPE_LONG = 1 << 4,
    ROPE_ALL = (1 << 5) - 1,
};

static const struct {
    const char *name;
    enum rope_type type;
} ROPE_TYPES[] = {
    {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3},
    {"yarn", ROPE_YARN},       {"longrope", ROPE_LONG}, {"su", ROPE_LONG},
};

/* The keys of rope_parameters and rope_scaling, and the types that they belong to. */
static const struct {
    const char *name;
    uint32_t types;
} ROPE_KEYS[] = {
    {"rope_type", ROPE_ALL},
    {"type", ROPE_ALL},
    {"rope_theta", ROPE_ALL},
    {"partial_rotary_factor", ROPE_ALL},
    {"factor", ROPE_LINEAR | ROPE_LLAMA3 | ROPE_YARN | ROPE_LONG},
    {"original_max_position_embeddings", ROPE_LLAMA3 | ROPE_YARN | ROPE_LONG},
    {"low_freq_factor", ROPE_LLAMA3},
    {"high_freq_factor", ROPE_LLAMA3},
    {"beta_fast", ROPE_YARN},
    {"beta_slow", ROPE_YARN},
    {"truncate", ROPE_YARN},
    {"attention_factor", ROPE_YARN | ROPE_LONG},
    {"long_factor", ROPE_LONG},
    {"short_factor", ROPE_LONG},
};

/* The objects and numbers that describe rope in one file. */
struct rope {
    struct hf_rope *out;
    const struct hf_reader *file; /* the whole config.json */
    struct hf_reader all;         /* of layers that attend to all keys; often of all layers */
    bool has_object;              /* `all` is not the file itself */
    uint32_t head_dim;
    uint32_t context;
    double theta;
    uint32_t dims;
};

static enum status rope_refuse_unknown(const struct hf_reader *reader, enum rope_type type)
{
    const struct json_read_value *values = reader->json->values;
    uint32_t at = reader->object + 1;
    for (uint32_t i = 0; i < values[reader->object].count; i++) {
        const struct slice name = json_read_text(&values[at]);
        bool is_known = values[at + 1].kind == JSON_READ_NULL || slice_is(name, "full_attention") ||
                        slice_is(name, "sliding_attention");
        for (size_t k = 0; k < sizeof ROPE_KEYS / sizeof ROPE_KEYS[0]; k++)
            is_known |= slice_is(name, ROPE_KEYS[k].name) && (ROPE_KEYS[k].types & type) != 0;
        if (!is_known)
            FAIL(STATUS_UNSUPPORTED, "%s: key '%.*s' of rope is not supported with this rope_type",
                 reader->file, (int)(name.length < 64 ? name.length : 64), name.bytes);
        at = values[at + 1].next;
    }
    return STATUS_OK;
}

static enum status rope_type(const struct rope *rope, const struct hf_reader *reader,
                             enum rope_type *out)
{
    struct slice name;
    struct slice older;
    *out = ROPE_DEFAULT;
    if (!rope->has_object)
        return STATUS_OK;
    TRY(hf_reader_text(reader, "rope_type", &name));
    TRY(hf_reader_text(reader, "type", &older));
    if (name.length == 0)
        name = older;
    for (size_t i = 0; i < sizeof ROPE_TYPES / sizeof ROPE_TYPES[0]; i++) {
        *out = ROPE_TYPES[i].type;
        if (slice_is(name, ROPE_TYPES[i].name))
            return rope_refuse_unknown(reader, *out);
    }
    FAIL(STATUS_UNSUPPORTED, "%s: rope_type '%.*s' is not supported", reader->file,
         (int)(name.length < 32 ? name.length : 32), name.bytes);
}

/* Finds an object inside another one. `*out` is the other one where there is none of that name. */
static enum status rope_inner(const struct hf_reader *reader, const char *name,
                              struct hf_reader *out, bool *has)
{
    const struct json_read_value *value = hf_reader_get(reader, name);
    const struct hf_reader outer = *reader;
    *out = outer;
    *has = value != NULL;
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_OBJECT)
        return hf_reader_refuse(&outer, STATUS_CORRUPT, name, "is no object");
    out->object = (uint32_t)(value - outer.json->values);
    return STATUS_OK;
}

/* --- the base --- */

/* The base of layers with a window, where it is another one. */
static enum status rope_local(const struct rope *rope, const struct hf_reader *parameters)
{
    struct hf_reader sliding;
    double local;
    bool has;
    bool has_sliding;
    enum rope_type type;
    TRY(hf_reader_real(rope->file, "rope_local_base_freq", &local, &has));
    TRY(rope_inner(parameters, "sliding_attention", &sliding, &has_sliding));
    if (has_sliding) {
        TRY(rope_type(rope, &sliding, &type));
        if (type != ROPE_DEFAULT)
            return hf_reader_refuse(&sliding, STATUS_UNSUPPORTED, "rope_type",
                                    "is not supported for layers with a window");
        TRY(hf_reader_real(&sliding, "rope_theta", &local, NULL));
        has = true;
    }
    if (!has)
        return STATUS_OK;
    if (!hf_reader_is(rope->file, ARCH_LOCAL_ROPE)) {
        if (local == rope->theta)
            return STATUS_OK;
        return hf_reader_refuse(rope->file, STATUS_UNSUPPORTED, "rope_parameters",
                                "has two bases, which this class does not have");
    }
    hf_reader_put_f32(rope->file, "rope.freq_base_swa", local);
    return STATUS_OK;
}

/* Finds the objects, and the base, which is in the file itself or in rope_parameters. */
static enum status rope_base(struct rope *rope)
{
    struct hf_reader scaling;
    struct hf_reader parameters;
    double theta;
    bool has;
    bool has_scaling;
    bool has_full;
    bool has_own = false;
    TRY(rope_inner(rope->file, "rope_scaling", &scaling, &has_scaling));
    TRY(rope_inner(rope->file, "rope_parameters", &parameters, &rope->has_object));
    if (rope->has_object && has_scaling)
        return hf_reader_refuse(rope->file, STATUS_UNSUPPORTED, "rope_scaling",
                                "is there beside rope_parameters, which says the same");
    if (has_scaling)
        parameters = scaling;
    rope->has_object |= has_scaling;
    rope->all = parameters;
    TRY(hf_reader_real(rope->file, "rope_theta", &rope->theta, &has));
    if (rope->has_object) {
        TRY(rope_inner(&parameters, "full_attention", &rope->all, &has_full));
        TRY(hf_reader_real(&rope->all, "rope_theta", &theta, &has_own));
    }
    if (has && has_own && theta != rope->theta)
        return hf_reader_refuse(rope->file, STATUS_CORRUPT, "rope_theta",
                                "has two different values");
    if (has_own)
        rope->theta = theta;
    if (!has && !has_own)
        return hf_reader_refuse(rope->file, STATUS_CORRUPT, "rope_theta", "is missing");
    hf_reader_put_f32(rope->file, "rope.freq_base", rope->theta);
    return rope->has_object ? rope_local(rope, &parameters) : rope_local(rope, rope->file);
}

static enum status rope_partial(struct rope *rope)
{
    double part = 1;
    bool has;
    TRY(hf_reader_real(rope->file, "partial_rotary_factor", &part, &has));
    if (!has && rope->has_object)
        TRY(hf_reader_real(&rope->all, "partial_rotary_factor", &part, &has));
    if (!(part > 0) || part > 1)
        return hf_reader_refuse(rope->file, STATUS_CORRUPT, "partial_rotary_factor",
                                "is not above 0 and at most 1");
    if (part != 1 && !hf_reader_is(rope->file, ARCH_ROPE_FACTORS))
        return hf_reader_refuse(rope->file, STATUS_UNSUPPORTED, "partial_rotary_factor",
                                "is not supported for this class");
    rope->dims = (uint32_t)((double)rope->head_dim * part);
    hf_reader_put_u32(rope->file, "rope.dimension_count", rope->dims);
    return STATUS_OK;
}

/* --- stretched contexts --- */

static enum status rope_linear(const struct rope *rope)
{
    double factor = 0;
    TRY(hf_reader_real(&rope->all, "factor", &factor, NULL));
    hf_reader_put_string(rope->file, "rope.scaling.type", "linear");
    hf_reader_put_f32(rope->file, "rope.scaling.factor", factor);
    return STATUS_OK;
}

/* The context in training: beside the other numbers, or in the file itself. */
static enum status rope_original(const struct rope *rope, uint32_t *out)
{
    static const char name[] = "original_max_position_embeddings";
    bool has;
    TRY(hf_reader_count(&rope->all, name, out, &has));
    if (!has)
        TRY(hf_reader_count(rope->file, name, out, NULL));
    if (*out < 2)
        return hf_reader_refuse(rope->file, STATUS_CORRUPT, name, "is below 2");
    return STATUS_OK;
}

static enum status rope_pairs(const struct rope *rope)
{
    rope->out->pairs = rope->dims / 2;
    if (rope->out->pairs < 1 || rope->out->pairs > HF_ROPE_FACTORS)
        return hf_reader_refuse(rope->file, STATUS_CORRUPT, "head_dim", "is out of range");
    return STATUS_OK;
}

/* GGUF files have what this computes in the tensor rope_freqs.weight. */
static enum status rope_llama3(const struct rope *rope)
{
    double factor = 0;
    double low = 0;
    double high = 0;
    uint32_t original = 0;
    TRY(hf_reader_real(&rope->all, "factor", &factor, NULL));
    TRY(hf_reader_real(&rope->all, "low_freq_factor", &low, NULL));
    TRY(hf_reader_real(&rope->all, "high_freq_factor", &high, NULL));
    TRY(rope_original(rope, &original));
    TRY(rope_pairs(rope));
    if (!hf_reader_is(rope->file, ARCH_ROPE_FREQS))
        return hf_reader_refuse(&rope->all, STATUS_UNSUPPORTED, "rope_type",
                                "llama3 is not supported for this class");
    if (!(factor > 0) || !(low > 0) || !(high > low))
        return hf_reader_refuse(&rope->all, STATUS_CORRUPT, "high_freq_factor",
                                "or another factor of rope is out of range");
    for (uint32_t i = 0; i < rope->out->pairs; i++) {
        const double turns =
            original * pow(rope->theta, -(double)i / rope->out->pairs) / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        double divided = 1 / ((1 - smooth) / factor + smooth);
        if (turns > high)
            divided = 1;
        if (turns < low)
            divided = factor;
        rope->out->factors[i] = (float)divided;
    }
    return STATUS_OK;
}

static enum status rope_yarn(const struct rope *rope)
{
    double factor = 0;
    double fast = 32;
    double slow = 1;
    double attention = 0;
    uint32_t original = 0;
    bool is_rounded = true;
    bool has;
    TRY(hf_reader_real(&rope->all, "factor", &factor, NULL));
    TRY(rope_original(rope, &original));
    TRY(hf_reader_real(&rope->all, "beta_fast", &fast, &has));
    TRY(hf_reader_real(&rope->all, "beta_slow", &slow, &has));
    TRY(hf_reader_bool(&rope->all, "truncate", &is_rounded, &has));
    if (is_rounded != !hf_reader_is(rope->file, ARCH_YARN_NOT_ROUNDED))
        return hf_reader_refuse(&rope->all, STATUS_UNSUPPORTED, "truncate",
                                "has a value that is not supported for this class");
    hf_reader_put_string(rope->file, "rope.scaling.type", "yarn");
    hf_reader_put_f32(rope->file, "rope.scaling.factor", factor);
    hf_reader_put_u32(rope->file, "rope.scaling.original_context_length", original);
    hf_reader_put_f32(rope->file, "rope.scaling.yarn_beta_fast", fast);
    hf_reader_put_f32(rope->file, "rope.scaling.yarn_beta_slow", slow);
    TRY(hf_reader_real(&rope->all, "attention_factor", &attention, &has));
    if (has)
        hf_reader_put_f32(rope->file, "rope.scaling.yarn_attn_factor", attention);
    return STATUS_OK;
}

static enum status rope_list(const struct rope *rope, const char *name, float *out)
{
    const struct json_read_value *list = hf_reader_get(&rope->all, name);
    if (list == NULL || list->kind != JSON_READ_ARRAY || list->count != rope->out->pairs)
        return hf_reader_refuse(&rope->all, STATUS_CORRUPT, name,
                                "is no list of half as many numbers as dimensions are rotated");
    for (uint32_t i = 0; i < list->count; i++) {
        double number;
        if (!json_read_number(list + 1 + i, &number))
            return hf_reader_refuse(&rope->all, STATUS_CORRUPT, name, "has what is no number");
        out[i] = (float)number;
    }
    return STATUS_OK;
}

static enum status rope_long(const struct rope *rope)
{
    uint32_t original = 0;
    double attention = 1;
    double factor = 0;
    bool has;
    TRY(rope_original(rope, &original));
    TRY(rope_pairs(rope));
    if (!hf_reader_is(rope->file, ARCH_ROPE_FACTORS))
        return hf_reader_refuse(&rope->all, STATUS_UNSUPPORTED, "rope_type",
                                "longrope is not supported for this class");
    TRY(rope_list(rope, "short_factor", rope->out->factors));
    TRY(rope_list(rope, "long_factor", rope->out->long_factors));
    rope->out->has_long = true;
    const double stretch = (double)rope->context / original;
    TRY(hf_reader_real(&rope->all, "factor", &factor, &has));
    if (has && factor != stretch)
        return hf_reader_refuse(&rope->all, STATUS_UNSUPPORTED, "factor",
                                "is not max_position_embeddings divided by "
                                "original_max_position_embeddings");
    if (stretch > 1)
        attention = sqrt(1 + log(stretch) / log(original));
    TRY(hf_reader_real(&rope->all, "attention_factor", &attention, &has));
    hf_reader_put_u32(rope->file, "rope.scaling.original_context_length", original);
    hf_reader_put_f32(rope->file, "rope.scaling.attn_factor", attention);
    return STATUS_OK;
}

enum status hf_rope_read(struct hf_rope *out, const struct hf_reader *reader, uint32_t head_dim,
                         uint32_t context)
{
    struct rope rope = {.out = out, .file = reader, .head_dim = head_dim, .context = context};
    enum rope_type type;
    TRY(rope_base(&rope));
    TRY(rope_type(&rope, &rope.all, &type));
    TRY(rope_partial(&rope));
    switch (type) {
    case ROPE_LINEAR:
        return rope_linear(&rope);
    case ROPE_LLAMA3:
        return rope_llama3(&rope);
    case ROPE_YARN:
        return rope_yarn(&rope);
    case ROPE_LONG:
        return rope_long(&rope);
    default:
        return STATUS_OK;
    }
}
