/* gpu_check: CHECK, a condition that a program of checks requires; if it does not hold, the program
 * says where and ends. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "config/base/status.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition,                     \
                    status_note()->message);                                                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
