/* make_tiny: writes a generated model of any architecture, with a byte-level tokenizer and a chat
 * template. End-to-end tests serve the small ones; `experts` and `dense` are for measurements.
 *
 * A path with '/' at its end becomes a Hugging Face directory of three shards.
 *
 * usage: make_tiny FILE MODEL [context [f32|q4_0|q8_0]]    MODEL: a row of tiny_models.def
 *        make_tiny FILE experts    8 layers of width 1,024 with 64 experts of 512, 8 taken, q4_0
 *        make_tiny FILE dense      the same with one feed-forward of 4,096: equal active weights */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tensor.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/tiny_folder.h"

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "make_tiny: %s %s\n", what, why);
    exit(2);
}

static struct tiny_model large(bool has_experts)
{
    struct tiny_model model = {.name = has_experts ? "experts" : "dense",
                               .family = has_experts ? TINY_QWEN3MOE : TINY_QWEN3,
                               .layers = 8,
                               .width = 1024,
                               .heads = 16,
                               .kv_heads = 4,
                               .head_dim = 64,
                               .hidden = 4096,
                               .context = 4096,
                               .vocab = 32000,
                               .has_own_output = true,
                               .epsilon = 1e-6f,
                               .rope_base = 1e6f,
                               .type = TENSOR_TYPE_q4_0,
                               .expert_type = TENSOR_TYPE_q4_0,
                               .scales = {{"proj.weight", 0x1p-5f, 0}}};
    if (has_experts) {
        model.experts = 64;
        model.experts_used = 8;
        model.expert_hidden = 512;
    }
    return model;
}

static struct tiny_model small(int argc, char **argv)
{
    const struct tiny_model *found = tiny_model_find(argv[2]);
    if (found == NULL)
        die(argv[2], "is no row of tests/kit/tiny_models.def");
    struct tiny_model model = *found;
    if (argc > 3) {
        unsigned long context = strtoul(argv[3], NULL, 10);
        if (context < 16 || context > 65536)
            die(argv[3], "is no context from 16 to 65,536");
        model.context = (uint32_t)context;
    }
    if (argc > 4) {
        const struct tensor_type_info *type = NULL;
        const uint32_t types[] = {TENSOR_TYPE_f32, TENSOR_TYPE_q4_0, TENSOR_TYPE_q8_0};
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            if (strcmp(tensor_type_info(types[i])->name, argv[4]) == 0)
                type = tensor_type_info(types[i]);
        if (type == NULL)
            die(argv[4], "is none of f32, q4_0, q8_0");
        model.type = type->id;
        if (model.expert_type != TINY_MODEL_MXFP4)
            model.expert_type = type->id;
    }
    return model;
}

static int write_folder(const char *path, const struct tiny_model *model)
{
    struct hf_writer folder;
    if (model->type == TENSOR_TYPE_q4_0 || model->type == TENSOR_TYPE_q8_0)
        die(path, "cannot have packed weights");
    hf_writer_open(&folder, path);
    tiny_folder_write(&folder, model, 3, TINY_SPELLING_OLD);
    tiny_folder_text(&folder, model->vocab != 0 ? model->vocab : TINY_VOCAB, 0);
    hf_writer_close(&folder);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5)
        die("usage:", "make_tiny FILE MODEL [context [type]] | FILE experts | FILE dense");
    bool has_experts = strcmp(argv[2], "experts") == 0;
    struct tiny_model model =
        has_experts || strcmp(argv[2], "dense") == 0 ? large(has_experts) : small(argc, argv);
    if (argv[1][0] != '\0' && argv[1][strlen(argv[1]) - 1] == '/')
        return write_folder(argv[1], &model);
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.name", model.name);
    llama_file_write_tokenizer(&writer, model.vocab != 0 ? model.vocab : TINY_VOCAB);
    tiny_model_write(&writer, &model);
    bool is_written = gguf_writer_save(&writer, argv[1]);
    gguf_writer_deinit(&writer);
    return is_written ? 0 : 1;
}
