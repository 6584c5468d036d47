#include "tests/kit/safetensors_hostile.h"

#define F32_2(begin, end) "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"
#define CORRUPT(name, header, data, says)                                                          \
    {                                                                                              \
        name, header, 0, data, STATUS_CORRUPT, says                                                \
    }
#define LENGTH(name, length, says)                                                                 \
    {                                                                                              \
        name, "{}", length, 0, STATUS_CORRUPT, says                                                \
    }
#define ONE(name, fields, data, says) CORRUPT(name, "{\"t\":{" fields "}}", data, says)

const struct safetensors_hostile safetensors_hostile_cases[] = {
    LENGTH("header-beyond-file", 1000, "in a file of"),
    LENGTH("header-over-limit", 67108865, "the limit is"),
    LENGTH("header-2-60", UINT64_C(1) << 60, "the limit is"),
    LENGTH("header-all-ones", UINT64_MAX, "the limit is"),
    CORRUPT("not-json", "{\"t\":", 0, "the header: the JSON text"),
    CORRUPT("not-an-object", "[1]", 0, "not a JSON object"),
    CORRUPT("metadata-list", "{\"__metadata__\":[]}", 0, "__metadata__"),
    CORRUPT("metadata-number", "{\"__metadata__\":{\"a\":1}}", 0, "no string"),
    CORRUPT("overlap", "{\"a\":" F32_2("0", "8") ",\"b\":" F32_2("4", "12") "}", 12,
            "tensor 'b' overlaps"),
    CORRUPT("same-bytes", "{\"a\":" F32_2("0", "8") ",\"b\":" F32_2("0", "8") "}", 8, "overlaps"),
    CORRUPT("gap", "{\"a\":" F32_2("0", "8") ",\"b\":" F32_2("12", "20") "}", 20,
            "tensor 'b' has a gap"),
    CORRUPT("gap-first", "{\"a\":" F32_2("4", "12") "}", 12, "has a gap"),
    CORRUPT("rest", "{\"a\":" F32_2("0", "8") "}", 12, "4 bytes at its end"),
    CORRUPT("backwards", "{\"a\":" F32_2("8", "0") "}", 8, "run backwards"),
    CORRUPT("past-end", "{\"a\":" F32_2("0", "8") "}", 7, "behind the end"),
    CORRUPT("past-end-far", "{\"a\":" F32_2("9223372036854775800", "9223372036854775807") "}", 8,
            "behind the end"),
    CORRUPT("offset-2-64", "{\"a\":" F32_2("0", "18446744073709551616") "}", 8, "whole numbers"),
    CORRUPT("offset-negative", "{\"a\":" F32_2("-8", "0") "}", 8, "whole numbers"),
    CORRUPT("name-twice", "{\"a\":" F32_2("0", "8") ",\"a\":" F32_2("8", "16") "}", 16,
            "the header"),
    CORRUPT("name-empty", "{\"\":" F32_2("0", "8") "}", 8, "not plain"),
    CORRUPT("name-control", "{\"a\\n\":" F32_2("0", "8") "}", 8, "not plain"),
    ONE("shape-overflow",
        "\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]", 0, "2^64"),
    ONE("shape-2-63", "\"dtype\":\"F32\",\"shape\":[9223372036854775807],\"data_offsets\":[0,4]", 4,
        "2^64"),
    ONE("shape-wraps", "\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]",
        4, "2^64"),
    ONE("shape-zero", "\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]", 0, "is empty"),
    ONE("shape-float", "\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]", 4,
        "no whole number"),
    ONE("shape-nested", "\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]", 4,
        "no whole number"),
    ONE("shape-dims", "\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]", 4,
        "8 dimensions"),
    ONE("bytes-differ", "\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]", 8,
        "another number of bytes"),
    ONE("no-dtype", "\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]", 8, "no dtype"),
    ONE("no-shape", "\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]", 8, "no shape"),
    ONE("one-offset", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]", 8, "data_offsets"),
    ONE("field-more", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1", 8,
        "not described"),
    ONE("field-other", "\"dtype\":\"F32\",\"shape\":[2],\"offsets\":[0,8]", 8, "data_offsets"),
    {"dtype-unknown", "{\"t\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]}}", 0, 8,
     STATUS_UNSUPPORTED, "unknown dtype 'F4'"},
    CORRUPT("depth", NULL, 0, "the header"),
};
const size_t safetensors_hostile_count =
    sizeof safetensors_hostile_cases / sizeof safetensors_hostile_cases[0];

enum { HOSTILE_DEPTH = 10000 };

void safetensors_hostile_write(struct buffer *out, struct slice header, uint64_t length,
                               uint32_t data)
{
    buffer_init(out, 1 << 24);
    if (length == 0)
        length = header.length;
    buffer_append(out, &length, sizeof length);
    buffer_append_slice(out, header);
    for (uint32_t i = 0; i < data; i++)
        buffer_append_char(out, (char)(i & 127));
}

void safetensors_hostile_build(size_t index, struct buffer *out)
{
    const struct safetensors_hostile *hostile = &safetensors_hostile_cases[index];
    struct buffer deep;
    if (hostile->header != NULL) {
        safetensors_hostile_write(out, slice_of(hostile->header), hostile->length, hostile->data);
        return;
    }
    buffer_init(&deep, 1 << 20);
    buffer_append_text(&deep, "{\"a\":");
    for (int i = 0; i < HOSTILE_DEPTH; i++)
        buffer_append_char(&deep, '[');
    safetensors_hostile_write(out, buffer_slice(&deep), 0, 0);
    buffer_deinit(&deep);
}

void safetensors_hostile_build_valid(struct buffer *out)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[32,40]}}  ";
    safetensors_hostile_write(out, SLICE(header), 0, 40);
}
