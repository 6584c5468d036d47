#include "engine/schema/schema_path.h"

#include "config/base/utf8.h"

/* Copies as much as fits; the end is cut at a whole character. */
static void copy(struct slice text, char *out, size_t room)
{
    size_t length = text.length < room ? text.length : room - 1;
    if (length < text.length)
        length -= utf8_incomplete_tail(text.bytes, length);
    memcpy(out, text.bytes, length);
    out[length] = '\0';
}

static void append(struct buffer *path, struct slice text)
{
    if (path->length + text.length < path->limit_bytes)
        buffer_append_slice(path, text);
}

void schema_path_write(const struct json_read *json, uint32_t index,
                       char path[CONSTRAINT_PATH_BYTES], char keyword[CONSTRAINT_KEYWORD_BYTES])
{
    struct buffer written;
    buffer_init(&written, 4 * CONSTRAINT_PATH_BYTES);
    keyword[0] = '\0';
    uint32_t at = 0;
    while (at < index && index < json->values[at].next) {
        const struct json_read_value *value = &json->values[at];
        uint32_t child = at + 1;
        uint32_t position = 0;
        bool is_object = value->kind == JSON_READ_OBJECT;
        /* A member reaches from its name to the end of its value. */
        while (json->values[is_object ? json->values[child].next : child].next <= index) {
            child = json->values[is_object ? json->values[child].next : child].next;
            position++;
        }
        if (is_object) {
            append(&written, SLICE("."));
            append(&written, json_read_text(&json->values[child]));
            copy(json_read_text(&json->values[child]), keyword, CONSTRAINT_KEYWORD_BYTES);
            at = json->values[child].next;
        } else {
            buffer_printf(&written, "[%u]", position);
            at = child;
        }
    }
    copy((struct slice){written.bytes != NULL ? written.bytes : "", written.length}, path,
         CONSTRAINT_PATH_BYTES);
    buffer_deinit(&written);
}
