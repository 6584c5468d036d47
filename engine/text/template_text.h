/* template_text: values as text: as Python prints them, and as its json module writes them.
 *
 * Owns:     nothing.
 * Thread:   that of the run.
 * Cost:     charged by the bytes written; no recursion.
 * Not here: strings themselves (template_string), reading JSON (template_input).
 *
 * Quotes, brackets and digits have the origin of their value: a client's list prints as a client's
 * text throughout.
 */
#pragma once

#include "engine/text/template_string.h"

struct template_text_json {
    int32_t indent; /* spaces a level; -1: one line */
    bool is_ascii;  /* others than ASCII as \uXXXX */
    bool is_sorted;
    struct slice between; /* items */
    struct slice colon;
};

/* What is printed or joined: strings stay, other kinds become text. INVALID for what has no text
 * that two runs would agree on, such as a function. */
enum status template_text_of(struct template_run *run, struct template_value value,
                             struct template_value *out);
/* INVALID for values that JSON does not have. */
enum status template_text_json(struct template_run *run, struct template_value value,
                               const struct template_text_json *form, struct template_value *out);
/* `values` as text with `between` between two. */
enum status template_text_join(struct template_run *run, const struct template_value *values,
                               uint32_t count, struct template_value between,
                               struct template_value *out);
/* Writes the shortest decimal number that is read back as `number`, as Python does; returns its
 * length. */
size_t template_text_float(double number, char out[40]);
