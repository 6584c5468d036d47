#include "gateway/engine_http/face_trusted.h"

#include "config/base/clock.h"
#include "config/base/decimal.h"
#include "config/base/random_bytes.h"

enum { DEADLINE_MS_MAX = 24 * 3600 * 1000 };

/* The headers of the edge. */
enum trusted_header {
    TRUSTED_PROTOCOL,
    TRUSTED_REQUEST_ID,
    TRUSTED_TENANT,
    TRUSTED_KEY,
    TRUSTED_CLASS,
    TRUSTED_WEIGHT,
    TRUSTED_DOMAIN,
    TRUSTED_VISIBLE,
    TRUSTED_CACHE_SHARE,
    TRUSTED_DEADLINE,
    TRUSTED_MODEL,
    TRUSTED_COUNT,
};
static const struct {
    const char *name;
    enum trusted_header needs; /* the header that must be there too; itself = none */
} headers[TRUSTED_COUNT] = {
    [TRUSTED_PROTOCOL] = {"x-banyan-protocol", TRUSTED_PROTOCOL},
    [TRUSTED_REQUEST_ID] = {"x-banyan-request-id", TRUSTED_PROTOCOL},
    [TRUSTED_TENANT] = {"x-banyan-tenant", TRUSTED_REQUEST_ID},
    [TRUSTED_KEY] = {"x-banyan-key", TRUSTED_TENANT},
    [TRUSTED_CLASS] = {"x-banyan-class", TRUSTED_REQUEST_ID},
    [TRUSTED_WEIGHT] = {"x-banyan-weight", TRUSTED_REQUEST_ID},
    [TRUSTED_DOMAIN] = {"x-banyan-domain", TRUSTED_REQUEST_ID},
    [TRUSTED_VISIBLE] = {"x-banyan-visible", TRUSTED_DOMAIN},
    [TRUSTED_CACHE_SHARE] = {"x-banyan-cache-share", TRUSTED_DOMAIN},
    [TRUSTED_DEADLINE] = {"x-banyan-deadline-ms", TRUSTED_REQUEST_ID},
    [TRUSTED_MODEL] = {"x-banyan-model", TRUSTED_REQUEST_ID},
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_hex(struct slice text, enum trusted_header header, uint8_t *out)
{
    for (size_t i = 0; i < text.length / 2; i++) {
        int high = hex_value(text.bytes[2 * i]);
        int low = hex_value(text.bytes[2 * i + 1]);
        if (high < 0 || low < 0)
            FAIL(STATUS_INVALID, "header %s: not lower-case hex", headers[header].name);
        out[i] = (uint8_t)(high << 4 | low);
    }
    return STATUS_OK;
}

static enum status read_hash(struct slice text, enum trusted_header header, uint8_t out[16])
{
    if (text.length != 32)
        FAIL(STATUS_INVALID, "header %s: a hash has 32 hex digits", headers[header].name);
    return read_hex(text, header, out);
}

static enum status read_model(struct face_trusted *trusted, struct slice text)
{
    const size_t most = sizeof trusted->model - 1;
    if (text.length == 0 || text.length % 2 != 0 || text.length / 2 > most)
        FAIL(STATUS_INVALID, "header x-banyan-model: a name is 1 to %zu bytes in hex", most);
    return read_hex(text, TRUSTED_MODEL, (uint8_t *)trusted->model);
}

/* Reads one domain: "p:<hex>" (published), "g:<hex>" (group) or "o:<hex>" (own). They must come in
 * this order, because the engine matches them in the order that the edge gives. */
static enum status read_visible_one(struct face_trusted *trusted, struct slice text)
{
    static const char kinds[] = "pgo";
    uint32_t published = trusted->visible_public;
    uint32_t group = trusted->visible_group;
    size_t least = trusted->visible_count > published + group ? 2 : group > 0 ? 1 : 0;
    const char *kind = text.length > 2 && text.bytes[1] == ':' && text.bytes[0] != '\0'
                           ? strchr(kinds, text.bytes[0])
                           : NULL;
    if (kind == NULL || (size_t)(kind - kinds) < least)
        FAIL(STATUS_INVALID, "header x-banyan-visible: must be p:…, then g:…, then o:…");
    if (trusted->visible_count == LIMIT_DOMAINS_VISIBLE)
        FAIL(STATUS_LIMIT, "header x-banyan-visible: at most %d domains", LIMIT_DOMAINS_VISIBLE);
    trusted->visible_public += *kind == 'p' ? 1 : 0;
    trusted->visible_group += *kind == 'g' ? 1 : 0;
    return read_hash((struct slice){text.bytes + 2, text.length - 2}, TRUSTED_VISIBLE,
                     trusted->visible[trusted->visible_count++].bytes);
}

static enum status read_visible(struct face_trusted *trusted, struct slice text)
{
    for (;;) {
        size_t length = 0;
        while (length < text.length && text.bytes[length] != ',')
            length++;
        TRY(read_visible_one(trusted, (struct slice){text.bytes, length}));
        if (length == text.length)
            return STATUS_OK;
        text = (struct slice){text.bytes + length + 1, text.length - length - 1};
    }
}

static enum status read_number(struct slice text, enum trusted_header header, int64_t most,
                               int64_t *out)
{
    uint64_t value = 0;
    if (decimal_read(text, (uint64_t)most, &value) == DECIMAL_MALFORMED && text.length > 0)
        FAIL(STATUS_INVALID, "header %s: not a whole number", headers[header].name);
    if (value < 1) /* or too large, or empty, which leave it 0 */
        FAIL(STATUS_OUT_OF_RANGE, "header %s: must be a number from 1 to %lld",
             headers[header].name, (long long)most);
    *out = (int64_t)value;
    return STATUS_OK;
}

static enum status read_class(struct face_trusted *trusted, struct slice text)
{
    if (!service_class_from_name(text, &trusted->service_class))
        FAIL(STATUS_INVALID, "header x-banyan-class: no class of service has this name");
    trusted->has_class = true;
    return STATUS_OK;
}

static enum status read_request_id(struct face_trusted *trusted, struct slice text)
{
    if (text.length == 0 || text.length >= sizeof trusted->request_id)
        FAIL(STATUS_INVALID, "header x-banyan-request-id: must have 1 to %zu characters",
             sizeof trusted->request_id - 1);
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] <= ' ' || text.bytes[i] > '~' || text.bytes[i] == '"')
            FAIL(STATUS_INVALID, "header x-banyan-request-id: must be printable ASCII without "
                                 "blanks and quotes");
    }
    memcpy(trusted->request_id, text.bytes, text.length);
    trusted->request_id[text.length] = '\0';
    return STATUS_OK;
}

static void make_request_id(struct face_trusted *trusted)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    random_bytes(bytes, sizeof bytes);
    memcpy(trusted->request_id, "req_", 4);
    for (size_t i = 0; i < sizeof bytes; i++) {
        trusted->request_id[4 + 2 * i] = digits[bytes[i] >> 4];
        trusted->request_id[5 + 2 * i] = digits[bytes[i] & 15];
    }
    trusted->request_id[4 + 2 * sizeof bytes] = '\0';
}

enum status face_trusted_check_protocol(const struct http_request *request)
{
    struct slice text = http_header_get(request, headers[TRUSTED_PROTOCOL].name);
    if (text.bytes != NULL && !slice_is(text, "1"))
        FAIL(STATUS_PROTOCOL_VERSION,
             "The engine speaks protocol %d and the edge another one; run both from the same "
             "version.",
             FACE_PROTOCOL);
    return STATUS_OK;
}

static enum status read_one(struct face_trusted *trusted, const struct http_request *request,
                            enum trusted_header header)
{
    struct slice text = http_header_get(request, headers[header].name);
    int64_t number = 0;
    switch (header) {
    case TRUSTED_PROTOCOL:
        return face_trusted_check_protocol(request);
    case TRUSTED_REQUEST_ID:
        trusted->is_given = true;
        return read_request_id(trusted, text);
    case TRUSTED_TENANT:
        return read_hash(text, header, trusted->tenant);
    case TRUSTED_KEY:
        return read_hash(text, header, trusted->key);
    case TRUSTED_CLASS:
        return read_class(trusted, text);
    case TRUSTED_WEIGHT:
        TRY(read_number(text, header, LIMIT_WEIGHT, &number));
        trusted->weight = (uint32_t)number;
        return STATUS_OK;
    case TRUSTED_DOMAIN:
        return read_hash(text, header, trusted->domain.bytes);
    case TRUSTED_VISIBLE:
        return read_visible(trusted, text);
    case TRUSTED_CACHE_SHARE:
        TRY(read_number(text, header, LIMIT_CACHE_SHARE, &number));
        trusted->cache_share = (uint32_t)number;
        return STATUS_OK;
    case TRUSTED_DEADLINE:
        TRY(read_number(text, header, DEADLINE_MS_MAX, &number));
        trusted->deadline_us = clock_mono_us(clock_system()) + number * 1000;
        return STATUS_OK;
    case TRUSTED_MODEL:
        return read_model(trusted, text);
    case TRUSTED_COUNT:
        break;
    }
    ASSERT(false);
    return STATUS_INVALID;
}

enum status face_trusted_read(struct face_trusted *trusted, const struct http_request *request)
{
    *trusted = (struct face_trusted){.service_class = SERVICE_CLASS_STANDARD};
    for (enum trusted_header header = 0; header < TRUSTED_COUNT; header++) {
        const char *name = headers[header].name;
        const char *needed = headers[headers[header].needs].name;
        size_t count = http_header_count(request, name);
        if (count == 0)
            continue;
        if (count > 1)
            FAIL(STATUS_INVALID, "header %s: given %zu times", name, count);
        if (http_header_count(request, needed) == 0)
            FAIL(STATUS_INVALID, "header %s: needs %s", name, needed);
        TRY(read_one(trusted, request, header));
    }
    if (!trusted->is_given)
        make_request_id(trusted);
    return STATUS_OK;
}

void face_trusted_apply(const struct face_trusted *trusted, struct engine_request *request)
{
    request->request_id = slice_of(trusted->request_id);
    request->domain = trusted->domain;
    memcpy(request->visible, trusted->visible, sizeof request->visible);
    request->visible_count = trusted->visible_count;
    request->visible_public = trusted->visible_public;
    request->visible_group = trusted->visible_group;
    request->cache_share = trusted->cache_share;
    request->service_class = trusted->service_class;
    request->weight = trusted->weight;
    memcpy(request->tenant.bytes, trusted->tenant, sizeof request->tenant.bytes);
    request->deadline_us = trusted->deadline_us;
}
