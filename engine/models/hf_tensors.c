#include "engine/models/hf_tensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/base/limits_files.h"
#include "config/base/mem.h"

/* How the numbers of a tensor follow from those of the files. */
enum tensors_form {
    FORM_PLAIN,   /* one tensor */
    FORM_EXPERTS, /* one of each expert */
    FORM_FLIPPED, /* [experts][inputs][outputs × step], every `step`-th output from `first` on */
    FORM_BIASES,  /* [experts][outputs × step], likewise */
    FORM_MXFP4,   /* blocks [experts][outputs × step][blocks][16], and scales */
    FORM_FACTORS, /* of hf_config */
};

enum { TENSORS_NAME_BYTES = LIMIT_SAFETENSORS_NAME_BYTES + 1, TENSORS_NO_EXPERT = -1 };

struct hf_tensor {
    char name[TENSORS_NAME_BYTES];
    struct tensor view; /* without data */
    enum tensors_form form;
    bool is_permuted; /* the halves of each head are interleaved */
    bool adds_one;
    uint32_t first; /* FORM_EXPERTS: in `sources`; FORM_FLIPPED and the like: of the outputs */
    uint32_t step;
    const struct safetensors_tensor *source;
    const struct safetensors_tensor *scales; /* of FORM_MXFP4 */
    const float *factors;
};

struct hf_tensors {
    const struct hf_config *config;
    const struct hf_shards *shards;
    uint32_t count;
    uint32_t capacity;
    struct hf_tensor *tensors; /* [count], by rising names */
    uint32_t source_count;
    const struct safetensors_tensor **sources; /* of FORM_EXPERTS */
};

/* --- names --- */

/* Parts of names that some classes have, and what stands for them in arch_tensors.def. */
static const struct {
    const char *theirs;
    const char *ours;
} TENSORS_NAMES[] = {
    {"block_sparse_moe.gate.weight", "mlp.gate.weight"},
    {"block_sparse_moe.experts.%u.w1.weight", "mlp.experts.%u.gate_proj.weight"},
    {"block_sparse_moe.experts.%u.w2.weight", "mlp.experts.%u.down_proj.weight"},
    {"block_sparse_moe.experts.%u.w3.weight", "mlp.experts.%u.up_proj.weight"},
    {"mlp.router.weight", "mlp.gate.weight"},
    {"attention.self.query.weight", "self_attn.q_proj.weight"},
    {"attention.self.query.bias", "self_attn.q_proj.bias"},
    {"attention.self.key.weight", "self_attn.k_proj.weight"},
    {"attention.self.key.bias", "self_attn.k_proj.bias"},
    {"attention.self.value.weight", "self_attn.v_proj.weight"},
    {"attention.self.value.bias", "self_attn.v_proj.bias"},
    {"attention.output.dense.weight", "self_attn.o_proj.weight"},
    {"attention.output.dense.bias", "self_attn.o_proj.bias"},
    {"attention.output.LayerNorm.weight", "attention_sum_norm.weight"},
    {"attention.output.LayerNorm.bias", "attention_sum_norm.bias"},
    {"intermediate.dense.weight", "mlp.c_fc.weight"},
    {"intermediate.dense.bias", "mlp.c_fc.bias"},
    {"output.dense.weight", "mlp.c_proj.weight"},
    {"output.dense.bias", "mlp.c_proj.bias"},
    {"output.LayerNorm.weight", "sum_norm.weight"},
    {"output.LayerNorm.bias", "sum_norm.bias"},
};

/* Beginnings of names of encoders, likewise: of a layer, then whole names. */
static const struct {
    const char *theirs;
    const char *ours;
} TENSORS_BEGINNINGS[] = {
    {"encoder.layer.", "model.layers."},
    {"embeddings.word_embeddings.weight", "model.embed_tokens.weight"},
    {"embeddings.position_embeddings.weight", "model.embed_positions.weight"},
    {"embeddings.token_type_embeddings.weight", "model.embed_types.weight"},
    {"embeddings.LayerNorm.weight", "model.embed_norm.weight"},
    {"embeddings.LayerNorm.bias", "model.embed_norm.bias"},
};

/* What files of encoders have beside what makes states: a constant, and a layer behind them. */
static const char *const TENSORS_UNUSED[] = {"embeddings.position_ids", "pooler.dense.weight",
                                             "pooler.dense.bias"};

static bool name_ends(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* Replaces the number behind "experts." by %u. Returns it, or TENSORS_NO_EXPERT. */
static int64_t name_take_expert(char name[static TENSORS_NAME_BYTES])
{
    static const char mark[] = "experts.";
    char *at = strstr(name, mark);
    int64_t expert = 0;
    if (at == NULL)
        return TENSORS_NO_EXPERT;
    at += sizeof mark - 1;
    char *end = at;
    for (; *end >= '0' && *end <= '9' && expert <= LIMIT_SAFETENSORS_TENSORS; end++)
        expert = 10 * expert + (*end - '0');
    const bool is_number = end > at && *end == '.' && (*at != '0' || end == at + 1);
    if (!is_number || strlen(name) + 2 >= TENSORS_NAME_BYTES)
        return TENSORS_NO_EXPERT;
    memmove(at + 2, end, strlen(end) + 1);
    memcpy(at, "%u", 2);
    return expert;
}

/* Puts the row's own word in place of the end of the name. */
static void name_translate(char name[static TENSORS_NAME_BYTES])
{
    for (size_t i = 0; i < sizeof TENSORS_NAMES / sizeof TENSORS_NAMES[0]; i++) {
        const size_t tail = strlen(TENSORS_NAMES[i].theirs);
        const size_t length = strlen(name);
        if (!name_ends(name, TENSORS_NAMES[i].theirs) || length == tail ||
            name[length - tail - 1] != '.')
            continue;
        /* No word is longer than theirs. */
        memcpy(name + length - tail, TENSORS_NAMES[i].ours, strlen(TENSORS_NAMES[i].ours) + 1);
        return;
    }
}

/* Puts the decoders' word in place of the beginning of an encoder's name. False when the tensor is
 * not used. */
static bool name_translate_encoder(char name[static TENSORS_NAME_BYTES])
{
    static const char whole[] = "bert."; /* in files of larger classes */
    if (strncmp(name, whole, sizeof whole - 1) == 0)
        memmove(name, name + sizeof whole - 1, strlen(name) + 2 - sizeof whole);
    for (size_t i = 0; i < sizeof TENSORS_UNUSED / sizeof TENSORS_UNUSED[0]; i++)
        if (strcmp(name, TENSORS_UNUSED[i]) == 0)
            return false;
    for (size_t i = 0; i < sizeof TENSORS_BEGINNINGS / sizeof TENSORS_BEGINNINGS[0]; i++) {
        const size_t head = strlen(TENSORS_BEGINNINGS[i].theirs);
        const size_t own = strlen(TENSORS_BEGINNINGS[i].ours); /* not longer */
        if (strncmp(name, TENSORS_BEGINNINGS[i].theirs, head) != 0)
            continue;
        memmove(name + own, name + head, strlen(name) - head + 1);
        memcpy(name, TENSORS_BEGINNINGS[i].ours, own);
        break;
    }
    return true;
}

/* --- what the tensors are --- */

static const struct tensor_type_info *type_of(enum safetensors_dtype dtype)
{
    switch (dtype) {
    case SAFETENSORS_F32:
        return tensor_type_info(TENSOR_TYPE_f32);
    case SAFETENSORS_F16:
        return tensor_type_info(TENSOR_TYPE_f16);
    case SAFETENSORS_BF16:
        return tensor_type_info(TENSOR_TYPE_bf16);
    default:
        return NULL;
    }
}

static enum status refuse(const struct safetensors_tensor *tensor, enum status status,
                          const char *what)
{
    FAIL(status, "model directory: tensor '%.*s' (%s) %s", (int)tensor->name.length,
         tensor->name.bytes, safetensors_dtype_name(tensor->dtype), what);
}

static void view_size(struct tensor *view)
{
    view->bytes = view->dims[0] * view->dims[1] * view->dims[2] * view->dims[3] /
                  view->type->block_elements * view->type->block_bytes;
}

/* The tensor's type and shape, the dimension that varies fastest first. */
static enum status view_of(const struct safetensors_tensor *source, struct tensor *out)
{
    *out = (struct tensor){.type = type_of(source->dtype), .dim_count = source->dim_count};
    if (out->type == NULL)
        return refuse(source, STATUS_UNSUPPORTED, "is of a dtype that is not supported there");
    if (source->dim_count < 1 || source->dim_count > TENSOR_DIMS_MAX)
        return refuse(source, STATUS_UNSUPPORTED, "has no or more than 4 dimensions");
    for (uint32_t d = 0; d < TENSOR_DIMS_MAX; d++)
        out->dims[d] = d < source->dim_count ? source->shape[source->dim_count - 1 - d] : 1;
    view_size(out);
    return STATUS_OK;
}

static enum status add(struct hf_tensors *tensors, const struct hf_tensor *tensor)
{
    if (tensors->count == tensors->capacity) {
        const uint32_t capacity = 2 * tensors->capacity + 64;
        struct hf_tensor *more = mem_realloc(tensors->tensors, capacity * sizeof *more);
        if (more == NULL)
            FAIL(STATUS_NO_MEMORY, "model directory: no memory for %u tensors", capacity);
        tensors->tensors = more;
        tensors->capacity = capacity;
    }
    tensors->tensors[tensors->count++] = *tensor;
    return STATUS_OK;
}

/* --- GPT-OSS --- */

/* Parts of one tensor that the row has as tensors of their own. */
static const struct {
    const char *theirs;
    const char *ours;
    uint32_t first;
    uint32_t step;
    enum tensors_form form;
} TENSORS_PARTS[] = {
    {"mlp.experts.gate_up_proj", "mlp.experts.%u.gate_proj.weight", 0, 2, FORM_FLIPPED},
    {"mlp.experts.gate_up_proj", "mlp.experts.%u.up_proj.weight", 1, 2, FORM_FLIPPED},
    {"mlp.experts.down_proj", "mlp.experts.%u.down_proj.weight", 0, 1, FORM_FLIPPED},
    {"mlp.experts.gate_up_proj_blocks", "mlp.experts.%u.gate_proj.weight", 0, 2, FORM_MXFP4},
    {"mlp.experts.gate_up_proj_blocks", "mlp.experts.%u.up_proj.weight", 1, 2, FORM_MXFP4},
    {"mlp.experts.down_proj_blocks", "mlp.experts.%u.down_proj.weight", 0, 1, FORM_MXFP4},
    {"mlp.experts.gate_up_proj_bias", "mlp.experts.%u.gate_proj.bias", 0, 2, FORM_BIASES},
    {"mlp.experts.gate_up_proj_bias", "mlp.experts.%u.up_proj.bias", 1, 2, FORM_BIASES},
    {"mlp.experts.down_proj_bias", "mlp.experts.%u.down_proj.bias", 0, 1, FORM_BIASES},
};

enum { MXFP4_HALF = 16, MXFP4_ELEMENTS = 32, MXFP4_BYTES = 17 };

static enum status part_mxfp4(const struct hf_tensors *tensors, struct hf_tensor *out,
                              uint32_t step)
{
    const struct safetensors_tensor *source = out->source;
    char name[TENSORS_NAME_BYTES];
    snprintf(name, sizeof name, "%.*sscales", (int)source->name.length - 6, source->name.bytes);
    out->scales = hf_shards_find(tensors->shards, slice_of(name));
    const struct safetensors_tensor *scales = out->scales;
    if (!tensors->config->is_mxfp4 || source->dtype != SAFETENSORS_U8 || source->dim_count != 4 ||
        source->shape[3] != MXFP4_HALF || source->shape[1] % step != 0)
        return refuse(source, STATUS_CORRUPT, "is no list of MXFP4 blocks");
    if (scales == NULL || scales->dtype != SAFETENSORS_U8 || scales->dim_count != 3 ||
        memcmp(scales->shape, source->shape, 3 * sizeof *scales->shape) != 0)
        return refuse(source, STATUS_CORRUPT, "has no scales of its shape");
    out->view = (struct tensor){
        .type = tensor_type_info(TENSOR_TYPE_mxfp4),
        .dim_count = 3,
        .dims = {source->shape[2] * MXFP4_ELEMENTS, source->shape[1] / step, source->shape[0], 1}};
    view_size(&out->view);
    return STATUS_OK;
}

static enum status part_view(const struct hf_tensors *tensors, struct hf_tensor *out, uint32_t step)
{
    const struct safetensors_tensor *source = out->source;
    if (out->form == FORM_MXFP4)
        return part_mxfp4(tensors, out, step);
    TRY(view_of(source, &out->view));
    struct tensor *view = &out->view;
    if (source->dim_count != (out->form == FORM_BIASES ? 2 : 3) || view->dims[0] % step != 0)
        return refuse(source, STATUS_CORRUPT, "is not of all experts");
    view->dims[0] /= step;
    if (out->form == FORM_BIASES) {
        view->type = tensor_type_info(TENSOR_TYPE_f32);
    } else {
        const uint64_t outputs = view->dims[0];
        view->dims[0] = view->dims[1];
        view->dims[1] = outputs;
    }
    view_size(view);
    return STATUS_OK;
}

/* Whether the tensor has the scales of blocks that are in the files; these are used with it. */
static bool parts_are_scales(const struct hf_tensors *tensors, const struct hf_tensor *whole)
{
    static const char scales[] = "scales";
    const struct slice from = whole->source->name;
    char name[TENSORS_NAME_BYTES];
    if (!name_ends(whole->name, "_proj_scales"))
        return false;
    snprintf(name, sizeof name, "%.*sblocks", (int)(from.length - (sizeof scales - 1)), from.bytes);
    return hf_shards_find(tensors->shards, slice_of(name)) != NULL;
}

/* Adds the parts of a tensor that has some; `*is_one` says whether it has. */
static enum status add_parts(struct hf_tensors *tensors, const struct hf_tensor *whole,
                             bool *is_one)
{
    *is_one = false;
    if ((tensors->config->arch->features & ARCH_SINKS) == 0)
        return STATUS_OK;
    *is_one = parts_are_scales(tensors, whole);
    for (size_t i = 0; i < sizeof TENSORS_PARTS / sizeof TENSORS_PARTS[0]; i++) {
        struct hf_tensor part = *whole;
        if (!name_ends(whole->name, TENSORS_PARTS[i].theirs))
            continue;
        *is_one = true;
        const size_t head = strlen(whole->name) - strlen(TENSORS_PARTS[i].theirs);
        if (head + strlen(TENSORS_PARTS[i].ours) >= sizeof part.name)
            return refuse(whole->source, STATUS_UNSUPPORTED, "has too long a name");
        memcpy(part.name + head, TENSORS_PARTS[i].ours, strlen(TENSORS_PARTS[i].ours) + 1);
        part.form = TENSORS_PARTS[i].form;
        part.first = TENSORS_PARTS[i].first;
        part.step = TENSORS_PARTS[i].step;
        TRY(part_view(tensors, &part, part.step));
        TRY(add(tensors, &part));
    }
    return STATUS_OK;
}

/* --- the list --- */

/* One tensor that is a tensor of the row, perhaps under another name. */
static enum status add_plain(struct hf_tensors *tensors, struct hf_tensor *tensor)
{
    const struct arch *arch = tensors->config->arch;
    TRY(view_of(tensor->source, &tensor->view));
    struct tensor *view = &tensor->view;
    if (view->dim_count == 1 || name_ends(tensor->name, ".mlp.gate.weight"))
        view->type = tensor_type_info(TENSOR_TYPE_f32);
    view_size(view);
    tensor->adds_one =
        (arch->features & ARCH_NORM_OFFSET) != 0 && name_ends(tensor->name, "norm.weight");
    if (tensor->adds_one && view->dim_count != 1)
        return refuse(tensor->source, STATUS_CORRUPT, "is the weight of a norm, but no vector");
    tensor->is_permuted =
        arch->pairing == ROPE_INTERLEAVED && (name_ends(tensor->name, ".self_attn.q_proj.weight") ||
                                              name_ends(tensor->name, ".self_attn.k_proj.weight"));
    if (tensor->is_permuted &&
        (view->dim_count != 2 || view->dims[1] % tensors->config->head_dim != 0))
        return refuse(tensor->source, STATUS_CORRUPT, "is not of whole heads");
    return add(tensors, tensor);
}

/* A tensor of one expert, while the list is made. */
struct expert {
    char name[TENSORS_NAME_BYTES];
    int64_t expert;
    const struct safetensors_tensor *source;
};

static int compare_experts(const void *left, const void *right)
{
    const struct expert *a = left;
    const struct expert *b = right;
    const int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    return a->expert < b->expert ? -1 : a->expert > b->expert;
}

/* Adds one tensor for the experts [begin, end), which have the same name. */
static enum status add_experts(struct hf_tensors *tensors, const struct expert *begin,
                               const struct expert *end)
{
    struct hf_tensor tensor = {.form = FORM_EXPERTS, .first = tensors->source_count};
    const struct safetensors_tensor *first = begin->source;
    memcpy(tensor.name, begin->name, sizeof tensor.name);
    TRY(view_of(first, &tensor.view));
    if (first->dim_count != 2)
        return refuse(first, STATUS_UNSUPPORTED, "is of an expert, but no matrix");
    for (const struct expert *expert = begin; expert < end; expert++) {
        const struct safetensors_tensor *source = expert->source;
        if (expert->expert != expert - begin)
            return refuse(source, STATUS_CORRUPT, "is of an expert behind one that has none");
        if (source->dtype != first->dtype || source->dim_count != first->dim_count ||
            memcmp(source->shape, first->shape, sizeof first->shape) != 0)
            return refuse(source, STATUS_CORRUPT, "differs from those of other experts");
        tensors->sources[tensors->source_count++] = source;
    }
    tensor.view.dim_count = 3;
    tensor.view.dims[2] = (uint64_t)(end - begin);
    view_size(&tensor.view);
    return add(tensors, &tensor);
}

static enum status add_all_experts(struct hf_tensors *tensors, struct expert *experts,
                                   uint32_t count)
{
    qsort(experts, count, sizeof *experts, compare_experts);
    for (uint32_t begin = 0; begin < count;) {
        uint32_t end = begin + 1;
        while (end < count && strcmp(experts[begin].name, experts[end].name) == 0)
            end++;
        TRY(add_experts(tensors, experts + begin, experts + end));
        begin = end;
    }
    return STATUS_OK;
}

static enum status add_file(struct hf_tensors *tensors, const struct safetensors_tensor *source,
                            struct expert *experts, uint32_t *expert_count)
{
    struct hf_tensor tensor = {.form = FORM_PLAIN, .source = source};
    bool is_parted;
    memcpy(tensor.name, source->name.bytes, source->name.length);
    /* A constant that some old files have beside the weights. */
    if (name_ends(tensor.name, ".rotary_emb.inv_freq"))
        return STATUS_OK;
    if ((tensors->config->arch->features & ARCH_ENCODER) != 0 &&
        !name_translate_encoder(tensor.name))
        return STATUS_OK;
    const int64_t expert = name_take_expert(tensor.name);
    name_translate(tensor.name);
    if (expert != TENSORS_NO_EXPERT) {
        struct expert *own = &experts[(*expert_count)++];
        memcpy(own->name, tensor.name, sizeof own->name);
        own->expert = expert;
        own->source = source;
        return STATUS_OK;
    }
    TRY(add_parts(tensors, &tensor, &is_parted));
    return is_parted ? STATUS_OK : add_plain(tensors, &tensor);
}

static enum status add_factors(struct hf_tensors *tensors, const char *name, const float *factors)
{
    struct hf_tensor tensor = {.form = FORM_FACTORS, .factors = factors};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    tensor.view = (struct tensor){.type = tensor_type_info(TENSOR_TYPE_f32),
                                  .dim_count = 1,
                                  .dims = {tensors->config->rope.pairs, 1, 1, 1}};
    view_size(&tensor.view);
    return add(tensors, &tensor);
}

static int compare_tensors(const void *left, const void *right)
{
    const struct hf_tensor *a = left;
    const struct hf_tensor *b = right;
    return strcmp(a->name, b->name);
}

/* What tie_word_embeddings says and what the files have must agree. */
static enum status check_output(struct hf_tensors *tensors)
{
    const struct hf_config *config = tensors->config;
    uint32_t index;
    const bool has_own = hf_tensors_find(tensors, "lm_head.weight", &index) == STATUS_OK;
    if (config->is_untied && !has_own)
        FAIL(STATUS_NOT_FOUND, "model directory: tensor 'lm_head.weight' is missing, and "
                               "config.json does not say tie_word_embeddings");
    if (!config->is_tied || !has_own)
        return STATUS_OK;
    const struct safetensors_tensor *own = tensors->tensors[index].source;
    const struct safetensors_tensor *table =
        hf_shards_find(tensors->shards, SLICE("model.embed_tokens.weight"));
    if (table == NULL || own->bytes != table->bytes || own->dtype != table->dtype ||
        memcmp(own->data, table->data, own->bytes) != 0)
        return refuse(own, STATUS_CORRUPT,
                      "differs from the embeddings, but config.json says tie_word_embeddings");
    memmove(&tensors->tensors[index], &tensors->tensors[index + 1],
            (tensors->count - index - 1) * sizeof *tensors->tensors);
    tensors->count--;
    return STATUS_OK;
}

static enum status open_all(struct hf_tensors *tensors, struct expert *experts)
{
    const struct hf_config *config = tensors->config;
    uint32_t expert_count = 0;
    for (uint32_t i = 0; i < hf_shards_count(tensors->shards); i++)
        TRY(add_file(tensors, hf_shards_at(tensors->shards, i), experts, &expert_count));
    TRY(add_all_experts(tensors, experts, expert_count));
    if (config->rope.pairs > 0)
        TRY(add_factors(tensors,
                        config->rope.has_long ? "rope_factors_short.weight" : "rope_freqs.weight",
                        config->rope.factors));
    if (config->rope.has_long)
        TRY(add_factors(tensors, "rope_factors_long.weight", config->rope.long_factors));
    qsort(tensors->tensors, tensors->count, sizeof *tensors->tensors, compare_tensors);
    for (uint32_t i = 1; i < tensors->count; i++)
        if (strcmp(tensors->tensors[i - 1].name, tensors->tensors[i].name) == 0)
            FAIL(STATUS_CORRUPT, "model directory: tensor '%s' is there under two names",
                 tensors->tensors[i].name);
    return check_output(tensors);
}

enum status hf_tensors_open(struct hf_tensors **out, const struct hf_config *config,
                            const struct hf_shards *shards)
{
    const uint32_t count = hf_shards_count(shards) + 1;
    struct hf_tensors *tensors = mem_zalloc(1, sizeof *tensors);
    struct expert *experts = mem_zalloc(count, sizeof *experts);
    enum status status = STATUS_OK;
    *out = NULL;
    if (tensors == NULL || experts == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "model directory: no memory for %u tensors", count);
    tensors->config = config;
    tensors->shards = shards;
    tensors->sources = mem_zalloc(count, sizeof *tensors->sources);
    if (tensors->sources == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "model directory: no memory for %u tensors", count);
    TRY_OUT(open_all(tensors, experts));
    *out = tensors;
    tensors = NULL;
out:
    mem_free(experts);
    hf_tensors_close(tensors);
    return status;
}

void hf_tensors_close(struct hf_tensors *tensors)
{
    if (tensors == NULL)
        return;
    mem_free(tensors->tensors);
    mem_free(tensors->sources);
    mem_free(tensors);
}

uint32_t hf_tensors_count(const struct hf_tensors *tensors)
{
    return tensors->count;
}

void hf_tensors_at(const struct hf_tensors *tensors, uint32_t index, struct slice *name,
                   struct tensor *out)
{
    ASSERT(index < tensors->count);
    if (name != NULL)
        *name = slice_of(tensors->tensors[index].name);
    *out = tensors->tensors[index].view;
}

enum status hf_tensors_find(const struct hf_tensors *tensors, const char *name, uint32_t *out)
{
    uint32_t low = 0;
    uint32_t high = tensors->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(tensors->tensors[middle].name, name);
        *out = middle;
        if (order == 0)
            return STATUS_OK;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    FAIL(STATUS_NOT_FOUND, "model directory: tensor '%s' is missing", name);
}

/* --- loading --- */

/* Converts elements, which need not be aligned, to float32. */
static void load_floats(const struct safetensors_tensor *source, float *out)
{
    enum { PART = 256 };
    uint64_t aligned[PART / 2];
    const struct tensor_type_info *type = type_of(source->dtype);
    const uint64_t count = source->bytes / type->block_bytes;
    for (uint64_t at = 0; at < count; at += PART) {
        const uint32_t part = (uint32_t)(count - at < PART ? count - at : PART);
        memcpy(aligned, source->data + at * type->block_bytes, part * type->block_bytes);
        type->to_f32(aligned, out + at, part);
    }
}

static void load_plain(const struct hf_tensors *tensors, const struct hf_tensor *tensor, char *out)
{
    const struct safetensors_tensor *source = tensor->source;
    const uint32_t head_dim = tensors->config->head_dim;
    if (tensor->view.type->id == TENSOR_TYPE_f32 && source->dtype != SAFETENSORS_F32)
        load_floats(source, (float *)(void *)out);
    else if (!tensor->is_permuted)
        memcpy(out, source->data, source->bytes);
    for (uint64_t i = 0; tensor->adds_one && i < tensor->view.dims[0]; i++)
        ((float *)(void *)out)[i] += 1.0f;
    if (!tensor->is_permuted)
        return;
    const uint64_t row_bytes = tensor->view.bytes / tensor->view.dims[1];
    for (uint64_t row = 0; row < tensor->view.dims[1]; row++) {
        const uint64_t in_head = row % head_dim;
        const uint64_t from = row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
        memcpy(out + row * row_bytes, source->data + from * row_bytes, row_bytes);
    }
}

static void load_flipped(const struct hf_tensor *tensor, char *out)
{
    const uint64_t inputs = tensor->view.dims[0];
    const uint64_t outputs = tensor->view.dims[1];
    const uint64_t size = tensor->view.type->block_bytes;
    const char *from = tensor->source->data + tensor->first * size;
    for (uint64_t e = 0; e < tensor->view.dims[2]; e++)
        for (uint64_t i = 0; i < inputs; i++)
            for (uint64_t o = 0; o < outputs; o++, from += tensor->step * size)
                memcpy(out + ((e * outputs + o) * inputs + i) * size, from, size);
}

static enum status load_biases(const struct hf_tensor *tensor, float *out)
{
    const uint64_t count = tensor->view.dims[0] * tensor->view.dims[1];
    float *all = mem_zalloc(count, tensor->step * sizeof *all);
    if (all == NULL)
        FAIL(STATUS_NO_MEMORY, "model directory: no memory for tensor '%s'", tensor->name);
    load_floats(tensor->source, all);
    for (uint64_t i = 0; i < count; i++)
        out[i] = all[i * tensor->step + tensor->first];
    mem_free(all);
    return STATUS_OK;
}

/* A byte of the file has two neighbours, a byte of a block the elements i and i + 16. */
static void load_mxfp4(const struct hf_tensor *tensor, char *out)
{
    const uint64_t blocks = tensor->view.dims[0] / MXFP4_ELEMENTS;
    const uint64_t rows = tensor->view.dims[1] * tensor->view.dims[2];
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t b = 0; b < blocks; b++, out += MXFP4_BYTES) {
            const uint64_t at = (row * tensor->step + tensor->first) * blocks + b;
            const char *codes = tensor->source->data + at * MXFP4_HALF;
            out[0] = tensor->scales->data[at];
            for (uint32_t i = 0; i < MXFP4_HALF; i++) {
                const uint8_t low = (uint8_t)codes[i / 2] >> (i % 2 * 4) & 15;
                const uint8_t high = (uint8_t)codes[(MXFP4_HALF + i) / 2] >> (i % 2 * 4) & 15;
                out[1 + i] = (char)(low | high << 4);
            }
        }
}

static enum status load_form(const struct hf_tensors *tensors, const struct hf_tensor *tensor,
                             char *out)
{
    switch (tensor->form) {
    case FORM_PLAIN:
        load_plain(tensors, tensor, out);
        break;
    case FORM_EXPERTS:
        for (uint64_t e = 0; e < tensor->view.dims[2]; e++) {
            const struct safetensors_tensor *source = tensors->sources[tensor->first + e];
            memcpy(out + e * source->bytes, source->data, source->bytes);
        }
        break;
    case FORM_FLIPPED:
        load_flipped(tensor, out);
        break;
    case FORM_BIASES:
        return load_biases(tensor, (float *)(void *)out);
    case FORM_MXFP4:
        load_mxfp4(tensor, out);
        break;
    case FORM_FACTORS:
        memcpy(out, tensor->factors, tensor->view.bytes);
        break;
    }
    return STATUS_OK;
}

/* Whether the file has the numbers as they are wanted, at an address that kernels can read. */
static bool load_is_there(const struct hf_tensor *tensor)
{
    return tensor->form == FORM_PLAIN && !tensor->adds_one && !tensor->is_permuted &&
           tensor->view.type == type_of(tensor->source->dtype) &&
           (uintptr_t)tensor->source->data % sizeof(float) == 0;
}

enum status hf_tensors_load(const struct hf_tensors *tensors, uint32_t index, struct tensor *out,
                            void **memory)
{
    ASSERT(index < tensors->count);
    const struct hf_tensor *tensor = &tensors->tensors[index];
    *out = tensor->view;
    *memory = NULL;
    hf_shards_forget(tensors->shards); /* what was loaded before is packed */
    if (load_is_there(tensor)) {
        out->data = tensor->source->data;
        return STATUS_OK;
    }
    char *own = mem_alloc(tensor->view.bytes);
    if (own == NULL)
        FAIL(STATUS_NO_MEMORY, "model directory: no memory for tensor '%s'", tensor->name);
    const enum status status = load_form(tensors, tensor, own);
    if (status != STATUS_OK) {
        mem_free(own);
        return status;
    }
    out->data = *memory = own;
    return STATUS_OK;
}
