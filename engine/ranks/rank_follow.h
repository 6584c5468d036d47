/* rank_follow: a process that computes its share of a model, as rank 0 tells it.
 *
 * Owns:     its weights, its pages of its KV heads, its copy of host memory.
 * Thread:   the process's first, which becomes its engine thread; starts compute threads.
 * Cost:     no allocation once it has answered that its memory is there.
 * Not here: requests, sequences, which pages are whose, tokens: rank 0 alone has those.
 */
#pragma once

#include "kernels/ranks.h"

/* Reads the model from `descriptor`, then computes until rank 0 has ended (STATUS_OK). What fails
 * before is rank 0's to tell, too. */
enum status rank_follow_run(struct ranks *ranks, int descriptor);
