#include "config/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[STATUS_COUNT] = {
#define STATUS(name, text) #name,
#include "config/base/status.def"
#undef STATUS
};

static _Thread_local struct error_note note;

const char *status_name(enum status status)
{
    ASSERT(status < STATUS_COUNT);
    return names[status];
}

const struct error_note *status_note(void)
{
    return &note;
}

void status_note_set(const struct error_note *other)
{
    note = *other;
}

void status_note_retry(uint32_t retry_after_ms)
{
    note.retry_after_ms = retry_after_ms;
}

enum status status_fail(enum status status, const char *file, int line, const char *param,
                        const char *format, ...)
{
    ASSERT(status != STATUS_OK);
    /* Format into a local buffer first: an argument may be a text of the old note. */
    char message[STATUS_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    char where[STATUS_PARAM_BYTES];
    snprintf(where, sizeof where, "%s", param != NULL ? param : "");
    note.status = status;
    note.file = file;
    note.line = line;
    note.retry_after_ms = 0;
    memcpy(note.message, message, sizeof message);
    memcpy(note.param, where, sizeof where);
    return status;
}

void status_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
