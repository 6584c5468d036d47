#include "gateway/http/stderr_lines.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"

enum { LINE_BYTES = 256 };

/* Protected by the stream's lock, which stdio takes around each write. */
static struct {
    FILE *stream;
    FILE *before;
    char line[LINE_BYTES]; /* the incomplete line; longer ones are cut off */
    size_t length;
    struct log_share share;
} lines;

static pthread_mutex_t users_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users; /* under users_mutex */

static void log_line(const char *line)
{
    uint32_t unsaid;
    if (log_share_take(&lines.share, clock_mono_us(clock_system()), &unsaid))
        LOG(LOG_WARN, "library_said", LOG_TEXT("text", line), LOG_NUMBER("unsaid", unsaid));
}

/* True for a line after which the process ends (of libh2o, assert, ASSERT): there is no time to
 * write it to the log. */
static bool is_last(const char *line)
{
    return strncmp(line, "fatal:", 6) == 0 || strstr(line, "ssertion") != NULL;
}

static void end_line(void)
{
    lines.line[lines.length] = '\0';
    if (is_last(lines.line)) {
        lines.line[lines.length] = '\n';
        if (write(STDERR_FILENO, lines.line, lines.length + 1) < 0)
            lines.share.unsaid++;
    } else if (lines.length > 0) {
        log_line(lines.line);
    }
    lines.length = 0;
}

static ssize_t on_write(void *cookie, const char *bytes, size_t length)
{
    (void)cookie;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\n')
            end_line();
        else if (lines.length + 1 < sizeof(lines.line))
            lines.line[lines.length++] = bytes[i];
    }
    return (ssize_t)length;
}

enum status stderr_lines_begin(void)
{
    pthread_mutex_lock(&users_mutex);
    enum status status = STATUS_OK;
    if (users == 0) {
        FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = on_write});
        if (stream == NULL)
            FAIL_OUT(STATUS_NO_MEMORY, "no memory for a stream");
        setvbuf(stream, NULL, _IOLBF, 0);
        lines.stream = stream;
        lines.before = stderr;
        lines.length = 0;
        lines.share = (struct log_share){0};
        stderr = stream; /* the C library's streams are variables */
    }
    users++;
out:
    pthread_mutex_unlock(&users_mutex);
    return status;
}

void stderr_lines_end(void)
{
    pthread_mutex_lock(&users_mutex);
    ASSERT(users > 0);
    if (--users == 0) {
        stderr = lines.before;
        fclose(lines.stream);
        if (lines.length > 0)
            end_line();
        lines.stream = NULL;
    }
    pthread_mutex_unlock(&users_mutex);
}
