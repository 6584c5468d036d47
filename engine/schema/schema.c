#include "engine/schema/schema.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/hash.h"
#include "config/base/limits_grammar.h"
#include "config/base/limits_schema.h"
#include "config/base/mem.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/regex.h"
#include "engine/schema/schema_path.h"

enum { BLOCK_BYTES = 64 * 1024, FIRST_SETS = 256 };

struct schema_block {
    struct schema_block *next;
    size_t used;
    size_t bytes;
    _Alignas(16) char memory[];
};

uint32_t schema_member_slice(const struct schema *schema, uint32_t object, struct slice name)
{
    const struct json_read_value *value = schema_value(schema, object);
    if (value->kind != JSON_READ_OBJECT)
        return 0;
    uint32_t at = object + 1;
    for (uint32_t i = 0; i < value->count; i++) {
        uint32_t member = schema_value(schema, at)->next;
        if (slice_equals(json_read_text(schema_value(schema, at)), name))
            return member;
        at = schema_value(schema, member)->next;
    }
    return 0;
}

uint32_t schema_member(const struct schema *schema, uint32_t object, const char *name)
{
    return schema_member_slice(schema, object, slice_of(name));
}

/* --- memory and fuel --- */

void *schema_take(struct schema *schema, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct schema_block *block = schema->blocks;
    if (block == NULL || block->bytes - block->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (schema->bytes + room > LIMIT_SCHEMA_BYTES)
            return NULL;
        block = mem_alloc(sizeof *block + room);
        if (block == NULL)
            return NULL;
        *block = (struct schema_block){.next = schema->blocks, .bytes = room};
        schema->blocks = block;
        schema->bytes += room;
    }
    void *taken = block->memory + block->used;
    block->used += bytes;
    return memset(taken, 0, bytes);
}

enum status schema_no_room(struct schema *schema)
{
    if (schema->bytes + BLOCK_BYTES > LIMIT_SCHEMA_BYTES)
        return schema_fail(schema, STATUS_LIMIT, 0, NULL, "The schema takes more than %d MiB.",
                           LIMIT_SCHEMA_BYTES >> 20);
    return schema_fail(schema, STATUS_NO_MEMORY, 0, NULL, "There is no memory for the schema.");
}

enum status schema_spend(struct schema *schema, uint32_t steps)
{
    TRY(grammar_fuel_spend(schema->fuel, steps));
    return regex_pool_status(schema->regexes);
}

enum status schema_cell_push(struct schema *schema, const struct schema_cell **list, uint32_t kind,
                             uint32_t a, uint32_t b)
{
    struct schema_cell *cell = schema_take(schema, sizeof *cell);
    if (cell == NULL)
        return schema_no_room(schema);
    *cell = (struct schema_cell){*list, kind, a, b};
    *list = cell;
    return STATUS_OK;
}

enum status schema_fail(struct schema *schema, enum status status, uint32_t index,
                        const char *keyword, const char *format, ...)
{
    struct constraint_error *error = schema->error;
    schema_path_write(&schema->json, index, error->path, error->keyword);
    if (keyword != NULL)
        snprintf(error->keyword, sizeof error->keyword, "%s", keyword);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status_fail(status, __FILE__, __LINE__, NULL, "the schema is refused");
}

/* --- sets --- */

static uint64_t hash_claims(const schema_claim *claims, uint32_t count)
{
    return hash_bytes(hash_process_key(), claims, count * sizeof *claims);
}

static uint32_t *bucket_of(struct schema *schema, const schema_claim *claims, uint32_t count)
{
    uint64_t at = hash_claims(claims, count);
    for (;; at++) {
        uint32_t *bucket = &schema->buckets[at & (schema->bucket_count - 1)];
        const struct schema_set *set = &schema->sets[*bucket];
        if (*bucket == SCHEMA_SET_ANY ||
            (set->count == count && memcmp(set->claims, claims, count * sizeof *claims) == 0))
            return bucket;
    }
}

/* Room for one more set, with at least half of the buckets free. */
static enum status make_room(struct schema *schema)
{
    if (schema->set_count < schema->set_capacity)
        return STATUS_OK;
    if (schema->set_count >= LIMIT_SCHEMA_SETS)
        return schema_fail(schema, STATUS_LIMIT, 0, NULL,
                           "The schema describes more than %d different values.",
                           LIMIT_SCHEMA_SETS);
    uint32_t capacity = schema->set_capacity == 0 ? FIRST_SETS : schema->set_capacity * 2;
    struct schema_set *sets = mem_realloc(schema->sets, capacity * sizeof *sets);
    if (sets == NULL)
        return schema_no_room(schema);
    schema->sets = sets;
    uint32_t *buckets = mem_zalloc(2 * (size_t)capacity, sizeof *buckets);
    if (buckets == NULL)
        return schema_no_room(schema);
    mem_free(schema->buckets);
    schema->buckets = buckets;
    schema->bucket_count = 2 * capacity;
    schema->set_capacity = capacity;
    for (uint32_t i = SCHEMA_SET_NONE + 1; i < schema->set_count; i++)
        *bucket_of(schema, sets[i].claims, sets[i].count) = i;
    return STATUS_OK;
}

static enum status first_sets(struct schema *schema)
{
    TRY(make_room(schema));
    schema->sets[SCHEMA_SET_ANY] = (struct schema_set){.state = SCHEMA_SET_MERGED};
    schema->sets[SCHEMA_SET_NONE] = (struct schema_set){.state = SCHEMA_SET_MERGED};
    schema->set_count = 2;
    return STATUS_OK;
}

/* Copies claims that say something and stand there for the first time. */
static enum status copy_claims(struct schema *schema, const schema_claim *claims, uint32_t count,
                               schema_claim *out, uint32_t *out_count)
{
    *out_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_known = schema_claim_kind_of(claims[i]) == SCHEMA_VALID &&
                        schema_kind(schema, schema_claim_index(claims[i])) == JSON_READ_TRUE;
        for (uint32_t j = 0; j < *out_count && !is_known; j++)
            is_known = out[j] == claims[i];
        TRY(schema_spend(schema, 1 + *out_count / 8));
        if (!is_known)
            out[(*out_count)++] = claims[i];
    }
    return STATUS_OK;
}

enum status schema_set_of(struct schema *schema, const schema_claim *claims, uint32_t count,
                          schema_set_id *out)
{
    schema_claim *kept = schema_take(schema, (count + 1) * sizeof *kept);
    if (kept == NULL)
        return schema_no_room(schema);
    TRY(copy_claims(schema, claims, count, kept, &count));
    *out = SCHEMA_SET_ANY;
    if (count == 0)
        return STATUS_OK;
    TRY(make_room(schema));
    uint32_t *bucket = bucket_of(schema, kept, count);
    if (*bucket == SCHEMA_SET_ANY) {
        *bucket = schema->set_count++;
        schema->sets[*bucket] = (struct schema_set){.claims = kept, .count = count};
    }
    *out = *bucket;
    return STATUS_OK;
}

/* --- a compilation --- */

void schema_end(struct schema *schema)
{
    while (schema->blocks != NULL) {
        struct schema_block *next = schema->blocks->next;
        mem_free(schema->blocks);
        schema->blocks = next;
    }
    mem_free(schema->sets);
    mem_free(schema->buckets);
    json_read_free(&schema->json);
}

static enum status read_source(struct schema *schema, struct slice source)
{
    const struct json_read_limits limits = {.depth = LIMIT_SCHEMA_DEPTH,
                                            .values = LIMIT_SCHEMA_VALUES};
    if (source.length > LIMIT_GRAMMAR_SOURCE_BYTES)
        return schema_fail(schema, STATUS_LIMIT, 0, NULL, "The schema has more than %d KiB.",
                           LIMIT_GRAMMAR_SOURCE_BYTES >> 10);
    enum status status = json_read(&schema->json, source, &limits);
    if (status == STATUS_OK)
        return STATUS_OK;
    snprintf(schema->error->message, sizeof schema->error->message,
             "The schema is no JSON: %.200s.", status_note()->message);
    return status;
}

static enum status take_tables(struct schema *schema)
{
    size_t bytes = schema->json.count * sizeof(*schema->patterns);
    schema->patterns = schema_take(schema, bytes);
    schema->formats = schema_take(schema, SCHEMA_FORMATS_MOST * sizeof(*schema->formats));
    if (schema->patterns == NULL || schema->formats == NULL)
        return schema_no_room(schema);
    memset(schema->patterns, 0xff, bytes);
    memset(schema->formats, 0xff, SCHEMA_FORMATS_MOST * sizeof(*schema->formats));
    return STATUS_OK;
}

enum status schema_begin(struct schema *schema, struct grammar_builder *builder,
                         struct slice source, const struct constraint_options *options,
                         struct constraint_error *error)
{
    *schema = (struct schema){.options = options,
                              .error = error,
                              .builder = builder,
                              .regexes = grammar_builder_regexes(builder),
                              .fuel = grammar_builder_fuel(builder),
                              .order_sets = LIMIT_SCHEMA_ORDER_SETS};
    TRY(read_source(schema, source));
    TRY(take_tables(schema));
    return first_sets(schema);
}
