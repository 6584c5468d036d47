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

bool h1_head_is_clear(const struct h1_head *head, bool is_http11)
{
    if (head->content_lengths + head->transfer_encodings > 1)
        return false;
    if (head->hosts > 1 || (is_http11 && head->hosts == 0))
        return false;
    return !head->has_folded_line;
}
