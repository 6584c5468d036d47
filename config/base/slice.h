/* slice: a borrowed run of bytes with its length, and a growing buffer of bytes.
 *
 * Owns:     struct buffer owns its bytes; struct slice never owns.
 * Thread:   any; a value is used by one thread at a time.
 * Cost:     appends are amortised O(1); a buffer has a hard limit given at initialisation.
 * Not here: parsing of any kind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/base/status.h"

struct slice {
    const char *bytes; /* not terminated; may be NULL when length is 0 */
    size_t length;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, text != NULL ? strlen(text) : 0};
}

static inline bool slice_equals(struct slice a, struct slice b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equals(a, slice_of(text));
}

static inline bool slice_starts_with(struct slice a, struct slice prefix)
{
    return a.length >= prefix.length &&
           (prefix.length == 0 || memcmp(a.bytes, prefix.bytes, prefix.length) == 0);
}

/* Bytes that grow up to limit_bytes. `status` keeps the first failure of an append (LIMIT,
 * NO_MEMORY), and later appends do nothing, so that a writer checks once at the end. A NUL that is
 * not counted always follows the bytes. */
struct buffer {
    char *bytes;
    size_t length;
    size_t capacity;
    size_t limit_bytes;
    enum status status;
};

void buffer_init(struct buffer *buffer, size_t limit_bytes);
void buffer_deinit(struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* sets length 0 and status OK, keeps the memory */
void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_append_slice(struct buffer *buffer, struct slice slice);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_append_char(struct buffer *buffer, char c);
void buffer_append_number(struct buffer *buffer, uint64_t number); /* in decimal */
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void buffer_append_json_string(struct buffer *buffer, struct slice text);
/* Removes the first `length` bytes. */
void buffer_consume(struct buffer *buffer, size_t length);

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return (struct slice){buffer->bytes, buffer->length};
}
