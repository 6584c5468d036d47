#include "gateway/http/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/http/loop_h2o.h"
#include "gateway/http/timer_heap.h"

struct loop_message {
    struct loop_message *next;
    void (*call)(void *context);
    void *context;
};

struct loop_timer {
    struct timer_heap_entry entry; /* first: the heap gives back its address */
    struct loop *loop;
    void (*call)(void *context);
    void *context;
};

struct loop_signals {
    pthread_t thread;
    bool is_watching;
    _Atomic uint64_t pending; /* bit n = signal n */
    void (*call)(void *context, int signal_number);
    void *context;
};

struct loop {
    h2o_evloop_t *evloop;
    struct timer_heap timers;
    size_t timer_count; /* created, armed or not: the heap has room for all */
    uint64_t turns;     /* that have begun */
    pthread_mutex_t mutex;
    struct loop_message *first; /* under mutex */
    struct loop_message *last;  /* under mutex */
    int wake_descriptor;
    h2o_socket_t *wake_socket;
    _Atomic bool is_stopping;
    struct loop_signals signals;
};

/* libh2o 2.2.5 does not export this structure, and h2o_evloop_destroy does not close the
 * descriptor. */
struct loop_epoll {
    h2o_evloop_t super;
    int descriptor;
};

/* Under the mutex, so that loop_destroy can wait for it. */
static void wake(struct loop *loop)
{
    uint64_t one = 1;
    ssize_t written;
    do
        written = write(loop->wake_descriptor, &one, sizeof(one));
    while (written < 0 && errno == EINTR);
    /* EAGAIN means that the counter is full: then the loop wakes anyway. */
}

static void on_wake(h2o_socket_t *socket, const char *error)
{
    struct loop *loop = socket->data;
    ASSERT(error == NULL);
    h2o_buffer_consume(&socket->input, socket->input->size);
    pthread_mutex_lock(&loop->mutex);
    struct loop_message *message = loop->first;
    loop->first = NULL;
    loop->last = NULL;
    pthread_mutex_unlock(&loop->mutex);
    while (message != NULL) {
        struct loop_message *next = message->next;
        message->call(message->context);
        mem_free(message);
        message = next;
    }
}

/* An input buffer begins with room for one read instead of two, because an idle stream keeps one.
 * A large buffer never becomes a file under /tmp. */
static void create_set_buffers(void)
{
    h2o_socket_buffer_prototype._initial_buf.capacity = H2O_SOCKET_INITIAL_INPUT_BUFFER_SIZE;
    h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
}

enum status loop_create(struct loop **out)
{
    create_set_buffers();
    struct loop *loop = mem_zalloc(1, sizeof(*loop));
    if (loop == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an event loop");
    /* A write to a closed connection must fail, and not end the process. */
    signal(SIGPIPE, SIG_IGN);
    loop->wake_descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_descriptor < 0) {
        mem_free(loop);
        FAIL(STATUS_IO, "no descriptor for an event loop");
    }
    pthread_mutex_init(&loop->mutex, NULL);
    timer_heap_init(&loop->timers);
    loop->evloop = h2o_evloop_create();
    loop->wake_socket = h2o_evloop_socket_create(loop->evloop, loop->wake_descriptor, 0);
    loop->wake_socket->data = loop;
    h2o_socket_read_start(loop->wake_socket, on_wake);
    *out = loop;
    return STATUS_OK;
}

static struct loop *volatile destroy_left; /* for leak checkers: memory in reach is no leak */

/* A listener could not close a connection, whose timers libh2o still has. To destroy the loop would
 * fail an assertion of libh2o, so it stays allocated. */
static void destroy_leave(struct loop *loop)
{
    LOG(LOG_WARN, "loop_left");
    destroy_left = loop;
}

void loop_destroy(struct loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->signals.is_watching) {
        pthread_cancel(loop->signals.thread);
        pthread_join(loop->signals.thread, NULL);
    }
    ASSERT(loop->timer_count == 0);
    if (!h2o_linklist_is_empty(&loop->evloop->_timeouts)) {
        destroy_leave(loop);
        return;
    }
    /* The thread that stopped the loop, or posted the last call, may still be in wake(). */
    pthread_mutex_lock(&loop->mutex);
    pthread_mutex_unlock(&loop->mutex);
    while (loop->first != NULL) {
        struct loop_message *next = loop->first->next;
        mem_free(loop->first);
        loop->first = next;
    }
    h2o_socket_close(loop->wake_socket);
    h2o_timeout__do_post_callback(loop->evloop); /* else destroy closes the socket a second time */
    int descriptor = ((struct loop_epoll *)loop->evloop)->descriptor;
    h2o_evloop_destroy(loop->evloop);
    close(descriptor);
    timer_heap_deinit(&loop->timers);
    pthread_mutex_destroy(&loop->mutex);
    mem_free(loop);
}

static void run_timers(struct loop *loop)
{
    int64_t now_us = loop_now_us(loop);
    struct timer_heap_entry *entry;
    while ((entry = timer_heap_first(&loop->timers)) != NULL && entry->at_us <= now_us) {
        struct loop_timer *timer = (struct loop_timer *)entry;
        timer_heap_remove(&loop->timers, entry);
        timer->call(timer->context);
    }
}

void loop_h2o_forgive_clock(struct loop *loop)
{
    h2o_linklist_t *anchor = &loop->evloop->_timeouts;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = node->next) {
        h2o_timeout_t *timeout = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, node);
        h2o_linklist_t *entries = &timeout->_entries;
        for (h2o_linklist_t *at = entries->next; at != entries; at = at->next) {
            h2o_timeout_entry_t *entry = H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, at);
            if (entry->registered_at > loop->evloop->_now)
                entry->registered_at = loop->evloop->_now;
        }
    }
}

void loop_h2o_turn(struct loop *loop, uint32_t wait_ms)
{
    loop->turns++;
    run_timers(loop);
    /* h2o_evloop_run frees closed sockets before it completes writes. Writes that began outside
     * libh2o's callbacks, on such sockets, must be completed first. */
    h2o_timeout__do_post_callback(loop->evloop);
    const struct timer_heap_entry *first = timer_heap_first(&loop->timers);
    if (first != NULL) {
        int64_t left_us = first->at_us - loop_now_us(loop);
        int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000; /* rounded up: not early */
        if (left_ms < wait_ms)
            wait_ms = (uint32_t)left_ms;
    }
    uint64_t before_ms = loop->evloop->_now;
    if (h2o_evloop_run(loop->evloop, (int32_t)wait_ms) != 0)
        ASSERT(errno == EINTR);
    if (loop->evloop->_now < before_ms)
        loop_h2o_forgive_clock(loop);
}

void loop_run(struct loop *loop)
{
    enum { WAIT_MS = 60000 }; /* any long time: timers and events end the wait */
    while (!atomic_load(&loop->is_stopping))
        loop_h2o_turn(loop, WAIT_MS);
    atomic_store(&loop->is_stopping, false);
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    atomic_store(&loop->is_stopping, true);
    wake(loop);
    pthread_mutex_unlock(&loop->mutex);
}

void loop_post(struct loop *loop, void (*call)(void *context), void *context)
{
    struct loop_message *message = mem_alloc(sizeof(*message));
    ASSERT(message != NULL);
    *message = (struct loop_message){NULL, call, context};
    pthread_mutex_lock(&loop->mutex);
    bool was_empty = loop->first == NULL;
    if (was_empty)
        loop->first = message;
    else
        loop->last->next = message;
    loop->last = message;
    if (was_empty)
        wake(loop);
    pthread_mutex_unlock(&loop->mutex);
}

struct loop_timer *loop_timer_create(struct loop *loop, void (*call)(void *context), void *context)
{
    struct loop_timer *timer = mem_zalloc(1, sizeof(*timer));
    ASSERT(timer != NULL);
    enum status status = timer_heap_reserve(&loop->timers, ++loop->timer_count);
    ASSERT(status == STATUS_OK);
    timer->loop = loop;
    timer->call = call;
    timer->context = context;
    return timer;
}

void loop_timer_arm(struct loop_timer *timer, uint32_t delay_ms)
{
    struct loop *loop = timer->loop;
    timer_heap_remove(&loop->timers, &timer->entry);
    timer_heap_insert(&loop->timers, &timer->entry, loop_now_us(loop) + (int64_t)delay_ms * 1000);
}

void loop_timer_disarm(struct loop_timer *timer)
{
    timer_heap_remove(&timer->loop->timers, &timer->entry);
}

void loop_timer_destroy(struct loop_timer *timer)
{
    if (timer == NULL)
        return;
    loop_timer_disarm(timer);
    timer->loop->timer_count--;
    mem_free(timer);
}

static void watch_signals_deliver(void *context)
{
    struct loop *loop = context;
    uint64_t pending = atomic_exchange(&loop->signals.pending, 0);
    for (int number = 1; number < 64; number++) {
        if (pending & (UINT64_C(1) << number))
            loop->signals.call(loop->signals.context, number);
    }
}

static void watch_signals_fill(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGCHLD);
}

static void *watch_signals_thread(void *context)
{
    struct loop *loop = context;
    sigset_t set;
    watch_signals_fill(&set);
    for (;;) {
        int number;
        if (sigwait(&set, &number) != 0)
            continue;
        int state;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        atomic_fetch_or(&loop->signals.pending, UINT64_C(1) << number);
        loop_post(loop, watch_signals_deliver, loop);
        pthread_setcancelstate(state, NULL);
    }
    return NULL;
}

enum status loop_watch_signals(struct loop *loop, void (*call)(void *context, int signal_number),
                               void *context)
{
    ASSERT(!loop->signals.is_watching);
    sigset_t set;
    watch_signals_fill(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    loop->signals.call = call;
    loop->signals.context = context;
    if (pthread_create(&loop->signals.thread, NULL, watch_signals_thread, loop) != 0)
        FAIL(STATUS_NO_MEMORY, "cannot start the thread that waits for signals");
    loop->signals.is_watching = true;
    return STATUS_OK;
}

int64_t loop_now_us(struct loop *loop)
{
    (void)loop;
    return clock_mono_us(clock_system());
}

h2o_loop_t *loop_h2o(struct loop *loop)
{
    return loop->evloop;
}

uint64_t loop_h2o_turns(const struct loop *loop)
{
    return loop->turns;
}
