#include "config/base/slice.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "config/base/mem.h"
#include "config/base/utf8.h"

void buffer_init(struct buffer *buffer, size_t limit_bytes)
{
    *buffer = (struct buffer){.limit_bytes = limit_bytes};
}

void buffer_deinit(struct buffer *buffer)
{
    mem_free(buffer->bytes);
    *buffer = (struct buffer){.limit_bytes = buffer->limit_bytes};
}

void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
    buffer->status = STATUS_OK;
    if (buffer->bytes != NULL)
        buffer->bytes[0] = '\0';
}

static bool append_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->status != STATUS_OK)
        return false;
    if (more > buffer->limit_bytes - buffer->length) {
        buffer->status = status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                     "longer than %zu bytes", buffer->limit_bytes);
        return false;
    }
    size_t needed = buffer->length + more + 1;
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = mem_realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        buffer->status =
            status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for a buffer");
        return false;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (!append_reserve(buffer, length))
        return;
    if (length != 0)
        memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    buffer->bytes[buffer->length] = '\0';
}

void buffer_append_slice(struct buffer *buffer, struct slice slice)
{
    buffer_append(buffer, slice.bytes, slice.length);
}

void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_append_char(struct buffer *buffer, char c)
{
    buffer_append(buffer, &c, 1);
}

void buffer_append_number(struct buffer *buffer, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    buffer_append(buffer, digits + at, sizeof digits - at);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    if (!append_reserve(buffer, 0))
        return;
    size_t room = buffer->capacity - buffer->length;
    va_start(arguments, format);
    int length = vsnprintf(buffer->bytes + buffer->length, room, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);
    if ((size_t)length >= room || (size_t)length > buffer->limit_bytes - buffer->length) {
        buffer->bytes[buffer->length] = '\0'; /* restore the end, in case the text never fits */
        if (!append_reserve(buffer, (size_t)length))
            return;
        va_start(arguments, format);
        vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    buffer->length += (size_t)length;
}

void buffer_append_json_string(struct buffer *buffer, struct slice text)
{
    static const char hex[] = "0123456789abcdef";
    buffer_append_char(buffer, '"');
    for (size_t i = 0; i < text.length;) {
        unsigned char c = (unsigned char)text.bytes[i];
        size_t run = utf8_sequence_length(text.bytes + i, text.length - i);
        if (c == '"' || c == '\\') {
            char escaped[2] = {'\\', (char)c};
            buffer_append(buffer, escaped, 2);
        } else if (c == '\n') {
            buffer_append(buffer, "\\n", 2);
        } else if (c < 0x20 || c == 0x7f) {
            char escaped[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            buffer_append(buffer, escaped, 6);
        } else if (run == 0) {
            buffer_append_text(buffer, "\xef\xbf\xbd");
            run = 1;
        } else {
            buffer_append(buffer, text.bytes + i, run);
        }
        i += run == 0 ? 1 : run;
    }
    buffer_append_char(buffer, '"');
}

void buffer_consume(struct buffer *buffer, size_t length)
{
    ASSERT(length <= buffer->length);
    buffer->length -= length;
    if (buffer->bytes != NULL) {
        memmove(buffer->bytes, buffer->bytes + length, buffer->length);
        buffer->bytes[buffer->length] = '\0';
    }
}
