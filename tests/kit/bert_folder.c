#include "tests/kit/bert_folder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/base/rng.h"

float bert_folder_value(const char *name, uint64_t index)
{
    uint64_t seed = 1469598103934665603u;
    for (const char *c = name; *c != '\0'; c++)
        seed = (seed ^ (unsigned char)*c) * 1099511628211u;
    const float unit = (float)(rng_at(seed, 3, index) >> 40) / (1 << 23) - 1; /* [-1, 1) */
    const size_t length = strlen(name);
    if (length > 16 && strcmp(name + length - 16, "LayerNorm.weight") == 0)
        return 1 + unit / 4;
    return unit / 4;
}

static void add(struct hf_writer *writer, const char *name, uint64_t rows, uint64_t cols)
{
    const uint64_t shape[2] = {rows > 0 ? rows : cols, cols};
    const size_t count = (size_t)((rows > 0 ? rows : 1) * cols);
    float *values = malloc(count * sizeof *values);
    assert(values != NULL);
    for (size_t i = 0; i < count; i++)
        values[i] = bert_folder_value(name, i);
    hf_writer_tensor(writer, name, "F32", rows > 0 ? 2 : 1, shape, values, count * sizeof *values);
    free(values);
}

static void add_layer(struct hf_writer *writer, int layer)
{
    static const struct {
        const char *name;
        uint64_t rows; /* 0: a vector */
        uint64_t cols;
    } tensors[] = {
        {"attention.self.query.weight", BERT_WIDTH, BERT_WIDTH},
        {"attention.self.query.bias", 0, BERT_WIDTH},
        {"attention.self.key.weight", BERT_WIDTH, BERT_WIDTH},
        {"attention.self.key.bias", 0, BERT_WIDTH},
        {"attention.self.value.weight", BERT_WIDTH, BERT_WIDTH},
        {"attention.self.value.bias", 0, BERT_WIDTH},
        {"attention.output.dense.weight", BERT_WIDTH, BERT_WIDTH},
        {"attention.output.dense.bias", 0, BERT_WIDTH},
        {"attention.output.LayerNorm.weight", 0, BERT_WIDTH},
        {"attention.output.LayerNorm.bias", 0, BERT_WIDTH},
        {"intermediate.dense.weight", BERT_HIDDEN, BERT_WIDTH},
        {"intermediate.dense.bias", 0, BERT_HIDDEN},
        {"output.dense.weight", BERT_WIDTH, BERT_HIDDEN},
        {"output.dense.bias", 0, BERT_WIDTH},
        {"output.LayerNorm.weight", 0, BERT_WIDTH},
        {"output.LayerNorm.bias", 0, BERT_WIDTH},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[128];
        snprintf(name, sizeof name, "encoder.layer.%d.%s", layer, tensors[i].name);
        add(writer, name, tensors[i].rows, tensors[i].cols);
    }
}

static void write_tokenizer(const struct hf_writer *writer)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    buffer_append_text(
        &out, "{\"added_tokens\":[{\"id\":1,\"content\":\"[UNK]\",\"special\":true},"
              "{\"id\":2,\"content\":\"[CLS]\",\"special\":true},"
              "{\"id\":3,\"content\":\"[SEP]\",\"special\":true}],"
              "\"normalizer\":{\"type\":\"BertNormalizer\"},"
              "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
              "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],"
              "\"cls\":[\"[CLS]\",2]},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
              "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,"
              "\"[CLS]\":2,\"[SEP]\":3");
    for (int i = 4; i < BERT_VOCAB; i++)
        buffer_printf(&out, ",\"%s%c\":%d", i < 30 ? "" : "##", 'a' + (i < 30 ? i - 4 : i - 30), i);
    buffer_append_text(&out, "}}}");
    hf_writer_file(writer, "tokenizer.json", buffer_slice(&out));
    buffer_deinit(&out);
}

static void write_pooling(const struct hf_writer *writer)
{
    static const char modules[] =
        "[{\"idx\":0,\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
        "{\"idx\":1,\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
        "{\"idx\":2,\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]";
    char path[300];
    hf_writer_file(writer, "modules.json", slice_of(modules));
    snprintf(path, sizeof path, "%s/1_Pooling", writer->path);
    (void)mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/1_Pooling/config.json", writer->path);
    FILE *file = fopen(path, "w");
    assert(file != NULL);
    fputs("{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false}", file);
    fclose(file);
}

void bert_folder_write(struct hf_writer *writer)
{
    static const int64_t positions[BERT_CONTEXT];
    static const uint64_t shape[2] = {1, BERT_CONTEXT};
    struct buffer config;
    buffer_init(&config, 4096);
    buffer_printf(&config,
                  "{\"architectures\":[\"BertModel\"],\"attention_probs_dropout_prob\":0.1,"
                  "\"hidden_act\":\"gelu\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                  "\"layer_norm_eps\":1e-12,\"max_position_embeddings\":%d,"
                  "\"model_type\":\"bert\",\"num_attention_heads\":%d,\"num_hidden_layers\":%d,"
                  "\"position_embedding_type\":\"absolute\",\"type_vocab_size\":2,"
                  "\"vocab_size\":%d}",
                  BERT_WIDTH, BERT_HIDDEN, BERT_CONTEXT, BERT_HEADS, BERT_LAYERS, BERT_VOCAB);
    hf_writer_file(writer, "config.json", buffer_slice(&config));
    buffer_deinit(&config);
    hf_writer_tensor(writer, "embeddings.position_ids", "I64", 2, shape, positions,
                     sizeof positions);
    add(writer, "embeddings.word_embeddings.weight", BERT_VOCAB, BERT_WIDTH);
    add(writer, "embeddings.position_embeddings.weight", BERT_CONTEXT, BERT_WIDTH);
    add(writer, "embeddings.token_type_embeddings.weight", 2, BERT_WIDTH);
    add(writer, "embeddings.LayerNorm.weight", 0, BERT_WIDTH);
    add(writer, "embeddings.LayerNorm.bias", 0, BERT_WIDTH);
    for (int layer = 0; layer < BERT_LAYERS; layer++)
        add_layer(writer, layer);
    add(writer, "pooler.dense.weight", BERT_WIDTH, BERT_WIDTH);
    add(writer, "pooler.dense.bias", 0, BERT_WIDTH);
    hf_writer_finish(writer, 1);
    write_tokenizer(writer);
    write_pooling(writer);
}
