#include "engine/models/hf_tokenizer.h"

#include "config/base/limits.h"
#include "config/base/limits_files.h"
#include "engine/models/hf_folder.h"
#include "engine/models/hf_merges.h"
#include "engine/models/hf_presplit.h"
#include "engine/models/hf_words.h"

/* The files, while they are read. */
struct text_files {
    struct buffer texts[3];
    struct json_read tokenizer;
    struct json_read config;     /* tokenizer_config.json; no values when there is none */
    struct json_read generation; /* likewise */
    const struct json_read *model_config;
    struct gguf_keys *keys;
    struct hf_merges merges;
    uint32_t model; /* in tokenizer.json */
    bool is_pieces; /* SentencePiece's BPE, not byte-level */
    uint32_t bos;   /* VOCAB_NONE is the size */
    bool adds_bos;
};

/* --- files --- */

static enum status files_read(int folder, const char *name, size_t limit, uint32_t values,
                              struct buffer *text, struct json_read *out)
{
    const struct json_read_limits limits = {.depth = LIMIT_CONFIG_DEPTH, .values = values};
    TRY(hf_folder_read(folder, name, limit, text));
    const enum status status = json_read(out, buffer_slice(text), &limits);
    if (status == STATUS_INVALID || status == STATUS_LIMIT)
        FAIL(STATUS_CORRUPT, "%s: %s", name, status_note()->message);
    TRY(status);
    if (out->values[0].kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "%s is not a JSON object", name);
    return STATUS_OK;
}

/* A file that need not be there. */
static enum status files_may(int folder, const char *name, struct buffer *text,
                             struct json_read *out)
{
    const enum status status =
        files_read(folder, name, LIMIT_CONFIG_BYTES, LIMIT_CONFIG_VALUES, text, out);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Returns a member that is there and not null. */
static const struct json_read_value *get(const struct json_read *json, uint32_t object,
                                         const char *name)
{
    if (json == NULL || json->count == 0)
        return NULL;
    const struct json_read_value *value = json_read_member(json, object, name);
    return value != NULL && value->kind != JSON_READ_NULL ? value : NULL;
}

static uint32_t index_of(const struct json_read *json, const struct json_read_value *value)
{
    return (uint32_t)(value - json->values);
}

/* --- the model --- */

/* Fields of the model that change what it does, and the only value that is supported beside null:
 * an empty text, false and 0 are "off". */
static enum status model_check(const struct text_files *files)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const struct json_read *json = &files->tokenizer;
    const struct json_read_value *type = get(json, files->model, "type");
    const struct slice name = type != NULL ? json_read_text(type) : SLICE("BPE");
    double number;
    if (!slice_is(name, "BPE"))
        FAIL(STATUS_UNSUPPORTED, "tokenizer.json: a model of type '%.*s' is not supported",
             (int)(name.length < 32 ? name.length : 32), name.bytes);
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        const struct json_read_value *value = get(json, files->model, off[i]);
        const bool is_off = value == NULL ||
                            (value->kind == JSON_READ_STRING && value->length == 0) ||
                            (json_read_number(value, &number) && number == 0);
        if (!is_off)
            FAIL(STATUS_UNSUPPORTED, "tokenizer.json: the model's %s is not supported", off[i]);
    }
    return STATUS_OK;
}

static bool model_is(const struct text_files *files, const char *name)
{
    const struct json_read_value *value = get(&files->tokenizer, files->model, name);
    return value != NULL && value->kind == JSON_READ_TRUE;
}

/* Refuses with the words of the file, of which control characters are left out. */
static enum status refuse_steps(const char *what, struct slice steps)
{
    char text[200];
    size_t length = 0;
    for (size_t i = 0; i < steps.length && length < sizeof text - 1; i++)
        if ((unsigned char)steps.bytes[i] >= 0x20 && steps.bytes[i] != 0x7f)
            text[length++] = steps.bytes[i];
    text[length] = '\0';
    FAIL(STATUS_UNSUPPORTED, "tokenizer.json: %s '%s' is not supported", what, text);
}

static void describe(const struct text_files *files, const char *name, struct buffer *out)
{
    const struct json_read_value *value = get(&files->tokenizer, 0, name);
    if (value != NULL)
        hf_presplit_describe(&files->tokenizer, index_of(&files->tokenizer, value), out);
}

static enum status write_bytes(const struct text_files *files, struct slice normalizer,
                               struct slice pre_tokenizer)
{
    const bool is_nfc = slice_is(normalizer, "NFC");
    if (normalizer.length > 0 && !is_nfc)
        return refuse_steps("normalizer", normalizer);
    const char *row = hf_presplit_find(pre_tokenizer, is_nfc, model_is(files, "ignore_merges"));
    if (row == NULL)
        return refuse_steps(is_nfc ? "pre_tokenizer with NFC" : "pre_tokenizer", pre_tokenizer);
    gguf_keys_string(files->keys, "tokenizer.ggml.model", SLICE("gpt2"));
    gguf_keys_string(files->keys, "tokenizer.ggml.pre", slice_of(row));
    return hf_merges_write_bytes(&files->merges, &files->tokenizer, files->model, files->keys);
}

#define MARK "\xe2\x96\x81" /* what SentencePiece writes for a blank */

static enum status write_pieces(const struct text_files *files, struct slice normalizer,
                                struct slice pre_tokenizer)
{
    const bool adds_blank = slice_is(normalizer, "Prepend '" MARK "'; Replace ' ' by '" MARK "'");
    const struct json_read_value *unknown = get(&files->tokenizer, files->model, "unk_token");
    uint32_t id;
    if (!adds_blank && !slice_is(normalizer, "Replace ' ' by '" MARK "'"))
        return refuse_steps("normalizer", normalizer);
    /* The second one finds nothing, because the normaliser has left no blank. */
    if (pre_tokenizer.length > 0 && !slice_is(pre_tokenizer, "Split String ' ' MergedWithPrevious"))
        return refuse_steps("pre_tokenizer", pre_tokenizer);
    if (model_is(files, "ignore_merges"))
        FAIL(STATUS_UNSUPPORTED, "tokenizer.json: ignore_merges is not supported with pieces");
    gguf_keys_string(files->keys, "tokenizer.ggml.model", SLICE("llama"));
    gguf_keys_bool(files->keys, "tokenizer.ggml.add_space_prefix", adds_blank);
    if (unknown != NULL && hf_merges_find(&files->merges, json_read_text(unknown), &id))
        gguf_keys_u32(files->keys, "tokenizer.ggml.unknown_token_id", id);
    return hf_merges_write_pieces(&files->merges, &files->tokenizer, files->model, files->keys);
}

static enum status write_model(struct text_files *files)
{
    struct buffer normalizer;
    struct buffer pre_tokenizer;
    buffer_init(&normalizer, LIMIT_CONFIG_BYTES);
    buffer_init(&pre_tokenizer, LIMIT_CONFIG_BYTES);
    describe(files, "normalizer", &normalizer);
    describe(files, "pre_tokenizer", &pre_tokenizer);
    enum status status = normalizer.status;
    if (status == STATUS_OK)
        status = pre_tokenizer.status;
    files->is_pieces = model_is(files, "byte_fallback");
    if (status == STATUS_OK)
        status = files->is_pieces
                     ? write_pieces(files, buffer_slice(&normalizer), buffer_slice(&pre_tokenizer))
                     : write_bytes(files, buffer_slice(&normalizer), buffer_slice(&pre_tokenizer));
    buffer_deinit(&normalizer);
    buffer_deinit(&pre_tokenizer);
    return status;
}

/* --- the tokens around a text --- */

/* Finds the token that tokenizer_config.json names, as a text or as an object with one. */
static enum status find_special(const struct text_files *files, const char *name, uint32_t *out)
{
    const struct json_read_value *value = get(&files->config, 0, name);
    *out = files->merges.size;
    if (value != NULL && value->kind == JSON_READ_OBJECT)
        value = get(&files->config, index_of(&files->config, value), "content");
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_STRING ||
        !hf_merges_find(&files->merges, json_read_text(value), out))
        FAIL(STATUS_CORRUPT, "tokenizer_config.json: %s is no token", name);
    return STATUS_OK;
}

static enum status refuse_processor(struct slice type)
{
    FAIL(STATUS_UNSUPPORTED,
         "tokenizer.json: a post_processor '%.*s' that does more than put bos before a text is not "
         "supported",
         (int)(type.length < 32 ? type.length : 32), type.bytes);
}

/* A template puts tokens around a text: only one before it is supported. */
static enum status read_template(struct text_files *files, uint32_t at, struct slice type)
{
    const struct json_read *json = &files->tokenizer;
    const struct json_read_value *list = get(json, at, "single");
    bool has_text = false;
    if (list == NULL || list->kind != JSON_READ_ARRAY)
        return refuse_processor(type);
    uint32_t step = index_of(json, list) + 1;
    for (uint32_t i = 0; i < list->count; i++, step = json->values[step].next) {
        const struct json_read_value *special = get(json, step, "SpecialToken");
        uint32_t id;
        if (get(json, step, "Sequence") != NULL && !has_text) {
            has_text = true;
            continue;
        }
        const struct json_read_value *name =
            special != NULL ? get(json, index_of(json, special), "id") : NULL;
        if (has_text || files->adds_bos || name == NULL || name->kind != JSON_READ_STRING ||
            !hf_merges_find(&files->merges, json_read_text(name), &id))
            return refuse_processor(type);
        if (files->bos != files->merges.size && files->bos != id)
            return refuse_processor(type);
        files->bos = id;
        files->adds_bos = true;
    }
    return STATUS_OK;
}

static enum status read_processor(struct text_files *files, uint32_t at)
{
    const struct json_read_value *value = get(&files->tokenizer, at, "type");
    const struct slice type = value != NULL ? json_read_text(value) : SLICE("");
    if (slice_is(type, "ByteLevel"))
        return STATUS_OK; /* offsets alone */
    if (slice_is(type, "TemplateProcessing"))
        return read_template(files, at, type);
    return refuse_processor(type);
}

static enum status read_processors(struct text_files *files)
{
    const struct json_read *json = &files->tokenizer;
    const struct json_read_value *value = get(json, 0, "post_processor");
    if (value == NULL)
        return STATUS_OK;
    const struct json_read_value *list = get(json, index_of(json, value), "processors");
    if (list == NULL)
        return read_processor(files, index_of(json, value));
    if (list->kind != JSON_READ_ARRAY)
        return refuse_processor(SLICE("Sequence"));
    uint32_t step = index_of(json, list) + 1;
    for (uint32_t i = 0; i < list->count; i++, step = json->values[step].next)
        TRY(read_processor(files, step));
    return STATUS_OK;
}

/* The tokens that end an answer: generation_config.json, else config.json. */
static enum status read_ends(const struct text_files *files, int32_t *out, uint32_t *count)
{
    const struct json_read *json = &files->generation;
    const struct json_read_value *value = get(json, 0, "eos_token_id");
    if (value == NULL) {
        json = files->model_config;
        value = get(json, 0, "eos_token_id");
    }
    *count = 0;
    if (value == NULL)
        return STATUS_OK;
    const bool is_list = value->kind == JSON_READ_ARRAY;
    const uint32_t each = is_list ? value->count : 1;
    if (each > LIMIT_TOKENIZER_ENDS)
        FAIL(STATUS_LIMIT, "eos_token_id has %u tokens, the limit is %d", each,
             LIMIT_TOKENIZER_ENDS);
    for (uint32_t i = 0; i < each; i++) {
        int64_t id;
        if (!json_read_integer(is_list ? value + 1 + i : value, &id) || id < 0 ||
            id >= files->merges.size)
            FAIL(STATUS_CORRUPT, "generation_config.json or config.json: eos_token_id is no token");
        out[(*count)++] = (int32_t)id;
    }
    return STATUS_OK;
}

static enum status write_specials(struct text_files *files)
{
    const struct json_read_value *adds;
    const uint32_t none = files->merges.size;
    int32_t ends[LIMIT_TOKENIZER_ENDS];
    uint32_t count;
    uint32_t eos;
    TRY(find_special(files, "bos_token", &files->bos));
    TRY(find_special(files, "eos_token", &eos));
    TRY(read_processors(files));
    TRY(read_ends(files, ends, &count));
    adds = get(&files->config, 0, "add_bos_token");
    if (adds != NULL && (adds->kind == JSON_READ_TRUE || adds->kind == JSON_READ_FALSE))
        files->adds_bos = adds->kind == JSON_READ_TRUE && files->bos != none;
    adds = get(&files->config, 0, "add_eos_token");
    if (adds != NULL && adds->kind == JSON_READ_TRUE)
        FAIL(STATUS_UNSUPPORTED, "tokenizer_config.json: add_eos_token is not supported");
    if (eos == none && count > 0)
        eos = (uint32_t)ends[0];
    if (files->bos != none)
        gguf_keys_u32(files->keys, "tokenizer.ggml.bos_token_id", files->bos);
    if (eos != none)
        gguf_keys_u32(files->keys, "tokenizer.ggml.eos_token_id", eos);
    gguf_keys_bool(files->keys, "tokenizer.ggml.add_bos_token", files->adds_bos);
    if (count > 0)
        gguf_keys_i32s(files->keys, "banyan.eos_token_ids", ends, count);
    return STATUS_OK;
}

/* --- the chat template --- */

/* The template of a list [{"name": …, "template": …}, …] that is called "default". */
static const struct json_read_value *find_default(const struct json_read *json, uint32_t list)
{
    uint32_t at = list + 1;
    for (uint32_t i = 0; i < json->values[list].count; i++, at = json->values[at].next) {
        const struct json_read_value *name = get(json, at, "name");
        if (name != NULL && slice_is(json_read_text(name), "default"))
            return get(json, at, "template");
    }
    return NULL;
}

static enum status write_template(const struct text_files *files, int folder)
{
    static const char key[] = "tokenizer.chat_template";
    const struct json_read *json = &files->config;
    struct buffer text;
    enum status status = hf_folder_read(folder, "chat_template.jinja", LIMIT_TEMPLATE_BYTES, &text);
    if (status == STATUS_OK)
        gguf_keys_string(files->keys, key, buffer_slice(&text));
    buffer_deinit(&text);
    if (status != STATUS_NOT_FOUND)
        return status;
    const struct json_read_value *value = get(json, 0, "chat_template");
    if (value != NULL && value->kind == JSON_READ_ARRAY)
        value = find_default(json, index_of(json, value));
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_STRING)
        FAIL(STATUS_CORRUPT, "tokenizer_config.json: chat_template is no text");
    gguf_keys_string(files->keys, key, json_read_text(value));
    return STATUS_OK;
}

/* --- all --- */

/* One more than the greatest id. */
static uint32_t count_tokens(const struct text_files *files, uint32_t added)
{
    const struct json_read *json = &files->tokenizer;
    const struct json_read_value *vocab = get(json, files->model, "vocab");
    int64_t most = -1;
    int64_t id;
    if (vocab != NULL && vocab->kind == JSON_READ_OBJECT) {
        uint32_t at = index_of(json, vocab) + 1;
        for (uint32_t i = 0; i < vocab->count; i++, at = json->values[at + 1].next)
            if (json_read_integer(&json->values[at + 1], &id))
                most = id > most ? id : most;
    }
    if (added != 0 && json->values[added].kind == JSON_READ_ARRAY) {
        uint32_t at = added + 1;
        for (uint32_t i = 0; i < json->values[added].count; i++, at = json->values[at].next)
            if (json_read_integer(json_read_member(json, at, "id"), &id))
                most = id > most ? id : most;
    }
    return most < LIMIT_VOCAB ? (uint32_t)(most + 1) : LIMIT_VOCAB + 1;
}

static enum status read_all(struct text_files *files, int folder, uint32_t size)
{
    TRY(files_read(folder, "tokenizer.json", LIMIT_TOKENIZER_BYTES, LIMIT_TOKENIZER_VALUES,
                   &files->texts[0], &files->tokenizer));
    TRY(files_may(folder, "tokenizer_config.json", &files->texts[1], &files->config));
    TRY(files_may(folder, "generation_config.json", &files->texts[2], &files->generation));
    const struct json_read_value *model = get(&files->tokenizer, 0, "model");
    const struct json_read_value *added = get(&files->tokenizer, 0, "added_tokens");
    if (model == NULL || model->kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "tokenizer.json has no object model");
    files->model = index_of(&files->tokenizer, model);
    const bool is_words = hf_words_is(&files->tokenizer, files->model);
    if (!is_words)
        TRY(model_check(files));
    const uint32_t at = added != NULL ? index_of(&files->tokenizer, added) : 0;
    if (size == 0)
        size = count_tokens(files, at);
    TRY(hf_merges_open(&files->merges, &files->tokenizer, files->model, at, size));
    if (is_words)
        return hf_words_write(&files->merges, &files->tokenizer, files->model, files->keys);
    TRY(write_model(files));
    TRY(write_specials(files));
    return write_template(files, folder);
}

enum status hf_tokenizer_read(int folder, const struct json_read *config, uint32_t size,
                              struct gguf_keys *keys)
{
    struct text_files files = {.model_config = config, .keys = keys};
    for (size_t i = 0; i < sizeof files.texts / sizeof files.texts[0]; i++)
        buffer_init(&files.texts[i], 0);
    const enum status status = read_all(&files, folder, size);
    hf_merges_close(&files.merges);
    json_read_free(&files.tokenizer);
    json_read_free(&files.config);
    json_read_free(&files.generation);
    for (size_t i = 0; i < sizeof files.texts / sizeof files.texts[0]; i++)
        buffer_deinit(&files.texts[i]);
    return status;
}
