/* edge_deaths: counts how often the parent process has lost the edge or the engine. The parent
 * counts; the edge shows the counts in its metrics.
 *
 * Owns:     memory that parent and edge share. It outlives each edge.
 * Thread:   the parent counts; the edge's loop reads. The counters are atomic.
 * Cost:     six counters.
 * Not here: the parent (gateway/serve), the metrics page (gateway/admin).
 */
#pragma once

#include "config/base/metrics.h"
#include "config/base/status.h"

struct edge_deaths;

enum edge_deaths_of { EDGE_DEATHS_OF_EDGE, EDGE_DEATHS_OF_ENGINE, EDGE_DEATHS_PROCESSES };
enum edge_deaths_why {
    EDGE_DEATHS_ENDED,     /* it ended by itself or by a signal that the parent did not send */
    EDGE_DEATHS_HUNG,      /* the parent killed it, because it gave no sign of life */
    EDGE_DEATHS_UNSTARTED, /* it could not start: no process, descriptor or memory was left */
    EDGE_DEATHS_WHYS
};

/* Maps the counters; a process that is forked later shares them. NO_MEMORY. */
enum status edge_deaths_create(struct edge_deaths **out);
/* Unmaps them in this process alone. NULL is allowed. */
void edge_deaths_destroy(struct edge_deaths *deaths);
void edge_deaths_count(struct edge_deaths *deaths, enum edge_deaths_of of,
                       enum edge_deaths_why why);

/* Brings the series banyan_process_deaths_total{process,why} up to the parent's counts. `deaths` is
 * NULL in an edge without a parent; then there is no such series. */
void edge_deaths_look(const struct edge_deaths *deaths, struct metrics *metrics);
