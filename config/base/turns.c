#include "config/base/turns.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/mem.h"

enum turns_lane { LANE_QUICK, LANE_LONG, LANES };
enum { TURNS_RUNNING = LANES * TURNS_DEPTH };

static const int NICE[LANES] = {[LANE_QUICK] = TURNS_NICE_QUICK, [LANE_LONG] = TURNS_NICE_LONG};
static const int64_t SECOND_US = 1000000;

struct turns_queue {
    struct turn *first;
    struct turn *last;
    /* bytes of work that the owner has had here; raised to the thread's level when it comes back */
    uint64_t served;
};

struct turns_owner {
    uint8_t id[TURNS_OWNER_BYTES];
    uint32_t waiting;
    uint32_t running;
    /* bytes it may still send to the quick lane; below 0 when work was longer than its text */
    int64_t credit;
    int64_t credit_at_us;
    struct turns_queue queues[LANES];
};

struct turns_thread {
    struct turns *turns;
    enum turns_lane lane;
    pthread_t handle;
    pthread_cond_t wake;
    uint64_t level; /* `served` of the owner whose turn began last */
    /* The fields below are used by the thread alone, without the lock. */
    uint32_t depth;
    size_t spent; /* bytes of work of the turn under way */
    size_t since; /* part of `spent` since the turn last yielded */
    const struct turn *now;
};

struct turns {
    struct turns_options options;
    pthread_mutex_t lock;
    bool is_ending;
    uint32_t waiting;
    uint32_t started;
    struct turns_thread threads[LANES];
    struct turns_owner *owners; /* [owner_count], capacity owner_capacity */
    uint32_t owner_count;
    uint32_t owner_capacity;
};

static _Thread_local struct turns_thread *here;

/* --- owners --- */

static int64_t turn_cost(const struct turn *turn)
{
    return turn->bytes > TURNS_LEAST ? (int64_t)turn->bytes : TURNS_LEAST;
}

static struct turns_owner *owner_find(struct turns *turns, const uint8_t *id)
{
    for (uint32_t i = 0; i < turns->owner_count; i++) {
        if (memcmp(turns->owners[i].id, id, TURNS_OWNER_BYTES) == 0)
            return &turns->owners[i];
    }
    return NULL;
}

/* Finds or makes an owner's entry. A new owner replaces the one that has been idle longest, or
 * takes an unused entry. One is always idle or unused, because there are more entries than turns
 * that can wait and run. */
static struct turns_owner *owner_take(struct turns *turns, const uint8_t *id, int64_t now_us)
{
    struct turns_owner *owner = owner_find(turns, id);
    if (owner != NULL)
        return owner;
    for (uint32_t i = 0; i < turns->owner_count; i++) {
        struct turns_owner *other = &turns->owners[i];
        bool is_idle =
            other->waiting == 0 && other->running == 0 && now_us - other->credit_at_us >= SECOND_US;
        if (is_idle && (owner == NULL || other->credit_at_us < owner->credit_at_us))
            owner = other;
    }
    if (owner == NULL && turns->owner_count < turns->owner_capacity)
        owner = &turns->owners[turns->owner_count++];
    for (uint32_t i = 0; i < turns->owner_count && owner == NULL; i++) {
        if (turns->owners[i].waiting == 0 && turns->owners[i].running == 0)
            owner = &turns->owners[i];
    }
    ASSERT(owner != NULL);
    *owner = (struct turns_owner){.credit = TURNS_RATE, .credit_at_us = now_us};
    memcpy(owner->id, id, TURNS_OWNER_BYTES);
    return owner;
}

static void owner_refill(struct turns_owner *owner, int64_t now_us)
{
    int64_t passed_us = now_us - owner->credit_at_us;
    if (passed_us <= 0)
        return;
    owner->credit_at_us = now_us;
    int64_t more = passed_us < 3600 * SECOND_US ? passed_us * TURNS_RATE / SECOND_US : INT32_MAX;
    owner->credit = owner->credit + more < TURNS_RATE ? owner->credit + more : TURNS_RATE;
}

static enum turns_lane owner_lane(struct turns_owner *owner, const struct turn *turn,
                                  int64_t now_us)
{
    owner_refill(owner, now_us);
    if (turn->bytes > TURNS_SHORT || owner->credit < turn_cost(turn))
        return LANE_LONG;
    owner->credit -= turn_cost(turn);
    return LANE_QUICK;
}

/* --- choosing the next turn --- */

/* Returns the owner of the next turn of a lane: the one with the least service, the first of
 * equals. Inside the turn `outer` it must be another owner, whose text is at most a quarter as
 * long. */
static struct turns_owner *next_owner(struct turns *turns, enum turns_lane lane,
                                      const struct turn *outer)
{
    struct turns_owner *best = NULL;
    for (uint32_t i = 0; i < turns->owner_count; i++) {
        struct turns_owner *owner = &turns->owners[i];
        const struct turns_queue *queue = &owner->queues[lane];
        if (queue->first == NULL)
            continue;
        if (outer != NULL && (memcmp(owner->id, outer->owner, TURNS_OWNER_BYTES) == 0 ||
                              queue->first->bytes > outer->bytes / 4))
            continue;
        if (best == NULL || queue->served < best->queues[lane].served)
            best = owner;
    }
    return best;
}

static struct turn *next_take(struct turns_thread *thread, struct turns_owner *owner)
{
    struct turns_queue *queue = &owner->queues[thread->lane];
    struct turn *turn = queue->first;
    queue->first = turn->next;
    if (queue->first == NULL)
        queue->last = NULL;
    if (thread->level < queue->served)
        thread->level = queue->served;
    queue->served += (uint64_t)turn_cost(turn);
    owner->waiting--;
    owner->running++;
    thread->turns->waiting--;
    return turn;
}

/* Runs one turn. The lock is held on entry and on return, not during the work. The work may free
 * the turn. */
static void next_run(struct turns_thread *thread, struct turns_owner *owner)
{
    struct turns *turns = thread->turns;
    struct turn *turn = next_take(thread, owner);
    const struct turn copy = *turn;
    const struct turn *outer = thread->now;
    const size_t outer_spent = thread->spent;
    const size_t outer_since = thread->since;
    thread->now = &copy;
    thread->spent = thread->since = 0;
    thread->depth++;
    pthread_mutex_unlock(&turns->lock);
    turns->options.work(turns->options.context, turn);
    pthread_mutex_lock(&turns->lock);
    size_t spent = thread->spent;
    thread->now = outer;
    thread->spent = outer_spent;
    thread->since = outer_since;
    thread->depth--;
    owner = owner_find(turns, copy.owner); /* its turn is running, so its entry was kept */
    owner->running--;
    /* An owner is charged afterwards for work beyond the length of its text. */
    if (spent > (size_t)turn_cost(&copy)) {
        size_t more = spent - (size_t)turn_cost(&copy);
        owner->queues[thread->lane].served += more;
        owner->credit -= thread->lane == LANE_QUICK ? (int64_t)more : 0;
    }
}

static void *thread_main(void *argument)
{
    struct turns_thread *thread = argument;
    struct turns *turns = thread->turns;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE[thread->lane]);
    if (thread->lane == LANE_LONG) /* any other thread that wakes preempts this one at once */
        (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    here = thread;
    pthread_mutex_lock(&turns->lock);
    while (!turns->is_ending) {
        struct turns_owner *owner = next_owner(turns, thread->lane, NULL);
        if (owner != NULL)
            next_run(thread, owner);
        else
            pthread_cond_wait(&thread->wake, &turns->lock);
    }
    pthread_mutex_unlock(&turns->lock);
    return NULL;
}

/* Yields to others: runs turns of other owners, up to a quantum of bytes for each owner that waits.
 */
static void spend_give_way(struct turns_thread *thread)
{
    struct turns *turns = thread->turns;
    const struct error_note note = *status_note();
    size_t left = 0;
    pthread_mutex_lock(&turns->lock);
    for (uint32_t i = 0; i < turns->owner_count; i++)
        left += turns->owners[i].queues[thread->lane].first != NULL ? TURNS_QUANTUM : 0;
    while (left > 0 && !turns->is_ending) {
        struct turns_owner *owner = next_owner(turns, thread->lane, thread->now);
        if (owner == NULL)
            break;
        size_t bytes = (size_t)turn_cost(owner->queues[thread->lane].first);
        left = left > bytes ? left - bytes : 0;
        next_run(thread, owner);
    }
    pthread_mutex_unlock(&turns->lock);
    status_note_set(&note);
}

void turns_spend(size_t bytes)
{
    struct turns_thread *thread = here;
    if (thread == NULL || thread->now == NULL)
        return;
    thread->spent += bytes;
    thread->since += bytes;
    if (thread->since < TURNS_QUANTUM)
        return;
    thread->since = 0;
    if (thread->depth < TURNS_DEPTH)
        spend_give_way(thread);
}

/* --- front --- */

enum status turns_create(struct turns **out, const struct turns_options *options)
{
    ASSERT(options->waiting_max >= 1);
    ASSERT(options->owner_max >= 1);
    *out = NULL;
    struct turns *turns = mem_zalloc(1, sizeof(*turns));
    if (turns == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the lanes of text work");
    turns->options = *options;
    turns->owner_capacity = options->waiting_max + TURNS_RUNNING + 1;
    turns->owners = mem_zalloc(turns->owner_capacity, sizeof(*turns->owners));
    if (turns->owners == NULL) {
        mem_free(turns);
        FAIL(STATUS_NO_MEMORY, "no memory for the queue of %u texts", options->waiting_max);
    }
    int failed = pthread_mutex_init(&turns->lock, NULL);
    for (enum turns_lane lane = 0; lane < LANES; lane++) {
        turns->threads[lane].turns = turns;
        turns->threads[lane].lane = lane;
        failed |= pthread_cond_init(&turns->threads[lane].wake, NULL);
    }
    ASSERT(failed == 0);
    for (; turns->started < LANES; turns->started++) {
        struct turns_thread *thread = &turns->threads[turns->started];
        if (pthread_create(&thread->handle, NULL, thread_main, thread) != 0) {
            turns_destroy(turns);
            FAIL(STATUS_NO_MEMORY, "a thread for text work could not be started");
        }
    }
    *out = turns;
    return STATUS_OK;
}

void turns_destroy(struct turns *turns)
{
    if (turns == NULL)
        return;
    pthread_mutex_lock(&turns->lock);
    turns->is_ending = true;
    for (uint32_t i = 0; i < turns->started; i++)
        pthread_cond_signal(&turns->threads[i].wake);
    pthread_mutex_unlock(&turns->lock);
    for (uint32_t i = 0; i < turns->started; i++)
        pthread_join(turns->threads[i].handle, NULL);
    for (enum turns_lane lane = 0; lane < LANES; lane++)
        pthread_cond_destroy(&turns->threads[lane].wake);
    pthread_mutex_destroy(&turns->lock);
    mem_free(turns->owners);
    mem_free(turns);
}

/* Called with the lock held. */
static enum status push_locked(struct turns *turns, struct turn *turn)
{
    if (turns->waiting >= turns->options.waiting_max)
        FAIL(STATUS_BUSY, "The server has no room for another request right now.");
    int64_t now_us = clock_mono_us(turns->options.clock);
    struct turns_owner *owner = owner_take(turns, turn->owner, now_us);
    if (owner->waiting >= turns->options.owner_max)
        FAIL(STATUS_QUEUE_FULL,
             "%u requests of this tenant are waiting to be read; send the next one when one is "
             "answered.",
             owner->waiting);
    enum turns_lane lane = owner_lane(owner, turn, now_us);
    struct turns_queue *queue = &owner->queues[lane];
    struct turns_thread *thread = &turns->threads[lane];
    turn->next = NULL;
    if (queue->first == NULL) {
        queue->first = turn;
        /* An owner saves up nothing while it is away. */
        queue->served = queue->served > thread->level ? queue->served : thread->level;
    } else {
        queue->last->next = turn;
    }
    queue->last = turn;
    owner->waiting++;
    turns->waiting++;
    pthread_cond_signal(&thread->wake);
    return STATUS_OK;
}

enum status turns_push(struct turns *turns, struct turn *turn)
{
    pthread_mutex_lock(&turns->lock);
    enum status status = push_locked(turns, turn);
    pthread_mutex_unlock(&turns->lock);
    return status;
}
