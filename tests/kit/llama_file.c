#include "tests/kit/llama_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"

enum {
    TYPE_F32 = 0,
    TYPE_F16 = 1,
    TYPE_Q4_0 = 2,
    TYPE_Q4_1 = 3,
    TYPE_Q5_0 = 6,
    TYPE_Q5_1 = 7,
    TYPE_Q8_0 = 8,
    TYPE_Q4_K = 12,
    TYPE_Q5_K = 13,
    TYPE_Q6_K = 14,
    TYPE_BF16 = 30,
    BLOCK = 32,
    SUPER_BLOCK = 256,
};

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

/* Rounds to the nearest half, ties to even; for |x| < 65,504. Subnormal results become 0. */
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude < 0x38800000)
        return (uint16_t)sign;
    magnitude += 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((magnitude - 0x38000000) >> 13));
}

static float half_to(uint16_t half)
{
    uint32_t bits = ((uint32_t)(half & 0x8000) << 16) | (((half & 0x7fffu) << 13) + 0x38000000);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (half & 0x7fff) != 0 ? x : 0;
}

static void pack_half(uint8_t *out, uint16_t half)
{
    memcpy(out, &half, sizeof half);
}

static uint32_t pack_level(float value, float scale, uint32_t levels)
{
    float level = scale != 0 ? roundf(value / scale) : 0;
    return level < 0 ? 0 : level > (float)levels ? levels : (uint32_t)level;
}

/* Packs 32 codes of 4 or 5 bits: byte j of 16 holds codes j and j + 16; the fifth bits come before.
 */
static size_t pack_codes(const float *x, float base, float step, bool has_fifths, uint8_t *out)
{
    uint32_t fifths = 0;
    uint8_t *nibbles = out + (has_fifths ? sizeof fifths : 0);
    memset(nibbles, 0, BLOCK / 2);
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t code = pack_level(x[i] - base, step, has_fifths ? 31 : 15);
        nibbles[i % 16] |= (uint8_t)((code & 15) << (i < 16 ? 0 : 4));
        fifths |= code >> 4 << i;
    }
    if (has_fifths)
        memcpy(out, &fifths, sizeof fifths);
    return BLOCK / 2 + (has_fifths ? sizeof fifths : 0);
}

/* Packs one block of 32 values; returns its bytes. */
static size_t pack_block(uint32_t type, const float *x, uint8_t *out)
{
    float low = x[0];
    float high = x[0];
    for (uint32_t i = 1; i < BLOCK; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    bool has_fifths = type == TYPE_Q5_0 || type == TYPE_Q5_1;
    bool has_m = type == TYPE_Q4_1 || type == TYPE_Q5_1;
    float most = fmaxf(fabsf(low), fabsf(high));
    float middle = has_fifths ? 16 : 8;
    uint16_t scale = half_of(type == TYPE_Q8_0 ? most / 127
                             : has_m           ? (high - low) / (2 * middle - 1)
                                               : most / (middle - 1));
    float step = half_to(scale);
    pack_half(out, scale);
    if (type == TYPE_Q8_0) {
        for (uint32_t i = 0; i < BLOCK; i++)
            out[2 + i] = (uint8_t)(int8_t)(step != 0 ? roundf(x[i] / step * 0.999f) : 0);
        return 34;
    }
    if (has_m)
        pack_half(out + 2, half_of(low));
    float base = has_m ? half_to(half_of(low)) : -middle * step;
    size_t head = has_m ? 4 : 2;
    return head + pack_codes(x, base, step, has_fifths, out + head);
}

/* Packs 256 values of about the magnitude of x, with random codes and scales; no test needs them
 * close to x. */
static size_t pack_super_block(uint32_t type, const float *x, uint8_t *out)
{
    const size_t bytes = type == TYPE_Q4_K ? 144 : type == TYPE_Q5_K ? 176 : 210;
    uint32_t seed;
    float most = 0;
    memcpy(&seed, x, sizeof seed);
    for (uint32_t i = 0; i < SUPER_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)rng_at(seed, 5, i);
    if (type == TYPE_Q6_K) { /* d × scale (here −8 … 7) × code (to ±32); no d below 2^-14 */
        for (uint32_t i = 192; i < 208; i++)
            out[i] = (uint8_t)((out[i] & 15) - 8);
        pack_half(out + 208, half_of(most / (8 * 32)));
        return bytes;
    }
    float codes = type == TYPE_Q4_K ? 15 : 31; /* d × scale (to 63) × code − m × min (to 63) */
    pack_half(out, half_of(most / (16 * codes)));
    pack_half(out + 2, half_of(most / 32));
    return bytes;
}

/* Returns `x` in the form of `type`; the caller frees it with free. */
static uint8_t *pack(uint32_t type, const float *x, size_t count, size_t *bytes)
{
    uint8_t *out = malloc(count * sizeof *x + 64);
    if (out == NULL)
        abort();
    *bytes = 0;
    if (type == TYPE_F32) {
        *bytes = count * sizeof *x;
        memcpy(out, x, *bytes);
    } else if (type == TYPE_F16) {
        for (size_t i = 0; i < count; i++)
            pack_half(out + 2 * i, half_of(x[i]));
        *bytes = 2 * count;
    } else if (type == TYPE_BF16) {
        for (size_t i = 0; i < count; i++)
            memcpy(out + 2 * i, (const uint8_t *)&x[i] + 2, 2);
        *bytes = 2 * count;
    } else if (type >= TYPE_Q4_K) {
        for (size_t i = 0; i < count; i += SUPER_BLOCK)
            *bytes += pack_super_block(type, x + i, out + *bytes);
    } else {
        for (size_t i = 0; i < count; i += BLOCK)
            *bytes += pack_block(type, x + i, out + *bytes);
    }
    return out;
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
    uint8_t *packed = pack(rows == 1 ? TYPE_F32 : maker->shape->type, x, count, &bytes);
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
