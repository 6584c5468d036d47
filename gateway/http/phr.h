/* phr: declarations of PicoHTTPParser, which libh2o contains and exports without a header.
 *
 * Owns:     nothing; results point into the caller's bytes.
 * Thread:   any.
 * Cost:     O(bytes), no allocation.
 * Not here: what a message means (h1_head, http1_response).
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct phr_header {
    const char *name; /* NULL for a folded line */
    size_t name_len;
    const char *value;
    size_t value_len;
};
/* Parses a response's head. `length_before` bytes were there in an earlier call. Returns the bytes
 * of the head, -1 when it is malformed, -2 when it is incomplete. */
int phr_parse_response(const char *bytes, size_t length, int *minor_version, int *code,
                       const char **text, size_t *text_length, struct phr_header *headers,
                       size_t *header_count, size_t length_before);

struct phr_chunked_decoder { /* zero-filled before the first call */
    size_t bytes_left_in_chunk;
    char consume_trailer;
    char hex_count;
    char state;
};
/* Decodes a chunked body in place; *length becomes the number of decoded bytes. Returns the number
 * of bytes after the last chunk, -1 when it is malformed, -2 when it is incomplete. */
ssize_t phr_decode_chunked(struct phr_chunked_decoder *decoder, char *bytes, size_t *length);
