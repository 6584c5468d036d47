/* bench_speculate: what speculation gives one stream of the whole engine, and what it costs.
 *
 * Owns:     nothing after it returns; meanwhile two engines, with speculation and without.
 * Thread:   one caller.
 * Cost:     twice the model and its pages; for each kind of prompt and engine, 1 + --repeat answers
 *           of --gen tokens.
 * Not here: several streams, real text, the server (tests/bench/speculation_bench.py).
 *
 * There are two kinds of token prompts, and both engines answer in turns, so that a machine whose
 * speed drifts treats them alike. `copy` repeats a passage that the model itself has generated, and
 * continues it greedily. `fresh` has random ids, continued at a temperature high enough to repeat
 * nothing.
 */
#pragma once

#include <stdio.h>

#include "engine/bench/bench_report.h"

/* Measures and prints a table, or with options->is_json an object. OUT_OF_RANGE when the model's
 * context is too short; CORRUPT when an answer differs from the one without speculation; other
 * errors as engine_open and the engine's events. */
enum status bench_speculate(const struct bench_options *options, FILE *out);
