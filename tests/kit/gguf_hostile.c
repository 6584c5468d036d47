#include "tests/kit/gguf_hostile.h"

#include "config/base/limits.h"
#include "tests/kit/gguf_writer.h"

enum hostile_id {
    HOSTILE_KEY_LENGTH,
    HOSTILE_STRING_LENGTH,
    HOSTILE_STRING_CAP,
    HOSTILE_DIMS_OVERFLOW,
    HOSTILE_DIMS_NEGATIVE,
    HOSTILE_BYTES_WRAP,
    HOSTILE_ARRAY_COUNT,
    HOSTILE_ARRAY_STRINGS,
    HOSTILE_TENSOR_COUNT,
    HOSTILE_KEY_COUNT,
    HOSTILE_EARLY_ERROR,
    HOSTILE_ONLY_MAGIC,
    HOSTILE_TOKEN_LENGTH_SIGN,
    HOSTILE_SUM_WRAPS,
    HOSTILE_OFFSET_WRAPS,
    HOSTILE_EXABYTES,
    HOSTILE_DIMS_BEYOND_FILE,
    HOSTILE_OVERLAP,
    HOSTILE_PADDING,
    HOSTILE_ALIGNMENT_ZERO,
    HOSTILE_ALIGNMENT_ODD,
    HOSTILE_ALIGNMENT_HUGE,
    HOSTILE_MANY_DIMS,
    HOSTILE_NO_DIMS,
    HOSTILE_ZERO_DIM,
    HOSTILE_TYPE_UNKNOWN,
    HOSTILE_TYPE_REMOVED,
    HOSTILE_BLOCK,
    HOSTILE_OFFSET_UNALIGNED,
    HOSTILE_VALUE_TYPE,
    HOSTILE_ARRAY_TYPE,
    HOSTILE_ARRAY_NESTED,
    HOSTILE_BOOL,
    HOSTILE_BOOL_ARRAY,
    HOSTILE_KEY_TWICE,
    HOSTILE_TENSOR_TWICE,
    HOSTILE_NAME_LENGTH,
    HOSTILE_NAME_EMPTY,
    HOSTILE_NAME_CONTROL,
    HOSTILE_VERSION_1,
    HOSTILE_VERSION_4,
    HOSTILE_BIG_ENDIAN,
    HOSTILE_MAGIC,
    HOSTILE_COUNT
};

#define HOSTILE(id, name, origin, status, says)                                                    \
    [HOSTILE_##id] = {(name), (origin), STATUS_##status, (says)}

const struct gguf_hostile gguf_hostile_cases[] = {
    HOSTILE(KEY_LENGTH, "key-length", "CVE-2024-23496", CORRUPT, "limit"),
    HOSTILE(STRING_LENGTH, "string-length", "CVE-2024-23496: length + 1 wraps", CORRUPT, "limit"),
    HOSTILE(STRING_CAP, "string-cap", "oss-sec 2026-05-15: string length", CORRUPT, "are left"),
    HOSTILE(DIMS_OVERFLOW, "dims-overflow", "CVE-2024-21802", CORRUPT, "overflow"),
    HOSTILE(DIMS_NEGATIVE, "dims-negative", "#27203: element count turns negative", CORRUPT,
            "outside"),
    HOSTILE(BYTES_WRAP, "bytes-wrap", "CVE-2024-21802: bytes = blocks x block size wraps", CORRUPT,
            "overflow"),
    HOSTILE(ARRAY_COUNT, "array-count", "CVE-2024-21825", CORRUPT, "limit"),
    HOSTILE(ARRAY_STRINGS, "array-strings", "CVE-2024-21825: more strings than bytes", CORRUPT,
            "are left"),
    HOSTILE(TENSOR_COUNT, "tensor-count", "CVE-2024-21836", CORRUPT, "tensors cannot"),
    HOSTILE(KEY_COUNT, "key-count", "CVE-2024-23605", CORRUPT, "keys cannot"),
    HOSTILE(EARLY_ERROR, "early-error", "CVE-2024-32878: freed before set", CORRUPT, "are left"),
    HOSTILE(ONLY_MAGIC, "only-magic", "CVE-2024-41130: NULL dereference", CORRUPT, "are left"),
    HOSTILE(TOKEN_LENGTH_SIGN, "token-length-sign", "CVE-2025-49847, CVE-2025-52566", CORRUPT,
            "limit"),
    HOSTILE(SUM_WRAPS, "sum-wraps", "CVE-2025-53630: sum of tensor sizes wraps", CORRUPT,
            "outside"),
    HOSTILE(OFFSET_WRAPS, "offset-wraps", "CVE-2026-27940: offset + size wraps", CORRUPT,
            "outside"),
    HOSTILE(EXABYTES, "exabytes", "CVE-2026-33298: exabytes by stride, megabytes real", CORRUPT,
            "overflow"),
    HOSTILE(DIMS_BEYOND_FILE, "dims-beyond-file", "CVE-2026-7482: read past the file", CORRUPT,
            "outside"),
    HOSTILE(OVERLAP, "overlap", "two tensors over the same bytes", CORRUPT, "overlaps"),
    HOSTILE(PADDING, "padding", "oss-sec 2026-05-15: padding past the end", CORRUPT, "ends before"),
    HOSTILE(ALIGNMENT_ZERO, "alignment-zero", "division by zero", CORRUPT, "alignment"),
    HOSTILE(ALIGNMENT_ODD, "alignment-odd", "no power of two", CORRUPT, "alignment"),
    HOSTILE(ALIGNMENT_HUGE, "alignment-huge", "oss-sec 2026-05-15: padding overflow", CORRUPT,
            "alignment"),
    HOSTILE(MANY_DIMS, "many-dims", "oss-sec 2026-05-15: n_dims", CORRUPT, "dimensions"),
    HOSTILE(NO_DIMS, "no-dims", "oss-sec 2026-05-15: n_dims", CORRUPT, "dimensions"),
    HOSTILE(ZERO_DIM, "zero-dim", "division by zero", CORRUPT, "dimension of 0"),
    HOSTILE(TYPE_UNKNOWN, "type-unknown", "oss-sec 2026-05-15: type bounds", UNSUPPORTED, "type"),
    HOSTILE(TYPE_REMOVED, "type-removed", "oss-sec 2026-05-15: block size 0", UNSUPPORTED, "type"),
    HOSTILE(BLOCK, "block", "rows that are no whole blocks", CORRUPT, "blocks"),
    HOSTILE(OFFSET_UNALIGNED, "offset-unaligned", "unaligned reads", CORRUPT, "multiple"),
    HOSTILE(VALUE_TYPE, "value-type", "oss-sec 2026-05-15: type bounds", CORRUPT, "unknown type"),
    HOSTILE(ARRAY_TYPE, "array-type", "oss-sec 2026-05-15: type bounds", CORRUPT, "unknown type"),
    HOSTILE(ARRAY_NESTED, "array-nested", "recursion without end", UNSUPPORTED, "arrays"),
    HOSTILE(BOOL, "bool", "a bool that is 2", CORRUPT, "bool"),
    HOSTILE(BOOL_ARRAY, "bool-array", "a bool that is 255", CORRUPT, "bool"),
    HOSTILE(KEY_TWICE, "key-twice", "the checked one is not the used one", CORRUPT, "twice"),
    HOSTILE(TENSOR_TWICE, "tensor-twice", "the checked one is not the used one", CORRUPT, "twice"),
    HOSTILE(NAME_LENGTH, "name-length", "CVE-2024-42477: fixed buffers for names", CORRUPT,
            "limit"),
    HOSTILE(NAME_EMPTY, "name-empty", "a name of no bytes", CORRUPT, "name"),
    HOSTILE(NAME_CONTROL, "name-control", "escape sequences in messages", CORRUPT, "name"),
    HOSTILE(VERSION_1, "version-1", "counts of 32 bits", UNSUPPORTED, "version 1"),
    HOSTILE(VERSION_4, "version-4", "a version to come", UNSUPPORTED, "version 4"),
    HOSTILE(BIG_ENDIAN, "big-endian", "byte order", UNSUPPORTED, "big-endian"),
    HOSTILE(MAGIC, "magic", "another format", CORRUPT, "GGUF"),
};
const size_t gguf_hostile_count = sizeof gguf_hostile_cases / sizeof gguf_hostile_cases[0];
_Static_assert(sizeof gguf_hostile_cases / sizeof gguf_hostile_cases[0] == HOSTILE_COUNT,
               "each case needs a row");

static const uint8_t HOSTILE_ZEROS[256];

static void build_string_of_length(struct gguf_writer *writer, const char *key, uint64_t length)
{
    gguf_writer_key(writer, key, GGUF_WRITER_STRING, NULL, 0);
    buffer_append(&writer->keys, &length, sizeof length);
    buffer_append_text(&writer->keys, "short");
}

static void build_info(struct gguf_writer *writer, uint64_t d0, uint64_t d1, uint32_t type,
                       uint64_t offset)
{
    uint64_t dims[2] = {d0, d1};
    gguf_writer_tensor_info(writer, "t", 2, dims, type, offset);
    buffer_append(&writer->data, HOSTILE_ZEROS, sizeof HOSTILE_ZEROS);
}

static void build_small(struct gguf_writer *writer, const char *name)
{
    uint64_t dims[1] = {8};
    gguf_writer_tensor(writer, name, 1, dims, 0, HOSTILE_ZEROS, 32);
}

/* Cases of key lengths and counts. Returns false when the case is of another family. */
static bool build_keys(struct gguf_writer *writer, size_t index)
{
    uint64_t wide;
    uint8_t truth = 2;
    char long_name[LIMIT_GGUF_NAME_BYTES + 2];
    switch (index) {
    case HOSTILE_KEY_LENGTH:
        wide = UINT64_MAX - 7;
        buffer_append(&writer->keys, &wide, sizeof wide);
        buffer_append_text(&writer->keys, "general.architecture");
        writer->key_count = 1;
        return true;
    case HOSTILE_STRING_LENGTH:
        build_string_of_length(writer, "general.name", UINT64_MAX);
        return true;
    case HOSTILE_STRING_CAP:
        build_string_of_length(writer, "general.name", LIMIT_GGUF_STRING_BYTES);
        return true;
    case HOSTILE_TOKEN_LENGTH_SIGN:
        wide = 0x80000000u;
        gguf_writer_array(writer, "tokenizer.ggml.tokens", GGUF_WRITER_STRING, 1, &wide,
                          sizeof wide);
        return true;
    case HOSTILE_ARRAY_COUNT:
        gguf_writer_array(writer, "a", GGUF_WRITER_U64, (UINT64_MAX / 8) + 2, HOSTILE_ZEROS, 16);
        return true;
    case HOSTILE_ARRAY_STRINGS:
        gguf_writer_array(writer, "a", GGUF_WRITER_STRING, LIMIT_GGUF_ARRAY_ELEMENTS, HOSTILE_ZEROS,
                          16);
        return true;
    case HOSTILE_VALUE_TYPE:
        gguf_writer_key(writer, "a", 13, HOSTILE_ZEROS, 16);
        return true;
    case HOSTILE_ARRAY_TYPE:
        gguf_writer_array(writer, "a", 0xffffffffu, 1, HOSTILE_ZEROS, 16);
        return true;
    case HOSTILE_ARRAY_NESTED:
        gguf_writer_array(writer, "a", GGUF_WRITER_ARRAY, 1, HOSTILE_ZEROS, 16);
        return true;
    case HOSTILE_BOOL:
        gguf_writer_bool(writer, "a", 2);
        return true;
    case HOSTILE_BOOL_ARRAY:
        truth = 255;
        gguf_writer_array(writer, "a", GGUF_WRITER_BOOL, 1, &truth, 1);
        return true;
    case HOSTILE_KEY_TWICE:
        gguf_writer_u32(writer, "llama.block_count", 1);
        gguf_writer_u32(writer, "llama.block_count", 2);
        return true;
    case HOSTILE_NAME_LENGTH:
        memset(long_name, 'n', sizeof long_name - 1);
        long_name[sizeof long_name - 1] = '\0';
        gguf_writer_u32(writer, long_name, 1);
        return true;
    case HOSTILE_NAME_EMPTY:
        gguf_writer_u32(writer, "", 1);
        return true;
    case HOSTILE_NAME_CONTROL:
        gguf_writer_u32(writer, "a\x1b[2J", 1);
        return true;
    default:
        return false;
    }
}

/* Cases of dimensions, types and offsets of tensors. */
static bool build_tensors(struct gguf_writer *writer, size_t index)
{
    uint64_t many[5] = {1, 1, 1, 1, 1};
    switch (index) {
    case HOSTILE_DIMS_OVERFLOW:
        build_info(writer, 1ull << 33, 1ull << 33, 0, 0);
        return true;
    case HOSTILE_DIMS_NEGATIVE:
        build_info(writer, 1ull << 32, (1ull << 29) - 1, 0, 0);
        return true;
    case HOSTILE_BYTES_WRAP:
        build_info(writer, 1ull << 31, 1ull << 31, 0, 0);
        return true;
    case HOSTILE_SUM_WRAPS:
        build_info(writer, 1ull << 31, (1ull << 30) - 1, 0, 0);
        gguf_writer_tensor_info(writer, "u", 1, &(uint64_t){1ull << 31}, 0, 1ull << 63);
        return true;
    case HOSTILE_OFFSET_WRAPS:
        build_info(writer, 8, 8, 0, UINT64_MAX - 31);
        return true;
    case HOSTILE_EXABYTES:
        gguf_writer_tensor_info(writer, "t", 4,
                                (uint64_t[]){1u << 20, 1u << 20, 1u << 20, 1u << 10}, 2, 0);
        return true;
    case HOSTILE_DIMS_BEYOND_FILE:
        build_info(writer, 64, 2, 0, 0);
        return true;
    case HOSTILE_OVERLAP:
        build_info(writer, 8, 4, 0, 0);
        gguf_writer_tensor_info(writer, "u", 1, &(uint64_t){8}, 0, 96);
        return true;
    case HOSTILE_MANY_DIMS:
        gguf_writer_tensor_info(writer, "t", 5, many, 0, 0);
        return true;
    case HOSTILE_NO_DIMS:
        gguf_writer_tensor_info(writer, "t", 0, many, 0, 0);
        buffer_append(&writer->data, HOSTILE_ZEROS, 64);
        return true;
    case HOSTILE_ZERO_DIM:
        build_info(writer, 8, 0, 0, 0);
        return true;
    case HOSTILE_TYPE_UNKNOWN:
        build_info(writer, 32, 1, 0x7fffffff, 0);
        return true;
    case HOSTILE_TYPE_REMOVED:
        build_info(writer, 32, 1, 4, 0); /* Q4_2, a removed type: size 0 in the format's table */
        return true;
    case HOSTILE_BLOCK:
        build_info(writer, 48, 1, 8, 0);
        return true;
    case HOSTILE_OFFSET_UNALIGNED:
        build_info(writer, 8, 1, 0, 16);
        return true;
    case HOSTILE_TENSOR_TWICE:
        build_small(writer, "t");
        build_small(writer, "t");
        return true;
    default:
        return false;
    }
}

/* Cases of the file's head. */
static void build_head(struct gguf_writer *writer, size_t index)
{
    build_small(writer, "t");
    gguf_writer_u32(writer, "llama.block_count", 1);
    switch (index) {
    case HOSTILE_TENSOR_COUNT:
        writer->tensor_count = (UINT64_MAX / 64) + 2;
        break;
    case HOSTILE_KEY_COUNT:
        writer->key_count = (UINT64_MAX / 64) + 2;
        break;
    case HOSTILE_ALIGNMENT_ZERO:
        gguf_writer_u32(writer, "general.alignment", 0);
        break;
    case HOSTILE_ALIGNMENT_ODD:
        gguf_writer_u32(writer, "general.alignment", 48);
        break;
    case HOSTILE_ALIGNMENT_HUGE:
        gguf_writer_u32(writer, "general.alignment", 0x80000000u);
        break;
    case HOSTILE_VERSION_1:
        writer->version = 1;
        break;
    case HOSTILE_VERSION_4:
        writer->version = 4;
        break;
    case HOSTILE_BIG_ENDIAN:
        writer->version = 0x03000000;
        break;
    default:
        break;
    }
}

void gguf_hostile_build(size_t index, struct buffer *out)
{
    struct gguf_writer writer;
    ASSERT(index < gguf_hostile_count);
    gguf_writer_init(&writer);
    if (!build_keys(&writer, index) && !build_tensors(&writer, index))
        build_head(&writer, index);
    gguf_writer_finish(&writer, out);
    if (index == HOSTILE_EARLY_ERROR)
        out->length = 24 + writer.keys.length + 3; /* inside the first tensor's row */
    else if (index == HOSTILE_ONLY_MAGIC)
        out->length = 4;
    else if (index == HOSTILE_PADDING)
        out->length = 24 + writer.keys.length + writer.tensors.length; /* just before the padding */
    else if (index == HOSTILE_MAGIC)
        out->bytes[3] = 'X';
    gguf_writer_deinit(&writer);
}

void gguf_hostile_build_valid(struct buffer *out)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "general.architecture", "llama");
    gguf_writer_key(&writer, "u8", GGUF_WRITER_U8, &(uint8_t){200}, 1);
    gguf_writer_key(&writer, "i8", GGUF_WRITER_I8, &(int8_t){-3}, 1);
    gguf_writer_key(&writer, "u16", GGUF_WRITER_U16, &(uint16_t){60000}, 2);
    gguf_writer_key(&writer, "i16", GGUF_WRITER_I16, &(int16_t){-300}, 2);
    gguf_writer_u32(&writer, "u32", 4000000000u);
    gguf_writer_key(&writer, "i32", GGUF_WRITER_I32, &(int32_t){70000}, 4);
    gguf_writer_key(&writer, "u64", GGUF_WRITER_U64, &(uint64_t){UINT32_MAX}, 8);
    gguf_writer_key(&writer, "u64wide", GGUF_WRITER_U64, &(uint64_t){1ull << 32}, 8);
    gguf_writer_key(&writer, "i64", GGUF_WRITER_I64, &(int64_t){INT64_MIN}, 8);
    gguf_writer_f32(&writer, "f32", 0.5f);
    gguf_writer_f32(&writer, "f32nan", __builtin_nanf(""));
    gguf_writer_key(&writer, "f64", GGUF_WRITER_F64, &(double){1e5}, 8);
    gguf_writer_key(&writer, "f64wide", GGUF_WRITER_F64, &(double){1e300}, 8);
    gguf_writer_bool(&writer, "yes", 1);
    gguf_writer_bool(&writer, "no", 0);
    gguf_writer_string(&writer, "empty", "");
    gguf_writer_strings(&writer, "words", (const char *const[]){"one", "", "three"}, 3);
    gguf_writer_array(&writer, "i32s", GGUF_WRITER_I32, 2, (int32_t[]){-1, INT32_MAX}, 8);
    gguf_writer_array(&writer, "u64s", GGUF_WRITER_U64, 1, (uint64_t[]){1ull << 40}, 8);
    gguf_writer_array(&writer, "f32s", GGUF_WRITER_F32, 2, (float[]){1.5f, -2.0f}, 8);
    gguf_writer_array(&writer, "bools", GGUF_WRITER_BOOL, 3, (uint8_t[]){1, 0, 1}, 3);
    gguf_writer_array(&writer, "none", GGUF_WRITER_STRING, 0, NULL, 0);
    gguf_writer_tensor(&writer, "small", 1, (uint64_t[]){3}, 0, (float[]){1, 2, 3}, 12);
    gguf_writer_tensor(&writer, "blocks", 2, (uint64_t[]){64, 2}, 8, HOSTILE_ZEROS, 136);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}
