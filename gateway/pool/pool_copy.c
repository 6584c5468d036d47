#include "gateway/pool/pool_copy.h"

#include <string.h>

#include "config/base/mem.h"

struct pool_copy {
    struct engine_request request;
    size_t used;
    struct engine_message *messages;
    char *bytes;
};

enum { SLICES_MOST = 8 + LIMIT_STOP_STRINGS };

/* The slices of a request but those of its messages. */
static size_t slices_of(struct engine_request *request, struct slice *out[SLICES_MOST])
{
    size_t count = 0;
    out[count++] = &request->request_id;
    out[count++] = &request->model;
    out[count++] = &request->text;
    out[count++] = &request->inputs.tools;
    out[count++] = &request->inputs.documents;
    out[count++] = &request->inputs.values;
    out[count++] = &request->inputs.tool_choice;
    out[count++] = &request->inputs.effort;
    for (uint32_t i = 0; i < request->stop_count; i++)
        out[count++] = &request->stop[i];
    return count;
}

static void take(struct pool_copy *copy, struct slice *slice)
{
    if (slice->length == 0)
        return;
    char *to = copy->bytes + copy->used;
    memcpy(to, slice->bytes, slice->length);
    copy->used += slice->length;
    slice->bytes = to;
}

static size_t bytes_of(const struct engine_request *from)
{
    struct engine_request request = *from;
    struct slice *slices[SLICES_MOST];
    size_t bytes = from->constraint.source.length + from->constraint.field.length;
    const size_t count = slices_of(&request, slices);
    for (size_t i = 0; i < count; i++)
        bytes += slices[i]->length;
    for (size_t i = 0; i < from->message_count; i++)
        bytes += from->messages[i].role.length + from->messages[i].content.length +
                 from->messages[i].json.length;
    return bytes;
}

enum status pool_copy_create(struct pool_copy **out, const struct engine_request *from)
{
    struct slice *slices[SLICES_MOST];
    struct pool_copy *copy = mem_zalloc(1, sizeof *copy);
    if (copy == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request");
    copy->bytes = mem_alloc(bytes_of(from) + 1);
    copy->messages = mem_zalloc(from->message_count + 1, sizeof *copy->messages);
    if (copy->bytes == NULL || copy->messages == NULL) {
        pool_copy_destroy(copy);
        FAIL(STATUS_NO_MEMORY, "no memory for a request");
    }
    copy->request = *from;
    copy->request.tokens = NULL; /* no foreign server takes ids */
    copy->request.token_count = 0;
    const size_t count = slices_of(&copy->request, slices);
    for (size_t i = 0; i < count; i++)
        take(copy, slices[i]);
    take(copy, &copy->request.constraint.source);
    take(copy, &copy->request.constraint.field);
    for (size_t i = 0; i < from->message_count; i++) {
        copy->messages[i] = from->messages[i];
        take(copy, &copy->messages[i].role);
        take(copy, &copy->messages[i].content);
        take(copy, &copy->messages[i].json);
    }
    copy->request.messages = copy->messages;
    *out = copy;
    return STATUS_OK;
}

void pool_copy_destroy(struct pool_copy *copy)
{
    if (copy == NULL)
        return;
    mem_free(copy->bytes);
    mem_free(copy->messages);
    mem_free(copy);
}

const struct engine_request *pool_copy_request(const struct pool_copy *copy)
{
    return &copy->request;
}
