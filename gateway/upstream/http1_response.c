#include "gateway/upstream/http1_response.h"

#include <strings.h>

#include "config/base/decimal.h"
#include "config/base/limits.h"

bool http1_response_is(const struct phr_header *header, const char *name)
{
    return header->name != NULL && header->name_len == strlen(name) &&
           strncasecmp(header->name, name, header->name_len) == 0;
}

struct slice http1_response_value(const struct phr_header *header)
{
    return (struct slice){header->value, header->value_len};
}

bool http1_response_number(const struct phr_header *header, uint64_t most, uint64_t *out)
{
    return decimal_read(http1_response_value(header), most, out) == DECIMAL_READ;
}

static bool value_is(const struct phr_header *header, const char *word)
{
    return header->value_len == strlen(word) &&
           strncasecmp(header->value, word, header->value_len) == 0;
}

enum http1_response_state http1_response_parse(struct http1_response *out, struct slice input,
                                               size_t parsed_before)
{
    const char *reason;
    size_t reason_length;
    if (input.length == 0)
        return HTTP1_RESPONSE_PART;
    out->header_count = HTTP1_RESPONSE_HEADERS_MAX;
    int parsed =
        phr_parse_response(input.bytes, input.length, &out->minor_version, &out->code, &reason,
                           &reason_length, out->headers, &out->header_count, parsed_before);
    if (parsed == -2 && input.length <= LIMIT_HEAD_BYTES)
        return HTTP1_RESPONSE_PART;
    if (parsed < 0 || (size_t)parsed > LIMIT_HEAD_BYTES)
        return HTTP1_RESPONSE_FOREIGN;
    out->head_bytes = (size_t)parsed;
    return HTTP1_RESPONSE_WHOLE;
}

enum status http1_response_frame(struct http1_response *response)
{
    bool has_length = false;
    bool is_chunked = false;
    response->is_keep_alive = response->minor_version == 1;
    response->length = 0;
    for (size_t i = 0; i < response->header_count; i++) {
        const struct phr_header *header = &response->headers[i];
        if (http1_response_is(header, "content-length")) {
            if (has_length || !http1_response_number(header, UINT64_MAX, &response->length))
                FAIL(STATUS_PROTOCOL, "the answer's length cannot be right");
            has_length = true;
        } else if (http1_response_is(header, "transfer-encoding")) {
            if (is_chunked || !value_is(header, "chunked"))
                FAIL(STATUS_PROTOCOL, "the answer has a transfer coding other than chunked");
            is_chunked = true;
        } else if (http1_response_is(header, "connection") && value_is(header, "close")) {
            response->is_keep_alive = false;
        }
    }
    if (has_length && is_chunked)
        FAIL(STATUS_PROTOCOL, "the answer tells its length in two ways");
    response->framing = has_length   ? HTTP1_RESPONSE_LENGTH
                        : is_chunked ? HTTP1_RESPONSE_CHUNKED
                                     : HTTP1_RESPONSE_CLOSE;
    if (response->code == 204 || response->code == 304) { /* they have no body */
        response->framing = HTTP1_RESPONSE_LENGTH;
        response->length = 0;
    }
    if (response->framing == HTTP1_RESPONSE_CLOSE)
        response->is_keep_alive = false;
    return STATUS_OK;
}
