/* face_json: typed reading of a request's JSON values, with the error that names what is wrong.
 *
 * Owns:     nothing; values belong to the request's root.
 * Thread:   any.
 * Cost:     O(1) a value.
 * Not here: which fields there are (face_request).
 *
 * Every function takes the path of the value ("messages[0].role"), which becomes the error's param,
 * and fails with INVALID (wrong type) or OUT_OF_RANGE. Nothing is ever clamped.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

/* Parses a body: an object, no duplicate keys, no NUL in keys, depth ≤ LIMIT_JSON_DEPTH,
 * values ≤ LIMIT_JSON_ELEMENTS. The caller drops the reference. INVALID otherwise. Strings may have
 * a NUL in them: take them as slices, by face_json_string or face_json_word. */
enum status face_json_parse(struct slice body, json_t **out);

enum status face_json_bool(const json_t *value, const char *path, bool *out);
enum status face_json_integer(const json_t *value, const char *path, int64_t least, int64_t most,
                              int64_t *out);
/* [least, most], or (least, most] when `is_open` . */
enum status face_json_number(const json_t *value, const char *path, double least, double most,
                             bool is_open, double *out);
enum status face_json_string(const json_t *value, const char *path, struct slice *out);
/* A string that is no text but a name or a word: INVALID when it has a NUL. */
enum status face_json_word(const json_t *value, const char *path, struct slice *out);
enum status face_json_array(const json_t *value, const char *path, size_t most, size_t *count);
enum status face_json_object(const json_t *value, const char *path);
/* An object whose members are all in `known`, a list ended by NULL; null members pass. UNSUPPORTED
 * names the first other one. */
enum status face_json_members(const json_t *value, const char *path, const char *const *known);
/* "Invalid type for 'x': expected an integer, but got a string instead." */
enum status face_json_wrong_type(const json_t *value, const char *path, const char *expected);
