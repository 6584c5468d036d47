/* admin_openapi: config/openapi.json, embedded in the program.
 *
 * Owns:     the bytes of the file, which the assembler includes at build time.
 * Thread:   any.
 * Cost:     none.
 * Not here: what the file says (config/openapi.json), who may read it (admin).
 */
#pragma once

#include "config/base/slice.h"

struct slice admin_openapi_file(void);
