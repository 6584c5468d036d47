#include "config/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/utf8.h"

/* Set by log_open, before the process has a second thread; a line logged earlier is still a line.
 */
static int output_descriptor = STDERR_FILENO;
static enum log_level least_level = LOG_INFO;
static const char *output_component = "banyan";

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* What must fit after the last byte that a field may take: a quote, the mark, the end. */
static const char cut_mark[] = "\",\"cut\":true}\n";

struct line {
    size_t length;
    bool is_cut;
    char bytes[LIMIT_LOG_LINE_BYTES];
};

void log_open(int descriptor, enum log_level level, const char *component)
{
    output_descriptor = descriptor;
    least_level = level;
    output_component = component;
}

enum status log_level_parse(enum log_level *out, const char *text)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(level_names[i], text) == 0) {
            *out = (enum log_level)i;
            return STATUS_OK;
        }
    }
    FAIL(STATUS_INVALID, "the log level is debug, info, warn or error");
}

/* Takes the whole piece or none of it: half an escape or half a character is not JSON. */
static bool line_put(struct line *line, const char *bytes, size_t length)
{
    if (line->is_cut || line->length + length > sizeof line->bytes - sizeof cut_mark) {
        line->is_cut = true;
        return false;
    }
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
    return true;
}

static bool line_put_char(struct line *line, unsigned char c)
{
    char escaped[8];
    if (c == '"' || c == '\\') {
        escaped[0] = '\\';
        escaped[1] = (char)c;
        return line_put(line, escaped, 2);
    }
    if (c >= 0x20 && c < 0x7f)
        return line_put(line, (const char *)&c, 1);
    int length = snprintf(escaped, sizeof escaped, "\\u%04x", c);
    return line_put(line, escaped, (size_t)length);
}

static void line_put_text(struct line *line, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length && !line->is_cut;) {
        size_t run = utf8_sequence_length(text + i, length - i);
        if (run == 1)
            line_put_char(line, (unsigned char)text[i]);
        else if (run == 0)
            line_put(line, "\xef\xbf\xbd", 3); /* U+FFFD: what was there is not UTF-8 */
        else
            line_put(line, text + i, run);
        i += run == 0 ? 1 : run;
    }
}

/* `,"name":"text"`; when it is cut inside the text, the quote is closed by the end of the line. */
static void line_put_field(struct line *line, const struct log_field *field)
{
    char head[160];
    char number[24] = "";
    if (field->text == NULL)
        snprintf(number, sizeof number, "%" PRId64, field->number);
    int length =
        snprintf(head, sizeof head, ",\"%s\":%s", field->name, field->text != NULL ? "\"" : number);
    ASSERT(length > 0);
    ASSERT((size_t)length < sizeof head);
    if (!line_put(line, head, (size_t)length))
        return;
    if (field->text == NULL)
        return;
    line_put_text(line, field->text);
    /* cut_mark begins with the quote, so a cut text and a whole one are closed the same way. */
    line->bytes[line->length++] = '"';
}

static void line_put_head(struct line *line, enum log_level level, const char *event)
{
    int64_t now_us = clock_wall_us(clock_system());
    time_t seconds = (time_t)(now_us / 1000000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    char head[64];
    size_t length = strftime(head, sizeof head, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &utc);
    line_put(line, head, length);
    length = (size_t)snprintf(head, sizeof head, ".%03dZ\"", (int)(now_us / 1000 % 1000));
    line_put(line, head, length);
    const struct log_field fields[] = {LOG_TEXT("level", level_names[level]),
                                       LOG_TEXT("component", output_component),
                                       LOG_TEXT("event", event)};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        line_put_field(line, &fields[i]);
}

/* A log that cannot be written has nowhere to say so: the line is lost. */
static void line_write(const struct line *line)
{
    size_t done = 0;
    while (done < line->length) {
        ssize_t wrote = write(output_descriptor, line->bytes + done, line->length - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return;
        done += (size_t)wrote;
    }
}

void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t count)
{
    ASSERT((size_t)level < sizeof level_names / sizeof level_names[0]);
    if (level < least_level)
        return;
    int saved_errno = errno;
    struct line line;
    line.length = 0;
    line.is_cut = false;
    line_put_head(&line, level, event);
    for (size_t i = 0; i < count && !line.is_cut; i++)
        line_put_field(&line, &fields[i]);
    const char *end = line.is_cut ? cut_mark + 1 : "}\n";
    memcpy(line.bytes + line.length, end, strlen(end));
    line.length += strlen(end);
    line_write(&line);
    errno = saved_errno;
}

void log_failure(enum log_level level, const char *event)
{
    const struct error_note *note = status_note();
    struct log_field fields[4] = {
        LOG_TEXT("status", status_name(note->status)), LOG_TEXT("message", note->message),
        LOG_TEXT("file", note->file != NULL ? note->file : ""), LOG_NUMBER("line", note->line)};
    log_event(level, event, fields, sizeof fields / sizeof fields[0]);
}
