#include "auth/credential/auth_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/credential/api_key.h"
#include "config/base/limits.h"

static enum status file_failed(const char *name, const char *what)
{
    int error = errno;
    FAIL(error == ENOSPC || error == EDQUOT ? STATUS_STORAGE_FULL : STATUS_IO, "%s %s: %s", name,
         what, strerrordesc_np(error));
}

static enum status open_folder(const char *folder, const char *name, bool may_make, int *out)
{
    if (may_make)
        mkdir(folder, 0700); /* if it fails, open fails too */
    *out = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *out < 0 ? file_failed(name, "cannot be reached: data directory") : STATUS_OK;
}

static enum status write_temporary(int folder, const char *temporary, const char *name,
                                   struct slice content)
{
    int descriptor =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return file_failed(name, "cannot be made");
    size_t done = 0;
    while (done < content.length) {
        ssize_t wrote = write(descriptor, content.bytes + done, content.length - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            break;
        done += (size_t)wrote;
    }
    enum status status = STATUS_OK;
    if (done < content.length || fsync(descriptor) != 0)
        status = file_failed(name, "cannot be written");
    close(descriptor);
    return status;
}

enum status auth_file_write(const char *folder, const char *name, struct slice content,
                            bool may_replace)
{
    int descriptor;
    char random[13];
    char temporary[64];
    api_key_random(random, sizeof random - 1);
    snprintf(temporary, sizeof temporary, ".%.40s.%s", name, random);
    TRY(open_folder(folder, name, true, &descriptor));
    enum status status = write_temporary(descriptor, temporary, name, content);
    if (status == STATUS_OK) {
        /* linkat never replaces a file; renameat always does. */
        int failed = may_replace ? renameat(descriptor, temporary, descriptor, name)
                                 : linkat(descriptor, temporary, descriptor, name, 0);
        if (failed != 0 && errno == EEXIST)
            status =
                status_fail(STATUS_EXISTS, __FILE__, __LINE__, NULL, "%s is there already", name);
        else if (failed != 0)
            status = file_failed(name, "cannot be put into its place");
    }
    unlinkat(descriptor, temporary, 0); /* after renameat there is nothing to remove */
    if (status == STATUS_OK && fsync(descriptor) != 0)
        status = file_failed(name, "cannot be made durable");
    close(descriptor);
    return status;
}

static enum status read_checked(int descriptor, const char *name, uid_t folder_user,
                                struct buffer *out)
{
    struct stat about;
    char bytes[LIMIT_SECRETS_BYTES + 1];
    if (fstat(descriptor, &about) != 0)
        return file_failed(name, "cannot be read");
    if (!S_ISREG(about.st_mode))
        FAIL(STATUS_CORRUPT, "%s is not a plain file", name);
    if (about.st_uid != geteuid() && about.st_uid != folder_user)
        FAIL(STATUS_FORBIDDEN, "%s belongs to user %d; in the data directory run: chown %d %s",
             name, (int)about.st_uid, (int)folder_user, name);
    if ((about.st_mode & 077) != 0)
        FAIL(STATUS_FORBIDDEN,
             "%s can be read or written by others; in the data directory run: chmod 600 %s", name,
             name);
    ssize_t got;
    do {
        got = read(descriptor, bytes, sizeof bytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return file_failed(name, "cannot be read");
    if (got > LIMIT_SECRETS_BYTES)
        FAIL(STATUS_CORRUPT, "%s is longer than %d bytes", name, LIMIT_SECRETS_BYTES);
    buffer_append(out, bytes, (size_t)got);
    return out->status;
}

enum status auth_file_read(const char *folder, const char *name, struct buffer *out)
{
    int folder_descriptor;
    TRY(open_folder(folder, name, false, &folder_descriptor));
    int descriptor =
        openat(folder_descriptor, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int error = errno;
    struct stat folder_about = {.st_uid = geteuid()};
    (void)fstat(folder_descriptor, &folder_about);
    close(folder_descriptor);
    errno = error;
    if (descriptor < 0 && error == ENOENT)
        FAIL(STATUS_NOT_FOUND, "%s is not there", name);
    if (descriptor < 0)
        return file_failed(name, "cannot be opened");
    enum status status = read_checked(descriptor, name, folder_about.st_uid, out);
    close(descriptor);
    return status;
}

enum status auth_file_rename(const char *folder, const char *from, const char *to)
{
    int descriptor;
    TRY(open_folder(folder, to, false, &descriptor));
    enum status status = STATUS_OK;
    if (renameat(descriptor, from, descriptor, to) != 0)
        status = file_failed(to, "cannot be put into its place");
    else if (fsync(descriptor) != 0)
        status = file_failed(to, "cannot be made durable");
    close(descriptor);
    return status;
}

enum status auth_file_remove(const char *folder, const char *name)
{
    int descriptor;
    TRY(open_folder(folder, name, false, &descriptor));
    enum status status = STATUS_OK;
    if (unlinkat(descriptor, name, 0) != 0 && errno != ENOENT)
        status = file_failed(name, "cannot be removed");
    close(descriptor);
    return status;
}
