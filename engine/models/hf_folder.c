#include "engine/models/hf_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/limits_files.h"

bool hf_folder_is_name(struct slice name)
{
    if (name.length == 0 || name.length > LIMIT_FOLDER_NAME_BYTES || slice_is(name, ".") ||
        slice_is(name, ".."))
        return false;
    for (size_t i = 0; i < name.length; i++)
        if ((unsigned char)name.bytes[i] < 0x20 || name.bytes[i] == 0x7f || name.bytes[i] == '/')
            return false;
    return true;
}

enum status hf_folder_open(int folder, const char *name, int *out)
{
    struct stat info;
    /* O_NONBLOCK, so that the start does not hang if the name is that of a pipe. */
    int descriptor =
        openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    *out = -1;
    if (descriptor < 0 && errno == ENOENT)
        FAIL(STATUS_NOT_FOUND, "model directory: there is no %s", name);
    if (descriptor < 0 && errno == ELOOP)
        FAIL(STATUS_CORRUPT, "model directory: %s is a symbolic link", name);
    if (descriptor < 0)
        FAIL(STATUS_IO, "model directory: %s cannot be opened: %s", name, strerrordesc_np(errno));
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(descriptor);
        FAIL(STATUS_CORRUPT, "model directory: %s is not a regular file", name);
    }
    *out = descriptor;
    return STATUS_OK;
}

enum status hf_folder_read(int folder, const char *name, size_t limit, struct buffer *out)
{
    char part[65536];
    ssize_t length = 1;
    int descriptor;
    buffer_init(out, limit);
    TRY(hf_folder_open(folder, name, &descriptor));
    while (length > 0 && out->status == STATUS_OK) {
        length = read(descriptor, part, sizeof part);
        if (length > 0)
            buffer_append(out, part, (size_t)length);
    }
    const int error = errno;
    close(descriptor);
    if (length < 0)
        FAIL(STATUS_IO, "model directory: %s cannot be read: %s", name, strerrordesc_np(error));
    if (out->status == STATUS_LIMIT)
        FAIL(STATUS_LIMIT, "model directory: %s is longer than %zu bytes", name, limit);
    if (out->status != STATUS_OK)
        FAIL(out->status, "model directory: no memory for %s", name);
    return STATUS_OK;
}

enum status hf_folder_read_json(int folder, const char *name, struct buffer *text,
                                struct json_read *out)
{
    const struct json_read_limits limits = {.depth = LIMIT_CONFIG_DEPTH,
                                            .values = LIMIT_CONFIG_VALUES};
    TRY(hf_folder_read(folder, name, LIMIT_CONFIG_BYTES, text));
    const enum status status = json_read(out, buffer_slice(text), &limits);
    if (status == STATUS_INVALID || status == STATUS_LIMIT)
        FAIL(STATUS_CORRUPT, "%s: %s", name, status_note()->message);
    return status;
}
