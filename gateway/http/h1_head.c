#include "gateway/http/h1_head.h"

#include "config/base/decimal.h"

/* Returns what stands before the colon; empty if there is none. */
static struct slice line_name(struct slice line)
{
    const char *colon = memchr(line.bytes, ':', line.length);
    return (struct slice){line.bytes, colon != NULL ? (size_t)(colon - line.bytes) : 0};
}

static bool name_is(struct slice name, struct slice wanted)
{
    if (name.length != wanted.length)
        return false;
    for (size_t i = 0; i < name.length; i++) {
        char c = name.bytes[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c != wanted.bytes[i])
            return false;
    }
    return true;
}

static struct slice line_value(struct slice line)
{
    const char *colon = memchr(line.bytes, ':', line.length);
    struct slice value = {colon + 1, line.length - (size_t)(colon + 1 - line.bytes)};
    while (value.length > 0 && (value.bytes[0] == ' ' || value.bytes[0] == '\t'))
        value.bytes++, value.length--;
    while (value.length > 0 &&
           (value.bytes[value.length - 1] == ' ' || value.bytes[value.length - 1] == '\t'))
        value.length--;
    return value;
}

static size_t read_length(struct slice value)
{
    uint64_t length = SIZE_MAX;
    (void)decimal_read(value, SIZE_MAX / 10, &length);
    return length;
}

static void count_owner(struct slice line, struct slice name, struct h1_head *out)
{
    if (name_is(name, SLICE("authorization"))) {
        out->authorizations++;
        out->authorization = line_value(line);
    }
    if (name_is(name, SLICE("x-api-key"))) {
        out->api_keys++;
        out->api_key = line_value(line);
    }
}

static void count_line(struct slice line, struct h1_head *out)
{
    const struct slice name = line_name(line);
    if (line.bytes[0] == ' ' || line.bytes[0] == '\t')
        out->has_folded_line = true;
    if (name_is(name, SLICE("content-length"))) {
        out->content_lengths++;
        out->content_length = read_length(line_value(line));
    }
    if (name_is(name, SLICE("transfer-encoding")))
        out->transfer_encodings++;
    if (name_is(name, SLICE("host")))
        out->hosts++;
    count_owner(line, name, out);
}

bool h1_head_scan(struct slice input, struct h1_head *out)
{
    *out = (struct h1_head){.content_length = SIZE_MAX};
    size_t at = 0;
    size_t lines = 0;
    while (at < input.length) {
        const char *end = memchr(input.bytes + at, '\n', input.length - at);
        if (end == NULL)
            return false;
        struct slice line = {input.bytes + at, (size_t)(end - (input.bytes + at))};
        at += line.length + 1;
        if (line.length > 0 && line.bytes[line.length - 1] == '\r')
            line.length--;
        else
            out->has_bare_newline = true;
        if (line.length == 0) {
            if (lines == 0)
                continue; /* RFC 9112, section 2.2, allows empty lines before the request line */
            out->bytes = at;
            return true;
        }
        if (lines++ > 0)
            count_line(line, out);
    }
    return false;
}

const char *h1_head_fault(const struct h1_head *head, bool is_http11)
{
    if (head->content_lengths > 0 && head->transfer_encodings > 0)
        return "The request has both a Content-Length and a Transfer-Encoding.";
    if (head->content_lengths > 1)
        return "The request has more than one Content-Length.";
    if (head->transfer_encodings > 1)
        return "The request has more than one Transfer-Encoding.";
    if (head->transfer_encodings > 0 && !is_http11)
        return "A Transfer-Encoding needs HTTP/1.1.";
    if (head->hosts > 1)
        return "The request has more than one Host.";
    if (is_http11 && head->hosts == 0)
        return "The request has no Host.";
    if (head->has_folded_line)
        return "A header's value continues in the next line.";
    if (head->has_bare_newline)
        return "A line of the request's head does not end with CR LF.";
    return NULL;
}

void h1_head_strip_body(char *bytes, size_t head_bytes)
{
    const struct slice names[] = {SLICE("content-length"), SLICE("transfer-encoding"),
                                  SLICE("expect")};
    size_t at = 0;
    while (at < head_bytes) {
        const char *end = memchr(bytes + at, '\n', head_bytes - at);
        if (end == NULL)
            return;
        struct slice line = {bytes + at, (size_t)(end - (bytes + at))};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (name_is(line_name(line), names[i]))
                bytes[at] = 'x';
        }
        at += line.length + 1;
    }
}
