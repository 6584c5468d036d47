#include "gateway/edge/state/edge_deaths.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct edge_deaths {
    atomic_uint counts[EDGE_DEATHS_PROCESSES][EDGE_DEATHS_WHYS];
};

enum status edge_deaths_create(struct edge_deaths **out)
{
    void *memory =
        mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        FAIL(STATUS_NO_MEMORY, "shared memory: %s", strerror(errno));
    *out = memory;
    return STATUS_OK;
}

void edge_deaths_destroy(struct edge_deaths *deaths)
{
    if (deaths != NULL)
        munmap(deaths, sizeof *deaths);
}

void edge_deaths_count(struct edge_deaths *deaths, enum edge_deaths_of of, enum edge_deaths_why why)
{
    atomic_fetch_add(&deaths->counts[of][why], 1);
}

void edge_deaths_look(const struct edge_deaths *deaths, struct metrics *metrics)
{
    static const char *const processes[EDGE_DEATHS_PROCESSES] = {"edge", "engine"};
    static const char *const whys[EDGE_DEATHS_WHYS] = {"ended", "hung", "unstarted"};
    for (int i = 0; deaths != NULL && i < EDGE_DEATHS_PROCESSES * EDGE_DEATHS_WHYS; i++) {
        int of = i / EDGE_DEATHS_WHYS;
        int why = i % EDGE_DEATHS_WHYS;
        char labels[64];
        snprintf(labels, sizeof labels, "process=\"%s\",why=\"%s\"", processes[of], whys[why]);
        struct metric *metric = metrics_get(
            metrics, METRIC_COUNTER, "banyan_process_deaths_total",
            "Times that the parent has lost a process, or could not start it.", labels, NULL, 0);
        metric_add(metric,
                   (int64_t)atomic_load(&deaths->counts[of][why]) - (int64_t)metric_value(metric));
    }
}
