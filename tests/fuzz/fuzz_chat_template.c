/* fuzz_chat_template: any template over any messages is refused or rendered within the bounds, with
 * the messages' content outside of the spans.
 *
 * Input: template, NUL, tools as JSON, NUL, then role, NUL, content, NUL … of up to eight messages,
 * of which one without a role is a message as JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "config/base/limits.h"
#include "engine/text/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { MESSAGES = 8 };

/* Returns the text up to the next NUL and moves `rest` behind it. */
static struct slice take(struct slice *rest)
{
    const char *end = rest->length > 0 ? memchr(rest->bytes, '\0', rest->length) : NULL;
    size_t length = end != NULL ? (size_t)(end - rest->bytes) : rest->length;
    struct slice taken = {rest->bytes, length};
    size_t skip = end != NULL ? length + 1 : length;
    rest->bytes += skip;
    rest->length -= skip;
    return taken;
}

static void check_spans(const struct chat_template_text *out)
{
    const struct tokenizer_span *spans = out->spans;
    size_t end = 0;
    for (size_t i = 0; i < out->span_count; i++) {
        ASSERT(i == 0 || spans[i].offset > end); /* touching spans are joined */
        ASSERT(spans[i].length > 0);
        end = spans[i].offset + spans[i].length;
        ASSERT(end <= out->bytes.length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct slice rest = {(const char *)bytes, length};
    struct slice source = take(&rest);
    struct slice tools = take(&rest);
    struct chat_message messages[MESSAGES] = {0};
    size_t message_count = 0;
    struct chat_template *chat_template;
    if (chat_template_compile(&chat_template, source) != STATUS_OK) {
        ASSERT(chat_template == NULL);
        ASSERT(status_note()->message[0] != '\0');
        return 0;
    }
    while (rest.length > 0 && message_count < MESSAGES) {
        messages[message_count].role = take(&rest);
        struct chat_message *message = &messages[message_count++];
        *(message->role.length > 0 ? &message->content : &message->json) = take(&rest);
    }
    struct chat_template_args args = {.messages = messages,
                                      .message_count = message_count,
                                      .tools = tools,
                                      .add_generation_prompt = (length & 1) != 0,
                                      .bos_token = SLICE("<s>"),
                                      .eos_token = SLICE("</s>")};
    struct chat_template_text out;
    if (chat_template_render(chat_template, &args, &out) == STATUS_OK)
        check_spans(&out);
    else
        ASSERT(out.span_count == 0);
    chat_template_text_free(&out);
    chat_template_destroy(chat_template);
    return 0;
}
