/* ask_messages: reads the messages of a chat.
 *
 * Owns:     nothing; the list, joined texts and copies are put into the caller's blocks.
 * Thread:   any.
 * Cost:     O(bytes of the messages).
 * Not here: other fields of a body (ask), rendering messages (engine/text).
 */
#pragma once

#include <jansson.h>

#include "engine/answer/answer_format.h"
#include "engine/engine.h"

/* Reads the messages of a chat. The array and copied texts are put into `*blocks`, which the caller
 * frees with ask_block_free(). A result of a tool must name a call of an earlier message. For a
 * template that takes only short ids of calls (Mistral's), other ids become such ones: the same id
 * always becomes the same. */
enum status ask_messages_read(const json_t *value, const struct answer_model *answer, void **blocks,
                              const struct engine_message **messages, size_t *count);
