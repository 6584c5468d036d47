#include "gateway/serve/admin_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "config/base/limits.h"
#include "config/store.h"
#include "gateway/serve/rights.h"
#include "gateway/serve/sandbox.h"

enum { PATH_BYTES = LIMIT_OPTION_BYTES + 64, LOCKS = 2 };

struct work {
    const struct config *config;
    struct rights rights;
    int data;
    int locks[LOCKS]; /* -1 = not taken */
    struct store *store;
    struct auth *auth;
};

/* Takes the locks of a server. A running edge has its keys in memory: it would not know the new
 * key. */
static enum status open_locks(struct work *work)
{
    static const char *const names[LOCKS] = {"serve.lock", "edge.lock"};
    for (int i = 0; i < LOCKS; i++) {
        work->locks[i] =
            openat(work->data, names[i], O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (work->locks[i] < 0)
            FAIL(STATUS_IO, "%s: %s", names[i], strerrordesc_np(errno));
        if (flock(work->locks[i], LOCK_EX | LOCK_NB) != 0)
            FAIL(STATUS_CONFLICT, "a server uses %s: stop it, make the key, and start it again",
                 work->config->data_dir);
    }
    return STATUS_OK;
}

static enum status open_all(struct work *work)
{
    char path[PATH_BYTES];
    struct stat about;
    const char *folder = work->config->data_dir;
    snprintf(path, sizeof path, "%s/banyan.db", folder);
    if (stat(path, &about) != 0)
        FAIL(STATUS_NOT_FOUND, "%s: %s: no server has used this directory; give its --data-dir",
             path, strerrordesc_np(errno));
    TRY(rights_open_data(work->config, &work->data));
    TRY(open_locks(work));
    TRY(rights_decide(&work->rights, work->config));
    TRY(rights_give_data(&work->rights, work->data));
    TRY(store_open(&work->store, path));
    return auth_open(&work->auth, folder, work->store);
}

static enum status make(struct work *work)
{
    struct tenant_key key;
    char peer[48];
    snprintf(peer, sizeof peer, "banyan admin-key, user %u", (unsigned)getuid());
    TRY(auth_admin_key_make(work->auth, work->config->data_dir, SLICE("banyan admin-key"), peer,
                            &key));
    printf("%s/admin.key holds the value of %s, which has all scopes; start the server again\n",
           work->config->data_dir, key.id);
    return STATUS_OK;
}

enum status admin_key_run(const struct config *config, const struct config_sources *sources)
{
    (void)sources;
    struct work work = {.config = config, .data = -1, .locks = {-1, -1}};
    sandbox_process();
    enum status status = open_all(&work);
    if (status == STATUS_OK)
        status = make(&work);
    struct error_note note = *status_note();
    if (work.auth != NULL)
        auth_close(work.auth);
    if (work.store != NULL)
        store_close(work.store);
    if (status == STATUS_OK) /* new files get the owner of the directory */
        status = rights_give_data(&work.rights, work.data);
    else
        status_note_set(&note);
    for (int i = 0; i < LOCKS; i++) {
        if (work.locks[i] >= 0)
            close(work.locks[i]);
    }
    if (work.data >= 0)
        close(work.data);
    return status;
}
