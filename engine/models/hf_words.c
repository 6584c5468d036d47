#include "engine/models/hf_words.h"

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "engine/models/hf_presplit.h"
#include "engine/models/vocab.h"

enum { WORD_CHARACTERS = 100 }; /* tokenizer_wordpiece's */

#define MARK "\xe2\x96\x81" /* before a piece that begins a word, in GGUF files */

static const struct json_read_value *get(const struct json_read *json, uint32_t object,
                                         const char *name)
{
    const struct json_read_value *value = json_read_member(json, object, name);
    return value != NULL && value->kind != JSON_READ_NULL ? value : NULL;
}

static uint32_t index_of(const struct json_read *json, const struct json_read_value *value)
{
    return (uint32_t)(value - json->values);
}

static bool is_text(const struct json_read_value *value, const char *text)
{
    return value != NULL && value->kind == JSON_READ_STRING &&
           slice_is(json_read_text(value), text);
}

bool hf_words_is(const struct json_read *json, uint32_t model)
{
    return is_text(get(json, model, "type"), "WordPiece");
}

/* Refuses a step with the words of the file, of which control characters are left out. */
static enum status refuse(const struct json_read *json, const char *name,
                          const struct json_read_value *value)
{
    char words[160];
    size_t length = 0;
    struct buffer text;
    buffer_init(&text, 65536);
    if (value != NULL)
        hf_presplit_describe(json, index_of(json, value), &text);
    for (size_t i = 0; i < text.length && length < sizeof words - 1; i++)
        if ((unsigned char)text.bytes[i] >= 0x20 && text.bytes[i] != 0x7f)
            words[length++] = text.bytes[i];
    words[length] = '\0';
    buffer_deinit(&text);
    FAIL(STATUS_UNSUPPORTED, "tokenizer.json: %s '%s' is not supported with WordPiece", name,
         length > 0 ? words : "none");
}

static enum status write_flag(const struct json_read *json, uint32_t at, const char *name,
                              bool fallback, const char *key, struct gguf_keys *keys, bool *out)
{
    const struct json_read_value *value = get(json, at, name);
    *out = fallback;
    if (value != NULL && value->kind != JSON_READ_TRUE && value->kind != JSON_READ_FALSE)
        FAIL(STATUS_CORRUPT, "tokenizer.json: the normalizer's %s is neither true nor false", name);
    if (value != NULL)
        *out = value->kind == JSON_READ_TRUE;
    gguf_keys_bool(keys, key, *out);
    return STATUS_OK;
}

static enum status write_steps(const struct json_read *json, struct gguf_keys *keys)
{
    const struct json_read_value *normalizer = get(json, 0, "normalizer");
    const struct json_read_value *pre_tokenizer = get(json, 0, "pre_tokenizer");
    bool lowers;
    bool other;
    if (normalizer == NULL || normalizer->kind != JSON_READ_OBJECT ||
        !is_text(get(json, index_of(json, normalizer), "type"), "BertNormalizer"))
        return refuse(json, "normalizer", normalizer);
    if (pre_tokenizer == NULL || pre_tokenizer->kind != JSON_READ_OBJECT ||
        !is_text(get(json, index_of(json, pre_tokenizer), "type"), "BertPreTokenizer"))
        return refuse(json, "pre_tokenizer", pre_tokenizer);
    const uint32_t at = index_of(json, normalizer);
    TRY(write_flag(json, at, "lowercase", true, "banyan.bert.lower", keys, &lowers));
    TRY(write_flag(json, at, "clean_text", true, "banyan.bert.clean", keys, &other));
    TRY(write_flag(json, at, "handle_chinese_chars", true, "banyan.bert.cjk", keys, &other));
    return write_flag(json, at, "strip_accents", lowers, "banyan.bert.strip", keys, &other);
}

/* The text of a token in GGUF files: a mark before what begins a word, and no "##". */
static enum status write_token(const struct hf_merges *merges, uint32_t id, struct gguf_keys *keys)
{
    const struct slice text = merges->tokens[id];
    char bytes[LIMIT_TOKEN_BYTES + sizeof MARK];
    if (merges->kinds[id] != VOCAB_NORMAL) {
        gguf_keys_add_string(keys, text);
        return STATUS_OK;
    }
    if (slice_starts_with(text, SLICE("##")) && text.length > 2) {
        gguf_keys_add_string(keys, (struct slice){text.bytes + 2, text.length - 2});
        return STATUS_OK;
    }
    if (text.length > LIMIT_TOKEN_BYTES)
        FAIL(STATUS_LIMIT, "tokenizer.json: token %u has %zu bytes, the limit is %d", id,
             text.length, LIMIT_TOKEN_BYTES);
    memcpy(bytes, MARK, sizeof MARK - 1);
    memcpy(bytes + sizeof MARK - 1, text.bytes, text.length);
    gguf_keys_add_string(keys, (struct slice){bytes, sizeof MARK - 1 + text.length});
    return STATUS_OK;
}

static enum status write_tokens(const struct hf_merges *merges, const struct json_read *json,
                                uint32_t model, struct gguf_keys *keys)
{
    const struct json_read_value *unknown = get(json, model, "unk_token");
    uint32_t id;
    if (unknown == NULL || unknown->kind != JSON_READ_STRING ||
        !hf_merges_find(merges, json_read_text(unknown), &id))
        FAIL(STATUS_CORRUPT, "tokenizer.json: the model's unk_token is no token");
    merges->kinds[id] = VOCAB_CONTROL; /* its name in a text is the token, as an added one's is */
    gguf_keys_u32(keys, "tokenizer.ggml.unknown_token_id", id);
    gguf_keys_strings(keys, "tokenizer.ggml.tokens", merges->size);
    for (uint32_t i = 0; i < merges->size; i++)
        TRY(write_token(merges, i, keys));
    gguf_keys_i32s(keys, "tokenizer.ggml.token_type", merges->kinds, merges->size);
    return STATUS_OK;
}

static enum status check_model(const struct json_read *json, uint32_t model)
{
    const struct json_read_value *prefix = get(json, model, "continuing_subword_prefix");
    const struct json_read_value *most = get(json, model, "max_input_chars_per_word");
    int64_t number = WORD_CHARACTERS;
    if (!is_text(prefix, "##"))
        FAIL(STATUS_UNSUPPORTED,
             "tokenizer.json: a continuing_subword_prefix other than '##' is not supported");
    if (most != NULL && (!json_read_integer(most, &number) || number != WORD_CHARACTERS))
        FAIL(STATUS_UNSUPPORTED,
             "tokenizer.json: a max_input_chars_per_word other than %d is not supported",
             WORD_CHARACTERS);
    return STATUS_OK;
}

/* --- the tokens around a text --- */

static enum status refuse_processor(void)
{
    FAIL(STATUS_UNSUPPORTED,
         "tokenizer.json: a post_processor that does more than put one token before a text and one "
         "behind it is not supported with WordPiece");
}

/* Takes the token that a step of a template names. */
static enum status take_special(const struct hf_merges *merges, const struct json_read *json,
                                const struct json_read_value *special, uint32_t *out)
{
    const struct json_read_value *name = get(json, index_of(json, special), "id");
    if (name == NULL || name->kind != JSON_READ_STRING ||
        !hf_merges_find(merges, json_read_text(name), out))
        FAIL(STATUS_CORRUPT, "tokenizer.json: the post_processor names a token that there is not");
    return STATUS_OK;
}

/* {"type": "TemplateProcessing", "single": [[CLS], $A, [SEP]]} */
static enum status take_template(const struct hf_merges *merges, const struct json_read *json,
                                 uint32_t at, uint32_t ids[static 2])
{
    const struct json_read_value *list = get(json, at, "single");
    uint32_t step;
    if (list == NULL || list->kind != JSON_READ_ARRAY || list->count != 3)
        return refuse_processor();
    step = index_of(json, list) + 1;
    for (uint32_t i = 0; i < 3; i++, step = json->values[step].next) {
        const struct json_read_value *special = get(json, step, "SpecialToken");
        if ((special == NULL) != (i == 1) || (i == 1 && get(json, step, "Sequence") == NULL))
            return refuse_processor();
        if (special != NULL)
            TRY(take_special(merges, json, special, &ids[i / 2]));
    }
    return STATUS_OK;
}

/* {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]} */
static enum status take_pair(const struct hf_merges *merges, const struct json_read *json,
                             uint32_t at, const char *name, uint32_t *out)
{
    const struct json_read_value *pair = get(json, at, name);
    if (pair == NULL || pair->kind != JSON_READ_ARRAY || pair->count != 2 ||
        pair[1].kind != JSON_READ_STRING || !hf_merges_find(merges, json_read_text(pair + 1), out))
        FAIL(STATUS_CORRUPT, "tokenizer.json: the post_processor's %s is no token", name);
    return STATUS_OK;
}

static enum status write_around(const struct hf_merges *merges, const struct json_read *json,
                                struct gguf_keys *keys)
{
    const struct json_read_value *processor = get(json, 0, "post_processor");
    uint32_t ids[2];
    if (processor == NULL || processor->kind != JSON_READ_OBJECT)
        return refuse_processor();
    const uint32_t at = index_of(json, processor);
    if (is_text(get(json, at, "type"), "TemplateProcessing")) {
        TRY(take_template(merges, json, at, ids));
    } else if (is_text(get(json, at, "type"), "BertProcessing")) {
        TRY(take_pair(merges, json, at, "cls", &ids[0]));
        TRY(take_pair(merges, json, at, "sep", &ids[1]));
    } else {
        return refuse_processor();
    }
    gguf_keys_u32(keys, "tokenizer.ggml.bos_token_id", ids[0]);
    gguf_keys_u32(keys, "tokenizer.ggml.eos_token_id", ids[1]);
    gguf_keys_bool(keys, "tokenizer.ggml.add_bos_token", true);
    gguf_keys_bool(keys, "tokenizer.ggml.add_eos_token", true);
    return STATUS_OK;
}

enum status hf_words_write(const struct hf_merges *merges, const struct json_read *json,
                           uint32_t model, struct gguf_keys *keys)
{
    TRY(check_model(json, model));
    gguf_keys_string(keys, "tokenizer.ggml.model", SLICE("bert"));
    TRY(write_steps(json, keys));
    TRY(write_tokens(merges, json, model, keys));
    return write_around(merges, json, keys);
}
