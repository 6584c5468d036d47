#include "gateway/edge/state/edge_reload.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/mem.h"

enum { LOOK_EVERY_MS = 60000 };

/* The state of a file when it was last looked at; all zero when it did not exist. */
struct reload_file {
    char *path;
    struct timespec changed;
    uint64_t inode;
};

struct edge_reload {
    struct edge *edge;
    const struct config_sources *sources;
    const struct config *first; /* the caller's; kept, because others point to its texts */
    const struct config *last;  /* owned here; NULL before the first reload */
    struct reload_file cert;
    struct reload_file key;
    struct loop_timer *timer;
    int parent_descriptor; /* -1: there is no parent to tell */
    void (*changed)(void *context, const struct config *config);
    void *context;
};

/* Looks at the file and returns whether it has changed since the last look. */
static bool file_look(struct reload_file *file)
{
    struct stat about;
    struct reload_file now = {.path = file->path};
    if (stat(file->path, &about) == 0) {
        now.changed = about.st_mtim;
        now.inode = about.st_ino;
    }
    bool is_other = now.inode != file->inode || now.changed.tv_sec != file->changed.tv_sec ||
                    now.changed.tv_nsec != file->changed.tv_nsec;
    *file = now;
    return is_other;
}

/* Both listeners take the new certificate, or neither does. The first failure is returned. */
static enum status reload_tls(struct edge_reload *reload)
{
    (void)file_look(&reload->cert);
    (void)file_look(&reload->key);
    TRY(tls_context_read(reload->edge->public_tls));
    TRY(tls_context_read(reload->edge->admin_tls));
    tls_context_take(reload->edge->public_tls);
    tls_context_take(reload->edge->admin_tls);
    return STATUS_OK;
}

static void reload_refused(void)
{
    log_failure(LOG_ERROR, "reload_refused");
}

/* Once a minute: a renewed certificate is taken without a signal. A pair of files that does not
 * match yet, because it is still being written, is tried again at the next look. */
static void reload_look(void *context)
{
    struct edge_reload *reload = context;
    loop_timer_arm(reload->timer, LOOK_EVERY_MS);
    bool is_other = file_look(&reload->cert);
    is_other = file_look(&reload->key) || is_other;
    if (!is_other)
        return;
    if (reload_tls(reload) == STATUS_OK) {
        LOG(LOG_INFO, "certificate_reloaded");
        return;
    }
    /* Forces another try at the next look: a file that is not watched may have been wrong, such as
     * the clients' authorities or their revocation list. */
    reload->cert.inode = 0;
    reload_refused();
}

static enum status reload_try(struct edge_reload *reload, const struct config **next)
{
    *next = NULL;
    if (reload->sources != NULL)
        TRY(config_reload(next, reload->edge->config, reload->sources));
    return reload_tls(reload);
}

enum status edge_reload_now(struct edge_reload *reload)
{
    const struct config *next;
    enum status status = reload_try(reload, &next);
    log_reopen();
    if (status != STATUS_OK) {
        config_release(next);
        reload_refused();
        return status;
    }
    if (next != NULL) {
        reload->edge->config = next;
        config_release(reload->last);
        reload->last = next;
        reload->changed(reload->context, next);
    }
    LOG(LOG_INFO, "reloaded", LOG_NUMBER("revision", reload->edge->config->revision));
    return STATUS_OK;
}

void edge_reload_set_parent(struct edge_reload *reload, int descriptor)
{
    reload->parent_descriptor = descriptor;
}

const struct config_sources *edge_reload_sources(const struct edge_reload *reload)
{
    return reload->sources;
}

enum status edge_reload_check(struct edge_reload *reload, struct buffer *changes)
{
    const struct config *next = NULL;
    if (reload->sources == NULL)
        FAIL(STATUS_UNAVAILABLE, "This server has no options to read again.");
    TRY(config_reload(&next, reload->edge->config, reload->sources));
    config_changes(reload->edge->config, next, changes);
    config_release(next);
    return changes->status;
}

enum status edge_reload_everywhere(struct edge_reload *reload)
{
    TRY(edge_reload_now(reload));
    if (reload->parent_descriptor >= 0 && write(reload->parent_descriptor, "r", 1) != 1)
        LOG(LOG_WARN, "reload_untold");
    return STATUS_OK;
}

enum status edge_reload_create(struct edge_reload **out, struct edge *edge,
                               const struct config_sources *sources, const char *cert_path,
                               const char *key_path,
                               void (*changed)(void *context, const struct config *config),
                               void *context)
{
    struct edge_reload *reload = mem_zalloc(1, sizeof *reload);
    if (reload == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for reloads");
    *reload = (struct edge_reload){.edge = edge,
                                   .sources = sources,
                                   .first = edge->config,
                                   .cert.path = mem_strndup(cert_path, strlen(cert_path)),
                                   .key.path = mem_strndup(key_path, strlen(key_path)),
                                   .timer = loop_timer_create(edge->loop, reload_look, reload),
                                   .parent_descriptor = -1,
                                   .changed = changed,
                                   .context = context};
    if (reload->cert.path == NULL || reload->key.path == NULL || reload->timer == NULL) {
        edge_reload_destroy(reload);
        FAIL(STATUS_NO_MEMORY, "no memory for reloads");
    }
    (void)file_look(&reload->cert);
    (void)file_look(&reload->key);
    loop_timer_arm(reload->timer, LOOK_EVERY_MS);
    *out = reload;
    return STATUS_OK;
}

void edge_reload_destroy(struct edge_reload *reload)
{
    if (reload == NULL)
        return;
    reload->edge->config = reload->first;
    config_release(reload->last);
    if (reload->timer != NULL)
        loop_timer_destroy(reload->timer);
    mem_free(reload->cert.path);
    mem_free(reload->key.path);
    mem_free(reload);
}
