/* model_path: where the real model file of the tests is.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     none.
 * Not here: fetching it (deploy).
 */
#pragma once

#include <stddef.h>

/* BANYAN_TEST_MODEL, else SmolLM2-135M-Instruct.Q4_1.gguf in BANYAN_CACHE, else in ~/.cache/banyan.
 * Tests that need the file fail without it. */
void model_path(char *out, size_t capacity);
