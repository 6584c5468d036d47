#include "gateway/serve/serve_half.h"

#include <arpa/inet.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "auth/ledger/redis_url.h"
#include "config/base/limits_upstream.h"
#include "config/base/log.h"
#include "engine/ranks/rank_follow.h"
#include "gateway/adapter/adapter_address.h"
#include "gateway/adapter/adapter_kind.h"
#include "gateway/edge/edge.h"
#include "gateway/engine_http/engine_http.h"
#include "gateway/http/listener.h"
#include "gateway/pool/pool.h"
#include "gateway/serve/sandbox.h"
#include "gateway/upstream/key_fetch.h"
#include "kernels/kernels_prepare.h"

/* What the engine knows of foreign servers before it is confined. */
struct engine_upstreams {
    struct pool_upstream list[LIMIT_POOL_ENGINES];
    uint32_t count;
};

enum {
    PATH_BYTES = 1024,
    PLACES_MAX = 32,
    DEVICE_PLACES_MAX = 36, /* nodes of one device, and folders of its driver */
    LOCK_WAIT_MS = 5000,    /* time for an engine to end whose parent was killed */
    LOCK_LOOK_MS = 20,
    RANKS_END_MS = 5000,    /* time for ranks to free their memory and end */
    ENGINE_OOM_SCORE = 500, /* of 1000: the engine is ended before the edge, whatever their sizes */
};

/* Places for the sandbox; their descriptors are closed once the rules are made. */
struct places {
    struct sandbox_place places[PLACES_MAX + LIMIT_ENGINES * DEVICE_PLACES_MAX];
    size_t count;
};

/* A path that does not exist now cannot be opened later either. */
static void places_add(struct places *places, const char *path, enum sandbox_access access)
{
    int descriptor = open(path, O_PATH | O_CLOEXEC);
    if (descriptor < 0)
        return;
    ASSERT(places->count < sizeof places->places / sizeof places->places[0]);
    places->places[places->count++] = (struct sandbox_place){descriptor, access};
}

/* Adds the directory of a file, so that the file may be replaced; "" adds nothing. */
static void places_add_folder_of(struct places *places, const char *path,
                                 enum sandbox_access access)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (path[0] == '\0')
        return;
    if (slash == NULL)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    places_add(places, folder, access);
}

/* Adds what an open descriptor refers to. */
static void places_add_open(struct places *places, int descriptor, enum sandbox_access access)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    places_add(places, path, access);
}

/* A model's directory, whose files are opened when the process is confined. A file is open. */
static void places_add_model(struct places *places, int descriptor)
{
    struct stat info;
    if (fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode))
        places_add_open(places, descriptor, SANDBOX_READ);
}

/* The callback of kernels_prepare_places(). */
static void places_add_device(void *context, const char *path, bool is_node)
{
    places_add(context, path, is_node ? SANDBOX_NODE : SANDBOX_READ);
}

/* Opens a device with the rights of the start, and adds the places that its driver opens later. */
static void places_open_device(struct places *places, const char *isa, uint32_t device,
                               const struct ranks *ranks)
{
    kernels_prepare(isa, device, ranks);
    kernels_prepare_places(isa, device, ranks, places_add_device, places);
}

static void places_close(struct places *places)
{
    for (size_t i = 0; i < places->count; i++)
        close(places->places[i].descriptor);
    places->count = 0;
}

/* Asks for a signal when the parent dies; a change of user had cleared that. A parent that died
 * before this call shows by its pid. */
static enum status confine_parent(const struct serve_half_options *options)
{
    int number = options->parent_signal != 0 ? options->parent_signal : SIGTERM;
    if (options->parent == 0)
        return STATUS_OK;
    if (prctl(PR_SET_PDEATHSIG, number) != 0 || getppid() != options->parent)
        FAIL(STATUS_CANCELLED, "the parent has ended");
    return STATUS_OK;
}

static enum status confine_user(const struct serve_half_options *options, uid_t user, gid_t group)
{
    if (options->rights->is_on)
        TRY(sandbox_user(user, group));
    sandbox_process();
    return confine_parent(options);
}

/* Loads the unwinder (libgcc_s) now. pthread_cancel would load it at its first use, when the
 * sandbox hides the file. */
static void confine_load_unwinder(void)
{
    void *frame;
    (void)backtrace(&frame, 1);
}

/* Whether this process is an engine that has ranks, which end with it. */
static bool has_ranks(const struct serve_half_options *options, bool is_edge)
{
    return !is_edge && !options->is_rank && options->config->tensor_parallel > 1;
}

static enum status confine(const struct serve_half_options *options, struct places *places,
                           const struct sandbox_network *network, bool is_edge)
{
    const struct rights *rights = options->rights;
    if (!rights->is_on)
        return STATUS_OK;
    if (SANDBOX_IS_SANITIZED)
        places_add(places, "/proc", SANDBOX_WRITE); /* sanitizers read maps and threads there */
    if (rights->landlock > 0)
        TRY(sandbox_files(places->places, places->count, network, has_ranks(options, is_edge)));
    enum status status = sandbox_calls(is_edge, network->count > 0);
    if (status == STATUS_OK || rights->is_required)
        return status;
    log_failure(LOG_WARN, "system_calls_unfiltered");
    return STATUS_OK;
}

static enum status serve_half_confine(const struct serve_half_options *options,
                                      struct places *places, const struct sandbox_network *network,
                                      bool is_edge)
{
    const struct rights *rights = options->rights;
    confine_load_unwinder();
    enum status status = confine_user(options, is_edge ? rights->edge_user : rights->engine_user,
                                      is_edge ? rights->edge_group : rights->engine_group);
    if (status == STATUS_OK)
        status = confine(options, places, network, is_edge);
    places_close(places);
    if (status == STATUS_OK)
        LOG(LOG_INFO, "confined", LOG_TEXT("sandbox", rights->sandbox),
            LOG_NUMBER("landlock", rights->landlock), LOG_NUMBER("user", geteuid()));
    return status;
}

/* --- engine --- */

/* Confines the engine to `places`, the directory `state` and the ports of `network`. */
static enum status engine_confine(const struct serve_half_options *options, struct places *places,
                                  int state, const struct sandbox_network *network)
{
    places_add_open(places, state, SANDBOX_WRITE);
    return serve_half_confine(options, places, network, false);
}

enum status serve_half_confine_engine(const struct serve_half_options *options, int state)
{
    struct places places = {.count = 0};
    const struct sandbox_network network = {.count = 0};
    return engine_confine(options, &places, state, &network);
}

/* Takes the lock of the state directory: one engine may use it. The descriptor stays open, so the
 * lock ends with the process. */
static enum status engine_lock(int state)
{
    int lock = openat(state, "engine.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        FAIL(STATUS_IO, "engine.lock: %s", strerrordesc_np(errno));
    for (int waited_ms = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; waited_ms += LOCK_LOOK_MS) {
        if (waited_ms >= LOCK_WAIT_MS) {
            close(lock);
            FAIL(STATUS_CONFLICT, "another engine uses this data directory");
        }
        struct timespec look = {.tv_nsec = LOCK_LOOK_MS * 1000000};
        nanosleep(&look, NULL);
    }
    return STATUS_OK;
}

/* Makes the engine's socket; the socket's owner, the edge's user, is the only one who may connect.
 * An engine that was taken over cannot replace the socket unnoticed: the edge asks the kernel who
 * listens. */
static enum status engine_listen(const struct serve_half_options *options, int *out)
{
    char path[PATH_BYTES];
    const struct config *config = options->config;
    int length = config->socket[0] != '\0'
                     ? snprintf(path, sizeof path, "%s", config->socket)
                     : snprintf(path, sizeof path, "%s/engine/engine.sock", config->data_dir);
    if (length < 0 || (size_t)length >= sizeof path)
        FAIL(STATUS_LIMIT, "the data directory's path is too long");
    TRY(listener_bind_unix(out, path));
    const struct rights *rights = options->rights;
    if (rights->own_user == 0 && lchown(path, rights->edge_user, rights->edge_group) != 0) {
        int error = errno;
        close(*out);
        FAIL(STATUS_IO, "owner of the engine's socket: %s", strerrordesc_np(error));
    }
    return STATUS_OK;
}

static enum status engine_open_model(const char *path, int *out)
{
    if (path[0] == '\0')
        FAIL(STATUS_INVALID,
             "no model: set --model FILE.gguf|FOLDER, BANYAN_MODEL, or \"model\" in the "
             "file of --config");
    *out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*out < 0)
        FAIL(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "model file %s: %s", path,
             strerrordesc_np(errno));
    return STATUS_OK;
}

/* Reads the key of a foreign server. */
static enum status engine_open_key(const char *path, char key[LIMIT_UPSTREAM_KEY_BYTES])
{
    key[0] = '\0';
    if (path[0] == '\0')
        return STATUS_OK;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        FAIL(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "--upstream-key-file %s: %s", path,
             strerrordesc_np(errno));
    bool has_line = fgets(key, LIMIT_UPSTREAM_KEY_BYTES, file) != NULL;
    fclose(file);
    size_t length = strcspn(key, "\r\n");
    bool is_sound = has_line && length > 0 && length + 1 < LIMIT_UPSTREAM_KEY_BYTES;
    for (size_t i = 0; i < length && is_sound; i++)
        is_sound = key[i] > ' ' && key[i] <= '~';
    if (!is_sound)
        FAIL(STATUS_INVALID, "--upstream-key-file %s does not hold a key in its first line", path);
    key[length] = '\0';
    return STATUS_OK;
}

/* Reads what one server needs. Of several, one whose name has no address does not keep the others
 * from serving. It gets no port, and stays away until this process starts again. */
static enum status engine_open_upstream(const struct config *config, bool is_alone,
                                        struct pool_upstream *one)
{
    if (strcmp(one->row.kind, "auto") != 0 && adapter_kind_named(one->row.kind) == NULL)
        FAIL(STATUS_INVALID, "--upstream: kind %s is not known: auto, %s", one->row.kind,
             adapter_kind_names());
    const enum status status =
        adapter_address_find(one->row.url, config->upstream_plain, &one->addresses);
    if (status == STATUS_UNAVAILABLE && !is_alone)
        log_failure(LOG_WARN, "pool_engine_unknown");
    else
        TRY(status);
    return engine_open_key(
        one->row.key_file[0] != '\0' ? one->row.key_file : config->upstream_key_file, one->key);
}

/* Looks up the hosts of --upstream and reads their keys, as long as this process may. */
static enum status engine_open_upstreams(const struct config *config, struct engine_upstreams *out)
{
    struct pool_row rows[LIMIT_POOL_ENGINES];
    struct pool_row defaults = {.requests = (uint32_t)config->upstream_requests,
                                .weight = POOL_ROW_WEIGHT,
                                .accepts_shared = config->upstream_shared_cache};
    const struct slice kind = slice_of(config->upstream_kind);
    if (kind.length >= sizeof defaults.kind)
        FAIL(STATUS_INVALID, "--upstream-kind %s is not known", config->upstream_kind);
    memcpy(defaults.kind, kind.bytes, kind.length);
    TRY(pool_rows_read(config->upstream, &defaults, rows, &out->count));
    if (out->count > 1 && config->model_name[0] != '\0')
        FAIL(STATUS_INVALID, "--model-name names one model; write --upstream url=URL,model=NAME");
    for (uint32_t i = 0; i < out->count; i++) {
        struct pool_upstream *one = &out->list[i];
        one->row = rows[i];
        if (out->count == 1 && one->row.model[0] == '\0')
            snprintf(one->row.model, sizeof one->row.model, "%s", config->model_name);
        TRY(engine_open_upstream(config, out->count == 1, one));
    }
    return STATUS_OK;
}

static enum status engine_open_template(const char *path, int *out)
{
    *out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*out < 0)
        FAIL(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "chat template %s: %s", path,
             strerrordesc_np(errno));
    return STATUS_OK;
}

static enum status engine_open_state(const struct serve_half_options *options, int *state)
{
    int data = -1;
    TRY(rights_open_data(options->config, &data));
    enum status status = rights_open_state(options->rights, data, state);
    close(data);
    if (status == STATUS_OK)
        status = engine_lock(*state);
    return status;
}

/* The first device of an engine. */
static uint32_t engine_device(const struct config *config, int64_t index)
{
    return (uint32_t)(config->device + index * config->tensor_parallel);
}

/* Becomes `rank` of engine `index`, also by name in the log and in ps. Closes what it has inherited
 * of earlier engines: their ranks end when all copies of their sockets are closed. */
static void rank_become(const struct config *config, const struct engine_http_options *engine,
                        uint32_t index, uint32_t rank)
{
    static char name[16]; /* log_open() keeps the pointer */
    enum log_level level = LOG_INFO;
    for (uint32_t i = 0; i < index; i++)
        ranks_destroy(engine->ranks[i]);
    ranks_become(engine->ranks[index], rank);
    if (config->engines > 1)
        snprintf(name, sizeof name, "engine%u.rank%u", index % LIMIT_ENGINES, rank % LIMIT_RANKS);
    else
        snprintf(name, sizeof name, "rank%u", rank);
    prctl(PR_SET_NAME, name);
    (void)log_level_parse(&level, config->log_level);
    log_open(STDERR_FILENO, level, name);
}

/* The process of a rank, which computes beside rank 0 (the engine). It has fewer rights than the
 * engine: no state, no socket, no path but its device's. It ignores the signals that a whole
 * process group may get, because only the engine decides when it ends. The engine's death kills it,
 * even when it is stopped; it has nothing to put in order first. */
_Noreturn static void rank_main(const struct serve_half_options *options,
                                const struct engine_http_options *engine, uint32_t index,
                                uint32_t rank, pid_t parent)
{
    const struct config *config = options->config;
    struct ranks *ranks = engine->ranks[index];
    struct places places = {.count = 0};
    const struct sandbox_network none = {.count = 0};
    struct serve_half_options own = *options;
    own.parent = parent;
    own.parent_signal = SIGKILL;
    own.is_rank = true;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN); /* nobody may read the log */
    if (options->ready_descriptor >= 0)
        close(options->ready_descriptor);
    rank_become(config, engine, index, rank);
    enum status status = confine_parent(&own); /* also before it waits for a driver */
    if (status == STATUS_OK)
        places_open_device(&places, config->isa, engine_device(config, index), ranks);
    places_add_model(&places, engine->model_descriptor);
    if (status == STATUS_OK)
        status = serve_half_confine(&own, &places, &none, false);
    if (status == STATUS_OK)
        status = rank_follow_run(ranks, engine->model_descriptor);
    if (status != STATUS_OK)
        fprintf(stderr, "banyan engine %u, rank %u: %s\n", index, rank, status_note()->message);
    ranks_destroy(ranks);
    exit(status == STATUS_OK ? 0 : 1);
}

/* Forks the ranks of engine `index`. This process then closes their ends of the sockets
 * (ranks_become): the ranks of the next engine would inherit them and keep them open. */
static enum status engine_start_ranks(const struct serve_half_options *options,
                                      struct engine_http_options *engine, uint32_t index)
{
    const uint32_t count = (uint32_t)options->config->tensor_parallel;
    const pid_t own = getpid();
    if (count < 2)
        return STATUS_OK;
    TRY(ranks_create(&engine->ranks[index], count));
    fflush(NULL);
    for (uint32_t rank = 1; rank < count; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            rank_main(options, engine, index, rank, own);
        if (pid < 0)
            FAIL(STATUS_IO, "fork: %s", strerrordesc_np(errno));
    }
    ranks_become(engine->ranks[index], 0);
    return STATUS_OK;
}

/* Waits until the ranks have ended, so that their memory is free when the next engine starts. The
 * end of this process kills a rank that is stopped. */
static void engine_end_ranks(const struct engine_http_options *engine)
{
    for (uint32_t i = 0; i < LIMIT_ENGINES; i++)
        ranks_destroy(engine->ranks[i]);
    for (int waited_ms = 0; engine->ranks[0] != NULL && waited_ms < RANKS_END_MS;) {
        int status = 0;
        const struct timespec look = {.tv_nsec = LOCK_LOOK_MS * 1000000};
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno != EINTR)
            return;
        if (pid > 0)
            continue;
        nanosleep(&look, NULL);
        waited_ms += LOCK_LOOK_MS;
    }
}

/* An engine that is an adapter: it has neither model nor device, but a port for each server. */
static enum status engine_open_adapter(const struct serve_half_options *options,
                                       struct engine_http_options *engine,
                                       struct engine_upstreams *upstreams)
{
    struct sandbox_network network = {.count = 0};
    struct places places = {.count = 0};
    if (options->config->model[0] != '\0')
        FAIL(STATUS_INVALID, "--model and --upstream exclude each other: one of them answers");
    TRY(engine_open_upstreams(options->config, upstreams));
    engine->upstreams = upstreams->list;
    engine->upstream_count = upstreams->count;
    for (uint32_t i = 0; i < upstreams->count; i++) {
        if (upstreams->list[i].addresses.count > 0)
            network.ports[network.count++] = upstreams->list[i].addresses.port;
    }
    sandbox_oom_score(ENGINE_OOM_SCORE);
    TRY(engine_open_state(options, &engine->state_descriptor));
    TRY(engine_listen(options, &engine->descriptor));
    places_add(&places, "/etc/ssl/openssl.cnf", SANDBOX_READ); /* its HTTP client reads it */
    return engine_confine(options, &places, engine->state_descriptor, &network);
}

/* Opens everything that the engine needs, then confines it. Ranks are forked first: they inherit no
 * lock, state or socket, and no device, which a forked process could not use. */
static enum status engine_open_all(const struct serve_half_options *options,
                                   struct engine_http_options *engine)
{
    const struct config *config = options->config;
    TRY(engine_open_model(config->model, &engine->model_descriptor));
    sandbox_oom_score(ENGINE_OOM_SCORE);
    if (has_ranks(options, false) && options->rights->is_on && options->rights->landlock > 0)
        TRY(sandbox_group());
    for (uint32_t i = 0; i < config->engines; i++)
        TRY(engine_start_ranks(options, engine, i));
    if (config->draft_model[0] != '\0')
        TRY(engine_open_model(config->draft_model, &engine->draft_descriptor));
    if (config->chat_template[0] != '\0' && strcmp(config->chat_template, "none") != 0)
        TRY(engine_open_template(config->chat_template, &engine->template_descriptor));
    TRY(engine_open_state(options, &engine->state_descriptor));
    TRY(engine_listen(options, &engine->descriptor));
    struct places places = {.count = 0};
    for (int64_t i = 0; i < config->engines; i++)
        places_open_device(&places, config->isa, engine_device(config, i), engine->ranks[i]);
    places_add_model(&places, engine->model_descriptor);
    if (engine->draft_descriptor > 0)
        places_add_model(&places, engine->draft_descriptor);
    const struct sandbox_network network = {.count = 0};
    return engine_confine(options, &places, engine->state_descriptor, &network);
}

enum status serve_half_run_engine(const struct serve_half_options *options)
{
    const struct rights *rights = options->rights;
    struct engine_http_options engine = {.config = options->config,
                                         .descriptor = -1,
                                         .ready_descriptor = options->ready_descriptor,
                                         .model_descriptor = -1,
                                         .state_descriptor = -1,
                                         .peers = {rights->edge_user, rights->own_user},
                                         .peer_count = 2,
                                         .pulse = options->pulse};
    static struct engine_upstreams upstreams;
    enum status status = options->config->upstream[0] != '\0'
                             ? engine_open_adapter(options, &engine, &upstreams)
                             : engine_open_all(options, &engine);
    if (status == STATUS_OK)
        status = engine_http_run(&engine);
    engine_end_ranks(&engine);
    return status;
}

/* --- edge --- */

/* What the edge opens by path later. OpenSSL reads openssl.cnf at its first use; C libraries use
 * the two devices as a fallback. */
static void edge_add_places(struct places *places, const struct config *config)
{
    places_add(places, config->data_dir, SANDBOX_WRITE);
    places_add_folder_of(places, config->tls_cert, SANDBOX_READ);
    places_add_folder_of(places, config->tls_key, SANDBOX_READ);
    places_add_folder_of(places, config->client_ca, SANDBOX_READ);
    places_add_folder_of(places, config->admin_client_ca, SANDBOX_READ);
    places_add_folder_of(places, config->client_crl, SANDBOX_READ);
    places_add_folder_of(places, config->config, SANDBOX_READ);
    places_add_folder_of(places, config->redis_password_file, SANDBOX_READ);
    if (strcmp(config->access_log, "on") != 0 && strcmp(config->access_log, "off") != 0)
        places_add_folder_of(places, config->access_log, SANDBOX_WRITE);
    places_add(places, "/etc/ssl/openssl.cnf", SANDBOX_READ);
    places_add(places, "/dev/urandom", SANDBOX_READ);
    places_add(places, "/dev/null", SANDBOX_READ);
}

static enum status edge_listen(const char *address, int *descriptor)
{
    return *descriptor >= 0 ? STATUS_OK : listener_bind_tcp(descriptor, address, NULL, 0);
}

/* Adds the port of a Redis over TCP. `*has_name` is true when its name has to be looked up. */
static enum status edge_network_redis(const struct config *config, struct sandbox_network *out,
                                      bool *has_name)
{
    struct redis_url url;
    unsigned char address[sizeof(struct in6_addr)];
    *has_name = false;
    if (config->redis[0] == '\0')
        return STATUS_OK;
    TRY(redis_url_parse(&url, config->redis));
    if (url.is_unix)
        return STATUS_OK;
    out->ports[out->count++] = url.port;
    *has_name =
        inet_pton(AF_INET, url.host, address) != 1 && inet_pton(AF_INET6, url.host, address) != 1;
    return STATUS_OK;
}

/* The ports to which the edge may connect: those of the issuers' key sets and of Redis, and 53 for
 * look-ups of names whose answers are too long for UDP. Adds the files of the resolver. */
static enum status edge_network(const struct config *config, struct places *places,
                                struct sandbox_network *out)
{
    static const char *const resolver[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
                                           "/etc/host.conf", "/etc/gai.conf"};
    bool has_name = false;
    TRY(key_fetch_ports(config->jwks_hosts, out->ports, SANDBOX_PORTS - 2, &out->count));
    bool has_keys = out->count > 0;
    TRY(edge_network_redis(config, out, &has_name));
    if (!has_keys && !has_name)
        return STATUS_OK;
    out->ports[out->count++] = 53;
    for (size_t i = 0; i < sizeof resolver / sizeof resolver[0]; i++)
        places_add(places, resolver[i], SANDBOX_READ);
    places_add_folder_of(places, config->jwks_ca, SANDBOX_READ);
    return STATUS_OK;
}

enum status serve_half_run_edge(const struct serve_half_options *options)
{
    const struct rights *rights = options->rights;
    bool is_foreign = options->parent == 0 && options->config->socket[0] != '\0';
    struct edge_options edge = {
        .config = options->config,
        .public_descriptor = options->public_descriptor,
        .admin_descriptor = options->admin_descriptor,
        .ready_descriptor = options->ready_descriptor,
        .sources = options->sources,
        .parent = options->parent,
        .sandbox = rights->sandbox,
        .pulse = options->pulse,
        .deaths = options->deaths,
        /* The user that started the server made the socket: the engine changed its user later. */
        .engine_user = is_foreign ? -1 : (int64_t)rights->own_user};
    TRY(edge_listen(options->config->listen, &edge.public_descriptor));
    TRY(edge_listen(options->config->admin_listen, &edge.admin_descriptor));
    struct places places = {.count = 0};
    struct sandbox_network network = {.count = 0};
    edge_add_places(&places, options->config);
    TRY(edge_network(options->config, &places, &network));
    TRY(serve_half_confine(options, &places, &network, true));
    return edge_run(&edge);
}

enum status serve_half_run_alone(const struct config *config, const struct config_sources *sources,
                                 enum status (*run)(const struct serve_half_options *options))
{
    int data = -1;
    struct rights rights;
    sandbox_process();
    TRY(rights_open_data(config, &data));
    enum status status = rights_decide(&rights, config);
    if (status == STATUS_OK && sources->role == CONFIG_EDGE)
        status = rights_give_data(&rights, data);
    close(data);
    TRY(status);
    return run(&(struct serve_half_options){.config = config,
                                            .sources = sources,
                                            .rights = &rights,
                                            .public_descriptor = -1,
                                            .admin_descriptor = -1,
                                            .ready_descriptor = -1});
}
