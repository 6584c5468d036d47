#include "engine/bench/bench_machine.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/base/clock.h"

/* Reads the first line: user, nice, system, idle, iowait, irq, softirq, steal, in ticks. */
static int64_t machine_all_us(void)
{
    long long t[8];
    FILE *file = fopen("/proc/stat", "r");
    if (file == NULL)
        return -1;
    int count = fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1], &t[2],
                       &t[3], &t[4], &t[5], &t[6], &t[7]);
    fclose(file);
    if (count != 8)
        return -1;
    return (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * 1000000 / sysconf(_SC_CLK_TCK);
}

struct bench_machine bench_machine_now(void)
{
    struct bench_machine now = {.at = clock_mono_us(clock_system()), .all = machine_all_us()};
    struct rusage own;
    if (getrusage(RUSAGE_SELF, &own) != 0)
        now.all = -1;
    else
        now.own = (own.ru_utime.tv_sec + own.ru_stime.tv_sec) * INT64_C(1000000) +
                  own.ru_utime.tv_usec + own.ru_stime.tv_usec;
    return now;
}

double bench_machine_others(const struct bench_machine *begin, const struct bench_machine *end)
{
    if (begin->all < 0 || end->all < 0)
        return -1;
    int64_t others = (end->all - begin->all) - (end->own - begin->own);
    return others > 0 && end->at > begin->at ? (double)others / (double)(end->at - begin->at) : 0;
}
