#include "gateway/admin/admin_worker.h"

#include <pthread.h>
#include <time.h>

#include "config/base/mem.h"

struct admin_worker {
    struct admin_worker_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t is_new;
    struct admin_call *first;
    struct admin_call *last;
    size_t count;
    bool is_closing;
};

static struct timespec run_deadline(uint32_t after_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += after_ms / 1000;
    at.tv_nsec += (long)(after_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

static bool run_is_past(const struct timespec *deadline)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

/* Waits for a call until the deadline; NULL then, and when the worker closes. */
static struct admin_call *run_take(struct admin_worker *worker, const struct timespec *deadline)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->first == NULL && !worker->is_closing && !run_is_past(deadline))
        pthread_cond_timedwait(&worker->is_new, &worker->lock, deadline);
    struct admin_call *call = worker->is_closing ? NULL : worker->first;
    if (call != NULL) {
        worker->first = call->next_task;
        worker->count--;
    }
    pthread_mutex_unlock(&worker->lock);
    return call;
}

static bool run_goes_on(struct admin_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    bool goes_on = !worker->is_closing;
    pthread_mutex_unlock(&worker->lock);
    return goes_on;
}

static void *run(void *context)
{
    struct admin_worker *worker = context;
    const struct admin_worker_options *options = &worker->options;
    struct timespec deadline = run_deadline(options->idle_ms);
    while (run_goes_on(worker)) {
        struct admin_call *call = run_take(worker, &deadline);
        if (call != NULL) {
            options->work(call);
            loop_post(options->loop, options->done, call);
        }
        if (run_is_past(&deadline)) {
            options->idle(options->context);
            deadline = run_deadline(options->idle_ms);
        }
    }
    options->idle(options->context);
    return NULL;
}

enum status admin_worker_open(struct admin_worker **out, const struct admin_worker_options *options)
{
    *out = NULL;
    struct admin_worker *worker = mem_zalloc(1, sizeof *worker);
    if (worker == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the admins' worker");
    worker->options = *options;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->is_new, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&worker->lock, NULL);
    if (pthread_create(&worker->thread, NULL, run, worker) != 0) {
        pthread_mutex_destroy(&worker->lock);
        pthread_cond_destroy(&worker->is_new);
        mem_free(worker);
        FAIL(STATUS_NO_MEMORY, "no thread for the admins' worker");
    }
    *out = worker;
    return STATUS_OK;
}

void admin_worker_close(struct admin_worker *worker)
{
    if (worker == NULL)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->is_closing = true;
    pthread_cond_signal(&worker->is_new);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->is_new);
    mem_free(worker);
}

enum status admin_worker_push(struct admin_worker *worker, struct admin_call *call)
{
    call->next_task = NULL;
    pthread_mutex_lock(&worker->lock);
    bool has_room = worker->count < LIMIT_ADMIN_CALLS;
    if (has_room) {
        if (worker->first != NULL)
            worker->last->next_task = call;
        else
            worker->first = call;
        worker->last = call;
        worker->count++;
        pthread_cond_signal(&worker->is_new);
    }
    pthread_mutex_unlock(&worker->lock);
    if (!has_room)
        FAIL(STATUS_UNAVAILABLE, "Too many changes wait; try again shortly.");
    return STATUS_OK;
}
