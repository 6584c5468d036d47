/* sim: the engine's step, planner, trees and pages against thousands of random runs.
 *
 * Owns:     the command line, and the message that names a failed seed.
 * Thread:   one.
 * Cost:     a few milliseconds a seed.
 * Not here: a run (sim_world), what is drawn (sim_load). */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/log.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_world.h"

/* One of this many seeds is run twice: the same seed must give the same run. */
enum { TWICE = 16 };

struct arguments {
    uint64_t first;
    uint64_t seeds;
    const char *kind;     /* only seeds of this kind; NULL: all */
    const char *arrivals; /* a file; NULL: drawn */
    struct sim_trace trace;
    struct sim_machine machine;
    bool is_traced;
};

static char replay[256];

/* Prints the command that repeats the run, whatever ended it (an assertion, a wrong answer). */
static void on_abort(int signal_number)
{
    ssize_t written = write(STDERR_FILENO, replay, strlen(replay));
    signal(signal_number, SIG_DFL);
    raise(written < 0 ? SIGKILL : signal_number);
}

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: sim [--seeds N] [--first K] [--kind NAME] | --seed K [--trace]\n"
                    "       … --arrivals FILE: of Azure's or Mooncake's form\n"
                    "       … --page-tokens N: 16, 64 …; --late N: copies end N steps later\n"
                    "       … --window N [--window-units N]: layers of two kinds\n"
                    "kinds:");
    for (uint32_t i = 0; i < sim_load_kind_count(); i++)
        fprintf(stderr, " %s", sim_load_kind_name(i));
    fputc('\n', stderr);
    exit(2);
}

static void parse(struct arguments *out, int argc, char **argv)
{
    *out = (struct arguments){.seeds = 1000, .machine = {.page_tokens = SIM_PAGE}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        out->is_traced = out->is_traced || strcmp(argv[i], "--trace") == 0;
        if (strcmp(argv[i], "--trace") == 0)
            continue;
        if (value == NULL)
            usage();
        if (strcmp(argv[i], "--kind") == 0)
            out->kind = value;
        else if (strcmp(argv[i], "--seeds") == 0)
            out->seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--first") == 0)
            out->first = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--arrivals") == 0)
            out->arrivals = value;
        else if (strcmp(argv[i], "--page-tokens") == 0)
            out->machine.page_tokens = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--late") == 0)
            out->machine.late_steps = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--window") == 0)
            out->machine.window = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--window-units") == 0)
            out->machine.window_units = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0) {
            out->first = strtoull(value, NULL, 10);
            out->seeds = 1;
        } else
            usage();
        i++;
    }
}

/* Returns the seed's own kind, or the requested one. */
static uint32_t kind_of(const struct arguments *arguments, uint64_t seed)
{
    return arguments->kind != NULL ? sim_load_kind_find(arguments->kind)
                                   : (uint32_t)(seed % sim_load_kind_count());
}

static void run(struct sim_result *out, const struct arguments *arguments, uint64_t seed)
{
    uint32_t kind = kind_of(arguments, seed);
    const struct sim_trace *trace = arguments->arrivals != NULL ? &arguments->trace : NULL;
    snprintf(replay, sizeof(replay),
             "sim: seed %" PRIu64 " (%s) failed; again: sim --seed %" PRIu64
             " --kind %s --page-tokens %u --late %u --window %u --window-units %u --trace%s%s\n",
             seed, sim_load_kind_name(kind), seed, sim_load_kind_name(kind),
             arguments->machine.page_tokens, arguments->machine.late_steps,
             arguments->machine.window, arguments->machine.window_units,
             trace != NULL ? " --arrivals " : "", trace != NULL ? arguments->arrivals : "");
    sim_world_run(out, seed, kind, &arguments->machine, trace, arguments->is_traced);
}

static void add(struct sim_result *sum, const struct sim_result *one)
{
    sum->steps += one->steps;
    sum->rows += one->rows;
    sum->tokens_prompt += one->tokens_prompt;
    sum->tokens_cached += one->tokens_cached;
    sum->tokens_generated += one->tokens_generated;
    sum->preemptions += one->preemptions;
    sum->pauses += one->pauses;
    sum->overhead += one->overhead;
    sum->guesses_right += one->guesses_right;
    sum->guesses_wrong += one->guesses_wrong;
    sum->wait_steps = one->wait_steps > sum->wait_steps ? one->wait_steps : sum->wait_steps;
    sum->wait_served = one->wait_served > sum->wait_served ? one->wait_served : sum->wait_served;
    sum->spread = one->spread > sum->spread ? one->spread : sum->spread;
    sum->pairs_wanted += one->pairs_wanted;
    sum->pairs_judged += one->pairs_judged;
    sum->evicted_to_host += one->evicted_to_host;
    sum->evicted_dropped += one->evicted_dropped;
    sum->returned += one->returned;
    sum->windows_dropped += one->windows_dropped;
    sum->window_lost += one->window_lost;
    sum->copies += one->copies;
    sum->copies_waited += one->copies_waited;
    sum->requests += one->requests;
    sum->cancelled += one->cancelled;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct sim_result sum = {0};
    uint64_t seeds = 0;
    parse(&arguments, argc, argv);
    if (arguments.machine.page_tokens % SIM_PAGE != 0 || arguments.machine.page_tokens == 0)
        usage();
    if (arguments.machine.window > 0 && arguments.machine.window_units == 0)
        arguments.machine.window_units = 2;
    if (arguments.kind != NULL && sim_load_kind_name(sim_load_kind_find(arguments.kind)) == NULL)
        usage();
    signal(SIGABRT, on_abort);
    log_open(STDERR_FILENO, LOG_ERROR, "sim"); /* a host tier that is too small is normal here */
    if (arguments.arrivals != NULL && !sim_trace_open(&arguments.trace, arguments.arrivals))
        return 2;
    uint64_t end = arguments.first + arguments.seeds;
    for (uint64_t seed = arguments.first; seed < end; seed++) {
        struct sim_result one;
        uint32_t kind = kind_of(&arguments, seed);
        if (kind < sim_load_kind_count() && kind != seed % sim_load_kind_count())
            continue;
        run(&one, &arguments, seed);
        if (seeds++ % TWICE == 0 && !arguments.is_traced) {
            struct sim_result again;
            run(&again, &arguments, seed);
            if (memcmp(&again, &one, sizeof(one)) != 0) {
                fprintf(stderr, "sim: the same seed gave two different runs\n");
                abort();
            }
        }
        add(&sum, &one);
    }
    if (seeds == 0)
        usage();
    sim_trace_close(&arguments.trace);
    printf("sim: %" PRIu64 " seeds, %u requests (%u cancelled), %" PRIu64 " steps, %" PRIu64
           " rows, prompts of %" PRIu64 " tokens (%" PRIu64 " cached), %" PRIu64
           " generated, %" PRIu64 " preemptions (%" PRIu64 " reported), %" PRIu64
           " rows recomputed, %.0f %% of the bound of fairness (compared in %.0f %% of the steps "
           "in which two clients wanted more), pages: %" PRIu64 " evicted to the host, %" PRIu64
           " restored, %" PRIu64 " dropped\n",
           seeds, sum.requests, sum.cancelled, sum.steps, sum.rows, sum.tokens_prompt,
           sum.tokens_cached, sum.tokens_generated, sum.preemptions, sum.pauses, sum.overhead,
           100 * sum.spread,
           sum.pairs_wanted > 0 ? 100.0 * (double)sum.pairs_judged / (double)sum.pairs_wanted : 0,
           sum.evicted_to_host, sum.returned, sum.evicted_dropped);
    if (arguments.machine.window > 0)
        printf("sim: pages gave up their window units %" PRIu64 " times, hits of %" PRIu64
               " tokens were given up for want of them\n",
               sum.windows_dropped, sum.window_lost);
    if (sum.copies > 0)
        printf("sim: %" PRIu64 " batches of copies, %" PRIu64 " were waited for\n", sum.copies,
               sum.copies_waited);
    if (sum.guesses_right + sum.guesses_wrong > 0)
        printf("sim: %" PRIu64 " drafts were right, %" PRIu64 " wrong\n", sum.guesses_right,
               sum.guesses_wrong);
    if (sum.wait_steps > 0)
        printf("sim: light tenants beside a flood waited at most %u steps, %.0f %% of the bound\n",
               sum.wait_steps, 100 * sum.wait_served);
    return 0;
}
