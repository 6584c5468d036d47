/* gpu_shape: writes a model of a known llama's dimensions with seeded random weights, for `banyan
 * bench` on a device and for gpu_engine; its tokenizer has bytes, its texts no meaning.
 *
 * usage: gpu_shape tiny|1b|8b TYPE FILE [LAYERS] TYPE is that of the layers' matrices; embedding
 * and output layer are bf16 (8b; 1b uses one matrix for both). The weights are a random block for
 * each width, repeated from another offset each time: 16 GB are written as fast as the disk takes
 * them. With LAYERS the vocabulary is as large as the block allows, so that no two words have the
 * same weights and one word is the likeliest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/gpu_data.h"
#include "tests/kit/llama_file.h"

enum { POOL_BYTES = 32 << 20, POOL_STEP = 1 << 20, CHUNK_BYTES = 16 << 20, TENSORS_MAX = 1024 };

struct shape {
    const char *name;
    uint32_t layers, width, hidden, heads, kv_heads, head_dim, vocab, context;
    bool has_own_output;
};

static const struct shape SHAPES[] = {
    {"tiny", 2, 64, 128, 4, 2, 16, 300, 512, true},
    {"1b", 16, 2048, 8192, 32, 8, 64, 128256, 8192, false},
    {"8b", 32, 4096, 14336, 32, 8, 128, 128256, 8192, true},
};

/* A tensor after the head, in the file's order. */
struct part {
    const struct tensor_type_info *type;
    uint32_t cols;
    size_t bytes;
    bool is_vector; /* of a norm: about 1 */
};

struct maker {
    struct gguf_writer writer;
    const struct tensor_type_info *type;
    struct part parts[TENSORS_MAX];
    uint32_t count;
    uint64_t offset;
    struct rng rng;
    struct {
        const struct tensor_type_info *type;
        uint32_t cols;
        unsigned char *bytes; /* POOL_BYTES of them, in whole blocks */
        size_t filled;
    } pools[8];
};

static void *must(void *memory)
{
    if (memory == NULL)
        exit(1);
    return memory;
}

static void add(struct maker *maker, const char *name, const struct tensor_type_info *type,
                uint32_t rows, uint32_t cols)
{
    const bool is_vector = rows == 1;
    type = is_vector ? tensor_type_info(TENSOR_TYPE_f32) : type;
    const size_t bytes = (size_t)rows * (cols / type->block_elements) * type->block_bytes;
    if (maker->count == TENSORS_MAX)
        exit(1);
    gguf_writer_tensor_info(&maker->writer, name, is_vector ? 1 : 2, (uint64_t[]){cols, rows},
                            type->id, maker->offset);
    maker->parts[maker->count++] = (struct part){type, cols, bytes, is_vector};
    maker->offset += (bytes + 31) / 32 * 32;
}

static void add_layer(struct maker *maker, const struct shape *shape, uint32_t layer)
{
    const uint32_t attention = shape->heads * shape->head_dim;
    const uint32_t kv = shape->kv_heads * shape->head_dim;
    const struct {
        const char *name;
        uint32_t rows, cols;
    } tensors[] = {{"attn_norm", 1, shape->width},
                   {"attn_q", attention, shape->width},
                   {"attn_k", kv, shape->width},
                   {"attn_v", kv, shape->width},
                   {"attn_output", shape->width, attention},
                   {"ffn_norm", 1, shape->width},
                   {"ffn_gate", shape->hidden, shape->width},
                   {"ffn_up", shape->hidden, shape->width},
                   {"ffn_down", shape->width, shape->hidden}};
    char name[64];
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        add(maker, name, maker->type, tensors[i].rows, tensors[i].cols);
    }
}

static void add_all(struct maker *maker, const struct shape *shape)
{
    struct gguf_writer *writer = &maker->writer;
    const struct tensor_type_info *head = tensor_type_info(TENSOR_TYPE_bf16);
    gguf_writer_init(writer);
    gguf_writer_string(writer, "general.architecture", "llama");
    gguf_writer_string(writer, "general.name", shape->name);
    gguf_writer_u32(writer, "llama.block_count", shape->layers);
    gguf_writer_u32(writer, "llama.context_length", shape->context);
    gguf_writer_u32(writer, "llama.embedding_length", shape->width);
    gguf_writer_u32(writer, "llama.feed_forward_length", shape->hidden);
    gguf_writer_u32(writer, "llama.attention.head_count", shape->heads);
    gguf_writer_u32(writer, "llama.attention.head_count_kv", shape->kv_heads);
    gguf_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_writer_f32(writer, "llama.rope.freq_base", 500000);
    llama_file_write_tokenizer(writer, shape->vocab);
    add(maker, "token_embd.weight", head, shape->vocab, shape->width);
    add(maker, "output_norm.weight", NULL, 1, shape->width);
    if (shape->has_own_output)
        add(maker, "output.weight", head, shape->vocab, shape->width);
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        add_layer(maker, shape, layer);
}

/* Returns random weights of a type whose products with `cols` inputs are about as large as the
 * inputs. */
static const unsigned char *pool_of(struct maker *maker, const struct part *part, size_t *filled)
{
    uint32_t i = 0;
    while (maker->pools[i].bytes != NULL &&
           (maker->pools[i].type != part->type || maker->pools[i].cols != part->cols))
        i++;
    if (maker->pools[i].bytes == NULL) {
        const size_t blocks = POOL_BYTES / part->type->block_bytes;
        maker->pools[i].type = part->type;
        maker->pools[i].cols = part->cols;
        maker->pools[i].bytes = must(malloc(POOL_BYTES));
        maker->pools[i].filled = blocks * part->type->block_bytes;
        gpu_data_fill(&maker->rng, part->type, sqrtf(3.0f / (float)part->cols), blocks,
                      maker->pools[i].bytes);
    }
    *filled = maker->pools[i].filled;
    return maker->pools[i].bytes;
}

static bool write_vector(struct maker *maker, const struct part *part, FILE *out)
{
    float *x = must(malloc(part->bytes));
    for (uint32_t i = 0; i < part->cols; i++)
        x[i] = 1 + (float)(rng_unit(rng_next(&maker->rng)) - 0.5) / 4;
    const bool is_written = fwrite(x, 1, part->bytes, out) == part->bytes;
    free(x);
    return is_written;
}

static bool write_part(struct maker *maker, uint32_t index, FILE *out)
{
    const struct part *part = &maker->parts[index];
    static const char zeros[32];
    size_t filled;
    bool is_written = true;
    if (part->is_vector)
        is_written = write_vector(maker, part, out);
    else {
        const unsigned char *pool = pool_of(maker, part, &filled);
        size_t at =
            (size_t)index * POOL_STEP % filled / part->type->block_bytes * part->type->block_bytes;
        for (size_t left = part->bytes; is_written && left > 0;) {
            size_t bytes = filled - at < left ? filled - at : left;
            bytes = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
            is_written = fwrite(pool + at, 1, bytes, out) == bytes;
            left -= bytes;
            at = (at + bytes) % filled;
        }
    }
    const size_t padding = (32 - part->bytes % 32) % 32;
    return is_written && fwrite(zeros, 1, padding, out) == padding;
}

static bool write_all(struct maker *maker, const char *path)
{
    struct buffer head;
    gguf_writer_finish(&maker->writer, &head);
    FILE *out = fopen(path, "wb");
    bool is_written = out != NULL && setvbuf(out, NULL, _IONBF, 0) == 0 &&
                      fwrite(head.bytes, 1, head.length, out) == head.length;
    for (uint32_t i = 0; is_written && i < maker->count; i++)
        is_written = write_part(maker, i, out);
    is_written = out != NULL && fclose(out) == 0 && is_written;
    buffer_deinit(&head);
    return is_written;
}

static const struct tensor_type_info *type_of(const char *name)
{
    for (uint32_t id = 0; id <= TENSOR_TYPE_bf16; id++)
        if (tensor_type_info(id) != NULL && strcmp(tensor_type_info(id)->name, name) == 0)
            return tensor_type_info(id);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct maker maker = {.rng = {.seed = 7}};
    struct shape shape = {0};
    for (size_t i = 0; argc > 3 && i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (strcmp(argv[1], SHAPES[i].name) == 0)
            shape = SHAPES[i];
    maker.type = argc > 3 ? type_of(argv[2]) : NULL;
    if (shape.name == NULL || maker.type == NULL)
        return fprintf(stderr, "usage: gpu_shape tiny|1b|8b TYPE FILE [LAYERS]\n"), 2;
    if (argc > 4) {
        const uint32_t words = POOL_BYTES / 2 / shape.width; /* of bf16 */
        shape.layers = (uint32_t)strtoul(argv[4], NULL, 10);
        shape.vocab = shape.vocab < words ? shape.vocab : words;
    }
    add_all(&maker, &shape);
    const bool is_written = write_all(&maker, argv[3]);
    if (!is_written)
        perror(argv[3]);
    for (size_t i = 0; i < sizeof maker.pools / sizeof *maker.pools; i++)
        free(maker.pools[i].bytes);
    gguf_writer_deinit(&maker.writer);
    return is_written ? 0 : 1;
}
