/* gpu_pair: two sequences on a device that generate beside each other, for checks of a swap.
 *
 * Owns:     the prompts.
 * Thread:   one.
 * Not here: what is paused, and what must hold then (gpu_swap, gpu_sandbox).
 */
#pragma once

#include "tests/kit/step_world.h"

enum { GPU_PAIR_PROMPT = 70, GPU_PAIR_ANSWER = 16, GPU_PAIR_STEPS_MAX = 1000 };

/* A world of the table "cuda" that preempts by swapping. Each sequence is of a domain of its own;
 * `victim`, the second one's index, has generated `warm` tokens. */
struct step_world *gpu_pair_open(uint32_t warm, uint32_t *victim);
