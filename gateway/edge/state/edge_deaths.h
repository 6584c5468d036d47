/* edge_deaths: how often the parent has lost a process: the parent counts, the edge shows it.
 *
 * Owns:     memory that both share, which outlives each edge.
 * Thread:   the parent counts; the edge's loop reads.
 * Cost:     six counters.
 * Not here: the parent (gateway/serve), the metrics' page (gateway/admin).
 */
#pragma once

#include "config/base/metrics.h"
#include "config/base/status.h"

struct edge_deaths;

enum edge_deaths_of { EDGE_DEATHS_OF_EDGE, EDGE_DEATHS_OF_ENGINE, EDGE_DEATHS_PROCESSES };
enum edge_deaths_why {
    EDGE_DEATHS_ENDED,     /* by itself, or by a signal that the parent did not send */
    EDGE_DEATHS_HUNG,      /* killed by the parent: it gave no sign of life */
    EDGE_DEATHS_UNSTARTED, /* there was no process, descriptor or memory for it */
    EDGE_DEATHS_WHYS
};

enum status edge_deaths_create(struct edge_deaths **out);
/* Unmaps it in this process alone. */
void edge_deaths_destroy(struct edge_deaths *deaths);
void edge_deaths_count(struct edge_deaths *deaths, enum edge_deaths_of of,
                       enum edge_deaths_why why);

/* banyan_process_deaths_total{process,why}: as the parent has counted. `deaths` may be NULL: an
 * edge without a parent has no such series. */
void edge_deaths_look(const struct edge_deaths *deaths, struct metrics *metrics);
