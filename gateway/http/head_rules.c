#include "gateway/http/head_rules.h"

#include <string.h>

/* Whether it is a token of RFC 9110, section 5.6.2. */
static bool is_token(struct slice text)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        bool is_alphanumeric =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alphanumeric && (c == '\0' || strchr(marks, c) == NULL))
            return false;
    }
    return text.length > 0;
}

/* Whether it may be host and port: an authority of RFC 3986, section 3.2, without user
 * information. */
static bool is_authority(struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        if (c <= ' ' || c >= 0x7f || strchr("\"#/<>?@\\^`{|}", c) != NULL)
            return false;
    }
    return text.length > 0;
}

static bool is_path(struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] <= ' ' || text.bytes[i] >= 0x7f)
            return false;
    }
    return text.length > 0 && text.bytes[0] == '/';
}

static const char *fault_header(const struct head_rules *head, const struct http_header *header)
{
    struct slice name = slice_of(header->name);
    if (!is_token(name))
        return "A header's name has characters that a name cannot have.";
    if (!head->is_http2)
        return NULL;
    if (slice_equals(name, SLICE("keep-alive")) || slice_equals(name, SLICE("proxy-connection")))
        return "Headers about the connection are not allowed in HTTP/2.";
    return NULL;
}

const char *head_rules_fault(const struct head_rules *head)
{
    if (!is_token(head->method))
        return "The method has characters that a method cannot have.";
    if (!is_path(head->path))
        return "The request's target must be a path: '/' and visible ASCII characters.";
    if (head->needs_authority && !is_authority(head->authority))
        return "The request's Host is empty or has characters that a host cannot have.";
    for (size_t i = 0; i < head->header_count; i++) {
        const char *fault = fault_header(head, &head->headers[i]);
        if (fault != NULL)
            return fault;
    }
    return NULL;
}
