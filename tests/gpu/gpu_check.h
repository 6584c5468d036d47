/* gpu_check: what must hold in a program of checks; else it says where, and ends. */
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
