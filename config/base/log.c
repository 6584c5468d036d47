#include "config/base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/log_writer.h"
#include "config/base/utf8.h"

/* Set by log_open, before the process has a second thread. The defaults serve lines logged earlier.
 */
static int output_descriptor = STDERR_FILENO;
static enum log_level least_level = LOG_INFO;
static const char *output_component = "banyan";

/* Set by log_start. */
enum access { ACCESS_SHARED, ACCESS_OWN, ACCESS_OFF };
static _Atomic int access_output = ACCESS_SHARED;
static struct log_writer event_writer = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct log_writer access_writer = {.lock = PTHREAD_MUTEX_INITIALIZER};
static int start_count;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* The end of a cut line. The room for it is kept free: a closing quote, the mark, the end. */
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

/* Returns the room for more bytes, 0 when the line is cut. The quote that closes a text may use up
 * part of the room kept for cut_mark; the subtraction must not wrap then. */
static size_t line_room(const struct line *line)
{
    size_t used = line->length + sizeof cut_mark;
    return line->is_cut || used >= sizeof line->bytes ? 0 : sizeof line->bytes - used;
}

/* Appends the whole piece or nothing: half an escape or half a character is not valid JSON. */
static bool line_put(struct line *line, const char *bytes, size_t length)
{
    if (length > line_room(line)) {
        line->is_cut = true;
        return false;
    }
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
    return true;
}

static void line_put_char(struct line *line, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    if (c == '"' || c == '\\')
        line_put(line, (const char[]){'\\', (char)c}, 2);
    else
        line_put(line, (const char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

static bool char_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Appends the plain characters at the start of `text`, as many as fit; plain characters may be cut
 * anywhere. Returns the length of the plain run. */
static size_t line_put_plain(struct line *line, const char *text, size_t length)
{
    size_t run = 0;
    while (run < length && char_is_plain((unsigned char)text[run]))
        run++;
    size_t room = line_room(line);
    line_put(line, text, run < room ? run : room);
    line->is_cut = line->is_cut || run > room;
    return run;
}

static void line_put_text(struct line *line, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = line_put_plain(line, text, length); i < length && !line->is_cut;) {
        size_t run = utf8_sequence_length(text + i, length - i);
        if (run == 1)
            line_put_char(line, (unsigned char)text[i]);
        else if (run == 0)
            line_put(line, "\xef\xbf\xbd", 3); /* U+FFFD replaces a byte that is not UTF-8 */
        else
            line_put(line, text + i, run);
        i += run == 0 ? 1 : run;
        i += line_put_plain(line, text + i, length - i);
    }
}

/* Writes at most twenty bytes; returns how many. */
static size_t number_format(char out[24], int64_t number)
{
    char digits[24];
    size_t count = 0;
    size_t length = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (number < 0)
        out[length++] = '-';
    while (count != 0)
        out[length++] = digits[--count];
    return length;
}

/* Appends `,"name":"text"`. When the text is cut, cut_mark closes the quote. */
static void line_put_field(struct line *line, const struct log_field *field)
{
    char head[160] = ",\"";
    size_t name_length = strlen(field->name);
    ASSERT(name_length < sizeof head - 32);
    memcpy(head + 2, field->name, name_length);
    size_t length = name_length + 2;
    head[length++] = '"';
    head[length++] = ':';
    if (field->text != NULL)
        head[length++] = '"';
    else
        length += number_format(head + length, field->number);
    if (!line_put(line, head, length) || field->text == NULL)
        return;
    line_put_text(line, field->text);
    /* cut_mark begins with the quote, so a cut text and a whole one are closed the same way. */
    line->bytes[line->length++] = '"';
}

/* Writes `{"time":"2026-11-21T04:00:00`, which each thread formats once a second. */
static size_t head_time(char out[64], time_t seconds)
{
    static _Thread_local time_t cached_seconds = -1;
    static _Thread_local char cached[64];
    static _Thread_local size_t cached_length;
    if (seconds != cached_seconds) {
        struct tm utc;
        gmtime_r(&seconds, &utc);
        cached_length = strftime(cached, sizeof cached, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &utc);
        cached_seconds = seconds;
    }
    memcpy(out, cached, cached_length);
    return cached_length;
}

static void line_put_head(struct line *line, enum log_level level, const char *event)
{
    int64_t now_us = clock_wall_us(clock_system());
    int ms = (int)(now_us / 1000 % 1000);
    char head[64];
    line_put(line, head, head_time(head, (time_t)(now_us / 1000000)));
    line_put(line,
             (const char[]){'.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10),
                            (char)('0' + ms % 10), 'Z', '"'},
             6);
    const struct log_field fields[] = {LOG_TEXT("level", level_names[level]),
                                       LOG_TEXT("component", output_component),
                                       LOG_TEXT("event", event)};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        line_put_field(line, &fields[i]);
}

static void line_make(struct line *line, enum log_level level, const char *event,
                      const struct log_field *fields, size_t count)
{
    line->length = 0;
    line->is_cut = false;
    line_put_head(line, level, event);
    for (size_t i = 0; i < count && !line->is_cut; i++)
        line_put_field(line, &fields[i]);
    const char *end = line->is_cut ? cut_mark + 1 : "}\n";
    size_t length = strlen(end);
    memcpy(line->bytes + line->length, end, length);
    line->length += length;
}

void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t count)
{
    ASSERT((size_t)level < sizeof level_names / sizeof level_names[0]);
    if (level < least_level)
        return;
    int saved_errno = errno;
    struct line line;
    line_make(&line, level, event, fields, count);
    /* A log that cannot be written has nowhere to report that; the line is lost. */
    if (!log_writer_put(&event_writer, line.bytes, line.length, level >= LOG_WARN))
        (void)log_writer_now(output_descriptor, line.bytes, line.length);
    errno = saved_errno;
}

bool log_access_is_on(void)
{
    int output = atomic_load_explicit(&access_output, memory_order_relaxed);
    return output == ACCESS_OWN || (output == ACCESS_SHARED && least_level <= LOG_INFO);
}

void log_access(const char *event, const struct log_field *fields, size_t count)
{
    if (!log_access_is_on())
        return;
    struct line line;
    line_make(&line, LOG_INFO, event, fields, count);
    bool is_own = atomic_load_explicit(&access_output, memory_order_relaxed) == ACCESS_OWN;
    if (!log_writer_put(is_own ? &access_writer : &event_writer, line.bytes, line.length, false) &&
        !is_own)
        (void)log_writer_now(output_descriptor, line.bytes, line.length);
}

/* --- the writers --- */

static size_t start_report(char out[LOG_WRITER_REPORT_MAX], uint64_t lines)
{
    struct line line;
    line_make(&line, LOG_WARN, "log_dropped",
              (const struct log_field[]){LOG_NUMBER("lines", lines)}, 1);
    ASSERT(line.length <= LOG_WRITER_REPORT_MAX);
    memcpy(out, line.bytes, line.length);
    return line.length;
}

enum status log_start(const char *access_log)
{
    if (start_count++ != 0)
        return STATUS_OK;
    int output = strcmp(access_log, "on") == 0    ? ACCESS_SHARED
                 : strcmp(access_log, "off") == 0 ? ACCESS_OFF
                                                  : ACCESS_OWN;
    enum status status = log_writer_open(&event_writer, output_descriptor, NULL, start_report);
    if (status == STATUS_OK && output == ACCESS_OWN)
        status = log_writer_open(&access_writer, -1, access_log, start_report);
    if (status != STATUS_OK) {
        start_count = 0;
        log_writer_close(&event_writer);
        return status;
    }
    atomic_store(&access_output, output);
    return STATUS_OK;
}

void log_stop(void)
{
    if (start_count == 0 || --start_count != 0)
        return;
    log_writer_close(&access_writer);
    log_writer_close(&event_writer);
    atomic_store(&access_output, ACCESS_SHARED);
}

void log_reopen(void)
{
    log_writer_reopen(&access_writer);
}

uint64_t log_dropped(void)
{
    return log_writer_dropped(&event_writer) + log_writer_dropped(&access_writer);
}

void log_failure(enum log_level level, const char *event)
{
    const struct error_note *note = status_note();
    struct log_field fields[4] = {
        LOG_TEXT("status", status_name(note->status)), LOG_TEXT("message", note->message),
        LOG_TEXT("file", note->file != NULL ? note->file : ""), LOG_NUMBER("line", note->line)};
    log_event(level, event, fields, sizeof fields / sizeof fields[0]);
}

bool log_share_take(struct log_share *share, int64_t now_us, uint32_t *unsaid)
{
    if (now_us - share->second_us >= 1000000) {
        share->second_us = now_us;
        share->lines = 0;
    }
    if (share->lines == LOG_SHARE_A_SECOND) {
        share->unsaid++;
        return false;
    }
    share->lines++;
    *unsaid = share->unsaid;
    share->unsaid = 0;
    return true;
}
