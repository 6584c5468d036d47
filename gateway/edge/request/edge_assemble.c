#include "gateway/edge/request/edge_assemble.h"

#include "config/base/limits.h"
#include "config/base/limits_embed.h"
#include "config/base/limits_tools.h"
#include "config/base/mem.h"
#include "gateway/edge/state/edge_json.h"

enum { HEAD_BYTES_MAX = 4096, WORD_BYTES_MAX = 64 };

/* The lists inside "logprobs": chat has the first two, text completions the other four. */
static const char *const LIST_NAMES[] = {"content",        "refusal",      "tokens",
                                         "token_logprobs", "top_logprobs", "text_offset"};
enum { LISTS = sizeof LIST_NAMES / sizeof LIST_NAMES[0], LISTS_CHAT = 2 };

/* A call of a tool, whose pieces the engine sends. */
struct call {
    struct buffer id;        /* a JSON value */
    struct buffer name;      /* still escaped, without quotes */
    struct buffer arguments; /* the same */
};

struct choice {
    bool has_logprobs;
    bool has_token_ids;
    struct buffer text;      /* still escaped, without quotes */
    struct buffer reasoning; /* the same */
    struct buffer role;      /* the same */
    struct call *calls;      /* [call_count], by their index */
    size_t call_count;
    struct buffer finish; /* a JSON value */
    struct buffer token_ids;
    struct buffer lists[LISTS]; /* elements with commas between them */
    bool has_list[LISTS];
};

/* Embeddings come in the order in which they are done. */
struct vectors {
    struct buffer text; /* their JSON objects */
    struct {
        size_t at;
        size_t length; /* 0: it has not come */
    } places[LIMIT_INPUTS];
    size_t count; /* one more than the greatest index */
};

struct edge_assemble {
    enum edge_stream_form form;
    size_t bytes_max;
    struct vectors *vectors;               /* NULL for other forms */
    struct buffer head;                    /* "id":…,"created":…,"model":…, */
    struct buffer fingerprint;             /* a JSON value; empty: the engine sent none */
    size_t bytes;                          /* of all frames so far */
    struct choice *choices[LIMIT_ANSWERS]; /* NULL until a frame of the choice has come */
};

size_t edge_assemble_most(enum edge_stream_form form)
{
    return form == EDGE_STREAM_EMBEDDINGS ? LIMIT_EMBEDDED_TEXT_BYTES : LIMIT_ASSEMBLED_BYTES;
}

enum status edge_assemble_create(struct edge_assemble **out, enum edge_stream_form form)
{
    struct edge_assemble *assemble = mem_zalloc(1, sizeof *assemble);
    if (assemble == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer");
    assemble->form = form;
    assemble->bytes_max = edge_assemble_most(form);
    if (form == EDGE_STREAM_EMBEDDINGS) {
        assemble->vectors = mem_zalloc(1, sizeof *assemble->vectors);
        if (assemble->vectors == NULL) {
            mem_free(assemble);
            FAIL(STATUS_NO_MEMORY, "no memory for an answer");
        }
        buffer_init(&assemble->vectors->text, LIMIT_EMBEDDED_TEXT_BYTES);
    }
    buffer_init(&assemble->head, HEAD_BYTES_MAX);
    buffer_init(&assemble->fingerprint, HEAD_BYTES_MAX);
    *out = assemble;
    return STATUS_OK;
}

static void call_deinit(struct call *call)
{
    buffer_deinit(&call->id);
    buffer_deinit(&call->name);
    buffer_deinit(&call->arguments);
}

void edge_assemble_destroy(struct edge_assemble *assemble)
{
    if (assemble == NULL)
        return;
    buffer_deinit(&assemble->head);
    buffer_deinit(&assemble->fingerprint);
    if (assemble->vectors != NULL)
        buffer_deinit(&assemble->vectors->text);
    mem_free(assemble->vectors);
    for (size_t i = 0; i < LIMIT_ANSWERS; i++) {
        struct choice *choice = assemble->choices[i];
        if (choice == NULL)
            continue;
        buffer_deinit(&choice->text);
        buffer_deinit(&choice->reasoning);
        for (size_t k = 0; k < choice->call_count; k++)
            call_deinit(&choice->calls[k]);
        mem_free(choice->calls);
        buffer_deinit(&choice->role);
        buffer_deinit(&choice->finish);
        buffer_deinit(&choice->token_ids);
        for (size_t k = 0; k < LISTS; k++)
            buffer_deinit(&choice->lists[k]);
        mem_free(choice);
    }
    mem_free(assemble);
}

/* Appends the elements of an array to the list. */
static enum status add_elements(struct buffer *list, struct json_value array)
{
    struct slice inside;
    TRY(edge_json_inside(array, &inside));
    if (inside.length != 0 && list->length != 0)
        buffer_append_char(list, ',');
    buffer_append_slice(list, inside);
    return list->status;
}

static enum status add_logprobs(struct choice *choice, struct json_value value)
{
    struct edge_json_walk walk;
    struct json_value key;
    bool found = true;
    if (json_scan_is_null(value))
        return STATUS_OK;
    choice->has_logprobs = true;
    TRY(edge_json_object(&walk, json_scan_text(value)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            return STATUS_OK;
        for (size_t i = 0; i < LISTS; i++) {
            if (!json_scan_is(key, LIST_NAMES[i]) || json_scan_is_null(value))
                continue;
            choice->has_list[i] = true;
            TRY(add_elements(&choice->lists[i], value));
        }
    }
}

static enum status add_text(struct buffer *text, struct json_value value)
{
    return json_scan_is_null(value) ? STATUS_OK : edge_json_append_inside(text, value);
}

/* The call with an index; its first piece makes it. Calls come in their order. */
static enum status call_find(struct choice *choice, uint64_t index, struct call **out)
{
    if (index > choice->call_count || index >= LIMIT_CALLS)
        FAIL(STATUS_PROTOCOL, "a frame of the engine has a call out of its order");
    if (index == choice->call_count) {
        struct call *calls = mem_zalloc(index + 1, sizeof *calls);
        if (calls == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for a call in an answer");
        if (index > 0)
            memcpy(calls, choice->calls, index * sizeof *calls);
        mem_free(choice->calls);
        choice->calls = calls;
        choice->call_count++;
        buffer_init(&calls[index].id, HEAD_BYTES_MAX);
        buffer_init(&calls[index].name, HEAD_BYTES_MAX);
        buffer_init(&calls[index].arguments, LIMIT_ASSEMBLED_BYTES);
    }
    *out = &choice->calls[index];
    return STATUS_OK;
}

static enum status add_function(struct call *call, struct json_value function)
{
    struct edge_json_walk walk;
    struct json_value key;
    struct json_value value;
    bool found = true;
    TRY(edge_json_object(&walk, json_scan_text(function)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            return STATUS_OK;
        if (json_scan_is(key, "name"))
            TRY(add_text(&call->name, value));
        else if (json_scan_is(key, "arguments"))
            TRY(add_text(&call->arguments, value));
    }
}

/* A piece of a call. The engine writes the index first. */
static enum status add_call(struct choice *choice, struct json_value piece)
{
    struct edge_json_walk walk;
    struct json_value key;
    struct json_value value;
    struct call *call = NULL;
    uint64_t index = 0;
    bool found = true;
    TRY(edge_json_object(&walk, json_scan_text(piece)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            return STATUS_OK;
        if (json_scan_is(key, "index")) {
            TRY(edge_json_number(value, LIMIT_CALLS - 1, &index));
            TRY(call_find(choice, index, &call));
        } else if (call == NULL) {
            FAIL(STATUS_PROTOCOL, "a frame of the engine has a call without an index");
        } else if (json_scan_is(key, "id")) {
            buffer_append_slice(&call->id, json_scan_text(value));
        } else if (json_scan_is(key, "function")) {
            TRY(add_function(call, value));
        }
    }
}

static enum status add_calls(struct choice *choice, struct json_value array)
{
    struct edge_json_walk walk;
    struct json_value value;
    bool found = true;
    TRY(edge_json_array(&walk, json_scan_text(array)));
    for (;;) {
        TRY(edge_json_element(&walk, &found, &value));
        if (!found)
            return STATUS_OK;
        TRY(add_call(choice, value));
    }
}

static enum status add_delta(struct choice *choice, struct json_value delta)
{
    struct edge_json_walk walk;
    struct json_value key;
    struct json_value value;
    bool found = true;
    TRY(edge_json_object(&walk, json_scan_text(delta)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            return STATUS_OK;
        if (json_scan_is(key, "content")) {
            TRY(add_text(&choice->text, value));
        } else if (json_scan_is(key, "reasoning_content")) {
            TRY(add_text(&choice->reasoning, value));
        } else if (json_scan_is(key, "tool_calls") && !json_scan_is_null(value)) {
            TRY(add_calls(choice, value));
        } else if (json_scan_is(key, "role")) {
            buffer_clear(&choice->role);
            TRY(add_text(&choice->role, value));
        }
    }
}

static enum status add_choice_member(struct choice *choice, struct json_value key,
                                     struct json_value value)
{
    if (json_scan_is(key, "delta"))
        return add_delta(choice, value);
    if (json_scan_is(key, "text"))
        return add_text(&choice->text, value);
    if (json_scan_is(key, "logprobs"))
        return add_logprobs(choice, value);
    if (json_scan_is(key, "finish_reason") && !json_scan_is_null(value)) {
        buffer_clear(&choice->finish);
        buffer_append_slice(&choice->finish, json_scan_text(value));
        return choice->finish.status;
    }
    if (json_scan_is(key, "token_ids") && !json_scan_is_null(value)) {
        choice->has_token_ids = true;
        return add_elements(&choice->token_ids, value);
    }
    return STATUS_OK;
}

static enum status add_choice_begin(struct edge_assemble *assemble, size_t index)
{
    if (assemble->choices[index] != NULL)
        return STATUS_OK;
    struct choice *choice = mem_zalloc(1, sizeof *choice);
    if (choice == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a choice of an answer");
    assemble->choices[index] = choice;
    buffer_init(&choice->text, LIMIT_ASSEMBLED_BYTES);
    buffer_init(&choice->reasoning, LIMIT_ASSEMBLED_BYTES);
    buffer_init(&choice->role, WORD_BYTES_MAX);
    buffer_init(&choice->finish, WORD_BYTES_MAX);
    buffer_init(&choice->token_ids, LIMIT_ASSEMBLED_BYTES);
    for (size_t i = 0; i < LISTS; i++)
        buffer_init(&choice->lists[i], LIMIT_ASSEMBLED_BYTES);
    return STATUS_OK;
}

/* Returns the "index" of an object, which is below `most`. */
static enum status index_of(struct json_value object, uint64_t most, uint64_t *out)
{
    struct edge_json_walk walk;
    struct json_value key;
    struct json_value value;
    bool found = true;
    *out = most;
    TRY(edge_json_object(&walk, json_scan_text(object)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            break;
        if (json_scan_is(key, "index"))
            TRY(edge_json_number(value, most - 1, out));
    }
    if (*out >= most)
        FAIL(STATUS_PROTOCOL, "a frame of the engine has a part without an index");
    return STATUS_OK;
}

/* "index" may stand anywhere in the choice, so it is looked for first. */
static enum status add_choice(struct edge_assemble *assemble, struct json_value object)
{
    struct edge_json_walk walk;
    struct json_value key;
    struct json_value value;
    uint64_t index;
    bool found = true;
    TRY(index_of(object, LIMIT_ANSWERS, &index));
    TRY(add_choice_begin(assemble, index));
    TRY(edge_json_object(&walk, json_scan_text(object)));
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            return STATUS_OK;
        TRY(add_choice_member(assemble->choices[index], key, value));
    }
}

static enum status add_choices(struct edge_assemble *assemble, struct json_value array)
{
    struct edge_json_walk walk;
    struct json_value value;
    bool found = true;
    TRY(edge_json_array(&walk, json_scan_text(array)));
    for (;;) {
        TRY(edge_json_element(&walk, &found, &value));
        if (!found)
            return STATUS_OK;
        TRY(add_choice(assemble, value));
    }
}

static enum status add_vector(struct vectors *vectors, struct json_value object)
{
    const struct slice text = json_scan_text(object);
    uint64_t index;
    TRY(index_of(object, LIMIT_INPUTS, &index));
    if (vectors->places[index].length != 0)
        FAIL(STATUS_PROTOCOL, "the engine sent an embedding twice");
    vectors->places[index].at = vectors->text.length;
    vectors->places[index].length = text.length;
    if (vectors->count <= index)
        vectors->count = index + 1;
    buffer_append_slice(&vectors->text, text);
    return vectors->text.status;
}

static enum status add_vectors(struct edge_assemble *assemble, struct json_value array)
{
    struct edge_json_walk walk;
    struct json_value value;
    bool found = true;
    TRY(edge_json_array(&walk, json_scan_text(array)));
    for (;;) {
        TRY(edge_json_element(&walk, &found, &value));
        if (!found)
            return STATUS_OK;
        TRY(add_vector(assemble->vectors, value));
    }
}

static void add_head(struct edge_assemble *assemble, struct json_value key, struct json_value value)
{
    buffer_append_slice(&assemble->head, json_scan_text(key));
    buffer_append_char(&assemble->head, ':');
    buffer_append_slice(&assemble->head, json_scan_text(value));
    buffer_append_char(&assemble->head, ',');
}

static enum status add_member(struct edge_assemble *assemble, bool is_first, struct json_value key,
                              struct json_value value)
{
    if (json_scan_is(key, "choices"))
        return add_choices(assemble, value);
    if (assemble->vectors != NULL && json_scan_is(key, "data"))
        return add_vectors(assemble, value);
    if (assemble->form == EDGE_STREAM_GENERATION &&
        (json_scan_is(key, "text") || json_scan_is(key, "finish_reason"))) {
        TRY(add_choice_begin(assemble, 0));
        return add_choice_member(assemble->choices[0], key, value);
    }
    if (!is_first)
        return STATUS_OK;
    if (json_scan_is(key, "id") || json_scan_is(key, "created") || json_scan_is(key, "model"))
        add_head(assemble, key, value);
    else if (json_scan_is(key, "system_fingerprint"))
        buffer_append_slice(&assemble->fingerprint, json_scan_text(value));
    return STATUS_OK;
}

size_t edge_assemble_bytes(const struct edge_assemble *assemble)
{
    size_t bytes = assemble->head.capacity;
    if (assemble->vectors != NULL)
        bytes += sizeof *assemble->vectors + assemble->vectors->text.capacity;
    for (size_t i = 0; i < LIMIT_ANSWERS; i++) {
        const struct choice *choice = assemble->choices[i];
        if (choice == NULL)
            continue;
        bytes += choice->text.capacity + choice->reasoning.capacity + choice->token_ids.capacity;
        for (size_t k = 0; k < choice->call_count; k++)
            bytes += sizeof *choice->calls + choice->calls[k].arguments.capacity;
        for (size_t list = 0; list < LISTS; list++)
            bytes += choice->lists[list].capacity;
    }
    return bytes;
}

enum status edge_assemble_add(struct edge_assemble *assemble, struct slice rest)
{
    assemble->bytes += rest.length;
    if (assemble->bytes > assemble->bytes_max)
        FAIL(STATUS_LIMIT, "The answer is longer than %zu bytes; %s.", assemble->bytes_max,
             assemble->vectors != NULL ? "send fewer texts at once"
                                       : "ask for it with stream: true");
    bool is_first = assemble->head.length == 0;
    /* The walk begins after the opening brace, which edge_stream has cut together with the count.
     * */
    struct edge_json_walk walk = {.text = rest};
    struct json_value key;
    struct json_value value;
    bool found = true;
    for (;;) {
        TRY(edge_json_member(&walk, &found, &key, &value));
        if (!found)
            break;
        TRY(add_member(assemble, is_first, key, value));
    }
    TRY(assemble->head.status);
    return assemble->fingerprint.status;
}

void edge_assemble_set_class(struct edge_assemble *assemble, enum service_class service_class)
{
    edge_stream_set_tier(&assemble->head, service_class);
}

bool edge_assemble_has_head(const struct edge_assemble *assemble)
{
    return assemble->head.length != 0;
}

static void render_value(struct buffer *out, const struct buffer *value, const char *otherwise)
{
    if (value->length != 0)
        buffer_append_slice(out, buffer_slice(value));
    else
        buffer_append_text(out, otherwise);
}

static void render_logprobs(const struct edge_assemble *assemble, const struct choice *choice,
                            struct buffer *out)
{
    if (!choice->has_logprobs) {
        buffer_append_text(out, "null");
        return;
    }
    size_t first = assemble->form == EDGE_STREAM_CHAT ? 0 : LISTS_CHAT;
    size_t end = assemble->form == EDGE_STREAM_CHAT ? LISTS_CHAT : LISTS;
    for (size_t i = first; i < end; i++) {
        buffer_printf(out, "%s\"%s\":", i == first ? "{" : ",", LIST_NAMES[i]);
        if (!choice->has_list[i]) {
            buffer_append_text(out, "null");
            continue;
        }
        buffer_append_char(out, '[');
        buffer_append_slice(out, buffer_slice(&choice->lists[i]));
        buffer_append_char(out, ']');
    }
    buffer_append_char(out, '}');
}

static void render_string(struct buffer *out, const char *name, const struct buffer *inside)
{
    buffer_printf(out, "\"%s\":\"", name);
    buffer_append_slice(out, buffer_slice(inside));
    buffer_append_char(out, '"');
}

/* An answer that is calls alone has no content. */
static void render_message(const struct choice *choice, struct buffer *out)
{
    buffer_append_text(out, "\"message\":{\"role\":\"");
    render_value(out, &choice->role, "assistant");
    buffer_append_text(out, "\",");
    if (choice->text.length == 0 && choice->call_count > 0)
        buffer_append_text(out, "\"content\":null");
    else
        render_string(out, "content", &choice->text);
    if (choice->reasoning.length > 0) {
        buffer_append_char(out, ',');
        render_string(out, "reasoning_content", &choice->reasoning);
    }
    buffer_append_text(out, ",\"refusal\":null");
    for (size_t i = 0; i < choice->call_count; i++) {
        const struct call *call = &choice->calls[i];
        buffer_append_text(out, i == 0 ? ",\"tool_calls\":[{\"id\":" : ",{\"id\":");
        render_value(out, &call->id, "null");
        buffer_append_text(out, ",\"type\":\"function\",\"function\":{");
        render_string(out, "name", &call->name);
        buffer_append_char(out, ',');
        render_string(out, "arguments", &call->arguments);
        buffer_append_text(out, i + 1 == choice->call_count ? "}}]" : "}}");
    }
    buffer_append_char(out, '}');
}

static void render_choice(const struct edge_assemble *assemble, size_t index, const char *no_reason,
                          struct buffer *out)
{
    const struct choice *choice = assemble->choices[index];
    buffer_append_text(out, "{\"index\":");
    buffer_append_number(out, index);
    buffer_append_char(out, ',');
    if (assemble->form == EDGE_STREAM_CHAT)
        render_message(choice, out);
    else
        render_string(out, "text", &choice->text);
    buffer_append_text(out, ",\"logprobs\":");
    render_logprobs(assemble, choice, out);
    buffer_append_text(out, ",\"finish_reason\":");
    render_value(out, &choice->finish, no_reason);
    if (choice->has_token_ids) {
        buffer_append_text(out, ",\"token_ids\":[");
        buffer_append_slice(out, buffer_slice(&choice->token_ids));
        buffer_append_char(out, ']');
    }
    buffer_append_char(out, '}');
}

/* A generation has one choice, whose members are its own. */
static void render_generation(const struct edge_assemble *assemble, const char *no_reason,
                              struct buffer *out)
{
    static const struct choice nothing;
    const struct choice *choice = assemble->choices[0] != NULL ? assemble->choices[0] : &nothing;
    buffer_append_text(out, "\"text\":\"");
    buffer_append_slice(out, buffer_slice(&choice->text));
    buffer_append_text(out, "\",\"finish_reason\":");
    render_value(out, &choice->finish, no_reason);
}

static void render_choices(const struct edge_assemble *assemble, const char *no_reason,
                           struct buffer *out)
{
    bool is_first = true;
    buffer_append_text(out, "\"choices\":[");
    for (size_t i = 0; i < LIMIT_ANSWERS; i++) {
        if (assemble->choices[i] == NULL)
            continue;
        if (!is_first)
            buffer_append_char(out, ',');
        is_first = false;
        render_choice(assemble, i, no_reason, out);
    }
    buffer_append_char(out, ']');
}

/* Appends the embeddings in the order of the request's texts. PROTOCOL when one is missing. */
static enum status render_vectors(const struct edge_assemble *assemble,
                                  const struct edge_final *final, struct buffer *out)
{
    const struct vectors *vectors = assemble->vectors;
    buffer_append_text(out, "{\"object\":\"list\",");
    buffer_append_slice(out, buffer_slice(&assemble->head));
    buffer_append_text(out, "\"data\":[");
    for (size_t i = 0; i < vectors->count; i++) {
        if (vectors->places[i].length == 0)
            FAIL(STATUS_PROTOCOL, "the engine has not sent all embeddings");
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append(out, vectors->text.bytes + vectors->places[i].at, vectors->places[i].length);
    }
    buffer_append_text(out, "],\"usage\":");
    edge_stream_append_usage(out, final);
    buffer_append_text(out, ",\"service_tier\":\"");
    buffer_append_text(out, service_class_tier(final->service_class));
    buffer_append_text(out, "\"}");
    return out->status;
}

enum status edge_assemble_render(const struct edge_assemble *assemble,
                                 const struct edge_final *final, struct slice fallback,
                                 struct buffer *out)
{
    if (assemble->vectors != NULL)
        return render_vectors(assemble, final, out);
    const char *no_reason = final->is_limited ? "\"length\"" : "null";
    buffer_append_char(out, '{');
    buffer_append_slice(out, assemble->head.length != 0 ? buffer_slice(&assemble->head) : fallback);
    buffer_append_text(out, "\"object\":\"");
    buffer_append_text(out, edge_stream_names(assemble->form)->whole);
    buffer_append_text(out, "\",");
    if (assemble->form == EDGE_STREAM_GENERATION)
        render_generation(assemble, no_reason, out);
    else
        render_choices(assemble, no_reason, out);
    buffer_append_text(out, ",\"usage\":");
    edge_stream_append_usage(out, final);
    buffer_append_text(out, ",\"service_tier\":\"");
    buffer_append_text(out, service_class_tier(final->service_class));
    buffer_append_char(out, '"');
    if (assemble->form != EDGE_STREAM_GENERATION) {
        buffer_append_text(out, ",\"system_fingerprint\":");
        render_value(out, &assemble->fingerprint, "null");
    }
    buffer_append_char(out, '}');
    return out->status;
}
