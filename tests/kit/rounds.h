/* How often a test with random cases repeats them. tests/run takes the few, for its time is short;
 * tests/run --all sets BANYAN_TEST_ALL and takes all of them. */
#ifndef BANYAN_TESTS_KIT_ROUNDS_H
#define BANYAN_TESTS_KIT_ROUNDS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t rounds(uint32_t few, uint32_t all)
{
    return getenv("BANYAN_TEST_ALL") != NULL ? all : few;
}

#endif
