/* http_error: statuses and special cases → OpenAI-shaped errors with their HTTP codes.
 *
 * Owns:     the one table from a status to {HTTP code, type, code}.
 * Thread:   any.
 * Cost:     formats into the request's pool.
 * Not here: the texts' causes: FAIL makes them where the cause is known.
 */
#pragma once

#include "gateway/http/request.h"

struct http_error {
    int http_code;
    const char *type;
    const char *code;        /* NULL = null */
    uint32_t retry_after_ms; /* 0 = no retry headers */
    bool is_final;           /* sends x-should-retry: false */
};

/* The table's row for a status. */
const struct http_error *http_error_of(enum status status);

/* {"error":{"message","type","param","code"}} from a note, appended to `out`. */
void http_error_render(const struct error_note *note, struct buffer *out);

/* Answers with the thread's note, or with an explicit message. */
void http_respond_failure(struct http_request *request);
void http_respond_error(struct http_request *request, enum status status, const char *param,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Answers with the thread's note, behind `headers` (at most 6 of the caller's): to be tried again
 * after `retry_after_ms`, or not at all when that is 0. */
void http_respond_limited(struct http_request *request, uint32_t retry_after_ms,
                          const struct http_header *headers, size_t count);

/* Answers that have no status: the door's own. 404 for an unknown path, 405 with `allow`, and any
 * other code (400, 413, 414, 415, 431) with `reason`, or a fixed sentence when that is NULL. The
 * connection is closed behind 400, 414 and 431 over HTTP/1. */
void http_error_respond_path(struct http_request *request);
void http_error_respond_method(struct http_request *request, struct slice allow);
void http_error_respond_refusal(struct http_request *request, int http_code, const char *reason);

/* The body that replaces libh2o's own text for one of its error codes; `out` is appended to. */
void http_error_render_code(int http_code, struct buffer *out);
