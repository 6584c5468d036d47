#include "gateway/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/http/listener.h"
#include "gateway/serve/sandbox.h"
#include "gateway/serve/serve_half.h"
#include "gateway/serve/watchdog.h"

enum {
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MOST_MS = 5000,
    STEADY_AFTER_MS = 10000, /* a child that ran this long is restarted after the first delay */
    KILL_AFTER_DRAIN_MS = 10000,
    ORPHAN_WAIT_MS = 10000, /* more than an edge needs to end when its parent has died */
    ORPHAN_LOOK_MS = 20,
    ADDRESS_BYTES = 128,
    EXIT_CRASHED = 1,
    EXIT_WRONG_CONFIG = 78, /* EX_CONFIG of sysexits.h: another start would fail too */
};

struct serve;

struct child {
    const char *name;
    enum status (*run)(struct serve *serve, int ready_descriptor);
    pid_t pid; /* 0 = not running */
    int ready; /* read end of the ready pipe until the child has written to it; then -1 */
    int asks;  /* the edge's pipe from then on: a byte means that an admin reloaded; else -1 */
    bool was_ready;
    bool is_hung; /* killed because it hung, and not reaped yet */
    enum edge_deaths_of deaths_of;
    struct pulse *pulse;
    struct watchdog watchdog;
    int64_t started_us;
    int64_t start_at_us; /* earliest time for the next start of a dead child */
    uint32_t backoff_ms;
};

struct serve {
    const struct config *config;
    const struct config_sources *sources;
    const struct config *reloaded; /* one reference is ours; NULL until the first reload */
    struct rights rights;
    pid_t pid;
    int lock; /* D/serve.lock, which only the parent keeps; -1 = not taken */
    int public_descriptor;
    int admin_descriptor;
    char public_address[ADDRESS_BYTES];
    char admin_address[ADDRESS_BYTES];
    sigset_t signals;
    sigset_t signals_before;
    struct child engine;
    struct child edge;
    struct edge_deaths *deaths;
    bool is_announced;
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static struct serve_half_options child_options(const struct serve *serve, const struct child *child,
                                               int ready_descriptor)
{
    return (struct serve_half_options){.config = serve->config,
                                       .sources = serve->sources,
                                       .rights = &serve->rights,
                                       .parent = serve->pid,
                                       .public_descriptor = serve->public_descriptor,
                                       .admin_descriptor = serve->admin_descriptor,
                                       .ready_descriptor = ready_descriptor,
                                       .pulse = child->pulse};
}

/* Unmaps what a child does not need of the parent's shared memory, because a child parses data from
 * outside. A child keeps its own pulse; the edge also keeps the counts of deaths, which it
 * shows. */
static void child_forget(struct serve *serve, const struct child *child)
{
    if (child == &serve->edge) {
        pulse_destroy(serve->engine.pulse);
        return;
    }
    pulse_destroy(serve->edge.pulse);
    edge_deaths_destroy(serve->deaths);
}

static enum status child_run_engine(struct serve *serve, int ready_descriptor)
{
    close(serve->public_descriptor);
    close(serve->admin_descriptor);
    struct serve_half_options options = child_options(serve, &serve->engine, ready_descriptor);
    return serve_half_run_engine(&options);
}

static enum status child_run_edge(struct serve *serve, int ready_descriptor)
{
    struct serve_half_options options = child_options(serve, &serve->edge, ready_descriptor);
    options.deaths = serve->deaths;
    return serve_half_run_edge(&options);
}

static bool child_would_fail_again(enum status status)
{
    return status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED || status == STATUS_INVALID ||
           status == STATUS_NOT_FOUND || status == STATUS_LIMIT || status == STATUS_NO_MEMORY ||
           status == STATUS_IO || status == STATUS_OUT_OF_RANGE || status == STATUS_CONFLICT ||
           status == STATUS_EXISTS || status == STATUS_FORBIDDEN;
}

/* The child's process; never returns. It ends when its parent ends. It leaves the parent's process
 * group, so that Ctrl-C reaches the parent only, which then ends both children in order. */
_Noreturn static void child_main(struct serve *serve, struct child *child, int ready_descriptor)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != serve->pid)
        _exit(EXIT_CRASHED);
    (void)setpgid(0, 0);
    close(serve->lock);
    if (serve->edge.asks >= 0)
        close(serve->edge.asks);
    child_forget(serve, child);
    prctl(PR_SET_NAME, child->name);
    sigprocmask(SIG_SETMASK, &serve->signals_before, NULL);
    enum log_level level = LOG_INFO;
    (void)log_level_parse(&level, serve->config->log_level);
    log_open(STDERR_FILENO, level, child->name);
    enum status status = child->run(serve, ready_descriptor);
    if (status == STATUS_OK)
        exit(0);
    fprintf(stderr, "banyan %s: %s\n", child->name, status_note()->message);
    exit(child_would_fail_again(status) ? EXIT_WRONG_CONFIG : EXIT_CRASHED);
}

/* Starts a child. IO when the system has no descriptor, process or memory for it. */
static enum status child_fork(struct serve *serve, struct child *child)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        FAIL(STATUS_IO, "pipe: %s", strerrordesc_np(errno));
    fflush(NULL);
    pulse_clear(child->pulse);
    pid_t pid = fork();
    if (pid < 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        FAIL(STATUS_IO, "fork: %s", strerrordesc_np(error));
    }
    if (pid == 0) {
        close(ends[0]);
        child_main(serve, child, ends[1]);
    }
    close(ends[1]);
    child->pid = pid;
    child->ready = ends[0];
    child->started_us = now_us();
    child->start_at_us = 0;
    child->is_hung = false;
    watchdog_begin(&child->watchdog, child->pulse, child->started_us);
    LOG(LOG_INFO, "child_started", LOG_TEXT("name", child->name), LOG_NUMBER("pid", pid));
    return STATUS_OK;
}

static void child_close_pipes(struct child *child)
{
    if (child->ready >= 0)
        close(child->ready);
    if (child->asks >= 0)
        close(child->asks);
    child->ready = child->asks = -1;
}

/* Sets the time of the next start. */
static void child_put_off(struct child *child, bool was_steady)
{
    if (was_steady || child->backoff_ms == 0)
        child->backoff_ms = BACKOFF_FIRST_MS;
    else
        child->backoff_ms =
            child->backoff_ms * 2 < BACKOFF_MOST_MS ? child->backoff_ms * 2 : BACKOFF_MOST_MS;
    child->start_at_us = now_us() + child->backoff_ms * INT64_C(1000);
}

/* A child that cannot be started counts as one that died; the other child goes on meanwhile. */
static void child_start(struct serve *serve, struct child *child)
{
    if (child_fork(serve, child) == STATUS_OK)
        return;
    child_put_off(child, false);
    edge_deaths_count(serve->deaths, child->deaths_of, EDGE_DEATHS_UNSTARTED);
    LOG(LOG_ERROR, "child_unstarted", LOG_TEXT("name", child->name),
        LOG_TEXT("message", status_note()->message),
        LOG_NUMBER("restart_in_ms", child->backoff_ms));
}

static void child_ended(struct serve *serve, struct child *child, int wait_status)
{
    child_put_off(child, now_us() - child->started_us >= STEADY_AFTER_MS * INT64_C(1000));
    edge_deaths_count(serve->deaths, child->deaths_of,
                      child->is_hung ? EDGE_DEATHS_HUNG : EDGE_DEATHS_ENDED);
    child->pid = 0;
    child_close_pipes(child);
    LOG(LOG_WARN, "child_ended", LOG_TEXT("name", child->name),
        LOG_NUMBER("exit_code", WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1),
        LOG_NUMBER("signal", WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0),
        LOG_NUMBER("restart_in_ms", child->backoff_ms));
}

/* Makes the kernel send SIGIO when the edge writes to its pipe, because this process waits for
 * signals only. */
static void child_listen(struct child *child, pid_t own)
{
    if (fcntl(child->ready, F_SETOWN, own) != 0 ||
        fcntl(child->ready, F_SETFL, O_NONBLOCK | O_ASYNC) != 0) {
        LOG(LOG_WARN, "child_unheard", LOG_NUMBER("errno", errno));
        return;
    }
    child->asks = child->ready;
    child->ready = -1;
}

/* Reads the ready byte if it has come. */
static void child_poll_ready(struct serve *serve, struct child *child)
{
    if (child->ready < 0)
        return;
    struct pollfd poll_one = {.fd = child->ready, .events = POLLIN};
    if (poll(&poll_one, 1, 0) <= 0)
        return;
    char byte;
    if (read(child->ready, &byte, 1) == 1)
        child->was_ready = true;
    if (child->was_ready && child == &serve->edge)
        child_listen(child, serve->pid);
    if (child->ready >= 0)
        close(child->ready);
    child->ready = -1;
}

static void serve_announce(struct serve *serve)
{
    child_poll_ready(serve, &serve->engine);
    child_poll_ready(serve, &serve->edge);
    if (serve->is_announced || !serve->engine.was_ready || !serve->edge.was_ready)
        return;
    serve->is_announced = true;
    fprintf(stderr, "banyan: config API https://%s, admin key in %s/admin.key\n",
            serve->admin_address, serve->config->data_dir);
    if (serve->config->tls_cert[0] == '\0')
        fprintf(stderr, "banyan: clients trust %s/tls/ca.crt\n", serve->config->data_dir);
    printf("ready https://%s\n", serve->public_address);
    fflush(stdout);
}

/* Reaps children that died. UNAVAILABLE, which ends the server, when a child could not start for a
 * reason that would meet the next start too, and was never ready. */
static enum status serve_reap(struct serve *serve)
{
    for (;;) {
        int wait_status = 0;
        pid_t pid = waitpid(-1, &wait_status, WNOHANG);
        if (pid <= 0)
            return STATUS_OK;
        struct child *child = pid == serve->engine.pid ? &serve->engine
                              : pid == serve->edge.pid ? &serve->edge
                                                       : NULL;
        if (child == NULL)
            continue;
        child_poll_ready(serve, child);
        child_ended(serve, child, wait_status);
        bool is_config = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_WRONG_CONFIG;
        if (is_config && !child->was_ready)
            FAIL(STATUS_UNAVAILABLE, "the %s could not start; its reason stands above",
                 child->name);
    }
}

static void serve_restart(struct serve *serve, struct child *child)
{
    if (child->pid == 0 && now_us() >= child->start_at_us)
        child_start(serve, child);
}

/* How long a child may be silent, in microseconds; INT64_MAX = for ever. An engine gets --step-ms
 * more for its step, and LIMIT_RANK_WAIT_MS more to find by itself that a rank hangs. */
static int64_t serve_silence_us(const struct serve *serve, const struct child *child)
{
    int64_t most_ms = serve->config->hang_timeout_s * 1000;
    if (most_ms == 0)
        return INT64_MAX;
    if (child == &serve->engine)
        most_ms +=
            serve->config->step_ms + (serve->config->tensor_parallel > 1 ? LIMIT_RANK_WAIT_MS : 0);
    return most_ms * 1000;
}

/* Kills a child that hangs, unless a debugger traces it. Its clients then get an error, and
 * serve_restart() starts another child. */
static void serve_look(struct serve *serve, struct child *child)
{
    int64_t now = now_us();
    if (child->pid == 0 || child->is_hung ||
        now - child->watchdog.looked_us < WATCHDOG_LOOK_MS * INT64_C(1000))
        return;
    struct watchdog_process process = watchdog_process_look(child->pid);
    int64_t silent_us = watchdog_look(&child->watchdog, now, process.is_stopped);
    if (silent_us < serve_silence_us(serve, child))
        return;
    if (process.is_traced) {
        LOG(LOG_WARN, "child_traced", LOG_TEXT("name", child->name), LOG_NUMBER("pid", child->pid),
            LOG_NUMBER("silent_ms", silent_us / 1000));
        watchdog_begin(&child->watchdog, child->pulse, now);
        return;
    }
    LOG(LOG_ERROR, "child_hung", LOG_TEXT("name", child->name), LOG_NUMBER("pid", child->pid),
        LOG_NUMBER("silent_ms", silent_us / 1000), LOG_NUMBER("stopped", process.is_stopped));
    child->is_hung = true;
    kill(child->pid, SIGKILL); /* a child that hangs may not handle another signal */
}

/* Milliseconds until the next restart, look at the pulses, or look at the ready pipes. */
static int64_t serve_wait_ms(const struct serve *serve)
{
    int64_t wait_ms = 3600 * 1000;
    const struct child *children[] = {&serve->engine, &serve->edge};
    for (size_t i = 0; i < 2; i++) {
        int64_t due_ms = (children[i]->start_at_us - now_us()) / 1000 + 1;
        if (children[i]->pid == 0 && due_ms < wait_ms)
            wait_ms = due_ms > 0 ? due_ms : 0;
        if (children[i]->pid != 0 && serve->config->hang_timeout_s > 0 &&
            wait_ms > WATCHDOG_LOOK_MS)
            wait_ms = WATCHDOG_LOOK_MS;
        if (children[i]->ready >= 0 && wait_ms > 20)
            wait_ms = 20;
    }
    return wait_ms;
}

static int serve_wait_signal(const struct serve *serve, int64_t wait_ms)
{
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = (wait_ms % 1000) * 1000000};
    return sigtimedwait(&serve->signals, NULL, &wait);
}

/* Reads the options again, and is true when they are valid. The edge reads them in its own process;
 * the parent needs them too, because a restarted edge begins with the parent's options. */
static bool serve_reload(struct serve *serve)
{
    const struct config *next = NULL;
    if (config_reload(&next, serve->config, serve->sources) != STATUS_OK) {
        log_failure(LOG_ERROR, "reload_refused");
        return false;
    }
    config_release(serve->reloaded);
    serve->reloaded = next;
    serve->config = next;
    return true;
}

/* Reloads after the edge did so for an admin. The edge needs no signal then. */
static void serve_hear(struct serve *serve)
{
    char bytes[16];
    if (serve->edge.asks < 0)
        return;
    ssize_t got = read(serve->edge.asks, bytes, sizeof bytes);
    if (got > 0)
        (void)serve_reload(serve);
    if (got == 0) { /* the edge has ended */
        close(serve->edge.asks);
        serve->edge.asks = -1;
    }
}

static enum status serve_watch(struct serve *serve)
{
    for (;;) {
        TRY(serve_reap(serve));
        serve_announce(serve);
        serve_hear(serve);
        serve_restart(serve, &serve->engine);
        serve_restart(serve, &serve->edge);
        serve_look(serve, &serve->engine);
        serve_look(serve, &serve->edge);
        int signal_number = serve_wait_signal(serve, serve_wait_ms(serve));
        if (signal_number == SIGTERM || signal_number == SIGINT)
            return STATUS_OK;
        if (signal_number == SIGHUP && serve_reload(serve) && serve->edge.pid != 0)
            kill(serve->edge.pid, SIGHUP);
    }
}

/* From now on only the edge has the listening sockets open. When it closes them, clients are
 * refused at once instead of waiting in a backlog that nobody reads. */
static void serve_close_listeners(struct serve *serve)
{
    if (serve->public_descriptor >= 0)
        close(serve->public_descriptor);
    if (serve->admin_descriptor >= 0)
        close(serve->admin_descriptor);
    serve->public_descriptor = serve->admin_descriptor = -1;
}

/* Asks one child to end and waits for it: for its drain times and KILL_AFTER_DRAIN_MS more; then it
 * kills the child. A second SIGTERM or SIGINT is passed on, and ends the drain. */
static void serve_end_child(struct serve *serve, struct child *child)
{
    if (child->pid == 0)
        return;
    kill(child->pid, SIGTERM);
    int64_t limit_us =
        now_us() +
        (serve->config->drain_delay_s + serve->config->drain_timeout_s) * INT64_C(1000000) +
        KILL_AFTER_DRAIN_MS * INT64_C(1000);
    int wait_status = 0;
    while (waitpid(child->pid, &wait_status, WNOHANG) != child->pid) {
        if (now_us() >= limit_us) {
            kill(child->pid, SIGKILL);
            limit_us = INT64_MAX;
        }
        int signal_number = serve_wait_signal(serve, 20);
        if (signal_number == SIGTERM || signal_number == SIGINT)
            kill(child->pid, SIGTERM);
    }
    child->pid = 0;
    child_close_pipes(child);
    LOG(LOG_INFO, "child_stopped", LOG_TEXT("name", child->name));
}

static enum status open_lock(struct serve *serve, int data)
{
    serve->lock = openat(data, "serve.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (serve->lock < 0)
        FAIL(STATUS_IO, "serve.lock: %s", strerror(errno));
    if (flock(serve->lock, LOCK_EX | LOCK_NB) != 0)
        FAIL(STATUS_CONFLICT,
             "another server uses the data directory %s; give this one another --data-dir",
             serve->config->data_dir);
    return STATUS_OK;
}

/* Waits for the edge of a parent that was killed: it ends by itself, and keeps the addresses until
 * then. */
static enum status open_wait_for_orphan(const struct serve *serve, int data)
{
    int lock = openat(data, "edge.lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0)
        return STATUS_OK;
    int waited_ms = 0;
    while (flock(lock, LOCK_EX | LOCK_NB) != 0 && waited_ms < ORPHAN_WAIT_MS) {
        (void)poll(NULL, 0, ORPHAN_LOOK_MS);
        waited_ms += ORPHAN_LOOK_MS;
    }
    close(lock);
    if (waited_ms >= ORPHAN_WAIT_MS)
        FAIL(STATUS_CONFLICT,
             "another server uses the data directory %s; give this one another --data-dir",
             serve->config->data_dir);
    return STATUS_OK;
}

static enum status open_data(struct serve *serve)
{
    int data = -1;
    TRY(rights_open_data(serve->config, &data));
    enum status status = open_lock(serve, data);
    if (status == STATUS_OK)
        status = open_wait_for_orphan(serve, data);
    if (status == STATUS_OK)
        status = rights_decide(&serve->rights, serve->config);
    if (status == STATUS_OK)
        status = rights_give_data(&serve->rights, data);
    close(data);
    return status;
}

static enum status serve_open(struct serve *serve)
{
    const struct config *config = serve->config;
    if (config->model[0] != '\0' && config->upstream[0] != '\0')
        FAIL(STATUS_INVALID, "--model and --upstream exclude each other: one of them answers");
    if (config->model[0] == '\0' && config->upstream[0] == '\0')
        FAIL(STATUS_INVALID, "no model: set --model FILE.gguf, BANYAN_MODEL, or \"model\" in the "
                             "file of --config");
    sandbox_process();
    TRY(pulse_create(&serve->engine.pulse));
    TRY(pulse_create(&serve->edge.pulse));
    TRY(edge_deaths_create(&serve->deaths));
    TRY(open_data(serve));
    TRY(listener_bind_tcp(&serve->public_descriptor, config->listen, serve->public_address,
                          sizeof serve->public_address));
    TRY(listener_bind_tcp(&serve->admin_descriptor, config->admin_listen, serve->admin_address,
                          sizeof serve->admin_address));
    sigemptyset(&serve->signals);
    sigaddset(&serve->signals, SIGCHLD);
    sigaddset(&serve->signals, SIGTERM);
    sigaddset(&serve->signals, SIGINT);
    sigaddset(&serve->signals, SIGHUP);
    sigaddset(&serve->signals, SIGIO);
    sigprocmask(SIG_BLOCK, &serve->signals, &serve->signals_before);
    return STATUS_OK;
}

enum status serve_run(const struct config *config, const struct config_sources *sources)
{
    struct serve serve = {
        .config = config,
        .sources = sources,
        .pid = getpid(),
        .lock = -1,
        .public_descriptor = -1,
        .admin_descriptor = -1,
        .engine = {.name = "engine",
                   .run = child_run_engine,
                   .ready = -1,
                   .asks = -1,
                   .deaths_of = EDGE_DEATHS_OF_ENGINE},
        .edge = {.name = "edge",
                 .run = child_run_edge,
                 .ready = -1,
                 .asks = -1,
                 .deaths_of = EDGE_DEATHS_OF_EDGE},
    };
    enum status status = serve_open(&serve);
    if (status == STATUS_OK) {
        status = serve_watch(&serve);
        struct error_note note = *status_note();
        serve_close_listeners(&serve);
        serve_end_child(&serve, &serve.edge);
        serve_end_child(&serve, &serve.engine);
        signal(SIGIO, SIG_IGN); /* the end of the edge's pipe sends one, which would end us */
        sigprocmask(SIG_SETMASK, &serve.signals_before, NULL);
        status_note_set(&note);
    }
    serve_close_listeners(&serve);
    pulse_destroy(serve.engine.pulse);
    pulse_destroy(serve.edge.pulse);
    edge_deaths_destroy(serve.deaths);
    config_release(serve.reloaded);
    if (serve.lock >= 0)
        close(serve.lock);
    return status;
}
