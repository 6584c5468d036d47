/* gpu_sandbox: a device behind the engine's sandbox: its context is made, the process confines
 * itself as `serve` confines an engine, and then a backend, weights, captured steps and a swap of
 * KV pages must work with equal bits.
 *
 * usage: gpu_sandbox      ends with 77 without a device, or where the kernel has no Landlock */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/step/step_pause.h"
#include "gateway/serve/sandbox.h"
#include "kernels/kernels.h"
#include "kernels/kernels_prepare.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/gpu_pair.h"
#include "tests/kit/engine_run.h"

enum {
    NOT_HERE = 77,
    PLACES_MAX = 64,
    WARM = 6, /* steps of one shape: the second is captured, the others replay it */
};

struct places {
    struct sandbox_place places[PLACES_MAX];
    size_t count;
};

static void places_add(void *context, const char *path, bool is_node)
{
    struct places *places = context;
    const int descriptor = open(path, O_PATH | O_CLOEXEC);
    printf("%s %s%s\n", is_node ? "node  " : "folder", path, descriptor < 0 ? ": not there" : "");
    if (descriptor < 0)
        return;
    CHECK(places->count < PLACES_MAX);
    places->places[places->count++] =
        (struct sandbox_place){descriptor, is_node ? SANDBOX_NODE : SANDBOX_READ};
}

/* Confines itself like an engine's process: first the device, then the rules. */
static void confine(const char *model)
{
    const struct sandbox_network none = {.count = 0};
    struct places places = {.count = 0};
    kernels_prepare("cuda", 0, NULL);
    kernels_prepare_places("cuda", 0, NULL, places_add, &places);
    places_add(&places, model, false);
    sandbox_process();
    CHECK(sandbox_files(places.places, places.count, &none, false) == STATUS_OK);
    if (sandbox_calls(false, false) != STATUS_OK)
        printf("system calls are not filtered: %s\n", status_note()->message);
    CHECK(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
}

static void run(void)
{
    const struct scheduler_grant grant = {.act = SCHEDULER_PAUSE};
    uint32_t victim;
    struct step_world *alone = gpu_pair_open(WARM, &victim);
    step_world_run(alone);
    struct step_world *world = gpu_pair_open(WARM, &victim);
    step_pause(&world->step, world->step.sequences.order[victim], &grant);
    step_world_run(world);
    const struct kv_swap_figures *figures = &world->step.swap.figures;
    CHECK(figures->pages_out > 4 && figures->pages_in == figures->pages_out);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(step_world_same(&world->told[i], &alone->told[i]));
    printf("behind the sandbox: %d tokens of two sequences, %llu pages swapped out and in, equal "
           "bits\n",
           2 * GPU_PAIR_ANSWER, (unsigned long long)figures->pages_out);
}

/* The child ends without cleaning up: it may not remove anything by path. */
static void child(const char *model)
{
    if (!kernels_can_run("cuda"))
        exit(gpu_device_missing());
    confine(model);
    run();
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    int status = 0;
    if (sandbox_landlock() == 0) {
        printf("this kernel has no Landlock: nothing is confined\n");
        return NOT_HERE;
    }
    const char *model = engine_run_make_model();
    fflush(stdout);
    const pid_t pid = fork(); /* before the device is used: a forked process could not use it */
    CHECK(pid >= 0);
    if (pid == 0)
        child(model);
    CHECK(waitpid(pid, &status, 0) == pid);
    engine_run_remove_model();
    if (WIFSIGNALED(status))
        fprintf(stderr, "signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
