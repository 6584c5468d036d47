#include "gateway/edge/edge.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/tenants/price.h"
#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/store.h"
#include "gateway/admin/admin.h"
#include "gateway/edge/edge_forward.h"
#include "gateway/edge/engines/edge_probe.h"
#include "gateway/edge/engines/edge_prompts.h"
#include "gateway/edge/engines/edge_replay.h"
#include "gateway/edge/engines/edge_settle.h"
#include "gateway/edge/engines/edge_wait.h"
#include "gateway/edge/pages/edge_usage.h"
#include "gateway/edge/request/edge_job.h"
#include "gateway/edge/request/edge_keys.h"
#include "gateway/edge/request/edge_proof.h"
#include "gateway/edge/state/edge_memory.h"
#include "gateway/edge/state/edge_pace.h"
#include "gateway/edge/state/edge_reload.h"
#include "gateway/http/cors.h"
#include "gateway/http/loop_worker.h"
#include "gateway/http/stderr_lines.h"
#include "gateway/http/tls.h"

enum {
    PATH_BYTES = 1024,
    ADDRESS_BYTES = 128,
    DRAIN_LOOK_MS = 20,
    /* A second SIGTERM ends the edge at once only after so long: supervisor and parent may both
     * send the first one. */
    DRAIN_AGAIN_MS = 1000,
    DESCRIPTORS_LEAST = 128,
    /* Kept for databases, logs, certificates, the loop and admins; 5 % where that is more. */
    DESCRIPTORS_KEPT_LEAST = 64,
    DESCRIPTORS_A_STREAM = 2,        /* the client's and the engine's */
    DRAIN_END_MS = 3000,             /* after the cut: final records, commits, error events */
    UPSTREAM_CONNECTIONS_SPARE = 64, /* health checks, replay, acknowledgements */
    UPSTREAM_CONNECT_MS = 2000,
    /* A day and 5 s, more than the longest request_timeout_s: a job's own deadline comes first. */
    UPSTREAM_HEAD_MS = 86405000,
};

/* Everything of one run that only edge.c needs. */
struct run {
    struct edge edge;
    struct admin admin;
    const struct edge_options *options;
    struct loop_timer *drain_timer;
    struct loop_timer *pulse_timer;
    int64_t drain_until_us;
    int lock; /* edge.lock in the data directory, held while the edge runs; -1: not held */
    struct edge_reload *reload;
    uint32_t admin_connections_max;
    int64_t left_us;       /* when the first SIGTERM or SIGINT came */
    int64_t drain_from_us; /* until then new requests are still taken */
    bool is_cut;           /* drain_timeout_s is over: running requests were cancelled */
    bool is_logging;       /* the log's thread runs */
    bool has_stderr;       /* stderr_lines logs what libraries print */
    char public_address[ADDRESS_BYTES];
    char admin_address[ADDRESS_BYTES];
};

static enum status run_path(char out[PATH_BYTES], const struct config *config, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", config->data_dir, name);
    if (length < 0 || length >= PATH_BYTES)
        FAIL(STATUS_LIMIT, "the data directory's path is too long");
    return STATUS_OK;
}

/* Prepares the process: new files are readable by their owner alone, no core file can hold a key,
 * and the limit of descriptors is raised to the system's maximum. */
static enum status open_process(const struct config *config)
{
    umask(0077);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &core);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (mkdir(config->data_dir, 0700) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "data directory %s: %s", config->data_dir, strerror(errno));
    return STATUS_OK;
}

/* Bounds the connections so that every client can have a connection to the engine, and databases,
 * logs and reloads still find free descriptors. Admin connections are part of what is kept free. */
static enum status open_reserve(struct run *run)
{
    struct rlimit files;
    const struct config *config = run->edge.config;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        FAIL(STATUS_IO, "limit of descriptors: %s", strerror(errno));
    uint64_t limit = files.rlim_cur < UINT32_MAX ? files.rlim_cur : UINT32_MAX;
    if (limit < DESCRIPTORS_LEAST)
        FAIL(STATUS_LIMIT, "%d descriptors are too few (ulimit -n); give at least %d", (int)limit,
             DESCRIPTORS_LEAST);
    uint64_t kept = limit / 20 > DESCRIPTORS_KEPT_LEAST ? limit / 20 : DESCRIPTORS_KEPT_LEAST;
    uint64_t wanted = (uint64_t)config->max_connections;
    uint64_t most = (limit - kept) / DESCRIPTORS_A_STREAM;
    run->edge.connections_max = (uint32_t)(wanted < most ? wanted : most);
    run->admin_connections_max = (uint32_t)(wanted < kept / 4 ? wanted : kept / 4);
    if (most < wanted)
        LOG(LOG_WARN, "connections_limited", LOG_NUMBER("max_connections", wanted),
            LOG_NUMBER("allowed", most), LOG_NUMBER("descriptors", limit));
    return STATUS_OK;
}

/* Two edges in one data directory would use the same ledger sequence numbers and miss each other's
 * revocations. The system drops the lock when the process ends, however it ends. */
static enum status open_lock(struct run *run)
{
    char path[PATH_BYTES];
    TRY(run_path(path, run->edge.config, "edge.lock"));
    run->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (run->lock < 0)
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    if (flock(run->lock, LOCK_EX | LOCK_NB) != 0)
        FAIL(STATUS_CONFLICT,
             "another banyan serves from the data directory %s; give this one "
             "another --data-dir",
             run->edge.config->data_dir);
    return STATUS_OK;
}

static enum status open_redis(struct edge *edge, const char *ledger_path)
{
    const struct config *config = edge->config;
    if (config->redis[0] == '\0' && config->redis_password_file[0] != '\0')
        FAIL_PARAM(STATUS_INVALID, "redis_password_file",
                   "redis_password_file is of no use without redis");
    return usage_redis_open(
        &edge->redis,
        &(struct usage_redis_options){.url = config->redis,
                                      .password_file = config->redis_password_file,
                                      .ledger_path = ledger_path,
                                      .stream_length = (uint32_t)config->redis_stream_length,
                                      .keep_days = (uint32_t)config->redis_keep_days,
                                      .metrics = edge->metrics.registry});
}

static enum status open_stores(struct edge *edge)
{
    char path[PATH_BYTES];
    bool is_made = false;
    bool is_full = strcmp(edge->config->ledger_sync, "full") == 0;
    if (!is_full && strcmp(edge->config->ledger_sync, "normal") != 0)
        FAIL_PARAM(STATUS_INVALID, "ledger_sync", "ledger_sync is normal or full");
    TRY(run_path(path, edge->config, "banyan.db"));
    TRY(store_open(&edge->store, path));
    TRY(auth_open(&edge->auth, edge->config->data_dir, edge->store));
    TRY(auth_bootstrap(edge->auth, edge->config->data_dir, &is_made));
    if (is_made)
        LOG(LOG_INFO, "admin_key_made", LOG_TEXT("file", "admin.key in the data directory"));
    TRY(run_path(path, edge->config, "ledger.db"));
    TRY(ledger_open(&edge->ledger, &(struct ledger_options){
                                       .path = path,
                                       .metrics = edge->metrics.registry,
                                       .batch_told = edge_settle_told,
                                       .batch_context = edge,
                                       .price = price_of_row,
                                       .price_context = auth_tenants(edge->auth),
                                       .is_full = is_full,
                                       .keep_days = (uint32_t)edge->config->ledger_keep_days}));
    TRY(ledger_usage_open(&edge->usage, path));
    TRY(open_redis(edge, path));
    return quota_open(&edge->quota, &(struct quota_options){.tenants = auth_tenants(edge->auth),
                                                            .usage = edge->usage,
                                                            .ledger_path = path});
}

static void run_reloaded(void *context, const struct config *config)
{
    struct run *run = context;
    run->admin.config = config;
}

/* Sets up client certificates for one listener. A setting without effect is refused. */
static enum status open_clients(struct tls_context *tls, const char *name, const char *mode,
                                const char *ca_path, const char *crl_path)
{
    bool is_required = strcmp(mode, "required") == 0;
    bool is_off = strcmp(mode, "off") == 0;
    if (!is_required && !is_off && strcmp(mode, "optional") != 0)
        FAIL_PARAM(STATUS_INVALID, name, "%s is off, optional or required", name);
    if (is_off != (ca_path[0] == '\0'))
        FAIL_PARAM(STATUS_INVALID, name, "%s and its authorities are given together or not at all",
                   name);
    if (is_off)
        return STATUS_OK;
    return tls_context_ask_clients(tls, &(struct tls_clients){ca_path, crl_path, is_required});
}

static enum status open_clients_all(const struct edge *edge)
{
    const struct config *config = edge->config;
    TRY(open_clients(edge->public_tls, "client_cert", config->client_cert, config->client_ca,
                     config->client_crl));
    TRY(open_clients(edge->admin_tls, "admin_client_cert", config->admin_client_cert,
                     config->admin_client_ca, config->client_crl));
    if (config->client_crl[0] != '\0' && config->client_ca[0] == '\0' &&
        config->admin_client_ca[0] == '\0')
        FAIL_PARAM(STATUS_INVALID, "client_crl", "client_crl is of no use without client_ca");
    return STATUS_OK;
}

static enum status open_tls(struct run *run)
{
    struct edge *edge = &run->edge;
    const struct config *config = edge->config;
    char cert[PATH_BYTES];
    char key[PATH_BYTES];
    bool is_own = config->tls_cert[0] == '\0';
    if (is_own != (config->tls_key[0] == '\0'))
        FAIL(STATUS_INVALID, "tls_cert and tls_key are given together or not at all");
    if (is_own) {
        TRY(run_path(cert, config, "tls"));
        TRY(tls_make_self_signed(cert));
        TRY(run_path(cert, config, "tls/server.crt"));
        TRY(run_path(key, config, "tls/server.key"));
    }
    const char *cert_path = is_own ? cert : config->tls_cert;
    const char *key_path = is_own ? key : config->tls_key;
    TRY(tls_context_open(&edge->public_tls, cert_path, key_path, "banyan-public"));
    TRY(tls_context_open(&edge->admin_tls, cert_path, key_path, "banyan-admin"));
    TRY(open_clients_all(edge));
    return edge_reload_create(&run->reload, edge, run->options->sources, cert_path, key_path,
                              run_reloaded, run);
}

static void open_checked(void *context, const struct edge_probe_engine *engine)
{
    struct edge *edge = context;
    edge_replay_checked(edge->replay, engine);
    edge_prompts_checked(edge->prompts, engine);
}

static enum status open_upstream(struct edge *edge, int64_t engine_user)
{
    char path[PATH_BYTES];
    TRY(run_path(path, edge->config, "engine/engine.sock"));
    struct http1_client_options options = {
        .loop = edge->loop,
        .unix_path = edge->config->socket[0] != '\0' ? edge->config->socket : path,
        /* One for each client connection: the engine refuses what is too much, not the pool. */
        .connections_max = edge->connections_max + UPSTREAM_CONNECTIONS_SPARE,
        .connect_timeout_ms = UPSTREAM_CONNECT_MS,
        .head_timeout_ms = UPSTREAM_HEAD_MS,
        .idle_timeout_ms = (uint32_t)edge->config->engine_idle_timeout_s * 1000,
        .peer_uid = engine_user};
    TRY(http1_client_create(&edge->client, &options));
    struct edge_wait_options queue = {
        .loop = edge->loop,
        .requests_max = (uint32_t)edge->config->queue_requests,
        .bytes_max = (uint64_t)edge->config->queue_bytes,
        .tenant_requests_max = (uint32_t)edge->config->queue_tenant_requests,
        .tenant_bytes_max = (uint64_t)edge->config->queue_tenant_bytes};
    memcpy(queue.gauges, edge->metrics.jobs_waiting, sizeof queue.gauges);
    TRY(edge_wait_create(&edge->wait, &queue));
    static const struct edge_replay_jobs jobs = {.expects = edge_job_expects,
                                                 .refuse = edge_job_refuse};
    TRY(edge_replay_create(&edge->replay, edge, &jobs));
    TRY(edge_probe_create(&edge->probe, edge->loop, edge->client, edge->metrics.upstream_up,
                          edge->metrics.upstream_foreign));
    TRY(edge_prompts_create(&edge->prompts, edge->loop, edge->client, auth_tenants(edge->auth)));
    edge_probe_listen(edge->probe, open_checked, edge);
    return STATUS_OK;
}

static enum status open_listener(struct listener **out, int descriptor, const char *address,
                                 char bound[ADDRESS_BYTES], struct listener_options options)
{
    if (descriptor < 0)
        TRY(listener_bind_tcp(&descriptor, address, NULL, 0));
    TRY(listener_address(descriptor, bound, ADDRESS_BYTES)); /* with the real port if 0 was asked */
    options.descriptor = descriptor;
    return listener_open(out, &options);
}

static enum status open_listeners(struct run *run)
{
    struct edge *edge = &run->edge;
    const struct config *config = edge->config;
    struct listener_options face = {
        .loop = edge->loop,
        .makes_request_ids = true,
        .connections_max = edge->connections_max,
        .connections_per_address = (uint32_t)config->connections_per_address,
        .connects_per_address_s = (uint32_t)config->connects_per_address_s,
        .handshakes_s = (uint32_t)config->handshakes_s,
        .metrics = edge->metrics.registry};
    struct listener_options admin = face;
    face.name = "public";
    face.tls = edge->public_tls;
    face.body_bytes_max = (size_t)config->body_limit;
    face.handler = edge_proof_handle;
    face.context = edge->proof;
    TRY(cors_create(&edge->cors, config->cors_origins));
    face.cors = edge->cors;
    face.unfinished_bytes_max = (size_t)config->memory_limit / LIMIT_UNFINISHED_PART;
    face.unfinished_address_bytes_max = face.unfinished_bytes_max / 2;
    face.known_bytes_max = (size_t)config->memory_limit / LIMIT_KNOWN_PART;
    face.claim = edge_proof_claim;
    face.claim_context = edge->proof;
    TRY(open_listener(&edge->public_listener, run->options->public_descriptor, config->listen,
                      run->public_address, face));
    admin.name = "admin";
    admin.connections_max = run->admin_connections_max;
    admin.tls = edge->admin_tls;
    admin.body_bytes_max = LIMIT_ADMIN_IMPORT_BYTES; /* for other calls admin.c takes less */
    admin.unfinished_bytes_max = LIMIT_ADMIN_UNFINISHED_BYTES;
    admin.unfinished_address_bytes_max = LIMIT_ADMIN_UNFINISHED_BYTES / 2;
    admin.known_bytes_max = LIMIT_ADMIN_KNOWN_BYTES;
    admin.claim = edge_proof_claim;
    admin.claim_context = edge->admin_proof;
    admin.handler = edge_proof_handle;
    admin.context = edge->admin_proof;
    return open_listener(&edge->admin_listener, run->options->admin_descriptor,
                         config->admin_listen, run->admin_address, admin);
}

/* --- the end --- */

/* Stops taking new requests: listening sockets close, HTTP/2 connections get GOAWAY, and a new
 * request on an open connection is answered with 503. */
static void drain_begin(struct run *run)
{
    struct edge *edge = &run->edge;
    edge->is_draining = true;
    LOG(LOG_INFO, "edge_draining", LOG_NUMBER("requests", edge->jobs_running));
    if (edge->public_listener != NULL)
        listener_drain(edge->public_listener);
    if (edge->admin_listener != NULL)
        listener_drain(edge->admin_listener);
}

/* Runs every DRAIN_LOOK_MS after SIGTERM: begins to drain after drain_delay_s, stops the loop once
 * nothing runs, and cancels what still runs after drain_timeout_s. */
static void drain_look(void *context)
{
    struct run *run = context;
    struct edge *edge = &run->edge;
    int64_t now_us = loop_now_us(edge->loop);
    if (!edge->is_draining && now_us >= run->drain_from_us)
        drain_begin(run);
    uint32_t running = edge->jobs_running + edge_replay_waiting(edge->replay) +
                       listener_requests_running(edge->public_listener) +
                       listener_requests_running(edge->admin_listener);
    if (edge->is_draining &&
        (running == 0 || now_us >= run->drain_until_us + DRAIN_END_MS * INT64_C(1000))) {
        loop_stop(edge->loop);
        return;
    }
    if (!run->is_cut && now_us >= run->drain_until_us) {
        run->is_cut = true;
        LOG(LOG_WARN, "drain_cut", LOG_NUMBER("requests", edge->jobs_running));
        edge_job_cancel_all(edge, "The server is stopping; try again shortly.");
    }
    loop_timer_arm(run->drain_timer, DRAIN_LOOK_MS);
}

/* The first SIGTERM or SIGINT makes /ready answer "not ready" and starts the drain. Another one at
 * least a second later, or one that comes because the parent died, cancels running requests now.
 * SIGHUP reloads. */
static void run_signal(void *context, int signal_number)
{
    struct run *run = context;
    struct edge *edge = &run->edge;
    int64_t now_us = loop_now_us(edge->loop);
    if (signal_number == SIGHUP) {
        if (run->reload != NULL && !edge->is_leaving)
            (void)edge_reload_now(run->reload);
        return;
    }
    if (signal_number == SIGCHLD) /* the edge has no children */
        return;
    bool is_orphan = run->options->parent != 0 && getppid() != run->options->parent;
    bool is_now =
        is_orphan || (edge->is_leaving && now_us >= run->left_us + DRAIN_AGAIN_MS * INT64_C(1000));
    if (edge->is_leaving && !is_now)
        return;
    LOG(LOG_INFO, "edge_leaving", LOG_NUMBER("now", is_now), LOG_NUMBER("orphan", is_orphan));
    if (!edge->is_leaving)
        run->left_us = now_us;
    edge->is_leaving = true;
    run->drain_from_us = now_us + (is_now ? 0 : edge->config->drain_delay_s * INT64_C(1000000));
    run->drain_until_us =
        run->drain_from_us + (is_now ? 0 : edge->config->drain_timeout_s * INT64_C(1000000));
    loop_timer_arm(run->drain_timer, 0);
}

/* --- start and end of a run --- */

static void run_beat(void *context)
{
    struct run *run = context;
    pulse_beat(run->options->pulse, PULSE_LOOP);
    loop_timer_arm(run->pulse_timer, PULSE_EVERY_MS);
}

/* On both listeners, checks the tokens again that waited for keys. */
static void run_keys_came(void *context)
{
    struct edge *edge = context;
    edge_proof_keys_came(edge->proof);
    edge_proof_keys_came(edge->admin_proof);
}

static enum status run_open(struct run *run)
{
    struct edge *edge = &run->edge;
    TRY(open_process(edge->config));
    TRY(open_reserve(run));
    TRY(log_start(edge->config->access_log));
    run->is_logging = true;
    TRY(stderr_lines_begin());
    run->has_stderr = true;
    TRY(edge_metrics_init(&edge->metrics));
    edge->metrics.deaths = run->options->deaths;
    TRY(edge_memory_create(&edge->memory, (size_t)edge->config->memory_limit, &edge->metrics));
    TRY(edge_pace_create(&edge->pace, (uint32_t)edge->config->small_requests_s));
    TRY(loop_create(&edge->loop));
    run->drain_timer = loop_timer_create(edge->loop, drain_look, run);
    run->pulse_timer = loop_timer_create(edge->loop, run_beat, run);
    edge->settle_timer = loop_timer_create(edge->loop, edge_settle_wake, edge);
    if (run->drain_timer == NULL || run->pulse_timer == NULL || edge->settle_timer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    /* Before the ledger's thread starts, because a thread inherits the blocked signals. */
    TRY(loop_watch_signals(edge->loop, run_signal, run));
    TRY(open_lock(run));
    TRY(open_stores(edge));
    TRY(open_tls(run));
    TRY(open_upstream(edge, run->options->engine_user));
    TRY(loop_worker_create(&edge->scanner, edge->loop, LIMIT_BODIES_SCANNED));
    TRY(loop_worker_create(&edge->sums_worker, edge->loop, LIMIT_BODIES_SCANNED));
    TRY(edge_proof_create(&edge->proof, edge, false, edge_forward_handle, edge));
    TRY(edge_proof_create(&edge->admin_proof, edge, true, admin_handle, &run->admin));
    TRY(edge_keys_create(&edge->keys, edge, run_keys_came, edge));
    run->admin = (struct admin){.config = edge->config,
                                .jwks_hosts = edge->config->jwks_hosts,
                                .auth = edge->auth,
                                .ledger = edge->ledger,
                                .usage = edge->usage,
                                .metrics = &edge->metrics,
                                .probe = edge->probe,
                                .prompts = edge->prompts,
                                .edge = edge,
                                .reload = run->reload};
    TRY(admin_open(&run->admin, edge->loop));
    return open_listeners(run);
}

static void run_tell_ready(const struct run *run)
{
    LOG(LOG_INFO, "edge_ready", LOG_TEXT("listen", run->public_address),
        LOG_TEXT("admin_listen", run->admin_address));
    int descriptor = run->options->ready_descriptor;
    if (descriptor < 0)
        return;
    if (write(descriptor, "1", 1) != 1)
        LOG(LOG_WARN, "ready_untold", LOG_NUMBER("errno", errno));
    edge_reload_set_parent(run->reload, descriptor);
}

/* Closes in this order: the clients' side, the engine's side, the ledger with all its rows. The
 * callbacks that the ledger still posts never run, so the remaining jobs are freed after it. */
static void run_close(struct run *run)
{
    struct edge *edge = &run->edge;
    if (edge->public_listener != NULL)
        listener_close(edge->public_listener);
    cors_destroy(edge->cors);
    if (edge->admin_listener != NULL)
        listener_close(edge->admin_listener);
    edge_keys_destroy(edge->keys);
    edge_proof_destroy(edge->proof);
    edge_proof_destroy(edge->admin_proof);
    loop_worker_destroy(edge->scanner);
    loop_worker_destroy(edge->sums_worker);
    edge_forward_free_all(edge);
    edge_replay_close(edge->replay);
    edge_probe_destroy(edge->probe);
    edge_prompts_destroy(edge->prompts);
    if (edge->client != NULL)
        http1_client_destroy(edge->client);
    ledger_usage_close(edge->usage);
    edge_usage_free_all(edge);
    if (edge->ledger != NULL)
        ledger_close(edge->ledger);
    usage_redis_close(edge->redis);
    edge_wait_destroy(edge->wait);
    edge_job_free_all(edge);
    edge_memory_destroy(edge->memory);
    edge_pace_destroy(edge->pace);
    quota_close(edge->quota);
    edge_replay_destroy(edge->replay);
    if (edge->public_tls != NULL)
        tls_context_close(edge->public_tls);
    if (edge->admin_tls != NULL)
        tls_context_close(edge->admin_tls);
    admin_close(&run->admin);
    if (edge->auth != NULL)
        auth_close(edge->auth);
    if (edge->store != NULL)
        store_close(edge->store);
    edge_reload_destroy(run->reload);
    if (run->drain_timer != NULL)
        loop_timer_destroy(run->drain_timer);
    if (run->pulse_timer != NULL)
        loop_timer_destroy(run->pulse_timer);
    if (edge->settle_timer != NULL)
        loop_timer_destroy(edge->settle_timer);
    if (edge->loop != NULL)
        loop_destroy(edge->loop);
    if (run->lock >= 0)
        close(run->lock);
    buffer_deinit(&edge->scratch);
    edge_metrics_deinit(&edge->metrics);
}

enum status edge_run(const struct edge_options *options)
{
    struct run run = {.edge = {.config = options->config,
                               .sandbox = options->sandbox != NULL ? options->sandbox : "off"},
                      .options = options,
                      .lock = -1};
    buffer_init(&run.edge.scratch, LIMIT_ENGINE_FRAME_BYTES + 1024);
    enum status status = run_open(&run);
    if (status == STATUS_OK) {
        run_tell_ready(&run);
        run_beat(&run);
        loop_run(run.edge.loop);
    } else {
        log_failure(LOG_ERROR, "edge_failed");
    }
    struct error_note note = *status_note();
    run_close(&run);
    status_note_set(&note);
    if (status == STATUS_OK)
        LOG(LOG_INFO, "edge_stopped");
    if (run.has_stderr)
        stderr_lines_end();
    if (run.is_logging)
        log_stop();
    return status;
}
