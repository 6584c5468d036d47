#include "gateway/serve/rights.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/log.h"
#include "gateway/serve/sandbox.h"

/* If the engine's user does not exist, an engine started by root becomes "nobody". */
enum { RIGHTS_NOBODY = 65534 };

/* Reports a weakness: with sandbox=required it fails, else it warns and says how to mend it. */
static enum status decide_weaker(const struct rights *rights, const char *event, const char *why,
                                 const char *mend)
{
    if (rights->is_required)
        FAIL(STATUS_FORBIDDEN, "sandbox=required: %s; %s", why, mend);
    LOG(LOG_WARN, event, LOG_TEXT("why", why), LOG_TEXT("mend", mend));
    return STATUS_OK;
}

static enum status decide_mode(struct rights *rights, const struct config *config)
{
    rights->is_on = strcmp(config->sandbox, "off") != 0;
    rights->is_required = strcmp(config->sandbox, "required") == 0;
    if (rights->is_on && !rights->is_required && strcmp(config->sandbox, "auto") != 0)
        FAIL_PARAM(STATUS_INVALID, "sandbox", "--sandbox is auto, required or off");
    rights->landlock = rights->is_on ? sandbox_landlock() : 0;
    rights->sandbox = !rights->is_on ? "off" : rights->landlock > 0 ? "landlock" : "none";
    if (!rights->is_on)
        LOG(LOG_WARN, "sandbox_off",
            LOG_TEXT("why", "the engine can open every file that its user can"));
    else if (rights->landlock == 0)
        return decide_weaker(rights, "sandbox_none",
                             "this kernel has no Landlock, so the engine can open every file that "
                             "its user can",
                             "boot with landlock in the kernel's list lsm=, or start as root with "
                             "the users banyan-edge and banyan-engine");
    return STATUS_OK;
}

/* --- users --- */

static enum status user_find(const struct rights *rights, const char *name, bool *is_found,
                             uid_t *user, gid_t *group)
{
    char mend[160];
    errno = 0;
    const struct passwd *entry = name[0] != '\0' ? getpwnam(name) : NULL;
    *is_found = entry != NULL && entry->pw_uid != 0;
    if (*is_found) {
        *user = entry->pw_uid;
        *group = entry->pw_gid;
        return STATUS_OK;
    }
    snprintf(mend, sizeof mend,
             "run: useradd --system --user-group --no-create-home --shell /usr/sbin/nologin %.64s",
             name[0] != '\0' ? name : "NAME");
    return decide_weaker(rights, "user_missing",
                         "the server was started as root, and this user does not exist", mend);
}

/* Runs in a forked child that has become the edge's user. Names the option whose file that user
 * cannot read, or "" when it can read all of them. Of the data directory only the path to it
 * counts, not its mode: it is given to that user next. */
static const char *reach_missing(const struct config *config)
{
    struct stat about;
    if (stat(config->data_dir, &about) != 0)
        return "data_dir";
    const struct {
        const char *option;
        const char *path;
    } files[] = {{"tls_cert", config->tls_cert},
                 {"tls_key", config->tls_key},
                 {"client_ca", config->client_ca},
                 {"admin_client_ca", config->admin_client_ca},
                 {"client_crl", config->client_crl},
                 {"config", config->config},
                 {"redis_password_file", config->redis_password_file}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (files[i].path[0] != '\0' && access(files[i].path, R_OK) != 0)
            return files[i].option;
    }
    return "";
}

enum { REACH_BYTES = 32 };

static void reach_child(const struct rights *rights, const struct config *config, int answer)
{
    const char *missing = "fork";
    if (setgroups(0, NULL) == 0 &&
        setresgid(rights->edge_group, rights->edge_group, rights->edge_group) == 0 &&
        setresuid(rights->edge_user, rights->edge_user, rights->edge_user) == 0)
        missing = reach_missing(config);
    ssize_t written = write(answer, missing, strlen(missing) + 1);
    _exit(written > 0 ? 0 : 1);
}

static enum status reach_try(const struct rights *rights, const struct config *config,
                             char missing[REACH_BYTES])
{
    int ends[2];
    memcpy(missing, "fork", 5);
    if (pipe2(ends, O_CLOEXEC) != 0)
        FAIL(STATUS_IO, "pipe: %s", strerrordesc_np(errno));
    pid_t pid = fork();
    if (pid == 0)
        reach_child(rights, config, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        ssize_t got = read(ends[0], missing, REACH_BYTES - 1);
        missing[got > 0 ? got : 0] = '\0';
        waitpid(pid, NULL, 0);
        if (got <= 0)
            memcpy(missing, "fork", 5);
    }
    close(ends[0]);
    return STATUS_OK;
}

/* Where the edge's user could not read what the edge needs, the edge stays root, without root's
 * capabilities. */
static enum status decide_edge(struct rights *rights, const struct config *config)
{
    bool is_found = false;
    TRY(user_find(rights, config->edge_user, &is_found, &rights->edge_user, &rights->edge_group));
    if (!is_found)
        return STATUS_OK;
    char missing[REACH_BYTES];
    TRY(reach_try(rights, config, missing));
    if (missing[0] == '\0')
        return STATUS_OK;
    rights->edge_user = rights->own_user;
    rights->edge_group = getegid();
    char why[128 + REACH_BYTES];
    snprintf(why, sizeof why, "user %.64s cannot reach the file of --%s, so the edge stays root",
             config->edge_user, missing);
    return decide_weaker(rights, "edge_stays_root", why,
                         strcmp(missing, "data_dir") == 0
                             ? "use a --data-dir such as /var/lib/banyan"
                             : "let that user read it, and search the directories above it");
}

static enum status decide_engine(struct rights *rights, const struct config *config)
{
    bool is_found = false;
    rights->engine_user = RIGHTS_NOBODY;
    rights->engine_group = RIGHTS_NOBODY;
    TRY(user_find(rights, config->engine_user, &is_found, &rights->engine_user,
                  &rights->engine_group));
    if (rights->engine_user == rights->edge_user)
        FAIL_PARAM(STATUS_INVALID, "engine_user",
                   "--engine-user and --edge-user name the same user; the engine must not own the "
                   "edge's files");
    return STATUS_OK;
}

enum status rights_decide(struct rights *out, const struct config *config)
{
    *out = (struct rights){.own_user = geteuid(),
                           .edge_user = geteuid(),
                           .edge_group = getegid(),
                           .engine_user = geteuid(),
                           .engine_group = getegid()};
    TRY(decide_mode(out, config));
    if (out->own_user != 0 || !out->is_on)
        return STATUS_OK;
    TRY(decide_edge(out, config));
    return decide_engine(out, config);
}

/* --- the data directory --- */

enum status rights_open_data(const struct config *config, int *out)
{
    const char *path = config->data_dir;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "data directory %s: %s", path, strerrordesc_np(errno));
    int data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat about;
    if (data < 0 || fstat(data, &about) != 0) {
        int error = errno;
        if (data >= 0)
            close(data);
        FAIL(STATUS_IO, "data directory %s: %s", path, strerrordesc_np(error));
    }
    const struct passwd *edge = geteuid() == 0 ? getpwnam(config->edge_user) : NULL;
    bool is_own = about.st_uid == geteuid() || (edge != NULL && about.st_uid == edge->pw_uid);
    if (is_own && (about.st_mode & 077) == 0) {
        *out = data;
        return STATUS_OK;
    }
    close(data);
    if (!is_own)
        FAIL(STATUS_FORBIDDEN,
             "data directory %s belongs to user %d: start as this user, or run: chown -R %d %s",
             path, (int)about.st_uid, (int)geteuid(), path);
    FAIL(STATUS_FORBIDDEN,
         "other users can read data directory %s, which holds secrets; run: chmod 700 %s", path,
         path);
}

/* Changes the owner of one entry of a directory, if it is a plain file with one name and belongs to
 * root or to the directory's former owner. A file with two names could be a file elsewhere. */
static enum status give_entry(int directory, const char *name, const struct stat *former,
                              uid_t user, gid_t group)
{
    int entry = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;
    if (entry < 0)
        return STATUS_OK; /* it was removed meanwhile */
    int failed = 0;
    if (fstat(entry, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1 &&
        about.st_uid != user && (about.st_uid == 0 || about.st_uid == former->st_uid))
        failed = fchownat(entry, "", user, group, AT_EMPTY_PATH);
    int error = errno;
    close(entry);
    if (failed != 0)
        FAIL(STATUS_IO, "owner of a file in the data directory: %s", strerrordesc_np(error));
    return STATUS_OK;
}

/* The plain files of one directory, then the directory itself. */
static enum status give_directory(int directory, uid_t user, gid_t group)
{
    struct stat former;
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    if (list == NULL || fstat(directory, &former) != 0) {
        int error = errno;
        if (list != NULL)
            closedir(list);
        else if (again >= 0)
            close(again);
        FAIL(STATUS_IO, "data directory: %s", strerrordesc_np(error));
    }
    enum status status = STATUS_OK;
    const struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(list)) != NULL)
        status = give_entry(directory, entry->d_name, &former, user, group);
    closedir(list);
    if (status == STATUS_OK && fchown(directory, user, group) != 0)
        FAIL(STATUS_IO, "owner of the data directory: %s", strerrordesc_np(errno));
    return status;
}

enum status rights_give_data(const struct rights *rights, int data)
{
    if (rights->own_user != 0 || !rights->is_on)
        return STATUS_OK;
    int tls = openat(data, "tls", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tls >= 0) {
        enum status status = give_directory(tls, rights->edge_user, rights->edge_group);
        close(tls);
        TRY(status);
    }
    return give_directory(data, rights->edge_user, rights->edge_group);
}

enum status rights_open_state(const struct rights *rights, int data, int *out)
{
    if (mkdirat(data, "engine", 0700) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "engine's directory: %s", strerrordesc_np(errno));
    int state = openat(data, "engine", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state < 0)
        FAIL(STATUS_IO, "engine's directory: %s", strerrordesc_np(errno));
    bool is_root = rights->own_user == 0 && rights->is_on;
    enum status status = STATUS_OK;
    if (is_root)
        status = give_directory(state, rights->engine_user, rights->edge_group);
    if (status == STATUS_OK && fchmod(state, is_root ? 0710 : 0700) != 0)
        status = status_fail(STATUS_IO, __FILE__, __LINE__, NULL, "engine's directory: %s",
                             strerrordesc_np(errno));
    if (status != STATUS_OK)
        close(state);
    else
        *out = state;
    return status;
}
