#include "engine/models/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/json_read.h"
#include "config/base/limits_files.h"
#include "config/base/mem.h"

static const struct {
    const char *name;
    uint64_t bytes;
} DTYPES[] = {
#define SAFETENSORS_DTYPE(name, bytes) {#name, bytes},
#include "engine/models/safetensors.def"
};

struct safetensors {
    const char *bytes;
    size_t length;
    size_t data;   /* where the tensors' bytes begin */
    void *mapping; /* NULL when the bytes are borrowed */
    struct json_read header;
    struct safetensors_tensor *tensors; /* [count], in the order of their names */
    uint32_t count;
};

/* What parsing needs beside the file. */
struct parse {
    struct safetensors *file;
    const char *name; /* of the file, for messages */
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    return DTYPES[dtype].name;
}

/* --- one tensor --- */

static enum status parse_refuse(const struct parse *parse, struct slice name, const char *what)
{
    FAIL(STATUS_CORRUPT, "%s: tensor '%.*s' %s", parse->name, (int)name.length, name.bytes, what);
}

static bool parse_count(const struct json_read_value *value, uint64_t *out)
{
    int64_t number;
    if (!json_read_integer(value, &number) || number < 0)
        return false;
    *out = (uint64_t)number;
    return true;
}

/* A name appears in messages and logs, so it must be short and without control characters. */
static bool parse_is_plain(struct slice name)
{
    bool is_plain = name.length > 0 && name.length <= LIMIT_SAFETENSORS_NAME_BYTES;
    for (size_t i = 0; is_plain && i < name.length; i++)
        is_plain = (unsigned char)name.bytes[i] >= 0x20 && name.bytes[i] != 0x7f;
    return is_plain;
}

static enum status parse_dtype(const struct parse *parse, struct safetensors_tensor *out,
                               const struct json_read_value *value)
{
    if (value == NULL || value->kind != JSON_READ_STRING)
        return parse_refuse(parse, out->name, "has no dtype");
    const struct slice text = json_read_text(value);
    for (uint32_t i = 0; i < SAFETENSORS_DTYPES; i++) {
        out->dtype = (enum safetensors_dtype)i;
        if (slice_is(text, DTYPES[i].name))
            return STATUS_OK;
    }
    const int shown = parse_is_plain(text) ? (int)(text.length < 32 ? text.length : 32) : 0;
    FAIL(STATUS_UNSUPPORTED, "%s: tensor '%.*s' is of the unknown dtype '%.*s'", parse->name,
         (int)out->name.length, out->name.bytes, shown, text.bytes);
}

static enum status parse_shape(const struct parse *parse, struct safetensors_tensor *out,
                               const struct json_read_value *value)
{
    if (value == NULL || value->kind != JSON_READ_ARRAY)
        return parse_refuse(parse, out->name, "has no shape");
    if (value->count > SAFETENSORS_DIMS_MAX)
        return parse_refuse(parse, out->name, "has more than 8 dimensions");
    out->dim_count = value->count;
    out->bytes = DTYPES[out->dtype].bytes;
    for (uint32_t i = 0; i < SAFETENSORS_DIMS_MAX; i++) {
        out->shape[i] = 1;
        if (i < out->dim_count && !parse_count(value + 1 + i, &out->shape[i]))
            return parse_refuse(parse, out->name, "has a dimension that is no whole number");
        if (__builtin_mul_overflow(out->bytes, out->shape[i], &out->bytes))
            return parse_refuse(parse, out->name, "has more than 2^64 bytes");
    }
    if (out->bytes == 0)
        return parse_refuse(parse, out->name, "is empty");
    return STATUS_OK;
}

static enum status parse_offsets(const struct parse *parse, struct safetensors_tensor *out,
                                 const struct json_read_value *value)
{
    const size_t room = parse->file->length - parse->file->data;
    uint64_t begin;
    uint64_t end;
    if (value == NULL || value->kind != JSON_READ_ARRAY || value->count != 2 ||
        !parse_count(value + 1, &begin) || !parse_count(value + 2, &end))
        return parse_refuse(parse, out->name, "has no data_offsets of two whole numbers");
    if (begin > end)
        return parse_refuse(parse, out->name, "has data_offsets that run backwards");
    if (end > room)
        return parse_refuse(parse, out->name, "has data_offsets behind the end of the file");
    if (end - begin != out->bytes)
        return parse_refuse(parse, out->name, "has another number of bytes than its shape");
    out->data = parse->file->bytes + parse->file->data + begin;
    return STATUS_OK;
}

/* Reads the description at index `at` of the header. */
static enum status parse_tensor(const struct parse *parse, struct slice name, uint32_t at)
{
    struct safetensors *file = parse->file;
    struct safetensors_tensor *out = &file->tensors[file->count];
    if (!parse_is_plain(name))
        FAIL(STATUS_CORRUPT, "%s: the name of a tensor is empty, longer than %d bytes or not plain",
             parse->name, LIMIT_SAFETENSORS_NAME_BYTES);
    out->name = name;
    const struct json_read_value *value = &file->header.values[at];
    if (value->kind != JSON_READ_OBJECT || value->count != 3)
        return parse_refuse(parse, name, "is not described by dtype, shape and data_offsets");
    TRY(parse_dtype(parse, out, json_read_member(&file->header, at, "dtype")));
    TRY(parse_shape(parse, out, json_read_member(&file->header, at, "shape")));
    TRY(parse_offsets(parse, out, json_read_member(&file->header, at, "data_offsets")));
    file->count++;
    return STATUS_OK;
}

/* --- all tensors --- */

static int compare_data(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left;
    const struct safetensors_tensor *b = right;
    return a->data < b->data ? -1 : a->data > b->data;
}

static int compare_slices(struct slice a, struct slice b)
{
    const size_t shorter = a.length < b.length ? a.length : b.length;
    const int order = memcmp(a.bytes, b.bytes, shorter);
    if (order != 0)
        return order;
    return a.length < b.length ? -1 : a.length > b.length;
}

static int compare_names(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left;
    const struct safetensors_tensor *b = right;
    return compare_slices(a->name, b->name);
}

/* The tensors must fill the rest of the file, each byte once. */
static enum status parse_cover(const struct parse *parse)
{
    struct safetensors *file = parse->file;
    const char *end = file->bytes + file->data;
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_data);
    for (uint32_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->data < end)
            return parse_refuse(parse, tensor->name, "overlaps another tensor");
        if (tensor->data > end)
            return parse_refuse(parse, tensor->name, "has a gap before its bytes");
        end += tensor->bytes;
    }
    if (end != file->bytes + file->length)
        FAIL(STATUS_CORRUPT, "%s: %zu bytes at its end belong to no tensor", parse->name,
             (size_t)(file->bytes + file->length - end));
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_names);
    return STATUS_OK;
}

/* Text about the file, which nothing here uses. */
static enum status parse_metadata(const struct parse *parse, uint32_t at)
{
    const struct json_read *header = &parse->file->header;
    if (header->values[at].kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "%s: __metadata__ is not an object", parse->name);
    uint32_t member = at + 1;
    for (uint32_t i = 0; i < header->values[at].count; i++) {
        if (header->values[member + 1].kind != JSON_READ_STRING)
            FAIL(STATUS_CORRUPT, "%s: __metadata__ has a value that is no string", parse->name);
        member = header->values[member + 1].next;
    }
    return STATUS_OK;
}

static enum status parse_tensors(const struct parse *parse)
{
    struct safetensors *file = parse->file;
    const struct json_read *header = &file->header;
    if (header->values[0].kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "%s: the header is not a JSON object", parse->name);
    const uint32_t members = header->values[0].count;
    if (members > LIMIT_SAFETENSORS_TENSORS)
        FAIL(STATUS_LIMIT, "%s: %u tensors, the limit is %d", parse->name, members,
             LIMIT_SAFETENSORS_TENSORS);
    file->tensors = mem_zalloc(members + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        FAIL(STATUS_NO_MEMORY, "%s: no memory for %u tensors", parse->name, members);
    uint32_t at = 1;
    for (uint32_t i = 0; i < members; i++) {
        const struct slice name = json_read_text(&header->values[at]);
        if (slice_is(name, "__metadata__"))
            TRY(parse_metadata(parse, at + 1));
        else
            TRY(parse_tensor(parse, name, at + 1));
        at = header->values[at + 1].next;
    }
    return parse_cover(parse);
}

static enum status parse_header(const struct parse *parse)
{
    struct safetensors *file = parse->file;
    uint64_t length;
    if (file->length < sizeof length)
        FAIL(STATUS_CORRUPT, "%s: %zu bytes are too few for a safetensors file", parse->name,
             file->length);
    memcpy(&length, file->bytes, sizeof length); /* little endian, as this machine */
    if (length > LIMIT_SAFETENSORS_HEADER_BYTES)
        FAIL(STATUS_CORRUPT, "%s: a header of %llu bytes, the limit is %d", parse->name,
             (unsigned long long)length, LIMIT_SAFETENSORS_HEADER_BYTES);
    if (length > file->length - sizeof length)
        FAIL(STATUS_CORRUPT, "%s: a header of %llu bytes in a file of %zu", parse->name,
             (unsigned long long)length, file->length);
    file->data = sizeof length + (size_t)length;
    const struct json_read_limits limits = {.depth = LIMIT_SAFETENSORS_DEPTH,
                                            .values = LIMIT_SAFETENSORS_VALUES};
    const struct slice text = {file->bytes + sizeof length, (size_t)length};
    const enum status status = json_read(&file->header, text, &limits);
    if (status == STATUS_INVALID || status == STATUS_LIMIT)
        FAIL(STATUS_CORRUPT, "%s: the header: %s", parse->name, status_note()->message);
    return status;
}

static enum status parse_bytes(struct safetensors **out, const void *bytes, size_t length,
                               void *mapping, const char *name)
{
    struct safetensors *file = mem_zalloc(1, sizeof *file);
    *out = NULL;
    if (file == NULL) {
        if (mapping != NULL)
            munmap(mapping, length);
        FAIL(STATUS_NO_MEMORY, "%s: no memory", name);
    }
    file->bytes = bytes;
    file->length = length;
    file->mapping = mapping;
    const struct parse parse = {file, name};
    enum status status = parse_header(&parse);
    if (status == STATUS_OK)
        status = parse_tensors(&parse);
    if (status != STATUS_OK) {
        safetensors_close(file);
        return status;
    }
    *out = file;
    return STATUS_OK;
}

enum status safetensors_parse(struct safetensors **out, const void *bytes, size_t length,
                              const char *file)
{
    return parse_bytes(out, bytes, length, NULL, file);
}

enum status safetensors_open_descriptor(struct safetensors **out, int descriptor, const char *file)
{
    struct stat info;
    *out = NULL;
    if (fstat(descriptor, &info) != 0)
        FAIL(STATUS_IO, "%s: %s", file, strerrordesc_np(errno));
    if (!S_ISREG(info.st_mode))
        FAIL(STATUS_IO, "%s: it is not a regular file", file);
    if (info.st_size <= 0)
        FAIL(STATUS_CORRUPT, "%s: it is empty", file);
    const size_t length = (size_t)info.st_size;
    void *mapping = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
        FAIL(STATUS_IO, "%s: cannot be mapped: %s", file, strerrordesc_np(errno));
    return parse_bytes(out, mapping, length, mapping, file);
}

void safetensors_close(struct safetensors *file)
{
    if (file == NULL)
        return;
    if (file->mapping != NULL)
        munmap(file->mapping, file->length);
    json_read_free(&file->header);
    mem_free(file->tensors);
    mem_free(file);
}

void safetensors_forget(const struct safetensors *file)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t begin = (file->data + page - 1) / page * page; /* the page before has names */
    /* If the system refuses this, the pages stay resident. Nothing else changes. */
    if (file->mapping != NULL && begin < file->length)
        (void)madvise((char *)file->mapping + begin, file->length - begin, MADV_DONTNEED);
}

uint32_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *file, uint32_t index)
{
    ASSERT(index < file->count);
    return &file->tensors[index];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, struct slice name)
{
    uint32_t low = 0;
    uint32_t high = file->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = compare_slices(file->tensors[middle].name, name);
        if (order == 0)
            return &file->tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
