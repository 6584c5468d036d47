/* bench_speculate: what guessing ahead gives one stream of the whole engine, and what it costs.
 *
 * Owns:     nothing after it returns; two engines meanwhile, with guesses and without.
 * Thread:   one caller.
 * Cost:     twice the model and its pages; 1 + --repeat answers of --gen tokens a kind and engine.
 * Not here: several streams, real text, the server (tests/bench/speculation_bench.py).
 *
 * Two kinds of token prompts, asked in turns of both engines, so that a machine that drifts treats
 * both alike: `copy`, a passage that the model itself has made, said again and again, continued by
 * the likeliest token; and `fresh`, random ids continued with noise enough to repeat nothing.
 */
#pragma once

#include <stdio.h>

#include "engine/bench/bench_report.h"

/* A table, or with options->is_json an object. OUT_OF_RANGE when the model's context is too short;
 * CORRUPT when an answer is not the one without guesses; else what engine_open and answers say. */
enum status bench_speculate(const struct bench_options *options, FILE *out);
