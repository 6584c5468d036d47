/* rank_follow: a process that computes its share of a model, as rank 0 tells it.
 *
 * Owns:     its share of the weights, pages with its KV heads, its copy of host memory.
 * Thread:   the process's first thread, which becomes its engine thread; it starts compute threads.
 * Cost:     no allocation once it has answered that its memory is ready.
 * Not here: requests, sequences, owners of pages, tokens: only rank 0 has those.
 */
#pragma once

#include "kernels/ranks.h"

/* Reads the model from `descriptor`, then computes until rank 0 ends (STATUS_OK). A failure to read
 * the model or to allocate is reported to rank 0 too. */
enum status rank_follow_run(struct ranks *ranks, int descriptor);
