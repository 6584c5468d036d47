#include "gateway/serve/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/edit_distance.h"
#include "config/base/flag_word.h"
#include "config/base/limits.h"
#include "config/store_backup.h"

enum { PATH_BYTES = LIMIT_OPTION_BYTES + 512, COPY_BYTES = 64 * 1024 };

/* Secrets: single files, and folders of which every plain file is copied. */
static const char *const secret_files[] = {"secrets", "admin.key"};
static const char *const secret_folders[] = {"tls", "jwks"};
enum {
    SECRET_FILES = sizeof secret_files / sizeof secret_files[0],
    SECRET_FOLDERS = sizeof secret_folders / sizeof secret_folders[0],
};

struct words {
    const char *data_dir;
    const char *to;
    bool has_secrets;
};

static enum status path_of(char out[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_BYTES)
        FAIL(STATUS_LIMIT, "the path %.64s… is too long", folder);
    return STATUS_OK;
}

/* --- secrets --- */

static enum status copy_bytes(int from, int to, const char *path)
{
    static char bytes[COPY_BYTES];
    ssize_t got = read(from, bytes, sizeof bytes);
    for (; got > 0; got = read(from, bytes, sizeof bytes)) {
        for (ssize_t at = 0; at < got;) {
            ssize_t put = write(to, bytes + at, (size_t)(got - at));
            if (put < 0)
                FAIL(errno == ENOSPC ? STATUS_STORAGE_FULL : STATUS_IO, "%s: %s", path,
                     strerrordesc_np(errno));
            at += put;
        }
    }
    explicit_bzero(bytes, sizeof bytes);
    if (got < 0 || fsync(to) != 0)
        FAIL(STATUS_IO, "%s: %s", path, strerrordesc_np(errno));
    return STATUS_OK;
}

/* Copies one plain file. Nothing is copied when there is no such file, or no plain file. */
static enum status copy_secret(const char *from_folder, const char *to_folder, const char *name)
{
    char from_path[PATH_BYTES];
    char to_path[PATH_BYTES];
    struct stat about;
    TRY(path_of(from_path, from_folder, name));
    TRY(path_of(to_path, to_folder, name));
    if (lstat(from_path, &about) != 0 || !S_ISREG(about.st_mode))
        return STATUS_OK;
    int from = open(from_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        FAIL(STATUS_IO, "%s: %s", from_path, strerrordesc_np(errno));
    int to = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum status status = to >= 0 ? copy_bytes(from, to, to_path)
                                 : status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "%s: %s",
                                               to_path, strerrordesc_np(errno));
    close(from);
    if (to >= 0)
        close(to);
    return status;
}

/* A new name survives a power cut only once its folder has been synced too. */
static enum status folder_sync(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    TRY(path_of(path, folder, name));
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = descriptor < 0 || fsync(descriptor) != 0;
    int reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (failed != 0)
        FAIL(STATUS_IO, "%s: %s", path, strerrordesc_np(reason));
    return STATUS_OK;
}

static enum status copy_folder(const char *from, const char *to, const char *name)
{
    char from_folder[PATH_BYTES];
    char to_folder[PATH_BYTES];
    TRY(path_of(from_folder, from, name));
    TRY(path_of(to_folder, to, name));
    DIR *folder = opendir(from_folder);
    if (folder == NULL)
        return STATUS_OK;
    enum status status = STATUS_OK;
    if (mkdir(to_folder, 0700) != 0)
        status = status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "%s: %s", to_folder,
                             strerrordesc_np(errno));
    for (struct dirent *entry = readdir(folder); entry != NULL && status == STATUS_OK;
         entry = readdir(folder))
        status = copy_secret(from_folder, to_folder, entry->d_name);
    closedir(folder);
    return status == STATUS_OK ? folder_sync(to, name) : status;
}

static enum status copy_secrets(const char *from, const char *to)
{
    for (int i = 0; i < SECRET_FILES; i++)
        TRY(copy_secret(from, to, secret_files[i]));
    for (int i = 0; i < SECRET_FOLDERS; i++)
        TRY(copy_folder(from, to, secret_folders[i]));
    return STATUS_OK;
}

/* --- databases --- */

static enum status copy_databases(const char *from, const char *to)
{
    static const char *const names[] = {"banyan.db", "ledger.db"};
    char paths[4][PATH_BYTES];
    struct store_backup_file files[2];
    for (int i = 0; i < 2; i++) {
        TRY(path_of(paths[i], from, names[i]));
        TRY(path_of(paths[2 + i], to, names[i]));
        files[i] = (struct store_backup_file){.from = paths[i], .to = paths[2 + i]};
    }
    TRY(store_backup(files, 2));
    for (int i = 0; i < 2; i++)
        printf("%s: %lld bytes\n", files[i].to, (long long)files[i].bytes);
    return STATUS_OK;
}

/* --- the folder --- */

static void folder_empty(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL;
         entry = readdir(folder))
        (void)unlinkat(dirfd(folder), entry->d_name, 0); /* folders and dots stay */
    if (folder != NULL)
        closedir(folder);
}

/* Removes a backup that could not be finished. */
static void folder_remove(const char *path)
{
    for (int i = 0; i < SECRET_FOLDERS; i++) {
        char inner[PATH_BYTES];
        if (path_of(inner, path, secret_folders[i]) != STATUS_OK)
            return;
        folder_empty(inner);
        (void)rmdir(inner);
    }
    folder_empty(path);
    (void)rmdir(path);
}

/* --- words --- */

static enum status words_unknown(const char *word)
{
    static const char *const names[] = {"--data-dir", "--to", "--with-secrets"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && flag_word_is(word); i++) {
        if (edit_distance(names[i], slice_of(word), NULL) <= 2)
            FAIL(STATUS_INVALID, "there is no flag '%.64s'; did you mean '%s'?", word, names[i]);
    }
    FAIL(STATUS_INVALID, "'%.64s' is none of --data-dir D, --to F, --with-secrets", word);
}

static enum status words_read(int argc, const char *const *argv, struct words *out)
{
    for (int i = 0; i < argc; i++) {
        const char **value = strcmp(argv[i], "--data-dir") == 0 ? &out->data_dir
                             : strcmp(argv[i], "--to") == 0     ? &out->to
                                                                : NULL;
        if (strcmp(argv[i], "--with-secrets") == 0)
            out->has_secrets = true;
        else if (value == NULL)
            return words_unknown(argv[i]);
        else if (i + 1 == argc || flag_word_is(argv[i + 1]))
            FAIL(STATUS_INVALID, "%s wants a folder; one that begins with a dash is written ./-…",
                 argv[i]);
        else
            *value = argv[++i];
    }
    if (out->to == NULL || out->to[0] == '\0')
        FAIL(STATUS_INVALID, "--to F is missing: the folder to make");
    return STATUS_OK;
}

enum status backup_run(int argc, const char *const *argv, const char *data_dir)
{
    struct words words = {.data_dir = data_dir != NULL ? data_dir : "banyan-data"};
    TRY(words_read(argc, argv, &words));
    if (mkdir(words.to, 0700) != 0)
        FAIL(errno == EEXIST ? STATUS_EXISTS : STATUS_IO, "%s: %s", words.to,
             errno == EEXIST ? "it exists already, and a backup replaces nothing"
                             : strerrordesc_np(errno));
    enum status status = copy_databases(words.data_dir, words.to);
    if (status == STATUS_OK && words.has_secrets)
        status = copy_secrets(words.data_dir, words.to);
    if (status == STATUS_OK)
        status = folder_sync(words.to, ".");
    if (status == STATUS_OK)
        status = folder_sync(words.to, ".."); /* which has the new folder's name */
    if (status != STATUS_OK)
        folder_remove(words.to);
    return status;
}
