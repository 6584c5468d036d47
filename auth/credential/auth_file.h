/* auth_file: small files that hold secrets. They have mode 0600 and are complete or missing.
 *
 * Owns:     nothing that stays open.
 * Thread:   any. If two processes create the same file, one of them gets EXISTS.
 * Cost:     two fsyncs for each file written.
 * Not here: the contents of the files (auth_secrets, auth).
 */
#pragma once

#include "config/base/slice.h"

/* Writes `content` as `folder`/`name`, durably. Makes the folder (mode 0700) when it is missing.
 * EXISTS when the file exists and `may_replace` is false. IO or STORAGE_FULL; a failure leaves no
 * temporary file. Messages contain `name`, never the folder or the content. */
enum status auth_file_write(const char *folder, const char *name, struct slice content,
                            bool may_replace);

/* Appends a file of at most LIMIT_SECRETS_BYTES to `out`. NOT_FOUND. FORBIDDEN when the file
 * belongs neither to this process's user nor to the folder's owner, or when others may read or
 * write it; the message says how to mend it. CORRUPT when it is longer or not a plain file. IO. */
enum status auth_file_read(const char *folder, const char *name, struct buffer *out);

/* Renames `from` to `to`, durably, replacing a file of that name. IO or STORAGE_FULL. */
enum status auth_file_rename(const char *folder, const char *from, const char *to);

/* Removes a file; OK when there is none. IO. */
enum status auth_file_remove(const char *folder, const char *name);
