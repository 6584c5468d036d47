#include "tests/kit/llama_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "tests/kit/pack_values.h"

enum { TYPE_F32 = 0 };

struct llama_shape llama_file_shape(void)
{
    return (struct llama_shape){.layers = 2,
                                .width = 64,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 32,
                                .hidden = 96,
                                .vocab = 83,
                                .context = 512,
                                .type = TYPE_F32,
                                .seed = 1};
}

struct maker {
    struct gguf_writer *writer;
    const struct llama_shape *shape;
    struct rng rng;
};

static bool is_left_out(const struct maker *maker, const char *name)
{
    return maker->shape->without != NULL && strcmp(maker->shape->without, name) == 0;
}

/* Adds values uniform in middle ± spread. A single row (a vector) has one dimension and is always
 * F32. */
static void add_tensor(struct maker *maker, const char *name, uint64_t cols, uint64_t rows,
                       float middle, float spread)
{
    size_t count = (size_t)(cols * rows);
    size_t bytes;
    float *x = malloc(count * sizeof *x);
    if (x == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        x[i] = middle + spread * (float)(2 * rng_unit(rng_next(&maker->rng)) - 1);
    uint8_t *packed = pack_values(rows == 1 ? TYPE_F32 : maker->shape->type, x, count, &bytes);
    if (!is_left_out(maker, name))
        gguf_writer_tensor(maker->writer, name, rows == 1 ? 1 : 2, (uint64_t[]){cols, rows},
                           rows == 1 ? TYPE_F32 : maker->shape->type, packed, bytes);
    free(packed);
    free(x);
}

/* Returns a spread that keeps the outputs about as large as the inputs. */
static float matrix_spread(uint64_t cols)
{
    return sqrtf(3.0f / (float)cols);
}

static void add_layer(struct maker *maker, uint32_t index)
{
    const struct llama_shape *shape = maker->shape;
    uint32_t attention = shape->heads * shape->head_dim;
    uint32_t kv = shape->kv_heads * shape->head_dim;
    const struct {
        const char *name;
        uint32_t cols;
        uint32_t rows;
    } matrices[] = {{"attn_q", shape->width, attention},
                    {"attn_k", shape->width, kv},
                    {"attn_v", shape->width, kv},
                    {"attn_output", attention, shape->width},
                    {"ffn_gate", shape->width, shape->hidden},
                    {"ffn_up", shape->width, shape->hidden},
                    {"ffn_down", shape->hidden, shape->width}};
    char name[64];
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", index, matrices[i].name);
        add_tensor(maker, name, matrices[i].cols, matrices[i].rows, 0,
                   matrix_spread(matrices[i].cols));
    }
    snprintf(name, sizeof name, "blk.%u.attn_norm.weight", index);
    add_tensor(maker, name, shape->width, 1, 1, 0.5f);
    snprintf(name, sizeof name, "blk.%u.ffn_norm.weight", index);
    add_tensor(maker, name, shape->width, 1, 1, 0.5f);
}

static void add_count(struct maker *maker, const char *name, uint32_t value)
{
    if (!is_left_out(maker, name))
        gguf_writer_u32(maker->writer, name, value);
}

void llama_file_write(struct gguf_writer *writer, const struct llama_shape *shape)
{
    struct maker maker = {writer, shape, {shape->seed, 0}};
    if (!is_left_out(&maker, "general.architecture"))
        gguf_writer_string(writer, "general.architecture", "llama");
    add_count(&maker, "llama.block_count", shape->layers);
    add_count(&maker, "llama.context_length", shape->context);
    add_count(&maker, "llama.embedding_length", shape->width);
    add_count(&maker, "llama.feed_forward_length", shape->hidden);
    add_count(&maker, "llama.attention.head_count", shape->heads);
    if (shape->kv_heads != shape->heads)
        add_count(&maker, "llama.attention.head_count_kv", shape->kv_heads);
    if (shape->head_dim * shape->heads != shape->width) {
        add_count(&maker, "llama.attention.key_length", shape->head_dim);
        add_count(&maker, "llama.attention.value_length", shape->head_dim);
    }
    if (shape->rope_dims != 0)
        add_count(&maker, "llama.rope.dimension_count", shape->rope_dims);
    if (!is_left_out(&maker, "llama.attention.layer_norm_rms_epsilon"))
        gguf_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_tensor(&maker, "token_embd.weight", shape->width, shape->vocab, 0, 1);
    add_tensor(&maker, "output_norm.weight", shape->width, 1, 1, 0.5f);
    if (shape->has_own_output)
        add_tensor(&maker, "output.weight", shape->width, shape->vocab, 0,
                   matrix_spread(shape->width));
    if (shape->has_rope_freqs)
        add_tensor(&maker, "rope_freqs.weight",
                   (shape->rope_dims != 0 ? shape->rope_dims : shape->head_dim) / 2, 1, 4, 3);
    for (uint32_t i = 0; i < shape->layers; i++)
        add_layer(&maker, i);
}

/* Byte-level BPE writes bytes as printable characters: the printable ones of Latin-1 as they are,
 * the others from 256 on. */
static uint32_t byte_character(uint32_t byte)
{
    uint32_t next = 256;
    for (uint32_t b = 0; b <= byte; b++) {
        bool is_printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return is_printable ? b : next;
        next += !is_printable;
    }
    return 0;
}

static const char CHAT_TEMPLATE[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

void llama_file_write_tokenizer(struct gguf_writer *writer, uint32_t vocab)
{
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    const char **texts = calloc(vocab, sizeof *texts);
    char(*words)[16] = calloc(vocab, sizeof *words);
    int32_t *kinds = calloc(vocab, sizeof *kinds);
    if (texts == NULL || words == NULL || kinds == NULL || vocab < 259)
        abort();
    for (uint32_t i = 0; i < vocab; i++) {
        bool is_special = i >= 256 && i < 259;
        if (i < 256)
            words[i][utf8_encode(byte_character(i), words[i])] = '\0';
        else if (!is_special)
            snprintf(words[i], sizeof words[i], "word%u", i);
        texts[i] = is_special ? special[i - 256] : words[i];
        kinds[i] = is_special ? 3 : 1; /* control, normal */
    }
    gguf_writer_string(writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(writer, "tokenizer.ggml.pre", "smollm");
    gguf_writer_strings(writer, "tokenizer.ggml.tokens", texts, vocab);
    gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, vocab, kinds,
                      vocab * sizeof *kinds);
    gguf_writer_strings(writer, "tokenizer.ggml.merges", NULL, 0);
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 257);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 258);
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", 0);
    gguf_writer_string(writer, "tokenizer.chat_template", CHAT_TEMPLATE);
    free(kinds);
    free(words);
    free(texts);
}

void llama_file_build(const struct llama_shape *shape, struct buffer *out)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    llama_file_write(&writer, shape);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}
