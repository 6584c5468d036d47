/* template_string: strings of a template, whose bytes know whether the template or a client wrote
 * them.
 *
 * Owns:     a writer's bytes, until it is finished or dropped.
 * Thread:   that of the run.
 * Cost:     charged to the run by the bytes that are touched.
 * Not here: other values as text (template_text), the filters and methods that use this.
 *
 * Offsets are in bytes, at the edges of characters.
 */
#pragma once

#include "engine/text/template_value.h"

/* Makes a string of one piece, or of none when it is empty. The bytes must outlive the run. */
enum status template_string_make(struct template_run *run, struct slice text, bool is_own,
                                 struct template_value *out);
size_t template_string_length(const struct template_run *run, struct template_value string);
/* Code points. */
enum status template_string_points(struct template_run *run, struct template_value string,
                                   int64_t *out);
/* The string's bytes in one run; copied only when it has several pieces. */
enum status template_string_flat(struct template_run *run, struct template_value string,
                                 struct slice *out);
/* Whether no byte of it is a client's. */
bool template_string_is_own(const struct template_run *run, struct template_value string);
bool template_string_is(const struct template_run *run, struct template_value string,
                        struct slice text);
/* Bytes [from, to) with their origins. */
enum status template_string_cut(struct template_run *run, struct template_value string, size_t from,
                                size_t to, struct template_value *out);
enum status template_string_add(struct template_run *run, struct template_value left,
                                struct template_value right, struct template_value *out);
/* The string with & < > ' " as HTML writes them. */
enum status template_string_escape(struct template_run *run, struct template_value string,
                                   struct template_value *out);
/* The order of code points: -1, 0 or 1. */
enum status template_string_compare(struct template_run *run, struct template_value a,
                                    struct template_value b, int *order);
/* Offset of the first `needle` in hay[from …), or SIZE_MAX. */
size_t template_string_find(struct slice hay, size_t from, struct slice needle);
/* Bytes of characters at the start (or end) of `text` that are in `chars`, or are white space as in
 * Python's str.strip() when chars.bytes is NULL. */
size_t template_string_blank(struct slice text, struct slice chars, bool at_end);
/* Bytes of the end of a line at `at`, as str.splitlines() knows them; 0 when it goes on. */
size_t template_string_line_end(struct slice text, size_t at);
/* x.strip(chars), of one end or both. */
enum status template_string_strip(struct template_run *run, struct template_value string,
                                  struct template_value chars, bool at_start, bool at_end,
                                  struct template_value *out);

/* --- writers --- */

/* Where the bytes of one origin end. */
struct template_origin {
    size_t end;
    bool is_own;
};

struct template_writer {
    struct template_run *run;
    struct buffer bytes; /* at most LIMIT_TEMPLATE_OUTPUT_BYTES */
    struct template_origin *origins;
    size_t origin_count;
    size_t origin_capacity;
};

void template_string_begin(struct template_writer *writer, struct template_run *run);
enum status template_string_write(struct template_writer *writer, struct slice text, bool is_own);
enum status template_string_write_value(struct template_writer *writer,
                                        struct template_value string);
/* Writes bytes [from, to) of a string with their origins. `*piece` and `*before` are a cursor that
 * the caller sets to 0 and passes again for a later range. */
enum status template_string_write_range(struct template_writer *writer,
                                        struct template_value string, size_t from, size_t to,
                                        uint32_t *piece, size_t *before);
/* Makes a string of what was written. */
enum status template_string_finish(struct template_writer *writer, struct template_value *out);
/* Frees the writer; after template_string_finish too. */
void template_string_drop(struct template_writer *writer);
