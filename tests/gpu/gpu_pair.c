#include "tests/gpu/gpu_pair.h"

#include "config/base/rng.h"
#include "engine/step/step_pause.h"
#include "tests/gpu/gpu_check.h"

struct step_world *gpu_pair_open(uint32_t warm, uint32_t *victim)
{
    static uint32_t tokens[2][GPU_PAIR_PROMPT];
    const struct step_world_options options = {
        .isa = "cuda", .rows_max = 64, .sequences_max = 2, .pages = 48, .host_pages = 48};
    struct step_world *world = step_world_open(&options);
    world->step.options.preemption = ENGINE_PREEMPTION_SWAP;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t t = 0; t < GPU_PAIR_PROMPT; t++)
            tokens[i][t] = (uint32_t)(rng_at(31, i, t) % 256);
        struct engine_request asked =
            step_world_request(tokens[i], GPU_PAIR_PROMPT, GPU_PAIR_ANSWER, (uint8_t)(1 + i));
        asked.want_logprobs = true;
        *victim = step_world_submit(world, &asked);
    }
    for (uint32_t i = 0; world->told[*victim].answers[0].count < warm; i++) {
        CHECK(i < GPU_PAIR_STEPS_MAX);
        step_world_step(world);
    }
    return world;
}
