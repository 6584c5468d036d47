#include "gateway/dialect/ask.h"

#include <stdio.h>
#include <string.h>

#include "config/base/limits_embed.h"
#include "config/base/random_bytes.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_read.h"
#include "gateway/dialect/ask_reasoning.h"
#include "gateway/dialect/ask_tools.h"

enum { COMPLETION_TOKENS_DEFAULT = 16 /* as the OpenAI schema says */, PATH_BYTES = 96 };

/* Names of ask_fields.def: dialects as bits, and values. */
enum {
    CHAT = 1 << ASK_CHAT,
    TEXT = 1 << ASK_TEXT,
    SIMPLE = 1 << ASK_GENERATE,
    EMBED = 1 << ASK_EMBED
};

enum value_type {
    VALUE_ANY,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_NUMBER,
    VALUE_WORD,
    VALUE_WORDS,
    VALUE_OBJECT,
    VALUE_ARRAY,
};

static const struct field {
    const char *name;
    unsigned dialects;
    enum value_type type;
    int64_t least; /* of an integer */
    int64_t most;  /* of an integer, or of an array's items */
    double low;    /* of a number */
    double high;
    /* NULL: a hint, or refused */
    enum status (*read)(struct ask *ask, const struct ask_value *value);
    const char *instead; /* of a refused field: the rest of the message, which says what to do */
} fields[] = {
#define ANY           .type = VALUE_ANY
#define BOOLEAN       .type = VALUE_BOOLEAN
#define INTEGER(l, m) .type = VALUE_INTEGER, .least = (l), .most = (m)
#define NUMBER(l, h)  .type = VALUE_NUMBER, .low = (l), .high = (h)
#define WORD          .type = VALUE_WORD
#define WORDS         .type = VALUE_WORDS
#define OBJECT        .type = VALUE_OBJECT
#define ARRAY(m)      .type = VALUE_ARRAY, .most = (m)
#define HONOURED(field_name, in, value, reader)                                                    \
    {.name = #field_name, .dialects = (in), value, .read = (reader)},
#define HINT(field_name, in, value) {.name = #field_name, .dialects = (in), value},
#define REFUSED(field_name, in, why)                                                               \
    {.name = #field_name, .dialects = (in), .type = VALUE_ANY, .instead = (why)},
#include "gateway/dialect/ask_fields.def"
#undef ANY
#undef BOOLEAN
#undef INTEGER
#undef NUMBER
#undef WORD
#undef WORDS
#undef OBJECT
#undef ARRAY
#undef HONOURED
#undef HINT
#undef REFUSED
};

static const struct field *field_find(enum ask_dialect dialect, const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if ((fields[i].dialects >> dialect & 1) != 0 && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    }
    return NULL;
}

/* An object whose members are words. */
static enum status value_words(const json_t *json, const char *name)
{
    const char *key;
    json_t *entry;
    TRY(ask_json_object(json, name));
    json_object_foreach((json_t *)(uintptr_t)json, key, entry)
    {
        char path[PATH_BYTES];
        struct slice word;
        snprintf(path, sizeof path, "%s.%.64s", name, key);
        TRY(ask_json_word(entry, path, &word));
    }
    return STATUS_OK;
}

/* Checks type and range. */
static enum status value_read(const struct field *field, const json_t *json, struct ask_value *out)
{
    const char *name = field->name;
    size_t count;
    *out = (struct ask_value){.name = name, .json = json};
    switch (field->type) {
    case VALUE_BOOLEAN:
        return ask_json_bool(json, name, &out->yes);
    case VALUE_INTEGER:
        return ask_json_integer(json, name, field->least, field->most, &out->integer);
    case VALUE_NUMBER:
        return ask_json_number(json, name, field->low, field->high, false, &out->number);
    case VALUE_WORD:
        return ask_json_word(json, name, &out->word);
    case VALUE_WORDS:
        return value_words(json, name);
    case VALUE_OBJECT:
        return ask_json_object(json, name);
    case VALUE_ARRAY:
        return ask_json_array(json, name, (size_t)field->most, &count);
    case VALUE_ANY:
        break;
    }
    return STATUS_OK;
}

static enum status parse_fields(struct ask *ask)
{
    const char *key;
    json_t *json;
    json_object_foreach(ask->root, key, json)
    {
        const struct field *field = field_find(ask->dialect, key);
        struct ask_value value;
        if (field == NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, key, "Unrecognized request argument supplied: %.64s",
                       key);
        if (json_is_null(json))
            continue;
        if (field->instead != NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, key, "Unsupported parameter: '%s' %s", key,
                       field->instead);
        TRY(value_read(field, json, &value));
        if (field->read != NULL)
            TRY(field->read(ask, &value));
    }
    return STATUS_OK;
}

static enum status parse_embeds(struct ask *ask)
{
    const uint64_t bytes = (uint64_t)ask->prompt_count * ask->model.width * sizeof(float);
    if (bytes > LIMIT_EMBEDDED_BYTES)
        FAIL_PARAM(
            STATUS_OUT_OF_RANGE, "input",
            "Invalid 'input': an answer has at most %d numbers, so at most %u texts with this "
            "model; send several requests.",
            LIMIT_EMBEDDED_BYTES / (int)sizeof(float),
            (unsigned)(LIMIT_EMBEDDED_BYTES / sizeof(float) / ask->model.width));
    ask->engine.pooling = ask->model.pooling;
    return STATUS_OK;
}

static enum status parse_relations(struct ask *ask)
{
    const json_t *root = ask->root;
    static const char *const prompts[] = {[ASK_CHAT] = "messages",
                                          [ASK_TEXT] = "prompt",
                                          [ASK_GENERATE] = "prompt",
                                          [ASK_EMBED] = "input"};
    const char *prompt = prompts[ask->dialect];
    if (ask->prompt_count == 0)
        FAIL_PARAM(STATUS_INVALID, prompt, "Missing required parameter: '%s'.", prompt);
    if (ask->has_stream_options && !ask->is_stream)
        FAIL_PARAM(STATUS_INVALID, "stream_options",
                   "The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    if (ask->has_top_logprobs && !ask->engine.want_logprobs)
        FAIL_PARAM(STATUS_INVALID, "top_logprobs",
                   "The 'logprobs' parameter must be true for 'top_logprobs' to be allowed.");
    json_t *both = json_object_get(root, "max_completion_tokens");
    if (both != NULL && !json_is_null(both) && json_is_integer(json_object_get(root, "max_tokens")))
        FAIL_PARAM(STATUS_INVALID, "max_tokens",
                   "Give either 'max_tokens' or 'max_completion_tokens', not both.");
    if (ask->engine.is_scored && !ask->engine.echo)
        FAIL_PARAM(
            STATUS_OUT_OF_RANGE, "max_tokens",
            "Invalid 'max_tokens': 0 generates nothing, and is only allowed with 'echo', which "
            "gives the prompt back.");
    const bool has_most = ask->engine.tokens_max > 0 || ask->engine.is_scored;
    if (has_most && ask->engine.tokens_min > ask->engine.tokens_max)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "min_tokens",
                   "Invalid 'min_tokens': %u tokens are more than the answer may have (%u).",
                   ask->engine.tokens_min, ask->engine.tokens_max);
    if (ask->best_of != 0 && ask->best_of != ask->engine.choices)
        FAIL_PARAM(
            STATUS_UNSUPPORTED, "best_of",
            "Unsupported value: 'best_of' must equal 'n' here; every sampled answer is returned.");
    if (ask->dialect == ASK_EMBED)
        TRY(parse_embeds(ask));
    else if (ask->prompt_count * ask->engine.choices > LIMIT_ANSWERS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "n", "Invalid 'n': prompts × n may be at most %d.",
                   LIMIT_ANSWERS);
    ask->engine.wants_ids = ask->want_token_ids;
    ask->engine.service_class = service_class_lower(ask->engine.service_class, ask->priority);
    return STATUS_OK;
}

enum status ask_check_model(const json_t *root, const char *model_name)
{
    const json_t *model = json_object_get(root, "model");
    if (model == NULL)
        FAIL_PARAM(STATUS_INVALID, "model", "you must provide a model parameter");
    struct slice name;
    TRY(ask_json_word(model, "model", &name));
    if (name.length == 0 || (model_name != NULL && !slice_is(name, model_name)))
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, "model",
                   "The model '%.*s' does not exist or you do not have access to it.",
                   (int)(name.length < 64 ? name.length : 64), name.bytes);
    return STATUS_OK;
}

enum status ask_parse(struct ask *ask, enum ask_dialect dialect, struct slice body,
                      const struct ask_model *model)
{
    *ask = (struct ask){
        .dialect = dialect,
        .engine = {.choices = 1,
                   .sampling = {.temperature = 1, .top_p = 1},
                   .service_class = SERVICE_CLASS_STANDARD},
        .model = *model,
        .tools = {.allowed = {UINT64_MAX, UINT64_MAX}},
    };
    random_bytes(&ask->engine.sampling.seed, sizeof ask->engine.sampling.seed);
    ask->engine.tokens_max = dialect == ASK_CHAT ? 0 : COMPLETION_TOKENS_DEFAULT;
    /* A completion's prompt may name control tokens, so its answer names them too. A foreign server
     * leaves them out, unless it is asked and can show them. */
    ask->engine.shows_control = dialect == ASK_TEXT && !model->is_foreign;
    enum status status = ask_json_parse(body, &ask->root);
    bool is_any_model =
        dialect == ASK_GENERATE && (json_object_get(ask->root, "model") == NULL ||
                                    json_is_null(json_object_get(ask->root, "model")));
    if (status == STATUS_OK && !is_any_model)
        status = ask_check_model(ask->root, model->name);
    if (status == STATUS_OK && dialect == ASK_EMBED && model->pooling == ENGINE_POOLING_NONE)
        status = status_fail(STATUS_UNSUPPORTED, __FILE__, __LINE__, "model",
                             "The model '%s' gives no embeddings.", model->name);
    if (status == STATUS_OK)
        status = parse_fields(ask);
    if (status == STATUS_OK)
        status = parse_relations(ask);
    if (status == STATUS_OK && dialect == ASK_CHAT)
        status = ask_tools_check(ask);
    if (status == STATUS_OK && dialect == ASK_CHAT)
        status = ask_reasoning_check(ask);
    if (status != STATUS_OK)
        ask_deinit(ask);
    return status;
}

void ask_deinit(struct ask *ask)
{
    buffer_deinit(&ask->tools.lines);
    buffer_deinit(&ask->tools.names);
    ask_block_free(ask->blocks);
    ask->blocks = NULL;
    json_decref(ask->root);
    ask->root = NULL;
}

void ask_of_prompt(const struct ask *ask, uint32_t prompt, struct engine_request *out)
{
    ASSERT(prompt < ask->prompt_count);
    const struct ask_prompt *one = &ask->prompts[prompt];
    *out = ask->engine;
    out->prompt_kind = one->kind;
    out->text = one->text;
    out->tokens = one->tokens;
    out->token_count = one->token_count;
}
