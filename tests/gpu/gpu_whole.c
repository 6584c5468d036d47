/* gpu_whole: `banyan bench` for builds whose kernels of `--isa cuda` run on the processor
 * (tests/kit/simt): whole models by the engine's steps, for the check's dry run.
 *
 * usage: gpu_whole_simt --model FILE --isa cuda …   as `banyan bench` */
#include "engine/bench.h"
#include "kernels/kernels.h"

int main(int argc, char **argv)
{
    kernels_prepare("cuda", 0, NULL); /* as a process that gives up its rights does */
    if (bench_run(argc - 1, argv + 1, stdout) == STATUS_OK)
        return 0;
    fprintf(stderr, "gpu_whole: %s\n", status_note()->message);
    return 1;
}
