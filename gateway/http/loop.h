/* loop: an event loop on one thread: timers, calls posted by other threads, signals.
 *
 * Owns:     an event loop of libh2o and the queue of posted calls.
 * Thread:   the thread in loop_run; loop_post and loop_stop may be called on any thread.
 * Cost:     a post is one allocation, and one system call when the queue was empty.
 * Not here: listeners (listener), requests (request).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

struct loop;

/* NO_MEMORY or IO. SIGPIPE is ignored in the process from then on. */
enum status loop_create(struct loop **out);
/* Not while loop_run runs; all timers must be destroyed. NULL is allowed. */
void loop_destroy(struct loop *loop);
/* Runs until loop_stop; can be called again. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop); /* any thread */

/* Runs `call(context)` on the loop's thread, in the order of the posts. Any thread, also the
 * loop's. Posts that have not run when the loop is destroyed are dropped. */
void loop_post(struct loop *loop, void (*call)(void *context), void *context);

/* A timer that fires once; to arm it again moves it. Timers are made and used on the loop's thread.
 * `call` may arm or destroy its own timer. */
struct loop_timer;
struct loop_timer *loop_timer_create(struct loop *loop, void (*call)(void *context), void *context);
void loop_timer_arm(struct loop_timer *timer, uint32_t delay_ms);
void loop_timer_disarm(struct loop_timer *timer);
void loop_timer_destroy(struct loop_timer *timer);

/* Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD for the process and runs `call(context, signal)` on
 * the loop when one arrives. Call it once, and before any other thread starts. NO_MEMORY. */
enum status loop_watch_signals(struct loop *loop, void (*call)(void *context, int signal_number),
                               void *context);

/* Microseconds of the monotonic clock. */
int64_t loop_now_us(struct loop *loop);
