/* loop: one event loop on one thread: timers, messages from other threads, the end.
 *
 * Owns:     an h2o event loop and its message queue. Only gateway/http and upstream see libh2o.
 * Thread:   the thread in loop_run owns everything hung on the loop; loop_post is for all others.
 * Cost:     a post is one allocation and, when the loop sleeps, one wake-up.
 * Not here: listeners (listener), requests (request).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

struct loop;

enum status loop_create(struct loop **out);
void loop_destroy(struct loop *loop);
/* Runs until loop_stop. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop); /* any thread */

/* Runs `call(context)` on the loop's thread, in order of posting; any thread, the loop's own too.
 * Posts that are not run when the loop is destroyed are dropped. */
void loop_post(struct loop *loop, void (*call)(void *context), void *context);

/* A one-shot timer; arming again moves it. Timers are made and used on the loop's thread. */
struct loop_timer;
struct loop_timer *loop_timer_create(struct loop *loop, void (*call)(void *context), void *context);
void loop_timer_arm(struct loop_timer *timer, uint32_t delay_ms);
void loop_timer_disarm(struct loop_timer *timer);
void loop_timer_destroy(struct loop_timer *timer);

/* Blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD for the process and runs `call(context, signal)` on
 * the loop when one arrives. Call it before any other thread starts. */
enum status loop_watch_signals(struct loop *loop, void (*call)(void *context, int signal_number),
                               void *context);

/* Microseconds, monotonic, as of now. */
int64_t loop_now_us(struct loop *loop);
