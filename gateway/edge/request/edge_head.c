#include "gateway/edge/request/edge_head.h"

#include <string.h>

#include "gateway/edge/state/edge_json.h"

static void append_digits(struct buffer *out, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        buffer_append_char(out, digits[bytes[i] >> 4]);
        buffer_append_char(out, digits[bytes[i] & 15]);
    }
}

static void append_hex(struct buffer *out, const char *name, const uint8_t bytes[16])
{
    buffer_append_text(out, name);
    append_digits(out, bytes, 16);
}

/* The domains of the prefix cache that the request may read, as "p:<hex>,g:<hex>,o:<hex>":
 * published prompts, the group's domain, the tenant's own. */
static void append_visible(struct buffer *out, const struct principal *principal)
{
    buffer_append_text(out, "\r\nx-banyan-visible: ");
    for (uint32_t i = 0; i < principal->visible_count; i++) {
        bool is_public = i < principal->visible_public;
        bool is_group = !is_public && i < principal->visible_public + principal->visible_group;
        buffer_append_text(out, i > 0 ? "," : "");
        append_hex(out, is_public ? "p:" : is_group ? "g:" : "o:", principal->visible[i]);
    }
}

static bool append_is_visible(struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] <= ' ' || text.bytes[i] > '~')
            return false;
    }
    return text.length != 0;
}

enum status edge_head_append(struct buffer *out, const struct edge_head *head)
{
    if (!append_is_visible(head->path) || !append_is_visible(head->method))
        FAIL(STATUS_INVALID, "The path holds characters that a path cannot have.");
    const struct principal *principal = head->principal;
    buffer_append_slice(out, head->method);
    buffer_append_char(out, ' ');
    buffer_append_slice(out, head->path);
    buffer_append_text(out, " HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json"
                            "\r\nx-banyan-protocol: 1\r\nx-banyan-request-id: ");
    buffer_append_slice(out, head->request_id);
    append_hex(out, "\r\nx-banyan-tenant: ", principal->tenant_hash);
    append_hex(out, "\r\nx-banyan-key: ", principal->key_hash);
    append_hex(out, "\r\nx-banyan-domain: ", principal->domain);
    append_visible(out, principal);
    buffer_append_text(out, "\r\nx-banyan-cache-share: ");
    buffer_append_number(out, principal->cache_share);
    buffer_append_text(out, "\r\nx-banyan-class: ");
    buffer_append_text(out, service_class_name(head->service_class));
    buffer_append_text(out, "\r\nx-banyan-weight: ");
    buffer_append_number(out, principal->weight);
    buffer_append_text(out, "\r\nx-banyan-deadline-ms: ");
    buffer_append_number(out, head->deadline_ms);
    if (head->model[0] != '\0') { /* a foreign server's name may hold any bytes */
        buffer_append_text(out, "\r\nx-banyan-model: ");
        append_digits(out, (const uint8_t *)head->model, strlen(head->model));
    }
    return out->status;
}

enum status edge_head_explain(struct slice value, bool *out)
{
    *out = slice_is(value, "1");
    if (value.bytes != NULL && !*out && !slice_is(value, "0"))
        FAIL_PARAM(STATUS_INVALID, "x-banyan-explain", "x-banyan-explain must be 1 or 0.");
    return STATUS_OK;
}

enum status edge_head_deadline(struct slice value, uint32_t most_ms, uint32_t *out)
{
    uint64_t asked = most_ms;
    if (value.bytes != NULL &&
        (edge_json_digits(value, INT64_MAX, &asked) != STATUS_OK || asked == 0))
        FAIL_PARAM(STATUS_INVALID, "x-request-timeout-ms",
                   "x-request-timeout-ms must be a whole number of milliseconds, at least 1.");
    *out = asked < most_ms ? (uint32_t)asked : most_ms;
    return STATUS_OK;
}
