/* gpu_pair: two sequences on a device that generate beside each other, for checks of a swap.
 *
 * Owns:     the prompts.
 * Thread:   one.
 * Not here: which one is preempted, and what must hold then (gpu_swap, gpu_sandbox).
 */
#pragma once

#include "tests/kit/step_world.h"

enum { GPU_PAIR_PROMPT = 70, GPU_PAIR_ANSWER = 16, GPU_PAIR_STEPS_MAX = 1000 };

/* Opens a world with the table "cuda" that preempts by swapping. Each sequence has a domain of its
 * own; `victim`, the second one's index, has generated `warm` tokens. */
struct step_world *gpu_pair_open(uint32_t warm, uint32_t *victim);
