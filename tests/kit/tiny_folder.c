#include "tests/kit/tiny_folder.h"

#include <stdlib.h>

#include "engine/models/gguf.h"
#include "kernels/tensor.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/pack_values.h"

/* --- weights --- */

static void take(void *context, const struct tiny_tensor *tensor)
{
    struct hf_writer *writer = ((void **)context)[0];
    const struct tiny_model *model = ((void **)context)[1];
    const uint32_t type = tensor->is_matrix ? model->type : TENSOR_TYPE_f32;
    size_t count = 1;
    for (uint32_t d = 0; d < tensor->dim_count; d++)
        count *= (size_t)tensor->shape[d];
    if (tensor->form != TINY_FLOATS) {
        uint8_t *bytes = malloc(count);
        if (bytes == NULL)
            abort();
        for (size_t i = 0; i < count; i++)
            bytes[i] = tiny_model_byte(tensor, i);
        hf_writer_tensor(writer, tensor->name, "U8", tensor->dim_count, tensor->shape, bytes,
                         count);
        free(bytes);
        return;
    }
    float *x = malloc(count * sizeof *x);
    size_t bytes;
    if (x == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        x[i] = tiny_model_weight(tensor->name, i, tensor->add, tensor->scale);
    uint8_t *packed = pack_values(type, x, count, &bytes);
    hf_writer_tensor(writer, tensor->name,
                     type == TENSOR_TYPE_f16    ? "F16"
                     : type == TENSOR_TYPE_bf16 ? "BF16"
                                                : "F32",
                     tensor->dim_count, tensor->shape, packed, bytes);
    free(packed);
    free(x);
}

/* --- config.json --- */

static const char *const CLASSES[] = {[TINY_LLAMA] = "LlamaForCausalLM",
                                      [TINY_MIXTRAL] = "MixtralForCausalLM",
                                      [TINY_QWEN2] = "Qwen2ForCausalLM",
                                      [TINY_QWEN3] = "Qwen3ForCausalLM",
                                      [TINY_QWEN3MOE] = "Qwen3MoeForCausalLM",
                                      [TINY_GEMMA] = "GemmaForCausalLM",
                                      [TINY_GEMMA2] = "Gemma2ForCausalLM",
                                      [TINY_GEMMA3] = "Gemma3ForCausalLM",
                                      [TINY_PHI3] = "Phi3ForCausalLM",
                                      [TINY_OLMO2] = "Olmo2ForCausalLM",
                                      [TINY_OLMO3] = "Olmo3ForCausalLM",
                                      [TINY_OLMOE] = "OlmoeForCausalLM",
                                      [TINY_GPT_OSS] = "GptOssForCausalLM",
                                      [TINY_SMOLLM3] = "SmolLM3ForCausalLM",
                                      [TINY_STARCODER2] = "Starcoder2ForCausalLM"};

static void put_factors(const struct tiny_model *model, const char *name, bool is_long,
                        struct buffer *out)
{
    const uint32_t dims = model->rope_dims != 0 ? model->rope_dims : model->head_dim;
    buffer_printf(out, ",\"%s\":[", name);
    for (uint32_t i = 0; i < dims / 2; i++)
        buffer_printf(out, "%s%.17g", i > 0 ? "," : "", tiny_model_long_factor(i, is_long));
    buffer_append_char(out, ']');
}

/* The members of rope_scaling behind its type; nothing for plain rope. */
static void put_scaling(const struct tiny_model *model, struct buffer *out)
{
    switch (model->rope) {
    case TINY_ROPE_PLAIN:
        break;
    case TINY_ROPE_LLAMA3:
        buffer_printf(out,
                      ",\"factor\":%g,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                      "\"original_max_position_embeddings\":%u",
                      (double)model->rope_factor, model->rope_original);
        break;
    case TINY_ROPE_LINEAR:
        buffer_printf(out, ",\"factor\":%g", (double)model->rope_factor);
        break;
    case TINY_ROPE_YARN:
        buffer_printf(out,
                      ",\"factor\":%g,\"beta_fast\":32.0,\"beta_slow\":1.0,"
                      "\"original_max_position_embeddings\":%u,\"truncate\":false",
                      (double)model->rope_factor, model->rope_original);
        break;
    case TINY_ROPE_LONG:
        put_factors(model, "short_factor", false, out);
        put_factors(model, "long_factor", true, out);
        break;
    }
}

static void put_rope(const struct tiny_model *model, enum tiny_spelling spelling,
                     struct buffer *out)
{
    static const char *const types[] = {"default", "llama3", "linear", "yarn", "longrope"};
    const double theta = model->rope_base != 0 ? (double)model->rope_base : 10000;
    const bool is_old = spelling == TINY_SPELLING_OLD;
    const double part =
        model->rope_dims != 0 ? (double)model->rope_dims / (double)model->head_dim : 1;
    if (model->rope_original != 0 && model->rope == TINY_ROPE_LONG)
        buffer_printf(out, ",\"original_max_position_embeddings\":%u", model->rope_original);
    if (is_old && part != 1)
        buffer_printf(out, ",\"partial_rotary_factor\":%g", part);
    if (is_old) {
        buffer_printf(out, ",\"rope_theta\":%.17g", theta);
        if (model->family == TINY_GEMMA3)
            buffer_printf(out, ",\"rope_local_base_freq\":%.17g", (double)model->rope_base_local);
        if (model->rope == TINY_ROPE_PLAIN) {
            buffer_append_text(out, ",\"rope_scaling\":null");
            return;
        }
        buffer_printf(out, ",\"rope_scaling\":{\"%s\":\"%s\"",
                      model->rope == TINY_ROPE_LONG ? "type" : "rope_type", types[model->rope]);
        put_scaling(model, out);
        buffer_append_char(out, '}');
        return;
    }
    buffer_append_text(out, ",\"rope_parameters\":{");
    if (model->rope_base_local != 0)
        buffer_printf(out,
                      "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":%.17g},"
                      "\"full_attention\":{",
                      (double)model->rope_base_local);
    buffer_printf(out, "\"rope_type\":\"%s\",\"rope_theta\":%.17g", types[model->rope], theta);
    if (part != 1)
        buffer_printf(out, ",\"partial_rotary_factor\":%g", part);
    put_scaling(model, out);
    buffer_append_text(out, model->rope_base_local != 0 ? "}}" : "}");
}

static void put_layers(const struct tiny_model *model, struct buffer *out)
{
    static const uint32_t periods[] = {
        [TINY_GEMMA2] = 2, [TINY_GEMMA3] = 6, [TINY_OLMO3] = 4, [TINY_GPT_OSS] = 2};
    const uint32_t period = model->family <= TINY_GPT_OSS ? periods[model->family] : 0;
    if (model->window != 0)
        buffer_printf(out, ",\"sliding_window\":%u", model->window);
    else if (model->family != TINY_GEMMA && model->family != TINY_OLMO2)
        buffer_append_text(out, ",\"sliding_window\":null");
    if (period == 0)
        return;
    buffer_append_text(out, ",\"layer_types\":[");
    for (uint32_t i = 0; i < model->layers; i++)
        buffer_printf(out, "%s\"%s_attention\"", i > 0 ? "," : "",
                      i % period < period - 1 ? "sliding" : "full");
    buffer_append_char(out, ']');
}

/* What some classes alone have. */
static void put_own(const struct tiny_model *model, struct buffer *out)
{
    if (model->experts != 0)
        buffer_printf(out, ",\"%s\":%u,\"num_experts_per_tok\":%u",
                      model->family == TINY_OLMOE || model->family == TINY_QWEN3MOE
                          ? "num_experts"
                          : "num_local_experts",
                      model->experts, model->experts_used);
    if (model->family == TINY_QWEN3MOE)
        buffer_printf(out, ",\"moe_intermediate_size\":%u,\"norm_topk_prob\":true",
                      model->expert_hidden);
    if (model->family == TINY_OLMOE)
        buffer_append_text(out, ",\"norm_topk_prob\":false");
    if (model->family == TINY_GEMMA2 || model->family == TINY_GEMMA3)
        buffer_printf(out, ",\"query_pre_attn_scalar\":%u", model->head_dim);
    if (model->attention_softcap != 0)
        buffer_printf(out, ",\"attn_logit_softcapping\":%g", (double)model->attention_softcap);
    if (model->logit_softcap != 0)
        buffer_printf(out, ",\"final_logit_softcapping\":%g", (double)model->logit_softcap);
    if (model->family == TINY_GPT_OSS)
        buffer_append_text(out, ",\"attention_bias\":true,\"swiglu_limit\":7.0");
    if (model->family == TINY_STARCODER2)
        buffer_append_text(out, ",\"use_bias\":true");
    if (model->family == TINY_SMOLLM3)
        buffer_append_text(out, ",\"no_rope_layers\":[1,1,1,0],\"no_rope_layer_interval\":4");
    if (model->expert_type == TINY_MODEL_MXFP4)
        buffer_append_text(out, ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}");
}

void tiny_folder_config(const struct tiny_model *model, enum tiny_spelling spelling,
                        struct buffer *out)
{
    const bool is_gemma =
        model->family == TINY_GEMMA || model->family == TINY_GEMMA2 || model->family == TINY_GEMMA3;
    const bool is_starcoder = model->family == TINY_STARCODER2;
    buffer_printf(out,
                  "{\"architectures\":[\"%s\"],\"num_hidden_layers\":%u,\"hidden_size\":%u,"
                  "\"intermediate_size\":%u,\"max_position_embeddings\":%u,\"vocab_size\":%u,"
                  "\"num_attention_heads\":%u,\"num_key_value_heads\":%u,\"head_dim\":%u,"
                  "\"%s\":%.9g,\"tie_word_embeddings\":%s,\"%s\":\"%s\",\"%s\":\"float32\"",
                  CLASSES[model->family], model->layers, model->width, model->hidden,
                  model->context, model->vocab != 0 ? model->vocab : TINY_VOCAB, model->heads,
                  model->kv_heads, model->head_dim, is_starcoder ? "norm_epsilon" : "rms_norm_eps",
                  (double)model->epsilon, model->has_own_output ? "false" : "true",
                  is_gemma ? "hidden_activation" : "hidden_act",
                  is_gemma || is_starcoder ? "gelu_pytorch_tanh" : "silu",
                  spelling == TINY_SPELLING_OLD ? "torch_dtype" : "dtype");
    put_rope(model, spelling, out);
    put_layers(model, out);
    put_own(model, out);
    buffer_append_char(out, '}');
}

void tiny_folder_write(struct hf_writer *writer, const struct tiny_model *model, uint32_t files,
                       enum tiny_spelling spelling)
{
    void *context[] = {writer, (void *)(uintptr_t)model};
    struct buffer config;
    buffer_init(&config, 1 << 20);
    tiny_folder_config(model, spelling, &config);
    hf_writer_file(writer, "config.json", buffer_slice(&config));
    buffer_deinit(&config);
    tiny_model_each(model, take, context);
    hf_writer_finish(writer, files);
}

/* --- text --- */

/* "vocab" and "added_tokens" of the file's tokens; control tokens are added ones. */
static void put_tokens(const struct gguf *gguf, uint32_t count, struct buffer *vocab,
                       struct buffer *added)
{
    struct gguf_array tokens;
    struct gguf_array kinds;
    if (gguf_get_array(gguf, "tokenizer.ggml.tokens", &tokens) != STATUS_OK ||
        gguf_get_array(gguf, "tokenizer.ggml.token_type", &kinds) != STATUS_OK)
        abort();
    for (uint32_t id = 0; id < count; id++) {
        struct slice text;
        int32_t kind;
        if (gguf_array_next_string(&tokens, &text) != STATUS_OK ||
            gguf_array_next_i32(&kinds, &kind) != STATUS_OK)
            abort();
        struct buffer *out = kind == 1 ? vocab : added;
        if (out->length > 0)
            buffer_append_char(out, ',');
        if (kind != 1)
            buffer_printf(out, "{\"id\":%u,\"special\":true,\"content\":", id);
        buffer_append_json_string(out, text);
        if (kind == 1)
            buffer_printf(out, ":%u", id);
        else
            buffer_append_char(out, '}');
    }
}

void tiny_folder_text(const struct hf_writer *writer, uint32_t vocab, uint32_t padding)
{
    struct gguf_writer keys;
    struct buffer file;
    struct buffer tokens;
    struct buffer added;
    struct buffer out;
    struct gguf *gguf;
    struct slice chat;
    gguf_writer_init(&keys);
    llama_file_write_tokenizer(&keys, vocab);
    gguf_writer_finish(&keys, &file);
    gguf_writer_deinit(&keys);
    if (gguf_parse(&gguf, file.bytes, file.length) != STATUS_OK ||
        gguf_get_string(gguf, "tokenizer.chat_template", &chat) != STATUS_OK)
        abort();
    buffer_init(&tokens, 1 << 24);
    buffer_init(&added, 1 << 24);
    buffer_init(&out, 1 << 24);
    put_tokens(gguf, vocab - padding, &tokens, &added);
    buffer_append_text(&out, "{\"version\":\"1.0\",\"added_tokens\":[");
    buffer_append_slice(&out, buffer_slice(&added));
    buffer_append_text(&out,
                       "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\","
                       "\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}]},"
                       "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
                       "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                       "\"continuing_subword_prefix\":\"\",\"byte_fallback\":false,"
                       "\"merges\":[],\"vocab\":{");
    buffer_append_slice(&out, buffer_slice(&tokens));
    buffer_append_text(&out, "}}}");
    hf_writer_file(writer, "tokenizer.json", buffer_slice(&out));
    hf_writer_file(writer, "tokenizer_config.json",
                   SLICE("{\"bos_token\":{\"content\":\"<|im_start|>\"},"
                         "\"eos_token\":\"<|im_end|>\",\"add_bos_token\":false}"));
    hf_writer_file(writer, "generation_config.json", SLICE("{\"eos_token_id\":[258,256]}"));
    hf_writer_file(writer, "chat_template.jinja", chat);
    buffer_deinit(&out);
    buffer_deinit(&added);
    buffer_deinit(&tokens);
    gguf_close(gguf);
    buffer_deinit(&file);
}
