/* auth_file: small files that hold secrets: mode 0600, there whole or not at all.
 *
 * Owns:     nothing that stays open.
 * Thread:   any; two processes that create the same file: one of them gets EXISTS.
 * Cost:     two fsyncs a file.
 * Not here: what the files say (auth_secrets, auth).
 */
#pragma once

#include "config/base/slice.h"

/* Writes `content` as `folder`/`name`, durable when it returns. EXISTS when it is there already and
 * `may_replace` is false; IO or STORAGE_FULL otherwise, and then nothing is left behind. Messages
 * name `name` only. Makes the folder (0700) when it is missing. */
enum status auth_file_write(const char *folder, const char *name, struct slice content,
                            bool may_replace);

/* Reads a file of at most LIMIT_SECRETS_BYTES. NOT_FOUND; FORBIDDEN, with what mends it,
 * when it is neither ours nor of the folder's owner, or when anybody else may read or write it;
 * CORRUPT when it is longer or no plain file. */
enum status auth_file_read(const char *folder, const char *name, struct buffer *out);

/* `from` takes the place of `to`, durable when it returns. */
enum status auth_file_rename(const char *folder, const char *from, const char *to);

enum status auth_file_remove(const char *folder, const char *name);
