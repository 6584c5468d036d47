#include "gateway/http/loop_worker.h"

#include <pthread.h>

#include "config/base/mem.h"

struct loop_worker {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_ending;
    uint32_t capacity;
    uint32_t first;
    uint32_t count;
    struct loop_worker_task **queue; /* [capacity], a ring */
};

static void task_done(void *context)
{
    struct loop_worker_task *task = context;
    task->done(task);
}

static void *worker_main(void *context)
{
    struct loop_worker *worker = context;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (worker->count == 0 && !worker->is_ending)
            pthread_cond_wait(&worker->wake, &worker->lock);
        if (worker->count == 0)
            break;
        struct loop_worker_task *task = worker->queue[worker->first];
        worker->first = (worker->first + 1) % worker->capacity;
        worker->count--;
        pthread_mutex_unlock(&worker->lock);
        task->work(task);
        loop_post(worker->loop, task_done, task);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

enum status loop_worker_create(struct loop_worker **out, struct loop *loop, uint32_t capacity)
{
    ASSERT(capacity >= 1);
    struct loop_worker *worker = mem_zalloc(1, sizeof *worker);
    if (worker == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a worker");
    worker->queue = mem_zalloc(capacity, sizeof(struct loop_worker_task *));
    worker->loop = loop;
    worker->capacity = capacity;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->wake, NULL);
    bool is_started =
        worker->queue != NULL && pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    if (!is_started) {
        mem_free(worker->queue);
        mem_free(worker);
        FAIL(STATUS_NO_MEMORY, "no memory or no thread for a worker");
    }
    *out = worker;
    return STATUS_OK;
}

void loop_worker_destroy(struct loop_worker *worker)
{
    if (worker == NULL)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->is_ending = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    mem_free(worker->queue);
    mem_free(worker);
}

enum status loop_worker_submit(struct loop_worker *worker, struct loop_worker_task *task)
{
    pthread_mutex_lock(&worker->lock);
    bool is_full = worker->count == worker->capacity;
    if (!is_full) {
        task->worker = worker;
        worker->queue[(worker->first + worker->count) % worker->capacity] = task;
        worker->count++;
        pthread_cond_signal(&worker->wake);
    }
    pthread_mutex_unlock(&worker->lock);
    if (is_full)
        FAIL(STATUS_BUSY, "The server has no room for another request right now.");
    return STATUS_OK;
}
