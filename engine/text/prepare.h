/* prepare: turns text and chats into prompt tokens, on threads of its own.
 *
 * Owns:     the prepare threads and their queue; borrows vocab, tokenizer and template.
 * Thread:   prepare_text and prepare_chat: any. The work callback: a prepare thread.
 * Cost:     nearly linear in the text; allocates the ids, and the rendered text while it works.
 * Not here: what becomes of the ids (engine), limits of a request (ticket).
 */
#pragma once

#include <stdint.h>

#include "config/base/clock.h"
#include "engine/models/vocab.h"
#include "engine/request/engine_request.h"
#include "engine/text/chat_template_probe.h"
#include "engine/text/tokenizer.h"

struct prepare_model {
    const struct vocab *vocab;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat_template; /* NULL when the model has none */
    struct chat_template_takes takes;          /* what it takes */
    const struct clock *clock;                 /* for dates in templates; NULL: the system's */
};

/* What is put around a text, if the model wants it. */
enum prepare_special {
    PREPARE_PLAIN,  /* nothing */
    PREPARE_PROMPT, /* the token that begins a text */
    PREPARE_WHOLE,  /* the same, and the token that ends one: for a text that is embedded */
};

/* Ids of a text in which control tokens are matched. LIMIT beyond `ids_max`. The caller frees
 * `*ids` with mem_free. */
enum status prepare_text(const struct prepare_model *model, struct slice text,
                         enum prepare_special special, size_t ids_max, uint32_t **ids,
                         size_t *count);

/* Finds out what the template takes. */
void prepare_probe(struct prepare_model *model);

/* Ids of a chat in the model's own template: control tokens come only from the template, never from
 * a message or from `inputs` (NULL: none). UNSUPPORTED when the model has no template, or with the
 * param when the template does not take tools or system messages; else as prepare_text and
 * chat_template_render. */
enum status prepare_chat(const struct prepare_model *model, const struct engine_message *messages,
                         size_t message_count, const struct engine_inputs *inputs,
                         bool adds_generation_prompt, size_t ids_max, uint32_t **ids,
                         size_t *count);

struct prepare;

/* Starts two threads that call `work` with each slot pushed, in turns by tenant
 * (config/base/turns). The caller ensures that at most `capacity` slots are pushed and not yet
 * worked on. NO_MEMORY. */
enum status prepare_create(struct prepare **out, uint32_t capacity, const struct clock *clock,
                           void (*work)(void *context, uint32_t slot), void *context);
/* Finishes the slots being worked on, drops those that wait, and joins the threads.
 * NULL is fine. */
void prepare_destroy(struct prepare *prepare);
/* Queues a slot. Reads only the tenant and the length of the text of `request`,
 * before it returns. */
void prepare_push(struct prepare *prepare, uint32_t slot, const struct engine_request *request);
