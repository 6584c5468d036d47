#include "engine/text/prepare.h"

#include <string.h>

#include "config/base/mem.h"
#include "config/base/turns.h"

static enum status prepare_text_encode(const struct prepare_model *model, struct slice text,
                                       const struct tokenizer_span *spans, size_t span_count,
                                       const uint32_t around[static 2], size_t ids_max,
                                       uint32_t **ids, size_t *count)
{
    const uint32_t first = around[0];
    size_t ahead = first != VOCAB_NONE ? 1 : 0;
    size_t used = ahead + (around[1] != VOCAB_NONE ? 1 : 0);
    size_t bound = tokenizer_most(model->tokenizer, text);
    size_t most = bound + used < ids_max ? bound + used : ids_max;
    /* A text that cannot fit however well it is tokenised costs one look at each byte only. */
    if (ids_max < used || tokenizer_fewest(model->tokenizer, text) > ids_max - used)
        FAIL(STATUS_LIMIT, "more than %zu tokens", ids_max);
    uint32_t *array = mem_alloc((most + 1) * sizeof(*array));
    if (array == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu tokens", most);
    if (ahead > 0)
        array[0] = first;
    size_t encoded = 0;
    enum status status = tokenizer_encode(model->tokenizer, text, spans, span_count, array + ahead,
                                          most - used, &encoded);
    if (status != STATUS_OK) {
        mem_free(array);
        return status;
    }
    if (used > ahead)
        array[ahead + encoded] = around[1];
    *ids = array;
    *count = used + encoded;
    return STATUS_OK;
}

enum status prepare_text(const struct prepare_model *model, struct slice text,
                         enum prepare_special special, size_t ids_max, uint32_t **ids,
                         size_t *count)
{
    uint32_t around[2] = {VOCAB_NONE, VOCAB_NONE};
    if (special != PREPARE_PLAIN && vocab_adds_bos(model->vocab))
        around[0] = vocab_bos(model->vocab);
    if (special == PREPARE_WHOLE && vocab_adds_eos(model->vocab))
        around[1] = vocab_eos(model->vocab);
    const struct tokenizer_span span = tokenizer_everywhere(text);
    return prepare_text_encode(model, text, &span, 1, around, ids_max, ids, count);
}

static struct slice chat_token_text(const struct vocab *vocab, uint32_t id)
{
    return id == VOCAB_NONE ? (struct slice){0} : vocab_bytes(vocab, id);
}

void prepare_probe(struct prepare_model *model)
{
    chat_template_probe(model->chat_template,
                        chat_token_text(model->vocab, vocab_bos(model->vocab)),
                        chat_token_text(model->vocab, vocab_eos(model->vocab)), &model->takes);
}

/* Refuses what the template would leave out without a word. */
static enum status chat_check(const struct prepare_model *model,
                              const struct engine_message *messages, size_t message_count,
                              const struct engine_inputs *inputs)
{
    if (inputs != NULL && inputs->tools.length > 0 && !model->takes.tools)
        FAIL_PARAM(STATUS_UNSUPPORTED, "tools",
                   "Unsupported parameter: 'tools': this model's chat template does not take any.");
    for (size_t i = 0; i < message_count && model->takes.ignores_system; i++) {
        if (slice_is(messages[i].role, "system"))
            FAIL_PARAM(STATUS_UNSUPPORTED, "messages",
                       "Unsupported value: this model's chat template does not take messages of "
                       "the role 'system'.");
    }
    return STATUS_OK;
}

enum status prepare_chat(const struct prepare_model *model, const struct engine_message *messages,
                         size_t message_count, const struct engine_inputs *inputs,
                         bool adds_generation_prompt, size_t ids_max, uint32_t **ids, size_t *count)
{
    enum status status = STATUS_OK;
    struct chat_template_text text = {0};
    struct chat_message *copies = NULL;
    if (model->chat_template == NULL)
        FAIL(STATUS_UNSUPPORTED, "this model has no chat template: use completions");
    TRY(chat_check(model, messages, message_count, inputs));
    copies = mem_zalloc(message_count + 1, sizeof(*copies));
    if (copies == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu messages", message_count);
    for (size_t i = 0; i < message_count; i++)
        copies[i] = (struct chat_message){messages[i].role, messages[i].content, messages[i].json};
    struct chat_template_args args = {
        .messages = copies,
        .message_count = message_count,
        .content = model->takes.content,
        .needs_content = model->takes.needs_content,
        .add_generation_prompt = adds_generation_prompt,
        .bos_token = chat_token_text(model->vocab, vocab_bos(model->vocab)),
        .eos_token = chat_token_text(model->vocab, vocab_eos(model->vocab)),
        .clock = model->clock,
    };
    if (inputs != NULL) {
        args.tools = inputs->tools;
        args.documents = inputs->documents;
        args.values = inputs->values;
    }
    TRY_OUT(chat_template_render(model->chat_template, &args, &text));
    TRY_OUT(prepare_text_encode(model, buffer_slice(&text.bytes), text.spans, text.span_count,
                                (const uint32_t[2]){VOCAB_NONE, VOCAB_NONE}, ids_max, ids, count));
out:
    mem_free(copies);
    chat_template_text_free(&text);
    return status;
}

/* --- threads --- */

struct prepare {
    void (*work)(void *context, uint32_t slot);
    void *context;
    struct turns *turns;
    struct turn *slots; /* [capacity] */
    uint32_t capacity;
};

static void prepare_work(void *context, struct turn *turn)
{
    struct prepare *prepare = context;
    prepare->work(prepare->context, (uint32_t)(turn - prepare->slots));
}

enum status prepare_create(struct prepare **out, uint32_t capacity, const struct clock *clock,
                           void (*work)(void *context, uint32_t slot), void *context)
{
    ASSERT(capacity >= 1);
    struct prepare *prepare = mem_zalloc(1, sizeof(*prepare));
    if (prepare == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prepare threads");
    prepare->slots = mem_zalloc(capacity, sizeof(*prepare->slots));
    if (prepare->slots == NULL) {
        mem_free(prepare);
        FAIL(STATUS_NO_MEMORY, "no memory for the queue of %u prompts", capacity);
    }
    prepare->work = work;
    prepare->context = context;
    prepare->capacity = capacity;
    const struct turns_options options = {.work = prepare_work,
                                          .context = prepare,
                                          .clock = clock,
                                          .waiting_max = capacity,
                                          .owner_max = capacity};
    enum status status = turns_create(&prepare->turns, &options);
    if (status != STATUS_OK) {
        prepare_destroy(prepare);
        return status;
    }
    *out = prepare;
    return STATUS_OK;
}

void prepare_destroy(struct prepare *prepare)
{
    if (prepare == NULL)
        return;
    turns_destroy(prepare->turns);
    mem_free(prepare->slots);
    mem_free(prepare);
}

void prepare_push(struct prepare *prepare, uint32_t slot, const struct engine_request *request)
{
    ASSERT(slot < prepare->capacity);
    struct turn *turn = &prepare->slots[slot];
    *turn = (struct turn){.bytes = request->text.length};
    memcpy(turn->owner, request->tenant.bytes, sizeof(turn->owner));
    for (uint32_t i = 0; i < request->message_count; i++)
        turn->bytes += request->messages[i].content.length + request->messages[i].json.length;
    turn->bytes += request->constraint.source.length;
    turn->bytes += request->inputs.tools.length + request->inputs.documents.length;
    enum status status = turns_push(prepare->turns, turn);
    ASSERT(status == STATUS_OK); /* there are as many turns as slots */
}
