/* hf_folder: files of an open directory, by their base names.
 *
 * Owns:     nothing: the caller owns descriptors and bytes.
 * Thread:   any.
 * Cost:     reads whole files.
 * Not here: what is in the files.
 *
 * A name that a file gives (an index) must not lead out of the directory: it has no '/', and
 * symbolic links are refused. So a directory of Hugging Face's cache, which has links to blobs, is
 * not served; `hf download --local-dir` writes files.
 */
#pragma once

#include <stdbool.h>

#include "config/base/json_read.h"
#include "config/base/slice.h"

/* Whether `name` is a plain file name: no '/', no control characters, neither "." nor "..". */
bool hf_folder_is_name(struct slice name);

/* Opens the regular file `name` for reading. NOT_FOUND when there is none, IO, CORRUPT for a link,
 * a folder or anything else. The caller closes `*out`. */
enum status hf_folder_open(int folder, const char *name, int *out);

/* Reads a file of at most `limit` bytes. `out` is initialised here, also on failure; the caller
 * frees it with buffer_deinit. Errors as hf_folder_open; LIMIT, NO_MEMORY. */
enum status hf_folder_read(int folder, const char *name, size_t limit, struct buffer *out);
/* Reads a file of configuration as JSON. `text` is as `out` of hf_folder_read, and must outlive
 * `out`. Errors as hf_folder_read; CORRUPT for what is no JSON or over its limits. */
enum status hf_folder_read_json(int folder, const char *name, struct buffer *text,
                                struct json_read *out);
