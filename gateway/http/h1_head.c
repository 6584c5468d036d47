#include "gateway/http/h1_head.h"

static bool line_has_name(struct slice line, const char *name)
{
    size_t length = strlen(name);
    if (line.length <= length || line.bytes[length] != ':')
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = line.bytes[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c != name[i])
            return false;
    }
    return true;
}

static void count_line(struct slice line, struct h1_head *out)
{
    if (line.bytes[0] == ' ' || line.bytes[0] == '\t')
        out->has_folded_line = true;
    if (line_has_name(line, "content-length"))
        out->content_lengths++;
    if (line_has_name(line, "transfer-encoding"))
        out->transfer_encodings++;
    if (line_has_name(line, "host"))
        out->hosts++;
}

bool h1_head_scan(struct slice input, struct h1_head *out)
{
    *out = (struct h1_head){0};
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
                continue; /* empty lines before the request line: RFC 9112, 2.2 */
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
        return "A header's value goes on in the next line.";
    if (head->has_bare_newline)
        return "A line of the request's head does not end with CR LF.";
    return NULL;
}
