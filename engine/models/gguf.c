#include "engine/models/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"

/* Value types of the format (GGUF specification, enum gguf_metadata_value_type). */
enum gguf_value_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES
};

/* The bytes of a scalar of each type; 0 for types whose length is in the file. */
static const uint8_t GGUF_VALUE_BYTES[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static const char *const GGUF_VALUE_NAMES[GGUF_VALUE_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

enum {
    GGUF_ALIGNMENT_DEFAULT = 32,
    GGUF_ALIGNMENT_MIN = 8, /* the specification asks for a multiple of 8 */
    GGUF_ALIGNMENT_MAX = 65536,
    GGUF_KEY_BYTES_MIN = 8 + 1 + 4 + 1,         /* length, one byte, type, smallest value */
    GGUF_TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 12, /* length, one byte, one dimension, type, offset */
};

struct gguf_key {
    struct slice name;
    uint32_t type;
    const char *value; /* the bytes in the file; of strings and arrays those after the length */
    uint64_t count;    /* the bytes of a string, the elements of an array, otherwise 1 */
    uint32_t element_type;
    const char *value_end;
};

struct gguf_tensor {
    struct slice name;
    uint64_t offset; /* from the start of the data section */
    struct tensor tensor;
};

/* A hash table with open addressing, at most half full. A slot has an index + 1, or 0 when it is
 * free. */
struct gguf_index {
    uint32_t *slots;
    size_t mask;
};

struct gguf {
    const char *bytes;
    size_t length;
    void *mapping; /* NULL when the bytes are borrowed */
    size_t data;   /* where the tensors' bytes begin; `length` when there are no tensors */
    uint32_t key_count;
    uint32_t tensor_count;
    struct gguf_key *keys;
    struct gguf_tensor *tensors;
    struct gguf_index key_index;
    struct gguf_index tensor_index;
};

/* --- reading: a cursor that never passes the end --- */

struct gguf_reader {
    const char *bytes;
    size_t length;
    size_t at;
};

static enum status parse_take(struct gguf_reader *reader, uint64_t bytes, const char **out)
{
    if (bytes > reader->length - reader->at)
        FAIL(STATUS_CORRUPT, "model file: %llu bytes wanted at byte %zu, %zu are left",
             (unsigned long long)bytes, reader->at, reader->length - reader->at);
    *out = reader->bytes + reader->at;
    reader->at += (size_t)bytes;
    return STATUS_OK;
}

static enum status parse_u32(struct gguf_reader *reader, uint32_t *out)
{
    const char *bytes = NULL;
    TRY(parse_take(reader, sizeof *out, &bytes));
    memcpy(out, bytes, sizeof *out);
    return STATUS_OK;
}

static enum status parse_u64(struct gguf_reader *reader, uint64_t *out)
{
    const char *bytes = NULL;
    TRY(parse_take(reader, sizeof *out, &bytes));
    memcpy(out, bytes, sizeof *out);
    return STATUS_OK;
}

static enum status parse_string(struct gguf_reader *reader, size_t bytes_max, struct slice *out)
{
    uint64_t length;
    TRY(parse_u64(reader, &length));
    if (length > bytes_max)
        FAIL(STATUS_CORRUPT, "model file: a string of %llu bytes at byte %zu, the limit is %zu",
             (unsigned long long)length, reader->at - sizeof length, bytes_max);
    TRY(parse_take(reader, length, &out->bytes));
    out->length = (size_t)length;
    return STATUS_OK;
}

/* A name appears in messages and logs, so it must be text without control characters. */
static enum status parse_name(struct gguf_reader *reader, struct slice *out)
{
    TRY(parse_string(reader, LIMIT_GGUF_NAME_BYTES, out));
    bool is_plain = out->length > 0 && utf8_is_valid(out->bytes, out->length);
    for (size_t i = 0; i < out->length; i++)
        is_plain = is_plain && (unsigned char)out->bytes[i] >= 0x20 && out->bytes[i] != 0x7f;
    if (!is_plain)
        FAIL(STATUS_CORRUPT, "model file: the name before byte %zu is empty or not plain text",
             reader->at);
    return STATUS_OK;
}

/* --- index --- */

static enum status index_create(struct gguf_index *index, uint32_t count)
{
    size_t capacity = 4;
    while (capacity < 2 * (size_t)count)
        capacity *= 2;
    index->slots = mem_zalloc(capacity, sizeof *index->slots);
    if (index->slots == NULL)
        FAIL(STATUS_NO_MEMORY, "model file: no memory for an index of %u names", count);
    index->mask = capacity - 1;
    return STATUS_OK;
}

/* Finds the slot that holds `name`, or the free one where it belongs. `names` is the name member of
 * the first element of an array of structs of `stride` bytes. */
static uint32_t *index_find(const struct gguf_index *index, const struct slice *names,
                            size_t stride, struct slice name)
{
    size_t slot = hash_bytes(hash_process_key(), name.bytes, name.length) & index->mask;
    for (; index->slots[slot] != 0; slot = (slot + 1) & index->mask) {
        size_t at = (size_t)(index->slots[slot] - 1) * stride;
        const struct slice *held = (const struct slice *)(const void *)((const char *)names + at);
        if (slice_equals(*held, name))
            break;
    }
    return &index->slots[slot];
}

static const struct gguf_key *gguf_find(const struct gguf *gguf, const char *key)
{
    if (gguf->key_count == 0)
        return NULL;
    uint32_t found =
        *index_find(&gguf->key_index, &gguf->keys[0].name, sizeof gguf->keys[0], slice_of(key));
    return found != 0 ? &gguf->keys[found - 1] : NULL;
}

/* --- parsing --- */

static enum status parse_bools(const char *bytes, uint64_t count, struct slice name)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != 0 && bytes[i] != 1)
            FAIL(STATUS_CORRUPT, "model file: key '%.*s' has a bool that is neither 0 nor 1",
                 (int)name.length, name.bytes);
    return STATUS_OK;
}

static enum status parse_array(struct gguf_reader *reader, struct gguf_key *key)
{
    TRY(parse_u32(reader, &key->element_type));
    TRY(parse_u64(reader, &key->count));
    if (key->element_type >= GGUF_VALUE_TYPES)
        FAIL(STATUS_CORRUPT, "model file: key '%.*s' is an array of unknown type %u",
             (int)key->name.length, key->name.bytes, key->element_type);
    if (key->element_type == GGUF_ARRAY)
        FAIL(STATUS_UNSUPPORTED, "model file: key '%.*s' is an array of arrays",
             (int)key->name.length, key->name.bytes);
    if (key->count > LIMIT_GGUF_ARRAY_ELEMENTS)
        FAIL(STATUS_CORRUPT, "model file: key '%.*s' has %llu elements, the limit is %d",
             (int)key->name.length, key->name.bytes, (unsigned long long)key->count,
             LIMIT_GGUF_ARRAY_ELEMENTS);
    if (key->element_type != GGUF_STRING) {
        uint64_t bytes;
        if (__builtin_mul_overflow(key->count, GGUF_VALUE_BYTES[key->element_type], &bytes))
            FAIL(STATUS_CORRUPT, "model file: array size overflows");
        TRY(parse_take(reader, bytes, &key->value));
        if (key->element_type == GGUF_BOOL)
            TRY(parse_bools(key->value, key->count, key->name));
        return STATUS_OK;
    }
    key->value = reader->bytes + reader->at;
    for (uint64_t i = 0; i < key->count; i++) {
        struct slice ignored;
        TRY(parse_string(reader, LIMIT_GGUF_STRING_BYTES, &ignored));
    }
    return STATUS_OK;
}

static enum status parse_value(struct gguf_reader *reader, struct gguf_key *key)
{
    TRY(parse_u32(reader, &key->type));
    if (key->type >= GGUF_VALUE_TYPES)
        FAIL(STATUS_CORRUPT, "model file: key '%.*s' has unknown type %u", (int)key->name.length,
             key->name.bytes, key->type);
    key->count = 1;
    if (key->type == GGUF_ARRAY) {
        TRY(parse_array(reader, key));
    } else if (key->type == GGUF_STRING) {
        struct slice text;
        TRY(parse_string(reader, LIMIT_GGUF_STRING_BYTES, &text));
        key->value = text.bytes;
        key->count = text.length;
    } else {
        TRY(parse_take(reader, GGUF_VALUE_BYTES[key->type], &key->value));
        if (key->type == GGUF_BOOL)
            TRY(parse_bools(key->value, 1, key->name));
    }
    key->value_end = reader->bytes + reader->at;
    return STATUS_OK;
}

static enum status parse_keys(struct gguf *gguf, struct gguf_reader *reader)
{
    TRY(index_create(&gguf->key_index, gguf->key_count));
    gguf->keys = mem_zalloc(gguf->key_count, sizeof *gguf->keys);
    if (gguf->keys == NULL)
        FAIL(STATUS_NO_MEMORY, "model file: no memory for %u keys", gguf->key_count);
    for (uint32_t i = 0; i < gguf->key_count; i++) {
        struct gguf_key *key = &gguf->keys[i];
        TRY(parse_name(reader, &key->name));
        TRY(parse_value(reader, key));
        uint32_t *slot = index_find(&gguf->key_index, &gguf->keys[0].name, sizeof *key, key->name);
        if (*slot != 0)
            FAIL(STATUS_CORRUPT, "model file: key '%.*s' appears twice", (int)key->name.length,
                 key->name.bytes);
        *slot = i + 1;
    }
    return STATUS_OK;
}

/* Computes a tensor's bytes from its type and dimensions, and checks every product for overflow. */
static enum status parse_tensor_bytes(struct gguf_tensor *entry)
{
    struct tensor *tensor = &entry->tensor;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < tensor->dim_count; d++) {
        if (tensor->dims[d] == 0)
            FAIL(STATUS_CORRUPT, "model file: tensor '%.*s' has a dimension of 0",
                 (int)entry->name.length, entry->name.bytes);
        if (__builtin_mul_overflow(elements, tensor->dims[d], &elements))
            FAIL(STATUS_CORRUPT, "model file: the elements of tensor '%.*s' overflow",
                 (int)entry->name.length, entry->name.bytes);
    }
    if (tensor->dims[0] % tensor->type->block_elements != 0)
        FAIL(STATUS_CORRUPT, "model file: rows of tensor '%.*s' (%llu) are no whole %s blocks",
             (int)entry->name.length, entry->name.bytes, (unsigned long long)tensor->dims[0],
             tensor->type->name);
    if (__builtin_mul_overflow(elements / tensor->type->block_elements, tensor->type->block_bytes,
                               &tensor->bytes))
        FAIL(STATUS_CORRUPT, "model file: the bytes of tensor '%.*s' overflow",
             (int)entry->name.length, entry->name.bytes);
    return STATUS_OK;
}

static enum status parse_tensor(struct gguf_reader *reader, struct gguf_tensor *entry)
{
    struct tensor *tensor = &entry->tensor;
    uint32_t type;
    TRY(parse_name(reader, &entry->name));
    TRY(parse_u32(reader, &tensor->dim_count));
    if (tensor->dim_count < 1 || tensor->dim_count > TENSOR_DIMS_MAX)
        FAIL(STATUS_CORRUPT, "model file: tensor '%.*s' has %u dimensions, 1 to %d are allowed",
             (int)entry->name.length, entry->name.bytes, tensor->dim_count, TENSOR_DIMS_MAX);
    for (uint32_t d = 0; d < TENSOR_DIMS_MAX; d++)
        tensor->dims[d] = 1;
    for (uint32_t d = 0; d < tensor->dim_count; d++)
        TRY(parse_u64(reader, &tensor->dims[d]));
    TRY(parse_u32(reader, &type));
    TRY(parse_u64(reader, &entry->offset));
    tensor->type = tensor_type_info(type);
    if (tensor->type == NULL)
        FAIL(STATUS_UNSUPPORTED,
             "model file: tensor '%.*s' has weight type %u, which is not one of those supported:%s",
             (int)entry->name.length, entry->name.bytes, type, tensor_type_names());
    return parse_tensor_bytes(entry);
}

static int tensors_compare(const void *a, const void *b)
{
    const struct gguf_tensor *const *left = a;
    const struct gguf_tensor *const *right = b;
    return ((*left)->offset > (*right)->offset) - ((*left)->offset < (*right)->offset);
}

/* Checks that tensors are inside the data section, aligned, and do not overlap. */
static enum status parse_tensors_place(struct gguf *gguf, struct gguf_tensor **order,
                                       const char *data, uint64_t data_bytes, uint32_t alignment)
{
    uint64_t end_before = 0;
    for (uint32_t i = 0; i < gguf->tensor_count; i++)
        order[i] = &gguf->tensors[i];
    qsort(order, gguf->tensor_count, sizeof(struct gguf_tensor *), tensors_compare);
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        struct gguf_tensor *entry = order[i];
        uint64_t end;
        if (entry->offset % alignment != 0)
            FAIL(STATUS_CORRUPT, "model file: tensor '%.*s' starts at %llu, no multiple of %u",
                 (int)entry->name.length, entry->name.bytes, (unsigned long long)entry->offset,
                 alignment);
        if (__builtin_add_overflow(entry->offset, entry->tensor.bytes, &end) || end > data_bytes)
            FAIL(STATUS_CORRUPT,
                 "model file: tensor '%.*s' (%llu bytes at %llu) ends outside the %llu bytes of "
                 "data: the file is cut short or wrong",
                 (int)entry->name.length, entry->name.bytes,
                 (unsigned long long)entry->tensor.bytes, (unsigned long long)entry->offset,
                 (unsigned long long)data_bytes);
        if (entry->offset < end_before)
            FAIL(STATUS_CORRUPT, "model file: tensor '%.*s' overlaps the one before it",
                 (int)entry->name.length, entry->name.bytes);
        end_before = end;
        entry->tensor.data = data + entry->offset;
    }
    return STATUS_OK;
}

static enum status parse_tensors(struct gguf *gguf, struct gguf_reader *reader)
{
    TRY(index_create(&gguf->tensor_index, gguf->tensor_count));
    gguf->tensors = mem_zalloc(gguf->tensor_count, sizeof *gguf->tensors);
    if (gguf->tensors == NULL)
        FAIL(STATUS_NO_MEMORY, "model file: no memory for %u tensors", gguf->tensor_count);
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        struct gguf_tensor *entry = &gguf->tensors[i];
        TRY(parse_tensor(reader, entry));
        uint32_t *slot =
            index_find(&gguf->tensor_index, &gguf->tensors[0].name, sizeof *entry, entry->name);
        if (*slot != 0)
            FAIL(STATUS_CORRUPT, "model file: tensor '%.*s' appears twice", (int)entry->name.length,
                 entry->name.bytes);
        *slot = i + 1;
    }
    return STATUS_OK;
}

static enum status parse_data(struct gguf *gguf, const struct gguf_reader *reader)
{
    uint32_t alignment = GGUF_ALIGNMENT_DEFAULT;
    if (gguf_has(gguf, "general.alignment"))
        TRY(gguf_get_u32(gguf, "general.alignment", &alignment));
    if (alignment < GGUF_ALIGNMENT_MIN || alignment > GGUF_ALIGNMENT_MAX ||
        (alignment & (alignment - 1)) != 0)
        FAIL(STATUS_CORRUPT, "model file: alignment %u is no power of two from %d to %d", alignment,
             GGUF_ALIGNMENT_MIN, GGUF_ALIGNMENT_MAX);
    if (gguf->tensor_count == 0)
        return STATUS_OK;
    size_t padding = (alignment - reader->at % alignment) % alignment;
    if (padding > reader->length - reader->at)
        FAIL(STATUS_CORRUPT, "model file: it ends before the data of its tensors");
    size_t start = reader->at + padding;
    gguf->data = start;
    struct gguf_tensor **order = mem_zalloc(gguf->tensor_count, sizeof *order);
    if (order == NULL)
        FAIL(STATUS_NO_MEMORY, "model file: no memory to sort %u tensors", gguf->tensor_count);
    enum status status =
        parse_tensors_place(gguf, order, reader->bytes + start, reader->length - start, alignment);
    mem_free(order);
    return status;
}

/* Reads a count. Accepts it only when the bytes left could hold so many entries, so that the memory
 * of the index stays in proportion to the file. */
static enum status parse_count(struct gguf_reader *reader, const char *what, uint64_t count_max,
                               uint64_t entry_bytes_min, uint32_t *out)
{
    uint64_t count;
    TRY(parse_u64(reader, &count));
    if (count > count_max || count > (reader->length - reader->at) / entry_bytes_min)
        FAIL(STATUS_CORRUPT, "model file: %llu %s cannot be in a file of %zu bytes",
             (unsigned long long)count, what, reader->length);
    *out = (uint32_t)count;
    return STATUS_OK;
}

static enum status parse_header(struct gguf *gguf, struct gguf_reader *reader)
{
    const char *magic = NULL;
    uint32_t version;
    TRY(parse_take(reader, 4, &magic));
    if (memcmp(magic, "GGUF", 4) != 0)
        FAIL(STATUS_CORRUPT, "model file: it does not begin with GGUF");
    TRY(parse_u32(reader, &version));
    if (version != 0 && __builtin_bswap32(version) <= 3)
        FAIL(STATUS_UNSUPPORTED, "model file: big-endian GGUF is not supported");
    if (version != 2 && version != 3)
        FAIL(STATUS_UNSUPPORTED, "model file: GGUF version %u is not supported (2 and 3 are)",
             version);
    TRY(parse_count(reader, "tensors", LIMIT_GGUF_TENSORS, GGUF_TENSOR_BYTES_MIN,
                    &gguf->tensor_count));
    return parse_count(reader, "keys", LIMIT_GGUF_KEYS, GGUF_KEY_BYTES_MIN, &gguf->key_count);
}

static enum status parse_all(struct gguf *gguf)
{
    struct gguf_reader reader = {gguf->bytes, gguf->length, 0};
    TRY(parse_header(gguf, &reader));
    TRY(parse_keys(gguf, &reader));
    TRY(parse_tensors(gguf, &reader));
    return parse_data(gguf, &reader);
}

/* `mapping` is NULL for borrowed bytes; it is unmapped when this fails. */
static enum status open_bytes(struct gguf **out, const void *bytes, size_t length, void *mapping)
{
    struct gguf *gguf = mem_zalloc(1, sizeof *gguf);
    if (gguf == NULL) {
        if (mapping != NULL)
            munmap(mapping, length);
        FAIL(STATUS_NO_MEMORY, "model file: no memory");
    }
    gguf->bytes = bytes;
    gguf->length = length;
    gguf->data = length;
    gguf->mapping = mapping;
    enum status status = parse_all(gguf);
    if (status != STATUS_OK) {
        gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return STATUS_OK;
}

enum status gguf_parse(struct gguf **out, const void *bytes, size_t length)
{
    return open_bytes(out, bytes, length, NULL);
}

enum status gguf_open_descriptor(struct gguf **out, int descriptor)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        FAIL(STATUS_IO, "model file: %s", strerrordesc_np(errno));
    if (!S_ISREG(info.st_mode))
        FAIL(STATUS_INVALID, "model file: it is not a regular file");
    if (info.st_size <= 0)
        FAIL(STATUS_CORRUPT, "model file: it is empty");
    size_t length = (size_t)info.st_size;
    void *mapping = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
        FAIL(STATUS_IO, "model file: cannot be mapped: %s", strerrordesc_np(errno));
    return open_bytes(out, mapping, length, mapping);
}

enum status gguf_open(struct gguf **out, const char *path)
{
    /* O_NONBLOCK, so that the start does not hang if the path names a pipe. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        FAIL(STATUS_IO, "model file: cannot be opened: %s", strerrordesc_np(errno));
    enum status status = gguf_open_descriptor(out, descriptor);
    close(descriptor);
    return status;
}

void gguf_forget_data(const struct gguf *gguf)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (gguf->data + page - 1) / page * page; /* the page before it also has keys */
    /* If the system refuses this, the pages stay resident. Nothing else changes. */
    if (gguf->mapping != NULL && begin < gguf->length)
        (void)madvise((char *)gguf->mapping + begin, gguf->length - begin, MADV_DONTNEED);
}

void gguf_close(struct gguf *gguf)
{
    if (gguf == NULL)
        return;
    if (gguf->mapping != NULL)
        munmap(gguf->mapping, gguf->length);
    mem_free(gguf->key_index.slots);
    mem_free(gguf->tensor_index.slots);
    mem_free(gguf->keys);
    mem_free(gguf->tensors);
    mem_free(gguf);
}

/* --- values --- */

/* Reads a value of any integer type as sign and magnitude. False for other types. */
static bool get_integer(uint32_t type, const char *bytes, bool *is_negative, uint64_t *magnitude)
{
    uint64_t raw = 0;
    switch (type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        memcpy(&raw, bytes, GGUF_VALUE_BYTES[type]); /* hosts are little-endian, like the format */
        *is_negative = false;
        *magnitude = raw;
        return true;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        memcpy(&raw, bytes, GGUF_VALUE_BYTES[type]);
        uint32_t shift = 64 - 8 * (uint32_t)GGUF_VALUE_BYTES[type];
        int64_t value = (int64_t)(raw << shift) >> shift;
        *is_negative = value < 0;
        *magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
        return true;
    default:
        return false;
    }
}

static enum status get_key(const struct gguf *gguf, const char *name, const struct gguf_key **out)
{
    *out = gguf_find(gguf, name);
    if (*out == NULL)
        FAIL(STATUS_NOT_FOUND, "model file: key '%s' is missing", name);
    return STATUS_OK;
}

bool gguf_has(const struct gguf *gguf, const char *key)
{
    return gguf_find(gguf, key) != NULL;
}

uint32_t gguf_key_count(const struct gguf *gguf)
{
    return gguf->key_count;
}

struct slice gguf_key_at(const struct gguf *gguf, uint32_t index)
{
    ASSERT(index < gguf->key_count);
    return gguf->keys[index].name;
}

enum status gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out)
{
    const struct gguf_key *found;
    bool is_negative = false;
    uint64_t magnitude = 0;
    TRY(get_key(gguf, key, &found));
    if (!get_integer(found->type, found->value, &is_negative, &magnitude))
        FAIL(STATUS_CORRUPT, "model file: key '%s' is a %s, not an integer", key,
             GGUF_VALUE_NAMES[found->type]);
    if (is_negative || magnitude > UINT32_MAX)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is %s%llu, which is no 32-bit count", key,
             is_negative ? "-" : "", (unsigned long long)magnitude);
    *out = (uint32_t)magnitude;
    return STATUS_OK;
}

enum status gguf_get_f32(const struct gguf *gguf, const char *key, float *out)
{
    const struct gguf_key *found;
    float value = 0;
    TRY(get_key(gguf, key, &found));
    if (found->type == GGUF_F32) {
        memcpy(&value, found->value, sizeof value);
    } else if (found->type == GGUF_F64) {
        double wide;
        memcpy(&wide, found->value, sizeof wide);
        value = (float)wide;
    } else {
        FAIL(STATUS_CORRUPT, "model file: key '%s' is a %s, not a float", key,
             GGUF_VALUE_NAMES[found->type]);
    }
    if (!isfinite(value))
        FAIL(STATUS_CORRUPT, "model file: key '%s' is not a finite number", key);
    *out = value;
    return STATUS_OK;
}

enum status gguf_get_bool(const struct gguf *gguf, const char *key, bool *out)
{
    const struct gguf_key *found;
    TRY(get_key(gguf, key, &found));
    if (found->type != GGUF_BOOL)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is a %s, not a bool", key,
             GGUF_VALUE_NAMES[found->type]);
    *out = *found->value != 0;
    return STATUS_OK;
}

enum status gguf_get_string(const struct gguf *gguf, const char *key, struct slice *out)
{
    const struct gguf_key *found;
    TRY(get_key(gguf, key, &found));
    if (found->type != GGUF_STRING)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is a %s, not a string", key,
             GGUF_VALUE_NAMES[found->type]);
    *out = (struct slice){found->value, (size_t)found->count};
    return STATUS_OK;
}

enum status gguf_get_array(const struct gguf *gguf, const char *key, struct gguf_array *out)
{
    const struct gguf_key *found;
    TRY(get_key(gguf, key, &found));
    if (found->type != GGUF_ARRAY)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is a %s, not an array", key,
             GGUF_VALUE_NAMES[found->type]);
    *out = (struct gguf_array){found->element_type, found->count, found->value, found->value_end};
    return STATUS_OK;
}

bool gguf_is_array(const struct gguf *gguf, const char *key)
{
    const struct gguf_key *found = gguf_find(gguf, key);
    return found != NULL && found->type == GGUF_ARRAY;
}

/* Takes the next bytes of an array. They were checked when the file was parsed; this checks that
 * the caller does not read past the end. */
static enum status array_take(struct gguf_array *array, size_t bytes, const char **out)
{
    if (bytes > (size_t)(array->end - array->cursor))
        FAIL(STATUS_OUT_OF_RANGE, "model file: array read past its end");
    *out = array->cursor;
    array->cursor += bytes;
    return STATUS_OK;
}

enum status gguf_array_next_string(struct gguf_array *array, struct slice *out)
{
    const char *bytes = NULL;
    uint64_t length;
    if (array->element_type != GGUF_STRING)
        FAIL(STATUS_CORRUPT, "model file: an array of %s, not of strings",
             GGUF_VALUE_NAMES[array->element_type]);
    TRY(array_take(array, sizeof length, &bytes));
    memcpy(&length, bytes, sizeof length);
    TRY(array_take(array, (size_t)length, &out->bytes));
    out->length = (size_t)length;
    return STATUS_OK;
}

enum status gguf_array_next_i32(struct gguf_array *array, int32_t *out)
{
    const char *bytes = NULL;
    bool is_negative = false;
    uint64_t magnitude = 0;
    uint32_t type = array->element_type;
    if (type == GGUF_STRING)
        FAIL(STATUS_CORRUPT, "model file: an array of strings, not of integers");
    TRY(array_take(array, GGUF_VALUE_BYTES[type], &bytes));
    if (!get_integer(type, bytes, &is_negative, &magnitude))
        FAIL(STATUS_CORRUPT, "model file: an array of %s, not of integers", GGUF_VALUE_NAMES[type]);
    if (magnitude > (uint64_t)INT32_MAX + (is_negative ? 1 : 0))
        FAIL(STATUS_CORRUPT, "model file: an array element does not fit 32 bits");
    *out = (int32_t)(is_negative ? -(int64_t)magnitude : (int64_t)magnitude);
    return STATUS_OK;
}

enum status gguf_array_next_u32(struct gguf_array *array, uint32_t *out)
{
    int32_t value = 0;
    if (array->element_type == GGUF_BOOL) {
        const char *byte = NULL;
        TRY(array_take(array, 1, &byte));
        *out = (uint32_t)*byte;
        return STATUS_OK;
    }
    TRY(gguf_array_next_i32(array, &value));
    if (value < 0)
        FAIL(STATUS_CORRUPT, "model file: an array element is %d, below 0", value);
    *out = (uint32_t)value;
    return STATUS_OK;
}

enum status gguf_array_next_f32(struct gguf_array *array, float *out)
{
    const char *bytes = NULL;
    if (array->element_type != GGUF_F32)
        FAIL(STATUS_CORRUPT, "model file: an array of %s, not of f32",
             GGUF_VALUE_NAMES[array->element_type]);
    TRY(array_take(array, sizeof *out, &bytes));
    memcpy(out, bytes, sizeof *out);
    return STATUS_OK;
}

/* --- tensors --- */

enum status gguf_find_tensor(const struct gguf *gguf, const char *name, uint32_t *out)
{
    uint32_t found = 0;
    if (gguf->tensor_count != 0)
        found = *index_find(&gguf->tensor_index, &gguf->tensors[0].name, sizeof gguf->tensors[0],
                            slice_of(name));
    if (found == 0)
        FAIL(STATUS_NOT_FOUND, "model file: tensor '%s' is missing", name);
    *out = found - 1;
    return STATUS_OK;
}

enum status gguf_get_tensor(const struct gguf *gguf, const char *name, struct tensor *out)
{
    uint32_t index;
    TRY(gguf_find_tensor(gguf, name, &index));
    *out = gguf->tensors[index].tensor;
    return STATUS_OK;
}

uint32_t gguf_tensor_count(const struct gguf *gguf)
{
    return gguf->tensor_count;
}

void gguf_tensor_at(const struct gguf *gguf, uint32_t index, struct slice *name, struct tensor *out)
{
    ASSERT(index < gguf->tensor_count);
    if (name != NULL)
        *name = gguf->tensors[index].name;
    *out = gguf->tensors[index].tensor;
}
