#include "gateway/engine_http/face_trusted.h"

#include "config/base/clock.h"
#include "config/base/rng.h"

enum { DEADLINE_MS_MAX = 24 * 3600 * 1000 };

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_domain(struct slice text, const char *name, struct engine_domain *out)
{
    if (text.length != 2 * sizeof out->bytes)
        FAIL(STATUS_INVALID, "header %s: a domain has %zu hex digits", name, 2 * sizeof out->bytes);
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        int high = hex_value(text.bytes[2 * i]);
        int low = hex_value(text.bytes[2 * i + 1]);
        if (high < 0 || low < 0)
            FAIL(STATUS_INVALID, "header %s: not lower-case hex", name);
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return STATUS_OK;
}

static enum status read_visible(struct face_trusted *trusted, struct slice text)
{
    const char *name = "x-banyan-visible";
    while (text.length > 0) {
        size_t length = 0;
        while (length < text.length && text.bytes[length] != ',')
            length++;
        if (trusted->visible_count == LIMIT_DOMAINS_VISIBLE)
            FAIL(STATUS_LIMIT, "header %s: at most %d domains", name, LIMIT_DOMAINS_VISIBLE);
        TRY(read_domain((struct slice){text.bytes, length}, name,
                        &trusted->visible[trusted->visible_count++]));
        size_t used = length < text.length ? length + 1 : length;
        text = (struct slice){text.bytes + used, text.length - used};
    }
    return STATUS_OK;
}

static enum status read_deadline(struct face_trusted *trusted, struct slice text)
{
    int64_t ms = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9' || ms > DEADLINE_MS_MAX)
            FAIL(STATUS_INVALID, "header x-banyan-deadline-ms: a number up to %d", DEADLINE_MS_MAX);
        ms = ms * 10 + (text.bytes[i] - '0');
    }
    trusted->deadline_us = clock_mono_us(clock_system()) + ms * 1000;
    return STATUS_OK;
}

static enum status read_request_id(struct face_trusted *trusted, struct slice text)
{
    if (text.length == 0 || text.length >= sizeof trusted->request_id)
        FAIL(STATUS_INVALID, "header x-banyan-request-id: 1 to %zu characters",
             sizeof trusted->request_id - 1);
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] <= ' ' || text.bytes[i] > '~' || text.bytes[i] == '"')
            FAIL(STATUS_INVALID, "header x-banyan-request-id: plain characters only");
    }
    memcpy(trusted->request_id, text.bytes, text.length);
    trusted->request_id[text.length] = '\0';
    return STATUS_OK;
}

static void make_request_id(struct face_trusted *trusted)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    rng_secure_bytes(bytes, sizeof bytes);
    memcpy(trusted->request_id, "req_", 4);
    for (size_t i = 0; i < sizeof bytes; i++) {
        trusted->request_id[4 + 2 * i] = digits[bytes[i] >> 4];
        trusted->request_id[5 + 2 * i] = digits[bytes[i] & 15];
    }
    trusted->request_id[4 + 2 * sizeof bytes] = '\0';
}

enum status face_trusted_read(struct face_trusted *trusted, const struct http_request *request)
{
    *trusted = (struct face_trusted){0};
    struct slice protocol = http_header_get(request, "x-banyan-protocol");
    struct slice id = http_header_get(request, "x-banyan-request-id");
    if (protocol.bytes != NULL && !slice_is(protocol, "1"))
        FAIL(STATUS_INVALID,
             "This engine speaks protocol 1 with its edge; the edge speaks another. "
             "Run both from the same version.");
    if (protocol.bytes == NULL || id.bytes == NULL) {
        make_request_id(trusted);
        return STATUS_OK;
    }
    trusted->is_given = true;
    TRY(read_request_id(trusted, id));
    struct slice domain = http_header_get(request, "x-banyan-domain");
    if (domain.bytes != NULL)
        TRY(read_domain(domain, "x-banyan-domain", &trusted->domain));
    TRY(read_visible(trusted, http_header_get(request, "x-banyan-visible")));
    struct slice deadline = http_header_get(request, "x-banyan-deadline-ms");
    if (deadline.bytes != NULL)
        TRY(read_deadline(trusted, deadline));
    return STATUS_OK;
}

void face_trusted_apply(const struct face_trusted *trusted, struct engine_request *request)
{
    request->request_id = slice_of(trusted->request_id);
    request->domain = trusted->domain;
    memcpy(request->visible, trusted->visible, sizeof request->visible);
    request->visible_count = trusted->visible_count;
    request->deadline_us = trusted->deadline_us;
}
