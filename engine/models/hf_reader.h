/* hf_reader: reads numbers and words of one JSON object of a model directory, with its errors.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a look-up compares one name after the other.
 * Not here: which keys there are (hf_config, hf_rope, hf_tokenizer).
 */
#pragma once

#include "config/base/json_read.h"
#include "engine/models/arch.h"
#include "engine/models/gguf_keys.h"

struct hf_reader {
    const struct json_read *json;
    uint32_t object;
    const char *file; /* for messages */
    const struct arch *arch;
    struct gguf_keys *keys;
};

/* Returns the value of a key, or NULL where it is missing or null. */
const struct json_read_value *hf_reader_get(const struct hf_reader *reader, const char *name);
bool hf_reader_is(const struct hf_reader *reader, uint32_t feature);

/* FAIL for a key: "config.json: key 'x' …". `value` may be NULL. */
enum status hf_reader_refuse(const struct hf_reader *reader, enum status status, const char *name,
                             const char *what);

/* Reads a whole number from 0 to 2^32 − 1. `*out` keeps its value and `*has` is false where the key
 * is missing; a `has` of NULL makes it required. */
enum status hf_reader_count(const struct hf_reader *reader, const char *name, uint32_t *out,
                            bool *has);
enum status hf_reader_real(const struct hf_reader *reader, const char *name, double *out,
                           bool *has);
/* The same for true and false. */
enum status hf_reader_bool(const struct hf_reader *reader, const char *name, bool *out, bool *has);
/* A word; empty where the key is missing. */
enum status hf_reader_text(const struct hf_reader *reader, const char *name, struct slice *out);

/* Writes the key "<architecture>.<name>". */
void hf_reader_put_u32(const struct hf_reader *reader, const char *name, uint32_t value);
void hf_reader_put_f32(const struct hf_reader *reader, const char *name, double value);
void hf_reader_put_string(const struct hf_reader *reader, const char *name, const char *value);
