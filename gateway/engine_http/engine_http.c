#include "gateway/engine_http/engine_http.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/log.h"
#include "gateway/engine_http/face.h"
#include "gateway/engine_http/face_job.h"
#include "gateway/engine_http/face_prompt.h"
#include "gateway/engine_http/face_routes.h"
#include "gateway/http/listener.h"
#include "gateway/http/stderr_lines.h"
#include "gateway/pool/pool.h"
#include "gateway/source/source_fleet.h"
#include "kernels/ranks.h"

enum {
    PATH_BYTES = 1024,
    DRAIN_LOOK_MS = 20,
    CANCEL_GRACE_MS = 2000, /* time for cancelled requests to end before the process does */
};

struct engine_process {
    struct face face;
    const struct config *config;
    const struct engine_http_options *options;
    struct listener *listener;
    struct loop_timer *drain_timer;
    struct loop_timer *pulse_timer;
    struct metric *peers_refused;
    int64_t drain_until_us;
    bool is_cancelled;
    bool is_failed; /* the engine's device or a rank has failed */
};

/* Looks every 20 ms whether all requests have ended, and stops the loop then. Cancels the requests
 * that still run at the deadline. */
static void drain_look(void *context)
{
    struct engine_process *process = context;
    int64_t now_us = clock_mono_us(clock_system());
    bool is_idle =
        process->face.body_count == 0 && listener_requests_running(process->listener) == 0;
    if (!is_idle && now_us >= process->drain_until_us && !process->is_cancelled) {
        process->is_cancelled = true;
        process->drain_until_us = now_us + CANCEL_GRACE_MS * INT64_C(1000);
        face_job_cancel_all(&process->face);
        face_prompt_cancel_all(&process->face);
    }
    if (is_idle || (process->is_cancelled && now_us >= process->drain_until_us))
        loop_stop(process->face.loop);
    else
        loop_timer_arm(process->drain_timer, DRAIN_LOOK_MS);
}

static void drain_begin(struct engine_process *process)
{
    process->face.is_draining = true;
    process->drain_until_us =
        clock_mono_us(clock_system()) + process->config->drain_timeout_s * INT64_C(1000000);
    listener_drain(process->listener);
    loop_timer_arm(process->drain_timer, 0);
}

static void process_beat(void *context)
{
    struct engine_process *process = context;
    pulse_beat(process->options->pulse, PULSE_LOOP);
    loop_timer_arm(process->pulse_timer, PULSE_EVERY_MS);
}

/* A device or a rank has failed, so this process can compute nothing any more. It drains, so that
 * all clients get their errors, and ends; the device may work in the next process. */
static void on_failed(void *context)
{
    struct engine_process *process = context;
    process->is_failed = true;
    if (process->drain_until_us == 0) /* also when POST drain has set is_draining before */
        drain_begin(process);
}

/* Called when a child has ended: finds a rank that ended while the engine was idle, before a
 * request meets it. */
static void ranks_look(struct engine_process *process)
{
    int64_t engine = 0;
    if (process->options->ranks[0] == NULL || process->is_failed)
        return; /* there are no ranks, or the failure is known */
    while (engine < process->config->engines && ranks_live(process->options->ranks[engine]))
        engine++;
    if (engine == process->config->engines)
        return;
    LOG(LOG_WARN, "rank_ended", LOG_NUMBER("engine", engine),
        LOG_NUMBER("requests", process->face.job_count));
    on_failed(process);
}

static void on_signal(void *context, int signal_number)
{
    struct engine_process *process = context;
    if (signal_number == SIGCHLD) {
        ranks_look(process);
        return;
    }
    if (process->face.is_draining && process->drain_until_us != 0)
        return;
    LOG(LOG_INFO, "engine_draining", LOG_NUMBER("signal", signal_number),
        LOG_NUMBER("requests", process->face.job_count));
    drain_begin(process);
}

static enum status open_expert_split(const char *name, bool *is_whole)
{
    *is_whole = strcmp(name, "whole") == 0;
    if (!*is_whole && strcmp(name, "part") != 0)
        FAIL(STATUS_INVALID, "--expert-split %s is not known: part or whole", name);
    return STATUS_OK;
}

static enum status open_batching(const char *name, enum engine_batching *out)
{
    static const char *const names[] = {[ENGINE_BATCHING_CONTINUOUS] = "continuous",
                                        [ENGINE_BATCHING_WINDOW] = "window",
                                        [ENGINE_BATCHING_STATIC] = "static"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (enum engine_batching)i;
        return STATUS_OK;
    }
    FAIL(STATUS_INVALID, "--batching %s is not known: continuous, window or static", name);
}

static enum status open_preemption(const char *name, enum engine_preemption *out)
{
    static const char *const names[] = {[ENGINE_PREEMPTION_AUTO] = "auto",
                                        [ENGINE_PREEMPTION_SWAP] = "swap",
                                        [ENGINE_PREEMPTION_RECOMPUTE] = "recompute",
                                        [ENGINE_PREEMPTION_OFF] = "off"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (enum engine_preemption)i;
        return STATUS_OK;
    }
    FAIL(STATUS_INVALID, "--preemption %s is not known: auto, swap, recompute or off", name);
}

static enum status open_speculation(const char *name, enum engine_speculation *out)
{
    static const char *const names[] = {[ENGINE_SPECULATION_OFF] = "off",
                                        [ENGINE_SPECULATION_LOOKUP] = "lookup",
                                        [ENGINE_SPECULATION_MODEL] = "model",
                                        [ENGINE_SPECULATION_EXIT] = "exit"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (enum engine_speculation)i;
        return STATUS_OK;
    }
    FAIL(STATUS_INVALID, "--speculation %s is not known: off, lookup, model or exit", name);
}

static enum status open_acceptance(const char *name, enum engine_acceptance *out)
{
    bool is_noise = strcmp(name, "noise") == 0;
    if (!is_noise && strcmp(name, "rejection") != 0)
        FAIL(STATUS_INVALID, "--speculation-accept %s is not known: noise or rejection", name);
    *out = is_noise ? ENGINE_ACCEPTANCE_NOISE : ENGINE_ACCEPTANCE_REJECTION;
    return STATUS_OK;
}

/* An option for drafts that --speculation does not use is a mistake. */
static enum status open_check_drafts(const struct config *config,
                                     enum engine_speculation speculation)
{
    if (config->draft_model[0] != '\0' && speculation != ENGINE_SPECULATION_MODEL)
        FAIL(STATUS_INVALID, "--draft-model %s needs --speculation model, not %s",
             config->draft_model, config->speculation);
    if (config->draft_layers > 0 && speculation != ENGINE_SPECULATION_EXIT)
        FAIL(STATUS_INVALID, "--draft-layers %lld needs --speculation exit, not %s",
             (long long)config->draft_layers, config->speculation);
    return STATUS_OK;
}

/* Reads the file of --chat-template; `out` stays empty for none. */
static enum status open_template(const struct engine_http_options *options, struct buffer *out)
{
    const char *path = options->config->chat_template;
    char part[4096];
    ssize_t length = 1;
    buffer_init(out, LIMIT_TEMPLATE_BYTES);
    if (path[0] == '\0' || strcmp(path, "none") == 0)
        return STATUS_OK;
    int descriptor = options->template_descriptor > 0
                         ? options->template_descriptor
                         : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (descriptor >= 0 && length > 0) {
        length = read(descriptor, part, sizeof part);
        if (length > 0)
            buffer_append(out, part, (size_t)length);
    }
    int error = errno;
    if (descriptor >= 0)
        close(descriptor);
    enum status status = out->status;
    bool is_empty = out->length == 0;
    if (descriptor >= 0 && length == 0 && status == STATUS_OK && !is_empty)
        return STATUS_OK;
    buffer_deinit(out);
    if (descriptor < 0 || length < 0)
        FAIL(STATUS_IO, "chat template %s: %s", path, strerrordesc_np(error));
    if (status == STATUS_LIMIT)
        FAIL(STATUS_LIMIT, "chat template %s is longer than %d bytes", path, LIMIT_TEMPLATE_BYTES);
    FAIL(status != STATUS_OK ? status : STATUS_INVALID, "chat template %s is empty", path);
}

/* Opens one foreign server as the source of answers. */
static enum status open_adapter(struct engine_process *process)
{
    const struct config *config = process->config;
    const struct pool_upstream *upstream = &process->options->upstreams[0];
    const struct adapter_options options = {.loop = process->face.loop,
                                            .url = upstream->row.url,
                                            .addresses = &upstream->addresses,
                                            .kind = upstream->row.kind,
                                            .key = upstream->key,
                                            .model_name = upstream->row.model,
                                            .requests_max = upstream->row.requests,
                                            .idle_ms =
                                                (uint32_t)config->upstream_idle_timeout_s * 1000,
                                            .accepts_shared = upstream->row.accepts_shared,
                                            .metrics = process->face.metrics,
                                            .labels = "",
                                            .wake = face_wake,
                                            .wake_context = &process->face};
    struct adapter_found found;
    TRY(adapter_look(&found, &options));
    return adapter_open(&process->face.source, &options, &found);
}

/* Opens several as one source. */
static enum status open_pool(struct engine_process *process)
{
    const struct pool_options options = {
        .loop = process->face.loop,
        .upstreams = process->options->upstreams,
        .count = process->options->upstream_count,
        .idle_ms = (uint32_t)process->config->upstream_idle_timeout_s * 1000,
        .metrics = process->face.metrics,
        .wake = face_wake,
        .wake_context = &process->face};
    return pool_open(&process->face.source, &options);
}

static enum status open_foreign(struct engine_process *process)
{
    return process->options->upstream_count > 1 ? open_pool(process) : open_adapter(process);
}

static enum status open_fleet(struct engine_process *process)
{
    const struct config *config = process->config;
    if (config->model[0] == '\0')
        FAIL(STATUS_INVALID, "no model: set --model FILE.gguf");
    enum engine_batching batching = ENGINE_BATCHING_CONTINUOUS;
    bool has_whole_experts = false;
    TRY(open_batching(config->batching, &batching));
    TRY(open_expert_split(config->expert_split, &has_whole_experts));
    enum engine_preemption preemption = ENGINE_PREEMPTION_AUTO;
    TRY(open_preemption(config->preemption, &preemption));
    enum engine_speculation speculation = ENGINE_SPECULATION_OFF;
    TRY(open_speculation(config->speculation, &speculation));
    TRY(open_check_drafts(config, speculation));
    enum engine_acceptance acceptance = ENGINE_ACCEPTANCE_NOISE;
    TRY(open_acceptance(config->speculation_accept, &acceptance));
    struct buffer text; /* of --chat-template; empty: none */
    TRY(open_template(process->options, &text));
    const struct slice chat_template = buffer_slice(&text);
    const struct engine_options options = {
        .model_path = config->model,
        .model_descriptor = process->options->model_descriptor,
        .model_name = config->model_name[0] != '\0' ? config->model_name : NULL,
        .isa = config->isa,
        .device = (uint32_t)config->device,
        .is_free = !config->deterministic,
        .kv_type = config->kv_type,
        .weights = config->weights,
        .embeddings = config->embeddings,
        .has_whole_experts = has_whole_experts,
        .page_tokens = (uint32_t)config->page_tokens,
        .threads = (uint32_t)config->threads,
        .context = (uint32_t)config->context,
        .kv_bytes = (uint64_t)config->kv_memory,
        .rows_max = (uint32_t)config->batch_rows,
        .sequences_max = (uint32_t)config->sequences,
        .batching = batching,
        .step_ms = (uint32_t)config->step_ms,
        .urgent_step_ms = (uint32_t)config->urgent_step_ms,
        .shared_step_ms = (uint32_t)config->shared_step_ms,
        .class_floor_percent = (uint32_t)config->class_floor_percent,
        .fair_quantum = (uint32_t)config->fair_quantum,
        .preemption = preemption,
        .speculation = speculation,
        .chat_template = config->chat_template[0] != '\0' ? &chat_template : NULL,
        .draft_path = config->draft_model[0] != '\0' ? config->draft_model : NULL,
        .draft_descriptor = process->options->draft_descriptor,
        .draft_layers = (uint32_t)config->draft_layers,
        .acceptance = acceptance,
        .no_prefix_cache = !config->prefix_cache,
        .kv_host_bytes = (uint64_t)config->kv_host_memory,
        .grammar_bytes = (uint64_t)(config->grammar_memory / config->engines),
        .pin_percent = (uint32_t)config->pin_percent,
        .clock = clock_system(),
        .metrics = process->face.metrics,
        .wake = face_wake,
        .wake_context = &process->face,
        .pulse = process->options->pulse,
    };
    enum status status = fleet_open(&process->face.fleet, &options, process->options->ranks,
                                    (uint32_t)config->engines);
    buffer_deinit(&text);
    TRY(status);
    if (options.model_descriptor >= 0)
        close(options.model_descriptor); /* the file is mapped */
    if (options.draft_descriptor > 0)
        close(options.draft_descriptor);
    return source_fleet_open(&process->face.source, process->face.fleet);
}

static enum status open_source(struct engine_process *process)
{
    TRY(process->config->upstream[0] != '\0' ? open_foreign(process) : open_fleet(process));
    process->face.source->ops->info(process->face.source, &process->face.info);
    final_ring_name_model(process->face.finals, process->face.info.model_name);
    return STATUS_OK;
}

static enum status open_finals(struct engine_process *process)
{
    const char *folder = process->config->data_dir;
    int directory = process->options->state_descriptor;
    if (directory < 0 && mkdir(folder, 0700) != 0 && errno != EEXIST)
        FAIL(STATUS_IO, "data directory %s: %s", folder, strerror(errno));
    if (directory < 0)
        directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        FAIL(STATUS_IO, "data directory %s: %s", folder, strerror(errno));
    const uint32_t requests = LIMIT_REQUESTS_IN_ENGINE * (uint32_t)process->config->engines;
    enum status status = final_ring_open(&process->face.finals, directory, "finals.ring",
                                         LIMIT_FINAL_RECORDS, requests);
    close(directory);
    return status;
}

/* Admits connections from the users of the edge only: any other user of the machine who reaches the
 * socket could speak for every tenant. The send buffer is small, so that a sequence soon stands
 * still when its reader has stopped. */
static bool admit_peer(void *context, int descriptor)
{
    const struct engine_process *process = context;
    const int send_bytes = LIMIT_ENGINE_SEND_BYTES;
    if (setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes) != 0)
        LOG(LOG_WARN, "send_buffer_not_set", LOG_NUMBER("errno", errno));
    const struct engine_http_options *options = process->options;
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t length = sizeof peer;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    bool is_known = options->peer_count == 0 && peer.uid == geteuid();
    for (size_t i = 0; i < options->peer_count; i++)
        is_known = is_known || peer.uid == options->peers[i];
    if (is_known)
        return true;
    metric_add(process->peers_refused, 1);
    LOG(LOG_WARN, "peer_refused", LOG_NUMBER("uid", peer.uid), LOG_NUMBER("pid", peer.pid));
    return false;
}

static enum status open_listener(struct engine_process *process, int descriptor)
{
    char path[PATH_BYTES];
    const struct config *config = process->config;
    if (config->socket[0] != '\0')
        snprintf(path, sizeof path, "%s", config->socket);
    else
        snprintf(path, sizeof path, "%s/engine.sock", config->data_dir);
    if (descriptor < 0)
        TRY(listener_bind_unix(&descriptor, path));
    const struct listener_options options = {
        .loop = process->face.loop,
        .name = "engine",
        .descriptor = descriptor,
        .body_bytes_max = (size_t)config->body_limit,
        .connections_max = LIMIT_CONNECTIONS,
        .answer_header = {"x-banyan-protocol", SLICE("1")},
        .admit = admit_peer,
        .admit_context = process,
        .handler = face_routes_handle,
        .context = &process->face,
    };
    process->peers_refused = metrics_get(
        process->face.metrics, METRIC_COUNTER, "banyan_engine_peers_refused_total",
        "Connections to the engine's socket that were refused because of their user.", "", NULL, 0);
    return listener_open(&process->listener, &options);
}

static void tell_ready(struct engine_process *process, int ready_descriptor)
{
    const struct engine_info *info = &process->face.info;
    LOG(LOG_INFO, "engine_ready", LOG_TEXT("model", info->model_name), LOG_TEXT("isa", info->isa),
        LOG_NUMBER("bf16_dots", info->has_bf16_dots), LOG_NUMBER("threads", info->threads),
        LOG_NUMBER("context", info->context), LOG_NUMBER("kv_pages", info->kv_pages));
    if (ready_descriptor < 0)
        return;
    if (write(ready_descriptor, "1", 1) != 1)
        LOG(LOG_WARN, "ready_not_told", LOG_NUMBER("errno", errno));
    close(ready_descriptor);
}

static enum status open_all(struct engine_process *process,
                            const struct engine_http_options *options)
{
    struct face *face = &process->face;
    TRY(loop_create(&face->loop));
    TRY(loop_watch_signals(face->loop, on_signal, process));
    TRY(metrics_create(&face->metrics));
    TRY(open_finals(process));
    face_init(face);
    TRY(face_bodies_create(face));
    face->failed = on_failed;
    face->failed_context = process;
    TRY(open_source(process));
    TRY(loop_turns_create(&face->turns, face->loop, LIMIT_TEXTS_WAITING,
                          LIMIT_TENANT_TEXTS_WAITING));
    process->drain_timer = loop_timer_create(face->loop, drain_look, process);
    process->pulse_timer = loop_timer_create(face->loop, process_beat, process);
    if (process->drain_timer == NULL || process->pulse_timer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    TRY(open_listener(process, options->descriptor));
    ranks_look(process); /* later ends are seen by SIGCHLD */
    return STATUS_OK;
}

/* Closes in this order: no new requests, no more events, then everything that they used. */
static void close_all(struct engine_process *process)
{
    struct face *face = &process->face;
    if (process->listener != NULL)
        listener_close(process->listener);
    loop_turns_destroy(face->turns);
    if (face->source != NULL)
        face->source->ops->close(face->source);
    if (face->fleet != NULL)
        fleet_close(face->fleet);
    loop_timer_destroy(process->drain_timer);
    loop_timer_destroy(process->pulse_timer);
    final_ring_close(face->finals);
    face_bodies_destroy(face);
    if (face->loop != NULL)
        loop_destroy(face->loop);
    if (face->metrics != NULL)
        metrics_destroy(face->metrics);
}

enum status engine_http_run(const struct engine_http_options *options)
{
    static struct engine_process process; /* too large for a stack, and there is only one */
    process = (struct engine_process){.config = options->config, .options = options};
    bool is_logging = log_start("off") == STATUS_OK;
    bool has_stderr = stderr_lines_begin() == STATUS_OK;
    enum status status = open_all(&process, options);
    if (status == STATUS_OK) {
        tell_ready(&process, options->ready_descriptor);
        process_beat(&process);
        loop_run(process.face.loop);
        LOG(LOG_INFO, "engine_stopped", LOG_NUMBER("unfinished", process.face.job_count));
        if (process.is_failed)
            status = status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                                 "the engine's device or a rank has failed; the log says how");
    }
    struct error_note note = *status_note();
    close_all(&process);
    if (has_stderr)
        stderr_lines_end();
    if (is_logging)
        log_stop();
    if (status != STATUS_OK)
        status_note_set(&note);
    return status;
}
