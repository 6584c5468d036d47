/* http_error: turns statuses into errors in the form of OpenAI's API, with their HTTP codes.
 *
 * Owns:     the only table from a status to {HTTP code, type, code}.
 * Thread:   any.
 * Cost:     formats into the request's pool.
 * Not here: the messages: FAIL makes them where the cause is known.
 */
#pragma once

#include "gateway/http/request.h"

struct http_error {
    int http_code;
    const char *type;
    const char *code;        /* NULL = null in the JSON */
    uint32_t retry_after_ms; /* 0 = no headers retry-after and retry-after-ms */
    bool is_final;           /* sends x-should-retry: false */
};

/* The table's row for a status. */
const struct http_error *http_error_of(enum status status);

/* Appends {"error":{"message","type","param","code"}} for a note to `out`. */
void http_error_render(const struct error_note *note, struct buffer *out);

/* Answers with the thread's note, or with the given status, param (or NULL) and message. */
void http_respond_failure(struct http_request *request);
void http_respond_error(struct http_request *request, enum status status, const char *param,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Answers with the thread's note and at most 6 headers of the caller's. The client shall retry
 * after `retry_after_ms`, or not at all when that is 0. */
void http_respond_limited(struct http_request *request, uint32_t retry_after_ms,
                          const struct http_header *headers, size_t count);

/* Answers for errors without a status: 404 for an unknown path, 405 with `allow`, and any other
 * code (400, 401, 408, 413, 414, 415, 417, 429, 431, 500, 503) with `reason`, or a fixed sentence
 * when that is NULL. */
void http_error_respond_path(struct http_request *request);
void http_error_respond_method(struct http_request *request, struct slice allow);
void http_error_respond_refusal(struct http_request *request, int http_code, const char *reason);

/* Appends the body that replaces libh2o's text for one of its error codes. */
void http_error_render_code(int http_code, struct buffer *out);
