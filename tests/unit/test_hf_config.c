#include "engine/models/hf_config.h"

#include "tests/unit/hf_kit.h"

#define END        "\"tie_word_embeddings\":"
#define MORE(text) "," text "," END
#define REFUSED(model, more, says)                                                                 \
    {                                                                                              \
        model, "," END, MORE(more), STATUS_UNSUPPORTED, says                                       \
    }
#define CORRUPT(model, more, says)                                                                 \
    {                                                                                              \
        model, "," END, MORE(more), STATUS_CORRUPT, says                                           \
    }
#define TAKEN(model, more)                                                                         \
    {                                                                                              \
        model, "," END, MORE(more), STATUS_OK, NULL                                                \
    }
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static void test_keys_that_are_not_supported(void **state)
{
    static const struct hf_kit_case cases[] = {
        REFUSED("llama", "\"mystery\":1", "'mystery' is not supported for llama models"),
        REFUSED("llama", "\"mystery\":null", "'mystery'"),
        REFUSED("llama", "\"mlp_bias\":true", "'mlp_bias'"),
        REFUSED("llama", "\"attention_bias\":true", "attention_bias"),
        REFUSED("llama", "\"kv_lora_rank\":512", "'kv_lora_rank'"),
        REFUSED("llama", "\"n_shared_experts\":1", "'n_shared_experts'"),
        REFUSED("llama", "\"partial_rotary_factor\":0.5", "'partial_rotary_factor'"),
        REFUSED("llama", "\"use_sliding_window\":true", "use_sliding_window"),
        REFUSED("llama", "\"layer_types\":[\"full_attention\",\"linear_attention\"]", "layer 1"),
        REFUSED("llama", "\"layer_types\":[1,2]", "layer 0"),
        CORRUPT("llama", "\"layer_types\":[\"full_attention\"]", "no list of all layers"),
        REFUSED("llama", "\"no_rope_layers\":[1,0]", "layer 1"),
        REFUSED("llama", "\"vision_config\":{}", "'vision_config'"),
        REFUSED("llama", "\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}",
                "method 'gptq'"),
        REFUSED("llama", "\"quantization_config\":{\"quant_method\":\"mxfp4\"}", "'mxfp4'"),
        REFUSED("llama", "\"quantization_config\":{}", "method ''"),
        CORRUPT("llama", "\"quantization_config\":4", "no object"),
        REFUSED("qwen2", "\"rope_interleaved\":true", "'rope_interleaved'"),
        REFUSED("qwen2", "\"num_experts\":8", "'num_experts'"),
        REFUSED("qwen3moe", "\"mlp_only_layers\":[1]", "'mlp_only_layers'"),
        REFUSED("qwen3moe", "\"decoder_sparse_step\":2", "'decoder_sparse_step'"),
        CORRUPT("qwen3moe", "\"num_local_experts\":9", "two different values"),
        REFUSED("olmoe", "\"clip_qkv\":8.0", "'clip_qkv'"),
        REFUSED("gemma", "\"use_bidirectional_attention\":true", "'use_bidirectional_attention'"),
        TAKEN("llama", "\"mlp_bias\":false,\"attention_bias\":false,\"pretraining_tp\":1"),
        TAKEN("llama",
              "\"transformers_version\":\"4.46.0\",\"use_cache\":true,\"eos_token_id\":[2]"),
        TAKEN("llama", "\"partial_rotary_factor\":1.0"),
        TAKEN("qwen2", "\"use_sliding_window\":false,\"max_window_layers\":28"),
        TAKEN("qwen3moe", "\"mlp_only_layers\":[],\"decoder_sparse_step\":1"),
        TAKEN("qwen3moe", "\"num_local_experts\":8"),
        TAKEN("gemma3", "\"_sliding_window_pattern\":6"),
    };
    (void)state;
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_OLD);
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_NEW);
}

static void test_values_that_are_wrong(void **state)
{
    static const struct hf_kit_case cases[] = {
        {"llama", "\"LlamaForCausalLM\"", "\"MambaForCausalLM\"", STATUS_UNSUPPORTED,
         "class 'MambaForCausalLM'"},
        {"llama", "\"LlamaForCausalLM\"", "\"Llama\"", STATUS_UNSUPPORTED, "class 'Llama'"},
        {"llama", "\"LlamaForCausalLM\"", "\"\"", STATUS_UNSUPPORTED, "class ''"},
        {"llama", "[\"LlamaForCausalLM\"]", "[]", STATUS_CORRUPT, "architectures"},
        {"llama", "[\"LlamaForCausalLM\"]", "\"x\"", STATUS_CORRUPT, "architectures"},
        {"llama", "\"num_hidden_layers\":2,", "", STATUS_CORRUPT, "num_hidden_layers' is missing"},
        {"llama", "\"num_hidden_layers\":2", "\"num_hidden_layers\":-1", STATUS_CORRUPT,
         "whole number"},
        {"llama", "\"num_hidden_layers\":2", "\"num_hidden_layers\":2.5", STATUS_CORRUPT,
         "whole number"},
        {"llama", "\"num_hidden_layers\":2", "\"num_hidden_layers\":4294967296", STATUS_CORRUPT,
         "whole number"},
        {"llama", "\"hidden_size\":64", "\"hidden_size\":\"64\"", STATUS_CORRUPT, "whole number"},
        {"llama", "\"num_attention_heads\":4", "\"num_attention_heads\":0", STATUS_CORRUPT,
         "num_attention_heads"},
        {"llama", "\"head_dim\":32", "\"head_dim\":0", STATUS_CORRUPT, "head_dim"},
        {"llama", "\"head_dim\":32", "\"head_dim\":100000", STATUS_CORRUPT, "head_dim"},
        {"gemma", "\"head_dim\":32,", "", STATUS_CORRUPT, "head_dim' is missing"},
        {"qwen3", "\"head_dim\":32,", "", STATUS_CORRUPT, "head_dim' is missing"},
        {"llama", "\"rms_norm_eps\":9.99999975e-06", "\"rms_norm_eps\":\"x\"", STATUS_CORRUPT,
         "rms_norm_eps"},
        {"llama", "\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\"", STATUS_UNSUPPORTED,
         "hidden_act"},
        {"gemma", "\"hidden_activation\":\"gelu_pytorch_tanh\"", "\"hidden_activation\":\"silu\"",
         STATUS_UNSUPPORTED, "hidden_act"},
        {"gemma2", "\"query_pre_attn_scalar\":32", "\"query_pre_attn_scalar\":16",
         STATUS_UNSUPPORTED, "query_pre_attn_scalar is 16"},
        {"gemma2", "\"attn_logit_softcapping\":50", "\"attn_logit_softcapping\":null",
         STATUS_UNSUPPORTED, "attn_logit_softcapping"},
        {"gemma2", "\"sliding_window\":16", "\"sliding_window\":null", STATUS_CORRUPT,
         "sliding_window"},
        {"gemma3", "\"sliding_attention\",\"full_attention\"",
         "\"full_attention\",\"full_attention\"", STATUS_UNSUPPORTED, "layer 4"},
        {"qwen3moe", "\"norm_topk_prob\":true", "\"norm_topk_prob\":false", STATUS_UNSUPPORTED,
         "norm_topk_prob"},
        {"olmoe", "\"norm_topk_prob\":false", "\"norm_topk_prob\":true", STATUS_UNSUPPORTED,
         "norm_topk_prob"},
        {"olmoe", "\"num_experts\":8,", "", STATUS_CORRUPT, "num_experts"},
        {"gpt_oss", "\"swiglu_limit\":7.0", "\"swiglu_limit\":10.0", STATUS_UNSUPPORTED,
         "swiglu_limit"},
        {"gpt_oss", "\"attention_bias\":true", "\"attention_bias\":false", STATUS_UNSUPPORTED,
         "attention_bias"},
        {"starcoder2", "\"use_bias\":true", "\"use_bias\":false", STATUS_UNSUPPORTED, "use_bias"},
        {"llama", "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":0", STATUS_CORRUPT,
         "neither true nor false"},
        {"qwen2", "\"sliding_window\":null", "\"sliding_window\":4096", STATUS_UNSUPPORTED,
         "sliding_window"},
    };
    (void)state;
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_OLD);
    hf_kit_check(cases, COUNT(cases), TINY_SPELLING_NEW);
}

static void test_what_belongs_to_tensors(void **state)
{
    struct hf_config config;
    (void)state;
    const struct hf_kit_case same = {"llama", END, END, STATUS_OK, NULL};
    assert_int_equal(hf_kit_read(&same, TINY_SPELLING_OLD, &config), STATUS_OK);
    assert_string_equal(config.arch->name, "llama");
    assert_int_equal(config.head_dim, 32);
    assert_true(config.is_untied);
    assert_false(config.is_tied);
    assert_int_equal(config.rope.pairs, 16);
    const struct hf_kit_case unsaid = {"gemma", END "true,", "", STATUS_OK, NULL};
    assert_int_equal(hf_kit_read(&unsaid, TINY_SPELLING_OLD, &config), STATUS_OK);
    assert_false(config.is_untied);
    assert_false(config.is_tied);
    const struct hf_kit_case packed = {"gpt_oss_mxfp4", END, END, STATUS_OK, NULL};
    assert_int_equal(hf_kit_read(&packed, TINY_SPELLING_OLD, &config), STATUS_OK);
    assert_true(config.is_mxfp4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_that_are_not_supported),
        cmocka_unit_test(test_values_that_are_wrong),
        cmocka_unit_test(test_what_belongs_to_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
