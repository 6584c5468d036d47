/* status: the one list of results, the thread's error note, TRY, FAIL and ASSERT.
 *
 * Owns:     the enum and its names (status.def), one error note for each thread.
 * Thread:   any; the note is thread-local.
 * Cost:     success costs a compare; a failure formats one line into the note, no allocation.
 * Not here: HTTP codes (gateway/http/http_error), logging (log).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum status {
#define STATUS(name, text) STATUS_##name,
#include "config/base/status.def"
#undef STATUS
    STATUS_COUNT
};

enum { STATUS_MESSAGE_BYTES = 512, STATUS_PARAM_BYTES = 128 };

/* The last failure on this thread. `message` may be shown to a client, so it never contains a
 * secret, a prompt or a file name. `param` is the JSON path of the field at fault, or "". */
struct error_note {
    enum status status;
    const char *file;
    int line;
    uint32_t retry_after_ms; /* when a retry may succeed; 0: the status has its own default */
    char param[STATUS_PARAM_BYTES];
    char message[STATUS_MESSAGE_BYTES];
};

/* "NO_MEMORY"; a value outside the list is a programmer error. */
const char *status_name(enum status status);

/* Returns the thread's note; valid until the next failure on this thread. */
const struct error_note *status_note(void);

/* Adds to the thread's note when a retry may succeed; the next failure resets it. */
void status_note_retry(uint32_t retry_after_ms);

/* Behind FAIL: writes the note and returns `status`. `param` may be NULL. */
enum status status_fail(enum status status, const char *file, int line, const char *param,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Replaces this thread's note with one that came from another thread. */
void status_note_set(const struct error_note *note);

/* Behind ASSERT: prints the expression to standard error and aborts. */
__attribute__((noreturn)) void status_assert_failed(const char *expression, const char *file,
                                                    int line);

#ifdef __cplusplus
}
#endif

#define FAIL(status, ...) return status_fail((status), __FILE__, __LINE__, NULL, __VA_ARGS__)
/* FAIL that names the request field at fault, as a JSON path such as "messages[0].role". */
#define FAIL_PARAM(status, param, ...)                                                             \
    return status_fail((status), __FILE__, __LINE__, (param), __VA_ARGS__)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (call);                                                          \
        if (try_status_ != STATUS_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)

/* TRY for functions with an `out:` label and a local `enum status status`. */
#define TRY_OUT(call)                                                                              \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != STATUS_OK)                                                                   \
            goto out;                                                                              \
    } while (0)

#define FAIL_OUT(code, ...)                                                                        \
    do {                                                                                           \
        status = status_fail((code), __FILE__, __LINE__, NULL, __VA_ARGS__);                       \
        goto out;                                                                                  \
    } while (0)

/* Checks for a programmer error; stays on in release builds. No side effects inside. */
#define ASSERT(expression)                                                                         \
    do {                                                                                           \
        if (__builtin_expect(!(expression), 0))                                                    \
            status_assert_failed(#expression, __FILE__, __LINE__);                                 \
    } while (0)

/* For checks that cost more than O(1); compiled in debug and sanitizer builds only. */
#ifdef BANYAN_SLOW_CHECKS
#define ASSERT_SLOW(expression) ASSERT(expression)
#else
#define ASSERT_SLOW(expression) ((void)sizeof(!(expression)))
#endif
