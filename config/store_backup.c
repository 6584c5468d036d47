#include "config/store_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/store.h"

/* Opens an existing file. store_connect would create a missing one. */
static enum status open_file(sqlite3 **out, const char *path)
{
    struct stat about;
    *out = NULL;
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode))
        FAIL(STATUS_NOT_FOUND, "there is no database %s", path);
    int code = sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_busy_timeout(*out, STORE_BUSY_MS);
    return store_status(code, "database");
}

/* Begins a read transaction: later reads see the file as it is now. */
static enum status snapshot(sqlite3 *connection)
{
    sqlite3_stmt *statement = NULL;
    TRY(store_execute(connection, "begin"));
    int code =
        sqlite3_prepare_v2(connection, "select count(*) from sqlite_schema", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return store_status(code, "database");
}

/* Takes a snapshot of each file. A write lock on the first file keeps it unchanged until the last
 * snapshot is taken, so no copy refers to a row of the first file that its copy lacks. */
static enum status snapshot_all(struct store_backup_file *files, sqlite3 **sources, size_t count)
{
    sqlite3 *guard = NULL;
    enum status status = open_file(&guard, files[0].from);
    if (status == STATUS_OK)
        status = store_execute(guard, "begin immediate");
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        status = open_file(&sources[i], files[i].from);
        if (status == STATUS_OK)
            status = snapshot(sources[i]);
    }
    sqlite3_close(guard); /* nothing was changed */
    return status;
}

static enum status copy_pages(sqlite3 *source, sqlite3 *target)
{
    sqlite3_backup *backup = sqlite3_backup_init(target, "main", source, "main");
    if (backup == NULL)
        return store_status(sqlite3_extended_errcode(target), "copy");
    int code = sqlite3_backup_step(backup, -1);
    int ended = sqlite3_backup_finish(backup);
    return store_status(code == SQLITE_DONE ? ended : code, "copy");
}

static enum status copy_sync(struct store_backup_file *file)
{
    struct stat about;
    int descriptor = open(file->to, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0 || fsync(descriptor) != 0 || fstat(descriptor, &about) != 0) {
        int reason = errno;
        if (descriptor >= 0)
            close(descriptor);
        FAIL(STATUS_IO, "%s: %s", file->to, strerrordesc_np(reason));
    }
    close(descriptor);
    file->bytes = about.st_size;
    return STATUS_OK;
}

/* Copies into the file that make_file created with mode 0600, so that nobody else can read it even
 * for a moment. */
static enum status copy_file(sqlite3 *source, struct store_backup_file *file)
{
    sqlite3 *target = NULL;
    int code =
        sqlite3_open_v2(file->to, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    enum status status = store_status(code, "copy");
    if (status == STATUS_OK)
        status = copy_pages(source, target);
    sqlite3_close(target);
    return status == STATUS_OK ? copy_sync(file) : status;
}

static enum status make_file(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        FAIL(errno == EEXIST   ? STATUS_EXISTS
             : errno == ENOSPC ? STATUS_STORAGE_FULL
                               : STATUS_IO,
             "%s: %s", path, strerrordesc_np(errno));
    close(descriptor);
    return STATUS_OK;
}

enum status store_backup(struct store_backup_file *files, size_t count)
{
    sqlite3 *sources[STORE_BACKUP_FILES] = {NULL};
    size_t made = 0;
    ASSERT(count >= 1);
    ASSERT(count <= STORE_BACKUP_FILES);
    enum status status = snapshot_all(files, sources, count);
    for (; made < count && status == STATUS_OK; made++) {
        status = make_file(files[made].to);
        if (status != STATUS_OK)
            break;
        status = copy_file(sources[made], &files[made]);
    }
    for (size_t i = 0; i < made && status != STATUS_OK; i++)
        unlink(files[i].to);
    for (size_t i = 0; i < count; i++)
        sqlite3_close(sources[i]);
    return status;
}
